"""The bounds of elements of arguments that the program uses as indices of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from math import inf

from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, i1
from xdsl.ir import Block, BlockArgument, SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.torch import AtenOp
from dlc.ir.sizes import Size, apply

Bounds = tuple[Size, ...]
"""The least and the greatest index, and others that an argument may have in place of one."""

_BYTE = IntegerType(8, Signedness.UNSIGNED)
_SAME_ELEMENTS = frozenset(
    "adjoint alias atleast_1d atleast_2d atleast_3d clone contiguous detach detach_ expand "
    "expand_as flatten lift_fresh lift_fresh_copy mH mT matrix_H moveaxis movedim numpy_T permute "
    "ravel reshape reshape_as squeeze swapaxes swapdims t to to_copy transpose type_as unflatten "
    "unsafe_view unsqueeze view view_as view_copy".split()
)
"""Operations whose result has all elements of `self`, and no others."""


def index_bounds(program: Block) -> dict[BlockArgument, Bounds]:
    """
    The bounds of arguments that hold indices, of all reads and writes in a block of Torch IR. An
    index that is computed is not followed; nor is one of which only a part is used.
    """
    bounds: dict[BlockArgument, Bounds] = {}
    for op in program.ops:
        if not isinstance(op, AtenOp) or any(0 in shape_of(r) for r in op.results):
            continue
        for value, (low, high) in _indices(op):
            argument, *others = _origin(value)
            if argument is not None and 0 not in shape_of(value):
                known_low, known_high, *known = bounds.get(argument, (low, high))
                others = dict.fromkeys((*known, *map(Size.of, others)))
                bounds[argument] = (
                    apply("max", low, known_low),
                    apply("min", high, known_high),
                    *others,
                )
    return bounds


def _indices(op: AtenOp) -> Iterator[tuple[SSAValue, tuple[Size, Size]]]:
    """The operands of an operation that are indices."""
    match op.overload.data.partition(".")[0].lstrip("_"):
        case "embedding":
            yield from _along(op, "indices", "weight", 0)
        case (
            "index_select" | "gather" | "scatter" | "scatter_add" | "scatter_reduce"
            | "index_reduce"
        ):  # fmt: skip
            yield from _along(op, "index", "self", op.argument("dim"))
        case "one_hot":
            yield op.operands[0], _from_front(Size.of(shape_of(op.results[0])[-1]))
        case "take" | "put":
            count = reduce(Size.__mul__, _extents(op.operands[0]), Size.of(1))
            yield from ((v, _of(count)) for v in [op.operand("index")] if v is not None)
        case "index" | "index_put" | "unsafe_index" | "unsafe_index_put":
            given, extents = op.operand_list("indices"), _extents(op.operands[0])
            # A mask takes several dimensions.
            if not any(v is not None and element_of(v) in (i1, _BYTE) for v in given):
                found = [(v, n) for v, n in zip(given, extents, strict=False) if v is not None]
                unsafe = op.overload.data.startswith("_unsafe")  # counts from the front
                bounds = _from_front if unsafe else _of
                yield from ((value, bounds(n)) for value, n in found)


def _extents(value: SSAValue) -> tuple[Size, ...]:
    assert isinstance(value.type, TensorType)
    return tuple(map(Size.of, shape_of(value)))


def _of(count: Size) -> tuple[Size, Size]:
    """Of so many elements: an index may count from the end."""
    return count * -1, count - 1


def _from_front(count: Size) -> tuple[Size, Size]:
    return Size.of(0), count - 1


def _along(
    op: AtenOp, index: str, source: str, dim: object
) -> Iterator[tuple[SSAValue, tuple[Size, Size]]]:
    """An index that counts from the front of one dimension."""
    value, indexed = op.operand(index), op.operand(source)
    if value is not None and indexed is not None and isinstance(dim, int):
        extents = _extents(indexed) or (Size.of(1),)
        yield value, _from_front(extents[dim])


def _origin(value: SSAValue) -> tuple[BlockArgument | None, *tuple[int, ...]]:
    """
    The argument that has the same elements, and which of its elements another index takes the place
    of, as losses ignore a class; None for masks and for what is computed.
    """
    others: list[int] = []
    while isinstance(op := value.owner, AtenOp):
        name = op.overload.data.lstrip("_")
        ignored = _ignored(op) if name.startswith("where.") else None
        if ignored is not None:
            value, other = ignored
            others.append(other)
            continue
        if (
            name.partition(".")[0] not in _SAME_ELEMENTS
            or name == "view.dtype"
            or _width(op.operands[0]) > _width(value)
        ):
            return (None,)
        value = op.operands[0]
    if isinstance(value, BlockArgument) and 1 < _width(value) < inf:
        return (value, *others)
    return (None,)


def _ignored(op: AtenOp) -> tuple[SSAValue, int] | None:
    """Of `where(x != n, x, …)`, x and n."""
    condition, value = op.operand("condition"), op.operand("self")
    test = None if condition is None else condition.owner
    if isinstance(test, AtenOp) and test.overload.data == "ne.Scalar":
        other = test.argument("other")
        if value is not None and test.operand("self") == value and isinstance(other, int):
            return value, other
    return None


def _width(value: SSAValue) -> float:
    """In bits; infinite for what is no integer with a sign."""
    element = element_of(value)
    return element.width.data if isinstance(element, IntegerType) and element != _BYTE else inf

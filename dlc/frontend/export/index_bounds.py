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

Bounds = tuple[Size, Size]
"""Inclusive."""

_BYTE = IntegerType(8, Signedness.UNSIGNED)
_SAME_ELEMENTS = frozenset(
    "alias clone contiguous detach detach_ expand flatten lift_fresh lift_fresh_copy permute "
    "reshape squeeze t to to_copy transpose unsafe_view unsqueeze view view_copy".split()
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
            argument = _origin(value)
            if argument is not None and 0 not in shape_of(value):
                known_low, known_high = bounds.get(argument, (low, high))
                bounds[argument] = apply("max", low, known_low), apply("min", high, known_high)
    return bounds


def _indices(op: AtenOp) -> Iterator[tuple[SSAValue, Bounds]]:
    """The operands of an operation that are indices."""
    match op.overload.data.partition(".")[0].lstrip("_"):
        case "embedding":
            yield from _along(op, "indices", "weight", 0)
        case "index_select" | "gather" | "scatter" | "scatter_add" | "scatter_reduce":
            yield from _along(op, "index", "self", op.argument("dim"))
        case "take":
            count = reduce(Size.__mul__, _extents(op.operands[0]), Size.of(1))
            yield from ((v, _of(count)) for v in [op.operand("index")] if v is not None)
        case "index" | "index_put" | "unsafe_index" | "unsafe_index_put":
            given, extents = op.operand_list("indices"), _extents(op.operands[0])
            # A mask takes several dimensions.
            if not any(v is not None and element_of(v) in (i1, _BYTE) for v in given):
                found = ((v, n) for v, n in zip(given, extents, strict=False) if v is not None)
                yield from ((value, _of(n)) for value, n in found)


def _extents(value: SSAValue) -> tuple[Size, ...]:
    assert isinstance(value.type, TensorType)
    return tuple(map(Size.of, shape_of(value)))


def _of(count: Size) -> Bounds:
    """Of so many elements: an index may count from the end."""
    return count * -1, count - 1


def _along(op: AtenOp, index: str, source: str, dim: object) -> Iterator[tuple[SSAValue, Bounds]]:
    """An index that counts from the front of one dimension."""
    value, indexed = op.operand(index), op.operand(source)
    if value is not None and indexed is not None and isinstance(dim, int):
        extents = _extents(indexed) or (Size.of(1),)
        yield value, (Size.of(0), extents[dim] - 1)


def _origin(value: SSAValue) -> BlockArgument | None:
    """The argument that has the same elements; None for masks and for what is computed."""
    while isinstance(op := value.owner, AtenOp):
        name = op.overload.data.lstrip("_")
        if (
            name.partition(".")[0] not in _SAME_ELEMENTS
            or name == "view.dtype"
            or _width(op.operands[0]) > _width(value)
        ):
            return None
        value = op.operands[0]
    return value if isinstance(value, BlockArgument) and 1 < _width(value) < inf else None


def _width(value: SSAValue) -> float:
    """In bits; infinite for what is no integer with a sign."""
    element = element_of(value)
    return element.width.data if isinstance(element, IntegerType) and element != _BYTE else inf

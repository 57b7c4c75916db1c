"""Operations that only move elements: each is an index map."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

from xdsl.ir import SSAValue

from dlc.dialects.layouts import shape_of
from dlc.ir.expr import Expr
from dlc.ir.sizes import NeedsNumber, Size, apply
from dlc.transforms.tensor.decompositions.builder import dimension, dims, fixed
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower


def sliced(
    c: Lowering, value: SSAValue, dim: int, start: int, length: int, step: int = 1
) -> SSAValue:
    """`length` elements along `dim` from `start` on, every `step`-th."""
    shape = list(shape_of(value))
    shape[dim] = length
    subscripts = dims(len(shape))
    subscripts[dim] = subscripts[dim] * step + c.at(start)
    return c.move(value, subscripts, shape)


def permuted(c: Lowering, value: SSAValue, order: Sequence[int]) -> SSAValue:
    """Dimension d of the result is dimension `order[d]` of the tensor."""
    source = shape_of(value)
    subscripts = dims(len(source))
    for d, origin in enumerate(order):
        subscripts[origin] = dimension(d)
    return c.move(value, subscripts, [source[origin] for origin in order])


def concatenated(
    c: Lowering, values: Sequence[SSAValue], dim: int, shape: Sequence[int]
) -> SSAValue:
    """The tensors one after the other along `dim`."""
    if len(values) == 1:
        return values[0]
    ends = list(accumulate(shape_of(v)[dim] for v in values))
    subscripts, conditions = [], []
    for end, value in zip(ends, values, strict=True):
        source = dims(len(shape))
        source[dim] = source[dim] + c.at(shape_of(value)[dim] - end)
        subscripts.append(source)
        last = end == ends[-1]
        conditions.append([] if last else [c.at(end - 1) - dimension(dim)])
    return c.index_map(values, subscripts, shape, conditions)


@lower(
    "view", "_unsafe_view", "reshape", "view_copy", "flatten.using_ints", "unflatten.int",
    "view_as", "reshape_as", "_reshape_alias", "squeeze", "squeeze.dim", "squeeze.dims",
    "unsqueeze", "ravel", "atleast_1d", "atleast_2d", "atleast_3d",
)  # fmt: skip
def reshape(c: Lowering) -> Lowered:
    return c.reshape(c.tensor(), c.shape)


@lower(
    "clone", "alias", "detach", "contiguous", "lift", "lift_fresh", "lift_fresh_copy",
    "resolve_conj", "resolve_neg", "real",
)  # fmt: skip
def same(c: Lowering) -> Lowered:
    return c.tensor()


@lower("expand", "expand_as", "expand_copy", "broadcast_to")
def expand(c: Lowering) -> Lowered:
    return c.broadcast(c.tensor(), c.shape)


@lower("permute", "permute_copy")
def permute(c: Lowering) -> Lowered:
    rank = len(c.shape)
    return permuted(c, c.tensor(), [d % rank for d in c.integers("dims")])


@lower("numpy_T")
def reversed_(c: Lowering) -> Lowered:
    return permuted(c, c.tensor(), [*reversed(range(len(c.shape)))])


@lower("transpose.int", "t", "mT", "swapaxes", "swapdims", "adjoint", "t_copy")
def transpose(c: Lowering) -> Lowered:
    rank = len(c.shape)
    order = list(range(rank))
    if rank < 2:
        return c.tensor()
    names = ("axis0", "axis1") if "axis0" in c.op.arguments.data else ("dim0", "dim1")
    first, second = (c.dim(rank, name, d) for name, d in zip(names, (-2, -1), strict=True))
    order[first], order[second] = order[second], order[first]
    return permuted(c, c.tensor(), order)


def size_max(left: int, right: int) -> int:
    """The larger of two numbers or sizes."""
    found = apply("max", Size.of(left), Size.of(right))
    return found if found.number is None else found.number  # pyright: ignore[reportReturnType]


def slice_bounds(c: Lowering, extent: int) -> tuple[int, int]:
    """The start and step of a slice."""
    start = 0 if c.op.argument("start") is None else c.sized_integer("start")
    if c.is_negative(start):
        start = size_max(start + extent, 0)
    return start, c.integer("step", 1)


@lower("slice.Tensor", "slice_copy.Tensor")
def slice_(c: Lowering) -> Lowered:
    value = c.tensor()
    dim = c.dim(len(c.shape), "dim", 0)
    start, step = slice_bounds(c, shape_of(value)[dim])
    return sliced(c, value, dim, start, c.shape[dim], step)


@lower("narrow", "narrow_copy")
def narrow(c: Lowering) -> Lowered:
    value = c.tensor()
    dim = c.dim(len(c.shape))
    return sliced(c, value, dim, _counted(c, "start", shape_of(value)[dim]), c.shape[dim])


def _counted(c: Lowering, name: str, extent: int) -> int:
    """An index that may count from the end, counted from the front."""
    index = c.sized_integer(name)
    return index + extent if c.is_negative(index) else index


def _without(c: Lowering, value: SSAValue, dim: int, index: int) -> list[Expr]:
    """Subscripts that read at `index` along `dim`, which the result lacks."""
    subscripts = dims(len(shape_of(value)) - 1)
    subscripts.insert(dim, c.at(index))
    return subscripts


@lower("select.int", "select_copy.int")
def select(c: Lowering) -> Lowered:
    value = c.tensor()
    dim = c.dim(len(shape_of(value)))
    index = _counted(c, "index", shape_of(value)[dim])
    return c.move(value, _without(c, value, dim, index), c.shape)


@lower("unbind.int", "unbind_copy.int")
def unbind(c: Lowering) -> Lowered:
    value = c.tensor()
    dim = c.dim(len(shape_of(value)), "dim", 0)
    return [c.move(value, _without(c, value, dim, n), c.shape) for n in range(len(c.op.results))]


@lower(
    "split.Tensor", "split.sizes", "split_with_sizes", "chunk", "unsafe_split.Tensor",
    "split_copy.Tensor", "split_with_sizes_copy", "unsafe_chunk", "tensor_split.sections",
    "tensor_split.indices", "unsafe_split_with_sizes",
)  # fmt: skip
def split(c: Lowering) -> Lowered:
    value = c.tensor()
    dim = c.dim(len(c.shape), "dim", 0)
    lengths = [shape_of(r)[dim] for r in c.op.results]
    starts = [0, *accumulate(lengths)]
    return [sliced(c, value, dim, *part) for part in zip(starts, lengths, strict=False)]


@lower("cat", "concat", "concatenate")
def cat(c: Lowering) -> Lowered:
    dim = c.dim(len(c.shape), "dim", 0)
    # A tensor of shape [0] may stand beside tensors of any rank.
    alike = [v for v in c.tensors() if len(shape_of(v)) == len(c.shape)]
    values = [v for v in alike if shape_of(v)[dim] != 0] or alike[:1]
    return concatenated(c, [c.cast(v, c.element) for v in values], dim, c.shape)


@lower("stack")
def stack(c: Lowering) -> Lowered:
    rank = len(c.shape)
    dim = c.dim(rank, "dim", 0)
    values = [c.cast(v, c.element) for v in c.tensors()]
    subscripts = [e for d, e in enumerate(dims(rank)) if d != dim]
    conditions = [[fixed(n) - dimension(dim)] for n in range(len(values) - 1)]
    return c.index_map(values, [subscripts] * len(values), c.shape, [*conditions, []])


@lower("flip")
def flip(c: Lowering) -> Lowered:
    subscripts = dims(len(c.shape))
    for dim in c.integers("dims") if subscripts else []:  # 0 names a dimension of a scalar, too
        dim %= len(subscripts)
        subscripts[dim] = c.at(c.shape[dim] - 1) - subscripts[dim]
    return c.move(c.tensor(), subscripts, c.shape)


@lower("roll")
def roll(c: Lowering) -> Lowered:
    value, shape = c.tensor(), c.shape
    if 0 in shape:
        return value
    shifts, axes = c.integers("shifts"), c.integers("dims", [])
    if not axes:
        size = [prod(shape)]
        flat = c.reshape(value, size)
        rolled = c.move(flat, [_wrapped(0, shifts[0], size[0])], size)
        return c.reshape(rolled, shape)
    totals: dict[int, int] = {}
    for dim, shift in zip(axes, shifts, strict=True):
        totals[dim % len(shape)] = totals.get(dim % len(shape), 0) + shift
    subscripts = dims(len(shape))
    for dim, shift in totals.items():
        if isinstance(shape[dim], Size):
            value = _rolled(c, value, dim, shift)
        else:
            subscripts[dim] = _wrapped(dim, shift, shape[dim])
    return c.move(value, subscripts, shape)


def _rolled(c: Lowering, value: SSAValue, dim: int, shift: int) -> SSAValue:
    """
    Elements moved along a dimension that is a size, what leaves it at one end coming in at the
    other; NeedsNumber where the size may be less than the shift.
    """
    extent = shape_of(value)[dim]
    if c.is_negative(extent - abs(shift)):
        raise NeedsNumber(Size.of(extent))
    before, after = dims(len(c.shape)), dims(len(c.shape))
    before[dim] = before[dim] + c.at(extent - shift if shift > 0 else -shift)
    after[dim] = after[dim] - c.at(shift if shift > 0 else extent + shift)
    last = c.at((shift if shift > 0 else extent + shift) - 1) - dimension(dim)
    return c.index_map([value] * 2, [before, after], c.shape, [[last], []], hint=value.name_hint)


def _wrapped(dim: int, shift: int, extent: int) -> Expr:
    """`(dim - shift) mod extent`, of a sum that is not negative."""
    back = -shift % extent
    return (dimension(dim) + back) % extent if back else dimension(dim)


@lower("repeat", "tile")
def repeat(c: Lowering) -> Lowered:
    """Each dimension stands beside one that counts how often it is repeated."""
    value = c.tensor()
    first = len(c.shape) - len(shape_of(value))
    subscripts: list[Expr] = []
    apart: list[int] = []
    for extent, repeated in zip((*[1] * first, *shape_of(value)), c.shape, strict=True):
        alone = extent in (0, 1, repeated)
        if not alone:
            apart.append(repeated // extent)
        subscripts.append(fixed(0) if extent in (0, 1) else dimension(len(apart)))
        apart.append(repeated if alone else extent)
    return c.reshape(c.move(value, subscripts[first:], apart), c.shape)


@lower("diagonal", "diagonal_copy", "linalg_diagonal")
def diagonal(c: Lowering) -> Lowered:
    value = c.tensor()
    rank = len(shape_of(value))
    # `diag` of a matrix calls its offset a diagonal.
    offset = c.integer("offset", c.integer("diagonal", 0))
    first, second = c.dim(rank, "dim1", 0), c.dim(rank, "dim2", 1)
    along = dimension(rank - 2)
    rest = iter(dims(rank - 2))
    subscripts = [
        along + max(-offset, 0)
        if d == first
        else along + max(offset, 0)
        if d == second
        else next(rest)
        for d in range(rank)
    ]
    return c.move(value, subscripts, c.shape)


@lower("unfold")
def unfold(c: Lowering) -> Lowered:
    value, rank = c.tensor(), len(c.shape)
    if not shape_of(value):
        return c.reshape(value, c.shape)
    dim = c.dim(rank - 1, "dimension")
    subscripts = dims(rank - 1)
    within = dimension(rank - 1)
    subscripts[dim] = subscripts[dim] * c.integer("step") + within
    return c.move(value, subscripts, c.shape)


@lower("copy")
def copy(c: Lowering) -> Lowered:
    return c.broadcast(c.cast(c.tensor("src"), c.element), c.shape)

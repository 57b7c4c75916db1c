"""Pooling: a fold over windows of space, which are index maps of the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import AnyFloat, i64
from xdsl.ir import SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.tensor_ir import ReduceOp
from dlc.ir.expr import Expr
from dlc.ir.sizes import Size, divides
from dlc.transforms.tensor.decompositions.builder import dims
from dlc.transforms.tensor.decompositions.folds import identity
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.reductions import finish
from dlc.transforms.tensor.decompositions.scalar import Number, Scalar


@dataclass(frozen=True)
class Window:
    """
    The windows along one dimension of `extent` points, `padding` more on either side. Window `i`
    has `size` points, `dilation` apart, from `i * stride - padding` on; of an adaptive window,
    into which `count` of them divide the dimension, some points may belong to the next one. With
    `ceil` the last one may reach beyond the padding, and otherwise none does.
    """

    extent: int
    count: int
    size: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    ceil: bool = False
    adaptive: bool = False

    @staticmethod
    def dividing(extent: int, count: int) -> Window:
        """`count` windows that cover a dimension, each the smallest that holds its share."""
        if count and divides(count, extent):
            each = extent // count
            return Window(extent, count, each, each if count > 1 else 1)
        sizes = [-(-(i + 1) * extent // count) - i * extent // count for i in range(count)]
        return Window(extent, count, max(sizes, default=1), adaptive=True)

    def read(self, c: Lowering, i: Expr, k: Expr) -> tuple[Expr, list[Expr]]:
        """The point `k` of window `i`, and the conditions under which it counts."""
        if self.adaptive:
            first = i * self.extent // self.count
            end = (i * self.extent + (self.extent + self.count - 1)) // self.count
            return first + k, [end - first - k - 1]
        point = i * self.stride + k * self.dilation - self.padding
        where = [point] if self.padding else []
        where += [c.at(self.extent - 1) - point] if self.ends_beyond(0) else []
        return point, where

    def ends_beyond(self, padding: int) -> bool:
        """True if the last window may reach beyond so many points of padding."""
        if padding >= self.padding and not self.ceil:
            return False
        last = (self.count - 1) * self.stride + (self.size - 1) * self.dilation - self.padding
        beyond = Size.of(last - self.extent - padding).number
        return beyond is None or beyond >= 0

    def uniform(self, with_padding: bool) -> bool:
        """True if all windows have the same number of points."""
        even = not self.ends_beyond(self.padding) and (with_padding or not self.padding)
        return even and not self.adaptive

    def points(self, i: Scalar, with_padding: bool) -> Scalar:
        """The number of points of window `i`, with those of the padding or without."""
        if self.adaptive:
            end = (i * self.extent + (self.extent + self.count - 1)) / self.count
            return end - i * self.extent / self.count
        begin = i * self.stride - self.padding
        end = begin + self.size
        if with_padding:
            return end.minimum(self.extent + self.padding) - begin
        return end.minimum(self.extent) - begin.maximum(0)


def windows_of(c: Lowering, rank: int) -> list[Window]:
    """The windows that the arguments `kernel_size`, `stride`, … of an operation describe."""

    def per_dimension(name: str, default: list[int]) -> list[int]:
        given = c.integers(name, default) or default
        return given * rank if len(given) == 1 else given

    size = per_dimension("kernel_size", [])
    rows = (size, per_dimension("stride", size), per_dimension("padding", [0]),
            per_dimension("dilation", [1]))  # fmt: skip
    extents, counts = shape_of(c.tensor())[-rank:], c.shape[-rank:]
    ceil = c.flag("ceil_mode")
    return [Window(*row, ceil=ceil) for row in zip(extents, counts, *rows, strict=True)]


def dividing(c: Lowering, rank: int) -> list[Window]:
    """The windows of an adaptive pooling."""
    extents = zip(shape_of(c.tensor())[-rank:], c.shape[-rank:], strict=True)
    return [Window.dividing(*pair) for pair in extents]


def spread(
    c: Lowering, windows: list[Window], value: SSAValue, shape: Sequence[int], fill: Number
) -> SSAValue:
    """The points of each window, over `[shape…, point…]`; those that do not count are `fill`."""
    space = len(windows)
    shape = [*shape, *(w.size for w in windows)]
    axes = dims(len(shape))
    outer, places, offsets = axes[: -2 * space], axes[-2 * space : -space], axes[-space:]
    points: list[Expr] = []
    where: list[Expr] = []
    for window, i, k in zip(windows, places, offsets, strict=True):
        point, conditions = window.read(c, i, k)
        points.append(point)
        where += conditions
    return c.move(value, [*outer, *points], shape, where, fill if where else None)


def folded(c: Lowering, windows: list[Window], monoid: str, fill: Number) -> SSAValue:
    """The fold of each window."""
    read = spread(c, windows, c.wide(c.tensor()), c.shape, fill)
    return c.reduce(monoid, range(len(c.shape), len(c.shape) + len(windows)), read, hint=monoid)


def located(c: Lowering, windows: list[Window]) -> Lowered:
    """The largest of each window, and its index in its plane; of several NaNs that of the last."""
    value, space = c.wide(c.tensor()), len(windows)
    plane = [w.extent for w in windows]
    index = c.reshape(c.iota(0, [prod(plane)]), plane)
    read = spread(c, windows, value, c.shape, identity("max", element_of(value)))
    shape = shape_of(read)
    # Equal points have the first index, so one that does not count has the largest.
    index = spread(c, windows, index, c.shape[-space:], 2**63 - 1)
    index = c.move(index, dims(len(shape))[len(c.shape) - space :], shape)
    axes = range(len(c.shape), len(shape))
    if floats := isinstance(element_of(value), AnyFloat):
        # Of equal ones the fold takes the least: so NaNs count down.
        index = c.elementwise(
            lambda x, i: x.is_nan().select(-1 - i, i), read, index, element=i64, shape=shape
        )
    best = c.insert(ReduceOp("argmax", list(axes), [read, index]), "max").owner
    largest, at = best.results  # pyright: ignore[reportAttributeAccessIssue]
    if floats:
        at = c.elementwise(lambda i: (i < 0).select(-1 - i, i), at)
    return [finish(c, largest), finish(c, at, result=1)]


def averaged(
    c: Lowering, windows: list[Window], with_padding: bool = True, divisor: Number | None = None
) -> SSAValue:
    """The mean of each window, or its sum divided by `divisor`."""
    rank = len(c.shape)
    sums = folded(c, windows, "add", 0)
    even = [divisor is not None or w.uniform(with_padding) for w in windows]
    constant = divisor or prod(w.size for w, same in zip(windows, even, strict=True) if same)
    uneven = [w for w, same in zip(windows, even, strict=True) if not same]
    if not uneven:
        return finish(c, sums, lambda x: x / constant)
    first = rank - len(windows)
    indices = [c.iota(first + n, c.shape) for n, same in enumerate(even) if not same]

    def function(x: Scalar, *places: Scalar) -> Scalar:
        points = places[0].of(constant)
        for window, i in zip(uneven, places, strict=True):
            points = points * window.points(i, with_padding)
        return x / points.to(x.element)

    return c.elementwise(function, sums, *indices, element=c.element)


def max_pool(rank: int) -> None:
    @lower(f"max_pool{rank}d")
    def decomposition(c: Lowering) -> Lowered:
        lowest = identity("max", element_of(c.wide(c.tensor())))
        return finish(c, folded(c, windows_of(c, rank), "max", lowest))

    if rank > 1:
        lower(f"max_pool{rank}d_with_indices")(lambda c: located(c, windows_of(c, rank)))
        lower(f"adaptive_max_pool{rank}d")(lambda c: located(c, dividing(c, rank)))


def avg_pool(rank: int) -> None:
    @lower(f"avg_pool{rank}d")
    def decomposition(c: Lowering) -> Lowered:
        with_padding = c.flag("count_include_pad", True)
        divisor = c.optional_number("divisor_override")
        return averaged(c, windows_of(c, rank), with_padding, divisor)


def adaptive_avg_pool(rank: int) -> None:
    @lower(f"adaptive_avg_pool{rank}d", *([f"_adaptive_avg_pool{rank}d"] if rank > 1 else []))
    def decomposition(c: Lowering) -> Lowered:
        return averaged(c, dividing(c, rank))


for _rank in (1, 2, 3):
    max_pool(_rank)
    avg_pool(_rank)
    adaptive_avg_pool(_rank)

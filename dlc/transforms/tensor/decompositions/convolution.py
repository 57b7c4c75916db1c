"""
Convolutions as contractions: the input is read at the points of each window, and the products with
the weight are summed over the channels of a group and the points of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from xdsl.ir import SSAValue

from dlc.dialects.layouts import shape_of
from dlc.ir.expr import Expr
from dlc.ir.sizes import ceildiv
from dlc.transforms.tensor.decompositions.builder import dimension, dims, fixed
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.products import added_to, contract


@dataclass(frozen=True)
class Dimension:
    """A dimension of space: extents of the input, the window and the result, and how they meet."""

    extent: int
    window: int
    outputs: int
    stride: int
    padding: int
    dilation: int
    transposed: bool

    @property
    def classes(self) -> int:
        """
        The number of classes of places, apart by as many: those of a class of a transposed
        convolution meet the same points of the window, one in `step`, and no others.
        """
        return self.stride if self.transposed else 1

    @property
    def common(self) -> int:
        """What divides the distances of all points of the window that a place meets or not."""
        return gcd(self.dilation, self.classes)

    @property
    def step(self) -> int:
        """The distance of the points of the window that a place meets."""
        return self.classes // self.common

    @property
    def offsets(self) -> int:
        """The most points of the window that a place meets."""
        return -(-self.window // self.step)

    @property
    def shape(self) -> list[int]:
        """The extents of the axes of places: of those of a class, and of the classes."""
        split = [ceildiv(self.outputs, self.classes), self.classes]
        return split if self.classes > 1 else [self.outputs]

    def split(self, place: Expr) -> list[Expr]:
        """A place of the result on these axes."""
        return [place // self.classes, place % self.classes] if self.classes > 1 else [place]

    def tap(self, place: Sequence[Expr], offset: Expr) -> tuple[Expr, Expr, list[Expr]]:
        """
        The points of the window and of the input that meet at a place at one of its offsets, and
        the conditions on which the two do.

        Of a transposed convolution, at place `o = n * stride + class`, these are the points `t` and
        `i` with `o + padding = i * stride + t * dilation`; `t` is a multiple of `step` from the
        first that leaves a multiple of the stride.
        """
        if self.classes == 1:
            point = place[0] * self.stride + offset * self.dilation - self.padding
            if self.transposed:
                point = place[0] - offset * self.dilation + self.padding
            return offset, point, []
        shifted = place[1] + self.padding
        inverse = pow(self.dilation // self.common, -1, self.step)
        first = (shifted // self.common * inverse) % self.step
        rest = (shifted - first * self.dilation) // self.stride
        if self.dilation == 1:
            rest = shifted // self.stride
        tap = first + offset * self.step
        where = [fixed(self.window - 1) - tap] if self.window % self.step else []
        where += [(shifted % self.common) * -1] if self.common > 1 else []
        return tap, place[0] + rest - offset * (self.dilation // self.common), where

    def inside(self, c: Lowering, point: Expr) -> list[Expr]:
        """The conditions on which a point lies in the input."""
        if self.padding or self.transposed:
            return [point, c.at(self.extent - 1) - point]
        return []


@dataclass
class Convolution:
    """
    The operands of a convolution and its axes: `[batch, channel, place…]` of the result, then
    those that are summed over, the channels of a group and the offsets in a window, the longest
    last, since that is the one that a schedule takes in chunks.
    """

    c: Lowering
    transposed: bool

    @cached_property
    def weight(self) -> SSAValue:
        return self.c.tensor("weight")

    @cached_property
    def rank(self) -> int:
        """The number of dimensions of space."""
        return len(shape_of(self.weight)) - 2

    @cached_property
    def dimensions(self) -> list[Dimension]:
        """The dimensions of space."""
        columns = zip(
            shape_of(self.c.tensor("input"))[-self.rank :],
            shape_of(self.weight)[2:],
            self.c.shape[-self.rank :],
            self.per_dimension("stride", 1),
            self.per_dimension("padding", 0),
            self.per_dimension("dilation", 1),
            strict=True,
        )
        return [
            Dimension(extent, window, outputs, stride, padding, dilation, self.transposed)
            for extent, window, outputs, stride, padding, dilation in columns
        ]

    @cached_property
    def groups(self) -> int:
        return self.c.integer("groups", 1)

    def per_dimension(self, name: str, default: int) -> list[int]:
        """An argument with one number per dimension of space, or one for all."""
        given = self.c.integers(name, [default])
        return given * self.rank if len(given) == 1 else given

    def product(self) -> SSAValue:
        """The sums of the products of input and weight, not yet rounded."""
        c, value = self.c, self.c.tensor("input")
        inputs, outputs = shape_of(value)[-self.rank - 1], c.shape[-self.rank - 1]
        inner_extent, per_group = inputs // self.groups, outputs // self.groups
        offset_extents = [d.offsets for d in self.dimensions]
        summed = sorted([inner_extent, *offset_extents])
        batches = len(c.shape) - self.rank - 1
        # Groups are products beside each other: an axis of their own, as of a batch.
        apart = self.groups > 1 and per_group > 1
        channels = [self.groups, per_group] if apart else [outputs]
        result = [*c.shape[:batches], *channels, *(n for d in self.dimensions for n in d.shape)]
        shape = [*result, *summed]
        axes = dims(len(shape))
        batch, channel = axes[:batches], axes[batches]
        inner, *offsets = _in_order([inner_extent, *offset_extents], axes[len(result) :])
        places = axes[batches + len(channels) : len(result)]
        taps, points, where, inside = self.meet(places, offsets)
        source = inner if self.groups == 1 else channel * inner_extent + inner
        own = axes[batches + 1] if apart else fixed(0) if self.groups > 1 else channel
        filter = channel * per_group + own if apart else channel
        read = [source, own, *taps] if self.transposed else [filter, inner, *taps]
        inside += where
        window = c.move(value, [*batch, source, *points], shape, inside, 0 if inside else None)
        weight = c.move(self.weight, read, shape, where, 0 if where else None)
        sums = contract(c, window, weight, axes, axes, shape, 1 + self.rank)
        own_channel = dimension(batches)
        at = [own_channel // per_group, own_channel % per_group] if apart else [own_channel]
        for n, d in enumerate(self.dimensions, batches + 1):
            at += d.split(dimension(n))
        return c.move(sums, [*dims(batches), *at], c.shape)

    def meet(
        self, places: Sequence[Expr], offsets: Sequence[Expr]
    ) -> tuple[list[Expr], list[Expr], list[Expr], list[Expr]]:
        """
        The points of the window and of the input that meet, the conditions on which they do, and
        those on which the latter lie in the input.
        """
        rest = iter(places)
        taps: list[Expr] = []
        points: list[Expr] = []
        where: list[Expr] = []
        inside: list[Expr] = []
        for d, offset in zip(self.dimensions, offsets, strict=True):
            tap, point, conditions = d.tap([next(rest) for _ in d.shape], offset)
            taps.append(tap)
            points.append(point)
            where += conditions
            inside += d.inside(self.c, point)
        return taps, points, where, inside


def _in_order(extents: Sequence[int], axes: Sequence[Expr]) -> list[Expr]:
    """For each of several extents its axis, where the axes have them in ascending order."""
    order = sorted(range(len(extents)), key=extents.__getitem__)
    return [axes[order.index(n)] for n in range(len(extents))]


@lower("conv1d", "conv2d", "conv3d", "convolution")
def convolution(c: Lowering) -> Lowered:
    return _with_bias(c, c.flag("transposed"))


@lower("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input")
def transposed_convolution(c: Lowering) -> Lowered:
    return _with_bias(c, True)


def _with_bias(c: Lowering, transposed: bool) -> Lowered:
    call = Convolution(c, transposed)
    bias = c.op.operand("bias")
    if bias is not None:
        bias = c.reshape(bias, [*shape_of(bias), *(1 for _ in range(call.rank))])
    return added_to(c, call.product(), bias)

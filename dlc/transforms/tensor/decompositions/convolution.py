"""
Convolutions as contractions: the input is read at the points of each window, and the products with
the weight are summed over the channels of a group and the points of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import SSAValue

from dlc.dialects.layouts import shape_of
from dlc.ir.expr import Expr
from dlc.transforms.tensor.decompositions.builder import dims, fixed
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.products import added_to, contract


@dataclass
class Convolution:
    """
    The operands of a convolution and its axes: `[batch, channel, place…]` of the result, then
    those that are summed over, the channels of a group and the offsets in a window, the longest
    last, since that is the one that a schedule takes in chunks.
    """

    c: Lowering

    @cached_property
    def weight(self) -> SSAValue:
        return self.c.tensor("weight")

    @cached_property
    def rank(self) -> int:
        """The number of dimensions of space."""
        return len(shape_of(self.weight)) - 2

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """The spatial extents of the input."""
        return shape_of(self.c.tensor("input"))[-self.rank :]

    @cached_property
    def groups(self) -> int:
        return self.c.integer("groups", 1)

    def per_dimension(self, name: str, default: int) -> list[int]:
        """An argument with one number per dimension of space, or one for all."""
        given = self.c.integers(name, [default])
        return given * self.rank if len(given) == 1 else given

    def product(self, transposed: bool) -> SSAValue:
        """The sums of the products of input and weight, not yet rounded."""
        c, value = self.c, self.c.tensor("input")
        inputs, outputs = shape_of(value)[-self.rank - 1], c.shape[-self.rank - 1]
        inner_extent, per_group = inputs // self.groups, outputs // self.groups
        window_extents = shape_of(self.weight)[2:]
        summed = sorted([inner_extent, *window_extents])
        batches = len(c.shape) - self.rank - 1
        # Groups are products beside each other: an axis of their own, as of a batch.
        apart = self.groups > 1 and per_group > 1
        channels = [self.groups, per_group] if apart else [outputs]
        result = [*c.shape[:batches], *channels, *c.shape[batches + 1 :]]
        shape = [*result, *summed]
        axes = dims(len(shape))
        batch, places = axes[:batches], axes[batches + len(channels) : len(result)]
        channel = axes[batches]
        inner, *offsets = _in_order([inner_extent, *window_extents], axes[len(result) :])
        source = inner if self.groups == 1 else channel * inner_extent + inner
        own = axes[batches + 1] if apart else fixed(0) if self.groups > 1 else channel
        filter = channel * per_group + own if apart else channel
        points, where = self.points(places, offsets, transposed)
        window = c.move(value, [*batch, source, *points], shape, where, 0 if where else None)
        read = [source, own, *offsets] if transposed else [filter, inner, *offsets]
        sums = contract(c, window, self.weight, axes, read, shape, 1 + self.rank)
        return c.reshape(sums, c.shape) if apart else sums

    def points(
        self, places: list[Expr], offsets: list[Expr], transposed: bool
    ) -> tuple[list[Expr], list[Expr]]:
        """The windows' points in the input, and the conditions on which they lie in it."""
        points: list[Expr] = []
        where: list[Expr] = []
        for place, offset, extent, stride, padding, dilation in zip(
            places,
            offsets,
            self.extents,
            self.per_dimension("stride", 1),
            self.per_dimension("padding", 0),
            self.per_dimension("dilation", 1),
            strict=True,
        ):
            if transposed:
                point = place - offset * dilation + padding
                where += [point, fixed((extent - 1) * stride) - point]
                if stride > 1:
                    where.append((point % stride) * -1)
                points.append(point // stride if stride > 1 else point)
                continue
            point = place * stride + offset * dilation - padding
            where += [point, fixed(extent - 1) - point] if padding else []
            points.append(point)
        return points, where


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
    call = Convolution(c)
    bias = c.op.operand("bias")
    if bias is not None:
        bias = c.reshape(bias, [*shape_of(bias), *(1 for _ in range(call.rank))])
    return added_to(c, call.product(transposed), bias)

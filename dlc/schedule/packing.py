"""
Operands of contractions that lie against the grain: neighbours that a block fetches together are
apart in memory, as the weights of a convolution are, whose points of a window lie between channels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from math import ceil, prod

from xdsl.dialects import arith
from xdsl.ir import BlockArgument, SSAValue

from dlc.dialects import loop
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of
from dlc.schedule.contraction_tiles import is_wide, tiled_contraction
from dlc.target import BANK_BYTES, WIDEST_ACCESS, Target

MOST_POINTS = 4 / 3
"""Points of axes for one of a dimension that they go through, at most: 4 where a transposed
convolution meets 3 weights in turns of 2; windows that overlap would be stored again and again."""


@dataclass(frozen=True)
class Packing:
    """How an operand is laid out as blocks fetch it."""

    load: loop.LoadOp
    """The only use of an input in its kernel."""
    axes: tuple[BlockArgument, ...]
    """The axes along which it varies, a dimension for each: that of rows or columns is the last, or
    K where warpgroups multiply."""
    extents: tuple[int, ...]
    """Of the dimensions; the last is a multiple of 16 bytes."""

    def among(self, copies: Mapping[SSAValue, SSAValue]) -> Packing:
        """The same of a copy of the kernel, whose values are copies of its own."""
        load, axes = copies[self.load.result].owner, [copies[axis] for axis in self.axes]
        assert isinstance(load, loop.LoadOp)
        return Packing(load, tuple(a for a in axes if isinstance(a, BlockArgument)), self.extents)


@dataclass(frozen=True)
class Kept:
    """An operand that cannot be packed."""

    load: loop.LoadOp
    why: str
    """What is so of it, after its name."""


def scattered_operands(kernel: loop.KernelOp, target: Target) -> list[Packing | Kept]:
    """
    The operands of a contraction of which 16 bytes cannot be fetched at once, along rows, columns
    or K, and of a product in tf32 the only one of which not along K, as warpgroups read f32. Those
    can be packed which are the only use of an input that the kernel does not write, at places that
    follow from its axes alone, and have about as many elements as this. None of a kernel with
    sizes: how blocks fetch is known for numbers only.
    """
    if not all(isinstance(n, int) for ref in kernel.refs for n in shape_of(ref.type)):
        return []
    tiled = tiled_contraction(kernel)
    if tiled is None or not tiled.is_chunked:
        return []
    reduce, tensor = tiled.found.reduce, tiled.problem.tensor
    k, extents = reduce.axes[-1], {a: op.extent(a) for op in (tiled.outer, reduce) for a in op.axes}
    across = [load for load in tiled.chunked if not is_wide(load, (k,))]
    by_groups = target.precision == "tf32" and target.has("wgmma") and tensor is not None
    by_groups &= len(across) == 1 == len(reduce.axes)
    found: list[Packing | Kept] = []
    for load, varies in tiled.chunked.items():
        own = [axis for axis in (tiled.row, tiled.column) if axis in varies]
        f32 = by_groups and element_bytes(load.result.type) == BANK_BYTES
        if len(own) != 1 or k not in varies or is_wide(load, (k,) if f32 else (*own, k)):
            continue
        points = {axis: n for axis, n in extents.items() if axis in varies}
        if why := obstacle(
            load, points, extents.keys(), written=load.ref not in kernel.constant_refs
        ):
            found.append(Kept(load, why))
            continue
        run = max(WIDEST_ACCESS // element_bytes(load.result.type), 1)
        inner = (*own, k) if f32 and points[k] % run == 0 else (k, *own)
        if is_wide(load, inner[1:]):
            continue
        axes = (*(axis for axis in points if axis not in inner), *inner)
        last = ceil(points[axes[-1]] / run) * run
        found.append(Packing(load, axes, (*(points[axis] for axis in axes[:-1]), last)))
    return found


def obstacle(
    load: loop.LoadOp,
    points: Mapping[BlockArgument, int],
    axes: Collection[SSAValue],
    *,
    written: bool,
) -> str:
    """Why a load that varies along axes of so many points, of all axes that there are, cannot be
    packed; nothing if it can."""
    places = {value for e in (*load.subscripts, *load.where) for value in e.values()}
    walked = [[axis for axis in points if axis in s.values()] for s in load.subscripts]
    dimensions = zip(walked, shape_of(load.ref.type), strict=True)
    if written:
        return "is written, too"
    if not load.ref.has_one_use():
        return "is read elsewhere, too"
    if not (load.default is None or isinstance(load.default.owner, arith.ConstantOp)):
        return "is another value where it is not read"
    if not places <= {*axes}:
        return "is read at places that the program computes"
    if {*chain.from_iterable(walked)} != {*points}:
        return "is read again along an axis that only its conditions know"
    if any(prod(points[a] for a in through) > MOST_POINTS * n for through, n in dimensions):
        return "is read in windows that overlap"
    return ""

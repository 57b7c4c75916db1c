"""Places of windows are one axis, along which their operand is laid out with zeros between rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import BlockArgument, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import loop
from dlc.dialects.indexed_op import indexed_ops
from dlc.dialects.kernel_op import kernels_in
from dlc.ir.evaluate import scalar
from dlc.ir.expr import Expr
from dlc.remarks import remark
from dlc.schedule.contraction_tiles import RUN
from dlc.schedule.estimate import estimate
from dlc.schedule.flat_places import GAIN, FlatPlaces, flat_places
from dlc.schedule.packing import Kept
from dlc.target import Target, target_of
from dlc.text import microseconds
from dlc.transforms.loop.packing.copying import Laid, laying_kernel, read_laid
from dlc.transforms.loop.packing.made_copies import Copies


@dataclass(frozen=True)
class FlattenPlacesPass(ModulePass):
    """
    Makes the places of a convolution one axis, of its images, rows and columns, and lays the input
    out along it, with so many zeros between rows and images as windows reach beyond them: what a
    point of a window meets is as far from each place as from any other.

    *Legal when* the input is all that a kernel reads of one, at sums of a place and of a distance
    that is the same for all places, and is 0 beyond; and is not written meanwhile. Places among the
    zeros behind a row are summed, too, but not stored.
    *Faster because* blocks of so many places as threads are good at fill images of 14, 17, 28 or 55
    rows, of which blocks of powers of two leave up to half idle in each dimension; and no
    condition is asked for an element that is copied. It is done where the estimate of both kernels
    is clearly below that of the one; kernels with sizes stay.

    ```
    %y = loop.kernel @conv1d(%x: memref<8x64x30xf32> = %x, %w: … = %w) … {
      loop.for %a in 8, %i in 128, %j in 30 {
        %s = loop.reduce add %k in 3, %l in 64 -> f32 {
          … loop.load %x[%a, %l, %j + %k - 1] where (%j + %k >= 1, …) else %zero …
        loop.store %s, %y[%a, %i, %j]
    ```
    becomes
    ```
    %x_flat = loop.kernel @x_flat(%x: memref<8x64x30xf32> = %x) -> (%x_flat: memref<64x260xf32>) {
      loop.for %l in 64, %place in 260 {
        %x_1 = loop.load %x[%place floordiv 31, %l, %place mod 31 - 1] where (…) else %zero
        loop.store %x_1, %x_flat[%l, %place]
    %y = loop.kernel @conv1d(%x: memref<64x260xf32> = %x_flat, %w: … = %w) … {
      loop.for %run in 8, %i in 128, %place in 32 {
        %s = loop.reduce add %k in 3, %l in 64 -> f32 {
          … loop.load %x[%l, %run * 32 + %place + %k] …
        loop.store %s, %y[(%run * 32 + %place) floordiv 31, %i, (%run * 32 + %place) mod 31]
            where ((%run * 32 + %place) mod 31 < 30, …)
    ```
    """

    name = "flatten-places"

    always: bool = False
    """Make all places one axis that can be, whatever the estimate says."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels, target = kernels_in(op, loop.KernelOp), target_of(op)
        made = Copies(kernels)
        for kernel in kernels:
            if kernel.schedule is None:
                self._flatten(kernel, target, made)

    def _flatten(self, kernel: loop.KernelOp, target: Target, made: Copies) -> None:
        found = flat_places(kernel, None if self.always else target)
        if isinstance(found, Kept):
            what = f"leaves %{found.load.ref.name_hint}, which {found.why}"
            remark(self.name, kernel.name_, what)
        if not isinstance(found, FlatPlaces):
            return
        copying = _laying(kernel, found)
        if self._pays(kernel, copying, target, there=made.has(kernel, copying)):
            _read_flat(kernel, found, made.take(kernel, copying))
        else:
            copying.erase()

    def _pays(
        self, kernel: loop.KernelOp, copying: loop.KernelOp, target: Target, *, there: bool
    ) -> bool:
        """True if a kernel is to read what `copying` makes, which may be there already."""
        trial = kernel.clone()
        found = flat_places(trial, None)
        assert isinstance(found, FlatPlaces)
        _read_flat(trial, found, copying.results[0])
        now, then = (estimate(k, target).seconds for k in (kernel, trial))
        trial.erase()
        once = 0.0 if there else estimate(copying, target).seconds
        pays = GAIN * (then + once) < now or self.always
        laid = "laid out before" if there else f"and {microseconds(once)} us to lay %x out"
        laid = laid.replace("%x", f"%{found.load.ref.name_hint}")
        told = f"{microseconds(then)} us {laid}, {microseconds(now)} us by rows"
        did = "makes its places one axis" if pays else "leaves its places apart"
        remark(self.name, kernel.name_, f"{did}: {told}")
        return pays


def _laying(kernel: loop.KernelOp, found: FlatPlaces) -> loop.KernelOp:
    """The kernel that lays the operand out along its places, inserted nowhere."""
    load, kept = found.load, found.kept

    def at(axes: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
        *others, point = axes
        subscripts = dict(zip(kept, others, strict=True))
        where: list[Expr] = []
        for slide, part in zip(found.slides, found.parts(point), strict=True):
            place = part + slide.least
            subscripts[slide.dimension] = place
            where += [place, place * -1 + (slide.extent - 1)]
        return [subscripts[n] for n in range(len(subscripts))], where

    names = [*(f"d{n}" for n in kept), "place"]
    name = f"{load.ref.name_hint or 'operand'}_flat"
    laid = Laid(names, found.shape, at)
    return laying_kernel(kernel, load, laid, found.shape, name, _store)


def _store(body: Builder, value: SSAValue, target: SSAValue, place: Sequence[Expr]) -> None:
    body.insert(loop.StoreOp(value, target, place))


def _read_flat(kernel: loop.KernelOp, found: FlatPlaces, flat: SSAValue) -> None:
    """Has a kernel go through its places along one axis, and read the operand laid out so."""
    outer, slides = found.outer, found.slides
    own = [slide.axis.index for slide in slides]
    block, extents = outer.body.block, [*outer.all_extents]
    last = max(own)  # what lies inside of it lies inside of the places
    run, place = block.insert_arg(IndexType(), 0), block.insert_arg(IndexType(), last + 2)
    run.name_hint, place.name_hint = "run", "place"
    outer.set_axes([found.runs, *extents[: last + 1], RUN, *extents[last + 1 :]])
    point = Expr.of(run) * RUN + place
    read_laid(kernel, found.load, flat, found.place(point), found.where)
    parts = found.parts(point)
    meaning = dict[SSAValue, Expr](zip((s.axis for s in slides), parts, strict=True))
    ends = {s.axis: meaning[s.axis] * -1 + (s.places - 1) for s in slides}
    for op in indexed_ops(outer):
        if meaning.keys().isdisjoint(op.indices):
            continue
        inside = list(ends.values()) if isinstance(op, loop.StoreOp) else []
        if isinstance(op, loop.LoadOp):
            inside = [end for axis, end in ends.items() if axis in op.indices]
        op.substitute(meaning.get, inside)
        if isinstance(op, loop.LoadOp) and op.where and op.default is None:
            zero = arith.ConstantOp(scalar(0, op.result.type))
            Rewriter.insert_op(zero, InsertPoint.before(outer))
            new = loop.LoadOp(op.ref, op.subscripts, op.where, zero.result)
            new.result.name_hint, new.location = op.result.name_hint, op.location
            Rewriter.replace_op(op, new)
    for axis in meaning:
        assert isinstance(axis, BlockArgument)
        block.erase_arg(axis)
    kept = [extents[n] for n in range(last) if n not in own]
    outer.set_axes([found.runs, *kept, RUN, *extents[last + 1 :]])

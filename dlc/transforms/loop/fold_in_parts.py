"""Folds of what a product gives begin where its sums are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.loop.updates import changed_by
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp
from dlc.remarks import remark
from dlc.schedule.fold_runs import likely_runs
from dlc.target import target_of
from dlc.text import unique_name
from dlc.transforms.loop.fusion.inline import inlinable
from dlc.transforms.loop.fusion.merging import MAX_OPS, Merged, Merges
from dlc.transforms.loop.fusion.naming import name_of
from dlc.transforms.loop.fusion.run_folds import Run, folded_dimensions, in_runs
from dlc.transforms.loop.fusion.wishes import forbidden


@dataclass(frozen=True)
class FoldInPartsPass(ModulePass):
    """
    A fold along what a product gives, such as the least of the channels of a convolution, becomes
    two: of runs of a dimension, by the product's epilogue, whose threads have all sums of a run
    (`fuse-loops`), and of what that stores, by a kernel that reads so much less.

    *Legal when* the fold is the only reader, takes each element at a point of its own, and has one
    value, so that what it folds may be folded in groups; the attribute `fuse = "never"` and a plan
    that has both in different groups forbid it.
    *Faster because* the sums of the product are neither written nor read, but for one of each run.
    It is done where the estimate of both kernels is below that of what they replace.

    ```
    %y = loop.kernel @conv2d(…) -> (%y: memref<16x64x224x224xf32>) { … }
    %m = loop.kernel @min(%y … = %y) -> (%m: memref<16x224x224xf32>) {
      loop.for %b in 16, %i in 224, %j in 224 {
        %0 = loop.reduce min %c in 64 -> f32 { … loop.load %y[%b, %c, %i, %j] …
    ```
    becomes
    ```
    %0_runs = loop.kernel @conv2d_min(…) -> (%0_runs: memref<16x8x224x224xf32>) {
      loop.for %b in 16, %c in 8, %i in 224, %j in 224 {
        %0, … = loop.reduce add … -> (f32, f32, f32, f32, f32, f32, f32, f32) { …
        %1 = arith.minimumf %0, … : f32
    %m = loop.kernel @min(%0_runs … = %0_runs) -> (%m: memref<16x224x224xf32>) {
      loop.for %b in 16, %i in 224, %j in 224 {
        %0 = loop.reduce min %c in 8 -> f32 { … loop.load %0_runs[%b, %c, %i, %j] …
    ```
    """

    name = "fold-in-parts"

    points: int = 0
    """Of a run, wherever that can be, whatever the estimate says; 0 for what it says."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = kernels_in(op, KernelOp)
        merges, names = Merges(target_of(op)), {kernel.name_ for kernel in kernels}
        for kernel in reversed(kernels):
            self._fold(kernel, merges, names)

    def _fold(self, kernel: KernelOp, merges: Merges, names: set[str]) -> None:
        """Has a product fold runs of what it computes, if one kernel folds that and it pays."""
        if kernel.schedule is not None or inlinable(kernel) is not None:
            return
        readers = {use.operation for result in kernel.results for use in result.uses}
        reader = next(iter(readers), None)
        if len(readers) != 1 or not isinstance(reader, KernelOp) or reader.schedule is not None:
            return
        if reader.parent is not kernel.parent or not merges.facts(kernel).operands:
            return
        if not (ways := folded_dimensions(reader, kernel.outputs[0])):
            return
        if why := self._obstacle(kernel, reader):
            remark(self.name, kernel.name_, f"no runs of it are folded: {why}")
            return
        asked = [(n, self.points) for n, extent in ways if extent % (self.points or 1) == 0]
        runs = [Run(*way) for way in (asked if self.points else likely_runs(ways))]
        found = list(_ways(kernel, reader, merges, runs))
        best = min(found, key=lambda way: way.seconds, default=None)
        for way in found:
            if way is not best:
                way.erase()
        if best is None:
            return
        apart = merges.facts(kernel).seconds + merges.facts(reader).seconds
        times = f"{best.seconds * 1e6:.1f} us instead of {apart * 1e6:.1f} us"
        told = f"{best.run} of it are folded"
        if best.seconds >= apart and not self.points:
            remark(self.name, kernel.name_, f"not so that {told}: {times}")
            best.erase()
            return
        for gone in (kernel, reader):
            names.discard(gone.name_)
        new = _done(kernel, reader, best, merges)
        for made in (new, best.whole):
            made.sym_name = StringAttr(unique_name(name_of(made), names))
        remark(
            self.name, new.name_, f"{told}, and @{best.whole.name_} folds what that gives: {times}"
        )

    def _obstacle(self, kernel: KernelOp, reader: KernelOp) -> str | None:
        if why := forbidden(kernel, [reader]):
            return why
        if reader.updated_refs or changed_by(reader, kernel.inputs):
            return "something is updated in place"
        return None


@dataclass(frozen=True)
class _Way:
    """Two kernels that do what a product and its reader do, inserted nowhere."""

    run: Run
    runs: KernelOp
    """What folds runs alone."""
    merged: Merged
    """The product that folds them."""
    whole: KernelOp
    seconds: float

    def erase(self) -> None:
        self.whole.erase()
        self.runs.erase()


def _ways(kernel: KernelOp, reader: KernelOp, merges: Merges, runs: list[Run]) -> Iterator[_Way]:
    for run in runs:
        first, whole = in_runs(reader, kernel.outputs[0], run)
        merged = merges.merge(kernel, first)
        if merged is None or merges.facts_of(merged).size > MAX_OPS:
            whole.erase()
            first.erase()
            continue
        seconds = merges.facts_of(merged).seconds + merges.facts(whole).seconds
        yield _Way(run, first, merged, whole, seconds)


def _done(kernel: KernelOp, reader: KernelOp, way: _Way, merges: Merges) -> KernelOp:
    """Puts both in the place of a product and its reader; the first of them."""
    new = merges.build(way.merged, [kernel], way.runs)
    merges.fill(new)
    Rewriter.insert_op([new, way.whole], InsertPoint.before(reader))
    way.runs.results[0].replace_all_uses_with(new.results[0])
    Rewriter.replace_op(reader, [], way.whole.results)
    way.runs.erase()
    Rewriter.erase_op(kernel)
    return new

"""A fold of a tensor as two kernels: of runs of it, and of what these give; see `in_runs`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import BlockArgument, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects.access import StoreOpBase
from dlc.dialects.axes import AxesOp, new_body
from dlc.dialects.layouts import DEFAULT_ALIGNMENT
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, ReduceOp
from dlc.ir.expr import Expr
from dlc.transforms.loop.fusion.normal_form import normalize_kernel
from dlc.transforms.loop.fusion.parting import (
    drop_stores,
    made_of,
    move_body,
    nest_of,
    with_results_of,
)


@dataclass(frozen=True)
class Run:
    """Points of a dimension of a tensor, next to each other, that are folded at once."""

    dimension: int
    points: int

    def __str__(self) -> str:
        return f"runs of {self.points} along dimension {self.dimension}"


def folded_dimensions(kernel: KernelOp, tensor: SSAValue) -> Sequence[tuple[int, int]]:
    """
    The dimensions of a tensor that a kernel folds, and their extents; nothing unless it is one
    reduce of one value in one loop, which takes each element of the tensor at a point of its own.
    """
    loops = [op for op in kernel.body.block.ops if op.regions or isinstance(op, StoreOpBase)]
    if kernel.zeroed_refs or len(loops) != 1 or not isinstance(outer := loops[0], ForOp):
        return ()
    nests = [op for op in outer.body.block.ops if isinstance(op, AxesOp)]
    if len(nests) != 1 or not isinstance(reduce := nests[0], ReduceOp) or len(reduce.results) > 1:
        return ()
    if reduce.monoid.together or reduce.yielded.where:
        return ()
    loads = [u.operation for ref in _refs(kernel, tensor) for u in ref.uses]
    if len(loads) != 1 or not isinstance(load := loads[0], LoadOp) or load.parent_op() != reduce:
        return ()
    axes = _axes(load)
    if (
        load.where
        or len({*axes}) != len(load.subscripts) != 0
        or {*axes} != {*outer.axes, *reduce.axes}
    ):
        return ()
    if not all(isinstance(n, int) for n in (*outer.all_extents, *reduce.all_extents)):
        return ()
    return [(n, reduce.hint(a)) for n, a in enumerate(axes) if a in reduce.axes]


def in_runs(kernel: KernelOp, tensor: SSAValue, run: Run) -> tuple[KernelOp, KernelOp]:
    """
    Two kernels, in normal form and not inserted anywhere, that do together what one does that folds
    a tensor (`folded_dimensions`). The first folds each run of a dimension, at all points of the
    others; the second folds what that gives, and does what follows.

    ```
    loop.for %i in 8 {
      %m = loop.reduce max %j in 64 -> f32 { … loop.load %x[%j, %i] … }
      … loop.store %y, %c[%i]
    ```
    becomes
    ```
    loop.for %r in 16, %i in 8 {
      %m = loop.reduce max %j in 4 -> f32 { … loop.load %x[%r * 4 + %j, %i] … }
      loop.store %m, %m_runs[%r, %i]
    ```
    and
    ```
    loop.for %i in 8 {
      %m = loop.reduce max %j in 16 -> f32 { … loop.load %m_runs[%j, %i] … }
      … loop.store %y, %c[%i]
    ```
    """
    runs = _runs(kernel, tensor, run)
    whole = _whole(kernel, tensor, run, runs)
    for made in (runs, whole):
        normalize_kernel(made)
    return runs, whole


def _refs(kernel: KernelOp, tensor: SSAValue) -> list[BlockArgument]:
    return [r for r, v in zip(kernel.input_refs, kernel.inputs, strict=True) if v is tensor]


def _axes(load: LoadOp) -> list[BlockArgument]:
    """The axes that subscripts consist of, as far as they do of one."""
    values = [next(iter(s.values()), None) for s in load.subscripts]
    pairs = zip(values, load.subscripts, strict=True)
    return [v for v, s in pairs if isinstance(v, BlockArgument) and s == Expr.of(v)]


def _load(kernel: KernelOp, tensor: SSAValue) -> LoadOp:
    (load,) = (u.operation for ref in _refs(kernel, tensor) for u in ref.uses)
    assert isinstance(load, LoadOp)
    return load


def _runs(kernel: KernelOp, tensor: SSAValue, run: Run) -> KernelOp:
    """What stores the fold of each run."""
    copy = kernel.clone()
    outer, reduce = nest_of(copy)
    drop_stores(copy, outer, reduce)
    axes = _axes(_load(copy, tensor))
    folded = axes[run.dimension]
    extents = [outer.hint(a) if a in outer.axes else reduce.hint(a) for a in axes]
    extents[run.dimension] //= run.points
    deal = ForOp(extents, new_body(len(extents), [a.name_hint for a in axes]))
    deal.location = outer.location
    place: dict[SSAValue, Expr] = dict(zip(axes, map(Expr.of, deal.axes), strict=True))
    place[folded] = place[folded] * run.points + Expr.of(folded)
    move_body(outer, deal, place)
    for axis in reversed(reduce.axes):
        if axis is not folded:
            reduce.body.block.erase_arg(axis)
    reduce.set_axes([run.points])
    return with_results_of(kernel, copy, outer, deal, reduce, "runs")


def _whole(kernel: KernelOp, tensor: SSAValue, run: Run, runs: KernelOp) -> KernelOp:
    """What folds the folds of runs, and does all that the kernel does with that."""
    copy = kernel.clone()
    _, reduce = nest_of(copy)
    load = _load(copy, tensor)
    folded = _axes(load)[run.dimension]
    ref = copy.body.block.insert_arg(runs.output_refs[0].type, 0)
    ref.name_hint = runs.output_refs[0].name_hint
    reading = LoadOp(ref, load.subscripts)
    reading.location = load.location
    Rewriter.insert_op(reading, InsertPoint.before(reduce.yielded))
    reduce.yielded.operands[0] = reading.result
    reduce.set_axes([reduce.hint(a) // (run.points if a is folded else 1) for a in reduce.axes])
    for op in reversed(list(reduce.body.block.ops)):
        if op is not reduce.yielded and not any(result.uses for result in op.results):
            Rewriter.erase_op(op)
    alignments = [DEFAULT_ALIGNMENT, *(int(n) for n in copy.alignments.get_values())]
    inputs = [*runs.results, *kernel.inputs]
    made = made_of(kernel, copy.detach_region(0), inputs, alignments)
    for old, new in zip(kernel.results, made.results, strict=True):
        new.name_hint = old.name_hint
    copy.erase()
    return made

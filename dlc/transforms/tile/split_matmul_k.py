"""The scheduling step `split-matmul-k`: see `SplitMatmulKPass`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod

from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp, StringAttr
from xdsl.ir import BlockArgument, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import loop, tile
from dlc.dialects.access import has_atomic_add
from dlc.dialects.axes import BLOCK, SERIAL, THREAD, AxesOp, new_body
from dlc.dialects.kernel import LaunchOp
from dlc.dialects.kernel_op import DEFAULT_ALIGNMENT, positions, unique_name
from dlc.dialects.layouts import shape_of
from dlc.ir.expr import Expr
from dlc.ir.provenance import inherit, set_values
from dlc.transforms.axes.axis_edit import Axis, keep, replace_axes
from dlc.transforms.step import Decline, SchedulingPass, parse_schedule


@dataclass(frozen=True)
class SplitMatmulKPass(SchedulingPass):
    """
    A reduce is shared by several blocks: its outermost axis becomes a block axis times a shorter
    axis, the blocks store what they hold to a workspace, and a second kernel folds that.

    Where the kernel is launched again, both are.
    Legal because monoids are associative: splits are runs of the axis and are folded in order, so
    results do not depend on timing. A split beyond a ragged end stores the identity. All that
    depends on the reduce moves to the second kernel. With `combine=atomic` the blocks add what they
    hold to an output that holds zeros before, in the order in which they come by: results of f32
    differ by rounding from run to run. Legal when the output's elements are the sums themselves.
    Faster when the free axes make too few blocks for the multiprocessors there are.

    ```
    %C = tile.kernel @mm(%A, %B, %bias) -> (%C) { tile.launch thread(%i in 100, %j in 64) {
      %acc = tile.reduce add serial(%ko in 128) -> f32 { … %ko … }
      %s = arith.addf %acc, %c : f32
    ```
    becomes, with `splits=3`,
    ```
    %acc_parts = tile.kernel @mm(%A, %B) -> (%acc_parts) {
      tile.launch block(%ks in 3) thread(%i in 100, %j in 64) {
        %acc = tile.reduce add serial(%ko in 43) -> f32 {
          … %ks * 43 + %ko …
          tile.yield %part where (%ks * 43 + %ko < 128) : f32
        }
        tile.store %acc, %acc_parts[%ks, %i, %j]
    %C = tile.kernel @mm_combine(%acc_parts, %bias) -> (%C) {
      tile.launch thread(%i in 100, %j in 64) {
        %acc = tile.reduce add serial(%ks in 3) -> f32 {
          %acc_part = tile.load %acc_parts[%ks, %i, %j]
          tile.yield %acc_part : f32
        }
        %s = arith.addf %acc, %c : f32
    ```
    and, without the addition of `%c`, with `splits=3 combine=atomic`,
    ```
    %C = tile.kernel @mm(%A, %B) -> (%C: … zeroed) {
      tile.launch block(%ks in 3) thread(%i in 100, %j in 64) {
        %acc = tile.reduce add serial(%ko in 43) -> f32 { … }
        tile.atomic_add %acc, %C[%i, %j] across(%ks)
    ```
    """

    name = "split-matmul-k"

    splits: int | None = None
    """Parts of the reduce's outermost axis."""
    combine: str = "workspace"
    """`workspace` or `atomic`."""
    then: str = ""
    """The schedule of the kernel that combines; `tileify` alone if it is empty."""

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        reduce = self._check(kernel)
        assert self.splits is not None
        axis = _split_axis(reduce, self.splits)
        extent = reduce.extent(axis)
        parts_are = (
            f"{self.splits} parts of %{axis.name_hint} in {extent}, "
            f"each of at most {ceil(extent / self.splits)} points"
        )
        if self.combine == "atomic":
            store = _sole_store(kernel, reduce)
            _add_parts(kernel, store, _split(kernel.launch, reduce, axis, self.splits))
            return f"{parts_are}, added up atomically"
        names = {op.name_ for op in module.walk() if isinstance(op, tile.KernelOp | loop.KernelOp)}
        copies: dict[SSAValue, SSAValue] = {}
        second = kernel.clone(copies)
        folded = copies[reduce.results[0]].owner
        assert isinstance(folded, tile.ReduceOp)

        ks = _split(kernel.launch, reduce, axis, self.splits)
        parts = _store_parts(kernel, reduce)
        again = [
            op
            for op in module.walk()
            if isinstance(op, LaunchOp) and op.kernel.string_value() == kernel.name_
        ]
        first, first_kept = _rebuilt(kernel, kernel.inputs, kernel.name_, kernel.schedule)
        set_values(first, [])
        for ref, result in zip(parts, first.outputs, strict=True):
            result.name_hint = ref.name_hint
        _load_parts(second, folded, parts, Axis(ks.name_hint, self.splits, SERIAL))
        second, second_kept = _rebuilt(
            second,
            [*first.outputs, *second.inputs],
            unique_name(f"{kernel.name_}_combine", names),
            StringAttr(self.then or "tileify"),
        )
        Rewriter.replace_op(kernel, [first, second], second.outputs)
        for launch in again:
            parts = _launch(first, launch, [launch.inputs[n] for n in first_kept])
            inputs = [*parts.outputs, *launch.inputs]
            whole = _launch(second, launch, [inputs[n] for n in second_kept])
            set_values(parts, [])
            for result, named in zip(parts.outputs, first.outputs, strict=True):
                result.name_hint = named.name_hint
            Rewriter.replace_op(launch, [parts, whole], whole.outputs)
        return parts_are

    def _check(self, kernel: tile.KernelOp) -> tile.ReduceOp:
        """The reduce to split, if there is one and the options make sense."""
        if self.splits is None or self.splits < 2:
            raise Decline("it needs splits, at least 2 parts of a reduce")
        if self.combine not in ("workspace", "atomic"):
            raise Decline(f"combine must be workspace or atomic, not {self.combine}")
        parse_schedule(self.then)
        if self.combine == "atomic" and self.then:
            raise Decline("combine=atomic makes no second kernel for then to schedule")
        launch = kernel.launch
        shared = any(isinstance(r.type, MemRefType) for op in launch.walk() for r in op.results)
        combines = any(isinstance(op, tile.CombineOp) for op in launch.walk())
        if shared or combines or any(launch.kind(a) != THREAD for a in launch.axes):
            raise Decline("the launch is partitioned already")
        loops = [op for op in launch.body.block.ops if isinstance(op, AxesOp)]
        reduces = [op for op in loops if isinstance(op, tile.ReduceOp)]
        others = [op for op in loops if op not in reduces]
        if any(isinstance(op, tile.ReduceOp) for other in others for op in other.body.walk()):
            raise Decline("a reduce of it stands in a loop")
        if len(reduces) != 1:
            raise Decline(f"it has {len(reduces)} reduces beside each other, not one")
        if kernel.zeroed_refs:
            raise Decline("it adds to its output atomically already")
        loads = [op for op in launch.walk() if isinstance(op, tile.LoadOp)]
        if any(op.ref in kernel.output_refs for op in loads):
            raise Decline("it reads what it stores")
        if max(map(reduces[0].extent, reduces[0].axes_of(SERIAL)), default=0) < 2:
            raise Decline("its reduce has no serial axis of at least 2 points")
        return reduces[0]


def _split_axis(reduce: tile.ReduceOp, splits: int) -> BlockArgument:
    """The first serial axis with a point for each split, else the longest."""
    axes = reduce.axes_of(SERIAL)
    longest = max(axes, key=reduce.extent)
    return next((a for a in axes if reduce.extent(a) >= splits), longest)


def _split(
    launch: tile.LaunchOp, reduce: tile.ReduceOp, axis: BlockArgument, splits: int
) -> BlockArgument:
    """Deals an axis of a reduce over a new outermost block axis, which is returned."""
    extents = [splits, *map(launch.extent, launch.axes)]
    ks = launch.body.block.insert_arg(IndexType(), 0)
    name = axis.name_hint or "k"
    ks.name_hint = f"{name.removesuffix('o') or name}s"
    launch.set_axes(extents, [BLOCK] + [THREAD] * (len(extents) - 1))
    each = ceil(reduce.extent(axis) / splits)
    new = {a: keep(a, reduce) for a in reduce.axes}
    new[axis] = Axis(name, each, SERIAL)

    def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
        within = {a: e[k] for a, k in new.items()}
        return {**within, axis: Expr.of(ks) * each + within[axis]}

    replace_axes(reduce, [*new.values()], meaning)
    return ks


def _sole_store(kernel: tile.KernelOp, reduce: tile.ReduceOp) -> tile.StoreOp:
    """The store of a reduce's result that atomic adds of its parts can take the place of."""
    launch = kernel.launch
    if reduce.monoid_name.data != "add":
        raise Decline(f"its monoid is {reduce.monoid_name.data}, and atomic operations only add")
    if len(reduce.results) > 1:
        raise Decline(
            f"it has {len(reduce.results)} sums, and atomic adds are of one (combine=workspace "
            "takes any number)"
        )
    (sum,) = reduce.results
    if not has_atomic_add(sum.type):
        raise Decline(f"its sum is of type {sum.type}, and atomic adds are of f32, f64 or i32")
    stores = [op for op in launch.walk() if isinstance(op, tile.StoreOp)]
    if len(stores) != 1 or stores[0].value is not sum:
        raise Decline(
            "it stores more than its sum, or not the sum itself, for which the parts have to be "
            "added up before (combine=workspace does that)"
        )
    (store,) = stores
    assert isinstance(store.ref.type, MemRefType)
    points, elements = prod(map(launch.extent, launch.axes)), prod(shape_of(store.ref))
    if store.where or store.parent_op() is not launch or points != elements:
        raise Decline(
            "atomic adds need each element to be stored at one point, unconditionally, and a store "
            f"at {points} points is to {elements} elements (combine=workspace takes any)"
        )
    return store


def _add_parts(kernel: tile.KernelOp, store: tile.StoreOp, ks: BlockArgument) -> None:
    """Makes the blocks along `ks` add to what a kernel stored, which is zeroed before."""
    add = tile.AtomicAddOp(store.value, store.ref, store.subscripts, [ks])
    add.location = store.location
    Rewriter.replace_op(store, add)
    kernel.zeroed = positions([n for n, ref in enumerate(kernel.output_refs) if ref is add.ref])


def _store_parts(kernel: tile.KernelOp, reduce: tile.ReduceOp) -> list[BlockArgument]:
    """
    Makes what a reduce gives at each point of the launch all that a kernel stores: to new memrefs,
    which are returned, in the place of its outputs.
    """
    launch, refs = kernel.launch, kernel.body.block
    outputs = kernel.output_refs
    for op in list(launch.body.block.ops):
        if not op.results and not isinstance(op, tile.YieldOp):
            op.detach()
            op.erase()
    for ref in outputs:
        refs.erase_arg(ref)
    shape = [launch.extent(a) for a in launch.axes]
    point = [Expr.of(a) for a in launch.axes]
    parts: list[BlockArgument] = []
    for result in reduce.results:
        ref = refs.insert_arg(MemRefType(result.type, shape), len(refs.args))
        ref.name_hint = f"{result.name_hint or 'r'}_parts"
        parts.append(ref)
    stores = [tile.StoreOp(r, p, point) for r, p in zip(reduce.results, parts, strict=True)]
    Rewriter.insert_op(stores, InsertPoint.after(reduce))
    return parts


def _load_parts(
    kernel: tile.KernelOp, reduce: tile.ReduceOp, parts: Sequence[BlockArgument], ks: Axis
) -> None:
    """Replaces a reduce by one over the parts that new memrefs, the kernel's first, hold."""
    body = new_body(1, [ks.name])
    fold = tile.ReduceOp(
        reduce.monoid_name.data, [ks.extent], [r.type for r in reduce.results], body, [ks.kind]
    )
    point = [Expr.of(a) for a in (*body.block.args, *kernel.launch.axes)]
    for number, (part, result) in enumerate(zip(parts, reduce.results, strict=True)):
        ref = kernel.body.block.insert_arg(part.type, number)
        ref.name_hint = part.name_hint
        load = tile.LoadOp(ref, point)
        load.result.name_hint = f"{result.name_hint or 'r'}_part"
        body.block.add_op(load)
        fold.results[number].name_hint = result.name_hint
    body.block.add_op(tile.YieldOp([op.results[0] for op in body.block.ops]))
    fold.location = reduce.location
    Rewriter.replace_op(reduce, fold)


def _rebuilt(
    kernel: tile.KernelOp, inputs: Sequence[SSAValue], name: str, schedule: StringAttr | None
) -> tuple[tile.KernelOp, list[int]]:
    """
    A kernel with the body of `kernel`, less what is of no use in it. `inputs` are what its first
    memrefs are bound to: new ones, then those of `kernel`. Which of them it keeps is returned, too.
    """
    for block in (kernel.launch.body.block, kernel.body.block):
        for op in reversed(list(block.ops)):
            if op.results and not any(r.uses for r in op.results):
                op.detach()
                op.erase()
    known = [int(n) for n in kernel.alignments.get_values()]
    alignments = [DEFAULT_ALIGNMENT] * (len(inputs) - len(known)) + known
    refs = kernel.body.block.args[: len(inputs)]
    kept = [n for n, ref in enumerate(refs) if ref.uses]
    for ref in refs:
        if not ref.uses:
            kernel.body.block.erase_arg(ref)
    new = tile.KernelOp(
        name,
        [inputs[n] for n in kept],
        kernel.detach_region(0),
        [alignments[n] for n in kept],
        None if schedule is None else schedule.data,
    )
    new.attributes |= kernel.attributes
    new.location = kernel.location
    return new, kept


def _launch(kernel: tile.KernelOp, like: LaunchOp, inputs: Sequence[SSAValue]) -> LaunchOp:
    """A launch of a kernel that takes the place of another launch, or of a part of it."""
    launch = LaunchOp(kernel.name_, inputs, [v.type for v in kernel.outputs])
    launch.location = like.location
    inherit(launch, like)
    return launch

"""The blocks that share a reduce store what they hold, and a second kernel folds that in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import BlockArgument, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import tile
from dlc.dialects.axes import SERIAL, new_body
from dlc.dialects.kernel import LaunchOp
from dlc.dialects.kernel_memory import memref_type
from dlc.dialects.kernel_op import KernelSignature, around_kernels, kernels_in
from dlc.dialects.layouts import DEFAULT_ALIGNMENT
from dlc.dialects.size_index import SizeIndexOp
from dlc.ir.expr import Expr
from dlc.ir.provenance import inherit, set_values
from dlc.text import unique_name
from dlc.transforms.axes.axis_edit import Axis
from dlc.transforms.tile.splitting.reduce_split import Split


def split_in_two(kernel: tile.KernelOp, split: Split, module: ModuleOp, schedule: str) -> None:
    """
    Splits a reduce among blocks that store their parts. A second kernel of the given schedule folds
    the parts and does all else that depends on the reduce, the update of an input, too; where the
    kernel is launched again, both are.
    """
    names = {op.name_ for op in kernels_in(module, KernelSignature)}
    launches = [op for op in around_kernels(module) if isinstance(op, LaunchOp)]
    copies: dict[SSAValue, SSAValue] = {}
    copy = kernel.clone(copies)
    updated, partial = copy.updated_refs, copy.partial_refs
    folded = copies[split.reduce.results[0]].owner
    assert isinstance(folded, tile.ReduceOp)

    block = split.deal(kernel.launch)
    parts = _store_parts(kernel, split.reduce)
    first, first_kept = _rebuilt(kernel, kernel.inputs, kernel.name_, kernel.schedule, {})
    set_values(first, [])
    for ref, result in zip(parts, first.outputs, strict=True):
        result.name_hint = ref.name_hint
    _load_parts(copy, folded, parts, Axis(block.name_hint, split.parts, SERIAL))
    name = unique_name(f"{kernel.name_}_combine", names)
    inputs = [*first.outputs, *copy.inputs]
    second, second_kept = _rebuilt(copy, inputs, name, StringAttr(schedule), updated)
    second.set_updates(updated, partial)
    copy.erase()
    Rewriter.replace_op(kernel, [first, second], second.outputs)
    for launch in launches:
        if launch.kernel.string_value() == first.name_:
            _launch_both(launch, (first, first_kept), (second, second_kept))


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
        ref = refs.insert_arg(memref_type(result.type, tuple(shape)), len(refs.args))
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
    kernel: tile.KernelOp,
    inputs: Sequence[SSAValue],
    name: str,
    schedule: StringAttr | None,
    updated: Mapping[BlockArgument, BlockArgument],
) -> tuple[tile.KernelOp, list[int]]:
    """
    A kernel with the body of `kernel`, less what is of no use in it. `inputs` are what its first
    memrefs are bound to: new ones, then those of `kernel`; `updated` are outputs that lie in the
    memory of an input. Which inputs it keeps is returned, too.
    """
    for block in (kernel.launch.body.block, kernel.body.block):
        for op in reversed(list(block.ops)):
            if isinstance(op, SizeIndexOp):  # types name it
                continue
            if op.results and not any(r.uses for r in op.results):
                op.detach()
                op.erase()
    known = [int(n) for n in kernel.alignments.get_values()]
    alignments = [DEFAULT_ALIGNMENT] * (len(inputs) - len(known)) + known
    refs = kernel.body.block.args[: len(inputs)]
    used = {ref for ref in refs if ref.uses} | {*updated.values()}
    kept = [n for n, ref in enumerate(refs) if ref in used]
    for ref in refs:
        if ref not in used:
            kernel.body.block.erase_arg(ref)
    new = tile.KernelOp(
        name,
        [inputs[n] for n in kept],
        kernel.detach_region(0),
        [alignments[n] for n in kept],
        None if schedule is None else schedule.data,
    )
    new.set_updates(updated)
    new.attributes |= kernel.attributes
    new.location = kernel.location
    return new, kept


def _launch_both(
    again: LaunchOp, first: tuple[tile.KernelOp, list[int]], second: tuple[tile.KernelOp, list[int]]
) -> None:
    """Replaces another launch of the kernel by one of each of the two; both keep some inputs."""
    (one, one_kept), (two, two_kept) = first, second
    parts = _launch(one, again, [again.inputs[n] for n in one_kept])
    inputs = [*parts.outputs, *again.inputs]
    whole = _launch(two, again, [inputs[n] for n in two_kept])
    set_values(parts, [])
    for result, named in zip(parts.outputs, one.outputs, strict=True):
        result.name_hint = named.name_hint
    Rewriter.replace_op(again, [parts, whole], whole.outputs)


def _launch(kernel: tile.KernelOp, like: LaunchOp, inputs: Sequence[SSAValue]) -> LaunchOp:
    """A launch of a kernel that takes the place of another launch, or of a part of it."""
    launch = LaunchOp(kernel.name_, inputs, [v.type for v in kernel.outputs])
    launch.location = like.location
    inherit(launch, like)
    return launch

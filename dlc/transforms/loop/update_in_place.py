"""Kernels write the arguments of a program that it mutates, where they change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import DenseArrayBase, IndexType, ModuleOp, i64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.loop.changes import Changes, changes_of, may_pin
from dlc.analysis.loop.loops import trip_count
from dlc.analysis.loop.updates import changed_by
from dlc.dialects.axes import loops_around
from dlc.dialects.layouts import DEFAULT_ALIGNMENT
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, ReduceOp, StoreOp
from dlc.dialects.scan_ops import AlongOpBase
from dlc.dialects.size import in_memory, in_memory_of
from dlc.dialects.user_outputs import mutated_by
from dlc.ir.expr import Expr
from dlc.remarks import remark
from dlc.transforms.loop.fusion.inline import inlinable, inline_producer
from dlc.transforms.loop.fusion.narrowing import interval, move, narrow
from dlc.transforms.loop.fusion.normal_form import normalize_kernel


@dataclass(frozen=True)
class UpdateInPlacePass(ModulePass):
    """
    What `@main` writes back to an argument is computed in the argument's memory, and only where it
    changes: a row that is put into a cache costs a row, not the cache.

    *Legal when* the kernel that makes the new version loads of the old one nothing but the element
    that it stores, and nothing uses the old one later: the kernel is moved past what does, unless
    what it reads is updated meanwhile. A condition that an axis has certain places becomes the
    extent of the axis; one that it is a number, which is data, the subscript.
    *Faster because* the rest is neither read nor written, nor copied back after the call.

    ```
    %new = loop.kernel @put(%c … = %cache, %x … = %x) -> (%y: memref<64x8xf32>) {
      loop.for %i in 64, %j in 8 {
        %old = loop.load %c[%i, %j] : memref<64x8xf32>
        %e = loop.load %x[%i - 5, %j] where (%i >= 5, %i < 6) else %old : memref<1x8xf32>
        loop.store %e, %y[%i, %j] : memref<64x8xf32>
    ```
    becomes
    ```
    %new = loop.kernel @put(%c … = %cache, %x … = %x) -> (%y: memref<64x8xf32> updates %c) {
      loop.for %j in 8 {
        %e = loop.load %x[0, %j] : memref<1x8xf32>
        loop.store %e, %y[5, %j] : memref<64x8xf32>
    ```
    """

    name = "update-in-place"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for main in [f for f in op.ops if isinstance(f, func.FuncOp) and f.body.blocks]:
            end = main.body.block.last_op
            if isinstance(end, func.ReturnOp):
                for value, number in zip(end.arguments, mutated_by(main), strict=True):
                    if number is not None:
                        _update(main.body.block.args[number], value)


@dataclass(frozen=True)
class _Version:
    """A kernel that makes a new version of a tensor."""

    kernel: KernelOp
    ref: BlockArgument
    """The tensor inside of the kernel."""
    changes: Changes


def _update(argument: BlockArgument, result: SSAValue) -> None:
    """Makes the kernels between an argument and its last version update it."""
    versions = _versions(argument, result)
    if versions is None:
        return
    for version in versions:
        kernel = version.kernel
        points = _restrict(version)
        kernel.set_updates({kernel.output_refs[0]: version.ref})
        remark(
            UpdateInPlacePass.name,
            kernel.name_,
            f"updates %{argument.name_hint or 'argument'} in place, {points} elements of it",
        )
        normalize_kernel(kernel)
        _align_readers(kernel, argument)


def _align_readers(kernel: KernelOp, argument: BlockArgument) -> None:
    """What is known of an argument's address is all that is known of its new version's."""
    (result,) = kernel.outputs
    known = kernel.alignment(kernel.output_refs[0])
    if known == DEFAULT_ALIGNMENT:
        return
    for reader in argument.block.walk():
        if isinstance(reader, KernelOp) and result in map(in_memory, reader.inputs):
            found = map(int, reader.alignments.get_values())
            reads = zip(map(in_memory, reader.inputs), found, strict=True)
            alignments = [min(n, known) if value is result else n for value, n in reads]
            reader.alignments = DenseArrayBase.from_list(i64, alignments)


def _versions(argument: BlockArgument, result: SSAValue) -> list[_Version] | None:
    """The kernels that make version after version, the first one first; None if one cannot."""
    found: list[_Version] = []
    value = result
    while value is not argument:
        kernel = value.owner
        if not isinstance(kernel, KernelOp) or len(kernel.outputs) != 1:
            return None
        if (version := next(_sources(_with_condition(kernel), argument), None)) is None:
            return None
        found.append(version)
        value = version.kernel.inputs[version.ref.index]
    found.reverse()
    places = [_place(version.kernel, version.ref) for version in found]
    if any(place is None for place in places):
        return None
    for version, place in zip(found, places, strict=True):
        if place is not None and place is not version.kernel:
            version.kernel.detach()
            Rewriter.insert_op(version.kernel, InsertPoint.after(place))
    return found


def _sources(kernel: KernelOp, argument: BlockArgument) -> Iterator[_Version]:
    """The old versions that a kernel may have made its result of, the argument first."""
    refs = sorted(kernel.input_refs, key=lambda ref: kernel.inputs[ref.index] is not argument)
    for ref in refs:
        if ref.uses and (changes := changes_of(kernel, ref)) is not None:
            yield _Version(kernel, ref, changes)


def _with_condition(kernel: KernelOp) -> KernelOp:
    """
    The kernel, replaced by one that computes itself the condition by which it chooses between an
    old element and a new one, if it then says where the points that change are.
    """
    trial, producers = kernel, list[KernelOp]()
    while (producer := _producer_of_condition(trial)) is not None:
        if changed_by(kernel, producer.inputs):
            break
        producers.append(producer)
        trial = kernel.clone() if trial is kernel else trial
        inline_producer(producer, trial)
        normalize_kernel(trial)
    changes = (changes_of(trial, ref) for ref in trial.input_refs if ref.uses)
    if trial is kernel:
        return kernel
    if not any(change is not None and change.pins for change in changes):
        trial.erase()
        return kernel
    Rewriter.replace_op(kernel, trial)
    for producer in producers:  # the one that others are computed of comes last
        if not any(result.uses for result in producer.results):
            Rewriter.erase_op(producer)
    return trial


def _producer_of_condition(kernel: KernelOp) -> KernelOp | None:
    """
    The last of the kernels that compute point by point what a condition of a last choice is
    computed of: those before it may be read by it, and are so computed once.
    """
    uses = list(kernel.output_refs[0].uses)
    choice = uses[0].operation.operands[0].owner if len(uses) == 1 else None
    if not isinstance(choice, arith.SelectOp) or not may_pin(choice.cond):
        return None
    pending: list[SSAValue] = [choice.cond]
    looked_at: set[SSAValue] = set()
    found: list[KernelOp] = []
    while pending:
        if (value := pending.pop()) in looked_at:
            continue
        looked_at.add(value)
        op = value.owner
        if isinstance(op, LoadOp) and isinstance(op.ref, BlockArgument):
            producer = kernel.inputs[op.ref.index].owner
            if isinstance(producer, KernelOp) and producer not in found and _is_pointwise(producer):
                found.append(producer)
        elif isinstance(op, Operation):
            pending += op.operands
    last = found[0] if found else None
    for other in found[1:]:
        if last is not None and other.parent is last.parent and last.is_before_in_block(other):
            last = other
    return last


def _is_pointwise(kernel: KernelOp) -> bool:
    return inlinable(kernel) is None and not any(
        isinstance(o, ReduceOp | AlongOpBase) for o in kernel.walk()
    )


def _place(kernel: KernelOp, ref: BlockArgument) -> Operation | None:
    """
    The operation that a kernel must come after, or the kernel itself where it stands, so that
    nothing uses a tensor later; None if there is no such place.
    """
    block, tensor = kernel.parent, kernel.inputs[ref.index]
    assert block is not None
    if sum(in_memory(operand) is tensor for operand in kernel.operands) > 1:
        return None
    others = _users(block, [tensor], kernel)
    readers = _users(block, kernel.outputs, kernel)
    if any(isinstance(other, func.ReturnOp) for other in others):
        return None
    if not all(other.is_before_in_block(reader) for other in others for reader in readers):
        return None
    place: Operation = kernel
    for other in others:
        if place.is_before_in_block(other):
            place = other
    return None if place is not kernel and changed_by(place, kernel.inputs) else place


def _users(block: Block, values: Sequence[SSAValue], but: Operation) -> list[Operation]:
    """
    The operations of a block that use values of it, themselves or in a body of theirs; a reshape
    stands for those that use its result, too.
    """
    lying = [tensor for value in values for tensor in in_memory_of(value)]
    users = [use.operation for tensor in lying for use in tensor.uses]
    around = (block.find_ancestor_op_in_block(user) for user in users if user is not but)
    return [op for op in dict.fromkeys(around) if op is not None]


def _restrict(version: _Version) -> int:
    """Has a kernel run over the points that change, and store what is new; how many these are."""
    changes = version.changes
    store, value = changes.store, changes.value
    if changes.where and isinstance(load := value.owner, LoadOp) and load.default is not None:
        new = LoadOp(load.ref, load.subscripts, load.where)  # without the old element for others
        new.location, new.result.name_hint = load.location, load.result.name_hint
        Rewriter.insert_op(new, InsertPoint.before(load))
        value = new.result
    last = StoreOp(value, store.ref, store.subscripts, changes.where)
    last.location = store.location
    Rewriter.replace_op(store, last, [])
    loops = [op for op in loops_around(last) if isinstance(op, ForOp)]
    for axis, number in changes.pins.items():
        _pin(next(loop for loop in loops if axis in loop.axes), axis, number, last)
    for loop in loops:
        for axis in [a for a in loop.axes if not loop.is_size(a)]:
            begin, end = interval(axis, loop.extent(axis), last.where)
            if 0 < end - begin < loop.least(axis):
                narrow(loop, axis, begin, end)
    return prod(trip_count(loop) for loop in loops)


def _pin(loop: ForOp, axis: BlockArgument, number: SSAValue, store: StoreOp) -> None:
    """Makes an axis a number, where that is one of its places."""
    assert isinstance(number.owner, Operation)
    cast = arith.IndexCastOp(number, IndexType())
    cast.result.name_hint = axis.name_hint
    Rewriter.insert_op(cast, InsertPoint.after(number.owner))
    place, extents = Expr.of(cast.result), [loop.extent(a) for a in loop.axes]
    inside = [place, place * -1 + extents.pop(axis.index) - 1]
    move(axis, place)
    loop.body.block.erase_arg(axis)
    loop.set_axes(extents)
    store.set_index(store.subscripts, [*store.where, *inside])

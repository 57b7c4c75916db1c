"""How the scalar program of a launch becomes loops over register and serial axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import takewhile

from xdsl.dialects import arith, scf
from xdsl.ir import BlockArgument, Operation, SSAValue

from dlc.diagnostics import fail
from dlc.dialects import kernel, tile
from dlc.dialects.access import LoadOpBase, YieldOpBase
from dlc.dialects.axes import REGISTER, SERIAL, AxesOp
from dlc.dialects.kernel_memory import is_local
from dlc.transforms.kernel.materialization.element_access import (
    emit_fragment,
    emit_load,
    emit_store,
    fragment_axes,
)
from dlc.transforms.kernel.materialization.emitter import Accumulators, Emitter, LocalArray, beside
from dlc.transforms.kernel.materialization.reduction import (
    accumulators_around,
    emit_accumulators,
    emit_combine,
    emit_fold,
    emit_results,
)

Tail = Callable[[], None]
_TOP = kernel.AllocSharedOp | kernel.AllocMbarriersOp | kernel.TensorMapOp
"""What is defined at the top of a kernel."""
_LATER = YieldOpBase | scf.YieldOp | tile.IndexOp | arith.ConstantOp
"""What is emitted where it is used, if at all."""


def emit_body(e: Emitter) -> None:
    """Emits the body of the kernel; the constants that it begins with stay its first."""
    ops = list(e.source.body.block.ops)
    for op in takewhile(lambda op: isinstance(op, arith.ConstantOp), ops):
        e.value(op.results[0])
    emit_ops(e, ops)


def emit_ops(
    e: Emitter, ops: Sequence[Operation], tail: tuple[Sequence[BlockArgument], Tail] | None = None
) -> None:
    """
    Emits ops in order. Neighbours that vary along the same register axes share their loops.
    `tail`, with the axes that it runs over, comes last and joins the last loops if it can.
    """
    group: list[Operation] = []
    for op in ops:
        if isinstance(op, kernel.AllocLocalOp) and group:
            e.unused_memory.append(op)
            continue
        if isinstance(op, _LATER):
            continue
        axes = () if op.regions else e.register_axes(op)
        if axes and not _is_alone(e, op):
            if group and e.register_axes(group[0]) != axes:
                _flush(e, group)
                group = []
            group.append(op)
            continue
        if group and (_uses(op, group) or _ends_reads(op, group)):
            _flush(e, group)
            group = []
        _emit(e, op)
    if tail is None:
        _flush(e, group)
        return
    axes, last = tail
    if group and e.register_axes(group[0]) == tuple(axes):
        _flush(e, group, last)
    else:
        _flush(e, group)
        e.over(axes, last)


def _is_alone(e: Emitter, op: Operation) -> bool:
    """True for an op that has loops of its own, or none although it varies along register axes."""
    if isinstance(op, tile.LoadOp) and is_local(op.ref):
        return True
    return isinstance(op, tile.CombineOp) or fragment_axes(e, op) is not None


def _uses(op: Operation, group: list[Operation]) -> bool:
    results = {r for member in group for r in member.results}
    return any(v in results for inner in op.walk() for v in inner.operands)


def _ends_reads(op: Operation, group: list[Operation]) -> bool:
    """
    True if what a group reads may be overwritten by an op, or by other threads because of it, or
    if the op reads what the group writes.
    """
    read = {member.ref for member in group if isinstance(member, tile.LoadOp)}
    written = {member.ref for member in group if isinstance(member, tile.StoreOp)}
    tells = kernel.SyncWarpOp | kernel.MbarrierArriveOp
    return any(
        isinstance(inner, tells)
        or not (written if isinstance(inner, LoadOpBase) else read).isdisjoint(inner.operands)
        for inner in op.walk()
    )


def _flush(e: Emitter, group: list[Operation], last: Tail | None = None) -> None:
    """Emits ops of the same register axes in one nest of unrolled loops."""
    if not group:
        return
    axes = e.register_axes(group[0])
    escaping: dict[SSAValue, LocalArray] = {}
    for op in group:
        for result in op.results:
            if any(beside(use.operation, op) not in group for use in result.uses):
                joined = last is not None and all(
                    beside(u.operation, op) in group or isinstance(u.operation, YieldOpBase)
                    for u in result.uses
                )
                if not joined:
                    escaping[result] = e.local(result.type, axes, result.name_hint)

    def body() -> None:
        for op in group:
            _emit_scalar(e, op)
            for result in op.results:
                if result in escaping:
                    array = escaping[result]
                    value = e.scalars[result]
                    e.builder.insert(kernel.StoreOp(value, array.ref, e.at(array)))
        if last is not None:
            last()
        for op in group:
            for result in op.results:
                del e.scalars[result]

    e.over(axes, body)
    e.arrays.update(escaping)


def _emit(e: Emitter, op: Operation) -> None:
    """Emits an op with loops of its own, or one that varies along no register axis."""
    e.define_memory(op)
    match op:
        case tile.LoadOp() if (array := e.array_of(op)) is not None:
            e.arrays[op.result] = array
        case tile.LoadOp() if e.register_axes(op):
            e.arrays[op.result] = emit_fragment(e, op)
        case tile.StoreOp() if e.register_axes(op):
            e.over(fragment_axes(e, op) or e.register_axes(op), lambda: emit_store(e, op))
        case tile.EachOp():
            e.over(op.axes, lambda: _emit_point(e, op))
        case scf.ForOp() | scf.IfOp():
            _emit_control(e, op)
        case tile.CombineOp():
            emit_combine(e, op)
        case tile.ReduceOp():
            _emit_reduce(e, op)
        case tile.ForOp():
            _emit_loops(e, op, None)
        case _ if isinstance(op, _TOP):
            e.hoist(op)
        case _:
            _emit_scalar(e, op)


def _emit_point(e: Emitter, op: tile.EachOp) -> None:
    """Emits what is done at the current point; what that needs of arrays is read first."""
    for inner in op.body.walk():
        for value in inner.operands:
            if value in e.arrays:
                e.value(value)
    with e.at_point(op.axes):
        emit_ops(e, list(op.body.block.ops))


def _emit_control(e: Emitter, op: scf.ForOp | scf.IfOp) -> None:
    """Emits a loop or a branch of a copy."""
    if op.results or (isinstance(op, scf.IfOp) and op.false_region.blocks):
        fail(op, f"expected an '{op.name}' without results or an else")
    ops = list(op.regions[0].block.ops)
    if isinstance(op, scf.IfOp):
        with e.branch(e.value(op.cond)):
            emit_ops(e, ops)
        return
    bounds = e.value(op.lb), e.value(op.ub), e.value(op.step)
    (index,) = op.body.block.args
    unroll = "unroll" in op.attributes
    with e.loop_between(bounds, index.name_hint, unroll=unroll) as e.scalars[index]:
        emit_ops(e, ops)


def _emit_scalar(e: Emitter, op: Operation) -> None:
    """Emits one op at the current point of the register axes."""
    if isinstance(op, tile.LoadOp):
        e.scalars[op.result] = emit_load(e, op)
        return
    if isinstance(op, tile.StoreOp | tile.AtomicAddOp):
        emit_store(e, op)
        return
    if isinstance(op, tile.SelectOp):
        new: Operation = kernel.SelectOp(e.value(op.value), e.exprs(op.where), e.value(op.default))
    else:
        new = op.clone({v: e.value(v) for v in dict.fromkeys(op.operands)})
    new.location = op.location
    e.builder.insert(new)
    for old, result in zip(op.results, new.results, strict=True):
        result.name_hint = old.name_hint
        e.scalars[old] = result


def _emit_reduce(e: Emitter, op: tile.ReduceOp) -> None:
    acc = accumulators_around(e, op)
    own = acc is None
    if acc is None:
        acc = emit_accumulators(e, op)
    _emit_loops(e, op, acc)
    if own:
        emit_results(e, op, acc)


def _emit_loops(e: Emitter, op: AxesOp, acc: Accumulators | None) -> None:
    """Emits the serial loops of a for or reduce, in them its body, and the fold at the end."""
    e.extents.update((a, op.extent(a)) for a in op.axes)
    unroll = "unroll" in op.attributes
    with ExitStack() as stack:
        for axis in op.axes_of(SERIAL):
            loop = e.loop(e.extents[axis], axis.name_hint, unroll=unroll)
            e.scalars[axis] = stack.enter_context(loop)
        stack.enter_context(e.along_registers(op.axes_of(REGISTER)))
        ops = list(op.body.block.ops)
        if acc is None or not isinstance(op, tile.ReduceOp):
            emit_ops(e, ops)
        else:
            e.accumulators[op] = acc
            skipped = op.yielded.where if op.skips is not None else ()
            stack.enter_context(e.only_if(e.exprs(skipped)))
            emit_ops(e, ops, emit_fold(e, op, acc, skipped))

"""How operations become loops over register and serial axes, and what stands in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import takewhile
from typing import Any, TypeGuard

from xdsl.dialects import arith, scf
from xdsl.ir import Operation, SSAValue

from dlc.diagnostics import fail
from dlc.dialects import kernel, tile
from dlc.dialects.axes import REGISTER, SERIAL
from dlc.dialects.kernel_memory import is_local, is_shared
from dlc.transforms.kernel.lowering.box_values import computed_for, ends_reads
from dlc.transforms.kernel.lowering.element_access import (
    array_of,
    beside,
    fragment_axes,
    lower_fragment,
    lower_load,
    lower_store,
)
from dlc.transforms.kernel.lowering.register_lowering import LocalArray, Memory, RegisterLowering
from dlc.transforms.kernel.lowering.stored_boxes import lower_boxes, wait_for_boxes

_YIELDS = frozenset[type[Operation]]({tile.YieldOp, scf.YieldOp})
_LATER = _YIELDS | {tile.IndexOp, arith.ConstantOp}
"""What is lowered where it is used, if at all."""


def lower_body(to: RegisterLowering) -> None:
    """Lowers the body of the kernel; the constants that it begins with stay its first."""
    ops = list(to.source.body.block.ops)
    for op in takewhile(lambda op: isinstance(op, arith.ConstantOp), ops):
        to.value(op.results[0])
    _lower_ops(to, ops)
    wait_for_boxes(to)


def _lower_ops(to: RegisterLowering, ops: Sequence[Operation]) -> None:
    """
    Lowers ops in order. Neighbours that vary along the same register axes share their loops; others
    may come before them.
    """
    group: list[Operation] = []
    shared: tuple[SSAValue, ...] = ()
    later = {value for op in ops if _is_of_boxes(op) for value in computed_for(to, op)}
    for op in ops:
        if group and isinstance(op, Memory):
            to.unused_memory.append(op)
            continue
        if type(op) in _LATER or op in later:
            continue
        if axes := _shareable_axes(to, op):
            if shared != axes:
                _lower_group(to, group, shared)
                group, shared = [], axes
            group.append(op)
            continue
        if group and (_is_of_boxes(op) or _uses(op, group) or ends_reads(op, group)):
            _lower_group(to, group, shared)
            group, shared = [], ()
        _lower_op(to, op)
    _lower_group(to, group, shared)


def _shareable_axes(to: RegisterLowering, op: Operation) -> tuple[SSAValue, ...]:
    """
    The register axes over which an op can share loops with its neighbours; none for one that has
    loops of its own, or needs none. What is done at each point last of all shares them, too.
    """
    if isinstance(op, tile.EachOp):
        last = op.next_op is None or type(op.next_op) in _YIELDS
        return tuple(op.axes) if last else ()
    if _is_of_boxes(op):
        return ()
    if op.regions or isinstance(op, Memory) or (isinstance(op, tile.LoadOp) and is_local(op.ref)):
        return ()
    axes = to.register_axes(op)
    return axes if axes and fragment_axes(to, op) is None else ()


def _is_of_boxes(op: Operation) -> TypeGuard[tile.StoreOp]:
    return isinstance(op, tile.StoreOp) and op.boxes is not None


def _uses(op: Operation, group: list[Operation]) -> bool:
    """True if an op needs what ops of a group give, or the table of a block that they add to."""
    given: set[SSAValue] = {r for member in group for r in member.results}
    given |= {m.ref for m in group if isinstance(m, tile.AtomicAddOp) and is_shared(m.ref)}
    return any(v in given for inner in op.walk() for v in inner.operands)


def _lower_group(to: RegisterLowering, group: list[Operation], axes: tuple[SSAValue, ...]) -> None:
    """Lowers ops of the same register axes in one nest of unrolled loops."""
    if not group:
        return
    to.place = group[0].location
    for op in group:
        to.define_memory(op)
    escaping: dict[SSAValue, LocalArray] = {}
    for op in group:
        for result in op.results:
            if any(beside(use.operation, op) not in group for use in result.uses):
                escaping[result] = to.local(result.type, axes, result.name_hint)

    def point() -> None:
        for op in group:
            _lower_scalar(to, op)
            for result in op.results:
                if result in escaping:
                    to.store(to.scalars[result], escaping[result])
        for op in group:
            for result in op.results:
                del to.scalars[result]

    to.over(axes, point)
    to.arrays.update(escaping)


def _lower_op(to: RegisterLowering, op: Operation) -> None:
    """Lowers an op with loops of its own, or one that varies along no register axis."""
    to.place = op.location
    to.define_memory(op)
    _LOWERED_ALONE.get(type(op), _lower_scalar)(to, op)


def _lower_alone(to: RegisterLowering, op: tile.LoadOp | tile.StoreOp) -> None:
    """Lowers an access with loops of its own, or none."""
    if _is_of_boxes(op):
        lower_boxes(to, op, lambda: _lower_ops(to, computed_for(to, op)))
    elif not (axes := to.register_axes(op)):
        _lower_scalar(to, op)
    elif isinstance(op, tile.StoreOp):
        to.over(fragment_axes(to, op) or axes, lambda: lower_store(to, op))
    else:
        to.arrays[op.result] = array_of(to, op) or lower_fragment(to, op)


def _lower_scalar(to: RegisterLowering, op: Operation) -> None:
    """Lowers an op at the current point of the register axes."""
    to.place = op.location
    match op:
        case tile.LoadOp():
            to.scalars[op.result] = lower_load(to, op)
        case tile.StoreOp() | tile.AtomicAddOp():
            lower_store(to, op)
        case tile.EachOp():
            _lower_each(to, op)
        case tile.SelectOp():
            value, default = to.value(op.value), op.default
            _insert(to, op, kernel.SelectOp(value, to.exprs(op.where), to.value(default)))
        case _:
            _insert(to, op, op.clone({v: to.value(v) for v in dict.fromkeys(op.operands)}))


def _insert(to: RegisterLowering, op: Operation, new: Operation) -> None:
    """Inserts what an op becomes at the current point."""
    new.location = op.location
    to.builder.insert(new)
    for old, result in zip(op.results, new.results, strict=True):
        result.name_hint = old.name_hint
        to.scalars[old] = result


def _lower_each(to: RegisterLowering, op: tile.EachOp) -> None:
    """Lowers what is done at the current point; what that needs of arrays is read first."""
    for inner in op.body.walk():
        for value in inner.operands:
            if value in to.arrays:
                to.value(value)
    with to.at_point(op.axes):
        _lower_ops(to, list(op.body.block.ops))


def _lower_control(to: RegisterLowering, op: scf.ForOp | scf.IfOp) -> None:
    """Lowers a loop or a branch of Kernel IR."""
    if op.results:
        fail(op, f"expected an '{op.name}' without results")
    ops = list(op.regions[0].block.ops)
    if isinstance(op, scf.IfOp):
        test = to.value(op.cond)
        if not op.false_region.blocks:
            with to.branch(test):
                _lower_ops(to, ops)
            return
        with to.either(test) as other:
            _lower_ops(to, ops)
            other()
            _lower_ops(to, list(op.false_region.block.ops))
        return
    bounds = to.value(op.lb), to.value(op.ub), to.value(op.step)
    (index,) = op.body.block.args
    unroll, about = "unroll" in op.attributes, op.attributes.get("about")
    loop = to.loop_between(bounds, index.name_hint, unroll=unroll, about=about)
    with loop as to.scalars[index]:
        _lower_ops(to, ops)


def _lower_for(to: RegisterLowering, op: tile.ForOp) -> None:
    """Lowers a loop over axes: serial ones are loops, in them what the register axes need."""
    unroll = "unroll" in op.attributes
    with ExitStack() as stack:
        for axis in op.axes_of(SERIAL):
            loop = to.loop(to.expr(op.count(axis)), axis.name_hint, unroll=unroll)
            to.scalars[axis] = stack.enter_context(loop)
        stack.enter_context(to.along_registers(op.axes_of(REGISTER)))
        _lower_ops(to, list(op.body.block.ops))


_LOWERED_ALONE: dict[type[Operation], Callable[[RegisterLowering, Any], None]] = {
    tile.LoadOp: _lower_alone,
    tile.StoreOp: _lower_alone,
    tile.EachOp: lambda to, op: to.over(op.axes, lambda: _lower_each(to, op)),
    tile.ForOp: _lower_for,
    scf.ForOp: _lower_control,
    scf.IfOp: _lower_control,
    kernel.AllocLocalOp: RegisterLowering.define,
    tile.AccumulatorOp: RegisterLowering.define,
    kernel.AllocSharedOp: RegisterLowering.hoist,
    kernel.MapClusterOp: RegisterLowering.hoist,
    kernel.AllocMbarriersOp: RegisterLowering.hoist,
    kernel.TensorMapOp: RegisterLowering.hoist,
}
"""How operations are lowered that share no loops with others; the rest has none."""

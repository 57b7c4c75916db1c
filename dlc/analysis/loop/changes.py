"""
What a kernel changes of a tensor that it gives a new version of: `y[i] = hit ? new : x[i]` is `x`
but for the points where `hit` holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.dialects import arith
from xdsl.ir import BlockArgument, Operation, SSAValue

from dlc.dialects.layouts import shape_of
from dlc.dialects.loop import ForOp, IndexOp, KernelOp, LoadOp, SelectOp, StoreOp
from dlc.ir.expr import Expr

EQUAL = 0
"""The predicate `eq` of `arith.cmpi`."""


@dataclass(frozen=True)
class Changes:
    """The only store of a kernel, to be done where something changes, and what it then stores."""

    store: StoreOp
    value: SSAValue
    where: tuple[Expr, ...] = ()
    """Expressions that are >= 0 where it changes."""
    pins: Mapping[BlockArgument, SSAValue] = field(default_factory=dict)
    """The axes that have one place where it changes, a number that is data."""


def changes_of(kernel: KernelOp, input: BlockArgument) -> Changes | None:
    """
    What a kernel with one output changes of an input; None unless the output is stored at every
    point, and nothing of the input is loaded but the element of the point that is stored.
    """
    (output,) = kernel.output_refs
    users = [use.operation for use in output.uses]
    store = users[0] if len(users) == 1 else None
    if output.type != input.type or not isinstance(store, StoreOp) or not _covers(kernel, store):
        return None
    for use in input.uses:
        load = use.operation
        if not isinstance(load, LoadOp) or load.where or load.subscripts != store.subscripts:
            return None

    def is_old(value: SSAValue | None) -> bool:
        return value is not None and isinstance(o := value.owner, LoadOp) and o.ref is input

    match store.value.owner:
        case LoadOp() as load if is_old(load.default):
            return Changes(store, load.result, load.where)
        case SelectOp() as select if is_old(select.default):
            return Changes(store, select.value, select.where)
        case arith.SelectOp() as select if is_old(select.rhs) and (pins := _pins(select.cond)):
            return Changes(store, select.lhs, pins=pins)
        case _:
            return Changes(store, store.value)


def _covers(kernel: KernelOp, store: StoreOp) -> bool:
    """True if a store is done once for each element: at all axes around it, and nowhere else."""
    loops = [op for op in kernel.walk() if isinstance(op, ForOp)]
    axes = {a for loop in loops for a in loop.axes}
    (output,) = kernel.output_refs
    bare = [e for e in store.subscripts if not (e.is_constant and e.constant == 0)]
    extents = {Expr.of(a): loop.extent(a) for loop in loops for a in loop.axes}
    whole = all(
        extents.get(e, 1) == n for e, n in zip(store.subscripts, shape_of(output), strict=True)
    )
    return not store.where and whole and len(bare) == len(axes) and {*bare} == {*extents}


def may_pin(flag: SSAValue) -> bool:
    """False if a condition says more than that axes are numbers, whatever it loads may say."""
    match flag.owner:
        case arith.AndIOp() as both:
            return may_pin(both.lhs) and may_pin(both.rhs)
        case arith.CmpiOp() as equality:
            return equality.predicate.value.data == EQUAL
        case other:
            return isinstance(other, LoadOp)


def _pins(flag: SSAValue) -> dict[BlockArgument, SSAValue]:
    """
    The axes that a condition says to be numbers, with these, which are known before what mentions
    the axes; none if it says anything else.
    """
    pins = _equalities(flag) or {}
    for axis, number in pins.items():
        for use in axis.uses:
            if not _is_known(number, use.operation):
                return {}
    return pins


def _is_known(number: SSAValue, user: Operation) -> bool:
    """True if a value is computed before an operation, in its block or in one around it."""
    owner = number.owner
    block = owner.parent if isinstance(owner, Operation) else None
    place = None if block is None else block.find_ancestor_op_in_block(user)
    return isinstance(owner, Operation) and place is not None and owner.is_before_in_block(place)


def _equalities(flag: SSAValue) -> dict[BlockArgument, SSAValue] | None:
    op = flag.owner
    if isinstance(op, arith.AndIOp):
        left, right = _equalities(op.lhs), _equalities(op.rhs)
        if left is None or right is None or not left.keys().isdisjoint(right):
            return None
        return left | right
    if not isinstance(op, arith.CmpiOp) or op.predicate.value.data != EQUAL:
        return None
    for number, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        axis = _axis(other)
        if axis is not None and _axis(number) is None:
            return {axis: number}
    return None


def _axis(value: SSAValue) -> BlockArgument | None:
    """The axis whose number a value is."""
    cast = value.owner
    index = cast.input.owner if isinstance(cast, arith.IndexCastOp) else None
    if not isinstance(index, IndexOp):
        return None
    (expr,) = index.subscripts
    found = next(iter(index.indices), None)
    return found if isinstance(found, BlockArgument) and expr == Expr.of(found) else None

"""Merging into a kernel that scans the kernel that reads its result; see `follow`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from dlc.dialects.access import StoreOpBase
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, SortOp, StoreOp, YieldOp, scans_in
from dlc.ir.bounds import sure, within
from dlc.ir.expr import Expr
from dlc.ir.provenance import ops_of, set_ops
from dlc.transforms.loop.fusion.flattened import unflattened
from dlc.transforms.loop.fusion.inline import add_inputs


def follow(producer: KernelOp, consumer: KernelOp) -> KernelOp | None:
    """
    A copy of `consumer`, not inserted anywhere, that runs over the axes of `producer`, whose result
    is stored at them, and does at each point what it did where it read the element of that point.
    None unless it computes point by point and reads each element at one point: its axes, backwards
    or from another start maybe, are those of the tensor. If it scans, too, it has to go the same
    way from the same start. It still lists the result as an input.

    ```
    loop.for %k in 8 { … %s = loop.scan add %a along %k … loop.store %s, %y[%k] }
    loop.for %j in 8 { %b = loop.load %y[7 - %j] … loop.store %b, %z[%j] }
    ```
    becomes
    ```
    loop.for %k in 8 { … %s = loop.scan add %a along %k … loop.store %s, %z[7 - %k] }
    ```
    """
    tensor = producer.outputs[0]
    merged = unflattened(consumer, tensor) or consumer.clone()
    refs = [r for r, v in zip(merged.input_refs, merged.inputs, strict=True) if v is tensor]
    body = _only_loop(merged)
    at = None if body is None else _where_read(body, refs)
    if (
        body is None
        or at is None
        or merged.updated_refs
        or (scans_in(body) and not _go_together(body, at, producer))
    ):
        merged.erase()
        return None
    set_ops(merged, ops_of(producer, consumer))
    store = _copy_before(body, producer, add_inputs(merged, producer))
    _move(body, refs, store, at)
    return merged


def _only_loop(kernel: KernelOp) -> ForOp | None:
    """The only operation with a body or an effect in a kernel, if it is a loop of points."""
    found = [op for op in kernel.body.block.ops if op.regions or isinstance(op, StoreOpBase)]
    if len(found) != 1 or not isinstance(loop := found[0], ForOp):
        return None
    return None if any(op.regions or isinstance(op, SortOp) for op in loop.body.block.ops) else loop


def _where_read(loop: ForOp, refs: Sequence[SSAValue]) -> tuple[Expr, ...] | None:
    """The place of the element that is read at a point of the loop, if it is of no other point."""
    loads = [use.operation for ref in refs for use in ref.uses]
    places: set[tuple[Expr, ...]] = set()
    for op in loads:
        if not isinstance(op, LoadOp) or op.parent is not loop.body.block or op.where:
            return None
        places.add(op.subscripts)
    if len(places) != 1:
        return None
    (place,) = places
    terms = [term for subscript in place for term in subscript.terms]
    plain = all(len(subscript.terms) <= 1 for subscript in place)
    read = {id(atom) for atom, step in terms if step in (1, -1)}
    once = len(terms) == len(loop.axes) and read == set(map(id, loop.axes))
    return place if plain and once else None


def _go_together(loop: ForOp, at: Sequence[Expr], producer: KernelOp) -> bool:
    """True if each point of a loop reads what the loop of a producer stores at the same point."""
    (store,) = (op for op in producer.walk() if isinstance(op, StoreOp))
    stores = store.parent_op()
    return (
        isinstance(stores, ForOp)
        and store.subscripts == tuple(map(Expr.of, stores.axes))
        and tuple(at) == tuple(map(Expr.of, loop.axes))
        and stores.all_extents == loop.all_extents
    )


def _copy_before(loop: ForOp, producer: KernelOp, values: dict[SSAValue, SSAValue]) -> StoreOp:
    """Copies the body of a kernel before a loop; returns the store of its result."""
    stores: list[StoreOp] = []
    block = loop.parent
    assert block is not None
    for op in producer.body.block.ops:
        copy = op.clone(values)
        block.insert_op_before(copy, loop)
        stores += [inner for inner in copy.walk() if isinstance(inner, StoreOp)]
    (store,) = stores
    return store


def _move(loop: ForOp, refs: Sequence[SSAValue], store: StoreOp, at: Sequence[Expr]) -> None:
    """Moves the body of a loop to a store, whose value it had read at its points' places."""
    place: dict[SSAValue, Expr] = {}
    beyond = list(store.where)
    for stored, read in zip(store.subscripts, at, strict=True):
        if not read.terms:
            both = (stored - read.constant, Expr.of(read.constant) - stored)
            beyond += [c for c in both if not sure(c)]
        for axis, step in read.terms:
            assert isinstance(axis, BlockArgument)
            point = (stored - read.constant) * step
            place[axis] = point
            beyond += [c for c in within(point, loop.count(axis), ()) if c not in beyond]
    for op in list(loop.body.block.ops):
        if isinstance(op, YieldOp):
            continue
        if isinstance(op, LoadOp) and op.ref in refs:
            Rewriter.replace_op(op, [], [store.value])
            continue
        _move_one(op, store, place, beyond)
    Rewriter.erase_op(store)
    Rewriter.erase_op(loop)


def _move_one(
    op: Operation, store: StoreOp, place: Mapping[SSAValue, Expr], beyond: Sequence[Expr]
) -> None:
    op.detach()
    assert store.parent is not None
    store.parent.insert_op_before(op, store)
    if isinstance(op, IndexedOp):
        op.substitute(place.get, beyond if isinstance(op, LoadOp | StoreOpBase) else ())

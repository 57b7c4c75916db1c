"""Merging a kernel into one that reads its result; see `inline_producer`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.layouts import shape_of
from dlc.dialects.loop import ForOp, IndexOp, KernelOp, LoadOp, SelectOp, StoreOp, YieldOp
from dlc.ir.expr import Expr
from dlc.ir.provenance import ops_of, set_ops


def inlinable(producer: KernelOp, *, follows: bool = False) -> str | None:
    """
    The reason why a kernel cannot be computed at the loads of its result, if any: it must have one
    result, stored once and without a condition, at all axes of the loops around the store or,
    along extents of 1, at 0. Where what reads it `follows` its store, that may be elsewhere, an
    element at each point, or have a condition.
    """
    if len(producer.outputs) != 1:
        return "it has several results"
    if producer.updated_refs:
        return "it updates its input in place"
    stores = [op for op in producer.walk() if isinstance(op, StoreOp)]
    if len(stores) != 1 or (stores[0].where and not follows):
        return "its result is not stored in one place without a condition"
    store = stores[0]
    axes = [op for op in store.indices if isinstance(op, BlockArgument)]
    bare = all(
        (s.is_constant and s.constant == 0 and extent == 1) or s in map(Expr.of, axes)
        for s, extent in zip(store.subscripts, shape_of(producer.outputs[0]), strict=True)
    )
    loops = [op for op in producer.walk() if isinstance(op, ForOp)]
    around = {a for loop in loops for a in loop.axes}
    points = prod(loop.extent(a) for loop in loops for a in loop.axes)
    moved = follows and points == prod(shape_of(producer.outputs[0]))
    if not moved and (not bare or set(axes) != around or len(axes) != len(around)):
        return "its result is not stored at its axes"
    if any(isinstance(u.operation, LoadOp) for u in producer.output_refs[0].uses):
        return "it reads its own result"
    return None


def inline_producer(producer: KernelOp, merged: KernelOp) -> None:
    """
    Has `merged`, which is inserted nowhere, compute what it would have loaded of the result of
    `producer`, for which `inlinable` must hold. It still lists the result as an input that it does
    not use; `normalize_kernel` cleans up.
    """
    refs = [
        ref
        for ref, tensor in zip(merged.input_refs, merged.inputs, strict=True)
        if tensor is producer.outputs[0]
    ]
    set_ops(merged, ops_of(producer, merged))
    mapping = add_inputs(merged, producer)
    for ref in refs:
        for use in list(ref.uses):
            assert isinstance(use.operation, LoadOp)
            _inline_at(use.operation, producer, mapping)


def add_inputs(merged: KernelOp, producer: KernelOp) -> dict[SSAValue, SSAValue]:
    """Gives `merged` the inputs of `producer`; returns the new memref of each of its memrefs."""
    count = len(merged.inputs)
    alignments = [*merged.alignments.get_values(), *producer.alignments.get_values()]
    merged.alignments = DenseArrayBase.from_list(i64, list(map(int, alignments)))
    mapping: dict[SSAValue, SSAValue] = {}
    for ref in producer.input_refs:
        new = merged.body.block.insert_arg(ref.type, count + ref.index)
        new.name_hint = ref.name_hint
        mapping[ref] = new
    merged.operands = [*merged.operands, *producer.inputs]
    return mapping


def _program(producer: KernelOp) -> Iterator[Operation]:
    """The operations of a producer's loop bodies in order, without loops and terminators."""

    def visit(ops: Sequence[Operation]) -> Iterator[Operation]:
        for op in ops:
            if isinstance(op, ForOp):
                yield from visit(list(op.body.block.ops))
            elif not isinstance(op, YieldOp):
                yield op

    return visit(list(producer.body.block.ops))


def _inline_at(load: LoadOp, producer: KernelOp, refs: dict[SSAValue, SSAValue]) -> None:
    block = load.parent
    assert block is not None
    where = load.where
    store = next(op for op in producer.walk() if isinstance(op, StoreOp))
    at: dict[SSAValue, Expr] = {}
    for stored, wanted in zip(store.subscripts, load.subscripts, strict=True):
        at.update(dict.fromkeys(stored.values(), wanted))
    values, around = dict(refs), _outermost(load)
    for op in _program(producer):
        if isinstance(op, StoreOp):
            continue
        copy = op.clone(values)
        # A constant comes to where `hoist` would bring it, whenever that is called.
        place = around if not op.operands and not op.regions else load
        Rewriter.insert_op(copy, InsertPoint.before(place))
        for inner in copy.walk():
            if isinstance(inner, IndexedOp):
                if any(v in at for v in inner.indices) or where:
                    guard = where if isinstance(inner, LoadOp) else ()
                    inner.substitute(at.get, guard)
            elif any(v in at for v in inner.operands):
                materialize(inner, at)
    result = values.get(store.value, store.value)
    if where and load.default is not None:
        select = SelectOp(result, where, load.default)
        block.insert_op_before(select, load)
        result = select.result
        result.name_hint = store.value.name_hint
    load.result.replace_all_uses_with(result)
    load.detach()
    load.erase()


def _outermost(op: Operation) -> Operation:
    """The operation of a kernel's block that `op` is or stands in."""
    while (outer := op.parent_op()) is not None and not isinstance(outer, KernelOp):
        op = outer
    return op


def materialize(op: Operation, at: dict[SSAValue, Expr]) -> None:
    """Gives `op`, which uses axes as values, the values of their expressions."""
    block = op.parent
    assert block is not None
    for n, operand in enumerate(op.operands):
        if operand in at:
            index = IndexOp(at[operand])
            block.insert_op_before(index, op)
            op.operands[n] = index.result

"""Which operations of a kernel matter: those with an effect, and what they need."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import MemoryReadEffect, Pure

from dlc.analysis.kernel.layout import Place, place_of
from dlc.dialects import kernel
from dlc.dialects.access import IndexedOp, LoadOpBase, SelectOpBase, StoreOpBase
from dlc.dialects.kernel_mbarriers import MbarrierOpBase
from dlc.dialects.kernel_memory import is_local, is_shared
from dlc.ir.expr import Expr, once


def live_ops(func: kernel.FuncOp) -> set[Operation]:
    """
    The operations that can change what the kernel leaves in global memory or when its threads
    meet. A store to shared or local memory is one of them only where something reads that memory.
    """
    stores: dict[SSAValue, list[Operation]] = {}
    todo: list[Operation] = []
    for op in func.walk():
        if isinstance(op, StoreOpBase) and (is_shared(op.ref) or is_local(op.ref)):
            stores.setdefault(op.ref, []).append(op)
        elif _is_root(op):
            todo.append(op)
    live: set[Operation] = set()
    while todo:
        op = todo.pop()
        if op in live or op is func:
            continue
        live.add(op)
        if isinstance(op, kernel.LoadOp):
            todo += stores.get(op.ref, [])
        if (parent := op.parent_op()) is not None:
            todo.append(parent)
        for region in op.regions:
            todo += [block.last_op for block in region.blocks if block.last_op is not None]
        for operand in mentioned(op):
            definition = operand.owner
            if not isinstance(definition, Operation):
                definition = definition.parent_op()
            if definition is not None:
                todo.append(definition)
    return live


def unsure(conditions: Sequence[Expr]) -> list[Expr]:
    """The conditions (each `>= 0`) that bounds do not make sure, each once."""
    return list(dict.fromkeys(c for c in conditions if c.range[0] < 0))


def mentioned(op: Operation) -> list[SSAValue]:
    """
    The operands that the text of an operation mentions: not the index values that cancel out of
    its subscripts, nor what belongs to conditions that are sure.
    """
    return once((op, "mentioned"), lambda: _mentioned(op))


def _mentioned(op: Operation) -> list[SSAValue]:
    if not isinstance(op, IndexedOp | kernel.CpAsyncOp):
        return list(op.operands)
    where = unsure(op.where)
    values = list(op.operands)
    for index in op.indices:
        values.remove(index)
    if isinstance(op, LoadOpBase | SelectOpBase) and not where and op.default is not None:
        values.remove(op.default)
    if any(c.range[1] < 0 for c in where):
        where = []
    return [*values, *(v for e in (*_offsets(op), *where) for v in e.values())]


def _offsets(op: IndexedOp | kernel.CpAsyncOp) -> list[Expr]:
    if isinstance(op, kernel.CpAsyncOp):
        pairs = [(op.source, op.subscripts), (op.target, op.target_subscripts)]
    elif isinstance(op, kernel.TmaLoadOp):
        offset = place_in(op, op.target, op.target_subscripts).linear
        return [*(op.coordinates[d] for d in op.map_op.dims), offset, op.barrier]
    elif isinstance(op, LoadOpBase | StoreOpBase) and not is_local(op.ref):
        pairs = [(op.ref, op.subscripts)]
    else:
        return list(op.subscripts)
    return [place_in(op, ref, subscripts).linear for ref, subscripts in pairs]


def place_in(op: Operation, ref: SSAValue, subscripts: Sequence[Expr]) -> Place:
    """Where an operation accesses a buffer."""
    return once((op, ref), lambda: place_of(memref(ref), subscripts))


def memref(ref: SSAValue) -> MemRefType[Attribute]:
    """The type of a buffer."""
    assert isinstance(ref.type, MemRefType)
    return ref.type


def _is_root(op: Operation) -> bool:
    if isinstance(op, kernel.FuncOp | scf.ForOp | scf.IfOp | scf.YieldOp):
        return False
    if isinstance(
        op,
        kernel.AllocSharedOp | kernel.AllocLocalOp | kernel.AllocMbarriersOp | kernel.LoadOp,
    ):
        return False
    if isinstance(op, kernel.ShuffleOp):  # who takes part does not depend on who needs the result
        return False
    return (not op.has_trait(Pure) and not op.has_trait(MemoryReadEffect)) or isinstance(
        op, kernel.BarrierOp | kernel.CpAsyncOp | kernel.CommitOp | kernel.WaitOp
        | kernel.AtomicAddOp | MbarrierOpBase | kernel.TmaLoadOp
        | kernel.FenceMbarrierInitOp | kernel.FenceProxyAsyncOp | kernel.SyncWarpOp
    )  # fmt: skip

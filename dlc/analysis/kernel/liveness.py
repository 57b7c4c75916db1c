"""The live operations of a kernel: those with an effect, and what they need."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue
from xdsl.traits import MemoryEffectKind, get_effects

from dlc.dialects import kernel
from dlc.dialects.access import StoreOpBase
from dlc.dialects.kernel_clusters import buffer_of
from dlc.dialects.kernel_memory import is_local, is_shared
from dlc.dialects.kernel_wgmma import WgmmaOpBase


def live_ops(func: kernel.FuncOp) -> set[Operation]:
    """
    The operations that can change what the kernel leaves in global memory or when its threads
    meet. A store to shared or local memory is one of them only where something reads that memory.
    """
    stores: dict[SSAValue, list[Operation]] = {}
    todo: list[Operation] = []
    for op in func.walk():
        if isinstance(op, StoreOpBase | kernel.StmatrixOp) and _is_of_block_or_thread(op.ref):
            stores.setdefault(op.ref, []).append(op)
        elif _has_effect(op):
            todo.append(op)
    live: set[Operation] = set()
    while todo:
        op = todo.pop()
        if op in live or op is func:
            continue
        live.add(op)
        if isinstance(op, kernel.LoadOp | kernel.LdmatrixOp | kernel.MatrixDescriptorOp):
            todo += stores.get(buffer_of(op.ref), [])
        elif isinstance(op, kernel.TmaStoreOp):
            todo += stores.get(op.source, [])
        elif isinstance(op, WgmmaOpBase):  # which adds to what is there
            todo += stores.get(op.ref, [])
            todo += stores.get(op.held, []) if op.held is not None else []
        if (parent := op.parent_op()) is not None:
            todo.append(parent)
        for region in op.regions:
            todo += [block.last_op for block in region.blocks if block.last_op is not None]
        for operand in op.operands:
            definition = operand.owner
            if not isinstance(definition, Operation):
                definition = definition.parent_op()
            if definition is not None:
                todo.append(definition)
    return live


def _is_of_block_or_thread(ref: SSAValue) -> bool:
    return is_shared(ref) or is_local(ref)


def _has_effect(op: Operation) -> bool:
    """True if an operation writes, waits or makes others wait, whoever needs its results."""
    if isinstance(op, kernel.FuncOp | scf.ForOp | scf.IfOp | scf.YieldOp):
        return False  # what they hold has
    if isinstance(op, kernel.ShuffleOp | kernel.MmaOp | kernel.LdmatrixOp):
        return False  # who takes part does not depend on who needs the result
    effects = get_effects(op)
    return effects is None or any(effect.kind == MemoryEffectKind.WRITE for effect in effects)

"""Moving behind reduces what they do not need; see `sink`."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from dlc.analysis.loop.loops import only_computes
from dlc.dialects.loop import KernelOp, ReduceOp


def sink(kernel: KernelOp) -> None:
    """
    Moves what no reduce of a block needs after the last one: an epilogue loads its operands there,
    and no register holds them through the loop.
    """
    outputs = set[SSAValue](kernel.output_refs)
    for op in list(kernel.walk()):
        for region in op.regions:
            _sink(region.block, outputs)


def _sink(block: Block, outputs: set[SSAValue]) -> None:
    last = block.last_op
    while last is not None and not isinstance(last, ReduceOp):
        last = last.prev_op
    if last is None:
        return
    after = set[Operation | None]()
    op: Operation | None = block.last_op
    while op is not last and op is not None:
        after.add(op)
        op = op.prev_op
    place, op = last, last.prev_op
    while op is not None:
        before = op.prev_op
        users = (block.find_ancestor_op_in_block(u.operation) for r in op.results for u in r.uses)
        movable = only_computes(op) and not outputs.intersection(op.operands)
        if movable and not isinstance(op, ReduceOp) and after.issuperset(users):
            op.detach()
            block.insert_op_after(op, place)
            after.add(op)
        op = before

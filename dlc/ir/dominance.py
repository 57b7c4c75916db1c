"""
SSA scoping and dominance: every operand is defined on every path that leads to its use.

xDSL's verifier checks neither, so this runs beside it, after parsing and after every pass.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

GRAPH_REGIONS = frozenset({"hw.module"})
"""Operations whose regions are graphs: there the order of operations means nothing."""


class DominanceError(VerifyException):
    """An operand of `op` is not defined where `op` uses it."""

    def __init__(self, op: Operation, message: str) -> None:
        super().__init__(message)
        self.op = op


def verify_dominance(op: Operation, sound: AbstractSet[Operation] = frozenset()) -> None:
    """
    Raise `DominanceError` for the first operation in `op` whose operand does not dominate it. What
    is in operations of `sound`, which are isolated from above, is known to be valid.
    """
    for region in op.regions:
        _verify_region(region, set(), sound)


def _verify_region(region: Region, visible: set[SSAValue], sound: AbstractSet[Operation]) -> None:
    """Check `region`, into which the values in `visible` can be seen."""
    if len(region.blocks) == 1:
        _verify_block(region.blocks[0], set(visible), sound)
        return
    for block, available in _available(region).items():
        _verify_block(block, visible | available, sound)


def _verify_block(block: Block, visible: set[SSAValue], sound: AbstractSet[Operation]) -> None:
    visible.update(block.args)
    parent = block.parent_op()
    if parent is not None and parent.name in GRAPH_REGIONS:
        visible.update(result for op in block.ops for result in op.results)
    for op in block.ops:
        for index, operand in enumerate(op.operands):
            if operand not in visible:
                raise DominanceError(op, _explain(op, index, operand))
        if op.regions and op not in sound:
            isolated = op.has_trait(IsolatedFromAbove, value_if_unregistered=False)
            for region in op.regions:
                _verify_region(region, set() if isolated else visible, sound)
        visible.update(op.results)


def _available(region: Region) -> dict[Block, set[SSAValue]]:
    """
    The values of `region` that are defined on every path from its entry to each reachable block:
    the greatest solution of in(b) = ∩ (in(p) ∪ defs(p)) over the predecessors p of b. A block that
    cannot be reached is dominated by everything and is left out.
    """
    if not region.blocks:
        return {}
    defs: dict[Block, set[SSAValue]] = {}
    predecessors: dict[Block, list[Block]] = {}
    pending = [region.blocks[0]]
    while pending:
        block = pending.pop()
        if block in defs:
            continue
        defs[block] = {*block.args, *(result for op in block.ops for result in op.results)}
        for successor in block.last_op.successors if block.last_op is not None else ():
            predecessors.setdefault(successor, []).append(block)
            pending.append(successor)
    everything = set[SSAValue]().union(*defs.values())
    available = {block: everything for block in defs} | {region.blocks[0]: set[SSAValue]()}
    changed = True
    while changed:
        changed = False
        for block in defs:
            if block is region.blocks[0]:
                continue
            now = set.intersection(*(available[p] | defs[p] for p in predecessors[block]))
            changed |= now != available[block]
            available[block] = now
    return available


def _explain(op: Operation, index: int, operand: SSAValue) -> str:
    """The reason why `operand`, the `index`-th of `op`, cannot be used there."""
    what = f"operand %{operand.name_hint}" if operand.name_hint else f"operand number {index}"
    block = operand.owner if isinstance(operand.owner, Block) else operand.owner.parent
    if not isinstance(operand, OpResult | BlockArgument) or block is None:
        return f"{what} is not defined in this module"
    path = [op]
    while path[-1].parent_region() is not block.parent:
        if (parent := path[-1].parent_op()) is None:
            return f"{what} is defined in a region that does not contain this use{_at(operand)}"
        path.append(parent)
    for around in path[1:]:
        if around.has_trait(IsolatedFromAbove, value_if_unregistered=False):
            return f"{what} is defined outside '{around.name}', which is isolated from above"
    if path[-1] is operand.owner:
        return f"{what} is a result of the operation that uses it{_at(operand)}"
    if path[-1].parent is block:
        return f"{what} is used before it is defined{_at(operand)}"
    return f"{what} is not defined on every path to its use{_at(operand)}"


def _at(value: SSAValue) -> str:
    """The line where `value` is defined, in parentheses; empty if it is not known."""
    location = value.owner.location if isinstance(value.owner, Operation) else None
    return f" (line {location.line.data})" if isinstance(location, FileLineColLoc) else ""

"""Moving out of loops what does not vary along them; see `hoist`."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from dlc.analysis.loop.loops import only_computes
from dlc.dialects.loop import ForOp, KernelOp, StoreOp, YieldOp
from dlc.ir.structure import itself, structure


def hoist(kernel: KernelOp) -> None:
    """
    Moves every operation to the outermost block where its operands are defined and merges equal
    ones. Loops over no points being gone, a hoisted load reads nothing that was not read before.

    One walk does both, as xDSL's `cse` and `licm` would in turns: an operation that has moved out
    may be equal to another one there, and what uses the two is equal then.
    """
    _Hoist(kernel).run()


class _Hoist:
    def __init__(self, kernel: KernelOp) -> None:
        self.kernel = kernel
        self.outputs = set[SSAValue](kernel.output_refs)
        self.depths: dict[Block, int] = {}
        self.path: list[Operation] = []
        """The operation being visited at each depth."""
        self.seen: dict[object, Operation] = {}

    def run(self) -> None:
        self._visit(self.kernel.body.block, 0)

    def _depth(self, value: SSAValue) -> int:
        owner = value.owner
        block = owner if isinstance(owner, Block) else owner.parent
        assert block is not None
        return self.depths[block]

    def _visit(self, block: Block, depth: int) -> int:
        """Returns the greatest depth, below `depth`, of a value that `block` uses."""
        self.depths[block] = depth
        needed = 0
        self.path.append(self.kernel)
        for op in list(block.ops):
            self.path[depth] = op
            uses = max(map(self._depth, op.operands), default=0)
            for region in op.regions:
                uses = max(uses, self._visit(region.block, depth + 1))
            if isinstance(op, StoreOp | ForOp) or not self._movable(op):
                if isinstance(op, YieldOp):
                    uses = max((d for d in map(self._depth, op.operands) if d < depth), default=0)
                needed = max(needed, min(uses, depth - 1))
                continue
            key = (structure(op, itself), frozenset(op.attributes.items()))
            if (same := self.seen.get(key)) is not None and self._is_around(same):
                Rewriter.replace_op(op, [], same.results)
                continue
            self.seen[key] = op
            if uses < depth:
                target = self.path[uses].parent
                assert target is not None
                op.detach()
                target.insert_op_before(op, self.path[uses])
            else:
                depths = map(self._depth, used_values(op))
                needed = max(needed, *(d for d in depths if d < depth), 0)
        self.path.pop()
        return needed

    def _is_around(self, op: Operation) -> bool:
        """True if an operation that was visited stands in a block around the one being visited."""
        return any(op.parent is outer.parent for outer in self.path)

    def _movable(self, op: Operation) -> bool:
        return only_computes(op) and not self.outputs.intersection(used_values(op))


def used_values(op: Operation) -> Iterable[SSAValue]:
    """The values that an operation uses and does not define inside."""
    if not op.regions:
        return op.operands
    inside = set[SSAValue]()
    used = list(op.operands)
    for o in op.walk():
        if o is not op:
            used.extend(o.operands)
            inside.update(o.results)
        for region in o.regions:
            inside.update(region.block.args)
    return [v for v in used if v not in inside]

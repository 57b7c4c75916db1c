"""
How the first products of an iteration are in flight while the one before it computes.

In a loop that multiplies, computes of the sums and multiplies again, as that of attention does, the
first products of the next iteration are requested once this one has copied the sums of its own:
tensor cores are busy while threads compute powers.

```
wait for chunk 0, request its first products
for each chunk {
  wait for them, copy their sums
  if there is another chunk { wait for it, request its first products }
  compute
  request the last products and wait for all
}
```
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from dlc.dialects import kernel, tile
from dlc.dialects.axes import SERIAL
from dlc.ir.expr import Expr
from dlc.remarks import remark
from dlc.transforms.kernel.lowering.kernel_builder import KernelBuilder

AHEAD = "ahead"
"""On a wait for products that may be requested an iteration earlier."""
_BEGIN = kernel.IndexOp | kernel.MbarrierWaitOp
"""What numbers the slot of a chunk, and waits for it."""


def request_ahead(to: KernelBuilder) -> None:
    """Requests products an iteration earlier where their waits say that they may be."""
    waits = [op for op in to.source.walk() if isinstance(op, kernel.WgmmaWaitOp)]
    for wait in [op for op in waits if op.attributes.pop(AHEAD, None) is not None]:
        around = wait.parent_op()
        loop = None if around is None else around.parent_op()
        if not isinstance(loop, tile.ForOp) or len(loop.axes_of(SERIAL)) != 1:
            told = "its products are not requested ahead: other loops are around them"
            remark("lower-reduces", to.source.name_, told)
            continue
        assert isinstance(around, tile.ForOp)
        _request(to, loop, around, wait)


def _request(
    to: KernelBuilder, loop: tile.ForOp, around: tile.ForOp, wait: kernel.WgmmaWaitOp
) -> None:
    """Takes what requests products out of a loop over register axes, to where it is ahead."""
    before = _before(wait)
    sums = [op for op in before if isinstance(op, kernel.AllocLocalOp) and op.result in wait.sums]
    begin = [op for op in _before(around) if isinstance(op, _BEGIN)]
    to.before(loop)
    for op in sums:
        op.detach()
        to.builder.insert(op)
    request = around.clone()
    for op in reversed(list(request.body.block.ops)[len(before) - len(sums) : -1]):
        Rewriter.erase_op(op)
    for op in reversed(before):
        if op not in sums and _requests(op, wait.sums):
            Rewriter.erase_op(op)
    (axis,) = loop.axes_of(SERIAL)
    _insert(to, axis, Expr(), [*begin, request])
    assert around.next_op is not None
    to.before(around.next_op)
    count, number = loop.extent(axis), Expr.of(axis) + 1
    with to.only_if([Expr((), count - 1) - number]):
        _insert(to, axis, number % count, [*begin, request])  # which is known to be a chunk's
    request.erase()
    for op in begin:
        if isinstance(op, kernel.MbarrierWaitOp):
            Rewriter.erase_op(op)


def _insert(to: KernelBuilder, axis: SSAValue, number: Expr, ops: Sequence[Operation]) -> None:
    """Inserts copies of operations as they are at a number of an axis."""
    values = {axis: to.index_of(number)}
    for op in ops:
        to.builder.insert(op.clone(values))


def _requests(op: Operation, sums: Sequence[SSAValue]) -> bool:
    """True for what zeroes sums, and has products added to them."""
    commits = isinstance(op, kernel.WgmmaCommitOp)
    return commits or any(operand in sums for inner in op.walk() for operand in inner.operands)


def _before(last: Operation) -> list[Operation]:
    """The operations of a block ahead of one of them."""
    block = last.parent_block()
    assert block is not None
    ops = list(block.ops)
    return ops[: ops.index(last)]

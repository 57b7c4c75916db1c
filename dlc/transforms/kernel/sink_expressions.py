"""Values that are used once stand before their use, and scalars before their first store."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.kernel.expression_parts import Parts, parts_of_expressions, users_of
from dlc.dialects import kernel
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.layouts import shape_of
from dlc.remarks import remark
from dlc.text import counted


@dataclass(frozen=True)
class SinkExpressionsPass(ModulePass):
    """
    A value that is used once moves to its use, so that what is one expression stands together; a
    scalar of a thread is allocated directly before it is first stored to.

    *Legal when* nothing in between changes what the value is computed of: see
    `dlc.analysis.kernel.expression_parts`.
    *Why*: what stands together is printed as one expression, and a kernel that reads well is one
    that can be checked.

    ```
    %x = kernel.load %a[%t] : memref<64xf32>
    %y = kernel.load %b[%t] : memref<64xf32>
    %u = math.exp %y : f32
    kernel.store %u, %c[%t] : memref<64xf32>
    kernel.store %x, %d[%t] : memref<64xf32>
    ```
    becomes
    ```
    %y = kernel.load %b[%t] : memref<64xf32>
    %u = math.exp %y : f32
    kernel.store %u, %c[%t] : memref<64xf32>
    %x = kernel.load %a[%t] : memref<64xf32>
    kernel.store %x, %d[%t] : memref<64xf32>
    ```

    A load from a thread's own memory that is used several times is repeated before each use.
    """

    name = "sink-expressions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in kernels_in(op, kernel.FuncOp):
            if moved := _sink(func):
                remark(self.name, func.name_, f"moved {counted(moved, 'operation')}")


def _sink(func: kernel.FuncOp) -> int:
    """Moves the parts of expressions, and scalars, of a kernel; returns how many moved."""
    parts = parts_of_expressions(func)
    order = {op: number for number, op in enumerate(func.walk())}
    for user, own in parts.items():
        for number, part in enumerate(own):
            if len(users_of(part.results[0])) > 1:
                own[number] = _copied(part, user)
                order[own[number]] = order[part]
    inner = {part for own in parts.values() for part in own}
    moved = sum(_gather(whole, parts, order) for whole in parts if whole not in inner)
    return moved + sum(_declare_late(op) for op in order if isinstance(op, kernel.AllocLocalOp))


def _copied(part: Operation, user: Operation) -> Operation:
    """A copy of an operation for one of its users."""
    copy = part.clone()
    Rewriter.insert_op(copy, InsertPoint.before(user))
    part.results[0].replace_uses_with_if(copy.results[0], lambda use: use.operation is user)
    return copy


def _gather(whole: Operation, parts: Parts, order: dict[Operation, int]) -> int:
    """Puts all parts of an expression directly before it, in the order that they stood in."""
    todo, found = [whole], list[Operation]()
    while todo:
        own = parts.get(todo.pop(), [])
        found += own
        todo += own
    moved, start = 0, whole
    for part in sorted(found, key=order.__getitem__, reverse=True):
        if part.next_op is not start:
            part.detach()
            Rewriter.insert_op(part, InsertPoint.before(start))
            moved += 1
        start = part
    return moved


def _declare_late(scalar: kernel.AllocLocalOp) -> bool:
    """True if a scalar moved to its first access, a store without conditions in its block."""
    if shape_of(scalar.result):
        return False
    users = users_of(scalar.result)
    first = scalar.next_op
    while first is not None and not any(inner in users for inner in first.walk()):
        first = first.next_op
    if not isinstance(first, kernel.StoreOp) or first.where or first is scalar.next_op:
        return False
    scalar.detach()
    Rewriter.insert_op(scalar, InsertPoint.before(first))
    return True

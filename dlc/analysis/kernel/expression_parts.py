"""
The operations that can be evaluated at their use, as parts of one expression.

An operation is a part of its only user if nothing in between changes what it is computed of: the
memory that it and its own parts read, and for a shuffle what all lanes do before it. A load of one
element of a thread's own memory is as good as a name, so it is a part of all its users if it is
one of the last.
"""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, VectorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import MemoryWriteEffect

from dlc.dialects import kernel
from dlc.dialects.access import StoreOpBase
from dlc.dialects.kernel_clusters import buffer_of
from dlc.dialects.kernel_memory import is_local
from dlc.dialects.layouts import shape_of

Parts = dict[Operation, list[Operation]]
"""The parts of each operation that has any, in the order of its operands."""
Memory = frozenset[SSAValue | None]
"""The memory that an expression reads; None stands for the other lanes of the warp."""

_VALUES = kernel.LoadOp | kernel.SelectOp | kernel.ShuffleOp | kernel.TestOp


def parts_of_expressions(func: kernel.FuncOp) -> Parts:
    """The operations that each operation of a kernel can evaluate where it stands."""
    scan = _Scan(func)
    scan.block(func.body.block)
    return scan.parts


class _Scan:
    """A walk over a kernel, in order, with the values that can still be parts of what follows."""

    def __init__(self, func: kernel.FuncOp) -> None:
        self.parts: Parts = {}
        self._inputs = set(func.constant_refs)
        self._settled: set[SSAValue] = set()
        self._reads: dict[SSAValue, Memory] = {}
        self._users_left: dict[SSAValue, set[Operation]] = {}

    def block(self, block: Block) -> None:
        self._settled |= _settled(block)
        for op in block.ops:
            reads = self._join(op)
            for value in [v for v, read in self._reads.items() if not _keeps(op, read)]:
                self._revoke(value)
            for region in op.regions:
                for inner in region.blocks:
                    self.block(inner)
            if is_value(op) and (users := _possible_users(op)):
                self._reads[op.results[0]] = reads | self._own_reads(op)
                self._users_left[op.results[0]] = users

    def _join(self, op: Operation) -> Memory:
        """Makes what an operation uses its parts where that can be; returns what those read."""
        reads: Memory = frozenset()
        for value in dict.fromkeys(op.operands):
            if value not in self._reads and value not in self._settled:
                continue
            assert isinstance(value.owner, Operation)
            self.parts.setdefault(op, []).append(value.owner)
            if value in self._reads:
                reads |= self._reads[value]
                self._users_left[value].remove(op)
                if not self._users_left[value]:
                    del self._reads[value]
        return reads

    def _revoke(self, value: SSAValue) -> None:
        """A value that does not last until its last use is a part of none of its users."""
        del self._reads[value]
        for user in users_of(value):
            if user in self.parts:
                self.parts[user] = [part for part in self.parts[user] if part is not value.owner]

    def _own_reads(self, op: Operation) -> Memory:
        if isinstance(op, kernel.ShuffleOp):
            return frozenset((None,))
        if not isinstance(op, kernel.LoadOp) or op.ref in self._inputs:
            return frozenset()
        return frozenset() if op.result in self._settled else frozenset((buffer_of(op.ref),))


def is_value(op: Operation) -> bool:
    """True if an operation computes a number that is neither a constant nor an index."""
    if len(op.results) != 1 or isinstance(op, arith.ConstantOp):
        return False
    if isinstance(op.results[0].type, IndexType):
        return False
    return op.dialect_name() in ("arith", "math") or isinstance(op, _VALUES)


def users_of(value: SSAValue) -> set[Operation]:
    """The operations that use a value."""
    return {use.operation for use in value.uses}


def only_user(op: Operation) -> Operation | None:
    """The operation that uses a result, if there is one only that needs it once."""
    users = users_of(op.results[0])
    if len(users) != 1 or not (op.results[0].has_one_use() or is_name(op)):
        return None
    return users.pop()


def is_name(op: Operation) -> bool:
    """True if an operation only reads one element of a thread's own memory."""
    return (
        isinstance(op, kernel.LoadOp)
        and is_local(op.ref)
        and not op.where
        and not isinstance(op.result.type, VectorType)
    )


def is_guarded(load: kernel.LoadOp, user: Operation) -> bool:
    """True if a load's user is a store that happens under the load's conditions only."""
    return isinstance(user, kernel.StoreOp) and set(load.where) <= set(user.where)


def is_declaration(op: Operation | None) -> bool:
    """True if an operation is a store to a scalar of a thread that is allocated directly before."""
    if not isinstance(op, kernel.StoreOp) or op.where or shape_of(op.ref):
        return False
    return isinstance(op.prev_op, kernel.AllocLocalOp) and op.prev_op.result is op.ref


def _possible_users(op: Operation) -> set[Operation]:
    """The users of an operation, all in its block, if it can be a part of them; else none."""
    users = users_of(op.results[0])
    if any(user.parent is not op.parent for user in users):
        return set()
    if is_name(op):
        return users
    user = only_user(op)
    return set() if user is None or _is_choice_apart(op, user) else users


def _is_choice_apart(op: Operation, user: Operation) -> bool:
    """True if an operation gives one of two values, which reads well only where it is stored."""
    if isinstance(user, scf.YieldOp) or (isinstance(user, kernel.StoreOp) and not user.where):
        return False
    if isinstance(op, kernel.LoadOp):
        return bool(op.where) and not is_guarded(op, user)
    return isinstance(op, arith.SelectOp | kernel.SelectOp)


def _settled(block: Block) -> set[SSAValue]:
    """The loads of a block from its own scalars after which the block stores nothing there."""
    ops = list(block.ops)
    scalars = {
        op.result for op in ops if isinstance(op, kernel.AllocLocalOp) and not shape_of(op.result)
    }
    settled: set[SSAValue] = set()
    for op in reversed(ops):
        if not scalars:
            break
        if isinstance(op, kernel.LoadOp) and op.ref in scalars and is_name(op):
            settled.add(op.result)
        scalars.difference_update(o.ref for o in op.walk() if isinstance(o, StoreOpBase))
    return settled


def _keeps(op: Operation, reads: Memory) -> bool:
    """True if what reads some memory can be evaluated after an operation as well as before it."""
    if not reads:
        return True
    match op:
        case scf.ForOp() | scf.IfOp():
            return False
        case StoreOpBase():
            return op.ref not in reads and None not in reads
        case kernel.CpAsyncOp():
            return op.target not in reads and None not in reads
        case kernel.ShuffleOp():
            return None not in reads
        case _ if op.has_trait(MemoryWriteEffect):
            return all(read is not None and is_local(read) for read in reads)
        case _:
            return True

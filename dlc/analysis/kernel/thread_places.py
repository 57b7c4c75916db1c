"""Which thread of a block accesses which element of a shared buffer, where only its number says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects import scf
from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Operation, SSAValue

from dlc.analysis.kernel.index_values import expanded
from dlc.dialects import kernel
from dlc.dialects.kernel_func import enclosing_func
from dlc.dialects.layouts import shape_of
from dlc.ir.expr import Expr

Owners = Mapping[int, int]
"""The number of the only thread that accesses an element, by the element's number."""


class ThreadPlaces:
    """The threads of a kernel's accesses, each asked for once."""

    def __init__(self) -> None:
        self._numbered: dict[tuple[Expr, int], tuple[int, ...]] = {}
        self._owners: dict[Operation, Owners | None] = {}
        self._alike: dict[tuple[Operation, Operation], bool] = {}

    def alike(self, first: Operation, second: Operation) -> bool:
        """
        True if a thread meets no other's elements, as each has its own in two accesses of one
        reference: of others, such as a cluster's, elements have other numbers.
        """
        if (ref := _ref(first)) is None or ref is not _ref(second):
            return False
        key = (first, second)
        if key not in self._alike:
            one, other = self.owners(first), self.owners(second)
            self._alike[key] = (
                one is not None
                and other is not None
                and all(one.get(at, thread) == thread for at, thread in other.items())
            )
        return self._alike[key]

    def owners(self, op: Operation) -> Owners | None:
        """
        Whose the elements are that an access of single elements touches; None if that is not known
        from the threads' numbers alone, or if several touch one.
        """
        if op not in self._owners:
            self._owners[op] = self._find(op)
        return self._owners[op]

    def _find(self, op: Operation) -> Owners | None:
        func = enclosing_func(op)
        if not isinstance(op, kernel.LoadOp | kernel.StoreOp) or func is None:
            return None
        value = op.result if isinstance(op, kernel.LoadOp) else op.value
        if isinstance(value.type, VectorType):
            return None
        assert isinstance(op.ref.type, MemRefType)
        offset, size = Expr(), 1
        for subscript, extent in zip(
            reversed(op.subscripts), reversed(shape_of(op.ref)), strict=True
        ):
            offset, size = offset + expanded(subscript) * size, size * extent
        if not _of_thread(offset):
            return None
        places = self._of_threads(offset - offset.constant, func.block_size)
        tests = [self._of_threads(c, func.block_size) for c in _conditions(op) if _of_thread(c)]
        there = [n for n in range(func.block_size) if all(test[n] >= 0 for test in tests)]
        owners = {places[thread] + offset.constant: thread for thread in there}
        return owners if len(owners) == len(there) else None

    def _of_threads(self, expr: Expr, threads: int) -> tuple[int, ...]:
        """What an expression is of each thread."""
        if (key := (expr, threads)) not in self._numbered:
            numbers: list[SSAValue] = list(expr.values())
            self._numbered[key] = tuple(
                expr.evaluate(dict.fromkeys(numbers, thread)) for thread in range(threads)
            )
        return self._numbered[key]


def _of_thread(expr: Expr) -> bool:
    """True if the number of a thread alone says what an expression is."""
    return all(isinstance(v.owner, kernel.ThreadIdOp) for v in expr.values())


def _conditions(op: kernel.LoadOp | kernel.StoreOp) -> Iterator[Expr]:
    """What holds where an access is done: its own conditions, and those of branches around it."""
    yield from map(expanded, op.where)
    inner: Operation = op
    while (outer := inner.parent_op()) is not None:
        if isinstance(outer, scf.IfOp) and inner.parent_region() is outer.true_region:
            test = outer.cond.owner
            yield from map(expanded, test.where if isinstance(test, kernel.TestOp) else ())
        inner = outer


def _ref(op: Operation) -> SSAValue | None:
    """What an access of single elements accesses."""
    return op.ref if isinstance(op, kernel.LoadOp | kernel.StoreOp) else None

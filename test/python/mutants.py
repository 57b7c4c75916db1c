"""
Mutants of Kernel IR: what keeps a kernel right, deleted or weakened, one thing at a time.

Every mutant is one edit of one operation of a module. `judge` runs it in the interpreter and says
what objected: the verifier, a hazard, or the comparison with fp64; nothing for a survivor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import loop_cases
import numpy as np
from bank_meter import BankConflict, Promises, promises_of, run_measured
from harness import EPSILON, STEPS, apply, compare, lowered, scheduled
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    UnitAttr,
    VectorType,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from dlc.dialects import kernel
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.kernel_clusters import cluster_of
from dlc.dialects.kernel_func import enclosing_func
from dlc.dialects.kernel_mbarriers import MbarrierOpBase
from dlc.dialects.kernel_memory import element_bytes, is_of_cluster, is_shared
from dlc.dialects.kernel_tma import TmaLoadOpBase
from dlc.simulator import Hazard
from dlc.simulator.executable import Program
from dlc.simulator.expressions import compile_conditions

Array = np.ndarray[Any, Any]
WARP = 32
DELETED = (
    kernel.BarrierOp,
    kernel.LastBlockOp,
    kernel.ClusterBarrierOp,
    kernel.WaitOp,
    kernel.CommitOp,
    kernel.CpAsyncOp,
    kernel.MbarrierInitOp,
    kernel.MbarrierArriveOp,
    kernel.MbarrierArriveAtOp,
    kernel.MbarrierExpectTxOp,
    kernel.MbarrierWaitOp,
    kernel.TmaLoadOp,
    kernel.TmaMulticastOp,
    kernel.TmaStoreOp,
    kernel.TmaCommitOp,
    kernel.TmaWaitOp,
    kernel.FenceMbarrierInitOp,
    kernel.FenceProxyAsyncOp,
    kernel.SyncWarpOp,
    kernel.SetMaxRegistersOp,
    kernel.ShuffleOp,
    kernel.MmaOp,
    kernel.StmatrixOp,
    kernel.WgmmaOp,
    kernel.WgmmaHeldOp,
    kernel.WgmmaFenceOp,
    kernel.WgmmaCommitOp,
    kernel.WgmmaWaitOp,
)
"""What is deleted whole."""
NEVER_EQUIVALENT = (
    kernel.BarrierOp,
    kernel.LastBlockOp,
    kernel.ClusterBarrierOp,
    kernel.WaitOp,
    kernel.CommitOp,
    kernel.MbarrierArriveOp,
    kernel.MbarrierArriveAtOp,
    kernel.MbarrierWaitOp,
    kernel.TmaMulticastOp,
    kernel.TmaStoreOp,
    kernel.TmaCommitOp,
    kernel.TmaWaitOp,
    kernel.MmaOp,
    kernel.WgmmaOp,
    kernel.WgmmaHeldOp,
    kernel.WgmmaFenceOp,
    kernel.WgmmaCommitOp,
    kernel.WgmmaWaitOp,
)
"""Where a deletion that nothing objects to is a defect, of the compiler or of the checker."""
Edit = Callable[[Operation], None]


@dataclass(frozen=True)
class Mutation:
    """An edit of the operation at a place in a module, counted as `walk` does."""

    at: int
    what: str
    edit: Edit
    line: str
    """The operation as it was."""
    condition: int | None = None
    """Which condition of the operation is dropped, if that is what is done."""

    @property
    def kind(self) -> str:
        """`kernel.wait: one more may be pending`"""
        return f"{self.line.partition(' = ')[2] or self.line}".split(" ")[0] + f": {self.what}"

    def applied(self, module: ModuleOp) -> ModuleOp:
        """The mutant of a module."""
        mutant = module.clone()
        self.edit(list(mutant.walk())[self.at])
        return mutant


def mutations(module: ModuleOp) -> Iterator[Mutation]:
    """Every mutation of a module, in program order."""
    for at, op in enumerate(module.walk()):
        if enclosing_func(op) is None:
            continue
        line = str(op).partition("\n")[0]
        for what, edit in _edits(op):
            yield Mutation(at, what, edit, line)
        if isinstance(op, IndexedOp | kernel.CpAsyncOp) and op.conditions is not None:
            for n in range(len(op.conditions.data.results)):
                yield Mutation(at, f"condition {n} holds", _without_condition(n), line, n)


def _edits(op: Operation) -> Iterator[tuple[str, Edit]]:
    if isinstance(op, DELETED):
        yield "deleted", _delete
    match op:
        case kernel.BarrierOp():
            func = enclosing_func(op)
            assert func is not None
            if func.block_size > WARP:
                yield "only warps meet", _meet_in_warps
        case kernel.ClusterBarrierOp():
            yield "only blocks meet", _meet_in_blocks
            if op.relaxed is None:
                yield "waits for no writes", _relax
            else:
                yield "before what is read is used", _before_use
        case kernel.LastBlockOp():
            yield "one block more", _add("count", 1)
            yield "one block less", _add("count", -1)
            if isinstance(op.ref.type, MemRefType) and op.ref.type.get_shape()[0] > 1:
                yield "all at once", _change("map", 0, lambda _, __: AffineConstantExpr(0))
        case kernel.WaitOp() | kernel.WgmmaWaitOp():
            yield "one more may be pending", _add("pending", 1)
        case kernel.TmaWaitOp():
            yield "one more may be pending", _add("pending", 1)
            if op.read is None:
                yield "only read", _only_read
        case kernel.FenceProxyAsyncOp() if isinstance(op.next_op, kernel.SyncWarpOp):
            yield "after the next", _after_the_next
        case kernel.TmaMulticastOp():
            yield "one block less", _blocks(op.offsets[:-1])
            yield "to itself alone", _blocks(op.offsets[:1])
            cluster = cluster_of(op)
            yield "from the next block", _change("map", -1, lambda e, _: (e + 1) % cluster)
        case kernel.MbarrierArriveAtOp():
            cluster = cluster_of(op)
            yield "at block 0", _change("map", 1, lambda _, __: AffineConstantExpr(0))
            yield "at the next block", _change("map", 1, lambda e, _: (e + 1) % cluster)
        case kernel.WgmmaOp() | kernel.WgmmaHeldOp():
            yield "the other major", _other_major
        case kernel.MatrixDescriptorOp():
            yield "16 bytes more stride", _add("stride", 16)
            if op.fields[2]:
                yield "no swizzle", _add("swizzle", -op.fields[2])
        case kernel.MbarrierInitOp():
            yield "one arrival more", _add("count", 1)
            if op.count.value.data > 1:
                yield "one arrival less", _add("count", -1)
        case kernel.MbarrierExpectTxOp():
            yield "16 bytes more", _add("bytes", 16)
            yield "16 bytes less", _add("bytes", -16)
        case kernel.MbarrierWaitOp():
            yield "other parity", _change("map", 1, lambda e, _: 1 - e)
        case kernel.SetMaxRegistersOp():
            yield "8 more", _add("after", 8)
            yield "8 less", _add("after", -8)
            yield "the other way round", _swap_counts
        case kernel.ShuffleOp() if op.threads is not None:
            yield "all lanes are named", _name_all_lanes
            yield "one lane less is named", _add("threads", -1)
        case kernel.MmaOp():
            yield "no addend", _no_addend
        case kernel.LdmatrixOp() | kernel.StmatrixOp():
            if element_bytes(op.vector.element_type) == 2:
                yield "rows for columns", _turn
        case kernel.AllocSharedOp() if isinstance(op.result.type, MemRefType):
            if not isinstance(op.result.type.layout, NoneAttr) and _is_padded(op.result):
                yield "no padding", _dense
        case _:
            pass
    yield from _slot_edits(op)


def _slot_edits(op: Operation) -> Iterator[tuple[str, Edit]]:
    """The slots that an operation names, each replaced by the next one."""
    if isinstance(op, kernel.MbarrierInitOp):
        return  # all of them are initialized alike
    if isinstance(op, MbarrierOpBase):
        yield from _next_slot("map", 0, _count(op.barriers), "mbarrier")
    elif isinstance(op, TmaLoadOpBase):
        barrier = len(op.map.data.results) - 1 - op.MORE
        ranks = barrier - len(op.target_subscripts)
        yield from _next_slot("map", ranks, _slots(op.target), "slot")
        yield from _next_slot("map", barrier, _count(op.barriers), "mbarrier")
    elif isinstance(op, kernel.CpAsyncOp):
        yield from _next_slot("target_map", 0, _slots(op.target), "slot")
    elif isinstance(op, kernel.TmaStoreOp):
        yield from _next_slot("map", 1, _places(op.source), "place")
    elif isinstance(op, kernel.StoreOp) and _places(op.ref):
        yield from _next_slot("map", 1, _places(op.ref), "place")
    elif isinstance(
        op,
        kernel.LoadOp
        | kernel.StoreOp
        | kernel.LdmatrixOp
        | kernel.StmatrixOp
        | kernel.MatrixDescriptorOp,
    ) and is_shared(op.ref):
        yield from _next_slot("map", 0, _slots(op.ref), "slot")


def _next_slot(map: str, result: int, count: int, what: str) -> Iterator[tuple[str, Edit]]:
    if count > 1:
        yield f"next {what}", _change(map, result, lambda e, _: (e + 1) % count)


def _count(barriers: SSAValue) -> int:
    assert isinstance(barriers.owner, kernel.AllocMbarriersOp)
    return barriers.owner.count.value.data


def _slots(ref: SSAValue) -> int:
    """How many slots a ring has; 1 for what is no ring."""
    is_ring = (ref.name_hint or "").endswith("_ring")
    return ref.type.get_shape()[0] if is_ring and isinstance(ref.type, MemRefType) else 1


def _places(ref: SSAValue) -> int:
    """How many boxes a warp has room for in what the tensor memory accelerator stores from."""
    stored = any(isinstance(use.operation, kernel.TmaStoreOp) for use in ref.uses)
    return ref.type.get_shape()[1] if stored and isinstance(ref.type, MemRefType) else 0


def _is_padded(ref: SSAValue) -> bool:
    """Not where the tensor memory accelerator's alignment is what the padding is for."""
    return not any(isinstance(use.operation, TmaLoadOpBase) for use in ref.uses)


def _delete(op: Operation) -> None:
    if isinstance(op, kernel.ShuffleOp):
        op.result.replace_all_uses_with(op.value)
    elif isinstance(op, kernel.MmaOp):
        op.result.replace_all_uses_with(op.c)
    Rewriter.erase_op(op)


def _blocks(offsets: Sequence[int]) -> Edit:
    """The blocks that a box is written to."""

    def edit(op: Operation) -> None:
        op.properties["blocks"] = DenseArrayBase.from_list(i64, list(offsets))

    return edit


def _only_read(op: Operation) -> None:
    op.properties["read"] = UnitAttr()


def _after_the_next(op: Operation) -> None:
    next = op.next_op
    assert next is not None
    op.detach()
    Rewriter.insert_op(op, InsertPoint.after(next))


def _meet_in_warps(op: Operation) -> None:
    Rewriter.insert_op(kernel.SyncWarpOp(), InsertPoint.before(op))
    Rewriter.erase_op(op)


def _meet_in_blocks(op: Operation) -> None:
    Rewriter.insert_op(kernel.BarrierOp(), InsertPoint.before(op))
    Rewriter.erase_op(op)


def _relax(op: Operation) -> None:
    assert isinstance(op, kernel.ClusterBarrierOp)
    op.relaxed = UnitAttr()


def _before_use(op: Operation) -> None:
    """A relaxed barrier behind the last operation that has a read of another block in it."""
    at = op
    while (at := at.prev_op) is not None:
        if any(isinstance(o, kernel.LoadOp) and is_of_cluster(o.ref) for o in at.walk()):
            op.detach()
            Rewriter.insert_op(op, InsertPoint.after(at))
            return


def _no_addend(op: Operation) -> None:
    """The sums so far are lost."""
    assert isinstance(op, kernel.MmaOp)
    assert isinstance(op.c.type, VectorType)
    zero = arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(op.c.type, [0.0]))
    Rewriter.insert_op(zero, InsertPoint.before(op))
    op.operands[2] = zero.result


def _turn(op: Operation) -> None:
    if op.properties.pop("transposed", None) is None:
        op.properties["transposed"] = UnitAttr()


def _other_major(op: Operation) -> None:
    """B lies along its other dimension."""
    if op.properties.pop("n_major", None) is None:
        op.properties["n_major"] = UnitAttr()


def _name_all_lanes(op: Operation) -> None:
    del op.properties["threads"]


def _dense(op: Operation) -> None:
    type = op.results[0].type
    assert isinstance(type, MemRefType)
    plain = MemRefType(type.element_type, type.get_shape(), NoneAttr(), type.memory_space)
    Rewriter.replace_value_with_new_type(op.results[0], plain)


def _add(name: str, more: int) -> Edit:
    def edit(op: Operation) -> None:
        number = op.properties[name]
        assert isinstance(number, IntegerAttr)
        op.properties[name] = IntegerAttr(number.value.data + more, i64)

    return edit


def _change(name: str, result: int, new: Callable[[AffineExpr, int], AffineExpr]) -> Edit:
    """Replaces a result of an affine map that an operation has as a property."""

    def edit(op: Operation) -> None:
        attribute = op.properties[name]
        assert isinstance(attribute, AffineMapAttr)
        map = attribute.data
        results = list(map.results)
        results[result] = new(results[result], result)
        op.properties[name] = AffineMapAttr(AffineMap(map.num_dims, 0, tuple(results)))

    return edit


def _swap_counts(op: Operation) -> None:
    props = op.properties
    props["before"], props["after"] = props["after"], props["before"]


def _without_condition(n: int) -> Edit:
    return _change("conditions", n, lambda _, __: AffineConstantExpr(0))


@dataclass(frozen=True)
class Subject:
    """A kernel, or several, that is mutated, and what runs it."""

    case: loop_cases.Case
    target: str
    module: ModuleOp
    promises: Mapping[str, Promises]

    @staticmethod
    def of(case: loop_cases.Case, target: str, schedule: str | None) -> Subject:
        module = scheduled(case, schedule, target)
        apply(module, ",".join(STEPS), round_trip=False)
        return Subject.of_tile(case, target, module)

    @staticmethod
    def of_tile(case: loop_cases.Case, target: str, module: ModuleOp) -> Subject:
        """Tile IR for a target, after all steps."""
        promises = promises_of(module)
        return Subject(case, target, lowered(module, round_trip=False), promises)

    @property
    def name(self) -> str:
        return f"{self.case.name} {self.target}"

    def run(self, module: ModuleOp, inputs: Sequence[Array]) -> list[Array]:
        return run_measured(module, inputs, self.promises)[0]

    @cached_property
    def ordinary(self) -> list[Array]:
        """The results; they are right."""
        results = self.run(self.module, self.case.inputs)
        compare(self.case, results, "the original")
        return results

    @cached_property
    def unusual(self) -> list[tuple[str, tuple[Array, ...], list[Array]]]:
        """Other inputs, with the results, which are right as well."""
        found: list[tuple[str, tuple[Array, ...], list[Array]]] = []
        for name, inputs in unusual_inputs(self.case):
            results = self.run(self.module, inputs)
            if name != WILD and not _agree(self.case, inputs, results):
                assert name == LOW, f"{self.name}, {name}"  # exponentials underflow
                continue
            found.append((name, inputs, results))
        return found


WILD = "indices out of range"
LOW = "numbers far below 0"


def unusual_inputs(case: loop_cases.Case) -> Iterator[tuple[str, tuple[Array, ...]]]:
    """Inputs that show what is right by luck on normal numbers."""
    rng = np.random.default_rng(5)

    def each(change: Callable[[Array], Array]) -> tuple[Array, ...]:
        return tuple(change(a) if a.dtype == np.float32 else a for a in case.inputs)

    def poisoned(a: Array) -> Array:
        flat = a.copy().reshape(-1)
        flat[rng.integers(flat.size)], flat[rng.integers(flat.size)] = np.inf, np.nan
        return flat.reshape(a.shape)

    yield "other normal numbers", each(lambda a: rng.permutation(a.reshape(-1)).reshape(a.shape))
    yield "negative numbers", each(lambda a: -np.abs(a) - np.float32(0.5))
    yield LOW, each(lambda a: -np.abs(a) - np.float32(200))
    yield "ascending numbers", each(lambda a: np.sort(a.reshape(-1)).reshape(a.shape))
    yield "an infinity and a NaN", each(poisoned)
    if any(a.dtype == np.int64 for a in case.inputs):
        wild = (np.where(np.arange(a.size) % 2, -1, 1 << 20).reshape(a.shape) for a in case.inputs)
        yield (
            WILD,
            tuple(w if a.dtype == np.int64 else a for a, w in zip(case.inputs, wild, strict=True)),
        )


def _agree(case: loop_cases.Case, inputs: Sequence[Array], results: Sequence[Array]) -> bool:
    """Are results as fp64's, NaN and infinities where those are?"""
    exact = [a.astype(np.float64) if a.dtype == np.float32 else a for a in inputs]
    with np.errstate(all="ignore"):
        expected = [np.asarray(e) for e in case.expected(*exact)]
    for found, wanted in zip(results, expected, strict=True):
        found = found.reshape(wanted.shape)
        finite = np.isfinite(wanted)
        if not np.array_equal(found[~finite], wanted[~finite], equal_nan=True):
            return False
        error = np.abs(found[finite] - wanted[finite]).max(initial=0)
        scale = np.abs(wanted[finite]).max(initial=0)
        if not error <= EPSILON * scale * max(4, 2 * case.longest**0.5):
            return False
    return True


@dataclass(frozen=True)
class Verdict:
    """
    What objected to a mutant, and how. Nothing did to a survivor: `by` is empty, and `excuse` says
    why it is equivalent, if it is.
    """

    subject: str
    mutation: Mutation
    by: str
    message: str = ""
    excuse: str = ""


def judge(subject: Subject, mutation: Mutation) -> Verdict:
    """Runs a mutant; one that nothing objects to is shown to be equivalent, or is a survivor."""
    mutant = mutation.applied(subject.module)
    try:
        mutant.verify()
    except VerifyException as error:
        return Verdict(subject.name, mutation, "verifier", str(error))
    same = True
    try:
        results = subject.run(mutant, subject.case.inputs)
        compare(subject.case, results, mutation.what)
        same &= _same(results, subject.ordinary)
        for name, inputs, expected in subject.unusual:
            results = subject.run(mutant, inputs)
            assert name == WILD or _agree(subject.case, inputs, results), name
            same &= _same(results, expected)
    except Hazard as hazard:
        if hazard.kind != "not checked":
            return Verdict(subject.name, mutation, hazard.kind, str(hazard))
        return Verdict(subject.name, mutation, "", str(hazard))
    except BankConflict as conflict:
        return Verdict(subject.name, mutation, "bank conflict", str(conflict))
    except AssertionError as error:
        return Verdict(subject.name, mutation, "numbers", str(error))
    return Verdict(subject.name, mutation, "", excuse=_excuse(subject, mutation, same))


def _same(found: Sequence[Array], expected: Sequence[Array]) -> bool:
    """Bit for bit."""
    return all(f.tobytes() == e.tobytes() for f, e in zip(found, expected, strict=True))


def _excuse(subject: Subject, mutation: Mutation, same: bool) -> str:
    if mutation.condition is not None:
        if count := always_holds(subject, mutation.at, mutation.condition):
            return f"it holds in all {count} executions in which the other conditions do"
    elif not mutation.line.partition(" = ")[2].startswith(kernel.ShuffleOp.name):
        return ""
    return f"the same results, bit for bit, on {len(subject.unusual) + 1} inputs" if same else ""


def always_holds(subject: Subject, at: int, condition: int) -> int:
    """
    How often an operation was executed, over all threads, if one of its conditions was never the
    only one to be false; else 0. Blocks, threads and trip counts are those of the kernel, so that
    nothing is left out.
    """
    op = list(subject.module.walk())[at]
    wanted = op.properties["conditions"]
    assert isinstance(wanted, AffineMapAttr)
    results = wanted.data.results
    others = AffineMap(wanted.data.num_dims, 0, results[:condition] + results[condition + 1 :])
    alone = AffineMap(wanted.data.num_dims, 0, (results[condition],))
    count, ever_false = 0, False
    where = Program.where

    def recording(
        self: Program, conditions: AffineMapAttr | None, indices: Sequence[SSAValue]
    ) -> Callable[[], Any]:
        holds = where(self, conditions, indices)
        if conditions is not wanted:
            return holds
        slots, values = self.slots(indices), self.machine.values
        mine = compile_conditions(alone, slots, values)
        rest = compile_conditions(others, slots, values) if others.results else lambda: True

        def hold() -> Any:
            nonlocal count, ever_false
            lanes = self.machine.active
            bad = np.broadcast_to(rest() & ~np.asarray(mine()), self.machine.lanes)[lanes]
            count, ever_false = count + len(lanes), ever_false or bool(bad.any())
            return holds()

        return hold

    Program.where = recording
    try:
        subject.run(subject.module, subject.case.inputs)
    finally:
        Program.where = where
    return 0 if ever_false else count

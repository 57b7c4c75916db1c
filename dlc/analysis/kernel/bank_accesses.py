"""
The accesses of a tile kernel to shared and to global memory: what each costs a warp.

The rule is that of `banks`; the lanes are those of `sampled_lanes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from dlc.analysis.kernel.banks import sectors, served
from dlc.analysis.kernel.layout import offset_in, vector_width
from dlc.analysis.kernel.sampled_lanes import Access, Effect, dealt, serial_trips, threads_of
from dlc.analysis.tile.fragments import Buffer, copy_width, fragment_axis, run_width, shared_by
from dlc.analysis.tile.rings import is_async
from dlc.dialects import tile
from dlc.dialects.axes import REGISTER, loops_around
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.point_ops import extent_of_register
from dlc.dialects.ring_ops import TMA, slot_type
from dlc.ir.affine_forms import Form, form_of, value_of
from dlc.ir.analyses import Analyses
from dlc.ir.expr import Expr
from dlc.target import BANK_BYTES, SECTOR_BYTES, WIDEST_ACCESS

Filling = tile.StageOp | tile.ComputeOp | tile.FillOp
"""The operations by which the threads of a block fill shared memory."""


@dataclass(frozen=True)
class BankAccess:
    """A read or write of shared memory by the warps of a block, as far as they were looked at."""

    op: Operation
    """The load, stage, computing loop or fill."""
    buffer: Buffer
    writes: bool
    width: int
    """Bytes that a lane accesses at once."""
    wavefronts: int
    least: int
    """The wavefronts without conflicts."""
    times: int
    """The number of times that a thread executes the access."""

    @property
    def name(self) -> str:
        """The name of the buffer in the text."""
        return self.buffer.result.name_hint or "a buffer"

    @property
    def ways(self) -> float:
        return self.wavefronts / max(self.least, 1)

    @property
    def excess(self) -> float:
        """Wavefronts that a warp loses to conflicts in the kernel."""
        return self.times * (self.ways - 1) * max(self.width // BANK_BYTES, 1)

    def __str__(self) -> str:
        what = "write" if self.writes else "read"
        count = f"{self.ways:.3g} way{'s' if self.ways != 1 else ''}"
        return f"{what} of {self.name}, {self.width} bytes: {count}"


def excess(accesses: Iterable[BankAccess]) -> float:
    """Wavefronts that a warp loses to conflicts of accesses in the kernel."""
    return sum(access.excess for access in accesses)


@dataclass(frozen=True)
class GlobalAccess:
    """A load, store or atomic add of global memory by the warps of a block."""

    op: tile.LoadOp | Effect
    width: int
    """Bytes that a lane accesses at once."""
    sectors: float
    """Sectors that a warp touches each time."""
    times: int


def report(kernel: tile.KernelOp) -> list[BankAccess]:
    """Every access of stages and rings; a slab that TMA fills has no writes."""
    analyses = Analyses()
    return [*report_reads(kernel, analyses), *report_writes(kernel, analyses)]


def report_reads(kernel: tile.KernelOp, analyses: Analyses) -> list[BankAccess]:
    """Every load from a shared buffer, in program order."""
    return [read_of(kernel, op, analyses) for op in analyses.get(shared_loads, kernel)]


def read_of(kernel: tile.KernelOp, load: tile.LoadOp, analyses: Analyses) -> BankAccess:
    """A load from a shared buffer."""
    return _read(kernel, load, load.ref.type, analyses)


def report_writes(kernel: tile.KernelOp, analyses: Analyses) -> list[BankAccess]:
    """Every copy into a stage or ring by the threads, every computed slab, in program order."""
    fillings = analyses.get(_fillings, kernel)
    return [_write(kernel, op, _buffer(op).result.type) for op in fillings]


def accesses_of(
    kernel: tile.KernelOp, buffer: Buffer, type: MemRefType[Attribute], analyses: Analyses
) -> list[BankAccess]:
    """Every access of a stage or ring, as if its result had a type with another layout."""
    reads = reads_of(kernel, buffer, type, analyses)
    return [*reads, *writes_of(kernel, buffer, type, analyses)]


def reads_of(
    kernel: tile.KernelOp, buffer: Buffer, type: MemRefType[Attribute], analyses: Analyses
) -> list[BankAccess]:
    """Every load from a stage or ring, as if its result had a type with another layout."""
    slot = slot_type(type) if isinstance(buffer, tile.RingOp) else type
    loads = [op for op in analyses.get(shared_loads, kernel) if shared_by(op.ref) is buffer]
    return [_read(kernel, op, slot, analyses) for op in loads]


def writes_of(
    kernel: tile.KernelOp, buffer: Buffer, type: MemRefType[Attribute], analyses: Analyses
) -> list[BankAccess]:
    """Every copy or computation into a stage or ring, as if its result had another type."""
    fillings = analyses.get(_fillings, kernel)
    return [_write(kernel, op, type) for op in fillings if _buffer(op) is buffer]


def shared_loads(kernel: tile.KernelOp) -> list[tile.LoadOp]:
    """The loads from shared memory, in program order."""
    loads = (op for op in kernel.launch.walk() if isinstance(op, tile.LoadOp))
    return [op for op in loads if shared_by(op.ref) is not None]


def _fillings(kernel: tile.KernelOp) -> list[Filling]:
    """The operations by which threads fill shared memory, in program order."""
    found = (op for op in kernel.launch.walk() if isinstance(op, Filling))
    return [op for op in found if not _by_tma(op)]


def _buffer(op: Filling) -> Buffer:
    return op.source if isinstance(op, tile.FillOp) else op


def _by_tma(op: Filling) -> bool:
    return isinstance(op, tile.FillOp) and op.source.fill_kind == TMA


def report_global(kernel: tile.KernelOp, analyses: Analyses) -> list[GlobalAccess]:
    """
    The accesses of global memory; stages, rings and computed slabs, which are filled along rows,
    are left out.
    """
    found: list[GlobalAccess] = []
    for op in kernel.launch.walk():
        if not isinstance(op, tile.LoadOp | Effect) or shared_by(op.ref) is not None:
            continue
        if not any(isinstance(loop, tile.ComputeOp) for loop in loops_around(op)):
            alignment = kernel.alignment(op.ref)
            access = Access.of(kernel.launch, op, op.ref.type, alignment, analyses)
            counts = list(access.counts(sectors, SECTOR_BYTES))
            found.append(GlobalAccess(op, access.width, sum(counts) / len(counts), access.times))
    return found


def _read(
    kernel: tile.KernelOp, op: tile.LoadOp, type: Attribute, analyses: Analyses
) -> BankAccess:
    buffer = shared_by(op.ref)
    assert buffer is not None
    computing = next((op for op in loops_around(op) if isinstance(op, tile.ComputeOp)), None)
    if computing is not None and computing.points_held is not None:
        return _held(kernel, computing, op, buffer, type, op.subscripts)
    if computing is not None:
        lanes = run_width(computing.result_type)
        return _computing(kernel, computing, op, buffer, type, op.subscripts, lanes)
    access = Access.of(kernel.launch, op, type, WIDEST_ACCESS, analyses)
    counts = access.counts(served, BANK_BYTES)
    return _judge(op, buffer, False, access.width, counts, access.times)


def _write(kernel: tile.KernelOp, op: Filling, type: Attribute) -> BankAccess:
    """The copy or computation of a slab, dealt over the threads in runs."""
    assert isinstance(type, MemRefType)
    if isinstance(op, tile.ComputeOp):
        subscripts = [Expr.of(a) for a in op.axes]
        if op.points_held is not None:
            return _held(kernel, op, op, op, type, subscripts)
        return _computing(kernel, op, op, op, type, subscripts, run_width(type))
    slab = op.source.slab if isinstance(op, tile.FillOp) else op
    sizes = slab.slab_sizes
    size = element_bytes(type.element_type)
    asynchronous = op.is_async if isinstance(op, tile.StageOp) else is_async(op)
    width = copy_width(slab, kernel.alignment(slab.source), whole=asynchronous)
    rounds, counts = _copied(threads_of(kernel), sizes, width, type, isinstance(op, tile.FillOp))
    return _judge(op, _buffer(op), True, width * size, counts, rounds * serial_trips(op))


@lru_cache(maxsize=1024)
def _copied(
    threads: int, sizes: tuple[int, ...], width: int, type: MemRefType[Attribute], is_slot: bool
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """
    The runs of so many elements that a thread copies into a slab, or into a slot of a ring, and
    what serves each of the sampled warps.
    """
    offset, size = offset_in(type), element_bytes(type.element_type)
    prefix = [0] if is_slot else []

    def place(at: Sequence[int]) -> int:
        kept = (n for n, extent in zip(at, sizes, strict=True) if extent != 1)
        return offset([*prefix, *kept]) * size

    rounds, warps = dealt(threads, sizes, width, place)
    return rounds, tuple(served(lanes, width * size) for lanes in warps)


def _computing(
    kernel: tile.KernelOp,
    loop: tile.ComputeOp,
    op: tile.ComputeOp | tile.LoadOp,
    buffer: Buffer,
    type: Attribute,
    subscripts: Sequence[Expr],
    lanes: int,
) -> BankAccess:
    """The access of a computing loop, in runs of `lanes` elements of its slab."""
    assert isinstance(type, MemRefType)
    width = 1
    if lanes > 1 and (op is loop or _along_rows(op, loop)):
        base = [e.substitute(lambda v: 0 if v is loop.axes[-1] else None) for e in subscripts]
        width = min(lanes, vector_width(type, base, WIDEST_ACCESS))
    values = list[SSAValue](loop.axes)
    forms = tuple([form_of(e, values) for e in subscripts])
    runs = (threads_of(kernel), loop.sizes, lanes)
    rounds, counts = _computed(runs, width, type, forms, len(values) - len(loop.axes))
    times = rounds * lanes // width * serial_trips(loop)
    size = element_bytes(type.element_type)
    return _judge(op, buffer, op is loop, width * size, counts, times)


@lru_cache(maxsize=1024)
def _computed(
    runs: tuple[int, tuple[int, ...], int],
    width: int,
    type: MemRefType[Attribute],
    forms: tuple[Form, ...],
    others: int,
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """
    The runs that each of some threads computes of a slab of some sizes, each of so many elements,
    and what serves each of the sampled warps, which accesses `width` elements at subscripts of
    these forms: of the loop's axes, and of so many `others`, which are 0.
    """
    offset, size = offset_in(type), element_bytes(type.element_type)

    def place(at: Sequence[int]) -> int:
        point = (*at, *[0] * others)
        return offset([value_of(form, point) for form in forms]) * size

    rounds, warps = dealt(*runs, place)
    return rounds, tuple(served(lanes, width * size) for lanes in warps)


def _held(
    kernel: tile.KernelOp,
    loop: tile.ComputeOp,
    op: tile.ComputeOp | tile.LoadOp,
    buffer: Buffer,
    type: Attribute,
    subscripts: Sequence[Expr],
) -> BankAccess:
    """The access of a computing loop of which a thread holds points at equal distances."""
    assert isinstance(type, MemRefType)
    assert loop.points_held is not None
    offset, size = offset_in(type), element_bytes(type.element_type)
    values = {v for e in subscripts for v in e.values()}
    folds = [around for around in loops_around(op) if isinstance(around, tile.ReduceOp)]
    registers = [a for fold in folds for a in fold.axes_of(REGISTER)]
    width, times = 1, serial_trips(op)
    if isinstance(op, tile.LoadOp):
        if (axis := fragment_axis(op, registers)) is not None:
            base = [e.substitute(lambda v: 0 if v is axis else None) for e in subscripts]
            width = vector_width(type, base, WIDEST_ACCESS)
        own = [a for fold in folds for a in fold.axes_of(REGISTER) if a in values]
        times *= prod(extent_of_register(a) for a in own) // width
    held = zip(loop.axes, loop.points_held, strict=True)
    times *= prod(n for axis, n in held if axis in values)

    def place(at: Sequence[int]) -> int:
        first = zip(loop.axes, loop.first_point(at), strict=True)
        point = {**dict.fromkeys(values, 0), **dict(first)}
        return offset([e.evaluate(point) for e in subscripts]) * size

    rounds, warps = dealt(threads_of(kernel), loop.numbered, 1, place)
    counts = (served(lanes, width * size) for lanes in warps)
    return _judge(op, buffer, op is loop, width * size, counts, rounds * times)


def _along_rows(op: Operation, loop: tile.ComputeOp) -> bool:
    """True if a load takes neighbouring elements for neighbours in a row of a computed slab."""
    return isinstance(op, tile.LoadOp) and fragment_axis(op, loop.axes[-1:]) is not None


def _judge(
    op: Operation,
    buffer: Buffer,
    writes: bool,
    width: int,
    counts: Iterable[tuple[int, int]],
    times: int,
) -> BankAccess:
    total = least = 0
    for taken, phases in counts:
        total, least = total + taken, least + phases
    return BankAccess(op, buffer, writes, width, total, least, times)

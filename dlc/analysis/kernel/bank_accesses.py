"""
The accesses of a tile kernel to shared and to global memory: what each costs a warp.

The rule is that of `banks`; the lanes are those of `sampled_lanes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation

from dlc.analysis.kernel.banks import Lanes, sectors, served
from dlc.analysis.kernel.layout import offset_in, vector_width
from dlc.analysis.kernel.sampled_lanes import Access, Effect, dealt, serial_trips
from dlc.analysis.tile.fragments import Buffer, copy_width, fragment_axis, run_width, shared_by
from dlc.analysis.tile.rings import is_async
from dlc.dialects import tile
from dlc.dialects.axes import REGISTER, loops_around
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.point_ops import extent_of_register
from dlc.dialects.ring_ops import TMA, slot_type
from dlc.ir.analyses import Analyses
from dlc.ir.expr import Expr
from dlc.target import BANK_BYTES, WIDEST_ACCESS

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
            counts = [sectors(lanes, access.width) for lanes in access.warps()]
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
    return _judge(op, buffer, False, access.width, access.warps(), access.times)


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
    prefix = [0] if isinstance(op, tile.FillOp) else []
    offset = offset_in(type)

    def place(at: Sequence[int]) -> int:
        kept = (n for n, extent in zip(at, sizes, strict=True) if extent != 1)
        return offset([*prefix, *kept]) * size

    rounds, warps = dealt(kernel, sizes, width, place)
    times = rounds * serial_trips(op)
    return _judge(op, _buffer(op), True, width * size, warps, times)


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
    offset, size = offset_in(type), element_bytes(type.element_type)
    others = dict.fromkeys((v for e in subscripts for v in e.values()), 0)
    width = 1
    if lanes > 1 and (op is loop or _along_rows(op, loop)):
        base = [e.substitute(lambda v: 0 if v is loop.axes[-1] else None) for e in subscripts]
        width = min(lanes, vector_width(type, base, WIDEST_ACCESS))

    def place(at: Sequence[int]) -> int:
        point = {**others, **dict(zip(loop.axes, at, strict=True))}
        return offset([e.evaluate(point) for e in subscripts]) * size

    rounds, warps = dealt(kernel, loop.sizes, lanes, place)
    times = rounds * lanes // width * serial_trips(loop)
    return _judge(op, buffer, op is loop, width * size, warps, times)


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

    rounds, warps = dealt(kernel, loop.numbered, 1, place)
    return _judge(op, buffer, op is loop, width * size, warps, rounds * times)


def _along_rows(op: Operation, loop: tile.ComputeOp) -> bool:
    """True if a load takes neighbouring elements for neighbours in a row of a computed slab."""
    return isinstance(op, tile.LoadOp) and fragment_axis(op, loop.axes[-1:]) is not None


def _judge(
    op: Operation, buffer: Buffer, writes: bool, width: int, warps: Iterable[Lanes], times: int
) -> BankAccess:
    total = least = 0
    for lanes in warps:
        taken, phases = served(lanes, width)
        total, least = total + taken, least + phases
    return BankAccess(op, buffer, writes, width, total, least, times)

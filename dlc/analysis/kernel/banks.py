"""
How a warp's accesses meet the banks of shared memory, and the sectors of global memory.

Shared memory has 32 banks of 4 bytes; word w lies in bank w mod 32. A warp's access of 16 (8) bytes
a lane is served in four (two) phases of 8 (16) lanes; in a phase each bank gives one word in a
*wavefront*, to any number of lanes. An access has as many *ways* as it takes wavefronts for one
that it would take if no two words of a phase met in a bank (CUDA C++ Programming Guide, "Shared
Memory", of compute capability 5.x and later; the phases are as measured).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from operator import mul

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from dlc.analysis.kernel.layout import holds_alike, linear_offset, offset_in, vector_width
from dlc.analysis.tile.fragments import Buffer, copy_width, fragment_axis, run_width, shared_by
from dlc.analysis.tile.rings import is_async
from dlc.dialects import tile
from dlc.dialects.axes import REGISTER, SERIAL, THREAD, loops_around
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import SwizzleAttr
from dlc.dialects.ring_ops import TMA, slot_type
from dlc.ir.expr import Expr, once
from dlc.target import WARP

BANKS, BANK_BYTES, SECTOR_BYTES = 32, 4, 32
SHARED_ALIGNMENT = 16
SAMPLED_WARPS, SAMPLED_ROUNDS = 4, 2
"""How many warps of a block and rounds of a copy are looked at."""

Filling = tile.StageOp | tile.ComputeOp | tile.FillOp
"""What the threads of a block write shared memory by."""
Lanes = Sequence[int | None]
"""The byte address of each lane of a warp; None for lanes that take no part."""
Effect = tile.StoreOp | tile.AtomicAddOp
Warps = Sequence[Sequence[int]]
"""A number in each lane of each sampled warp."""


def phases(lanes: Lanes, width: int) -> list[list[int]]:
    """The addresses of the lanes that are served together; phases without any are left out."""
    size = min(WARP, BANKS * BANK_BYTES // width)
    groups = (lanes[at : at + size] for at in range(0, len(lanes), size))
    return [active for group in groups if (active := [a for a in group if a is not None])]


def wavefronts(lanes: Lanes, width: int) -> int:
    """How many wavefronts an access of `width` bytes a lane takes."""
    return _served(lanes, width)[0]


def _served(lanes: Lanes, width: int) -> tuple[int, int]:
    """How many wavefronts an access takes, and how many phases it has."""
    first = next((a for a in lanes if a is not None), 0) // BANK_BYTES * BANK_BYTES
    return _served_from_0(tuple(None if a is None else a - first for a in lanes), width)


@lru_cache(maxsize=4096)
def _served_from_0(lanes: tuple[int | None, ...], width: int) -> tuple[int, int]:
    """The same; adding a whole number of words to all addresses only turns the banks."""
    total, served = 0, phases(lanes, width)
    for phase in served:
        words = {
            word
            for address in phase
            for word in range(address // BANK_BYTES, -(-(address + width) // BANK_BYTES))
        }
        total += max(Counter(word % BANKS for word in words).values())
    return total, len(served)


def ways(lanes: Lanes, width: int) -> float:
    """How many times more wavefronts an access takes than it has phases; 1 is free of conflicts."""
    taken, phases = _served(lanes, width)
    return taken / max(phases, 1)


def sectors(lanes: Lanes, width: int) -> int:
    """How many sectors of 32 bytes of global memory an access touches."""
    touched = {
        sector
        for address in lanes
        if address is not None
        for sector in range(address // SECTOR_BYTES, -(-(address + width) // SECTOR_BYTES))
    }
    return len(touched)


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
    """How often a thread executes the access."""

    @property
    def name(self) -> str:
        """Of the buffer, in the text."""
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
    return [*report_reads(kernel), *report_writes(kernel)]


def report_reads(kernel: tile.KernelOp) -> list[BankAccess]:
    """Every load from a shared buffer, in program order."""
    return [_read(kernel, op, op.ref.type) for op in _loads(kernel)]


def report_writes(kernel: tile.KernelOp) -> list[BankAccess]:
    """Every copy into a stage or ring by the threads, every computed slab, in program order."""
    return [_write(kernel, op, _buffer(op).result.type) for op in _fillings(kernel)]


def accesses_of(
    kernel: tile.KernelOp, buffer: Buffer, type: MemRefType[Attribute]
) -> list[BankAccess]:
    """Every access of a stage or ring, as if its result had a type with another layout."""
    return [*reads_of(kernel, buffer, type), *writes_of(kernel, buffer, type)]


def reads_of(
    kernel: tile.KernelOp, buffer: Buffer, type: MemRefType[Attribute]
) -> list[BankAccess]:
    """Every load from a stage or ring, as if its result had a type with another layout."""
    slot = slot_type(type) if isinstance(buffer, tile.RingOp) else type
    return [_read(kernel, op, slot) for op in _loads(kernel) if shared_by(op.ref) is buffer]


def writes_of(
    kernel: tile.KernelOp, buffer: Buffer, type: MemRefType[Attribute]
) -> list[BankAccess]:
    """Every copy or computation into a stage or ring, as if its result had another type."""
    return [_write(kernel, op, type) for op in _fillings(kernel) if _buffer(op) is buffer]


def _loads(kernel: tile.KernelOp) -> list[tile.LoadOp]:
    """The loads from shared memory, in program order."""
    loads = (op for op in kernel.launch.walk() if isinstance(op, tile.LoadOp))
    return once((kernel, "loads"), lambda: [op for op in loads if shared_by(op.ref) is not None])


def _fillings(kernel: tile.KernelOp) -> list[Filling]:
    """What threads fill shared memory by, in program order."""
    found = (op for op in kernel.launch.walk() if isinstance(op, Filling))
    return once((kernel, "fillings"), lambda: [op for op in found if not _by_tma(op)])


def _buffer(op: Filling) -> Buffer:
    return op.source if isinstance(op, tile.FillOp) else op


def _by_tma(op: Filling) -> bool:
    return isinstance(op, tile.FillOp) and op.source.fill_kind == TMA


def report_global(kernel: tile.KernelOp) -> list[GlobalAccess]:
    """
    The accesses of global memory; stages, rings and computed slabs, which are filled along rows,
    are left out.
    """
    found: list[GlobalAccess] = []
    for op in kernel.launch.walk():
        if not isinstance(op, tile.LoadOp | Effect) or shared_by(op.ref) is not None:
            continue
        if not isinstance(op.parent_op(), tile.ComputeOp):
            walk = _Walk.of(kernel.launch, op, op.ref.type, kernel.alignment(op.ref))
            counts = [sectors(lanes, walk.width) for lanes in walk.warps()]
            found.append(GlobalAccess(op, walk.width, sum(counts) / len(counts), walk.times))
    return found


def _read(kernel: tile.KernelOp, op: tile.LoadOp, type: Attribute) -> BankAccess:
    buffer = shared_by(op.ref)
    assert buffer is not None
    if isinstance(computing := op.parent_op(), tile.ComputeOp):
        lanes = run_width(computing.result_type)
        return _computing(kernel, computing, op, buffer, type, op.subscripts, lanes)
    walk = _Walk.of(kernel.launch, op, type, SHARED_ALIGNMENT)
    return _judge(op, buffer, False, walk.width, walk.warps(), walk.times)


def _write(kernel: tile.KernelOp, op: Filling, type: Attribute) -> BankAccess:
    """The copy or computation of a slab, dealt over the threads in runs."""
    assert isinstance(type, MemRefType)
    if isinstance(op, tile.ComputeOp):
        subscripts = [Expr.of(a) for a in op.axes]
        return _computing(kernel, op, op, op, type, subscripts, run_width(type))
    slab = op.source.slab if isinstance(op, tile.FillOp) else op
    sizes = slab.slab_sizes
    size = element_bytes(type.element_type)
    width = copy_width(slab, kernel.alignment(slab.source), whole=is_async(op))
    prefix = [0] if isinstance(op, tile.FillOp) else []
    offset = offset_in(type)

    def place(at: Sequence[int]) -> int:
        kept = (n for n, extent in zip(at, sizes, strict=True) if extent != 1)
        return offset([*prefix, *kept]) * size

    rounds, warps = _dealt(kernel, sizes, width, place)
    times = rounds * prod(n for n, _ in _loops(op))
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
    """What a computing loop reads or writes, in runs of `lanes` elements of its slab."""
    assert isinstance(type, MemRefType)
    offset, size = offset_in(type), element_bytes(type.element_type)
    others = dict.fromkeys((v for e in subscripts for v in e.values()), 0)
    width = 1
    if lanes > 1 and (op is loop or _along_rows(op, loop)):
        base = [e.substitute(lambda v: 0 if v is loop.axes[-1] else None) for e in subscripts]
        width = min(lanes, vector_width(type, base, SHARED_ALIGNMENT))

    def place(at: Sequence[int]) -> int:
        point = {**others, **dict(zip(loop.axes, at, strict=True))}
        return offset([e.evaluate(point) for e in subscripts]) * size

    rounds, warps = _dealt(kernel, loop.sizes, lanes, place)
    times = rounds * lanes // width * prod(n for n, _ in _loops(loop))
    return _judge(op, buffer, op is loop, width * size, warps, times)


def _along_rows(op: Operation, loop: tile.ComputeOp) -> bool:
    """Does a load take neighbouring elements for neighbours in a row of a computed slab?"""
    return isinstance(op, tile.LoadOp) and fragment_axis(op, loop.axes[-1:]) is not None


def _dealt(
    kernel: tile.KernelOp, sizes: Sequence[int], width: int, place: Callable[[Sequence[int]], int]
) -> tuple[int, Iterator[Lanes]]:
    """
    How often a thread has a run of a slab (run t, t + threads, … are thread t's), and the addresses
    of the sampled warps, `place` being that of an element.
    """
    threads = max(1, prod(kernel.launch.extent(a) for a in kernel.launch.axes_of(THREAD)))
    warps = _runs(threads, tuple(sizes), width)
    lanes = ([None if at is None else place(at) for at in warp] for warp in warps)
    return -(-(prod(sizes) // width) // threads), lanes


@lru_cache(maxsize=256)
def _runs(
    threads: int, sizes: tuple[int, ...], width: int
) -> tuple[tuple[tuple[int, ...] | None, ...], ...]:
    """The first element of the run of a slab that each lane of the sampled warps has, if any."""
    runs = prod(sizes) // width
    rounds = range(min(-(-runs // threads), SAMPLED_ROUNDS))
    firsts = [range(round * threads, runs) for round in rounds]
    return tuple(
        tuple(_decode(first[t] * width, sizes) if t < len(first) else None for t in warp)
        for first in firsts
        for warp in _sampled_warps(threads)
    )


def _decode(number: int, extents: Sequence[int]) -> tuple[int, ...]:
    """The point that has a running number, the last place running fastest."""
    at: list[int] = []
    for extent in reversed(extents):
        at.insert(0, number % extent)
        number //= extent
    return tuple(at)


def _judge(
    op: Operation, buffer: Buffer, writes: bool, width: int, warps: Iterable[Lanes], times: int
) -> BankAccess:
    total = least = 0
    for lanes in warps:
        taken, phases = _served(lanes, width)
        total, least = total + taken, least + phases
    return BankAccess(op, buffer, writes, width, total, least, times)


def _loops(op: Operation) -> list[tuple[int, BlockArgument]]:
    """The serial axes around an operation, each with its extent."""
    return [(loop.extent(a), a) for loop in loops_around(op) for a in loop.axes_of(SERIAL)]


def _sampled_warps(threads: int) -> list[range]:
    """The thread numbers of some warps of a block, the first and the last among them."""
    count = max(-(-threads // WARP), 1)
    chosen = sorted({n * (count - 1) // (SAMPLED_WARPS - 1) for n in range(SAMPLED_WARPS)})
    return [range(n * WARP, min(n * WARP + WARP, threads)) for n in chosen]


def access_width(
    op: tile.LoadOp | Effect, type: MemRefType[Attribute], alignment: int
) -> tuple[BlockArgument | None, int]:
    """
    The register axis along which an access takes neighbouring elements of a memref of the given
    type, and how many it takes at once; `alignment` is that of the memref's address, in bytes.
    Atomic adds take one.
    """
    if isinstance(op, tile.AtomicAddOp):
        return None, 1
    axis, extent = once((op, "fragment axis"), lambda: _fragment_axis(op))
    if axis is None:
        return None, 1
    base = [e.substitute(lambda v: 0 if v is axis else None) for e in _subscripts(op)]
    width = vector_width(type, base, alignment)
    where = [_expand(c) for c in op.where]
    while width > 1 and (extent % width or not all(holds_alike(c, axis, width) for c in where)):
        width //= 2
    return axis, width


def _fragment_axis(op: tile.LoadOp | tile.StoreOp) -> tuple[BlockArgument | None, int]:
    """The register axis along which an access takes neighbouring elements, and its extent."""
    extents = {a: loop.extent(a) for loop in loops_around(op) for a in loop.axes_of(REGISTER)}
    axis = fragment_axis(op, list(extents))
    return axis, 1 if axis is None else extents[axis]


def _subscripts(op: tile.LoadOp | Effect) -> tuple[Expr, ...]:
    """The subscripts of an access in axes."""
    return once((op, "in axes"), lambda: tuple(map(_expand, op.subscripts)))


def _expand(expr: Expr) -> Expr:
    """An expression in axes; `tile.index` values are looked into."""

    def replace(value: SSAValue) -> Expr | None:
        owner = value.owner
        return _expand(owner.subscripts[0]) if isinstance(owner, tile.IndexOp) else None

    return expr.substitute(replace)


@dataclass(frozen=True)
class _Walk:
    """The addresses of an access, and how often a thread executes it."""

    launch: tile.LaunchOp
    type: MemRefType[Attribute]
    subscripts: tuple[Expr, ...]
    offset: Expr
    """In elements, but for what a swizzle exchanges."""
    element: int
    """Bytes of an element."""
    width: int
    """Bytes of the access."""
    times: int
    points: tuple[Mapping[SSAValue, int], ...]
    """Where the axes stand that are no thread axes."""

    @staticmethod
    def of(
        launch: tile.LaunchOp,
        op: tile.LoadOp | Effect,
        type: Attribute,
        alignment: int,
    ) -> _Walk:
        assert isinstance(type, MemRefType)
        axis, width = access_width(op, type, alignment)
        subscripts = _subscripts(op)
        mentioned = {v for e in subscripts for v in e.values()}
        steps: dict[SSAValue, tuple[int, int]] = {}
        times = prod(n for n, _ in _loops(op))
        for loop in loops_around(op):
            for a in loop.axes:
                if loop.kind(a) == THREAD or a not in mentioned:
                    continue
                step = width if a is axis else 1
                steps[a] = (min(step, loop.extent(a) - 1), loop.extent(a) - step)
                if loop.kind(a) == REGISTER:
                    times *= loop.extent(a) // step
        opaque = dict.fromkeys(mentioned - set(steps) - set(launch.axes), 0)
        size, offset = element_bytes(type.element_type), linear_offset(type, subscripts)
        points = tuple({**opaque, **p} for p in _points(steps, offset, type))
        return _Walk(launch, type, subscripts, offset, size, width * size, times, points)

    def warps(self) -> Iterator[Lanes]:
        """The addresses of the sampled warps at each of the points."""
        threads = {a: max(self.launch.extent(a), 1) for a in self.launch.axes_of(THREAD)}
        for point in self.points:
            for places in self._places(point, threads):
                yield [place * self.element for place in places]

    def _places(self, point: Mapping[SSAValue, int], threads: Mapping[BlockArgument, int]) -> Warps:
        """The places of the elements."""
        if not isinstance(self.type.layout, SwizzleAttr):
            return _along(self.offset, point, threads)
        offset = offset_in(self.type)
        parts = [_along(e, point, threads) for e in self.subscripts]
        return [[offset(at) for at in zip(*warp, strict=True)] for warp in zip(*parts, strict=True)]


@lru_cache(maxsize=256)
def _decoded(extents: tuple[int, ...]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Where the thread axes, the last one fastest, stand in the lanes of the sampled warps."""
    warps = _sampled_warps(prod(extents))
    return tuple(tuple(_decode(thread, extents) for thread in warp) for warp in warps)


@lru_cache(maxsize=256)
def _sums(extents: tuple[int, ...], factors: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """What a sum of the thread axes, each times a factor, is in the lanes of the sampled warps."""
    return tuple(tuple(sum(map(mul, factors, at)) for at in warp) for warp in _decoded(extents))


def _along(
    expr: Expr, point: Mapping[SSAValue, int], threads: Mapping[BlockArgument, int]
) -> Warps:
    """An expression at a point, the thread axes having so many points."""
    extents = tuple(threads.values())
    factors = tuple(f for a in threads if (f := expr.coefficient(a)) is not None)
    if len(factors) == len(threads):
        first = expr.evaluate({**point, **dict.fromkeys(threads, 0)})
        return [[first + rest for rest in warp] for warp in _sums(extents, factors)]
    return [
        [expr.evaluate({**point, **dict(zip(threads, at, strict=True))}) for at in warp]
        for warp in _decoded(extents)
    ]


def _points(
    steps: Mapping[SSAValue, tuple[int, int]], offset: Expr, type: MemRefType[Attribute]
) -> Iterator[dict[SSAValue, int]]:
    """
    Points of the axes that are no thread axes, given the second and the last place of each: where
    the offset is a sum, moving them shifts all lanes alike, and the first point stands for all.
    """
    yield dict.fromkeys(steps, 0)
    is_sum = all(isinstance(a, SSAValue) for a, _ in offset.terms)
    if is_sum and not isinstance(type.layout, SwizzleAttr):
        return
    yield {a: last for a, (_, last) in steps.items()}
    for axis, (second, _) in steps.items():
        yield {**dict.fromkeys(steps, 0), axis: second}

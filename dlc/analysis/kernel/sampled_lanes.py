"""The addresses of an access in the lanes of some warps of a block, those that are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from operator import mul
from typing import TypeVar

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from dlc.analysis.kernel.banks import Lanes
from dlc.analysis.kernel.layout import holds_alike, linear_offset, offset_in, vector_width
from dlc.analysis.tile.fragment_rows import read_of_lane
from dlc.analysis.tile.fragments import fragment_axis
from dlc.dialects import tile
from dlc.dialects.axes import REGISTER, SERIAL, THREAD, loops_around
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import SwizzleAttr
from dlc.ir.affine_forms import Form, form_of, value_of
from dlc.ir.analyses import Analyses
from dlc.ir.expr import Expr
from dlc.target import WARP

SAMPLED_WARPS, SAMPLED_ROUNDS = 4, 2
"""The numbers of warps of a block and of rounds of a copy that are sampled."""

Effect = tile.StoreOp | tile.AtomicAddOp
Warps = Sequence[Sequence[int]]
"""A number in each lane of each sampled warp."""
T = TypeVar("T")
Count = Callable[[Lanes, int], T]
"""What is counted of the lanes of a warp that access so many bytes each, and of nothing else."""


def threads_of(kernel: tile.KernelOp) -> int:
    """The threads of a block."""
    return max(1, prod(kernel.launch.extent(a) for a in kernel.launch.axes_of(THREAD)))


def dealt(
    threads: int, sizes: Sequence[int], width: int, place: Callable[[Sequence[int]], int]
) -> tuple[int, Iterator[Lanes]]:
    """
    The number of runs of a slab for each of so many threads (run t, t + threads, … are thread t's),
    and the addresses of the sampled warps, `place` being that of an element.
    """
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


def serial_trips(op: Operation) -> int:
    """The times that a thread meets an operation: the points of the serial axes around it."""
    return prod(loop.extent(a) for loop in loops_around(op) for a in loop.axes_of(SERIAL))


def _sampled_warps(threads: int) -> list[range]:
    """The thread numbers of some warps of a block, the first and the last among them."""
    count = max(-(-threads // WARP), 1)
    chosen = sorted({n * (count - 1) // (SAMPLED_WARPS - 1) for n in range(SAMPLED_WARPS)})
    return [range(n * WARP, min(n * WARP + WARP, threads)) for n in chosen]


def access_width(
    op: tile.LoadOp | Effect, type: MemRefType[Attribute], alignment: int, analyses: Analyses
) -> tuple[BlockArgument | None, int]:
    """
    The register axis along which an access takes neighbouring elements of a memref of the given
    type, and how many it takes at once; `alignment` is that of the memref's address, in bytes.
    Atomic adds take one.
    """
    if isinstance(op, tile.AtomicAddOp):
        return None, 1
    axis, extent = analyses.get(_fragment_axis, op)
    if axis is None:
        return None, 1
    subscripts = analyses.get(_subscripts, op)
    base = [e.substitute(lambda v: 0 if v is axis else None) for e in subscripts]
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
    return tuple(map(_expand, op.subscripts))


def _expand(expr: Expr) -> Expr:
    """An expression in axes; `tile.index` values are looked into."""

    def replace(value: SSAValue) -> Expr | None:
        owner = value.owner
        return _expand(owner.subscripts[0]) if isinstance(owner, tile.IndexOp) else None

    return expr.substitute(replace)


@dataclass(frozen=True)
class Access:
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
    """The values of the axes that are no thread axes, for each sample."""

    @staticmethod
    def of(
        launch: tile.LaunchOp,
        op: tile.LoadOp | Effect,
        type: Attribute,
        alignment: int,
        analyses: Analyses,
    ) -> Access:
        assert isinstance(type, MemRefType)
        axis, width = access_width(op, type, alignment, analyses)
        subscripts = analyses.get(_subscripts, op)
        times = serial_trips(op)
        if isinstance(op, tile.LoadOp) and (read := read_of_lane(op, subscripts, type)) is not None:
            axis, width, subscripts = None, read.elements, read.subscripts
            times *= read.times
        mentioned = {v for e in subscripts for v in e.values()}
        steps: dict[SSAValue, tuple[int, int]] = {}
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
        return Access(launch, type, subscripts, offset, size, width * size, times, points)

    def counts(self, count: Count[T], period: int) -> Iterator[T]:
        """
        The count of each of the sampled warps, at each of the points; `period` is by how many bytes
        all addresses may move without an effect on it.
        """
        threads = {a: max(self.launch.extent(a), 1) for a in self.launch.axes_of(THREAD)}
        for point in self.points:
            if isinstance(self.type.layout, SwizzleAttr):
                for places in self._swizzled(point, threads):
                    yield count([place * self.element for place in places], self.width)
                continue
            extents = tuple(threads.values())
            if (factors := _factors(self.offset, threads)) is not None:
                first = self.offset.evaluate({**point, **dict.fromkeys(threads, 0)}) * self.element
                key = (extents, factors, first % period)
                yield from _counts_of_sums(count, *key, self.element, self.width)
            else:
                key = _form_at(self.offset, point, threads)
                yield from _counts_of_form(count, *key, self.element, self.width)

    def _swizzled(
        self, point: Mapping[SSAValue, int], threads: Mapping[BlockArgument, int]
    ) -> Warps:
        """The places of the elements where a swizzle exchanges some."""
        offset = offset_in(self.type)
        parts = [_along(e, point, threads) for e in self.subscripts]
        return [[offset(at) for at in zip(*warp, strict=True)] for warp in zip(*parts, strict=True)]


@lru_cache(maxsize=256)
def _decoded(extents: tuple[int, ...]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The values of the thread axes, the last one fastest, in the lanes of the sampled warps."""
    warps = _sampled_warps(prod(extents))
    return tuple(tuple(_decode(thread, extents) for thread in warp) for warp in warps)


@lru_cache(maxsize=256)
def _sums(extents: tuple[int, ...], factors: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The sum of the thread axes, each times a factor, in the lanes of the sampled warps."""
    return tuple(tuple(sum(map(mul, factors, at)) for at in warp) for warp in _decoded(extents))


def _factors(expr: Expr, threads: Mapping[BlockArgument, int]) -> tuple[int, ...] | None:
    """What each thread axis counts in an expression; None where that is no sum of them."""
    factors = tuple([f for a in threads if (f := expr.coefficient(a)) is not None])
    return factors if len(factors) == len(threads) else None


def _form_at(
    expr: Expr, point: Mapping[SSAValue, int], threads: Mapping[BlockArgument, int]
) -> tuple[Form, tuple[int, ...], tuple[int, ...]]:
    """The form of an expression of the thread axes, their points, and its other values."""
    values = list[SSAValue](threads)
    form = form_of(expr, values)
    return form, tuple(threads.values()), tuple([point[v] for v in values[len(threads) :]])


def _along(
    expr: Expr, point: Mapping[SSAValue, int], threads: Mapping[BlockArgument, int]
) -> Warps:
    """An expression at a point, the thread axes having so many points."""
    if (factors := _factors(expr, threads)) is not None:
        first = expr.evaluate({**point, **dict.fromkeys(threads, 0)})
        return [[first + rest for rest in warp] for warp in _sums(tuple(threads.values()), factors)]
    return _of_form(*_form_at(expr, point, threads))


@lru_cache(maxsize=4096)
def _counts_of_sums(
    count: Count[T],
    extents: tuple[int, ...],
    factors: tuple[int, ...],
    first: int,
    element: int,
    width: int,
) -> tuple[T, ...]:
    """The counts where the address of a lane is a first one and a sum of the thread axes."""
    warps = _sums(extents, factors)
    return tuple(count([first + rest * element for rest in warp], width) for warp in warps)


@lru_cache(maxsize=4096)
def _counts_of_form(
    count: Count[T],
    form: Form,
    extents: tuple[int, ...],
    others: tuple[int, ...],
    element: int,
    width: int,
) -> tuple[T, ...]:
    """The counts where the place of a lane's element is any expression of them."""
    warps = _of_form(form, extents, others)
    return tuple(count([place * element for place in warp], width) for warp in warps)


@lru_cache(maxsize=1024)
def _of_form(form: Form, extents: tuple[int, ...], others: tuple[int, ...]) -> Warps:
    """An expression of the thread axes and of other values, in the lanes of the sampled warps."""
    return [[value_of(form, (*at, *others)) for at in warp] for warp in _decoded(extents)]


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

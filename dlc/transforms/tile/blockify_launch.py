"""Free axes become the blocks of a grid, the threads of a block and the points of a thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import BlockArgument

from dlc.analysis.tile.block_tables import table_obstacle
from dlc.analysis.tile.tile_state import TileState, tile_state
from dlc.dialects import tile
from dlc.dialects.axes import BLOCK, SERIAL, THREAD, AxesOp
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.launch_checks import waves_of
from dlc.ir.expr import Expr
from dlc.ir.sizes import Size, ceildiv, several
from dlc.registry import OptionError
from dlc.target import MAX_THREADS, WARP, Target, target_of
from dlc.transforms.axes.axis_edit import Axis, keep, replace_axes
from dlc.transforms.step import Decline, Misplaced, SchedulingPass
from dlc.transforms.step_options import aligned, divisors, one_of_each, per_axis
from dlc.transforms.step_space import Domain, Situation, Value, combinations, divisors_of, powers


@dataclass(frozen=True)
class BlockifyLaunchPass(SchedulingPass):
    """
    Free axes are partitioned into block, thread and serial axes.

    *Legal always*: stores at points beyond an extent do nothing. Thread axes that a combine folds
    across stay as they are. An axis of block size b and t threads becomes
    `%block * b + %thread * (b / t) + %serial`.
    *Faster because* the points of a block can share what they read, and a thread's points its
    registers.

    ```
    tile.launch thread(%i in 100, %j in 5632) { … }
    ```
    becomes, with `block=128,128 thread=16,16`,
    ```
    tile.launch block(%bi in 1, %bj in 44) thread(%ti in 16, %tj in 16) serial(%ei in 8, %ej in 8)
    ```

    With `group`, blocks are numbered panel by panel of so many columns, row by row within one:
    `block(%bi in 32, %bj in 44)` becomes `block(%bjo in 11, %bi in 32, %bji in 4)` with `group=4`.
    Blocks that run at the same time then share rows and columns, which stay in the L2 cache. A
    ragged last panel has blocks without points.

    With `last`, the blocks of an axis of which the last have most to do, as those of the rows of
    causal attention, come first, before other axes go on; in `waves`, every second of which runs
    back, so that SMs that get one block of each wave have as much to do.

    With `lanes`, of the last two axes with several threads, so many threads along the first are
    neighbours in a warp: `thread(%ti in 16, %tj in 16)` becomes `thread(%tio in 8, %tj in 16,
    %tii in 2)` with `lanes=2`. Lane n then reads along one of them what lane n ^ 1 does, and along
    the other what lane n ^ 2 does: of 16 bytes each, shared memory serves 16 lanes at once, not 8.

    With `tables=true`, a block adds up in shared memory what its points add at places that are
    data, and adds that to the output once: `tile.atomic_add %v, %y[%place] across(…) in_block i32`.
    Few of its additions then meet others at the L2 cache.
    """

    name = "blockify-launch"

    block: tuple[int, ...] | None = None
    """Points of each free axis in a block, aligned from the right; axes further left get 1."""
    thread: tuple[int, ...] | None = None
    """Threads along each axis of a block, aligned likewise; must divide the points."""
    group: int = 0
    """Block columns (blocks along the last axis) in a panel; 0 for all of them."""
    last: int = 0
    """The free axis, counted from the right, whose last blocks come first; 0 for none."""
    waves: int = 1
    """The waves in which they come, each of a power of 2 of them; 1 for all at once."""
    lanes: int = 1
    """Threads along the first of the last two such axes that are neighbours in a warp."""
    tables: bool = False
    """Whether a block adds up in shared memory what it adds at places that are data."""

    domains: ClassVar[Mapping[str, Domain]] = {
        "block": Domain(tuple(powers(256)), least=1, narrowed=lambda s: _blocks(s)),
        "thread": Domain(tuple(powers(256)), least=1, narrowed=lambda s: _threads(s)),
        "group": Domain((0, 1, 2, 3, 4, 8, 16), least=0, narrowed=lambda s: _groups(s)),
        "last": Domain((0, 1, 2, 3), least=0, narrowed=lambda s: _lasts(s)),
        "waves": Domain((1, 2, 4), least=1, narrowed=lambda s: _waves(s)),
        "lanes": Domain((1, 2), least=1, narrowed=lambda s: _lanes(s)),
        "tables": Domain((False, True), narrowed=lambda s: _tables(s)),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.block is None or self.thread is None:
            return
        what = f"block={','.join(map(str, self.block))} has {len(self.block)}"
        threads = one_of_each("thread", self.thread, len(self.block), what)
        for b, t in zip(self.block, threads, strict=True):
            if b % t:
                message = f"{t} threads do not divide a block of {b} points"
                raise OptionError("thread", message, divisors(b))
        _check_threads(prod(self.thread))

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        launch = kernel.launch
        state = tile_state(launch)
        self._check(state)
        free = state.free
        assert self.block is not None
        assert self.thread is not None
        names = [f"%{a.name_hint}" for a in free]
        blocks = per_axis("block", self.block, names)
        threads = per_axis("thread", self.thread, names)
        counts = [ceildiv(launch.extent(a), b) for a, b in zip(free, blocks, strict=True)]
        points = [b // t for b, t in zip(blocks, threads, strict=True)]
        if launch.whole_folds and prod(points) > 1:
            message = f"a thread of blocks that meet in a cluster has one point, not {prod(points)}"
            raise OptionError("thread", message, f"take {','.join(map(str, blocks))}")
        panel = self._panel(counts)
        slowest = self._slowest(counts)
        grid = launch.axes_of(BLOCK)
        kept = {a: keep(a, launch) for a in launch.axes if a not in free}
        block = [Axis(f"b{a.name_hint}", n, BLOCK) for a, n in zip(free, counts, strict=True)]
        thread = [Axis(f"t{a.name_hint}", t, THREAD) for a, t in zip(free, threads, strict=True)]
        serial = [Axis(f"e{a.name_hint}", n, SERIAL) for a, n in zip(free, points, strict=True)]
        *rows, column = block
        panels = Axis(f"{column.name}o", ceildiv(column.extent, panel) if panel else 1, BLOCK)
        inner = Axis(f"{column.name}i", panel, BLOCK) if panel else column
        order = [*rows[:-1], panels, *rows[-1:], inner]
        own, near = self._neighbours(thread)

        def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
            at = {**e, column: e[panels] * panel + e[inner]}
            if near is not None:
                at[near.axis] = e[near.outer] * self.lanes + e[near.inner]
            result = {a: at[k] for a, k in kept.items()}
            for axis, b, t, s in zip(free, block, thread, serial, strict=True):
                result[axis] = at[b] * (t.extent * s.extent) + at[t] * s.extent + at[s]
            return result

        before = [k for a, k in kept.items() if a in grid]
        after = [k for k in kept.values() if k not in before]
        made = replace_axes(launch, [*before, *order, *own, *after, *serial], meaning)
        sized = slowest is not None and isinstance(counts[slowest], Size)
        waves = 1 if sized else self.waves  # of a size it is not known what divides it
        if slowest is not None:
            launch.set_order(made[block[slowest]], waves)
        if self.tables:
            self._make_tables(launch, target_of(module))
        sizes, across = (" x ".join(map(str, n)) for n in (blocks, threads))
        grouped = f", in panels of {panel} block columns" if panel else ""
        if panel and (empty := -counts[-1] % panel):
            grouped += f", of which the last {empty} have no points"
        if slowest is not None:
            grouped += f", the last along {names[slowest]} first"
            grouped += f", in {waves} waves" if waves > 1 else ""
        if near is not None:
            grouped += f", {self.lanes} along {names[thread.index(near.axis)]} neighbours in a warp"
        if self.tables:
            grouped += ", which add up in shared memory"
        return f"blocks of {sizes} points, {across} threads{grouped}"

    def _make_tables(self, launch: tile.LaunchOp, target: Target) -> None:
        """Has blocks add up in shared memory what they add."""
        adds = [op for op in launch.walk() if isinstance(op, tile.AtomicAddOp)]
        if not adds:
            message = "it adds nothing at places that are data"
            raise OptionError("tables", message, "leave it out")
        for op in adds:
            free = target.shared_per_block - tile_state(launch).shared_bytes
            if (reason := table_obstacle(op, free)) is not None:
                raise OptionError("tables", reason, "leave it out")
            op.in_block = i32

    def _neighbours(self, thread: list[Axis]) -> tuple[list[Axis], _Near | None]:
        """
        The thread axes in the order in which they number threads, and which of the given ones is
        two of them, if one is.
        """
        several = [axis for axis in thread if axis.extent > 1]
        if self.lanes == 1 or len(several) < 2:
            return thread, None
        row = several[-2]
        if row.extent % self.lanes:
            message = f"{self.lanes} neighbours do not divide {row.extent} threads"
            raise OptionError("lanes", message, divisors(row.extent))
        outer = Axis(f"{row.name}o", row.extent // self.lanes, THREAD)
        near = _Near(row, outer, Axis(f"{row.name}i", self.lanes, THREAD))
        return [*(outer if axis is row else axis for axis in thread), near.inner], near

    def _slowest(self, counts: list[int]) -> int | None:
        """The number of the free axis whose last blocks come first, if there are several."""
        if not self.last:
            return None
        if self.last > len(counts):
            message = f"there are {len(counts)} free axes, and none is number {self.last}"
            raise OptionError("last", message, "count from the right")
        if self.group:
            message = "panels have an order of their own"
            raise OptionError("last", message, "take either last or group")
        count = counts[-self.last]
        if isinstance(count, Size):
            return len(counts) - self.last
        if count > 1 and self.waves not in waves_of(count):
            ways = ", ".join(map(str, waves_of(count)))
            message = f"{count} blocks do not come in {self.waves} waves"
            raise OptionError("waves", message, f"take one of {ways}")
        return len(counts) - self.last if count > 1 else None

    def _panel(self, counts: list[int]) -> int:
        """
        The block columns in a panel; 0 where panels would not change the order, and where a number
        of blocks is a size: what is found out of a block's number is divided by numbers.
        """
        if not self.group or len(counts) < 2 or not several(counts[-2]):
            return 0
        if any(isinstance(count, Size) for count in counts) or self.group >= counts[-1]:
            return 0
        return self.group

    def _check(self, state: TileState) -> None:
        if not state.free:
            raise Decline("it has no free thread axis")
        assert self.thread is not None
        _check_threads(prod((*self.thread, *map(state.launch.extent, state.combined))))
        if state.buffers:
            message = "slabs are staged already for the blocks that there are"
            raise Misplaced(message, "run blockify-launch before stage-inputs")


@dataclass(frozen=True)
class _Near:
    """An axis of threads of which some are neighbours in a warp."""

    axis: Axis
    outer: Axis
    inner: Axis


def _check_threads(count: int) -> None:
    if count > MAX_THREADS:
        message = f"{count} threads are more than the {MAX_THREADS} that a block can have"
        raise OptionError("thread", message)


MOST_TRIED, WIDEST_TRIED = 1 << 14, 256
"""Points of a block, and along an axis of it, up to which blocks are tried."""
MOST_HELD = 256
"""Points of a thread up to which threads are tried."""
PANELS = (0, 4, 8, 16)
LASTS, WAVES = 3, 4
"""Axes from the right of which, and waves up to which, orders of blocks are tried."""


def _blocks(s: Situation) -> Iterator[Value]:
    """Powers of two along the last four free axes, up to the first that covers the axis."""
    launch = s.kernel.launch
    free = tile_state(launch).free
    if not free:
        raise Decline("it has no free thread axis")
    sizes = [powers(min(launch.extent(a), WIDEST_TRIED)) for a in free[-4:]]
    return combinations(sizes, MOST_TRIED)


def _threads(s: Situation) -> Iterator[Value]:
    """What divides the block, a warp at least if there is one in it."""
    block = s.given["block"]
    assert isinstance(block, tuple)
    launch = s.kernel.launch
    others = prod(map(launch.extent, tile_state(launch).combined))
    sizes = [int(n) for n in block]
    points = prod(sizes)
    for found in combinations([divisors_of(n) for n in sizes], MAX_THREADS // max(others, 1)):
        count = prod(found)
        held = 1 if launch.whole_folds else MOST_HELD
        if min(WARP, points) <= count * others and points <= held * count:
            yield found


def _groups(s: Situation) -> list[Value]:
    """Panels that are narrower than the grid."""
    block, launch = s.given["block"], s.kernel.launch
    assert isinstance(block, tuple)
    free = tile_state(launch).free
    sizes = aligned([int(n) for n in block], len(free))
    counts = [ceildiv(launch.extent(a), n) for a, n in zip(free, sizes, strict=True)]
    narrow = len(counts) > 1 and counts[-2] > 1
    return [n for n in PANELS if n == 0 or (narrow and n < counts[-1])]


def _lasts(s: Situation) -> list[Value]:
    """None, and axes of several blocks of which some may have more to do, without panels."""
    if s.given["group"]:
        return [0]
    launch = s.kernel.launch
    free = tile_state(launch).free
    inner = [op for op in launch.walk() if op is not launch and isinstance(op, AxesOp)]
    where = [
        {*condition.values()}
        for around in inner
        for op in around.body.walk()
        if isinstance(op, IndexedOp)
        for condition in op.where
        if not {*condition.values()}.isdisjoint(around.axes)
    ]
    return [0, *(n for n in _several(s) if any(free[-n] in values for values in where))]


def _several(s: Situation) -> dict[int, int]:
    """The blocks along free axes that have more than one, by their numbers from the right."""
    block, launch = s.given["block"], s.kernel.launch
    assert isinstance(block, tuple)
    free = tile_state(launch).free
    sizes = aligned([int(n) for n in block], len(free))
    counts = [ceildiv(launch.extent(a), n) for a, n in zip(free, sizes, strict=True)]
    return {n: count for n, count in enumerate(reversed(counts), 1) if count > 1 and n <= LASTS}


def _waves(s: Situation) -> list[Value]:
    """1, 2 or 4, if the axis has so many blocks."""
    last = s.given["last"]
    assert isinstance(last, int)
    return [n for n in waves_of(_several(s)[last]) if n <= WAVES] if last else [1]


def _tables(s: Situation) -> list[Value]:
    """Both where there is something that blocks can add up."""
    adds = [op for op in s.kernel.launch.walk() if isinstance(op, tile.AtomicAddOp)]
    free = s.target.shared_per_block
    fits = adds and not any(table_obstacle(op, free) for op in adds)
    return [False, True] if fits else [False]


def _lanes(s: Situation) -> list[Value]:
    """1, or 2 where there are as many threads along the first of the last two axes with several."""
    thread = s.given["thread"]
    assert isinstance(thread, tuple)
    several = [n for n in map(int, thread) if n > 1]
    return [1, 2] if len(several) > 1 and several[-2] % 2 == 0 else [1]

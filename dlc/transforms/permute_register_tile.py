"""The scheduling step `permute-register-tile`: see `PermuteRegisterTilePass`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument

from dlc.analysis.banks import report_global, report_reads
from dlc.dialects import tile
from dlc.dialects.access import IndexedOp, indexed_ops
from dlc.dialects.axes import REGISTER, THREAD
from dlc.ir.axis_edit import Axis, keep, replace_axes
from dlc.ir.expr import Expr
from dlc.schedule.step import Decline, SchedulingPass

STRIPS = (4, 2)
"""Elements of a strip: 16 or 8 bytes of 4-byte elements."""

Pair = tuple[int, int]
"""The positions of a thread axis and a register axis among the axes of a launch."""


@dataclass(frozen=True)
class Order:
    """What thread %t and register %r own: strips of some elements, or every T-th if of none."""

    strip: int | None

    def __str__(self) -> str:
        return "interleaved" if self.strip is None else f"in strips of {self.strip}"


@dataclass(frozen=True)
class PermuteRegisterTilePass(SchedulingPass):
    """
    The register tile of a thread is dealt out anew, so that a warp's loads hit distinct banks.

    Legal always: where every expression mentions a thread axis of T points and a register axis of R
    points only as `%t * R + %r`, any other way to number the T * R points serves as well. Those
    tried are strips, `%ro * (4 * T) + %t * 4 + %ri`, and interleaving, `%r * T + %t`.
    Faster because conflicting loads from shared memory are served one after the other, and because
    neighbouring threads that store neighbouring elements fill whole sectors. The order is the one
    with the fewest conflicts (`dlc.analysis.banks`) under which no load from shared memory becomes
    narrower; then with the fewest sectors of global memory, then with the fewest instructions.

    ```
    tile.launch … thread(%tj in 16) register(%rj in 8) {
      %b = tile.load %Bs[%ki, %tj * 8 + %rj]
    ```
    becomes
    ```
    tile.launch … thread(%tj in 16) register(%rjo in 2, %rji in 4) {
      %b = tile.load %Bs[%ki, %rjo * 64 + %tj * 4 + %rji]
    ```
    """

    name = "permute-register-tile"

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        launch = kernel.launch
        if not launch.axes_of(REGISTER):
            raise Decline("it has no register axis (register-tile makes them)")
        pairs = _pairs(launch)
        if not pairs:
            raise Decline("its thread and register axes are not mentioned as %t * R + %r")
        before = _Cost.of(kernel)
        orders: dict[Pair, Order] = {}
        notes: list[str] = []
        for pair in pairs:
            best = before
            for order in _orders(launch.extent(launch.axes[pair[1]])):
                trial = kernel.clone()
                _permute(trial.launch, {pair: order})
                cost = _Cost.of(trial)
                trial.erase()
                if cost.no_narrower(before) and cost.key < best.key:
                    best, orders[pair] = cost, order
            if pair in orders:
                names = ", ".join(f"%{launch.axes[n].name_hint}" for n in pair)
                notes.append(f"{names} {orders[pair]}: {best.against(before)}")
        if not orders:
            raise Decline("no order of its register tile conflicts less")
        _permute(launch, orders)
        return "; ".join(notes)


def _pairs(launch: tile.LaunchOp) -> list[Pair]:
    """The thread and register axes that only occur together; an axis is in one pair at most."""
    combined = {a for op in launch.walk() if isinstance(op, tile.CombineOp) for a in op.axes}
    found: list[Pair] = []
    for r in launch.axes_of(REGISTER):
        for t in launch.axes_of(THREAD):
            taken = any(t.index == other for other, _ in found)
            if not taken and t not in combined and _only_together(launch, t, r):
                found.append((t.index, r.index))
                break
    return found


def _only_together(launch: tile.LaunchOp, t: BlockArgument, r: BlockArgument) -> bool:
    extent = launch.extent(r)
    if any(not isinstance(u.operation, IndexedOp) for axis in (t, r) for u in axis.uses):
        return False
    exprs = [e for op in indexed_ops(launch) for e in (*op.subscripts, *op.where)]
    mentioned = any(r in e.values() for e in exprs)
    return mentioned and all(_is_together(e, t, r, extent) for e in exprs)


def _is_together(expr: Expr, t: BlockArgument, r: BlockArgument, extent: int) -> bool:
    """Are `t` and `r` mentioned as multiples of `t * extent + r` only?"""
    atoms = expr.coefficients
    inner = (a.base for a in atoms if not isinstance(a, BlockArgument) and hasattr(a, "base"))
    return atoms.get(t, 0) == extent * atoms.get(r, 0) and all(
        _is_together(base, t, r, extent) for base in inner
    )


def _orders(extent: int) -> list[Order]:
    """What can be tried for a register axis of so many points."""
    strips = [Order(n) for n in STRIPS if extent % n == 0 and extent > n]
    return [*strips, Order(None)]


def _permute(launch: tile.LaunchOp, orders: Mapping[Pair, Order]) -> None:
    """Numbers the points of the pairs anew: each pair becomes one axis, which is then split."""
    axes = launch.axes
    kinds = [keep(a, launch) for a in axes]
    flat: list[Axis] = []
    split: list[Axis] = []
    where: dict[int, int] = {}
    """The place of each axis in `flat`."""
    inner = {r: t for t, r in orders}
    for n, axis in enumerate(axes):
        if n in inner:
            continue
        size = next((kinds[r].extent for t, r in orders if t == n), 1)
        where[n] = len(flat)
        flat.append(Axis(axis.name_hint, kinds[n].extent * size, kinds[n].kind))
    parts: dict[int, tuple[int, ...]] = {}
    """The places of each axis in `split`."""
    for n in range(len(axes)):
        strip = orders[inner[n], n].strip if n in inner else None
        name, count = kinds[n].name, kinds[n].extent
        parts[n] = (len(split),) if strip is None else (len(split), len(split) + 1)
        if strip is None:
            split.append(kinds[n])
        else:
            split += [
                Axis(f"{name}o", count // strip, REGISTER),
                Axis(f"{name}i", strip, REGISTER),
            ]

    def one_axis(e: Sequence[Expr]) -> dict[BlockArgument, Expr]:
        result = {axes[n]: e[place] for n, place in where.items()}
        for t, r in orders:
            point = e[where[t]]
            result[axes[t]], result[axes[r]] = point // kinds[r].extent, point % kinds[r].extent
        return result

    kept = iter(replace_axes(launch, flat, one_axis))  # without axes of one point
    whole = {place: next(kept) for place, axis in enumerate(flat) if axis.extent != 1}

    def dealt_out(e: Sequence[Expr]) -> dict[BlockArgument, Expr]:
        result = {whole[place]: e[parts[n][0]] for n, place in where.items() if place in whole}
        for (t, r), order in orders.items():
            thread, threads = e[parts[t][0]], kinds[t].extent
            outer, *rest = (e[place] for place in parts[r])
            if order.strip is None:
                result[whole[where[t]]] = outer * threads + thread
            else:
                strip = order.strip
                result[whole[where[t]]] = outer * (threads * strip) + thread * strip + rest[0]
        return result

    replace_axes(launch, split, dealt_out)


@dataclass(frozen=True)
class _Cost:
    """What the accesses of a kernel cost a warp."""

    excess: float
    """Wavefronts lost to conflicts."""
    sectors: float
    """Sectors of global memory touched."""
    instructions: int
    widths: tuple[int, ...]
    """Bytes of each load from shared memory."""
    ways: Mapping[str, float]
    """Of the loads of each buffer in shared memory."""

    @staticmethod
    def of(kernel: tile.KernelOp) -> _Cost:
        reads, others = report_reads(kernel), report_global(kernel)
        ways: dict[str, float] = {}
        for read in reads:
            name = read.buffer.name_hint or "a buffer"
            ways[name] = max(ways.get(name, 1), read.ways)
        return _Cost(
            sum(a.excess for a in reads),
            sum(a.times * a.sectors for a in others),
            sum(a.times for a in (*reads, *others)),
            tuple(a.width for a in reads),
            ways,
        )

    @property
    def key(self) -> tuple[float, float, int]:
        return self.excess, self.sectors, self.instructions

    def no_narrower(self, other: _Cost) -> bool:
        return all(a >= b for a, b in zip(self.widths, other.widths, strict=True))

    def against(self, other: _Cost) -> str:
        """What is gained over another order."""
        gains = [
            f"reads of {name} from {other.ways[name]:.3g} ways to {ways:.3g}"
            for name, ways in self.ways.items()
            if ways < other.ways[name]
        ]
        if self.sectors < other.sectors:
            gains.append(f"sectors of global memory from {other.sectors:g} to {self.sectors:g}")
        return ", ".join(gains) or "fewer instructions"

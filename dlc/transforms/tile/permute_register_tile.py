"""The scheduling step `permute-register-tile`: see `PermuteRegisterTilePass`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Attribute, BlockArgument

from dlc.analysis.kernel.banks import BankAccess, reads_of, report_global, report_reads
from dlc.analysis.kernel.layout import group_padded, padded, swizzled
from dlc.analysis.tile.fragments import Buffer
from dlc.dialects import tile
from dlc.dialects.access import IndexedOp, indexed_ops
from dlc.dialects.axes import REGISTER, THREAD
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.staging import slot_type
from dlc.ir.cached import cached
from dlc.ir.expr import Expr, FloorDiv, Mod, unchanged_ir
from dlc.transforms.axes.axis_edit import Axis, keep, replace_axes
from dlc.transforms.step import Decline, SchedulingPass

STRIPS, INTERLEAVED = "strips", "interleaved"
WIDTHS_OF_STRIPS = (4, 2)
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
    tried are strips, `%ro * (4 * T) + %t * 4 + %ri`, and interleaving, `%r * T + %t`. Faster
    because conflicting loads from shared memory are served one after the other, and because
    neighbouring threads that store neighbouring elements fill whole sectors. The order is the one
    with the fewest conflicts (`dlc.analysis.kernel.banks`) under which no load from shared memory
    becomes narrower, in the layouts that `pad-smem` or `split-inner-for-swizzle` can give the
    buffers; then with the fewest sectors of global memory, instructions, and conflicts in the
    present layouts.

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

    order: str | None = None
    """`strips` or `interleaved`: the only order to try. TMA writes none of the layouts from which
    strips of columns of a transposed operand are read without conflicts."""

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        launch = kernel.launch
        if self.order not in (None, STRIPS, INTERLEAVED):
            raise Decline(f"order must be {STRIPS} or {INTERLEAVED}, not {self.order}")
        if not launch.axes_of(REGISTER):
            raise Decline("it has no register axis (register-tile makes them)")
        pairs = _pairs(launch)
        if not pairs:
            raise Decline("its thread and register axes are not mentioned as %t * R + %r")
        before = _Cost(kernel)
        orders: dict[Pair, Order] = {}
        notes: list[str] = []
        for pair in pairs:
            best = before
            for order in self._orders(launch.extent(launch.axes[pair[1]])):
                trial = kernel.clone()
                _permute(trial.launch, {pair: order})
                cost = _Cost(trial)
                with unchanged_ir():
                    if cost.no_narrower(before) and cost.is_less(best):
                        best, orders[pair] = cost, order
                trial.erase()
            if pair in orders:
                names = ", ".join(f"%{launch.axes[n].name_hint}" for n in pair)
                notes.append(f"{names} {orders[pair]}: {best.against(before)}")
        if not orders:
            raise Decline("no order of its register tile conflicts less")
        _permute(launch, orders)
        return "; ".join(notes)

    def _orders(self, extent: int) -> list[Order]:
        """What can be tried for a register axis of so many points."""
        strip = next((n for n in WIDTHS_OF_STRIPS if extent % n == 0), None)
        strips = [Order(strip)] if strip is not None and extent > strip else []
        orders = {STRIPS: strips, INTERLEAVED: [Order(None)]}
        return [o for name, some in orders.items() if self.order in (None, name) for o in some]


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
    inner = (a.base for a in atoms if isinstance(a, FloorDiv | Mod))
    return atoms.get(t, 0) == extent * atoms.get(r, 0) and all(
        _is_together(base, t, r, extent) for base in inner
    )


def _permute(launch: tile.LaunchOp, orders: Mapping[Pair, Order]) -> None:
    """Numbers the points of the pairs anew."""
    axes = launch.axes
    extents, kinds = [launch.extent(a) for a in axes], [launch.kind(a) for a in axes]
    by_register = {r: (t, order) for (t, r), order in orders.items()}
    new: list[Axis] = []
    at: dict[int, int] = {}
    """Where the axis that takes the place of each begins in `new`."""
    for n, axis in enumerate(axes):
        at[n] = len(new)
        strip = by_register[n][1].strip if n in by_register else None
        if strip is None:
            new.append(keep(axis, launch))
        else:
            new.append(Axis(f"{axis.name_hint}o", extents[n] // strip, REGISTER))
            new.append(Axis(f"{axis.name_hint}i", strip, REGISTER))

    def meaning(e: Sequence[Expr]) -> dict[BlockArgument, Expr]:
        result = {axis: e[at[n]] for n, axis in enumerate(axes)}
        for r, (t, order) in by_register.items():
            strip = order.strip or 1
            points = e[at[r]] * (threads[t] * strip) + e[at[t]] * strip
            result[axes[t]] = Expr()
            result[axes[r]] = points if order.strip is None else points + e[at[r] + 1]
        return result

    # With %t at rest, %t * R + %r is %r alone, if that numbers all T * R points.
    threads = dict(enumerate(extents))
    for t, r in orders:
        extents[t], extents[r] = 1, extents[t] * extents[r]
    launch.set_axes(extents, kinds)
    replace_axes(launch, new, meaning)


@dataclass(frozen=True)
class _Cost:
    """
    What the accesses of a kernel cost a warp, computed when it is first asked for. Of an order that
    is chosen all has been asked for, so that it outlives its trial.
    """

    kernel: tile.KernelOp

    @cached
    def reads(self) -> list[BankAccess]:
        return report_reads(self.kernel)

    @cached
    def relieved(self) -> float:
        """Wavefronts lost to conflicts when each buffer has its best layout."""
        buffers = dict.fromkeys(a.buffer for a in self.reads)
        return sum(_relieved(self.kernel, b, self.reads) for b in buffers)

    @cached
    def present(self) -> tuple[float, int, float]:
        """Sectors of global memory touched, instructions, and conflicts in the present layouts."""
        others = report_global(self.kernel)
        return (
            sum(a.times * a.sectors for a in others),
            sum(a.times for a in (*self.reads, *others)),
            sum(a.excess for a in self.reads),
        )

    def is_less(self, other: _Cost) -> bool:
        """Is an order better than another? None loses less than nothing in the best layouts."""
        if other.relieved == 0 and self.present >= other.present:
            return False
        return (self.relieved, self.present) < (other.relieved, other.present)

    def no_narrower(self, other: _Cost) -> bool:
        """Is every load from shared memory at least as wide as under another order?"""
        return all(a.width >= b.width for a, b in zip(self.reads, other.reads, strict=True))

    def against(self, other: _Cost) -> str:
        """What is gained over another order."""
        gains = [
            f"reads of {new.name} from {old.ways:.3g} ways to {new.ways:.3g}"
            for new, old in zip(self.reads, other.reads, strict=True)
            if new.ways < old.ways
        ]
        if not gains and self.relieved < other.relieved:
            gains.append("fewer conflicts once padded or swizzled")
        (now, *_), (then, *_) = self.present, other.present
        if now < then:
            gains.append(f"sectors of global memory from {then:g} to {now:g}")
        return ", ".join(dict.fromkeys(gains)) or "fewer instructions"


def _relieved(kernel: tile.KernelOp, buffer: Buffer, reads: Sequence[BankAccess]) -> float:
    """Wavefronts that the loads of a buffer lose to conflicts in the best layout it can get."""
    type, mine = buffer.result.type, [a for a in reads if a.buffer is buffer]
    assert isinstance(type, MemRefType)
    best = sum(a.excess for a in mine)
    slab = slot_type(type) if isinstance(buffer, tile.RingOp) else type
    if not best or slab.get_num_dims() < 2:
        return best
    unit = max(a.width for a in mine) // element_bytes(type.element_type)
    unit = max(unit, 1)
    for layout in _layouts(type, unit):
        best = min(best, sum(a.excess for a in reads_of(kernel, buffer, layout)))
        if not best:
            break
    return best


def _layouts(type: MemRefType[Attribute], unit: int) -> Iterator[MemRefType[Attribute]]:
    """The type with each of the layouts that can relieve conflicts, the usual one first."""
    yield padded(type, unit)
    yield from group_padded(type, unit)
    yield from swizzled(type)[:1]

"""
How warps have the tensor memory accelerator store their results.

A warp writes boxes of 16 rows to places of its own in shared memory, one after the other, and its
first lane has each stored:

```
scf.for %panel = 0 to 4 {                                // unrolled
  … %v                                                   // what is computed of the box's sums
  kernel.tma_wait 1 read                                 // of two places: the last box but one
  kernel.sync_warp
  … kernel.store %v, %y_slab[%t floordiv 32, %panel mod 2, …]
  kernel.fence_proxy_async
  kernel.sync_warp
  scf.if %t mod 32 < 1 {
    kernel.tma_store %y_slab[%t floordiv 32, %panel mod 2, 0, 0] -> %y_map[…]
    kernel.tma_commit
  }
}
…
kernel.tma_wait 0                                        // at the kernel's end
```

No barrier of the block is needed. Where a place is written once, there is nothing to wait for but
the end. What lies outside of the tensor is not stored: conditions on that are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from dlc.analysis.kernel.index_values import expanded
from dlc.analysis.kernel.roles import computing_threads
from dlc.analysis.tile.launch_boxes import clipped
from dlc.diagnostics import fail
from dlc.dialects import kernel, tile
from dlc.dialects.axes import SERIAL
from dlc.dialects.mma_layouts import WARP_SUMS
from dlc.dialects.point_ops import extent_of_register
from dlc.dialects.warp_boxes import COLUMNS, WarpBoxes, warp_boxes
from dlc.ir.affine_forms import from_affine
from dlc.ir.expr import Expr
from dlc.target import WARP
from dlc.transforms.kernel.lowering.register_lowering import RegisterLowering


def lower_boxes(to: RegisterLowering, op: tile.StoreOp, compute: Callable[[], None]) -> None:
    """
    Inserts what a store by boxes becomes, loops over them included; `compute` inserts, for a box,
    what computes its values.
    """
    boxes = warp_boxes(op, to.registers)
    threads = [o.result for o in to.source.walk() if isinstance(o, kernel.ThreadIdOp)]
    obstacle = boxes if isinstance(boxes, str) else _obstacle(to, op, boxes, threads)
    if isinstance(boxes, str) or obstacle:
        fail(op, f"the tensor memory accelerator cannot store this: {obstacle}")
    _Boxes(to, op, boxes, Expr.of(to.scalars[threads[0]])).lower(compute)


def wait_for_boxes(to: RegisterLowering) -> None:
    """Inserts, at the end of a kernel, the wait for all that the accelerator stores."""
    if any(isinstance(op, kernel.TmaStoreOp) for op in to.body.walk()):
        to.builder.insert(kernel.TmaWaitOp(0))


def _obstacle(
    to: RegisterLowering, op: tile.StoreOp, boxes: WarpBoxes, threads: Sequence[SSAValue]
) -> str | None:
    """The reason why the points of warps are no such boxes, thread by thread."""
    assert op.boxes is not None
    if boxes.count % op.boxes.value.data:
        return f"room for {op.boxes.value.data} does not divide the {boxes.count} boxes of a warp"
    if clipped(op):
        return "conditions say more than where the tensor ends"
    count = computing_threads(to.source)
    if not threads or count % WARP:
        return f"expected whole warps, found {count} threads"
    subscripts = [expanded(e) for e in op.subscripts]
    for thread in range(count):
        lane = thread % WARP
        row, column = WARP_SUMS.at(lane, 0)
        for d, subscript in enumerate(subscripts):
            here, first = (
                subscript.substitute(lambda v, n=n: n if v in threads else None)
                for n in (thread, thread - lane)
            )
            wanted = row if d == boxes.rows else column if d == len(subscripts) - 1 else 0
            if here - first != Expr((), wanted):
                return f"lane {lane} of a warp has other points than tensor cores give it"
    return None


class _Boxes:
    """The boxes of one store, as they are lowered."""

    def __init__(
        self, to: RegisterLowering, op: tile.StoreOp, boxes: WarpBoxes, thread: Expr
    ) -> None:
        assert op.boxes is not None
        self.to, self.op, self.boxes, self.thread = to, op, boxes, thread
        self.places = op.boxes.value.data
        name = op.ref.name_hint or "result"
        warps = computing_threads(to.source) // WARP
        shape = [warps, self.places, WARP_SUMS.rows, boxes.width]
        self.slab = self._at_top(
            kernel.AllocSharedOp(boxes.type.element_type, shape, boxes.swizzle), f"{name}_slab"
        )
        swizzle = boxes.swizzle
        bytes = None if swizzle is None else swizzle.bytes.data
        ref = to.value(op.ref)
        self.map = self._at_top(kernel.TensorMapOp(ref, boxes.sizes, bytes), f"{name}_map")

    def _at_top(self, op: Operation, name: str) -> SSAValue:
        self.to.insert_at_top(op)
        op.results[0].name_hint = name
        return op.results[0]

    @property
    def _again(self) -> bool:
        """True if a place is written more than once."""
        around, found = self.op.parent_op(), self.boxes.count > self.places
        while around is not None and around is not self.to.source:
            found |= isinstance(around, scf.ForOp)
            found |= isinstance(around, tile.ForOp) and bool(around.axes_of(SERIAL))
            around = around.parent_op()
        return found

    def lower(self, compute: Callable[[], None]) -> None:
        to, boxes, again = self.to, self.boxes, self._again
        per = boxes.width // COLUMNS
        with self._over_boxes() as (number, panel), to.at_point(boxes.others):
            place = number % self.places
            with to.along_part(boxes.tiles, panel * per, per):
                compute()
                if again:
                    to.builder.insert(kernel.TmaWaitOp(self.places - 1, read=True))
                    to.builder.insert(kernel.SyncWarpOp())
                self._write(place)
            to.builder.insert(kernel.FenceProxyAsyncOp())
            to.builder.insert(kernel.SyncWarpOp())
            with to.only_if([Expr() - self.thread % WARP]):
                self._store(place, panel)

    @contextmanager
    def _over_boxes(self) -> Iterator[tuple[Expr, Expr]]:
        """Inserts into unrolled loops over the boxes: the number of one, and that of its panel."""
        to, boxes = self.to, self.boxes
        with ExitStack() as stack:
            number = Expr()
            for axis in boxes.others:
                extent = extent_of_register(axis)
                index = stack.enter_context(to.loop(extent, axis.name_hint, unroll=True))
                to.scalars[axis] = index
                number = number * extent + Expr.of(index)
            panel = Expr()
            if boxes.panels > 1:
                index = stack.enter_context(to.loop(boxes.panels, "panel", unroll=True))
                panel = Expr.of(index)
            yield number * boxes.panels + panel, panel
        for axis in boxes.others:
            del to.scalars[axis]

    def _write(self, place: Expr) -> None:
        """Inserts the stores of a lane to a box, two neighbours beside each other."""
        to, boxes = self.to, self.boxes
        warp, lane = self.thread // WARP, self.thread % WARP
        row, column = (from_affine(e, [lane, Expr()]) for e in WARP_SUMS.layout.results)

        def element() -> None:
            half, pair = (Expr.of(to.scalars[a]) for a in (boxes.half, boxes.pair))
            at = Expr() if boxes.tiles is None else to.in_part(boxes.tiles)
            row_in_box = half * (WARP_SUMS.rows // 2) + row
            place_of = [warp, place, row_in_box, at * COLUMNS + column + pair]
            to.builder.insert(kernel.StoreOp(to.value(self.op.value), self.slab, place_of))

        tiles = () if boxes.tiles is None else (boxes.tiles,)
        to.over([*tiles, boxes.half, boxes.pair], element)

    def _store(self, place: Expr, panel: Expr) -> None:
        """Inserts the request of a box: a warp's first lane has its first element."""
        to, boxes = self.to, self.boxes
        first: dict[SSAValue, Expr] = {boxes.half: Expr(), boxes.pair: Expr()}
        if boxes.tiles is not None:
            first[boxes.tiles] = panel * (boxes.width // COLUMNS)
        source = [self.thread // WARP, place, Expr(), Expr()]
        own = {value for e in self.op.subscripts for value in e.values()}
        first |= {value: Expr() for value in own if self._is_0_in_first_lanes(value)}
        coordinates = to.exprs(self.op.subscripts, first)
        to.builder.insert(kernel.TmaStoreOp(self.slab, source, self.map, coordinates))
        to.builder.insert(kernel.TmaCommitOp())

    def _is_0_in_first_lanes(self, value: SSAValue) -> bool:
        """True for what numbers the lanes of a warp."""
        expr = expanded(Expr.of(value))
        firsts = range(0, computing_threads(self.to.source), WARP)
        return expr != Expr() and all(
            expr.substitute(lambda v, n=n: n if isinstance(v.owner, kernel.ThreadIdOp) else None)
            == Expr()
            for n in firsts
        )

"""What the pictures of a kernel are drawn from: who stores which element, what is in which bank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from math import prod

from xdsl.ir import Operation, SSAValue

from dlc.analysis.kernel.banks import ways
from dlc.analysis.kernel.instruction_counts import first_lanes
from dlc.dialects import kernel, tile
from dlc.dialects.axes import BLOCK, THREAD, loops_around
from dlc.dialects.kernel_memory import is_shared
from dlc.dialects.layouts import shape_of
from dlc.ir.expr import Expr
from dlc.schedule.block_order import in_order
from dlc.trace.model import Bank, Owners

MOST_POINTS = 1 << 16
"""Points of a block's tile that are looked at; of a larger one there is no picture."""
MOST_BLOCKS = 4096
"""Blocks of a grid that are drawn."""
SIDE = 64
"""Rows and columns of a tile that are drawn, from its first corner."""


def owners_of(source: tile.KernelOp) -> Owners | None:
    """
    How the kernel's first output is cut, in its last two dimensions; None where that depends on
    data, or the tile is too large.
    """
    stores = (op for op in source.launch.walk() if isinstance(op, tile.StoreOp))
    store = next((op for op in stores if op.ref in source.output_refs), None)
    if store is None:
        return None
    cut = _Cut(source, store)
    return cut.owners() if cut.is_drawn else None


@dataclass(frozen=True)
class _Cut:
    """The points of a kernel at which a store is executed."""

    source: tile.KernelOp
    store: tile.StoreOp

    @cached_property
    def extents(self) -> dict[SSAValue, int]:
        """All axes around the store with their extents, the outermost first."""
        return {a: loop.extent(a) for loop in loops_around(self.store) for a in loop.axes}

    @cached_property
    def subscripts(self) -> list[Expr]:
        return [_expanded(e) for e in self.store.subscripts]

    @cached_property
    def moving(self) -> list[SSAValue]:
        """The axes in a block that tell elements or threads apart."""
        used = {value for e in self.subscripts for value in e.values()}
        threads, blocks = (self.source.launch.axes_of(kind) for kind in (THREAD, BLOCK))
        return [a for a in self.extents if a not in blocks and (a in used or a in threads)]

    @property
    def is_drawn(self) -> bool:
        used = {value for e in self.subscripts for value in e.values()}
        few = prod(self.extents[a] for a in self.moving) <= MOST_POINTS
        return used <= self.extents.keys() and 0 not in shape_of(self.store.ref) and few

    @cached_property
    def blocks(self) -> Mapping[SSAValue, Sequence[int]]:
        """The block axes, the slowest first, each with its points in the order of the blocks."""
        launch = self.source.launch
        points: dict[SSAValue, Sequence[int]]
        points = {a: range(self.extents[a]) for a in launch.axes_of(BLOCK)}
        if launch.order is None:
            return points
        slowest, waves = launch.order
        return {slowest: in_order(points.pop(slowest), waves), **points}

    def place(self, point: Mapping[SSAValue, int]) -> list[int]:
        """The element that is stored at a point; at least two subscripts."""
        return ([0, 0, *(e.evaluate(point) for e in self.subscripts)])[-self.rank :]

    @property
    def rank(self) -> int:
        return max(len(self.subscripts), 2)

    def owners(self) -> Owners:
        threads = self.source.launch.axes_of(THREAD)
        own = [a for a in self.moving if a not in threads]
        blocks = dict.fromkeys(self.blocks, 0)
        shape = ([1, 1, *shape_of(self.store.ref)])[-self.rank :]
        found: dict[tuple[int, int], tuple[int, int]] = {}
        for at in product(*(range(self.extents[a]) for a in self.moving)):
            point: Mapping[SSAValue, int] = {**blocks, **dict(zip(self.moving, at, strict=True))}
            place = self.place(point)
            if all(0 <= n < size for n, size in zip(place, shape, strict=True)):
                thread, number = (_number(a, self.extents, point) for a in (threads, own))
                row, column = place[-2:]
                found.setdefault((row, column), (thread, number))
        rows, columns = (1 + max((at[d] for at in found), default=-1) for d in range(2))
        shown = [
            [found.get((row, column), (-1, -1)) for column in range(min(columns, SIDE))]
            for row in range(min(rows, SIDE))
        ]
        return Owners(
            self.store.ref.name_hint or "",
            shape[-2:],
            [rows, columns],
            [[thread for thread, _ in row] for row in shown],
            [[place for _, place in row] for row in shown],
            prod(self.extents[a] for a in own),
            _number([*self.blocks], self.extents, {a: n.index(0) for a, n in self.blocks.items()}),
            list(self.corners()),
        )

    def corners(self) -> Iterator[tuple[int, int, int]]:
        """
        The first element of each of the first blocks that store in the first matrix; of those that
        share one, as a cluster does, the first.
        """
        inside, seen = dict.fromkeys(self.moving, 0), set[tuple[int, int]]()
        for number, at in enumerate(islice(product(*self.blocks.values()), MOST_BLOCKS)):
            point = dict(zip(self.blocks, at, strict=True))
            *matrix, row, column = self.place({**inside, **point})
            if not any(matrix) and (row, column) not in seen:
                seen.add((row, column))
                yield number, row, column


def _number(
    axes: Sequence[SSAValue], extents: Mapping[SSAValue, int], point: Mapping[SSAValue, int]
) -> int:
    """The number of a point, the last axis running fastest."""
    number = 0
    for axis in axes:
        number = number * max(extents[axis], 1) + point[axis]
    return number


def _expanded(expr: Expr) -> Expr:
    """An expression in axes: `tile.index` values are looked into."""

    def replace(value: SSAValue) -> Expr | None:
        owner = value.owner
        return _expanded(owner.subscripts[0]) if isinstance(owner, tile.IndexOp) else None

    return expr.substitute(replace)


def banks_of(func: kernel.FuncOp, line_of: Callable[[Operation], int]) -> list[Bank]:
    """The accesses of shared memory by the first warp, in its first iteration of all loops."""
    found: list[Bank] = []
    for op in func.walk():
        if isinstance(op, kernel.LoadOp | kernel.StoreOp) and is_shared(op.ref):
            ref, what = op.ref, "read" if isinstance(op, kernel.LoadOp) else "write"
        elif isinstance(op, kernel.CpAsyncOp):
            ref, what = op.target, "copy"
        elif isinstance(op, kernel.LdmatrixOp | kernel.StmatrixOp):
            ref, what = op.ref, "read" if isinstance(op, kernel.LdmatrixOp) else "write"
        else:
            continue
        lanes, width = first_lanes(func, op)
        name = f"{what} of {ref.name_hint}, {width} bytes a lane"
        found.append(Bank(name, line_of(op), ways(lanes, width), list(lanes), width))
    return found

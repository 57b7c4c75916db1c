"""
The stores of a kernel whose points, of a warp that holds sums as tensor cores lay them out, are
boxes: 16 rows, two of each lane, of as many columns as a swizzle has place for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, BlockArgument, SSAValue

from dlc.analysis.kernel.tensor_maps import tma_obstacle
from dlc.dialects import tile
from dlc.dialects.axes import REGISTER, THREAD
from dlc.dialects.kernel_memory import element_bytes, memref_of
from dlc.dialects.layouts import WIDTHS, SwizzleAttr, shape_of
from dlc.dialects.mma_layouts import WARP_SUMS
from dlc.dialects.point_ops import extent_of_register
from dlc.ir.bounds import within
from dlc.ir.expr import Expr
from dlc.target import WARP

ROWS, COLUMNS = WARP_SUMS.rows, WARP_SUMS.columns


@dataclass(frozen=True)
class WarpBoxes:
    """What a warp stores, as boxes."""

    type: MemRefType[Attribute]
    """Of what is stored to."""
    rows: int
    """The dimension along which a box has 16 rows; along the last one it has a row's elements."""
    half: BlockArgument
    """The register axis of a lane's two rows."""
    pair: BlockArgument
    """That of its two neighbours."""
    tiles: BlockArgument | None
    """The register axis that counts 8 columns, if there are more."""
    others: tuple[BlockArgument, ...]
    """The register axes along which boxes follow each other."""

    @property
    def tile_count(self) -> int:
        return 1 if self.tiles is None else extent_of_register(self.tiles)

    @property
    def width(self) -> int:
        """Elements of a row of a box: what the widest swizzle has place for, and divides a row."""
        return gcd(self.tile_count * COLUMNS, max(WIDTHS) // element_bytes(self.type.element_type))

    @property
    def panels(self) -> int:
        """Boxes beside each other."""
        return self.tile_count * COLUMNS // self.width

    @property
    def count(self) -> int:
        """Boxes of a warp."""
        return self.panels * prod(map(extent_of_register, self.others))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of a box along each dimension of what is stored to."""
        last = self.type.get_num_dims() - 1
        sizes = {self.rows: ROWS, last: self.width}
        return tuple(sizes.get(d, 1) for d in range(last + 1))

    @property
    def swizzle(self) -> SwizzleAttr | None:
        """How rows lie in shared memory: none for 16 bytes, which trade no places."""
        bytes = self.width * element_bytes(self.type.element_type)
        return SwizzleAttr(bytes) if bytes in WIDTHS else None

    @property
    def bytes(self) -> int:
        """Of a box."""
        return ROWS * self.width * element_bytes(self.type.element_type)


def warp_boxes(op: tile.StoreOp, registers: Sequence[BlockArgument]) -> WarpBoxes | str:
    """
    The boxes that the points of a store along register axes are, if a warp's lanes lie as tensor
    cores lay them out, or the reason why they are none.
    """
    *outer, last = op.subscripts or (Expr(),)
    axes = [a for a in registers if any(a in e.values() for e in op.subscripts)]
    pairs = [a for a in axes if extent_of_register(a) == 2 and last.coefficient(a) == 1]
    halves = [
        (d, a)
        for d, e in enumerate(outer)
        for a in axes
        if extent_of_register(a) == 2 and e.coefficient(a) == COLUMNS
    ]
    if len(pairs) != 1 or not halves:
        return "neighbours along a row of sums are no neighbours in memory"
    (pair,), (rows, half) = pairs, halves[0]
    tiles = next((a for a in axes if last.coefficient(a) == COLUMNS), None)
    along = {half: rows, pair: len(outer)} | ({} if tiles is None else {tiles: len(outer)})
    subscripts = list(enumerate(op.subscripts))
    if any(a in e.values() for a, at in along.items() for d, e in subscripts if d != at):
        return "rows and columns of sums share a dimension of what is stored to"
    rest = tuple(a for a in axes if a not in along)
    return WarpBoxes(memref_of(op.ref), rows, half, pair, tiles, rest)


def store_obstacle(launch: tile.LaunchOp, op: tile.StoreOp) -> str | None:
    """The reason why the tensor memory accelerator cannot store what a store does, or None."""
    kernel = launch.parent_op()
    assert isinstance(kernel, tile.KernelOp)
    lanes = next((r.lanes for r in launch.walk() if isinstance(r, tile.ReduceOp) and r.mma), None)
    if lanes is None:
        return "no warp holds sums as tensor cores lay them out (`register-tile{mma=…}`)"
    if op.parent is not launch.body.block:
        return "it stands in a loop"
    if op.ref in kernel.updated_refs or len(list(op.ref.uses)) > 1:
        return "the kernel reads what it stores to, or stores there twice"
    boxes = warp_boxes(op, registers_of(launch))
    if isinstance(boxes, str):
        return boxes
    return _lane_obstacle(launch, op, lanes, boxes) or tma_obstacle(
        boxes.type, boxes.sizes, kernel.alignment(op.ref)
    )


def _lane_obstacle(
    launch: tile.LaunchOp, op: tile.StoreOp, lanes: Sequence[SSAValue], boxes: WarpBoxes
) -> str | None:
    group, member, half, pair = lanes[-4:]
    if (half, pair) != (boxes.half, boxes.pair):
        return "its rows are no rows of the sums"
    last = len(op.subscripts) - 1
    for axis, at, step in ((group, boxes.rows, 1), (member, last, 2)):
        steps = [e.coefficient(axis) for e in op.subscripts]
        if steps != [step if d == at else 0 for d in range(last + 1)]:
            return "its rows are no rows of the sums"
    if not launch_threads(launch) <= {value for e in op.subscripts for value in e.values()}:
        return "threads share the sums"
    if clipped(op.subscripts, op.where, boxes.type):
        return "what is stored depends on more than where the tensor ends"
    return None


def launch_threads(launch: tile.LaunchOp) -> set[SSAValue]:
    """The thread axes of more than one point."""
    return {axis for axis in launch.axes_of(THREAD) if launch.most(axis) > 1}


def registers_of(launch: tile.LaunchOp) -> list[BlockArgument]:
    """The register axes of a launch."""
    return launch.axes_of(REGISTER)


def clipped(
    subscripts: Sequence[Expr], where: Sequence[Expr], type: MemRefType[Attribute]
) -> list[Expr]:
    """The conditions that do not just say that an element is one of the memref."""
    inside = [c for s, n in zip(subscripts, shape_of(type), strict=True) for c in within(s, n)]
    return [condition for condition in where if condition not in inside]


def box_count(launch: tile.LaunchOp, op: tile.StoreOp) -> int:
    """Boxes of a warp of a store that has no obstacle."""
    boxes = warp_boxes(op, registers_of(launch))
    assert not isinstance(boxes, str)
    return boxes.count


def slab_bytes(launch: tile.LaunchOp) -> int:
    """The shared memory that stores by boxes take, in bytes."""
    total, warps = 0, prod(map(launch.extent, launch_threads(launch))) // WARP
    for op in launch.body.block.ops:
        if isinstance(op, tile.StoreOp) and op.boxes is not None:
            boxes = warp_boxes(op, registers_of(launch))
            assert not isinstance(boxes, str)
            total += warps * op.boxes.value.data * boxes.bytes
    return total

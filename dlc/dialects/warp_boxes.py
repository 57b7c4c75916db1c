"""
The boxes that a store's points are, of a warp that holds sums as tensor cores lay them out: 16
rows, two of each lane, of as many columns as a swizzle has place for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, BlockArgument

from dlc.dialects.access import StoreOpBase
from dlc.dialects.kernel_memory import element_bytes, memref_of
from dlc.dialects.layouts import WIDTHS, SwizzleAttr
from dlc.dialects.mma_layouts import WARP_SUMS
from dlc.dialects.point_ops import extent_of_register
from dlc.ir.expr import Expr

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


def warp_boxes(op: StoreOpBase, registers: Sequence[BlockArgument]) -> WarpBoxes | str:
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

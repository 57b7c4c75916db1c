"""The boxes by which the tensor memory accelerator stores what the warps of a block hold."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from dlc.dialects.layouts import WIDTHS
from dlc.dialects.mma_layouts import WARP_SUMS
from dlc.target import SECTOR_BYTES


@dataclass(frozen=True)
class ResultBoxes:
    """Of a block's results, whose sums warps hold as tensor cores lay them out."""

    warps: int
    """Of a block."""
    tiles: int
    """Of `WARP_SUMS.rows` rows, that a warp has below each other."""
    columns: int
    """Of a warp."""
    bytes: int
    """Of an element that is stored; 0 where TMA can store no boxes."""

    @property
    def row_bytes(self) -> int:
        """Of a row of a box: what a swizzle has place for, and divides those of a warp."""
        return gcd(self.columns * self.bytes, max(WIDTHS))

    @property
    def count(self) -> int:
        """Boxes of a warp."""
        return self.tiles * (self.columns * self.bytes // self.row_bytes)

    @property
    def places(self) -> int:
        """Boxes for which a warp has room: few that divide its boxes, one of which is written."""
        return next((n for n in (2, 3) if self.count % n == 0), 1)

    @property
    def place_bytes(self) -> int:
        """Of shared memory of a block for them."""
        return self.warps * self.places * WARP_SUMS.rows * self.row_bytes

    @property
    def parts_of_sector(self) -> int:
        """Stores of threads by which a sector is written: four lanes have two neighbours each."""
        return max(SECTOR_BYTES // (WARP_SUMS.columns * self.bytes), 1) if self.bytes else 1

    @property
    def pay(self) -> bool:
        """True if boxes save sectors, and a warp that writes one does not wait for the one
        before."""
        return self.parts_of_sector > 1 and (self.places > 1 or self.count == 1)

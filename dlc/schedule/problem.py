"""A contraction as tilings see it: sizes, what is read, and what is computed of that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod

from dlc.ir.cached import cached
from dlc.target import SECTOR_BYTES


@dataclass(frozen=True)
class TensorProduct:
    """What tensor cores multiply: factors, whose products they sum in f32 or i32."""

    type: str
    """One of `dlc.dialects.mma_layouts.TYPES`."""
    row_work: float = 0
    """Instructions that compute a factor along rows; 0 if that is an element of an input."""
    column_work: float = 0
    row_runs: bool = True
    """True if factors along rows lie in runs along K or, halves, along rows, of which warps read 16
    bytes."""
    column_runs: bool = True
    along_k: tuple[bool, bool] | None = None
    """Of factors along rows and those along columns, True if neighbours in memory are along K, else
    along rows or columns; None if they are no matrices in memory, two dimensions of an input."""
    boxes: bool = False
    """True if TMA can copy parts of these matrices."""
    stored_bytes: int = 0
    """Bytes of an element of the results, if TMA can store boxes of them; else 0."""
    after: float = 0
    """Registers of a thread, for each sum of which it computes something at once, that this takes:
    for all of its sums, or those of a box that TMA stores."""
    after_columns: int = 0
    """Registers that this takes beside them for each column of a thread: what is loaded for one."""
    in_parts: bool = False
    """True if factors of f32 are laid out in parts, which tf32 is to multiply."""
    loads_after: bool = False
    """True if an element is loaded for each sum."""
    sums_beside: int = 0
    """The number of sums at each row, or each column, of which a block computes one once."""


@dataclass(frozen=True)
class Problem:
    """A contraction: extents, how many inputs vary along rows and along columns, and its sums."""

    batch: int
    rows: int
    columns: int
    k: int
    beside: tuple[int, int] = (1, 1)
    """The points of another axis of rows and of one of columns, over which a block spreads its
    own."""
    taps: float = 1
    """Points of what is summed over beside K, as many as are not skipped."""
    skips: bool = False
    """True if conditions choose among chunks, which then are no rings."""
    row_operands: float = 1
    """Elements of operands for each row and point of K; windows that overlap share them."""
    column_operands: float = 1
    scalar_row_operands: float = 0
    """As many of those that are copied one by one, not 16 bytes at once."""
    scalar_column_operands: float = 0
    row_fetched: float = 1
    """Elements of the sectors that are fetched for each of `row_operands`' points."""
    column_fetched: float = 1
    runs: tuple[int, int] = (0, 0)
    """Elements from a point of the axis beside to the next, of rows and of columns, where one
    dimension of an operand has both: a slab has all that lie between."""
    sectors: tuple[int, int] = (SECTOR_BYTES // 4, SECTOR_BYTES // 4)
    """Points along rows, and along columns, of which the elements are in one sector of memory."""
    row_edges: float = 0
    """Operands that are copied in runs along rows which begin anywhere in a sector."""
    column_edges: float = 0
    lines: tuple[float, float] = (0, 0)
    """Lines of memory, of 32 elements, that threads which copy neighbours apart from each other are
    in, of rows and of columns."""
    stored: tuple[int, int, int] = (1, 1, 4)
    """Along what the results are in memory, 0 for rows and 1 for columns; how far apart neighbours
    along that are, in elements, and how many can be stored at once."""
    strided: tuple[bool, bool] = (False, False)
    """True of rows, and of columns, if neighbours lie apart in a slab, as of windows with strides:
    threads may then have single points, each beside those of others."""
    divided: bool = False
    """True if where results are stored is a quotient, as of places that are one axis."""
    gaps: int = 1
    """Of the batch, points of an axis that lie between neighbours which are stored apart, as
    classes of results of a transposed convolution do."""
    row_factors: int = 1
    """Values along rows that are multiplied with values along columns: two sums may share one."""
    column_factors: int = 1
    operand_points: int | None = None
    """Elements of all operands for a point of K, where some lack axes of the batch."""
    sums: int = 1
    """The number of sums at each point of rows and columns."""
    bytes_: int = 4
    """Bytes of an element in memory."""
    computed_bytes_: int = 4
    """Bytes of an element that is computed of them."""
    row_work: float = 0
    """Instructions that compute an element along rows; 0 if that is an element of an input."""
    column_work: float = 0
    """Instructions that compute an element along columns."""
    after: float = 0
    """Instructions for what is computed of the sums of a point, but for a few."""
    tensor: TensorProduct | None = None
    """What tensor cores would multiply, if they can compute the sums."""
    padded: bool = True
    """True if threads of a warp read rows of a slab, which padding keeps off each other's banks."""

    def like(self, chunk: int) -> Problem:
        """
        One that is the same for all that differ in the length of K alone, and in the elements of
        all operands for a point of it, if K is longer than two chunks of so many points.
        """
        taps = min(self.taps, 1) or 1
        return replace(self, k=min(self.k, ceil(2 * chunk / taps)), operand_points=None)

    @cached
    def compulsory_bytes(self) -> int:
        points = self.operand_points
        if points is None:
            rows, columns = self.rows * self.beside[0], self.columns * self.beside[1]
            operands = rows * self.row_operands + columns * self.column_operands
            points = ceil(self.batch * operands)
        return self.bytes_ * (points * self.k + self.batch * self.results)

    @property
    def results(self) -> int:
        """Sums of all rows and columns."""
        return self.rows * self.columns * prod(self.beside) * self.sums

    @property
    def is_plain(self) -> bool:
        """True if a sum is of products of two inputs at the points of K alone."""
        factors = (self.row_factors, self.column_factors, self.sums)
        return factors == (1, 1, 1) and self.is_flat

    @property
    def is_flat(self) -> bool:
        """True if points are summed along K alone, at rows and columns that are one axis each."""
        return self.taps == 1 and self.beside == (1, 1)

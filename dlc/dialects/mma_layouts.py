"""
How the lanes of a warp hold matrices in their registers: `#kernel.mma<m16n8k16, bf16>`.

A *fragment* is what one lane holds of a matrix, a vector. Its layout is an affine map from the
lane and the place in the vector, `(d0, d1)`, to the row and the column of the matrix. All that is
known of these layouts stands in the tables here; their source is the PTX ISA, "Warp-level Matrix
Instructions".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, StringAttr, VectorType
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from dlc.target import WARP


@dataclass(frozen=True)
class Fragment:
    """How a warp holds a matrix."""

    rows: int
    columns: int
    layout: AffineMap
    """From the lane and the place in its vector to the row and the column."""

    @property
    def width(self) -> int:
        """The elements that each lane holds."""
        return self.rows * self.columns // WARP

    def at(self, lane: int, place: int) -> tuple[int, int]:
        """The row and the column of what a lane holds at a place of its vector."""
        row, column = self.layout.eval([lane, place], [])
        return row, column


@dataclass(frozen=True)
class Shape:
    """A product of matrices that a warp computes at once: C (m, n) + A (m, k) · B (k, n)."""

    m: int
    n: int
    k: int
    a: Fragment
    b: Fragment
    c: Fragment
    """Of the addend, and of the result."""


_LANE, _PLACE = AffineExpr.dimension(0), AffineExpr.dimension(1)
_GROUP, _IN_GROUP = _LANE // 4, _LANE % 4


def _fragment(rows: int, columns: int, row: AffineExpr, column: AffineExpr) -> Fragment:
    return Fragment(rows, columns, AffineMap(2, 0, (row, column)))


_PAIR = _PLACE // 2
"""Two elements of 16 bits share a register."""
_ACCUMULATOR = _fragment(16, 8, _GROUP + _PAIR * 8, _IN_GROUP * 2 + _PLACE % 2)
_HALVES = Shape(
    16, 8, 16,
    _fragment(16, 16, _GROUP + _PAIR % 2 * 8, _IN_GROUP * 2 + _PLACE % 2 + _PAIR // 2 * 8),
    _fragment(16, 8, _IN_GROUP * 2 + _PLACE % 2 + _PAIR * 8, _GROUP),
    _ACCUMULATOR,
)  # fmt: skip
_TF32 = Shape(
    16, 8, 8,
    _fragment(16, 8, _GROUP + _PLACE % 2 * 8, _IN_GROUP + _PLACE // 2 * 4),
    _fragment(8, 8, _IN_GROUP + _PLACE * 4, _GROUP),
    _ACCUMULATOR,
)  # fmt: skip
SHAPES: dict[tuple[str, str], Shape] = {
    ("m16n8k16", "f16"): _HALVES,
    ("m16n8k16", "bf16"): _HALVES,
    ("m16n8k8", "tf32"): _TF32,
}
"""By the name of the shape and the type of the factors."""
OF_HALVES = sorted({name for (name, _), shape in SHAPES.items() if shape is _HALVES})
"""The names of the shapes whose factors have 16 bits."""
OF_FLOATS = sorted({name for (name, _), shape in SHAPES.items() if shape is _TF32})
"""Those whose factors are the leading 19 bits of f32."""
TF32 = "tf32"
TF32_MASK = -(1 << 13)
"""The bits of f32 that are read of it, as an integer of 32 bits."""
_FACTORS: dict[str, Attribute] = {
    "f16": Float16Type(),
    "bf16": BFloat16Type(),
    TF32: Float32Type(),
}
_SUMS: dict[str, tuple[Attribute, ...]] = {
    "f16": (Float32Type(), Float16Type()),
    "bf16": (Float32Type(),),
    "tf32": (Float32Type(),),
}


@lru_cache
def row_fragment(matrices: int, *, transposed: bool) -> Fragment:
    """
    How a warp holds 8×8 matrices of 16-bit elements, below each other, that it loads or stores by
    rows; lane n gives the address of row n (PTX ISA, "ldmatrix"). Transposed, a lane holds parts of
    a column.
    """
    in_order = _GROUP, _IN_GROUP * 2 + _PLACE % 2
    row, column = reversed(in_order) if transposed else in_order
    return _fragment(8 * matrices, 8, row + _PAIR * 8, column)


@irdl_attr_definition
class MmaAttr(ParametrizedAttribute):
    """
    `#kernel.mma<m16n8k16, bf16>`: a product of matrices that a warp computes at once.

    The factors are f16, bf16 or tf32, which is f32 whose last 13 bits are not read; the sums are
    f32, of factors in f16 also f16.
    """

    name = "kernel.mma"
    shape: StringAttr
    factors: StringAttr

    def __init__(self, shape: str | StringAttr, factors: str | StringAttr) -> None:
        super().__init__(
            StringAttr(shape) if isinstance(shape, str) else shape,
            StringAttr(factors) if isinstance(factors, str) else factors,
        )

    def verify(self) -> None:
        if (self.shape.data, self.factors.data) not in SHAPES:
            known = ", ".join(f"<{shape}, {factors}>" for shape, factors in SHAPES)
            raise VerifyException(
                f"expected one of {known}, found <{self.shape.data}, {self.factors.data}>"
            )

    @property
    def sizes(self) -> Shape:
        """The sizes of the matrices, and how a warp holds them."""
        return SHAPES[self.shape.data, self.factors.data]

    @property
    def element(self) -> Attribute:
        """The type of the factors' elements."""
        return _FACTORS[self.factors.data]

    @property
    def types(self) -> tuple[VectorType, VectorType]:
        """The types of a lane's parts of A and B."""
        a, b = self.sizes.a.width, self.sizes.b.width
        return VectorType(self.element, [a]), VectorType(self.element, [b])

    @property
    def sums(self) -> tuple[VectorType, ...]:
        """The types that a lane's part of C can have."""
        width = self.sizes.c.width
        return tuple(VectorType(element, [width]) for element in _SUMS[self.factors.data])

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape = parser.parse_identifier()
            parser.parse_punctuation(",")
            return [StringAttr(shape), StringAttr(parser.parse_identifier())]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.shape.data}, {self.factors.data}")

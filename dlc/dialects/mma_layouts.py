"""
How the lanes of a warp hold matrices in their registers: `#kernel.mma<m16n8k16, bf16>`; or four
warps together, a *warpgroup*: `#kernel.mma<m64n128k16, bf16>`.

A *fragment* is what one lane holds of a matrix, a vector. Its layout is an affine map from the
lane, of a warpgroup the thread in it, and the place in the vector, `(d0, d1)`, to the row and the
column of the matrix. All that is known of these layouts stands in the tables here; their source is
the PTX ISA, "Warp-level Matrix Instructions" and "Asynchronous Warpgroup Level Matrix
Instructions".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    IntegerType,
    StringAttr,
    VectorType,
    i8,
    i32,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from dlc.target import WARP, WARPGROUP, Feature, ProductKind


@dataclass(frozen=True)
class Fragment:
    """How a warp holds a matrix."""

    rows: int
    columns: int
    layout: AffineMap
    """From the lane and the place in its vector to the row and the column."""
    lanes: int = WARP
    """Who holds it together."""

    @property
    def width(self) -> int:
        """The elements that each lane holds."""
        return self.rows * self.columns // self.lanes

    def at(self, lane: int, place: int) -> tuple[int, int]:
        """The row and the column of what a lane holds at a place of its vector."""
        row, column = self.layout.eval([lane, place], [])
        return row, column


@dataclass(frozen=True)
class Shape:
    """
    A product of matrices that a warp, or a warpgroup, computes at once: C (m, n) + A (m, k) · B
    (k, n).
    """

    m: int
    n: int
    k: int
    a: Fragment
    b: Fragment
    """Of a warpgroup both lie in shared memory, or A as `HELD_FACTOR`: these are what a warp of it
    multiplies by itself."""
    c: Fragment
    """Of the addend, and of the result."""


_LANE, _PLACE = AffineExpr.dimension(0), AffineExpr.dimension(1)
_GROUP, _IN_GROUP = _LANE // 4, _LANE % 4


def _fragment(rows: int, columns: int, row: AffineExpr, column: AffineExpr) -> Fragment:
    return Fragment(rows, columns, AffineMap(2, 0, (row, column)))


_PAIR = _PLACE // 2
"""Two elements of 16 bits share a register."""
_ACCUMULATOR = _fragment(16, 8, _GROUP + _PAIR * 8, _IN_GROUP * 2 + _PLACE % 2)
WARP_SUMS = _ACCUMULATOR
"""How a warp holds 16 x 8 sums, whatever it multiplies; one of a warpgroup, each of its tiles."""


def pair_name(a: str, b: str) -> str:
    """A name for the types of the factors A and B, which may be one."""
    return a if a == b else f"{a}_{b}"


def _packed(each: int) -> Shape:
    """That of factors of which so many elements share a register."""
    register, k = _PLACE // each, _IN_GROUP * each + _PLACE % each
    return Shape(
        16, 8, 8 * each,
        _fragment(16, 8 * each, _GROUP + register % 2 * 8, k + register // 2 * (4 * each)),
        _fragment(8 * each, 8, k + register * (4 * each), _GROUP),
        _ACCUMULATOR,
    )  # fmt: skip


_HALVES, _BYTES = _packed(2), _packed(4)
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
    **{
        ("m16n8k32", pair_name(a, b)): _BYTES
        for types in (("e4m3", "e5m2"), ("s8", "u8"))
        for a, b in product(types, types)
    },
}
"""By the name of the shape and the type of the factors: those of a warp."""


def _of_warpgroup(columns: int, of_warp: Shape) -> Shape:
    quarter, lane = _LANE // WARP, _LANE % WARP
    row = quarter * 16 + lane // 4 + _PAIR % 2 * 8
    column = _PLACE // 4 * 8 + lane % 4 * 2 + _PLACE % 2
    sums = Fragment(64, columns, AffineMap(2, 0, (row, column)), WARPGROUP)
    return Shape(64, columns, of_warp.k, of_warp.a, of_warp.b, sums)


def _of_quarters(part: Fragment) -> Fragment:
    """A matrix of which each of the four warps of a warpgroup holds rows of its own."""
    row, column = (
        e.replace_dims_and_symbols([_LANE % WARP, _PLACE], []) for e in part.layout.results
    )
    layout = AffineMap(2, 0, (_LANE // WARP * part.rows + row, column))
    return Fragment(WARPGROUP // WARP * part.rows, part.columns, layout, WARPGROUP)


HELD_FACTOR = _of_quarters(_HALVES.a)
"""How a warpgroup holds A (64, 16), where that lies in its registers."""
_COLUMNS = (8, *range(16, 193, 16), 256)
"""Of the products of warpgroups that are used: of all multiples of 8 up to 256 enough for blocks to
fill a chip's SMs."""
WARPGROUP_SHAPES: dict[tuple[str, str], Shape] = {
    (f"m64n{columns}k{of_warp.k}", factors): _of_warpgroup(columns, of_warp)
    for columns in _COLUMNS
    for (_, factors), of_warp in SHAPES.items()
}
"""Those of a warpgroup (`wgmma`)."""
OF_WARPGROUPS = list(dict.fromkeys(name for name, _ in WARPGROUP_SHAPES))
"""The names of the shapes of a warpgroup."""
ALL_SHAPES = {**SHAPES, **WARPGROUP_SHAPES}
OF_HALVES = sorted({name for (name, _), shape in SHAPES.items() if shape is _HALVES})
"""The names of the shapes of a warp whose factors have 16 bits."""
OF_BYTES = sorted({name for (name, _), shape in SHAPES.items() if shape is _BYTES})
"""Those whose factors have 8 bits."""
HOLDING = sorted({name for (name, _), shape in ALL_SHAPES.items() if shape.k == _HALVES.k})
"""The names of the shapes, of warps and of warpgroups, of which lanes can hold a factor as they
hold sums: those of 16 bits."""


def of_columns(shape: str, columns: int) -> str:
    """Of a warpgroup's shapes the widest of which so many columns are a multiple; of warps one."""
    if shape not in OF_WARPGROUPS:
        return shape
    return f"m64n{max(n for n in _COLUMNS if columns % n == 0)}{shape[shape.index('k') :]}"


TF32 = "tf32"
OF_FLOATS = list(dict.fromkeys(name for name, factors in ALL_SHAPES if factors == TF32))
"""Those whose factors are the leading 19 bits of f32, of a warp and of a warpgroup."""
TF32_MASK = -(1 << 13)
"""The bits of f32 that are read of it, as an integer of 32 bits."""


@dataclass(frozen=True)
class Factors:
    """What is multiplied, and summed."""

    element: AnyFloat | IntegerType
    """The type of elements that are multiplied."""
    kind: ProductKind
    feature: Feature
    """What a chip must have to multiply them by warps."""
    sums: tuple[AnyFloat | IntegerType, ...] = (Float32Type(),)
    """The types that sums can have; of a warpgroup the first."""


_FACTORS: dict[str, Factors] = {
    "e4m3": Factors(Float8E4M3FNType(), "float8", "float8"),
    "e5m2": Factors(Float8E5M2Type(), "float8", "float8"),
    "f16": Factors(Float16Type(), "half", "mma", (Float32Type(), Float16Type())),
    "bf16": Factors(BFloat16Type(), "half", "mma"),
    "s8": Factors(i8, "int8", "int8", (i32,)),
    "u8": Factors(i8, "int8", "int8", (i32,)),
    TF32: Factors(Float32Type(), "tf32", "tf32"),
}
FACTORS = tuple(dict.fromkeys(row.element for row in _FACTORS.values()))
"""The types of elements that are multiplied."""


def _type(factors: str) -> str:
    a, b = (
        name if isinstance(element := _FACTORS[name].element, IntegerType) else str(element)
        for name in _names(factors)
    )
    return pair_name(a, b)


def _names(factors: str) -> tuple[str, str]:
    a, _, b = factors.partition("_")
    return a, b or a


TYPES: dict[str, Factors] = {_type(names): _FACTORS[_names(names)[0]] for _, names in SHAPES}
"""
What is multiplied; of integers, `s8` or `u8` by how they are widened. Of two types, such as
`s8_u8`, the row is A's, which tells all but B's element.
"""


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

    The factors are f16, bf16, e4m3 (without infinity) or e5m2, of 8 bits, or tf32, which is f32
    whose last 13 bits are not read; the sums are f32, of factors in f16 also f16. Factors are also
    s8 or u8, elements of i8 with a sign or without, whose sums are i32. Where factors of 8 bits
    differ, A's type comes first, as in `#kernel.mma<m16n8k32, u8_s8>`.
    `#kernel.mma<m64n128k16, bf16>` is one of a warpgroup, of 128 threads, whose factors lie in
    shared memory (`kernel.wgmma`); the sums are f32 or, of integers, i32.
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
        if (self.shape.data, self.factors.data) not in ALL_SHAPES:
            known = ", ".join(f"<{shape}, {factors}>" for shape, factors in SHAPES)
            columns = ", ".join(map(str, _COLUMNS))
            known += f", or <m64nNk16, f16 or bf16>, <m64nNk8, {TF32}> or <m64nNk32, "
            known += f"e4m3, e5m2, s8, u8 or two of these> for an N of {columns}"
            raise VerifyException(
                f"expected one of {known}, found <{self.shape.data}, {self.factors.data}>"
            )

    @property
    def sizes(self) -> Shape:
        """The sizes of the matrices, and how a warp holds them."""
        return ALL_SHAPES[self.shape.data, self.factors.data]

    @property
    def is_of_warpgroup(self) -> bool:
        """True if four warps compute it together."""
        return self.sizes.c.lanes == WARPGROUP

    @property
    def of_warp(self) -> MmaAttr:
        """The product that a warp computes by itself, of a warpgroup's the one for its rows."""
        if not self.is_of_warpgroup:
            return self
        (shape,) = (name for name, factors in SHAPES if factors == self.factors.data)
        return MmaAttr(shape, self.factors)

    @property
    def names(self) -> tuple[str, str]:
        """The types of A and of B, as in the PTX ISA."""
        return _names(self.factors.data)

    @property
    def multiplied(self) -> Factors:
        """What is multiplied, and summed."""
        return TYPES[self.type]

    @property
    def elements(self) -> tuple[AnyFloat | IntegerType, AnyFloat | IntegerType]:
        """The types of the elements of A and of B."""
        a, b = (_FACTORS[name].element for name in self.names)
        return a, b

    @property
    def type(self) -> str:
        """The type of factors, as in `TYPES`."""
        return _type(self.factors.data)

    @property
    def feature(self) -> Feature:
        """What a chip must have."""
        return "wgmma" if self.is_of_warpgroup else self.multiplied.feature

    @property
    def reads_across(self) -> bool:
        """True if factors in shared memory may lie across K: elements of 16 bits are turned."""
        return self.multiplied.element.bitwidth == 16

    @property
    def types(self) -> tuple[VectorType, VectorType]:
        """The types of a lane's parts of A and B."""
        (a, b), sizes = self.elements, self.sizes
        return VectorType(a, [sizes.a.width]), VectorType(b, [sizes.b.width])

    @property
    def sums(self) -> tuple[VectorType, ...]:
        """The types that a lane's part of C can have."""
        width, sums = self.sizes.c.width, self.multiplied.sums
        return tuple(VectorType(e, [width]) for e in (sums[:1] if self.is_of_warpgroup else sums))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape = parser.parse_identifier()
            parser.parse_punctuation(",")
            return [StringAttr(shape), StringAttr(parser.parse_identifier())]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.shape.data}, {self.factors.data}")

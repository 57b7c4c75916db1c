"""The places of a memref's elements: strides, linear offsets, alignment, extents in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from operator import mul

from xdsl.dialects.builtin import (
    MemRefLayoutAttr,
    MemRefType,
    StridedLayoutAttr,
)
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.utils.exceptions import VerifyException

from dlc.dialects import kernel
from dlc.dialects.kernel_memory import element_bytes, memref_type
from dlc.dialects.layouts import (
    PERIOD,
    UNIT,
    WIDTHS,
    Groups,
    PaddedGroupsAttr,
    SwizzleAttr,
    layout_offset,
    shape_of,
    strides_of,
    verify_layout,
)
from dlc.ir.bounds import never, sure
from dlc.ir.expr import Expr, FloorDiv, Mod
from dlc.ir.sizes import Size
from dlc.target import WIDEST_ACCESS


def _panel(type: MemRefType[Attribute]) -> int | None:
    """The elements of a row of a panel, if a memref is swizzled."""
    if isinstance(type.layout, SwizzleAttr):
        return type.layout.bytes.data // element_bytes(type.element_type)
    return None


def has_unit_stride(type: MemRefType[Attribute]) -> bool:
    """True if elements whose last subscripts follow each other are neighbours in memory."""
    return bool(shape_of(type)) and strides_of(type)[-1] == 1


def linear_offset(type: MemRefType[Attribute], subscripts: Sequence[Expr]) -> Expr:
    """
    The distance of an element from the memref's address, in elements; of a swizzled memref as if
    the units of a row had not traded places (see `place_of`).
    """
    strides = strides_of(type)
    if (width := _panel(type)) is not None:
        rows, columns = shape_of(type)[-2:]
        *outer, row, column = subscripts
        subscripts = [*outer, row, column // width, column % width]
        if columns == width:
            subscripts = [*outer, row, Expr(), column]
        strides = (*strides[:-2], width, rows * width, 1)
    if (groups := Groups.of(type)) is not None:
        *outer, row, column = subscripts
        subscripts = [*outer, row // groups.rows, row % groups.rows, column]
        strides = (*strides[:-2], groups.stride, groups.columns, 1)
    return Expr.weighted_sum(zip(subscripts, strides, strict=True), layout_offset(type))


@dataclass(frozen=True)
class Place:
    """The place of an element: `base + (unit xor exchange)` elements from the memref's address."""

    base: Expr
    unit: Expr
    exchange: Expr
    linear: Expr
    """The same as if the units of a row had not traded places."""

    def evaluate(self, values: Mapping[SSAValue, int]) -> int:
        """The number that the place is at a point."""
        exchanged = self.unit.evaluate(values) ^ self.exchange.evaluate(values)
        return self.base.evaluate(values) + exchanged


def place_of(type: MemRefType[Attribute], subscripts: Sequence[Expr]) -> Place:
    """The place of an element; 0 is exchanged unless the memref is swizzled."""
    offset, width = linear_offset(type, subscripts), _panel(type)
    if width is None:
        return Place(offset, Expr(), Expr(), offset)
    row, column = subscripts[-2:]
    unit = UNIT // element_bytes(type.element_type)
    units = width // unit
    exchange = ((row // (PERIOD // units)) % units) * unit
    if shape_of(type)[-1] > width:
        column = column % width
    return Place(offset - column, column, exchange, offset)


def offset_in(type: MemRefType[Attribute]) -> Callable[[Sequence[int]], int]:
    """The place of an element as a function of its subscripts, like `place_of`."""
    first, strides, width = layout_offset(type), strides_of(type), _panel(type)
    if (groups := Groups.of(type)) is not None:
        (*outer, _, _), each, stride = strides, groups.rows, groups.stride
        steps = (*outer, stride, groups.columns, 1)
        return lambda at: sum(map(mul, (*at[:-2], *divmod(at[-2], each), at[-1]), steps))
    if width is None:
        return lambda at: first + sum(map(mul, at, strides))
    rows = shape_of(type)[-2]
    unit = UNIT // element_bytes(type.element_type)
    units = width // unit

    def swizzled(at: Sequence[int]) -> int:
        *outer, row, column = at
        panel, column = divmod(column, width)
        exchange = row // (PERIOD // units) % units * unit
        inner = panel * rows * width + row * width + (column ^ exchange)
        return sum(map(mul, outer, strides)) + inner

    return swizzled


def alignment_of(type: MemRefType[Attribute]) -> int:
    """The alignment of a buffer's address in shared memory, in bytes."""
    layout = type.layout
    return PERIOD * layout.bytes.data if isinstance(layout, SwizzleAttr) else WIDEST_ACCESS


def padded(type: MemRefType[Attribute], padding: int, rows: int = 1) -> MemRefType[Attribute]:
    """
    The type with rows, along the last dimension, or groups of so many rows, that are so many
    elements further apart.
    """
    if rows > 1:
        return _with_layout(type, PaddedGroupsAttr(rows, padding))
    strides = [1, strides_of(type)[-2] + padding]
    for extent in reversed(shape_of(type)[1:-1]):
        strides.append(strides[-1] * extent)
    return _with_layout(type, StridedLayoutAttr(list(reversed(strides))))


def _with_layout(type: MemRefType[Attribute], layout: MemRefLayoutAttr) -> MemRefType[Attribute]:
    return memref_type(type.element_type, shape_of(type), layout, type.memory_space)


def group_padded(type: MemRefType[Attribute], padding: int) -> Iterator[MemRefType[Attribute]]:
    """The type with so many elements between groups of 2, 4 or 8 rows, as far as they fit."""
    for rows in (2, 4, 8):
        if shape_of(type)[-2] % rows == 0:
            yield padded(type, padding, rows)


def swizzled(
    type: MemRefType[Attribute], at_most: int = max(WIDTHS)
) -> list[MemRefType[Attribute]]:
    """The type with each swizzle of at most so many bytes that fits its rows, widest first."""
    found: list[MemRefType[Attribute]] = []
    for width in sorted((w for w in WIDTHS if w <= at_most), reverse=True):
        new = _with_layout(type, SwizzleAttr(width))
        try:
            verify_layout(new)
        except VerifyException:
            continue
        found.append(new)
    return found


def known_divisor(expr: Expr) -> int:
    """
    A number that divides the expression's value at every point; 0 for the constant 0. Index
    values that are computed, quotients and remainders are looked into.
    """
    return gcd(expr.constant, *(c * _atom_divisor(atom) for atom, c in expr.terms))


def _atom_divisor(atom: SSAValue | FloorDiv | Mod) -> int:
    match atom:
        case Mod():
            return gcd(known_divisor(atom.base), atom.divisor)
        case FloorDiv():
            divisor = known_divisor(atom.base)
            return divisor // atom.divisor if divisor % atom.divisor == 0 else 1
        case SSAValue():
            owner = atom.owner
            return known_divisor(owner.subscripts[0]) if isinstance(owner, kernel.IndexOp) else 1


def offset_divisor(type: MemRefType[Attribute], subscripts: Sequence[Expr]) -> int:
    """A number that divides an element's distance from the memref's address; see `known_divisor`"""
    strides = strides_of(type)
    if not any(isinstance(stride, Size) for stride in strides):
        return known_divisor(linear_offset(type, subscripts))
    parts = zip(subscripts, map(Size.of, strides), strict=True)
    return gcd(*(known_divisor(e) * gcd(n.constant, *(c for _, c in n.terms)) for e, n in parts))


def holds_alike(condition: Expr, lane: BlockArgument, width: int) -> bool:
    """
    True if `condition >= 0` has one truth value for all lanes 0 up to `width`.

    It is `c * lane + rest`, monotonic in the lane, so it changes within a strip iff `rest` and
    `rest + c * (width - 1)` have different signs: iff `rest` lies in `[-c * (width - 1), -1]` for
    c > 0, in `[0, -c * (width - 1) - 1]` for c < 0. If d divides all terms of `rest`, it takes only
    values congruent to its constant modulo d, and the one nearest to 0 on that side decides.
    """
    step = condition.coefficient(lane)
    if step is None:
        return False
    reach = step * (width - 1)
    rest = condition.substitute(lambda value: 0 if value is lane else None)
    if reach == 0 or sure(rest - max(0, -reach)) or never(rest - min(0, -reach)):
        return True
    divisor = known_divisor(rest - rest.constant)
    if divisor == 0:
        return False  # a constant, and the range above is exact
    if reach > 0:
        return (-1 - rest.constant) % divisor >= reach
    return rest.constant % divisor >= -reach


def vector_width(type: MemRefType[Attribute], base: Sequence[Expr], alignment: int) -> int:
    """
    The number of consecutive elements along the last dimension that one access can take, from
    `base` plus any multiple of the width there: 1, 2 or 4, at most 16 bytes. `alignment` is that
    of the memref's address, in bytes.
    """
    if not shape_of(type) or strides_of(type)[-1] != 1:
        return 1
    size = element_bytes(type.element_type)
    offset = offset_divisor(type, base)
    width = WIDEST_ACCESS // size
    while width > 1 and (offset % width or (width * size) > alignment):
        width //= 2
    return max(width, 1)

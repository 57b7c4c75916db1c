"""Types whose extents are sizes: `tensor<?x4xf32, #size.of<s * 2>>` says what its `?` is."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    MemRefLayoutAttr,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    TensorType,
)
from xdsl.ir import Attribute, Data
from xdsl.ir.affine import AffineMap
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from dlc.dialects.size_syntax import parse_size
from dlc.ir.sizes import Size


@irdl_attr_definition
class SizesAttr(Data[tuple[Size, ...]], MemRefLayoutAttr):
    """
    `#size.of<b, s * 2>`: the size of each `?` of a type, or a list of numbers. A memref with sizes
    lies in memory row by row.
    """

    name = "size.of"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Size, ...]:
        angle = parser.Delimiter.ANGLE
        return tuple(parser.parse_comma_separated_list(angle, lambda: parse_size(parser)))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(", ".join(map(str, self.data)))

    def get_affine_map(self) -> AffineMap:
        raise ValueError("sizes have no numbers: see dlc.dialects.layouts.strides_of")


@irdl_attr_definition
class SizedStridesAttr(Data[tuple[tuple[Size, ...], tuple[Size, ...]]], MemRefLayoutAttr):
    """
    `#size.strided<[s * 32, 1, 32], b, s>`: the strides of a memref in elements, sizes among them,
    and then the size of each of its `?`.
    """

    name = "size.strided"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
        with parser.in_angle_brackets():
            square = parser.Delimiter.SQUARE
            strides = parser.parse_comma_separated_list(square, lambda: parse_size(parser))
            sizes: list[Size] = []
            while parser.parse_optional_punctuation(","):
                sizes.append(parse_size(parser))
        return tuple(strides), tuple(sizes)

    def print_parameter(self, printer: Printer) -> None:
        strides, sizes = self.data
        with printer.in_angle_brackets():
            printer.print_string(", ".join([f"[{', '.join(map(str, strides))}]", *map(str, sizes)]))

    def get_affine_map(self) -> AffineMap:
        raise ValueError("sizes have no numbers: see dlc.dialects.layouts.strides_of")


def sizes_of(type: TensorType | MemRefType) -> tuple[Size, ...]:
    """What a type says of its `?`."""
    said = type.encoding if isinstance(type, TensorType) else type.layout
    if isinstance(said, SizedStridesAttr):
        return said.data[1]
    return said.data if isinstance(said, SizesAttr) else ()


def sized_tensor(element: Attribute, extents: Sequence[Size | int]) -> TensorType:
    """A type whose extents are sizes or numbers."""
    if all(isinstance(extent, int) for extent in extents):
        return TensorType(element, extents)  # pyright: ignore[reportArgumentType]
    sizes = [Size.of(extent) for extent in extents]
    unknown = tuple(size for size in sizes if size.number is None)
    shape = [DYNAMIC_INDEX if size.number is None else size.number for size in sizes]
    return TensorType(element, shape, SizesAttr(unknown)) if unknown else TensorType(element, shape)


def sized_memref(
    element: Attribute,
    extents: Sequence[Size | int],
    strides: Sequence[Size | int] | None = None,
) -> MemRefType[Attribute]:
    """A memref whose extents and strides are sizes or numbers; row by row without strides."""
    sizes = [Size.of(extent) for extent in extents]
    unknown = tuple(size for size in sizes if size.number is None)
    shape = [DYNAMIC_INDEX if size.number is None else size.number for size in sizes]
    layout: MemRefLayoutAttr | NoneAttr = SizesAttr(unknown) if unknown else NoneAttr()
    if strides is not None:
        steps = tuple(map(Size.of, strides))
        numbers = [step.number for step in steps if step.number is not None]
        known = not unknown and len(numbers) == len(steps)
        layout = StridedLayoutAttr(numbers) if known else SizedStridesAttr((steps, unknown))
    return MemRefType(element, shape, layout)

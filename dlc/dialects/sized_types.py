"""Types whose extents are sizes: `tensor<?x4xf32, #size.of<s * 2>>` says what its `?` is."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    MemRefLayoutAttr,
    MemRefType,
    NoneAttr,
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


def sizes_of(type: TensorType | MemRefType) -> tuple[Size, ...]:
    """What a type says of its `?`."""
    said = type.encoding if isinstance(type, TensorType) else type.layout
    return said.data if isinstance(said, SizesAttr) else ()


def sized_tensor(element: Attribute, extents: Sequence[Size | int]) -> TensorType:
    """A type whose extents are sizes or numbers."""
    if all(isinstance(extent, int) for extent in extents):
        return TensorType(element, extents)  # pyright: ignore[reportArgumentType]
    sizes = [Size.of(extent) for extent in extents]
    unknown = tuple(size for size in sizes if size.number is None)
    shape = [DYNAMIC_INDEX if size.number is None else size.number for size in sizes]
    return TensorType(element, shape, SizesAttr(unknown)) if unknown else TensorType(element, shape)


def sized_memref(element: Attribute, extents: Sequence[Size | int]) -> MemRefType[Attribute]:
    """A memref in row-major order whose extents are sizes or numbers."""
    sizes = [Size.of(extent) for extent in extents]
    unknown = tuple(size for size in sizes if size.number is None)
    shape = [DYNAMIC_INDEX if size.number is None else size.number for size in sizes]
    return MemRefType(element, shape, SizesAttr(unknown) if unknown else NoneAttr())

"""Layouts of buffers in shared memory: which there are, and which fit a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntAttr,
    MemRefLayoutAttr,
    MemRefType,
    NoneAttr,
    ShapedType,
    StridedLayoutAttr,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.sized_types import SizedStridesAttr, SizesAttr, sizes_of
from dlc.ir.sizes import Size
from dlc.target import WIDEST_ACCESS

DEFAULT_ALIGNMENT = WIDEST_ACCESS
"""Bytes that divide the address of a memref that states nothing else."""
WIDTHS = (32, 64, 128)
"""Bytes of a swizzled row (CUDA driver API, CUtensorMapSwizzle)."""
UNIT = 16
"""Bytes that stay together (PTX ISA, "Swizzling modes")."""
PERIOD = 8
"""Rows after which a swizzle repeats; with their bytes, also what its buffers are aligned to."""


@irdl_attr_definition
class SwizzleAttr(ParametrizedAttribute, MemRefLayoutAttr):
    """
    `#kernel.swizzle<128>`: rows of 32, 64 or 128 bytes whose 16-byte units trade places.

    The last dimension is cut into panels of that many bytes; the panels of a matrix (the last two
    dimensions) lie one after the other, each with its rows one after the other. In a panel, unit u
    of row r lies where unit `u xor (r * bytes / 128) mod (bytes / 16)` would. This is how the
    tensor memory accelerator writes boxes as wide as a panel (PTX ISA, "Swizzling modes"), and what
    lets the lanes of a warp read a column of 16-byte units from distinct banks.
    """

    name = "kernel.swizzle"
    bytes: IntAttr

    def __init__(self, bytes: int | IntAttr) -> None:
        super().__init__(IntAttr(bytes) if isinstance(bytes, int) else bytes)

    def verify(self) -> None:
        if self.bytes.data not in WIDTHS:
            raise VerifyException(
                f"expected a swizzle of 32, 64 or 128 bytes, found {self.bytes.data}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [IntAttr(parser.parse_integer(allow_boolean=False, allow_negative=False))]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_int(self.bytes.data)

    def get_affine_map(self) -> AffineMap:
        raise ValueError("a swizzle is no affine map: see dlc.analysis.kernel.layout.place_of")


@irdl_attr_definition
class PaddedGroupsAttr(ParametrizedAttribute, MemRefLayoutAttr):
    """
    `#kernel.padded_groups<4, 8>`: after every 4 rows, 8 elements are left out.

    The rows of a matrix (the last two dimensions) lie one after the other, but for the padding
    between groups; matrices follow each other likewise. Lanes that read a row of each group then
    find them in distinct banks, and yet places are sums of multiples of the lane and of the row
    in its group.
    """

    name = "kernel.padded_groups"
    rows: IntAttr
    padding: IntAttr

    def __init__(self, rows: int | IntAttr, padding: int | IntAttr) -> None:
        super().__init__(
            IntAttr(rows) if isinstance(rows, int) else rows,
            IntAttr(padding) if isinstance(padding, int) else padding,
        )

    def verify(self) -> None:
        if self.rows.data < 1 or self.padding.data < 0:
            raise VerifyException(
                "expected groups of at least one row and a padding of at least 0 elements, found "
                f"{self.rows.data} and {self.padding.data}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            rows = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(",")
            padding = parser.parse_integer(allow_boolean=False, allow_negative=False)
            return [IntAttr(rows), IntAttr(padding)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.rows.data}, {self.padding.data}")

    def get_affine_map(self) -> AffineMap:
        raise ValueError("a layout in shared memory: see dlc.analysis.kernel.layout.place_of")


def shape_of(of: SSAValue | Attribute) -> tuple[int, ...]:
    """
    The extents of a tensor or memref, or of a value of such a type, outermost first. In the place
    of what the type calls `?` stands its size, which is used as an integer is and raises
    `NeedsNumber` where only a number will do.
    """
    type = of.type if isinstance(of, SSAValue) else of
    assert isinstance(type, ShapedType)
    kept: dict[str, tuple[int, ...]] = vars(type)  # types never change
    if (shape := kept.get("kept_extents")) is None:
        shape = type.get_shape()
        if DYNAMIC_INDEX in shape and isinstance(type, TensorType | MemRefType):
            sizes = iter(sizes_of(type))
            extents = [next(sizes, n) if n == DYNAMIC_INDEX else n for n in shape]
            shape = tuple(extents)
        kept["kept_extents"] = shape  # pyright: ignore[reportArgumentType]
    return shape  # pyright: ignore[reportReturnType]


def element_of(value: SSAValue) -> Attribute:
    """The type of the elements of a value that is a tensor."""
    assert isinstance(value.type, TensorType)
    return value.type.element_type


def static_shape(type: Attribute) -> tuple[int, ...]:
    """The extents, all of them known, of a vector or of a buffer of a block or a thread."""
    shape = shape_of(type)
    assert DYNAMIC_INDEX not in shape, f"{type} has extents that are not known"
    return shape


def verify_layout(type: MemRefType[Attribute]) -> None:
    """Raises `VerifyException` if a buffer in shared memory cannot have its layout."""
    shape, layout = shape_of(type), type.layout
    if isinstance(layout, NoneAttr):
        return
    if isinstance(layout, SwizzleAttr):
        _verify_swizzle(type, layout.bytes.data)
        return
    if isinstance(layout, PaddedGroupsAttr):
        if len(shape) < 2 or shape[-2] % layout.rows.data:
            raise VerifyException(f"expected a multiple of {layout.rows.data} rows, found {type}")
        return
    if not isinstance(layout, StridedLayoutAttr) or layout.get_offset() != 0:
        raise VerifyException(
            "expected a layout strided<[…]> without an offset, #kernel.swizzle<…> or "
            f"#kernel.padded_groups<…> in shared memory, found {layout}"
        )
    strides = layout.get_strides()
    if len(strides) != len(shape) or None in strides:
        raise VerifyException(f"expected a known stride for each dimension, found {type}")
    inner = 1
    for stride, extent in zip(reversed(strides), reversed(shape), strict=True):
        if stride is not None and stride < inner:
            raise VerifyException(
                f"expected strides under which no two elements share a place, found {type}"
            )
        inner = (stride or 1) * extent


def _verify_swizzle(type: MemRefType[Attribute], bytes: int) -> None:
    shape = shape_of(type)
    row = shape[-1] * element_bytes(type.element_type) if shape else 0
    if len(shape) < 2 or row % bytes or shape[-2] % PERIOD:
        raise VerifyException(
            f"expected rows of a multiple of {bytes} bytes, a multiple of {PERIOD} of them, "
            f"found {type}"
        )


def strides_of(type: MemRefType[Attribute]) -> tuple[int, ...]:
    """
    The strides of a memref in elements, outermost first; of a swizzled one, those that it would
    have with its rows in order (see `dlc.analysis.kernel.layout.place_of`); of padded groups, those
    within a group. A size among them is used as an integer is, as those of `shape_of`.
    """
    kept: dict[str, tuple[int, ...]] = vars(type)  # types never change
    if (strides := kept.get("kept_strides")) is None:
        strides = kept["kept_strides"] = _strides(type)
    return strides


def _strides(type: MemRefType[Attribute]) -> tuple[int, ...]:
    if isinstance(type.layout, StridedLayoutAttr):
        return tuple(int(s.data) for s in type.layout.strides)  # pyright: ignore
    if isinstance(type.layout, SizedStridesAttr):
        steps = type.layout.data[0]
        return tuple(n if n.number is None else n.number for n in steps)  # pyright: ignore
    strides = [1]
    for extent in reversed(shape_of(type)[1:]):
        strides.append(strides[-1] * (extent if isinstance(extent, Size) else max(extent, 1)))
    if (groups := Groups.of(type)) is not None:
        strides[2:] = [n // strides[2] * groups.count * groups.stride for n in strides[2:]]
    else:
        assert isinstance(type.layout, NoneAttr | SwizzleAttr | SizesAttr), (
            f"unexpected layout {type.layout}"
        )
    return tuple(reversed(strides[: type.get_num_dims()]))


@dataclass(frozen=True)
class Groups:
    """The groups of rows of a memref with padding between them."""

    rows: int
    """Rows of a group."""
    columns: int
    stride: int
    """Elements from a group to the next."""
    count: int
    """Groups of a matrix."""

    @staticmethod
    def of(type: MemRefType[Attribute]) -> Groups | None:
        """None if a memref has no such layout."""
        if not isinstance(layout := type.layout, PaddedGroupsAttr):
            return None
        (rows, columns), each = shape_of(type)[-2:], layout.rows.data
        return Groups(each, columns, each * columns + layout.padding.data, rows // each)


def span(type: MemRefType[Attribute]) -> int:
    """The number of elements from a memref's address to the end of its last element."""
    shape = shape_of(type)
    if 0 in shape:
        return 0
    if isinstance(type.layout, SwizzleAttr):
        return prod(shape)
    if (groups := Groups.of(type)) is not None:
        return prod(shape[:-2]) * groups.count * groups.stride
    steps = zip(shape, strides_of(type), strict=True)
    return layout_offset(type) + sum((n - 1) * stride for n, stride in steps) + 1


def span_bytes(type: MemRefType[Attribute]) -> int:
    """The bytes between a memref's address and the end of its last element."""
    return span(type) * element_bytes(type.element_type)


def layout_offset(type: MemRefType[Attribute]) -> int:
    """The elements between a memref's address and its first element."""
    layout = type.layout
    if isinstance(layout, StridedLayoutAttr) and isinstance(layout.offset, IntAttr):
        return layout.offset.data
    return 0

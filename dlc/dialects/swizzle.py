"""Layouts of buffers in shared memory: which there are, and which fit a buffer."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, MemRefLayoutAttr, MemRefType, NoneAttr, StridedLayoutAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.ir.affine import AffineMap
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.kernel_memory import element_bytes

WIDTHS = (32, 64, 128)
"""Bytes of a swizzled row (CUDA driver API, CUtensorMapSwizzle)."""
UNIT = 16
"""Bytes that stay together (PTX ISA, "Swizzling modes")."""
PERIOD = 8
"""Rows after which a swizzle repeats; with their bytes, also what its buffers are aligned to."""
RUNS = (1, 2, 4)
"""Lines of 128 bytes that can trade places alike."""


@irdl_attr_definition
class SwizzleAttr(ParametrizedAttribute, MemRefLayoutAttr):
    """
    `#kernel.swizzle<128>`: rows of 32, 64 or 128 bytes whose 16-byte units trade places.

    The last dimension is cut into panels of that many bytes; the panels of a matrix (the last two
    dimensions) lie one after the other, each with its rows one after the other. In a panel, unit u
    of row r lies where unit `u xor (r * bytes / 128) mod (bytes / 16)` would. This is how the
    tensor memory accelerator writes boxes as wide as a panel (PTX ISA, "Swizzling modes"), and what
    lets the lanes of a warp read a column of 16-byte units from distinct banks.

    `#kernel.swizzle<128, 4>`: runs of 2 or 4 lines of 128 bytes trade places alike, so that lanes
    read rows from distinct banks that are as many lines apart. Rows may be shorter than a panel
    then: those that share its bytes count as one row. The threads write such buffers themselves.
    """

    name = "kernel.swizzle"
    bytes: IntAttr
    lines: IntAttr

    def __init__(self, bytes: int | IntAttr, lines: int | IntAttr = 1) -> None:
        super().__init__(
            IntAttr(bytes) if isinstance(bytes, int) else bytes,
            IntAttr(lines) if isinstance(lines, int) else lines,
        )

    def verify(self) -> None:
        if self.lines.data not in RUNS:
            raise VerifyException(
                f"expected runs of 1, 2 or 4 lines of a swizzle, found {self.lines.data}"
            )
        if self.bytes.data not in WIDTHS:
            raise VerifyException(
                f"expected a swizzle of 32, 64 or 128 bytes, found {self.bytes.data}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            bytes = parser.parse_integer(allow_boolean=False, allow_negative=False)
            lines = 1
            if parser.parse_optional_punctuation(","):
                lines = parser.parse_integer(allow_boolean=False, allow_negative=False)
            return [IntAttr(bytes), IntAttr(lines)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_int(self.bytes.data)
            if self.lines.data > 1:
                printer.print_string(f", {self.lines.data}")

    def get_affine_map(self) -> AffineMap:
        raise ValueError("a swizzle is no affine map: see dlc.analysis.layout.place_of")


def verify_layout(type: MemRefType[Attribute]) -> None:
    """Raises `VerifyException` if a buffer in shared memory cannot have its layout."""
    shape, layout = type.get_shape(), type.layout
    if isinstance(layout, NoneAttr):
        return
    if isinstance(layout, SwizzleAttr):
        _verify_swizzle(type, layout.bytes.data, layout.lines.data)
        return
    if not isinstance(layout, StridedLayoutAttr) or layout.get_offset() != 0:
        raise VerifyException(
            "expected a layout strided<[…]> without an offset or #kernel.swizzle<…> in shared "
            f"memory, found {layout}"
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


def _verify_swizzle(type: MemRefType[Attribute], bytes: int, lines: int) -> None:
    shape = type.get_shape()
    row = shape[-1] * element_bytes(type.element_type) if shape else 0
    merged = bytes // row if lines > 1 and row and bytes % row == row % UNIT == 0 else 1
    repeats = PERIOD * lines * merged
    if len(shape) < 2 or row * merged % bytes or shape[-2] % repeats:
        shorter = f" or of {bytes} bytes divided by a power of two" if lines > 1 else ""
        raise VerifyException(
            f"expected rows of a multiple of {bytes} bytes{shorter}, a multiple of {repeats} of "
            f"them, found {type}"
        )

"""The types of elements, one row each: what the IR, PyTorch, NumPy, C and tensor maps call them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute


@dataclass(frozen=True)
class Element:
    """A type of elements by its names."""

    type: AnyFloat | IntegerType
    name: str
    """In files that leave dlc, such as a manifest."""
    torch: str
    """The dtype in PyTorch."""
    numpy: str
    """The dtype of the values in NumPy; what NumPy lacks, bf16 and floats of 8 bits, is held in
    float32."""
    c: str
    """The type in CUDA C."""
    tensor_map: str
    """The member of CUtensorMapDataType (CUDA driver API), of the same width at least."""
    digits: int = 0
    """Binary digits of the significand of a float, the hidden one counted (IEEE 754, p)."""
    exponent: int = 0
    """The least power of two that is too large for a float (IEEE 754, emax + 1)."""
    from_float: str = ""
    """The function in CUDA C that rounds a float to nearest, where a cast does not."""
    to_float: str = ""
    """The function in CUDA C that gives back a float, where a cast does not."""
    header: str = ""
    """What in the prelude declares the type in C, where the language does not."""
    limit: float = inf
    """What stands for all numbers that are larger: infinity, or the largest of a float that has
    none, as PyTorch rounds from 2.13 on and GPUs do (PTX ISA: cvt.satfinite)."""

    @property
    def is_narrow(self) -> bool:
        """True for floats that are storage alone: they are converted from and to f32 only."""
        return bool(self.to_float)

    @property
    def bytes(self) -> int:
        """The size of an element in memory in bytes; a boolean takes one."""
        return max(1, self.type.bitwidth // 8)

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next larger number of a float."""
        return 2.0 ** (1 - self.digits)

    @property
    def exact_integers(self) -> int:
        """The largest number up to which a float has all integers."""
        return 2**self.digits


ELEMENTS: tuple[Element, ...] = (
    Element(Float64Type(), "f64", "float64", "float64", "double", "FLOAT64", 53, 1024),
    Element(Float32Type(), "f32", "float32", "float32", "float", "FLOAT32", 24, 128),
    Element(
        Float16Type(), "f16", "float16", "float16", "__half", "FLOAT16", 11, 16,
        "__float2half_rn", "__half2float", "cuda_fp16",
    ),
    Element(
        BFloat16Type(), "bf16", "bfloat16", "float32", "__nv_bfloat16", "BFLOAT16", 8, 128,
        "__float2bfloat16_rn", "__bfloat162float", "cuda_bf16",
    ),
    Element(
        Float8E4M3FNType(), "f8e4m3fn", "float8_e4m3fn", "float32", "float8_e4m3fn", "UINT8", 4, 9,
        "to_f8e4m3fn", "from_f8e4m3fn", "float8_e4m3fn", 448.0,
    ),
    Element(
        Float8E5M2Type(), "f8e5m2", "float8_e5m2", "float32", "float8_e5m2", "UINT8", 3, 16,
        "to_f8e5m2", "from_f8e5m2", "float8_e5m2",
    ),
    Element(IntegerType(64), "i64", "int64", "int64", "long long", "INT64"),
    Element(IntegerType(32), "i32", "int32", "int32", "int", "INT32"),
    Element(IntegerType(16), "i16", "int16", "int16", "short", "UINT16"),
    Element(IntegerType(8), "i8", "int8", "int8", "signed char", "UINT8"),
    Element(
        IntegerType(8, Signedness.UNSIGNED), "u8", "uint8", "uint8", "unsigned char", "UINT8"
    ),
    Element(IntegerType(1), "bool", "bool", "bool", "bool", "UINT8"),
)  # fmt: skip

NARROW: tuple[Element, ...] = tuple(row for row in ELEMENTS if row.is_narrow)
"""Those that are storage alone."""
_BY_TYPE: dict[Attribute, Element] = {element.type: element for element in ELEMENTS}


def find_element(type: Attribute) -> Element | None:
    """The row of a type; None if elements cannot have it."""
    return _BY_TYPE.get(type)


def element(type: Attribute) -> Element:
    """The row of a type; ValueError if elements cannot have it."""
    if (row := find_element(type)) is None:
        names = ", ".join(str(row.type) for row in ELEMENTS)
        raise ValueError(f"expected elements of one of the types {names}, found {type}")
    return row

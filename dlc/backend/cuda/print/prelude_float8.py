"""
The prelude's floats of 8 bits: their types, and how they are rounded and widened. Chips before
sm_89, and the host, do that by integers.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dlc.backend.cuda.print.prelude_function import INLINE, Function


@dataclass(frozen=True)
class _Format:
    """A float of 8 bits: OCP 8-bit Floating Point Specification, 5.2."""

    name: str
    type: str
    fraction: int
    """The bits of the fraction."""
    bias: int
    """Of the exponent."""
    beyond: str
    """The least bits of a float that is beyond what is rounded to nearest."""
    instead: str
    """The bits, without the sign, of what it becomes."""
    satfinite: bool
    """The instruction does the same: it makes the largest of what is beyond all numbers."""
    widened: str
    """The bits of the float that `rest` stands for, if it is no number; empty if it is one."""


_FORMATS = (
    _Format(
        "e4m3", "float8_e4m3fn", 3, 7, "0x43e00000", "0x7e", True,
        "rest == 0x7f ? 0x7fc00000u : 0u",
    ),
    _Format(
        "e5m2", "float8_e5m2", 2, 15, "0x47700000", "0x7c", False,
        "rest >= 0x7c ? 0x7f800000u | rest << 21 : 0u",
    ),
)  # fmt: skip
"""What is 448 and larger becomes 448, as PyTorch has it from 2.13 on: e4m3fn has no infinity. Of
e5m2 61440, half-way between the largest and what would come next, becomes infinity."""


def _to(f: _Format, name: str) -> Function:
    shift = 23 - f.fraction
    least = 1 - f.bias
    place = 2.0 ** (least - f.fraction + 23)
    software = (
        "const unsigned bits = bit_cast<unsigned>(x), sign = bits >> 24 & 0x80;\n"
        "unsigned rest = bits & 0x7fffffff;\n"
        "if (rest > 0x7f800000) rest = 0x7f;  // NaN\n"
        f"else if (rest >= {f.beyond}) rest = {f.instead};\n"
        f"else if (rest < {127 + least << 23:#x})  // a sum is rounded at its last place\n"
        f"  rest = bit_cast<unsigned>(fabsf(x) + {place}f) - bit_cast<unsigned>({place}f);\n"
        f"else rest = (rest - ({127 - f.bias}u << 23) + {(1 << shift - 1) - 1:#x}"
        f" + (rest >> {shift} & 1)) >> {shift};\n"
        f"return {f.type}{{static_cast<unsigned char>(sign | rest)}};"
    )
    infinite = f"if (fabsf(x) >= bit_cast<float>({f.beyond})) pair = (pair & 0x80) | {f.instead};\n"
    device = (
        "unsigned short pair;\n"
        f'asm("cvt.rn.satfinite.{f.name}x2.f32 %0, %1, %2;"\n'
        '    : "=h"(pair) : "f"(0.0f), "f"(x));\n'
        + ("" if f.satfinite else infinite)
        + f"return {f.type}{{static_cast<unsigned char>(pair)}};"
    )
    return Function(
        f"to_{name}",
        "The nearest of this type, of two even (PTX ISA: cvt.satfinite); beyond all numbers "
        + ("the largest." if f.satfinite else "infinity."),
        f"{INLINE} {f.type} to_{name}(float x)",
        device,
        software,
        needs=(f.type, "bit_cast"),
        min_arch=89,
        older=software,
    )


def _from(f: _Format, name: str) -> Function:
    scale = 2.0 ** (127 - f.bias)
    software = (
        "const unsigned rest = x.bits & 0x7f, sign = (x.bits & 0x80u) << 24;\n"
        f"const unsigned other = {f.widened};\n"
        "// Read as a float, a number is too small by a power of 2, by which a product is exact.\n"
        f"const float number = bit_cast<float>(rest << {23 - f.fraction}) * {scale!r}f;\n"
        "return bit_cast<float>(sign | (other ? other : bit_cast<unsigned>(number)));"
    )
    device = (
        "unsigned pair;\n"
        f'asm("cvt.rn.f16x2.{f.name}x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x.bits));\n'
        "float wide;\n"
        'asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"((unsigned short)pair));\n'
        "return wide;"
    )
    return Function(
        f"from_{name}",
        "The same number as a float (PTX ISA: cvt).",
        f"{INLINE} float from_{name}({f.type} x)",
        device,
        software,
        needs=(f.type, "bit_cast"),
        min_arch=89,
        older=software,
    )


def _functions() -> Iterator[Function]:
    for f in _FORMATS:
        name = f.type.replace("float", "f").replace("_", "")
        text = f"struct {f.type} {{ unsigned char bits; }};"
        yield Function(f.type, "A float of 8 bits, which is converted from and to float.", text)
        yield _to(f, name)
        yield _from(f, name)


FLOAT8_FUNCTIONS = tuple(_functions())

"""The text of C expressions: precedence, types, constants and names."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, auto

from xdsl.dialects.builtin import (
    AnyFloat,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ReducedPrecisionFloatType,
    VectorType,
)
from xdsl.ir import Attribute

from dlc.backend.cuda.print.prelude import PRELUDE
from dlc.dialects.layouts import static_shape
from dlc.escapes import c_comment, c_identifier
from dlc.ir.elements import NARROW, element, find_element

COLUMNS = 100
"""The longest line of printed text."""


def comment(text: str) -> list[str]:
    """The lines of a comment on any text, which is broken after spaces and commas."""
    lines = ["//"]
    for part in re.split(r"(?<=,)|(?<= )", f" {c_comment(text)}"):
        if len(lines[-1]) + len(part.rstrip()) > COLUMNS:
            lines.append("//  ")
        lines[-1] += part
    return [line.rstrip() for line in lines]


class Level(IntEnum):
    """The precedence of an expression, loosest first (C++17, [expr])."""

    TERNARY = auto()
    OR = auto()
    AND = auto()
    BIT_OR = auto()
    BIT_XOR = auto()
    BIT_AND = auto()
    EQUALITY = auto()
    RELATION = auto()
    SHIFT = auto()
    SUM = auto()
    PRODUCT = auto()
    UNARY = auto()
    ATOM = auto()


@dataclass(frozen=True)
class Text:
    """An expression: how it reads, how tightly it binds and how many operations deep it is."""

    text: str
    level: Level = Level.ATOM
    depth: int = 0

    @property
    def is_name(self) -> bool:
        """True for a name or literal, which can be repeated."""
        return self.level == Level.ATOM and self.depth == 0

    def at(self, level: Level) -> str:
        """The text where the context binds as tightly as `level`: in parentheses if need be."""
        return self.text if self.level >= level else f"({self.text})"

    def __str__(self) -> str:
        return self.text


_OPERATORS = {
    "||": Level.OR, "&&": Level.AND, "|": Level.BIT_OR, "^": Level.BIT_XOR, "&": Level.BIT_AND,
    "==": Level.EQUALITY, "!=": Level.EQUALITY, "<": Level.RELATION, "<=": Level.RELATION,
    ">": Level.RELATION, ">=": Level.RELATION, "<<": Level.SHIFT, ">>": Level.SHIFT,
    "+": Level.SUM, "-": Level.SUM, "*": Level.PRODUCT, "/": Level.PRODUCT, "%": Level.PRODUCT,
}  # fmt: skip
_BITWISE = ("|", "^", "&", "<<", ">>")


def binary(lhs: Text, operator: str, rhs: Text) -> Text:
    """`lhs operator rhs`; few people know how tightly `&&`, shifts and bit operators bind."""
    level = _OPERATORS[operator]
    left, right = level, Level(level + 1)
    if operator in _BITWISE:
        left = right = Level.UNARY
    elif operator == "||":
        left, right = Level.OR, Level.EQUALITY
        if lhs.level == Level.AND:
            left = Level.EQUALITY
    elif level in (Level.EQUALITY, Level.RELATION):
        left = right = Level.SUM
    return Text(f"{lhs.at(left)} {operator} {rhs.at(right)}", level, 1 + max(lhs.depth, rhs.depth))


def unary(operator: str, value: Text) -> Text:
    """`operator value`; two signs in a row do not merge into `--`."""
    text = value.at(Level.UNARY)
    text = f"({text})" if text[0] == operator else text
    return Text(operator + text, Level.UNARY, 1 + value.depth)


def call(name: str, *arguments: Text) -> Text:
    """`name(arguments)`"""
    text = ", ".join(a.text for a in arguments)
    return Text(f"{name}({text})", Level.ATOM, 1 + max((a.depth for a in arguments), default=0))


def cast(type: str, value: Text) -> Text:
    """`(type)value`"""
    return Text(f"({type}){value.at(Level.UNARY)}", Level.UNARY, 1 + value.depth)


def ternary(condition: Text, then: Text, otherwise: Text) -> Text:
    """`condition ? then : otherwise`"""
    text = f"{condition.at(Level.OR)} ? {then.at(Level.OR)} : {otherwise.at(Level.OR)}"
    return Text(text, Level.TERNARY, 1 + max(condition.depth, then.depth, otherwise.depth))


HEADERS = {row.c: row.header for row in NARROW}
"""The C types of f16, bf16 and floats of 8 bits, and what in the prelude declares them."""
_VECTORS = {"float": (2, 4), "int": (2, 4), "long long": (2,)}
"""The elements and widths of CUDA's vectors that have a text; `packed` stands for others."""


def c_type(type: Attribute) -> str | None:
    """The C type of a scalar or vector; None if there is none. Of an index: see `index_type`."""
    if (row := find_element(type)) is not None:
        return row.c
    match type:
        case IndexType():
            return "long long"
        case VectorType() if len(static_shape(type)) == 1:
            name, width = c_type(type.element_type), static_shape(type)[0]
            if name is None:
                return None
            if width in _VECTORS.get(name, ()):
                return f"{name.replace(' ', '')}{width}"
            return f"packed<{name}, {width}>"
        case _:
            return None


def unsigned(type: str) -> str:
    """The unsigned C type of the same width."""
    if type == "bool":
        return type
    return {"signed char": "unsigned char", "int": "unsigned"}.get(type, f"unsigned {type}")


def constant(value: Attribute) -> Text | None:
    """A scalar constant in C; floats have the fewest digits that give back the value."""
    if isinstance(value, FloatAttr) and isinstance(value.type, AnyFloat):
        if isinstance(value.type, ReducedPrecisionFloatType):
            return Text(f"{element(value.type).c}{{{value.type.encode_bits(value.value.data):#x}}}")
        text = _float(value.value.data, single=not isinstance(value.type, Float64Type))
        rounding = element(value.type).from_float
        return call(rounding, text) if rounding else text
    if not isinstance(value, IntegerAttr):
        return None
    number = value.value.data
    if isinstance(value.type, IntegerType) and value.type.width.data == 1:
        return Text("true" if number else "false")
    wide = isinstance(value.type, IntegerType) and value.type.width.data == 64
    return integer(number, wide=wide)


def integer(number: int, *, wide: bool = False) -> Text:
    """An integer literal, of type `long long` if `wide` or too large for `int`."""
    suffix = "ll" if wide or not -(2**31) <= number < 2**31 else ""
    if number in (-(2**31), -(2**63)):  # -2147483648 is a minus sign and a number too large
        return Text(f"{number + 1}{suffix} - 1", Level.SUM)
    return Text(f"{number}{suffix}", Level.ATOM if number >= 0 else Level.UNARY)


def _float(number: float, *, single: bool) -> Text:
    if math.isnan(number):
        return Text("NAN")
    if math.isinf(number):
        return Text("INFINITY") if number > 0 else Text("-INFINITY", Level.UNARY)
    digits = _shortest(number) if single else repr(number)
    if not re.search(r"[.e]", digits):
        digits += ".0"
    level = Level.UNARY if digits[0] == "-" else Level.ATOM
    return Text(digits + ("f" if single else ""), level)


def _shortest(number: float) -> str:
    (rounded,) = struct.unpack("f", struct.pack("f", number))
    digits = ""
    for precision in range(1, 10):  # 9 digits determine every float (IEEE 754-2019, 5.12.2)
        digits = f"{rounded:.{precision}g}"
        if struct.unpack("f", struct.pack("f", float(digits)))[0] == rounded:
            break
    return f"{rounded:.0f}" if "e+" in digits and abs(rounded) < 1e9 else digits


_WORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const
    constexpr const_cast continue decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast return short
    signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
    xor_eq half half2 nv_half nv_half2 nv_bfloat16 nv_bfloat162 int2 int4 float2 float4 double2
    longlong2 min max abs isnan threadIdx blockIdx blockDim gridDim warpSize dim3 dlc INFINITY NAN
    linux unix main std
    """.split()
)
# Names that the C library gives to functions: free for variables, which hide them, but not for
# kernels, whose linkage is C's, too.
_LIBRARY = frozenset(
    """
    abort abs acos acosh aligned_alloc asin asinh atan atan2 atanh atexit atof atoi atol atoll
    bcmp bcopy bsearch bzero calloc cbrt ceil clearenv copysign cos cosh div drand48 drem ecvt
    erand48 erf erfc erfcinv erfcx erfinv exit exp exp10 exp2 expm1 fabs fcvt fdim ffs ffsl
    ffsll finite floor fma fmax fmin fmod free frexp gamma gcvt getenv getloadavg getpt
    getsubopt grantpt hypot ilogb index initstate isinf isnan j0 j1 jn jrand48 labs ldexp ldiv
    lgamma llabs lldiv llogb llrint llround log log10 log1p log2 logb lrand48 lrint lround
    malloc mblen memccpy memchr memcmp memcpy memfrob memmem memmove mempcpy memrchr memset
    mkdtemp mkstemp mktemp modf mrand48 nan nearbyint nextafter nextdown nexttoward nextup norm
    normcdf nrand48 on_exit pow pow10 putenv qsort rand random realloc realpath remainder remquo
    rindex rint round roundeven rpmatch rsqrt rcbrt scalb scalbln scalbn secure_getenv seed48
    select setenv setstate sigabbrev_np significand sin sincos sinh sinpi cospi sqrt srand
    srand48 srandom stpcpy stpncpy strcat strchr strcmp strcoll strcpy strcspn strdup strerror
    strlen strncat strncmp strncpy strndup strpbrk strrchr strsep strspn strstr strtod strtok
    strtol strtoul strxfrm swab system tan tanh tgamma trunc unlockpt unsetenv valloc y0 y1 yn
    clock time printf puts assert main std
    """.split()
)


def kernel_name(name: str) -> str:
    """The C name of the kernel `name`: that name, unless it means something else in C."""
    name = c_identifier(name)
    single = name.removesuffix("f").removesuffix("l")
    taken = {name, single} & _LIBRARY or name in _WORDS or name in PRELUDE
    taken = taken or name.startswith("dlc_")  # the host header's
    return f"{name}_kernel" if taken else name


class Names:
    """The names in scope, at first `taken`; an inner scope may use again what its siblings use."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._scopes: list[set[str]] = [{*taken}]

    def open(self) -> None:
        """Opens an inner scope."""
        self._scopes.append(set())

    def close(self) -> None:
        """Forgets the names of the innermost scope."""
        self._scopes.pop()

    def new(self, hint: str) -> str:
        """A name like `hint` that no scope has."""
        base = name = c_identifier(hint)
        number = 0
        while self._is_taken(name):
            number += 1
            name = f"{base}_{number}"
        self._scopes[-1].add(name)
        return name

    def _is_taken(self, name: str) -> bool:
        return name in _WORDS or name in PRELUDE or any(name in scope for scope in self._scopes)


def broken_lines(statement: str, margin: str) -> list[str]:
    """
    A statement in lines of at most `COLUMNS`, broken outside of as many brackets as possible. What
    it says in a comment at its end stands above it then.
    """
    if len(margin) + len(statement) <= COLUMNS:
        return [margin + statement]
    statement, _, note = statement.partition("  // ")
    if note:
        return [f"{margin}// {note}", *broken_lines(statement, margin)]
    depth = 0
    best: tuple[int, bool, int] | None = None
    for at, letter in enumerate(statement[: COLUMNS + 1 - len(margin)]):
        depth += (letter in "([") - (letter in ")]")
        if letter == " " and at:
            after = statement[at + 1 : at + 3]
            good = statement[at - 1] in ",)" or after in ("? ", ": ", "&&", "||")
            rank = (-depth, good, at)
            best = rank if best is None else max(best, rank)
    if best is None:
        return [margin + statement]
    at = best[2]
    rest = broken_lines(statement[at + 1 :], f"{margin}    ")
    return [margin + statement[:at], *rest]

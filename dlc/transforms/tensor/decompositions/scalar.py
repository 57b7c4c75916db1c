"""Scalars of an elementwise body, with the operators and functions that they are computed with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import frexp
from typing import TypeAlias

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    f32,
    i1,
    i8,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from dlc.dialects.size import ValueOp
from dlc.ir.elements import find_element
from dlc.ir.evaluate import scalar
from dlc.ir.math_operations import operation
from dlc.ir.rounding import for_storage
from dlc.ir.sizes import NeedsNumber, Size

Number: TypeAlias = bool | int | float


def is_float(element: Attribute) -> bool:
    return isinstance(element, AnyFloat)


def is_narrow(element: Attribute) -> bool:
    """True for f16, bf16 and floats of 8 bits, which convert from and to f32 only."""
    return (row := find_element(element)) is not None and row.is_narrow


def is_unsigned(element: Attribute) -> bool:
    return isinstance(element, IntegerType) and element.signedness.data is Signedness.UNSIGNED


def width(element: Attribute) -> int:
    """The number of bits of an integer or floating-point type."""
    assert isinstance(element, IntegerType | AnyFloat)
    return element.bitwidth


def storage_type(element: Attribute) -> Attribute:
    """The type of a scalar in memory: an unsigned byte is an `i8`, the operations know its sign."""
    return i8 if is_unsigned(element) else element


def compute_type(element: Attribute) -> Attribute:
    """
    The type to calculate in: f32 for floats of 16 and 8 bits, which are storage; i32 for unsigned
    bytes and for booleans, whose sums, products and order are then those of 0 and 1.
    """
    if is_narrow(element):
        return f32
    return i32 if is_unsigned(element) or element == i1 else element


def number(value: Number, element: Attribute) -> FloatAttr | IntegerAttr:
    """`value` as a scalar of a type: rounded, or wrapped as integers are."""
    return scalar(value, storage_type(element))


@dataclass
class Body:
    """The block that scalars are computed in; constants are made once."""

    block: Block

    def __post_init__(self) -> None:
        self._constants: dict[FloatAttr | IntegerAttr, SSAValue] = {}

    def insert(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def constant(self, value: Number | Size, element: Attribute) -> Scalar:
        """A number, or a size among floats and integers with a sign, as a value of a type."""
        if isinstance(value, Size):
            if element == i1 or is_unsigned(element):
                raise NeedsNumber(value)
            return Scalar(self, self.insert(ValueOp(value, element)), element)
        attribute = number(value, element)
        known = self._constants.get(attribute)
        if known is None:
            known = self._constants[attribute] = self.insert(arith.ConstantOp(attribute))
        return Scalar(self, known, element)


@dataclass(frozen=True, eq=False)
class Scalar:
    """
    An SSA value in a body. `element` is its type, or `ui8` for an unsigned byte, which is stored
    as `i8`. Arithmetic needs two of one type, or one and a Python number of its type.
    """

    body: Body
    value: SSAValue
    element: Attribute

    @property
    def is_float(self) -> bool:
        return is_float(self.element)

    def _make(
        self, op: Operation, element: Attribute | None = None, hint: str | None = None
    ) -> Scalar:
        op.results[0].name_hint = hint
        return Scalar(self.body, self.body.insert(op), element or self.element)

    def of(self, other: Scalar | Number) -> Scalar:
        """`other`, a number as a constant of this scalar's type."""
        return other if isinstance(other, Scalar) else self.body.constant(other, self.element)

    def _binary(
        self,
        other: Scalar | Number,
        of_floats: type[Operation] | None,
        of_ints: type[Operation] | None,
    ) -> Scalar:
        op = of_floats if self.is_float else of_ints
        assert op is not None, f"not defined for {self.element}"
        return self._make(op(self.value, self.of(other).value))  # pyright: ignore[reportCallIssue]

    def __add__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, arith.AddfOp, arith.AddiOp)

    def __sub__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, arith.SubfOp, arith.SubiOp)

    def __mul__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, arith.MulfOp, arith.MuliOp)

    def __truediv__(self, other: Scalar | Number) -> Scalar:
        """The quotient; of integers it is truncated, and that by 0 is the dividend."""
        if self.is_float:
            return self._binary(other, arith.DivfOp, None)
        divisor = self.of(other)
        quotient = self._make(arith.DivSIOp(self.value, divisor._not_trapping().value))
        if divisor._constant not in (None, -1):
            return quotient
        return divisor.eq(-1).select(-quotient, quotient)

    def __rsub__(self, other: Number) -> Scalar:
        return self.of(other) - self

    def __rmul__(self, other: Number) -> Scalar:
        return self.of(other) * self

    def __radd__(self, other: Number) -> Scalar:
        return self.of(other) + self

    def __rtruediv__(self, other: Number) -> Scalar:
        return self.of(other) / self

    def __and__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, None, arith.AndIOp)

    def __or__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, None, arith.OrIOp)

    def __xor__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, None, arith.XOrIOp)

    def __lshift__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, None, arith.ShLIOp)

    def __rshift__(self, other: Scalar | Number) -> Scalar:
        return self._binary(other, None, arith.ShRSIOp)

    def __neg__(self) -> Scalar:
        return self._make(arith.NegfOp(self.value)) if self.is_float else 0 - self

    def __invert__(self) -> Scalar:
        """All bits flipped; of a boolean, its negation."""
        return self ^ (True if self.element == i1 else -1)

    def remainder(self, other: Scalar | Number) -> Scalar:
        """The remainder of truncated integer division; 0 where the divisor is 0."""
        return self._binary(self.of(other)._not_trapping(), None, arith.RemSIOp)

    def unsigned_remainder(self, other: Number) -> Scalar:
        """The remainder where both are seen as unsigned."""
        return self._binary(other, None, arith.RemUIOp)

    def gcd(self, other: Scalar) -> Scalar:
        """The greatest common divisor of integers, never negative."""
        return self._binary(other, None, operation("math.gcd"))

    def ipow(self, other: Scalar) -> Scalar:
        """This integer to the power of another, which is rounded to 0 where that is negative."""
        return self._binary(other, None, math.IPowIOp)

    def series(self, name: str, other: Scalar | Number) -> Scalar:
        """A function of two f64 from `dlc.ir.special_functions`."""
        return self._binary(other, operation(f"math.{name}"), None)

    def philox(self, counter: Scalar) -> Scalar:
        """64 random bits, of this seed at the place `counter`."""
        return self._binary(counter, None, operation("math.philox"))

    @property
    def _constant(self) -> Number | None:
        owner = self.value.owner
        if isinstance(owner, ValueOp):
            raise NeedsNumber(owner.size.data)
        value = owner.value if isinstance(owner, arith.ConstantOp) else None
        return value.value.data if isinstance(value, IntegerAttr | FloatAttr) else None

    @property
    def is_whole_power_of_two(self) -> bool:
        """True for a constant by which dividing a float is exact, and does not overflow."""
        value = self._constant
        return value is not None and value >= 1 and frexp(value)[0] == 0.5

    def _not_trapping(self) -> Scalar:
        """
        As a divisor, 1 in place of 0 and -1. A processor may trap at a quotient by 0 and at that
        of the least integer by -1, at points beyond an extent too, whose results are dropped.
        """
        if self._constant not in (None, 0, -1):
            return self
        return (self.eq(0) | self.eq(-1)).select(1, self)

    def maximum(self, other: Scalar | Number) -> Scalar:
        """The larger one; NaN if one is NaN."""
        return self._binary(other, arith.MaximumfOp, arith.MaxSIOp)

    def minimum(self, other: Scalar | Number) -> Scalar:
        """The smaller one; NaN if one is NaN."""
        return self._binary(other, arith.MinimumfOp, arith.MinSIOp)

    def pow(self, other: Scalar | Number) -> Scalar:
        return self._make(math.PowFOp(self.value, self.of(other).value))

    def atan2(self, other: Scalar | Number) -> Scalar:
        """The angle of the point (other, self)."""
        return self._make(math.Atan2Op(self.value, self.of(other).value))

    def copysign(self, other: Scalar | Number) -> Scalar:
        """The magnitude of this number with the sign of another, also of a zero."""
        return self._make(math.CopySignOp(self.value, self.of(other).value))

    def fmod(self, other: Scalar) -> Scalar:
        """What is left of this number by a quotient that is rounded towards zero, exactly."""
        return self._binary(other, operation("math.fmod"), None)

    def fma(self, factor: Scalar, term: Scalar) -> Scalar:
        """`self * factor + term`, rounded once."""
        return self._make(math.FmaOp(self.value, factor.value, term.value))

    def compare(self, predicate: str, other: Scalar | Number) -> Scalar:
        """`eq`, `ne`, `lt`, `le`, `gt` or `ge`; all but `ne` are false where one is NaN."""
        rhs = self.of(other).value
        if self.is_float:
            prefix = "u" if predicate == "ne" else "o"
            return self._make(arith.CmpfOp(self.value, rhs, prefix + predicate), i1)
        sign = "" if predicate in ("eq", "ne") else "s"
        return self._make(arith.CmpiOp(self.value, rhs, sign + predicate), i1)

    def eq(self, other: Scalar | Number) -> Scalar:
        return self.compare("eq", other)

    def ne(self, other: Scalar | Number) -> Scalar:
        return self.compare("ne", other)

    def __lt__(self, other: Scalar | Number) -> Scalar:
        return self.compare("lt", other)

    def __le__(self, other: Scalar | Number) -> Scalar:
        return self.compare("le", other)

    def __gt__(self, other: Scalar | Number) -> Scalar:
        return self.compare("gt", other)

    def __ge__(self, other: Scalar | Number) -> Scalar:
        return self.compare("ge", other)

    def is_nan(self) -> Scalar:
        if not self.is_float:
            return self.body.constant(False, i1)
        return self._make(arith.CmpfOp(self.value, self.value, "uno"), i1)

    def select(self, then: Scalar | Number, otherwise: Scalar | Number) -> Scalar:
        """`then` where this boolean holds; one of the two is a scalar and gives the type."""
        model = then if isinstance(then, Scalar) else otherwise
        assert isinstance(model, Scalar)
        op = arith.SelectOp(self.value, model.of(then).value, model.of(otherwise).value)
        return self._make(op, model.element)

    def abs(self) -> Scalar:
        return self._make((math.AbsFOp if self.is_float else math.AbsIOp)(self.value))

    def to(self, element: Attribute, *, explicit: bool = False) -> Scalar:
        """
        This scalar converted: floats round to nearest, floats become integers by truncation,
        integers wrap, and a boolean is whether the value differs from 0. Between f32 and what is
        narrower, that is done where the value reaches memory, unless the program says so
        `explicit`ly.
        """
        if element == self.element:
            return self
        if is_unsigned(self.element):
            return self._make(arith.ExtUIOp(self.value, i32), i32).to(element)
        if f32 not in (element, self.element) and (is_narrow(element) or is_narrow(self.element)):
            return self.to(f32, explicit=explicit).to(element, explicit=explicit)
        if element == i1:
            return self.ne(0)
        if is_float(element):
            op = self._conversion_to_float(element)
            if not explicit and (is_narrow(element) or is_narrow(self.element)):
                for_storage(op)
            return self._make(op, element, self.value.name_hint)
        if self.is_float:
            target = i32 if width(element) < 32 else element
            op = arith.FPToSIOp(self.value, target)  # pyright: ignore[reportArgumentType]
            return self._make(op, target).to(element)
        target, bits = storage_type(element), width(element)
        if self.element == i1:
            op = arith.ExtUIOp(self.value, target)  # pyright: ignore[reportArgumentType]
        elif bits == width(self.element):
            return Scalar(self.body, self.value, element)
        elif bits < width(self.element):
            op = arith.TruncIOp(self.value, target)  # pyright: ignore[reportArgumentType]
        else:
            op = arith.ExtSIOp(self.value, target)  # pyright: ignore[reportArgumentType]
        return self._make(op, element)

    def bits_as(self, element: Attribute) -> Scalar:
        """The same bits as a type of that width; a boolean is a byte of 0 or 1."""
        if element == i1 or self.element == i1:
            return self.to(element)
        target = storage_type(element)
        if target == self.value.type:
            return Scalar(self.body, self.value, element)
        return self._make(arith.BitcastOp(self.value, target), element)

    def _conversion_to_float(self, element: Attribute) -> Operation:
        assert isinstance(element, AnyFloat)
        if not self.is_float:
            convert = arith.UIToFPOp if self.element == i1 else arith.SIToFPOp
            return convert(self.value, element)
        if width(element) > width(self.element):
            return arith.ExtFOp(self.value, element)
        return arith.TruncFOp(self.value, element)


def function(name: str) -> Callable[[Scalar], Scalar]:
    """A function of `math` of one float; those that round leave integers as they are."""
    op = operation(f"math.{name}")

    def of_float(x: Scalar) -> Scalar:
        if name in ROUNDING and not x.is_float:
            return x
        assert x.is_float, f"{op.name} is not defined for {x.element}"
        return x._make(op(x.value))  # pyright: ignore[reportCallIssue, reportPrivateUsage]

    return of_float


ROUNDING = ("ceil", "floor", "roundeven", "trunc")
"""The functions that give integers."""

cos = function("cos")
erf = function("erf")
erfc = function("erfc")
exp = function("exp")
expm1 = function("expm1")
floor = function("floor")
log = function("log")
log1p = function("log1p")
log2 = function("log2")
round_even = function("roundeven")
rsqrt = function("rsqrt")
sigmoid = function("sigmoid")
sin = function("sin")
sqrt = function("sqrt")
tan = function("tan")
tanh = function("tanh")
trunc = function("trunc")

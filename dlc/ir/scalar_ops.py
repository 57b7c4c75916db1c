"""
The scalar operations of `arith` and `math`, one row each: NumPy function, C text, cost.

To add an operation, add its row: it then prints, folds, runs in the simulator and has a price; a
function of `math` that xDSL lacks becomes an operation (`dlc.ir.math_operations`), and with
the name of an ATen operation PyTorch's is lowered to it. Comparisons, conversions and `select`,
whose meaning is in their types or attributes, are where they are computed and printed. Plug-ins add
rows, too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dlc import plugins


@dataclass(frozen=True)
class ScalarOp:
    """A row of the table of scalar operations."""

    function: str | Callable[..., Any]
    """A function of arrays: the name of NumPy's, or of one of `scalar_functions` or
    `special_functions`; or the function."""
    call: str = ""
    """The function of C that it calls, for floats without the `f` of single precision."""
    infix: str = ""
    """The operator in C; of a `helper`, the one that the better operand satisfies."""
    boolean: str = ""
    """The operator in C for booleans: one that computes both sides, so that no thread branches."""
    helper: str = ""
    """The function of the prelude that it calls in single precision, or `in_f64` alone."""
    cost: float = 1
    """Issue slots of a thread, roughly (CUDA C++ Programming Guide, arithmetic instructions)."""
    in_f64: bool = False
    """True if it is computed in f64 and rounded once, as good as any library computes it."""
    unsigned: bool = False
    """True if it sees its operands as unsigned."""
    unary: bool = False
    """True if a `helper` has one operand, a float, and gives one of its type."""
    binary: bool = False
    """True if a `call` that xDSL has no operation for has two operands."""
    divides: bool = False
    """True if the second operand must not be 0."""
    shifts: bool = False
    """True if the second operand is a number of bits, less than the first has."""
    aten: tuple[str, ...] = ()
    """The ATen operations that it is, for floats."""

    @cached_property
    def numpy(self) -> Callable[..., Any]:
        """Its function of arrays of its operands' type, or of their f64 values if `in_f64`."""
        if callable(self.function):
            return self.function
        import numpy

        from dlc.ir import scalar_functions, special_functions

        modules = scalar_functions, special_functions, numpy
        return next(getattr(m, self.function) for m in modules if hasattr(m, self.function))


def _function(name: str, function: str, cost: float = 20, aten: str | None = None) -> ScalarOp:
    """A function of floats, in C and in ATen by one name."""
    names = (name,) if aten is None else tuple(aten.split())
    return ScalarOp(function, name, cost=cost, in_f64=True, aten=names)


def _exact(name: str, function: str, cost: float = 20, aten: str = "") -> ScalarOp:
    """A function of floats that is exact, or rounded once, in its own type."""
    return ScalarOp(function, name, cost=cost, aten=tuple(aten.split()))


ROWS: dict[str, ScalarOp] = {
    "arith.addf": ScalarOp("add", infix="+"),
    "arith.subf": ScalarOp("sub", infix="-"),
    "arith.mulf": ScalarOp("mul", infix="*"),
    "arith.divf": ScalarOp("divide", infix="/", cost=10),
    "arith.negf": ScalarOp("neg"),
    "arith.maximumf": ScalarOp("maximum", infix=">", helper="max_nan"),
    "arith.minimumf": ScalarOp("minimum", infix="<", helper="min_nan"),
    "arith.maxnumf": ScalarOp("fmax", "fmax"),
    "arith.minnumf": ScalarOp("fmin", "fmin"),
    "arith.addi": ScalarOp("add", infix="+"),
    "arith.subi": ScalarOp("sub", infix="-"),
    "arith.muli": ScalarOp("mul", infix="*"),
    "arith.divsi": ScalarOp("quotient", infix="/", divides=True),
    "arith.remsi": ScalarOp("remainder", infix="%", divides=True),
    "arith.floordivsi": ScalarOp("floordiv", helper="floor_div", divides=True),
    "arith.divui": ScalarOp("floordiv", infix="/", unsigned=True, divides=True),
    "arith.remui": ScalarOp("mod", infix="%", unsigned=True, divides=True),
    "arith.maxsi": ScalarOp("maximum", "max"),
    "arith.minsi": ScalarOp("minimum", "min"),
    "arith.maxui": ScalarOp("maximum", "max", unsigned=True),
    "arith.minui": ScalarOp("minimum", "min", unsigned=True),
    "arith.andi": ScalarOp("and_", infix="&", boolean="&"),
    "arith.ori": ScalarOp("or_", infix="|", boolean="|"),
    "arith.xori": ScalarOp("xor", infix="^", boolean="!="),
    "arith.shli": ScalarOp("lshift", infix="<<", shifts=True),
    "arith.shrsi": ScalarOp("rshift", infix=">>", shifts=True),
    "arith.shrui": ScalarOp("rshift", infix=">>", unsigned=True, shifts=True),
    "math.gcd": ScalarOp("gcd", helper="gcd", cost=200),
    "math.ipowi": ScalarOp("power_of_integers", helper="ipowi", cost=200),
    "math.exp_below": ScalarOp("exp", helper="exp_below", cost=2, in_f64=True, unary=True),
    "math.exp2_below": ScalarOp("exp2", helper="exp2_below", cost=1, in_f64=True, unary=True),
    "math.philox": ScalarOp("philox", helper="philox", cost=120),
    **{
        f"math.{name}": ScalarOp(name, helper=name, cost=2000, in_f64=True)
        for name in "hermite_h hermite_he laguerre_l legendre_p igamma igammac".split()
    },
    "math.absi": ScalarOp("abs", "abs", cost=20),
    "math.absf": _exact("fabs", "abs"),
    "math.ceil": _exact("ceil", "ceil", aten="ceil"),
    "math.copysign": _exact("copysign", "copysign"),
    "math.floor": _exact("floor", "floor", aten="floor"),
    "math.fma": _exact("fma", "fma"),
    "math.fmod": ScalarOp("fmod", "fmod", cost=30, binary=True),
    "math.round": _exact("round", "round_away"),
    "math.roundeven": _exact("nearbyint", "rint", aten="round"),
    "math.sqrt": _exact("sqrt", "sqrt", 10, aten="sqrt"),
    "math.trunc": _exact("trunc", "trunc", aten="trunc fix"),
    "math.acos": _function("acos", "arccos"),
    "math.acosh": _function("acosh", "arccosh"),
    "math.asin": _function("asin", "arcsin"),
    "math.asinh": _function("asinh", "arcsinh"),
    "math.atan": _function("atan", "arctan"),
    "math.atan2": _function("atan2", "arctan2", aten=""),
    "math.atanh": _function("atanh", "arctanh"),
    "math.cbrt": _function("cbrt", "cbrt", aten=""),
    "math.cos": _function("cos", "cos", 40),
    "math.cosh": _function("cosh", "cosh"),
    "math.erf": _function("erf", "erf", 30, "erf special_erf"),
    # 1 - erf(x) without cancellation: at 5 it is 1.5e-12, where the difference is 0 in f32.
    "math.erfc": _function("erfc", "erfc", 40, "erfc special_erfc"),
    "math.exp": _function("exp", "exp", 15),
    "math.exp2": _function("exp2", "exp2", 10, "exp2 special_exp2"),
    "math.expm1": _function("expm1", "expm1", aten="expm1 special_expm1"),
    "math.lgamma": _function("lgamma", "lgamma", 60, "lgamma special_gammaln"),
    "math.log": _function("log", "log", 20),
    "math.log10": _function("log10", "log10"),
    "math.log1p": _function("log1p", "log1p"),
    "math.log2": _function("log2", "log2"),
    "math.powf": _function("pow", "power", 80, aten=""),
    "math.rsqrt": _function("rsqrt", "rsqrt", 4),
    "math.sigmoid": ScalarOp(
        "sigmoid",
        helper="logistic",
        cost=17,
        in_f64=True,
        unary=True,
        aten=("sigmoid", "special_expit"),
    ),
    "math.sin": _function("sin", "sin", 40),
    "math.sinh": _function("sinh", "sinh"),
    "math.tan": _function("tan", "tan"),
    "math.tanh": _function("tanh", "tanh", 30),
}
"""dlc's own."""
for _name, _row in ROWS.items():
    plugins.SCALARS[_name] = _row

SCALARS: Mapping[str, ScalarOp] = plugins.SCALARS.rows
"""The scalar operations by the name of the IR, those of plug-ins that are loaded included."""


@dataclass(frozen=True)
class Comparison:
    """A relation of two numbers."""

    numpy: Callable[..., Any]
    infix: str
    negation: str
    """The relation that holds where this one does not, NaN aside."""
    mirror: str
    """The same relation with the operands the other way round."""


COMPARISONS: dict[str, Comparison] = {
    "eq": Comparison(operator.eq, "==", "ne", "eq"),
    "ne": Comparison(operator.ne, "!=", "eq", "ne"),
    "lt": Comparison(operator.lt, "<", "ge", "gt"),
    "le": Comparison(operator.le, "<=", "gt", "ge"),
    "gt": Comparison(operator.gt, ">", "le", "lt"),
    "ge": Comparison(operator.ge, ">=", "lt", "le"),
}
"""The relations of `arith.cmpi` and `arith.cmpf` by name, signs and order of NaN aside."""


def compare_floats(predicate: str) -> Callable[..., Any]:
    """
    The function of a predicate of `arith.cmpf`: `oeq`, `une`, `uno`, …. An ordered comparison is
    false, an unordered one true, where an operand is NaN.
    """

    def unordered(a: Any, b: Any) -> Any:
        return (a != a) | (b != b)

    def ordered(a: Any, b: Any) -> Any:
        return (a == a) & (b == b)

    always = {"true": True, "false": False}.get(predicate)
    if always is not None:
        return lambda a, b: (unordered(a, b) & False) | always
    if predicate in ("uno", "ord"):
        return unordered if predicate == "uno" else ordered
    compare = COMPARISONS[predicate[1:]].numpy
    if predicate[0] == "u":
        return lambda a, b: unordered(a, b) | compare(a, b)
    return lambda a, b: ordered(a, b) & compare(a, b) if predicate == "one" else compare(a, b)

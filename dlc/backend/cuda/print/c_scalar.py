"""The scalar operations of `arith` and `math` in C."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, Float64Type, IndexType, f32, i1
from xdsl.ir import Operation, SSAValue

from dlc.backend.cuda.print.c_index import index_type
from dlc.backend.cuda.print.c_text import (
    FROM_FLOAT,
    TO_FLOAT,
    Text,
    binary,
    c_type,
    call,
    cast,
    ternary,
    unary,
    unsigned,
)
from dlc.diagnostics import fail
from dlc.dialects.math_functions import ErfcOp

# Names without the `f` that stands for single precision (CUDA C++ Programming Guide, 16).
_FUNCTIONS: dict[type[Operation], str] = {
    math.AbsFOp: "fabs", math.AcosOp: "acos", math.AcoshOp: "acosh", math.AsinOp: "asin",
    math.AsinhOp: "asinh", math.AtanOp: "atan", math.AtanhOp: "atanh", math.Atan2Op: "atan2",
    math.CbrtOp: "cbrt", math.CeilOp: "ceil", math.CopySignOp: "copysign", math.CosOp: "cos",
    math.CoshOp: "cosh", math.ErfOp: "erf", ErfcOp: "erfc", math.ExpOp: "exp", math.Exp2Op: "exp2",
    math.ExpM1Op: "expm1", math.FloorOp: "floor", math.FmaOp: "fma", math.LogOp: "log",
    math.Log10Op: "log10", math.Log1pOp: "log1p", math.Log2Op: "log2", math.PowFOp: "pow",
    math.RoundOp: "round", math.RoundEvenOp: "nearbyint", math.RsqrtOp: "rsqrt", math.SinOp: "sin",
    math.SinhOp: "sinh", math.SqrtOp: "sqrt", math.TanOp: "tan", math.TanhOp: "tanh",
    math.TruncOp: "trunc", arith.MaxnumfOp: "fmax", arith.MinnumfOp: "fmin",
}  # fmt: skip
_FLOATS: dict[type[Operation], str] = {
    arith.AddfOp: "+", arith.SubfOp: "-", arith.MulfOp: "*", arith.DivfOp: "/",
}  # fmt: skip
_INTEGERS: dict[type[Operation], str] = {
    arith.AddiOp: "+", arith.SubiOp: "-", arith.MuliOp: "*", arith.DivSIOp: "/",
    arith.RemSIOp: "%", arith.AndIOp: "&", arith.OrIOp: "|", arith.XOrIOp: "^",
    arith.ShLIOp: "<<", arith.ShRSIOp: ">>",
}  # fmt: skip
_UNSIGNED: dict[type[Operation], str] = {
    arith.DivUIOp: "/", arith.RemUIOp: "%", arith.ShRUIOp: ">>",
}  # fmt: skip
_BOOLEANS: dict[type[Operation], str] = {
    arith.AndIOp: "&&", arith.OrIOp: "||", arith.XOrIOp: "!=",
}  # fmt: skip
_EXTREMA: dict[type[Operation], str] = {
    arith.MaxSIOp: "max", arith.MinSIOp: "min", arith.MaxUIOp: "max", arith.MinUIOp: "min",
}  # fmt: skip
_NAN_EXTREMA: dict[type[Operation], tuple[str, str]] = {
    arith.MaximumfOp: ("max_nan", ">"), arith.MinimumfOp: ("min_nan", "<"),
}  # fmt: skip
_INTEGER_PREDICATES = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
_FIRST_UNSIGNED = 6
_ORDERED = {1: "==", 2: ">", 3: ">=", 4: "<", 5: "<=", 13: "!="}
_NEGATED = {9: "<=", 10: "<", 11: ">=", 12: ">"}  # unordered or greater is: not less or equal
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def function_name(op: Operation) -> str | None:
    """The function of the C library that an operation calls, if it does."""
    name = _FUNCTIONS.get(type(op))
    if name is None:
        return None
    return f"{name}f" if isinstance(op.results[0].type, Float32Type) else name


def value_type(value: SSAValue, op: Operation) -> str:
    """The C type of a value; `OpError` for `op` if there is none."""
    name = index_type(value) if isinstance(value.type, IndexType) else c_type(value.type)
    if name is None:
        fail(
            op,
            f"the CUDA printer has no C type for {value.type}, which '{op.name}' uses",
            "arithmetic is done in f32 or f64, on booleans and on integers of 8 to 64 bits",
        )
    return name


def mentions_twice(op: Operation) -> bool:
    """Does the text mention an operand twice, so that operands had better be names?"""
    if isinstance(op, arith.CmpfOp):
        return op.predicate.value.data in (6, 8)
    return type(op) in _NAN_EXTREMA and isinstance(op.results[0].type, Float64Type)


def is_conditional(op: Operation) -> bool:
    """Can the text leave an operand unevaluated?"""
    result = op.results[0].type
    if isinstance(op, arith.SelectOp) or result == i1:
        return True
    return type(op) in _NAN_EXTREMA and isinstance(result, Float64Type)


def scalar(op: Operation, operands: list[Text], helpers: set[str]) -> Text:
    """
    `op` applied to operands in C; `helpers` collects the prelude functions that it calls.
    `OpError` if the operation or its type has no text.
    """
    for value in (*op.operands, *op.results):
        value_type(value, op)
    _refuse_half(op)
    kind = type(op)
    if (function := function_name(op)) is not None:
        return call(function, *operands)
    if kind in _FLOATS:
        return binary(operands[0], _FLOATS[kind], operands[1])
    if kind in _NAN_EXTREMA:
        return _nan_extremum(op, operands, helpers)
    handler = _HANDLERS.get(kind)
    if handler is not None:
        return handler(op, operands)
    type_ = value_type(op.results[0], op) if op.results else ""
    if type_ == "bool" and kind in _BOOLEANS:
        return _boolean(_BOOLEANS[kind], *operands)
    if type_ != "bool" and kind in _INTEGERS:
        return _narrowed(type_, binary(operands[0], _INTEGERS[kind], operands[1]))
    if type_ != "bool" and kind in _UNSIGNED:
        lhs, rhs = (cast(unsigned(type_), o) for o in operands)
        return cast(type_, binary(lhs, _UNSIGNED[kind], rhs))
    if type_ != "bool" and kind in _EXTREMA:
        return _extremum(op, type_, operands)
    if type_ != "bool" and isinstance(op, arith.FloorDivSIOp):
        helpers.add("floor_div")
        return call(f"floor_div<{type_}>", *operands)
    what = f" that gives {op.results[0].type}" if op.results else ""
    fail(
        op,
        f"the CUDA printer has no text for '{op.name}'{what}",
        "rewrite it into operations of arith, math and kernel that have one",
    )


def _refuse_half(op: Operation) -> None:
    """f16 and bf16 are chosen from, and converted from and to f32."""
    types = [value.type for value in (*op.operands, *op.results)]
    half = next((t for t in types if type(t) in TO_FLOAT), None)
    if half is None or isinstance(op, arith.SelectOp):
        return
    if isinstance(op, arith.ExtFOp | arith.TruncFOp) and f32 in types:
        return
    fail(
        op,
        f"the CUDA printer has no text for '{op.name}' of {half}",
        "f16 and bf16 are converted from and to f32 only, and arithmetic is done there",
    )


def _boolean(operator: str, lhs: Text, rhs: Text) -> Text:
    if operator == "!=" and rhs.text == "true":
        return unary("!", lhs)
    if operator == "!=" and lhs.text == "true":
        return unary("!", rhs)
    return binary(lhs, operator, rhs)


def _narrowed(type: str, value: Text) -> Text:
    """C computes in `int`: a narrower type wraps when it is cast back."""
    return cast(type, value) if type in ("signed char", "short") else value


def _extremum(op: Operation, type: str, operands: list[Text]) -> Text:
    name = _EXTREMA[op.__class__]
    if isinstance(op, arith.MaxUIOp | arith.MinUIOp):
        wide = "unsigned" if type != "long long" else "unsigned long long"
        own = unsigned(type)
        values = [cast(own, o) for o in operands]
        return cast(type, call(name, *(v if own == wide else cast(wide, v) for v in values)))
    wide = "int" if type != "long long" else type
    mixed = any(isinstance(v.type, IndexType) for v in op.operands)
    return _narrowed(type, call(name, *(cast(wide, o) if mixed else o for o in operands)))


def _nan_extremum(op: Operation, operands: list[Text], helpers: set[str]) -> Text:
    helper, relation = _NAN_EXTREMA[type(op)]
    if isinstance(op.results[0].type, Float32Type):
        helpers.add(helper)
        return call(helper, *operands)
    lhs, rhs = operands
    wins = binary(binary(lhs, relation, rhs), "||", call("isnan", lhs))
    return ternary(wins, lhs, rhs)


def _compare_integers(op: Operation, operands: list[Text]) -> Text:
    assert isinstance(op, arith.CmpiOp)
    number = op.predicate.value.data
    operator = _INTEGER_PREDICATES[number]
    lhs, rhs = operands
    type_ = value_type(op.lhs, op)
    if type_ == "bool":  # as a signed number, true is -1
        return binary(lhs, operator if number >= _FIRST_UNSIGNED else _FLIPPED[operator], rhs)
    if number >= _FIRST_UNSIGNED:
        lhs, rhs = cast(unsigned(type_), lhs), cast(unsigned(type_), rhs)
    return binary(lhs, operator, rhs)


def _compare_floats(op: Operation, operands: list[Text]) -> Text:
    assert isinstance(op, arith.CmpfOp)
    number = op.predicate.value.data
    lhs, rhs = operands
    if number in (0, 15):
        return Text("true" if number else "false")
    if number in _ORDERED:
        return binary(lhs, _ORDERED[number], rhs)
    if number in _NEGATED:
        return unary("!", binary(lhs, _NEGATED[number], rhs))
    if number in (6, 8):
        differ = binary(binary(lhs, "<", rhs), "||", binary(lhs, ">", rhs))
        return differ if number == 6 else unary("!", differ)
    unordered = call("isnan", lhs)
    if op.lhs is not op.rhs:
        unordered = binary(unordered, "||", call("isnan", rhs))
    return unordered if number == 14 else unary("!", unordered)


def _signed_to_float(op: Operation, operands: list[Text]) -> Text:
    value = cast(value_type(op.results[0], op), operands[0])
    return unary("-", value) if value_type(op.operands[0], op) == "bool" else value


def _unsigned_to_float(op: Operation, operands: list[Text]) -> Text:
    value = cast(unsigned(value_type(op.operands[0], op)), operands[0])
    value = operands[0] if value_type(op.operands[0], op) == "bool" else value
    return cast(value_type(op.results[0], op), value)


def _convert(op: Operation, operands: list[Text]) -> Text:
    source, target = value_type(op.operands[0], op), value_type(op.results[0], op)
    if source == target:
        return operands[0]
    if target == "bool":
        low = operands[0]
        if isinstance(op, arith.TruncIOp):  # keeps the lowest bit
            low = binary(low, "&", Text("1"))
        return binary(low, "!=", Text("0"))
    if source == "bool" and isinstance(op, arith.ExtSIOp):
        return unary("-", cast(target, operands[0]))
    if isinstance(op, arith.ExtUIOp) and source != "bool":
        return cast(target, cast(unsigned(source), operands[0]))
    return cast(target, operands[0])


def _convert_float(op: Operation, operands: list[Text]) -> Text:
    source, target = op.operands[0].type, op.results[0].type
    name = TO_FLOAT.get(type(source)) or FROM_FLOAT.get(type(target))
    return _convert(op, operands) if name is None else call(name, *operands)


def _select(op: Operation, operands: list[Text]) -> Text:
    return ternary(*operands)


def _negate(op: Operation, operands: list[Text]) -> Text:
    return unary("-", operands[0])


_HANDLERS: dict[type[Operation], Callable[[Operation, list[Text]], Text]] = {
    arith.NegfOp: _negate,
    arith.SelectOp: _select,
    arith.CmpiOp: _compare_integers,
    arith.CmpfOp: _compare_floats,
    arith.SIToFPOp: _signed_to_float,
    arith.UIToFPOp: _unsigned_to_float,
    **dict.fromkeys(
        (
            arith.IndexCastOp, arith.FPToSIOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp,
        ),
        _convert,
    ),
    arith.ExtFOp: _convert_float,
    arith.TruncFOp: _convert_float,
    math.AbsIOp: lambda op, operands: _narrowed(
        value_type(op.results[0], op), call("abs", *operands)
    ),
}  # fmt: skip
ACCUMULATIONS: dict[type[Operation], str] = {
    arith.AddfOp: "+", arith.AddiOp: "+", arith.SubfOp: "-", arith.SubiOp: "-",
    arith.MulfOp: "*", arith.MuliOp: "*", arith.DivfOp: "/",
}  # fmt: skip
"""Operations whose result C can fold into their first operand, as `+=` does."""
COMMUTATIVE = (arith.AddfOp, arith.AddiOp, arith.MulfOp, arith.MuliOp)

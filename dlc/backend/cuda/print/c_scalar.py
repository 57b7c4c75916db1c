"""The scalar operations of `arith` and `math` in C."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    Float32Type,
    Float64Type,
    IndexType,
    VectorType,
    f32,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue

from dlc.backend.cuda.print.c_index import index_type
from dlc.backend.cuda.print.c_text import (
    Text,
    binary,
    c_type,
    call,
    cast,
    ternary,
    unary,
    unsigned,
)
from dlc.backend.cuda.print.prelude import PRELUDE
from dlc.diagnostics import fail
from dlc.ir.elements import NARROW, element
from dlc.ir.scalar_ops import COMPARISONS, SCALARS, ScalarOp

_NAN_EXTREMA = (arith.MaximumfOp, arith.MinimumfOp)


def function_name(op: Operation) -> str | None:
    """
    The function of the C library that an operation of floats calls, if it does (CUDA C++
    Programming Guide, Mathematical Functions).
    """
    row = SCALARS.get(op.name)
    if row is None or not row.call or not isinstance(type := op.results[0].type, AnyFloat):
        return None
    return f"{row.call}f" if isinstance(type, Float32Type) else row.call


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
    """True if the text mentions an operand twice, so that operands had better be names."""
    if isinstance(op, arith.CmpfOp):
        return _predicate(op) in ("one", "ueq")
    return _is_wide_extremum(op)


def is_conditional(op: Operation) -> bool:
    """True if the text can leave an operand unevaluated."""
    result = op.results[0].type
    if isinstance(op, arith.SelectOp) or result == i1:
        return True
    return _is_wide_extremum(op)


def _is_wide_extremum(op: Operation) -> bool:
    """True if it is a maximum or minimum that spreads NaN and has no helper for its type."""
    return isinstance(op, _NAN_EXTREMA) and isinstance(op.results[0].type, Float64Type)


def scalar(op: Operation, operands: list[Text], helpers: set[str]) -> Text:
    """
    `op` applied to operands in C; `helpers` collects the prelude functions that it calls.
    `OpError` if the operation or its type has no text.
    """
    for value in (*op.operands, *op.results):
        value_type(value, op)
    _refuse_narrow(op)
    if (function := function_name(op)) is not None:
        return call(function, *operands)
    if isinstance(op, arith.BitcastOp):
        helpers.add("bit_cast")
        return call(f"bit_cast<{value_type(op.results[0], op)}>", *operands)
    if isinstance(op, arith.TruncFOp) and (helper := _rounding(op.results[0].type)):
        helpers.add(helper)
        return call(helper, *operands)
    if isinstance(op, arith.ExtFOp) and (widened := element(op.operands[0].type).to_float):
        helpers.update({widened} & PRELUDE.keys())  # a header declares others
        return call(widened, *operands)
    if (handler := _HANDLERS.get(type(op))) is not None:
        return handler(op, operands)
    if (row := SCALARS.get(op.name)) is not None:
        type_ = value_type(op.results[0], op)
        if isinstance(op, _NAN_EXTREMA):
            return _nan_extremum(row, type_, operands, helpers)
        if isinstance(op.results[0].type, AnyFloat):
            if row.helper:
                helpers.add(row.helper)
                value = call(row.helper, *operands)
                own = row.unary or type_ == "double"
                return value if own else cast(type_, value)
            return binary(operands[0], row.infix, operands[1])
        if type_ == "bool" and row.boolean:
            return _boolean(row.boolean, *operands)
        if type_ != "bool":
            return _of_integers(op, row, type_, operands, helpers)
    what = f" that gives {op.results[0].type}" if op.results else ""
    fail(
        op,
        f"the CUDA printer has no text for '{op.name}'{what}",
        "rewrite it into operations of arith, math and kernel that have one",
    )


def _rounding(type: Attribute) -> str:
    """The prelude's function that rounds f32 to a type, or two of them; empty if C does."""
    each = type.element_type if isinstance(type, VectorType) else type
    row = element(each)
    return f"to_{row.name}{'x2' if each is not type else ''}" if row.from_float else ""


def _refuse_narrow(op: Operation) -> None:
    """What is storage is chosen from, seen as bits, and converted from and to f32."""
    types = [value.type for value in (*op.operands, *op.results)]
    narrow = next((row.type for row in NARROW if row.type in types), None)
    if narrow is None or isinstance(op, arith.SelectOp | arith.BitcastOp):
        return
    if isinstance(op, arith.ExtFOp | arith.TruncFOp) and f32 in types:
        return
    fail(
        op,
        f"the CUDA printer has no text for '{op.name}' of {narrow}",
        f"{narrow} is converted from and to f32 only, and arithmetic is done there",
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


def _of_integers(
    op: Operation, row: ScalarOp, type: str, operands: list[Text], helpers: set[str]
) -> Text:
    if row.helper:
        helpers.add(row.helper)
        return call(f"{row.helper}<{type}>", *operands)
    if row.call and len(operands) == 2:
        return _extremum(op, row, type, operands)
    if row.call:
        return _narrowed(type, call(row.call, *operands))
    if row.unsigned:
        lhs, rhs = (cast(unsigned(type), o) for o in operands)
        return cast(type, binary(lhs, row.infix, rhs))
    return _narrowed(type, binary(operands[0], row.infix, operands[1]))


def _extremum(op: Operation, row: ScalarOp, type: str, operands: list[Text]) -> Text:
    """`max` and `min` are there for int and long long, with and without sign."""
    wide = type if type == "long long" else "int"
    if row.unsigned:
        own, wide = unsigned(type), unsigned(wide)
        values = [cast(own, o) for o in operands]
        return cast(type, call(row.call, *(v if own == wide else cast(wide, v) for v in values)))
    mixed = any(isinstance(v.type, IndexType) for v in op.operands)
    return _narrowed(type, call(row.call, *(cast(wide, o) if mixed else o for o in operands)))


def _nan_extremum(row: ScalarOp, type: str, operands: list[Text], helpers: set[str]) -> Text:
    if type == "float":
        helpers.add(row.helper)
        return call(row.helper, *operands)
    lhs, rhs = operands
    wins = binary(binary(lhs, row.infix, rhs), "||", call("isnan", lhs))
    return ternary(wins, lhs, rhs)


def _compare_integers(op: Operation, operands: list[Text]) -> Text:
    assert isinstance(op, arith.CmpiOp)
    name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    relation = COMPARISONS[name[-2:]]
    lhs, rhs = operands
    type_ = value_type(op.lhs, op)
    if type_ == "bool" and not name.startswith("u"):  # as a signed number, true is -1
        relation = COMPARISONS[relation.mirror]
    if name.startswith("u") and type_ != "bool":
        lhs, rhs = cast(unsigned(type_), lhs), cast(unsigned(type_), rhs)
    return binary(lhs, relation.infix, rhs)


def _predicate(op: arith.CmpfOp) -> str:
    return arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]


def _compare_floats(op: Operation, operands: list[Text]) -> Text:
    assert isinstance(op, arith.CmpfOp)
    name = _predicate(op)
    lhs, rhs = operands
    if name in ("false", "true"):
        return Text(name)
    if name in ("uno", "ord"):
        unordered = call("isnan", lhs)
        if op.lhs is not op.rhs:
            unordered = binary(unordered, "||", call("isnan", rhs))
        return unordered if name == "uno" else unary("!", unordered)
    if name in ("one", "ueq"):
        differ = binary(binary(lhs, "<", rhs), "||", binary(lhs, ">", rhs))
        return differ if name == "one" else unary("!", differ)
    relation = COMPARISONS[name[1:]]
    if name[0] == "o" or name == "une":
        return binary(lhs, relation.infix, rhs)
    # Unordered or greater is: not less or equal.
    return unary("!", binary(lhs, COMPARISONS[relation.negation].infix, rhs))


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
            arith.ExtFOp, arith.TruncFOp,
        ),
        _convert,
    ),
}  # fmt: skip
ACCUMULATIONS: dict[type[Operation], str] = {
    arith.AddfOp: "+", arith.AddiOp: "+", arith.SubfOp: "-", arith.SubiOp: "-",
    arith.MulfOp: "*", arith.MuliOp: "*", arith.DivfOp: "/",
}  # fmt: skip
"""Operations whose result C can fold into their first operand, as `+=` does."""
COMMUTATIVE = (arith.AddfOp, arith.AddiOp, arith.MulfOp, arith.MuliOp)

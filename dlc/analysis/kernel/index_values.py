"""The numbers that index values are."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from dlc.dialects import kernel
from dlc.ir.expr import Expr, constant_of


def index_at(value: SSAValue, known: Callable[[SSAValue], int | None]) -> int:
    """
    The number that an index value is where `known` says what the values are that it is made of; it
    need not know constants. LookupError for one that it does not know.
    """
    if (number := known(value)) is not None:
        return number
    if (number := constant_of(value)) is not None:
        return number
    if not isinstance(owner := value.owner, kernel.IndexOp):
        raise LookupError(f"nothing is known of {value}")
    (expr,) = owner.subscripts
    return expr.evaluate({v: index_at(v, known) for v in expr.values()})


def expanded(expr: Expr) -> Expr:
    """An expression with the index values that it mentions written out."""

    def definition(value: SSAValue) -> Expr | None:
        owner = value.owner
        return expanded(owner.subscripts[0]) if isinstance(owner, kernel.IndexOp) else None

    return expr.substitute(definition)

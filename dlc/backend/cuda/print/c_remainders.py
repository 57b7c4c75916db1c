"""Remainders that follow from one at hand without a division, as slots of a ring do."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from dlc.backend.cuda.print.c_text import Text, binary, integer, ternary
from dlc.dialects import kernel
from dlc.ir.expr import Mod


def remainder_from(op: kernel.IndexOp, text: dict[SSAValue, Text]) -> Text | None:
    """
    The remainder that `op` is of `base + n`, by the name of that of `base` that stands before it:
    `slot < 1 ? slot + 2 : slot - 1` in place of `(ko + 2) % 3`. None where no such name is at hand,
    and where the divisor is a power of two, of which a remainder is a single instruction.
    """
    found = _remainder(op)
    if found is None or found.divisor.bit_count() == 1:
        return None
    for earlier in _before(op):
        other = _remainder(earlier)
        if other is None or other.divisor != found.divisor:
            continue
        further, name = found.base - other.base, text.get(earlier.results[0])
        if not further.is_constant or name is None or not name.is_name:
            continue
        step, divisor = further.constant % found.divisor, found.divisor
        if not step:
            return name
        wraps_from = integer(divisor - step)
        return ternary(
            binary(name, "<", wraps_from),
            binary(name, "+", integer(step)),
            binary(name, "-", wraps_from),
        )
    return None


def _remainder(op: kernel.IndexOp) -> Mod | None:
    """The remainder that is all of an index expression."""
    (expr,) = op.subscripts
    if len(expr.terms) != 1 or expr.constant:
        return None
    ((atom, coefficient),) = expr.terms
    return atom if isinstance(atom, Mod) and coefficient == 1 else None


def _before(op: Operation) -> Iterator[kernel.IndexOp]:
    """Those before an operation in its block and in the blocks around it, the nearest first."""
    around: Operation | None = op
    while around is not None:
        earlier = around.prev_op
        while earlier is not None:
            if isinstance(earlier, kernel.IndexOp):
                yield earlier
            earlier = earlier.prev_op
        around = around.parent_op()

"""Which reduces are contractions: products of operands that each lack an axis of the other."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from dlc.dialects.access import LoadOpBase
from dlc.dialects.axes import ReduceOpBase
from dlc.ir.variance import Variance, variance


def is_contraction(reduce: ReduceOpBase, along: Variance) -> bool:
    """
    Does the body read, along the reduce's axes, two operands that each vary along an outer axis
    the other does not vary along? Then a tile of outputs reads each element several times.
    """
    own = set[SSAValue](reduce.axes)
    operands: list[frozenset[SSAValue]] = []
    for op in reduce.body.walk():
        if isinstance(op, LoadOpBase) and along[op.result] & own:
            operands.append(along[op.result] - own)
    return any(a - b and b - a for n, a in enumerate(operands) for b in operands[:n])


def contractions(root: Operation) -> list[ReduceOpBase]:
    """The contractions in `root` that hold no other reduce, in program order."""
    along = variance(root)
    return [
        op
        for op in root.walk()
        if isinstance(op, ReduceOpBase)
        and not any(isinstance(o, ReduceOpBase) for o in op.body.walk())
        and is_contraction(op, along)
    ]

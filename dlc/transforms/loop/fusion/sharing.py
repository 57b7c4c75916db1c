"""Rows of attention that read the same keys become an axis of their own; see `share_keys`."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import BlockArgument

from dlc.analysis.loop.contraction import contraction_of, weight_axes
from dlc.dialects.axes import loops_around
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, ReduceOp
from dlc.ir.expr import Expr, FloorDiv
from dlc.ir.monoid import EXPSUM
from dlc.ir.sizes import divides
from dlc.ir.variance import variance
from dlc.transforms.loop.fusion.flattened import take_apart
from dlc.transforms.loop.fusion.hoisting import hoist


def share_keys(kernel: KernelOp) -> bool:
    """
    Makes an axis two where sums of powers of e read tensors at its quotient by a number and at
    nothing else of it, so that what they read for the quotient is read for all its points at once;
    says if there is any. It is done where no other axis is like that, as where heads of one token
    share their keys.

    ```
    loop.for %h in 32, %c in 64 { … loop.reduce expsum %k … %keys[%h floordiv 8, %k] … %q[%h] … }
    ```
    becomes
    ```
    loop.for %h in 4, %h_1 in 8, %c in 64 { … %keys[%h, %k] … %q[%h * 8 + %h_1] … }
    ```
    """
    found = False
    while (shared := next(_shared(kernel), None)) is not None:
        take_apart(*shared)
        found = True
    if found:
        hoist(kernel)
    return found


def _shared(kernel: KernelOp) -> Iterator[tuple[ForOp, BlockArgument, int]]:
    """An axis of rows, and by what it is divided where keys are read."""
    along = variance(kernel)
    for fold in kernel.walk():
        if not isinstance(fold, ReduceOp) or fold.monoid_name.data != EXPSUM:
            continue
        if contraction_of(fold, along) is not None or not weight_axes(fold, along):
            continue
        loads = [op for op in fold.body.walk() if isinstance(op, LoadOp)]
        for outer in (o for o in loops_around(fold) if isinstance(o, ForOp)):
            for axis in outer.axes:
                numbers = {n for op in loads for n in _divisors(op, axis)}
                if len(numbers) == 1 and divides(min(numbers), outer.extent(axis)):
                    yield outer, axis, min(numbers)


def _divisors(load: LoadOp, axis: BlockArgument) -> set[int]:
    """Numbers by which a load divides an axis that it reads in no other way."""
    found = set[int]()
    for expr in load.subscripts:
        for atom, _ in expr.terms:
            if isinstance(atom, FloorDiv) and atom.base == Expr.of(axis):
                found.add(atom.divisor)
            elif axis in Expr(((atom, 1),)).values():
                return set()
    return found

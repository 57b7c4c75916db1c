"""Loops that run over a part of an axis; see `narrow`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import BlockArgument

from dlc.dialects.axes import AxesOp
from dlc.dialects.indexed_op import IndexedOp
from dlc.ir.expr import Expr


def interval(axis: BlockArgument, extent: int, where: Sequence[Expr]) -> tuple[int, int]:
    """The places of an axis that conditions (expressions >= 0) on it alone leave: first and end."""
    begin, end = 0, extent
    for condition in where:
        if condition.coefficients == {axis: 1}:
            begin = max(begin, -condition.constant)
        elif condition.coefficients == {axis: -1}:
            end = min(end, condition.constant + 1)
    return begin, end


def narrow(loop: AxesOp, axis: BlockArgument, begin: int, end: int) -> None:
    """Has a loop run over the places `begin` to `end` of an axis, numbered from 0."""
    extents = [end - begin if a is axis else loop.extent(a) for a in loop.axes]
    move(axis, Expr.of(axis) + begin)  # first: an axis of one point is a number
    loop.set_axes(extents)


def move(axis: BlockArgument, place: Expr) -> None:
    """Puts an expression in the place of an axis wherever it is used."""
    for user in {use.operation for use in axis.uses}:
        assert isinstance(user, IndexedOp)
        user.substitute(lambda value: place if value is axis else None)

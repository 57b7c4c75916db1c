"""Sums of integers at places that are data: they are the same in any order."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from dlc.dialects.access import is_exact
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.tensor_ir import ConstantOp, ScatterAddOp
from dlc.schedule import orders
from dlc.transforms.tensor.decompositions.builder import Exprs, dim_map
from dlc.transforms.tensor.decompositions.lowering import Lowering


def adding_pays(c: Lowering, values: SSAValue, n: int, places: int, compared: int) -> bool:
    """
    True if `values` are integers of which to add `n` where they belong, of so many places, is
    faster than to compare each place with `compared` of them.
    """
    element = element_of(values)
    if not is_exact(element):
        return False
    size = element_bytes(element)
    fits = size == 4 or isinstance(values.owner, ConstantOp)
    n, places, compared = c.likely(n), c.likely(places), c.likely(compared)
    return orders.adding_pays(n, places, compared, size, fits, c.target)


def added_at(
    c: Lowering,
    values: SSAValue,
    places: Sequence[SSAValue],
    subscripts: Exprs,
    shape: Sequence[int],
) -> SSAValue:
    """
    The sums of `values`, i32 or i64, at subscripts of their dimensions and, numbered after them, of
    the elements of `places`, i64 of their shape: in range, or below 0 where nothing is added.
    """
    map = dim_map(len(shape_of(values)) + len(places), subscripts)
    return c.insert(ScatterAddOp(values, places, map, shape), "updates")


def inside(c: Lowering, index: SSAValue, extent: int) -> SSAValue:
    """Indices as `added_at` takes them: -1 for what is out of range."""
    return c.elementwise(
        lambda i: ((i >= 0) & (i < extent)).select(i, -1),
        index,
        shape=shape_of(index),
        hint="place",
    )

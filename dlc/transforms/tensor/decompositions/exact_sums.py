"""Sums of integers at places that are data: they are the same in any order."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from dlc.dialects.access import is_exact
from dlc.dialects.layouts import shape_of
from dlc.dialects.tensor_ir import ScatterAddOp
from dlc.transforms.tensor.decompositions.builder import Exprs, dim_map
from dlc.transforms.tensor.decompositions.lowering import Lowering

ADDITION = 16
"""The comparisons that take as long as an addition at a place that is data."""
LAUNCHES = 2**22
"""Those that take as long as zeros and a second kernel."""


def adding_pays(c: Lowering, element: Attribute, n: int, results: int, compared: int) -> bool:
    """
    True if to add `n` values of a type where they belong, of so many results, is faster than to
    compare each result with `compared` of them.
    """
    if not is_exact(element):
        return False
    n, results, compared = c.likely(n), c.likely(results), c.likely(compared)
    return results * compared > n * ADDITION + LAUNCHES


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

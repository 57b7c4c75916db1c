"""The products of a reduce that a warp can compute as products of matrices, on tensor cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from dlc.analysis.loop.mma_products import is_numbered
from dlc.dialects import tile
from dlc.dialects.axes import REGISTER
from dlc.dialects.factor_types import as_stored, factor_type, product_of
from dlc.dialects.mma_layouts import ALL_SHAPES, MmaAttr, pair_name
from dlc.ir.known_numbers import is_number
from dlc.ir.variance import Variance


@dataclass(frozen=True)
class Factor:
    """A factor of a product: a loaded element, as it is or widened."""

    value: SSAValue
    load: tile.LoadOp

    @staticmethod
    def of(value: SSAValue) -> Factor | None:
        """None if a value is anything else."""
        load = as_stored(value).owner
        return Factor(value, load) if isinstance(load, tile.LoadOp) else None

    @property
    def type(self) -> str:
        """As in `dlc.dialects.mma_layouts.TYPES`."""
        return factor_type(self.value)


@dataclass(frozen=True)
class MatrixProduct:
    """A product of an element of a row and one of a column, which a reduce sums along K."""

    row: Factor
    column: Factor


def matrix_product(
    value: SSAValue, rows: SSAValue, columns: SSAValue, along: Variance
) -> MatrixProduct | None:
    """
    The product that a value is, of one factor that varies along `rows`, not along `columns`, and
    another for which that is the other way round; None for anything else.
    """
    if (product := product_of(value)) is None:
        return None
    found: dict[SSAValue, Factor] = {}
    for operand in product.operands:
        factor, axes = Factor.of(operand), along[operand] & {rows, columns}
        if factor is not None and len(axes) == 1:
            found[next(iter(axes))] = factor
    if len(found) < 2:
        return None
    return MatrixProduct(found[rows], found[columns])


def instruction(
    reduce: tile.ReduceOp,
    shape: str,
    rows: SSAValue,
    columns: SSAValue,
    along: Variance,
    rounded: frozenset[SSAValue] = frozenset(),
) -> MmaAttr | str:
    """
    How warps can compute what a reduce sums, given the axes that number its rows and columns, and
    the slabs whose elements will be rounded to the type of other factors; or the reason why they
    cannot.
    """
    values: Sequence[SSAValue] = reduce.yielded.values
    products = [matrix_product(value, rows, columns, along) for value in values]
    names = f"%{rows.name_hint} and %{columns.name_hint}"
    if reduce.monoid_name.data != "add" or None in products:
        return (
            f"expected sums in f32 or i32 of products of two loaded elements, one along each of "
            f"{names}"
        )
    conditions = {value for where in reduce.yielded.where for value in where.values()}
    if any(along[value] & {rows, columns} for value in conditions):
        return f"expected conditions that vary along neither of {names}: a warp sums whole matrices"
    factors = [(p.row, p.column) for p in products if p is not None]
    loads = [factor.load for pair in factors for factor in pair]
    given = [[f.type for f in pair if f.load.ref not in rounded] for pair in factors]
    types = {pair_name(pair[0], pair[-1]) for pair in given if pair}
    asked = [MmaAttr(*names) for names in ALL_SHAPES if names[0] == shape]
    found = {mma for mma in asked if types == {mma.type}}
    if not found:
        *known, last = (mma.type.replace("_", " and ") for mma in asked)
        given = ", ".join(sorted(types)).replace("_", " and ")
        return f"expected factors of {', '.join(known)}{' or ' * bool(known)}{last}, found {given}"
    if not all(map(is_numbered, loads)):
        return "expected factors at places that axes alone number"
    if not all(load.default is None or is_number(load.default, 0) for load in loads):
        return "expected factors that are 0 where they are not loaded"
    (mma,) = found
    runs = [reduce.extent(axis) for axis in reduce.axes_of(REGISTER)]
    if runs != [mma.sizes.k]:
        depth = mma.sizes.k
        return f"expected K in runs of {depth} (chunk-matmul-k{{vector={depth}}}), found {runs}"
    return mma

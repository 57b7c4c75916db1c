"""Sums of products of elements that tensor cores can compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from dlc.dialects import loop
from dlc.dialects.access import LoadOpBase
from dlc.dialects.factor_types import Product, as_stored, factor_type, product_of
from dlc.dialects.mma_layouts import FACTORS, TYPES, pair_name
from dlc.ir.expr import Expr
from dlc.ir.known_numbers import is_number
from dlc.ir.variance import Variance

HALVES, FLOAT8, INT8 = (
    tuple(name for name, row in TYPES.items() if row.kind == kind)
    for kind in ("half", "float8", "int8")
)
"""Types of factors: products of integers of 8 bits are summed in i32, all others in f32."""


@dataclass(frozen=True)
class MmaProducts:
    """The factors of the products that a reduce sums, before they are widened."""

    type: str
    """One of `dlc.dialects.mma_layouts.TYPES`."""
    rows: tuple[SSAValue, ...]
    columns: tuple[SSAValue, ...]
    beside: tuple[SSAValue, ...] = ()
    """What is summed beside products and varies along rows or columns alone: once for a block."""

    @property
    def computed(self) -> tuple[SSAValue, ...]:
        """Those that are computed of what is loaded."""
        factors = (*self.rows, *self.columns)
        return tuple(v for v in factors if not isinstance(v.owner, loop.LoadOp))


def mma_products(
    reduce: loop.ReduceOp, row: SSAValue, column: SSAValue, along: Variance
) -> MmaProducts | None:
    """
    The factors of a reduce that sums, for all points of K, products of a factor that varies along
    `row` and one that varies along `column`, each of one type; None for any other reduce. What is
    computed must be so of inputs at places that axes number one by one, so that a block can compute
    it once; integers, and floats of two types, are none that a block computes. So must be what is
    summed beside products of halves and varies along rows or columns alone.
    """
    if reduce.monoid_name.data != "add" or reduce.yielded.where:
        return None
    found: dict[SSAValue, dict[SSAValue, None]] = {row: {}, column: {}}
    types, beside = set[str](), list[SSAValue]()
    for value in reduce.yielded.values:
        if (product := product_of(value)) is None:
            return None
        if len(along[value] & {row, column}) == 1 and _is_product(reduce, product):
            beside.append(value)
            continue
        sides = dict[SSAValue, str]()
        for operand in product.operands:
            axes = along[operand] & {row, column}
            factor = as_stored(operand)
            if len(axes) != 1 or reduce.axes[-1] not in along[operand]:
                return None
            if not _is_factor(reduce, factor):
                return None
            (axis,) = axes
            sides[axis] = factor_type(operand)
            found[axis][factor] = None
        if len(sides) < 2:
            return None
        types.add(pair_name(sides[row], sides[column]))
    if len(types) != 1 or not types <= TYPES.keys() or (beside and not types <= {*HALVES}):
        return None
    (type,) = types
    of_rows, of_columns = tuple(found[row]), tuple(found[column])
    products = MmaProducts(type, of_rows, of_columns, tuple(beside))
    computable = type not in INT8 and type in map(str, FACTORS)
    return products if computable or not products.computed else None


def _is_product(reduce: loop.ReduceOp, product: Product) -> bool:
    """True for one of loads, which is 0 where nothing is loaded, that a block can compute once."""
    loads = [as_stored(operand) for operand in product.operands]
    return all(isinstance(v.owner, loop.LoadOp) and _is_factor(reduce, v) for v in loads)


def _is_factor(reduce: loop.ReduceOp, value: SSAValue) -> bool:
    """True for a load that is 0 where nothing is loaded, and what a block can compute once."""
    if isinstance(load := value.owner, loop.LoadOp):
        zero = load.default is None or is_number(load.default, 0)
        return load.parent_op() is reduce and zero and is_numbered(load)
    return all(_can_move(op) for op in _needed(reduce, value))


def _can_move(op: Operation) -> bool:
    if isinstance(op, loop.LoadOp):
        kernel = op
        while not isinstance(kernel, loop.KernelOp):
            parent = kernel.parent_op()
            assert parent is not None
            kernel = parent
        numbered = all(_is_an_axis(s) for s in op.subscripts)
        plain = all(_is_plain(e) for e in op.where)
        return op.ref in kernel.constant_refs and numbered and plain
    return not op.regions and op.has_trait(Pure)


def is_numbered(load: LoadOpBase) -> bool:
    """True if a load's place goes by axes alone, not by what is computed."""
    values = {v for e in (*load.subscripts, *load.where) for v in e.values()}
    return not any(isinstance(v.owner, Operation) for v in values)


def _is_an_axis(subscript: Expr) -> bool:
    """True for an axis and a number, or a number."""
    return _is_plain(subscript) and [c for _, c in subscript.terms] in ([], [1])


def _is_plain(expr: Expr) -> bool:
    """True for a sum of multiples of axes."""
    return all(
        isinstance(a, SSAValue) and not isinstance(a.owner, Operation) for a, _ in expr.terms
    )


def _needed(reduce: loop.ReduceOp, value: SSAValue) -> Iterator[Operation]:
    """The operations in a reduce that a value is computed by."""
    seen, left = set[Operation](), [value]
    while left:
        op = left.pop().owner
        if isinstance(op, Operation) and op not in seen and reduce.is_ancestor(op):
            seen.add(op)
            left += op.operands
            yield op


def lies_in_runs(value: SSAValue, reduce: loop.ReduceOp, tiled: Sequence[SSAValue | None]) -> bool:
    """
    True if warps read a slab of a factor by rows: if it has neighbours along K next to each other
    or, of halves, along the first of some axes. Of those subscripts that a block walks through, the
    last walks through one alone.
    """
    load = value.owner
    if not isinstance(load, loop.LoadOp):
        return True  # a slab of its own
    walked = {reduce.axes[-1], *(a for a in tiled if a is not None)}
    subscripts = [s for s in load.subscripts if walked.intersection(s.values())]
    *outer, last = subscripts
    inner = walked.intersection(last.values())
    turned = isinstance(value.type, AnyFloat) and value.type.bitwidth == 16
    ends = {reduce.axes[-1], tiled[0]} if turned else {reduce.axes[-1]}
    return (
        len(inner) == 1
        and inner <= ends
        and last.coefficient(next(iter(inner))) == 1
        and not any(inner.intersection(s.values()) for s in outer)
    )

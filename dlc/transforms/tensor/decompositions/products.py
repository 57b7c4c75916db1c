"""
Sums of products. Each is two index maps to `[batch..., m..., n..., k]`, an elementwise product and
a sum over the last axes, which hold what is contracted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TypeAlias

from xdsl.ir import SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.ir.expr import Expr
from dlc.transforms.tensor.decompositions.builder import Exprs, dimension, dims, fixed
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.scalar import Number, Scalar, compute_type, sqrt
from dlc.transforms.tensor.decompositions.types import join


def contract(
    c: Lowering,
    left: SSAValue,
    right: SSAValue,
    left_subscripts: Exprs,
    right_subscripts: Exprs,
    shape: Sequence[int],
    contracted: int = 1,
) -> SSAValue:
    """
    The sum over the last `contracted` axes of `shape` of the products of elements at the given
    subscripts, in the type that the operands are calculated in. Factors of f16 or of bf16
    are rounded to it even where they reach no memory: tensor cores take no others.
    """
    of_one_type = element_of(left) == element_of(right)
    element = compute_type(join(element_of(left), element_of(right)))
    a = c.move(left, left_subscripts, shape)
    b = c.move(right, right_subscripts, shape)
    product = c.elementwise(
        lambda x, y: x.to(element, explicit=of_one_type) * y.to(element, explicit=of_one_type),
        a,
        b,
        shape=shape,
        hint="product",
    )
    rank = len(shape)
    return c.reduce("add", range(rank - contracted, rank), product, hint="sum")


def matrix_product(c: Lowering, left: SSAValue, right: SSAValue) -> SSAValue:
    """`torch.matmul`, not yet rounded: ranks of 1 are a row or a column, batches broadcast."""
    a, b = list(shape_of(left)), list(shape_of(right))
    batch_rank = max(len(a), len(b), 2) - 2
    batch = _broadcast_shape(a[:-2], b[:-2], batch_rank)
    rows = a[-2:-1]
    columns = b[-1:] if len(b) > 1 else []
    shape = [*batch, *rows, *columns, a[-1]]
    k = dimension(len(shape) - 1)
    row = [dimension(batch_rank)] if rows else []
    column = [dimension(batch_rank + len(rows))] if columns else []
    return contract(
        c,
        left,
        right,
        [*_batch_subscripts(a[:-2], batch), *row, k],
        [*_batch_subscripts(b[:-2], batch), k, *column],
        shape,
    )


def _broadcast_shape(a: Sequence[int], b: Sequence[int], rank: int) -> list[int]:
    padded = [[1] * (rank - len(s)) + list(s) for s in (a, b)]
    return [y if x == 1 else x for x, y in zip(*padded, strict=True)]


def _batch_subscripts(source: Sequence[int], batch: Sequence[int]) -> list[Expr]:
    first = len(batch) - len(source)
    return [
        dimension(first + d) if extent == batch[first + d] else fixed(0)
        for d, extent in enumerate(source)
    ]


@lower("matmul", "mm", "bmm", "dot", "mv", "vdot", "linalg_matmul")
def matmul(c: Lowering) -> Lowered:
    left, right = c.op.operands
    return c.cast(matrix_product(c, left, right), c.element, c.hint)


@lower("linear")
def linear(c: Lowering) -> Lowered:
    value, weight, bias = c.tensor("input"), c.tensor("weight"), c.op.operand("bias")
    shape = [*c.shape, shape_of(value)[-1]]
    *free, k = dims(len(shape))
    # A weight of rank 1 is a single row, for which the result has no dimension.
    row, rows = (free[-1:], free[:-1]) if len(shape_of(weight)) > 1 else ([], free)
    return added_to(c, contract(c, value, weight, [*rows, k], [*row, k], shape), bias)


def added_to(c: Lowering, sums: SSAValue, bias: SSAValue | None) -> SSAValue:
    """The operation's result: sums of products, with a bias that broadcasts if there is one."""
    if bias is None:
        return c.cast(sums, c.element, c.hint)
    return c.pointwise_wide(lambda x, b: x + b, sums, bias)


def _scaled_sum(c: Lowering, product: SSAValue) -> Lowered:
    """`beta * self + alpha * product`; with `beta` 0, NaN in `self` does not count."""
    beta, alpha = c.number("beta", 1), c.number("alpha", 1)

    def scaled(x: Scalar, factor: float) -> Scalar:
        return x if factor == 1 else x * factor

    if beta == 0:
        return c.pointwise_wide(lambda x: scaled(x, alpha), product)
    return c.pointwise_wide(lambda x, y: scaled(x, alpha) + scaled(y, beta), product, c.tensor())


def _added(first: str, second: str) -> Callable[[Lowering], Lowered]:
    return lambda c: _scaled_sum(c, matrix_product(c, c.tensor(first), c.tensor(second)))


lower("addmm")(_added("mat1", "mat2"))
lower("baddbmm")(_added("batch1", "batch2"))
lower("addmv")(_added("mat", "vec"))


@lower("addbmm")
def addbmm(c: Lowering) -> Lowered:
    left, right = c.tensor("batch1"), c.tensor("batch2")
    (batch, rows, k), columns = shape_of(left), shape_of(right)[2]
    row, column, n, inner = dims(4)
    shape = [rows, columns, batch, k]
    return _scaled_sum(
        c, contract(c, left, right, [n, row, inner], [n, inner, column], shape, contracted=2)
    )


@lower("einsum")
def einsum(c: Lowering) -> Lowered:
    """Operands are contracted from left to right, each label where it is used for the last time."""
    tensors = c.tensors()
    terms, output = _labels(str(c.op.argument("equation")), [len(shape_of(t)) for t in tensors])
    extents: dict[str, int] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        for label, extent in zip(term, shape_of(tensor), strict=True):
            if extents.get(label, 1) == 1:
                extents[label] = extent
    term, value = terms[0], tensors[0]
    for n in range(1, len(terms)):
        labels = dict.fromkeys(term + terms[n])
        later = output + "".join(terms[n + 1 :])
        kept = [x for x in labels if x in later] if n + 1 < len(terms) else list(output)
        order = [*kept, *(x for x in labels if x not in kept)]
        value = contract(
            c,
            value,
            tensors[n],
            _labelled(term, order, shape_of(value)),
            _labelled(terms[n], order, shape_of(tensors[n])),
            [extents[x] for x in order],
            len(order) - len(kept),
        )
        term = "".join(kept)
    if len(terms) == 1:
        order = [*output, *(x for x in dict.fromkeys(term) if x not in output)]
        value = c.wide(value)
        value = c.move(value, _labelled(term, order, shape_of(value)), [extents[x] for x in order])
        value = c.reduce("add", range(len(output), len(order)), value, hint="sum")
    return c.cast(value, c.element, c.hint)


def _labels(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """One letter per dimension of the operands and of the result; `...` becomes digits."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    hidden = [r - len(x) + 3 if "..." in x else 0 for x, r in zip(terms, ranks, strict=True)]
    digits = "0123456789"[: max(hidden)]
    terms = [
        x.replace("...", digits[len(digits) - h :]) for x, h in zip(terms, hidden, strict=True)
    ]
    if not arrow:
        joined = "".join(terms)
        single = [x for x in sorted(set(joined)) if joined.count(x) == 1 and x not in digits]
        return terms, digits + "".join(single)
    return terms, output.replace("...", digits)


def _labelled(term: str, order: Sequence[str], shape: Sequence[int]) -> list[Expr]:
    """For each label of `term` the axis of that label, which an extent of 1 does not follow."""
    return [
        fixed(0) if extent == 1 else dimension(order.index(label))
        for label, extent in zip(term, shape, strict=True)
    ]


@lower("_cdist_forward")
def distances(c: Lowering) -> Lowered:
    """Between all rows of two matrices."""
    left, right, p = c.tensor("x1"), c.tensor("x2"), c.number("p")
    shape = [*c.shape, shape_of(left)[-1]]
    *batch, row, column, k = dims(len(shape))
    a, b = (
        c.move(c.wide(v), [*batch[len(batch) - len(shape_of(v)) + 2 :], at, k], shape)
        for v, at in ((left, row), (right, column))
    )
    part, monoid, whole = NORMS.get(p) or _norm(p)
    parts = c.elementwise(lambda x, y: part(x - y), a, b, shape=shape, hint="part")
    return c.pointwise_wide(whole, c.reduce(monoid, [len(shape) - 1], parts, hint="sum"))


Norm: TypeAlias = tuple[Callable[[Scalar], Scalar], str, Callable[[Scalar], Scalar]]
"""What of each component is folded, with which monoid, and what is made of the fold."""

NORMS: dict[Number, Norm] = {
    0: (lambda d: d.is_nan().select(d, d.ne(0).to(d.element)), "add", lambda x: x),
    1: (lambda d: d.abs(), "add", lambda x: x),
    2: (lambda d: d * d, "add", sqrt),
    inf: (lambda d: d.abs(), "max", lambda x: x),
}


def _norm(p: Number) -> Norm:
    return lambda d: d.abs().pow(float(p)), "add", lambda x: x.pow(1.0 / p)

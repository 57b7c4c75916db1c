"""Folds over dimensions, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from operator import index

from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Attribute, SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.ir.sizes import Size, apply
from dlc.transforms.tensor.decompositions import scalar as s
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.scalar import Scalar, compute_type
from dlc.transforms.tensor.decompositions.types import dtype


def reduced_axes(c: Lowering, value: SSAValue, name: str = "dim") -> list[int]:
    """The dimensions that an argument names, in order; none named stands for all."""
    rank = len(shape_of(value))
    given = c.op.argument(name)
    if given is None or given == [] or rank == 0:
        return list(range(rank))
    return sorted({d % rank for d in c.integers(name)})


def count(value: SSAValue, axes: list[int]) -> int:
    """How many elements are folded into one."""
    return prod(shape_of(value)[d] for d in axes)


def finish(
    c: Lowering,
    value: SSAValue,
    function: Callable[[Scalar], Scalar] | None = None,
    result: int = 0,
) -> SSAValue:
    """
    The value of a reduction, with `function` applied and converted to the element type of one of
    the operation's results, in its shape (dimensions that were kept have the extent 1).
    """
    final = c.op.results[result]
    element = element_of(final)
    if function is not None:
        value = c.elementwise(function, value, element=element, shape=shape_of(value))
    return c.reshape(c.cast(value, element, final.name_hint), shape_of(final))


def total(c: Lowering, value: SSAValue, axes: list[int]) -> SSAValue:
    """The sum over `axes` in the type that the tensor is calculated in."""
    return c.reduce("add", axes, c.wide(value), hint="sum")


@lower("sum", "sum.dim_IntList")
def sum_(c: Lowering) -> Lowered:
    value = c.tensor()
    axes = reduced_axes(c, value)
    return finish(c, total(c, as_element(c, value, c.element), axes))


def as_element(c: Lowering, value: SSAValue, element: Attribute) -> SSAValue:
    """The tensor converted to `element` in the type which that is calculated in."""
    if element_of(value) == element or compute_type(element_of(value)) == element:
        return c.wide(value)
    return c.wide(c.cast(value, element))


@lower("mean", "mean.dim")
def mean(c: Lowering) -> Lowered:
    value = c.tensor()
    axes = reduced_axes(c, value)
    n = count(value, axes)
    return finish(c, total(c, as_element(c, value, c.element), axes), lambda x: x / n)


@lower("prod", "prod.dim_int")
def product(c: Lowering) -> Lowered:
    value = c.tensor()
    axes = reduced_axes(c, value)
    return finish(c, c.reduce("mul", axes, as_element(c, value, c.element), hint="product"))


def extreme(monoid: str) -> Callable[[Lowering], Lowered]:
    """The largest or smallest element."""

    def decomposition(c: Lowering) -> Lowered:
        value = c.tensor()
        return finish(c, c.reduce(monoid, reduced_axes(c, value), c.wide(value), hint=monoid))

    return decomposition


lower("amax", "max")(extreme("max"))
lower("amin", "min")(extreme("min"))


def _located(c: Lowering, monoid: str, value: SSAValue, axis: int) -> list[SSAValue]:
    """The best element along `axis` and its index there."""
    value = c.wide(value)
    places = c.iota(axis, shape_of(value))
    best = c.reduce(monoid, [axis], value, places, hint=monoid.removeprefix("arg"))
    return list(best.owner.results)  # pyright: ignore[reportAttributeAccessIssue]


def located(monoid: str) -> Callable[[Lowering], Lowered]:
    """The index of the best element along a dimension, or of the flattened tensor."""

    def decomposition(c: Lowering) -> Lowered:
        value = c.tensor()
        rank = len(shape_of(value))
        if rank == 0:
            return c.constant(0, c.shape, i64)
        if c.op.argument("dim") is None:
            value, axis = c.reshape(value, [prod(shape_of(value))]), 0
        else:
            axis = c.dim(rank)
        return finish(c, _located(c, monoid, value, axis)[1])

    return decomposition


def extreme_along(monoid: str) -> Callable[[Lowering], Lowered]:
    """The best element along a dimension, and its index; where no one asks for that, a fold that
    knows none."""

    def decomposition(c: Lowering) -> Lowered:
        value = c.tensor()
        if not shape_of(value):
            return [value, c.constant(0, (), i64)]
        axis = c.dim(len(shape_of(value)))
        if not c.op.results[1].uses:
            name = monoid.removeprefix("arg")
            best = finish(c, c.reduce(name, [axis], c.wide(value), hint=name), result=0)
            return [best, c.constant(0, shape_of(c.op.results[1]), i64)]
        best = _located(c, monoid, value, axis)
        return [finish(c, v, result=n) for n, v in enumerate(best)]

    return decomposition


for _name in ("max", "min"):
    lower(f"arg{_name}")(located(f"arg{_name}"))
    lower(f"{_name}.dim")(extreme_along(f"arg{_name}"))


def quantifier(monoid: str) -> Callable[[Lowering], Lowered]:
    """The decomposition of `all` or `any`, by its monoid."""

    def decomposition(c: Lowering) -> Lowered:
        value = c.tensor()
        axes = reduced_axes(c, value)
        return finish(c, c.reduce(monoid, axes, c.cast(value, i1), hint="found"))

    return decomposition


lower("all", "all.dim", "all.dims")(quantifier("and"))
lower("any", "any.dim", "any.dims")(quantifier("or"))


def moments(c: Lowering, value: SSAValue, axes: list[int]) -> tuple[SSAValue, SSAValue]:
    """The mean over `axes`, and the sum of the squares of the distances from it."""
    value, n = c.wide(value), count(value, axes)
    sums = total(c, value, axes)
    average = c.elementwise(lambda x: x / n, sums, shape=shape_of(sums), hint="mean")
    squares = c.elementwise(
        lambda x, m: (x - m) * (x - m),
        value,
        c.spread(average, axes, shape_of(value)),
        shape=shape_of(value),
        hint="square",
    )
    return average, c.reduce("add", axes, squares, hint="squares")


def _correction(c: Lowering) -> float:
    unbiased = c.op.argument("unbiased")
    if unbiased is not None:
        return 1.0 if unbiased else 0.0
    return float(c.number("correction", 1))


def _degrees(count: Size | int, correction: float) -> Size | float:
    """By what a sum of squares is divided."""
    if isinstance(count, Size) and correction.is_integer():
        return apply("max", count - int(correction), Size())
    return max(index(count) - correction, 0.0)


@lower(
    "var", "var.dim", "var.correction", "std", "std.dim", "std.correction",
    "var_mean", "var_mean.dim", "var_mean.correction",
    "std_mean", "std_mean.dim", "std_mean.correction",
)  # fmt: skip
def variance(c: Lowering) -> Lowered:
    value = c.tensor()
    axes = reduced_axes(c, value)
    degrees = _degrees(count(value, axes), _correction(c))
    average, squares = moments(c, value, axes)
    root = c.op.overload.data.startswith("std")
    spread = finish(c, squares, lambda x: s.sqrt(x / degrees) if root else x / degrees)
    return [spread, *(finish(c, average, result=1) for _ in c.op.results[1:])]


@lower("linalg_vector_norm", "norm.ScalarOpt_dim", "norm.Scalar")
def vector_norm(c: Lowering) -> Lowered:
    name = "ord" if c.op.overload.data.startswith("linalg") else "p"
    order = c.number(name, 2)
    value = as_element(c, c.tensor(), c.element)
    axes, shape = reduced_axes(c, value), shape_of(value)

    def fold(monoid: str, function: Callable[[Scalar], Scalar]) -> SSAValue:
        return c.reduce(monoid, axes, c.elementwise(function, value, shape=shape), hint="norm")

    if order in (inf, -inf):
        return finish(c, fold("max" if order > 0 else "min", lambda x: x.abs()))
    if order == 0:
        return finish(c, fold("add", lambda x: x.ne(0).to(x.element)))
    if order == 1:
        return finish(c, fold("add", lambda x: x.abs()))
    if order == 2:
        return finish(c, fold("add", lambda x: x * x), s.sqrt)
    sums = fold("add", lambda x: x.abs().pow(float(order)))
    return finish(c, sums, lambda x: x.pow(1.0 / order))


@lower("logsumexp")
def logsumexp(c: Lowering) -> Lowered:
    value = as_element(c, c.tensor(), c.element)
    return finish(c, log_of_sum(c, value, reduced_axes(c, value), c.hint, c.element))


def log_of_sum(
    c: Lowering,
    value: SSAValue,
    axes: list[int],
    hint: str | None = None,
    element: Attribute | None = None,
) -> SSAValue:
    """The logarithm of the sum of the exponentials over `axes`, converted to `element`."""
    shape = shape_of(value)
    largest = c.reduce("max", axes, value, hint="max")
    # An infinite maximum is no offset: inf - inf would be NaN.
    offset = c.elementwise(
        lambda m: m.abs().eq(inf).select(0.0, m), largest, shape=shape_of(largest), hint="max"
    )
    powers = c.elementwise(
        lambda x, m: s.exp(x - m), value, c.spread(offset, axes, shape), shape=shape, hint="exp"
    )
    sums = c.reduce("add", axes, powers, hint="sum")
    return c.elementwise(
        lambda x, m: s.log(x) + m, sums, offset, shape=shape_of(sums), element=element, hint=hint
    )


def _largest_along(c: Lowering, value: SSAValue, dim: int) -> SSAValue:
    """The largest element along `dim`, repeated along it; a scalar itself."""
    return _folded_along(c, "max", value, dim)


def _sum_along(c: Lowering, value: SSAValue, dim: int) -> SSAValue:
    """The sum along `dim`, repeated along it; a scalar itself."""
    return _folded_along(c, "add", value, dim)


def _folded_along(c: Lowering, monoid: str, value: SSAValue, dim: int) -> SSAValue:
    if not (shape := shape_of(value)):
        return value
    return c.spread(
        c.reduce(monoid, [dim], value, hint="max" if monoid == "max" else "sum"), [dim], shape
    )


def _softmax_input(c: Lowering) -> tuple[SSAValue, int]:
    """The tensor in the type that softmax is calculated in, and the dimension it goes along."""
    value = c.tensor()
    asked = dtype(c.op.argument("dtype"), element_of(value))
    return c.wide(c.cast(value, asked)), c.dim(len(shape_of(value)))


@lower("softmax.int", "_softmax")
def softmax(c: Lowering) -> Lowered:
    value, dim = _softmax_input(c)
    largest = _largest_along(c, value, dim)
    powers = c.elementwise(
        lambda x, m: s.exp(x - m), value, largest, shape=shape_of(value), hint="exp"
    )
    return c.pointwise_wide(lambda x, t: x / t, powers, _sum_along(c, powers, dim))


@lower("_safe_softmax")
def safe_softmax_op(c: Lowering) -> Lowered:
    value, dim = _softmax_input(c)
    return c.cast(safe_softmax(c, value, dim), c.element, c.hint)


def safe_softmax(c: Lowering, value: SSAValue, dim: int) -> SSAValue:
    """Softmax along `dim` that is 0 in rows whose elements are all -inf; not yet rounded."""
    shape, largest = shape_of(value), _largest_along(c, value, dim)
    powers = c.elementwise(lambda x, m: s.exp(x - m), value, largest, shape=shape, hint="exp")
    return c.elementwise(
        lambda x, t, m: m.eq(-inf).select(0.0, x / t),
        powers,
        _sum_along(c, powers, dim),
        largest,
        shape=shape,
        hint="softmax",
    )


@lower("log_softmax.int", "_log_softmax")
def log_softmax(c: Lowering) -> Lowered:
    value, dim = _softmax_input(c)
    shape, largest = shape_of(value), _largest_along(c, value, dim)
    shifted = c.elementwise(lambda x, m: x - m, value, largest, shape=shape, hint="shifted")
    powers = c.elementwise(s.exp, shifted, shape=shape, hint="exp")
    return c.pointwise_wide(lambda x, t: x - s.log(t), shifted, _sum_along(c, powers, dim))

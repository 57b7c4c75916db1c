"""Normalizations: by the moments of rows, groups, channels, or of a whole training set."""

from __future__ import annotations

from xdsl.ir import SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.ir.elements import element
from dlc.transforms.tensor.decompositions import scalar as s
from dlc.transforms.tensor.decompositions.builder import refuse
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.reductions import count, finish, moments, total
from dlc.transforms.tensor.decompositions.scalar import Scalar, compute_type


def normalized(
    c: Lowering, value: SSAValue, axes: list[int], eps: float
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """
    `(x - mean) * rstd` over `axes`, in the type that is calculated in, and `mean` and
    `rstd = 1 / sqrt(variance + eps)`, which lack these axes.
    """
    shape, n = shape_of(value), count(value, axes)
    value = c.wide(value)
    average, squares = moments(c, value, axes)
    scale = c.elementwise(
        lambda x: s.rsqrt(x / n + eps), squares, shape=shape_of(squares), hint="rstd"
    )
    centered = c.elementwise(
        lambda x, m, r: (x - m) * r,
        value,
        c.spread(average, axes, shape),
        c.spread(scale, axes, shape),
        shape=shape,
        hint="normalized",
    )
    return centered, average, scale


def affine(
    c: Lowering, value: SSAValue, weight: SSAValue | None, bias: SSAValue | None
) -> SSAValue:
    """`value * weight + bias`, the operation's result; both broadcast, and may be missing."""

    def function(x: Scalar, *rest: Scalar) -> Scalar:
        factors = iter(rest)
        x = x if weight is None else x * next(factors)
        return x if bias is None else x + next(factors)

    return c.pointwise_wide(function, value, *(v for v in (weight, bias) if v is not None))


def _last_axes(c: Lowering, value: SSAValue) -> list[int]:
    rank = len(shape_of(value))
    given = c.op.argument("normalized_shape")
    return list(range(rank - (len(given) if isinstance(given, list) else 1), rank))


@lower("rms_norm")
def rms_norm(c: Lowering) -> Lowered:
    source, weight = c.tensor("input"), c.op.operand("weight")
    given = c.optional_number("eps")
    # As eager has it: of f32 for f16 and bf16, too.
    eps = element(compute_type(element_of(source))).epsilon if given is None else given
    value, axes = c.wide(source), _last_axes(c, source)
    shape, n = shape_of(value), count(value, axes)
    squares = c.elementwise(lambda x: x * x, value, shape=shape, hint="square")
    sums = total(c, squares, axes)
    scale = c.elementwise(lambda x: s.rsqrt(x / n + eps), sums, shape=shape_of(sums), hint="rms")
    scale = c.spread(scale, axes, shape)
    if weight is None:
        return c.pointwise_wide(lambda x, r: x * r, value, scale)
    return c.pointwise_wide(lambda x, r, w: x * r * w, value, scale, weight)


@lower("layer_norm", "native_layer_norm")
def layer_norm(c: Lowering) -> Lowered:
    value = c.tensor("input")
    eps = float(c.number("eps", 1e-5))
    centered, *statistics = normalized(c, value, _last_axes(c, value), eps)
    result = affine(c, centered, c.op.operand("weight"), c.op.operand("bias"))
    rest = [finish(c, v, result=n) for n, v in enumerate(statistics, 1) if n < len(c.op.results)]
    return [result, *rest]


def _channels(c: Lowering, value: SSAValue | None, rank: int) -> SSAValue | None:
    """A tensor with an element per channel, to be broadcast along batch and space."""
    if value is None:
        return None
    return c.reshape(value, [shape_of(value)[0], *(1 for _ in range(rank - 2))])


@lower("group_norm", "native_group_norm")
def group_norm(c: Lowering) -> Lowered:
    value = c.tensor("input")
    shape = shape_of(value)
    native = c.op.overload.data.startswith("native")
    groups = c.integer("group" if native else "num_groups")
    split = [shape[0], groups, shape[1] // groups, *shape[2:]]
    eps = float(c.number("eps", 1e-5))
    axes = list(range(2, len(split)))
    centered, *statistics = normalized(c, c.reshape(c.wide(value), split), axes, eps)
    weight, bias = (_channels(c, c.op.operand(n), len(shape)) for n in ("weight", "bias"))
    result = affine(c, c.reshape(centered, shape), weight, bias)
    rest = [finish(c, v, result=n) for n, v in enumerate(statistics, 1) if n < len(c.op.results)]
    return [result, *rest]


@lower("_native_batch_norm_legit_no_training", "batch_norm")
def batch_norm(c: Lowering) -> Lowered:
    if c.flag("training"):
        refuse("it updates statistics in training; call the module's eval() first")
    value, rank = c.tensor("input"), len(c.shape)
    eps = float(c.number("eps", 1e-5))
    variance, mean = c.tensor("running_var"), c.tensor("running_mean")
    scale = c.elementwise(
        lambda v: 1.0 / s.sqrt(v + eps), c.wide(variance), shape=shape_of(variance), hint="rstd"
    )
    channels = [_channels(c, v, rank) for v in (mean, scale)]
    centered = c.elementwise(
        lambda x, m, r: (x - m) * r,
        *(c.wide(v) for v in (value, *channels) if v is not None),
        hint="normalized",
    )
    weight, bias = (_channels(c, c.op.operand(n), rank) for n in ("weight", "bias"))
    # What training would save is empty in evaluation.
    empty = [c.constant(0, shape_of(r), element_of(r)) for r in c.op.results[1:]]
    return [affine(c, centered, weight, bias), *empty]


@lower("instance_norm")
def instance_norm(c: Lowering) -> Lowered:
    value, rank = c.tensor("input"), len(c.shape)
    if not c.flag("use_input_stats"):
        return batch_norm(c)
    if c.op.operand("running_mean") is not None:
        refuse("it updates statistics in training; call the module's eval() first")
    centered, _, _ = normalized(c, value, list(range(2, rank)), float(c.number("eps", 1e-5)))
    weight, bias = (_channels(c, c.op.operand(n), rank) for n in ("weight", "bias"))
    return affine(c, centered, weight, bias)

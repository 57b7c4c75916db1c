"""Activation functions with parameters, and dropout, which does nothing in evaluation."""

from __future__ import annotations

from math import pi
from math import sqrt as square_root

from xdsl.dialects.builtin import i1

from dlc.dialects.tensor_ir import shape_of
from dlc.transforms.decompositions import scalar as s
from dlc.transforms.decompositions.lowering import Lowered, Lowering, lower, refuse
from dlc.transforms.decompositions.pointwise import scaled
from dlc.transforms.decompositions.scalar import Number, Scalar


@lower("gelu")
def gelu(c: Lowering) -> Lowered:
    def exact(x: Scalar) -> Scalar:
        return x * 0.5 * (s.erf(x * square_root(0.5)) + 1.0)

    def by_tanh(x: Scalar) -> Scalar:
        inner = (x + x * x * x * 0.044715) * square_root(2 / pi)
        return x * 0.5 * (s.tanh(inner) + 1.0)

    form = c.op.argument("approximate", "none")
    return c.pointwise(exact if form == "none" else by_tanh, c.tensor())


@lower("leaky_relu")
def leaky_relu(c: Lowering) -> Lowered:
    slope = c.number("negative_slope", 0.01)
    return c.pointwise(lambda x: (x > 0).select(x, x * slope), c.tensor())


@lower("prelu")
def prelu(c: Lowering) -> Lowered:
    weight = c.tensor("weight")
    if shape_of(weight) and len(c.shape) > 1:
        weight = c.reshape(weight, [shape_of(weight)[0], *(1 for _ in c.shape[2:])])
    return c.pointwise(lambda x, w: (x > 0).select(x, x * w), c.tensor(), weight)


def _elu(c: Lowering, alpha: Number, scale: Number, input_scale: Number) -> Lowered:
    return c.pointwise(
        lambda x: (x > 0).select(
            scaled(x, scale), s.expm1(scaled(x, input_scale)) * (alpha * scale)
        ),
        c.tensor(),
    )


@lower("elu")
def elu(c: Lowering) -> Lowered:
    return _elu(c, c.number("alpha", 1), c.number("scale", 1), c.number("input_scale", 1))


@lower("selu")
def selu(c: Lowering) -> Lowered:
    return _elu(c, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1)


@lower("celu")
def celu(c: Lowering) -> Lowered:
    alpha = c.number("alpha", 1.0)
    return _elu(c, alpha, 1, 1 / alpha)


@lower("softplus")
def softplus(c: Lowering) -> Lowered:
    beta, threshold = c.number("beta", 1), c.number("threshold", 20)

    def function(x: Scalar) -> Scalar:
        argument = scaled(x, beta)
        soft = s.log1p(s.exp(argument))
        return (argument > threshold).select(x, soft if beta == 1 else soft / beta)

    return c.pointwise(function, c.tensor())


@lower("threshold")
def threshold(c: Lowering) -> Lowered:
    limit, value = c.number("threshold"), c.number("value")
    return c.pointwise(lambda x: (x <= limit).select(value, x), c.tensor())


@lower("dropout", "native_dropout", "feature_dropout", "alpha_dropout", "rrelu")
def dropout(c: Lowering) -> Lowered:
    if c.op.overload.data == "rrelu.default":
        if c.flag("training"):
            refuse("it draws random numbers; call the module's eval() first")
        slope = (c.number("lower", 1 / 8) + c.number("upper", 1 / 3)) / 2
        return c.pointwise(lambda x: (x >= 0).select(x, x * slope), c.tensor())
    probability = c.number("p", 0.0)
    if probability != 0 and c.flag("train", True):
        refuse("it draws random numbers; call the module's eval() first")
    value = c.tensor("input")
    rest = [c.constant(True, c.shape, i1) for _ in c.op.results[1:]]
    return [value, *rest]

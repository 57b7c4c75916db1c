"""Activation functions with parameters, and dropout, which does nothing in evaluation."""

from __future__ import annotations

from math import pi
from math import sqrt as square_root

from xdsl.dialects.builtin import i1

from dlc.transforms.tensor.decompositions import scalar as s
from dlc.transforms.tensor.decompositions.builder import refuse
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.pointwise import scaled
from dlc.transforms.tensor.decompositions.scalar import Number, Scalar


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


@lower("softplus")
def softplus(c: Lowering) -> Lowered:
    beta, threshold = c.number("beta", 1), c.number("threshold", 20)

    def function(x: Scalar) -> Scalar:
        argument = scaled(x, beta)
        soft = s.log1p(s.exp(argument))
        return (argument > threshold).select(x, soft if beta == 1 else soft / beta)

    return c.pointwise(function, c.tensor())


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

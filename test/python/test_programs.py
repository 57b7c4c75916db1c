"""Programs that users write, at awkward shapes and values, on the host against fp64 and eager."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf, nan, sqrt
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_leaves

import dlc
from dlc.accuracy import compare
from dlc.diagnostics import OpError
from dlc.frontend.capture import capture_text
from dlc.frontend.fx import import_program
from dlc.frontend.source import ImportFailure
from dlc.reference import evaluate

SPECIAL = torch.tensor(
    [nan, inf, -inf, 0.0, -0.0, 1.0, -1.5, 2.5, 3.5, -2.5, 1e30, -1e-30, 88.9, -104.0, 0.5]
)
LEFT, RIGHT = SPECIAL.repeat(15), SPECIAL.repeat_interleave(15)

Case = tuple[Callable[..., Any], tuple[Any, ...]]
CASES: dict[str, Case] = {}


def case(name: str, function: Callable[..., Any], *args: Any) -> None:
    """Adds a program; its inputs are made under one seed for all, in the order of the table."""
    assert name not in CASES
    CASES[name] = function, args


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=GENERATOR)


def integers(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=GENERATOR, dtype=dtype)


GENERATOR = torch.Generator().manual_seed(0)


# Elementwise.

UNARY = (
    "abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt tanh sigmoid relu floor ceil round "
    "trunc frac sign reciprocal erf square isnan isinf isfinite logical_not"
).split()
case("unary", lambda x: [getattr(torch, name)(x) for name in UNARY], SPECIAL)
case("trigonometry", lambda x: (x.sin(), x.cos(), x.tan()), normal(3, 7))


def activations(x: torch.Tensor) -> list[torch.Tensor]:
    return [
        F.silu(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.elu(x), F.selu(x), F.celu(x, 0.7),
        F.relu6(x), F.hardtanh(x, -0.3, 0.4), F.hardswish(x), F.hardsigmoid(x), F.mish(x),
        F.softplus(x, 2, 3.0), F.leaky_relu(x, 0.2), F.logsigmoid(x), F.threshold(x, 0.1, 7.0),
    ]  # fmt: skip


case("activations", activations, normal(7, 13))
case("activations of special numbers", activations, SPECIAL)
case(
    "binary",
    lambda x, y: (x + y, x - y, x * y, x / y, torch.maximum(x, y), torch.minimum(x, y)),
    LEFT, RIGHT,
)  # fmt: skip
case("comparisons", lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y), LEFT, RIGHT)
case(
    "divisions",
    lambda x, y: (torch.div(x, y, rounding_mode="floor"), torch.div(x, y, rounding_mode="trunc")),
    LEFT, RIGHT,
)  # fmt: skip
case("powers", lambda x, y: (x**y, x**2, x**3, x**0.5, x**-1, x**-0.5, 2**x, x**0), LEFT, RIGHT)
case(
    "clamps",
    lambda x, y: (x.clamp(-1, 1), x.clamp(min=0), x.clamp(y, y + 1), torch.clip(x, 1, -1)),
    LEFT, RIGHT,
)  # fmt: skip
case("nan_to_num", lambda x: (x.nan_to_num(), x.nan_to_num(1, 2, 3)), SPECIAL)
case(
    "broadcasting",
    lambda x, y, w: (torch.lerp(x, y, w), torch.addcmul(x, y, w, value=0.5), x + y * w),
    normal(5, 3), normal(3), normal(5, 1),
)  # fmt: skip
case(
    "where",
    lambda m, x, y: (torch.where(m, x, y), x.masked_fill(m, -inf), torch.where(m, 1.0, x)),
    normal(5, 7) > 0, normal(7), normal(5, 1),
)  # fmt: skip


# Integers and booleans.

case(
    "integers",
    lambda x, y: (
        x + y, x - y, x * y, x // y, x % y, x.fmod(y), torch.div(x, y, rounding_mode="trunc"),
        x / y, -x, x.abs(), x**2, x & y, x | y, x ^ y, ~x, x << 2, x >> 1, x == y,
    ),
    integers(-9, 9, 5, 7), torch.tensor([1, -1, 3, -4, 2, 5, -2]),
)  # fmt: skip
case(
    "the least integer by -1",
    lambda x, y: (x * y, -x, x + y, x % y),
    torch.tensor([-(2**63), 5, 2**63 - 1]), torch.tensor([-1, -1, 3]),
)  # fmt: skip
case(
    "mixed types",
    lambda x, y, z, u: (x + y, y * z, u + x, u * z, u / x, u - 1, (u > 3) & (x > 0), x + 1.5),
    integers(1, 9, 5, dtype=torch.int32), integers(1, 5, 5),
    integers(-100, 100, 5, dtype=torch.int8), integers(0, 255, 5, dtype=torch.uint8),
)  # fmt: skip
case(
    "unsigned bytes",
    lambda u, v: (
        u + v, u - v, u * v, u // (v | 1), u % (v | 1), u > v, u.float(), u.long(), u.max(),
        u.sum(), u.amin(), ~u, u >> 1, u.to(torch.int8), u.argmax(), u.clamp(3, 200),
    ),
    integers(0, 256, 37, dtype=torch.uint8), integers(0, 256, 37, dtype=torch.uint8),
)  # fmt: skip
case(
    "booleans",
    lambda a, b: (
        a & b, a | b, a ^ b, ~a, a + b, a * b, a.sum(0), a.any(1), a.all(0, keepdim=True),
        a.float().mean(), a.int(), a == b, a < b, a.max(),
    ),
    normal(5, 7) > 0, normal(5, 7) > 0,
)  # fmt: skip
case("casts", lambda x: (x.to(torch.int8), x.int(), x.long(), x.bool(), x.double()), normal(33))
case("float64", lambda x, y: (x @ y.t(), F.softmax(x, -1)), *normal(2, 7, 13).double())


# Reductions.


def reductions(x: torch.Tensor) -> list[torch.Tensor]:
    return [
        x.sum(), x.sum(0), x.sum((0, 2)), x.sum(-1, keepdim=True), x.mean((1, 2), keepdim=True),
        x.prod(1), x.amax((0, 2)), x.amin(1, True), x.var((0, 2), correction=0), x.norm(dim=1),
        x.logsumexp(-1), x.argmax(), x.argmax(1), x.argmin(-1, keepdim=True), x.any(1), x.all(),
        x.count_nonzero(), x.max(), *x.max(1), *x.min(0, keepdim=True),
    ]  # fmt: skip


ROWS = torch.stack([torch.full_like(SPECIAL, value) for value in (inf, -inf, nan, 0.0)])
case("reductions", reductions, normal(5, 7, 3))
case("reductions of one point", reductions, normal(1, 1, 1))
case(
    "reductions of special numbers",
    lambda x: (
        x.sum(0), x.amax(0), x.amin(0), x.argmax(0), x.argmin(0), x.logsumexp(0), x.any(0),
        x.all(0), x.prod(0), x.nansum(0), F.softmax(x, 0), F.log_softmax(x, 0),
    ),
    torch.cat([SPECIAL[None], ROWS, normal(1, 15)]),
)  # fmt: skip
case(
    "reductions of nothing",
    lambda x: (
        x.sum(), x.sum(0), x.sum(1), x.mean(0), x.prod(0), x.any(0), x.all(0), x.logsumexp(0),
        F.softmax(x, 0), F.softmax(x, 1), x.sum((0, 1), keepdim=True), x.norm(),
    ),
    normal(0, 3),
)  # fmt: skip
case(
    "long rows",
    lambda x: (x.sum(), x.amax(), x.softmax(0), x.argmax()),
    normal(15101),
)
case("long columns", lambda x: (x.sum(0), x.var(0), x.softmax(0)), normal(1511, 3))
case("ties", lambda x: (x.argmax(1), x.argmin(1), x.argmax()), integers(0, 3, 11, 37).float())
case(
    "scalars",
    lambda x, y: (
        x + y, x.sum(), x.sum(0), x.amax(-1), x.exp(), x.reshape(1), x.expand(3), F.softmax(x, 0),
        x.argmax(), x.max(), x[None] @ y[None], torch.stack([x, y]), x > y, x.any(),
    ),
    normal(), normal(),
)  # fmt: skip


# Normalization.

case(
    "norms",
    lambda x, w, b: (
        F.layer_norm(x, (13,), w, b), F.layer_norm(x, (7, 13)), F.rms_norm(x, (13,), w),
        F.normalize(x, dim=-1), F.group_norm(x, 3), F.instance_norm(x),
    ),
    normal(3, 6, 13)[:, :, :].repeat(1, 2, 1)[:, :7].repeat(1, 3, 1)[:, :21].view(9, 7, 13)
    .repeat(1, 3, 1)[:, :21].view(27, 7, 13)[:3].repeat(1, 3, 1)[:, :21].view(9, 7, 13)[:3]
    .repeat_interleave(3, 1)[:, ::3],
    normal(13), normal(13),
) if False else None  # fmt: skip

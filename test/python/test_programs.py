"""Programs that users write, at awkward shapes and values, on the host against fp64."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from math import inf, nan, sqrt
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from expected import judge, rounded
from torch import nn
from torch.utils._pytree import tree_leaves
from xdsl.context import Context

import dlc
from dlc.backend.executor import Executor, get_backend
from dlc.diagnostics import OpError, TextError
from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts.capture import capture_text
from dlc.frontend.source import ImportFailure
from dlc.ir.locations import LocParser
from dlc.judge.reference import evaluate
from dlc.pipeline import run_pipeline
from dlc.registry import register

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


# Elementwise. Results are stacked, so that many operations are one kernel.

UNARY = (
    "abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt tanh sigmoid relu floor ceil round "
    "trunc frac sign reciprocal erf square"
).split()
TESTS = "isnan isinf isfinite logical_not".split()


def unary(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([getattr(torch, name)(x) for name in UNARY])


def activations(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([
        F.silu(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.elu(x), F.selu(x), F.celu(x, 0.7),
        F.relu6(x), F.hardtanh(x, -0.3, 0.4), F.hardswish(x), F.hardsigmoid(x), F.mish(x),
        F.softplus(x, 2, 3.0), F.leaky_relu(x, 0.2), F.logsigmoid(x), F.threshold(x, 0.1, 7.0),
    ])  # fmt: skip


def binary(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.stack([
        x + y, x - y, x * y, x / y, torch.maximum(x, y), torch.minimum(x, y),
        torch.div(x, y, rounding_mode="floor"), torch.div(x, y, rounding_mode="trunc"),
        x**y, x**2, x**3, x**0.5, x**-1, x**-0.5, 2**x, x**0,
        x.clamp(-1, 1), x.clamp(min=0), x.clamp(y, y + 1), torch.clip(x, 1, -1),
        x.nan_to_num(), x.nan_to_num(1, 2, 3),
    ])  # fmt: skip


case("unary", unary, normal(3, 5).abs())
case("unary of special numbers", unary, SPECIAL)
case("tests", lambda x: torch.stack([getattr(torch, name)(x) for name in TESTS]), SPECIAL)
case("trigonometry", lambda x: torch.stack([x.sin(), x.cos(), x.tan()]), normal(3, 7))
case("activations", activations, normal(7, 13))
case("activations of special numbers", activations, SPECIAL)
case("binary", binary, normal(3, 7).abs(), normal(3, 7))
case("binary of special numbers", binary, LEFT, RIGHT)
case(
    "comparisons",
    lambda x, y: torch.stack([x == y, x != y, x < y, x <= y, x > y, x >= y]),
    LEFT, RIGHT,
)  # fmt: skip
case(
    "broadcasting",
    lambda x, y, w: torch.stack([torch.lerp(x, y, w), torch.addcmul(x, y, w, value=0.5)]),
    normal(5, 3), normal(3), normal(5, 1),
)  # fmt: skip
case(
    "where",
    lambda m, x, y: torch.stack([torch.where(m, x, y), x.masked_fill(m, -inf)]),
    normal(5, 7) > 0, normal(7), normal(5, 1),
)  # fmt: skip


# Integers and booleans.

case(
    "integers",
    lambda x, y: torch.stack([
        x + y, x - y, x * y, x // y, x % y, x.fmod(y), torch.div(x, y, rounding_mode="trunc"),
        -x, x.abs(), x**2, x & y, x | y, x ^ y, ~x, x << 2, x >> 1,
    ]),
    integers(-9, 9, 7), torch.tensor([1, -1, 3, -4, 2, 5, -2]),
)  # fmt: skip
case(
    "the least integer by -1",
    lambda x, y: torch.stack([x * y, -x, x + y, x % y]),
    torch.tensor([-(2**63), 5, 2**63 - 1]), torch.tensor([-1, -1, 3]),
)  # fmt: skip
case(
    "mixed types",
    lambda x, y, z, u: (x + y * z, (u + x).float() + u / x, u - 1, (u > 3) & (x > 0)),
    integers(1, 9, 5, dtype=torch.int32), integers(1, 5, 5),
    integers(-100, 100, 5, dtype=torch.int8), integers(0, 255, 5, dtype=torch.uint8),
)  # fmt: skip
case(
    "unsigned bytes",
    lambda u, v: (
        torch.stack([u + v, u - v, u * v, u // (v | 1), u % (v | 1), ~u, u >> 1, u.clamp(3, 200)]),
        torch.cat([u > v, u]), u.max(), u.sum(), u.to(torch.int8), u.argmax(),
    ),
    integers(0, 256, 37, dtype=torch.uint8), integers(0, 256, 37, dtype=torch.uint8),
)  # fmt: skip
case(
    "booleans",
    lambda a, b: (
        torch.stack([a & b, a | b, a ^ b, ~a, a + b, a * b, a == b, a < b]),
        a.sum(0), a.any(1), a.all(0, keepdim=True), a.float().mean(), a.max(),
    ),
    normal(5, 7) > 0, normal(5, 7) > 0,
)  # fmt: skip
case("casts", lambda x: (x.to(torch.int8), x.int(), x.long(), x.bool(), x.double()), normal(33))
case("float64", lambda x, y: (x @ y.t(), F.softmax(x, -1)), *normal(2, 7, 13).double())


# Reductions.


def reductions(x: torch.Tensor) -> list[torch.Tensor]:
    return [
        x.sum(), x.sum((0, 2)), x.mean((1, 2), keepdim=True), x.prod(1), x.amax((0, 2)),
        x.amin(1, True), x.var((0, 2), correction=0), x.norm(dim=1), x.logsumexp(-1), x.argmax(),
        x.argmin(-1, keepdim=True), x.any(1), x.count_nonzero(), *x.max(1),
    ]  # fmt: skip


ROWS = torch.stack([torch.full_like(SPECIAL, value) for value in (inf, -inf, nan, 0.0)])
case("reductions", reductions, normal(5, 7, 3))
case("reductions of one point", lambda x: (x.sum(0), x.amax(), x.argmax(-1)), normal(1, 1))
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
        x.sum(), x.sum(1), x.mean(0), x.prod(0), x.all(0), x.logsumexp(0), F.softmax(x, 0),
        F.softmax(x, 1), x.sum((0, 1), keepdim=True),
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
        x + y, x.sum(0), x.reshape(1), x.expand(3), F.softmax(x, 0), x.argmax(), x[None] @ y[None],
        torch.stack([x, y]), x > y,
    ),
    normal(), normal(),
)  # fmt: skip


# Normalization.

case(
    "norms",
    lambda x, w, b: (
        F.layer_norm(x, (13,), w, b), F.layer_norm(x, (6, 13)), F.rms_norm(x, (13,), w),
        F.normalize(x, dim=-1), F.group_norm(x, 3), F.instance_norm(x),
    ),
    normal(3, 6, 13), normal(13), normal(13),
)  # fmt: skip
case(
    "softmaxes",
    lambda x: (F.softmax(x, 0), F.log_softmax(x, 1), F.softmax(x * 1000, -1)),
    normal(3, 7, 13),
)
case("batch norm", nn.BatchNorm2d(6).eval(), normal(2, 6, 5, 7))
case(
    "layer norm by hand",
    lambda x, w, b: (
        (x - x.mean(-1, keepdim=True))
        / torch.sqrt(((x - x.mean(-1, keepdim=True)) ** 2).mean(-1, keepdim=True) + 1e-5)
        * w + b
    ),
    normal(5, 127), normal(127), normal(127),
)  # fmt: skip


# Products.

case(
    "products",
    lambda a, b, v: (a @ b, a @ v, a[0] @ b, a[0] @ v, torch.outer(v, v)),
    normal(7, 13), normal(13, 5), normal(13),
)  # fmt: skip
case(
    "batched products",
    lambda a, b, v: (a @ b[0], a[0] @ b, a @ v, v @ b, torch.bmm(a, b)),
    normal(3, 7, 13), normal(3, 13, 5), normal(13),
)  # fmt: skip
case("broadcast products", lambda a, b: a @ b, normal(3, 1, 7, 13), normal(4, 13, 5))
case("transposed products", lambda a, b: (a.t() @ b.t(), b @ a), normal(13, 7), normal(5, 13))
case("product of primes", lambda a, b: F.relu(a @ b), normal(127, 131), normal(131, 113))
case("product of one", lambda a, b: a @ b, normal(1, 1), normal(1, 1))
case("product over nothing", lambda a, b: (a @ b, F.linear(a, b.t())), normal(3, 0), normal(0, 5))
case("product of no rows", lambda a, b: a @ b, normal(0, 3), normal(3, 5))
case("product of integers", lambda a, b: a @ b, integers(-9, 9, 5, 7), integers(-9, 9, 7, 3))
case(
    "product with infinities",
    lambda a, b: a @ b,
    normal(37, 29).masked_fill(normal(37, 29) > 1.5, inf),
    normal(29, 41).masked_fill(normal(29, 41) > 1.5, 0.0),
)
case(
    "linear",
    lambda x, w, b: (F.linear(x, w, b), F.linear(x, w), F.linear(x[0, 0], w, b)),
    normal(3, 7, 13), normal(5, 13), normal(5),
)  # fmt: skip
case(
    "sums of products",
    lambda x, a, b: (torch.addmm(x, a, b, beta=0.5, alpha=2), torch.addmv(x[:, 0], a, b[:, 0])),
    normal(7, 5), normal(7, 13), normal(13, 5),
)  # fmt: skip
case(
    "einsum",
    lambda a, b: (
        torch.einsum("bij,bjk->bik", a, b), torch.einsum("bij->ij", a),
        torch.einsum("bij,bkj->bik", a, a), torch.einsum("bii->bi", a[:, :, :7]),
    ),
    normal(3, 7, 13), normal(3, 13, 5),
)  # fmt: skip
case("misaligned product", lambda a, b: a @ b, normal(33 * 64 + 1)[1:].view(33, 64),
     normal(64 * 48 + 1)[1:].view(64, 48))  # fmt: skip


# Moves.

case(
    "cat",
    lambda a, b: (
        torch.cat([a, a[:0], b]), torch.stack([a[0], b[0]], 1), torch.cat([a, b, a]).sum(0),
        torch.cat([a.t(), b.t()], -1).exp(),
    ),
    normal(3, 7), normal(5, 7),
)  # fmt: skip
case("cat of types", lambda a, b: torch.cat([a, b]), normal(3), integers(0, 5, 4))
case(
    "split",
    lambda a: [*a.split(3, 1), *a.unbind(0), *(t + 1 for t in (a * 2).split([2, 5, 6], 1))],
    normal(3, 13),
)
case(
    "pad",
    lambda a: (
        F.pad(a, (1, 2)), F.pad(a, (1, 2, 3, 0), value=-1.5), F.pad(a, (-1, 2)),
        F.pad(a[None], (2, 3), mode="reflect"), F.pad(a[None], (2, 3), mode="circular"),
    ),
    normal(5, 7),
)  # fmt: skip
case(
    "turns",
    lambda a: (a.roll(2, 1), a.roll(-3), a.roll((1, 2), (0, 1)), a.flip(0, 1), a.rot90()),
    normal(5, 7),
)
case(
    "triangles",
    lambda a: (a.tril(), a.triu(2), a.t().tril(-1), a.diagonal(), torch.diag_embed(a), a.trace()),
    normal(5, 7),
)
case(
    "slices",
    lambda a: (
        a[1:], a[:, ::2], a[..., 0], a[-1], a[:, None], a[2:2], a[1:4, ::3] * 2, a[:, 1:].sum(1),
        a.narrow(1, 2, 3) + a[1:4:2, -3:].sum(),
    ),
    normal(5, 7),
)  # fmt: skip
case(
    "reshapes",
    lambda a: (
        a.permute(2, 0, 1).reshape(-1, 7) + 1, a.reshape(21, 5).t() * 2, a.transpose(0, 2) + 0,
        a.flatten(1).unflatten(1, (7, 5)).sum(1), a.movedim(0, 2).flatten()[::3].exp(),
        a.repeat(2, 1, 2), a.repeat_interleave(2, 0), a.unfold(2, 2, 1).sum(-1),
    ),
    normal(3, 5, 7),
)  # fmt: skip


def assigned(a: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    b = a.clone()
    b[1] = v
    b[:, 2:5:2] = 0
    b[-1, -1] += 3
    return b


case("assignments", assigned, normal(5, 7), normal(7))
case(
    "strides",
    lambda a, b, e, m: (a + b, a @ b.t(), e * a, e.sum(0), m.softmax(0), (a * 2).sum(1)),
    normal(7, 5).t(), normal(5, 14)[:, ::2], normal(7).expand(5, 7), normal(36)[1:],
)  # fmt: skip


# Indices.

case(
    "embedding",
    lambda i, w: (F.embedding(i, w), F.embedding(i, w).sum(1), w[i], F.embedding(i, w) @ w.t()),
    integers(0, 11, 3, 5), normal(11, 7),
)  # fmt: skip
case(
    "indices",
    lambda a, i, j: (
        a.gather(1, i), a.take_along_dim(i, 1), a[j], a[:, j], a[j, j], a[j - 3], a[j[:, None], j],
        a.index_select(0, j), F.one_hot(j, 7),
    ),
    normal(5, 7), integers(0, 7, 5, 4), integers(0, 5, 3),
)  # fmt: skip
case("best", lambda a: a.gather(1, a.argmax(1, keepdim=True)), normal(5, 7))


# Attention.

case(
    "attention",
    lambda q, k, v, m: (
        F.scaled_dot_product_attention(q, k, v, m), F.scaled_dot_product_attention(q, k, v, m > 0),
        F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
    ),
    normal(2, 3, 7, 5), normal(2, 3, 11, 5), normal(2, 3, 11, 4), normal(7, 11),
)  # fmt: skip
case(
    "attention of grouped heads",
    lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True),
    normal(2, 4, 7, 5), normal(2, 2, 7, 5),
)  # fmt: skip
case(
    "attention to nothing",
    lambda q: F.scaled_dot_product_attention(q, q, q, torch.ones(7, 7).tril(-3) > 0),
    normal(3, 7, 5),
)
case(
    "attention by hand",
    lambda q, k: torch.softmax(q @ k.mT / sqrt(5) + torch.full((7, 7), -inf).triu(1), -1) @ k,
    normal(2, 3, 7, 5), normal(2, 3, 7, 5),
)  # fmt: skip
case("multi-head attention", nn.MultiheadAttention(12, 3, batch_first=True).eval(),
     *[normal(2, 5, 12)] * 3)  # fmt: skip


def angles(rows: int, columns: int) -> torch.Tensor:
    frequencies = 1.0 / 10000 ** (torch.arange(0, columns, 2) / columns)
    return torch.outer(torch.arange(rows).float(), frequencies)


def turned_halves(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    angle = angles(*x.shape[-2:]).repeat(1, 2)
    return x * angle.cos() + torch.cat((-x[..., half:], x[..., :half]), -1) * angle.sin()


def turned_pairs(x: torch.Tensor) -> torch.Tensor:
    cos, sin = angles(*x.shape[-2:]).cos(), angles(*x.shape[-2:]).sin()
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


case("rotary halves", turned_halves, normal(2, 3, 7, 10))
case("rotary pairs", turned_pairs, normal(2, 3, 7, 10))


# Outputs.

case(
    "inputs and views as outputs",
    lambda x: (
        x, x.t(), x[1:], x.view(-1), x.clone(), x.detach(), x.contiguous(), x.reshape(-1), x + 0,
        x.expand(2, 5, 7), *torch.broadcast_tensors(x[0], x),
    ),
    normal(5, 7),
)  # fmt: skip
case("copies of strided inputs", lambda x: (x.clone(), x.contiguous(), x), normal(5, 7).t())
case("one value in several places", lambda x: ((y := x + 1), y, y.t(), {"a": y}), normal(5, 7))
case(
    "outputs without inputs",
    lambda x: (torch.zeros(3), torch.full((3,), 7), torch.arange(2, 9, 3.5), torch.eye(3),
               torch.tensor([1.0, nan, inf]), torch.zeros(0), x.new_zeros(3), 3, None),
    normal(2),
)  # fmt: skip
case("no elements", lambda x: (x + 1, x.t(), x.sum(), F.relu(x) @ torch.ones(3, 2)), normal(0, 3))
case("uninitialised and filled", lambda x: torch.empty_like(x).copy_(x) + 1, normal(3))
case("a function written in C", F.gelu, normal(3, 5))


def assert_right(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """
    Every result of @main obeys the accuracy rule; what the user gets has eager's types, shapes and
    strides, and is in the memory of an input if and where eager's is.
    """
    compiled = dlc.compile(function, args, backend="host")
    variant = compiled.variant(args)
    bound = [t.detach() for t in variant.program.bind(args)]
    exact = evaluate(variant.program.module, bound, double=True)
    eager = rounded(evaluate, variant.program.module, bound)
    for number, result in enumerate(variant.executor(bound)):
        result = result.view(eager[number].dtype)
        accuracy = judge(result, exact[number], eager[number], variant.longest_reduction)
        assert accuracy.ok, f"result {number}: {accuracy}"
    with torch.no_grad():
        expected, found = tree_leaves(function(*args)), tree_leaves(compiled(*args))
    assert len(found) == len(expected)
    memories = {t.untyped_storage().data_ptr() for t in args if t.numel()}
    for number, (own, eagers) in enumerate(zip(found, expected, strict=True)):
        if not isinstance(eagers, torch.Tensor):
            assert own == eagers
            continue
        assert (own.dtype, own.shape) == (eagers.dtype, eagers.shape), number
        if own.numel() == 0:
            continue
        assert strides(own) == strides(eagers), number
        if eagers.untyped_storage().data_ptr() in memories:
            assert own.data_ptr() == eagers.data_ptr(), number
        else:
            assert own.untyped_storage().data_ptr() not in memories, number


def strides(tensor: torch.Tensor) -> list[int]:
    """Of the dimensions whose stride matters."""
    return [s for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1]


@pytest.mark.parametrize("name", CASES)
def test_programs_agree_with_eager(name: str):
    assert_right(*CASES[name])


# Random compositions of operations that take and give a matrix.

STEPS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "transpose": lambda x: x.t(),
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, -1),
    "odd": lambda x: x[:, 1::2],
    "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=0.5),
    "double": lambda x: torch.cat([x, x * 2], 1),
    "softmax": lambda x: F.softmax(x, -1),
    "columns": lambda x: x - x.mean(0),
    "norm": lambda x: F.normalize(x, dim=1),
    "gram": lambda x: x @ x.t(),
    "reshape": lambda x: x.reshape(x.shape[1], x.shape[0]),
    "scale": lambda x: x / (x.abs().amax() + 1),
    "tril": lambda x: x.tril(),
    "where": lambda x: torch.where(x > 0, x, x.exp()),
    "gather": lambda x: x[x.argmax(0)],
    "sum": lambda x: x + x.sum(1, keepdim=True),
}


@pytest.mark.parametrize("seed", range(4))
def test_random_compositions_agree_with_eager(seed: int):
    choose = random.Random(seed)
    chosen = choose.choices(list(STEPS), k=choose.randint(3, 6))

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        states = [x]
        for name in chosen:
            states.append(STEPS[name](states[-1]))
        return [states[-1], states[len(states) // 2]]

    x = torch.randn(choose.choice((1, 5, 8)), choose.choice((1, 7, 16)))
    assert_right(program, (x,))


# torch.compile.


class Block(nn.Module):
    """A transformer block with rotary positions, a gated MLP and a counter of its calls."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.RMSNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        parts = self.qkv(self.before(x)).chunk(3, -1)
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(-3, -2) for p in parts)
        q, k = turned_halves(q).to(v), turned_halves(k).to(v)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(-3, -2).flatten(-2))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def test_torch_compile_of_a_transformer_block():
    torch.manual_seed(0)
    block = Block(24, 3).eval()
    torch._dynamo.reset()
    compiled = torch.compile(block, backend="dlc")
    inputs = [torch.randn(2, 7, 24), torch.randn(5, 3, 24).transpose(0, 1)]
    for count, x in enumerate(inputs, 1):
        with torch.no_grad():
            found = compiled(x)
            assert block.calls == count
            expected = block(x)
            block.calls -= 1
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_torch_compile_writes_to_its_arguments():
    def step(state: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        state[:, 0] += x
        state.mul_(0.5)
        return state.sum() + x

    torch._dynamo.reset()
    compiled = torch.compile(step, backend="dlc")
    ours, eagers, x = torch.ones(3, 4), torch.ones(3, 4), torch.randn(3)
    for _ in range(2):
        torch.testing.assert_close(compiled(ours, x), step(eagers, x))
        torch.testing.assert_close(ours, eagers)


# What is not a program.


def test_integer_division_by_zero_ends_nothing():
    """Eager raises on the CPU and gives any number on a GPU; dlc's quotient is the dividend."""

    def divide(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x // y, x % y, torch.div(x, y, rounding_mode="trunc")

    x, y = torch.tensor([7, -7, 5]), torch.tensor([0, 0, 2])
    floor, rest, quotient = dlc.compile(divide, (x, y), backend="host")(x, y)
    assert floor.tolist() == [7, -7, 2]
    assert rest.tolist() == [0, 0, 1]
    assert quotient.tolist() == [7, -7, 2]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda x: torch.poisson(x) + x, "draws random numbers; draw them outside"),
        (lambda x: F.softmax(x, 5), "expected dim from -1 to 0, found 5"),
    ],
    ids=["poisson", "dimension"],
)
def test_operations_that_cannot_be_compiled_say_why(program: Callable[..., Any], message: str):
    with pytest.raises(OpError, match=message):
        dlc.compile(program, (torch.randn(3),), backend="host")


@pytest.mark.parametrize("count", [1, 3])
def test_branches_on_data_are_refused(count: int):
    with pytest.raises(ImportFailure, match="branches on values of a tensor"):
        import_program(lambda x: x if x > 0 else -x, (torch.randn(count),))


def test_the_seed_of_a_text_is_chosen():
    text = "torch.randn(5).exp()"
    first, same, other = (capture_text(text, seed=seed)[1][0] for seed in (0, 0, 1))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def scheduled(schedule: str) -> Executor:
    """A softmax of 7 rows of 127 under a schedule that a user wrote into the text of Loop IR."""
    compiled = dlc.compile(lambda x: F.softmax(x, -1), (torch.empty(7, 127),), backend="host")
    text, count = re.subn(r'schedule "[^"]*"', f'schedule "{schedule}"', compiled.ir("loop"))
    assert count == 1
    ctx = register(Context())
    module = LocParser(ctx, text, "<edited>").parse_module()
    run_pipeline(ctx, module, "kernel")
    return Executor(module, get_backend("host"))


@pytest.mark.parametrize(
    "schedule",
    [
        "tileify,cooperative-reduce{threads=96 rows=3 vector=2}",
        "tileify,cooperative-reduce{threads=1024},stage-inputs{budget=100}",
        "tileify,blockify-launch{block=5 thread=5}",
        "",
    ],
)
def test_edited_schedules_are_right(schedule: str):
    x = torch.randn(7, 127)
    (found,) = scheduled(schedule)([x])
    accuracy = judge(found, F.softmax(x.double(), -1), rounded(F.softmax, x, -1), 127)
    assert accuracy.ok, accuracy


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("tileify,canonicalize", "'canonicalize' is a pass, but no scheduling step"),
        ("tileify,cooperative-reduce{threads=32 vector=0}", "vector must be at least 1, not 0"),
        ("tileify,cooperative-reduce{thread=32}", "has no option 'thread'"),
        ("tileify{", "expected the name of an option or } here"),
    ],
)
def test_schedules_that_name_no_step_are_refused(schedule: str, message: str):
    with pytest.raises(TextError, match=message):
        scheduled(schedule)

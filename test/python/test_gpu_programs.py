"""
What only a GPU can show of programs: what dlc chooses by itself for products, convolutions,
attention, rows, scans, copies, sorting, sizes that vary, updates in place and recurrent layers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_attention
import test_overlap
import test_programs
import test_recurrent
import test_scans
import test_tensor_cores
import test_two_sizes
import torch
import torch.nn.functional as F
from on_device import (
    DEVICE,
    TARGET,
    any_backend,
    check,
    judge,
    marks,
    moved,
    precise,
    whole_context,
    with_clusters,
)
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

import dlc
from dlc import dynamo
from dlc.precision import Precision

__all__ = ["any_backend", "whole_context"]
pytestmark = marks
Program = tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
of_dtypes = pytest.mark.parametrize("dtype", DTYPES)


def drawn(shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Random numbers, the same for the same shapes."""
    rng = torch.Generator().manual_seed(len(shapes))
    return [torch.randn(shape, generator=rng).to(dtype) for shape in shapes]


PRODUCTS: dict[str, Program] = {
    "whole": (torch.matmul, ((128, 256), (256, 128))),
    "ragged": (torch.matmul, ((101, 211), (211, 97))),
    "bias and gelu": (
        lambda x, w, b: F.gelu(F.linear(x, w, b)), ((37, 264), (130, 264), (130,)),
    ),
    "residual": (lambda x, w, z: F.linear(x, w) + z, ((65, 128), (96, 128), (65, 96))),
    "gate and up": (
        lambda x, g, u: F.silu(F.linear(x, g)) * F.linear(x, u),
        ((33, 256), (120, 256), (120, 256)),
    ),
    "norm before": (
        lambda x, g, w: F.linear(F.rms_norm(x, (256,), g), w), ((33, 256), (256,), (120, 256)),
    ),
    "batched": (torch.matmul, ((3, 33, 50), (3, 50, 70))),
    "batched, broadcast": (torch.matmul, ((2, 3, 17, 64), (64, 40))),
    "turned": (lambda x, w: x.mT @ w.mT, ((3, 66, 34), (3, 31, 66))),
    "one row": (F.linear, ((1, 1024), (515, 1024))),
    "few rows of a long sum": (F.linear, ((3, 4100), (72, 4100))),
    "split": (torch.matmul, ((32, 4096), (4096, 64))),
    "addmm": (torch.addmm, ((40, 56), (40, 72), (72, 56))),
    "outer": (lambda x, y: x[:, None] * y, ((130,), (67,))),
    "large": (F.linear, ((520, 256), (776, 256))),
    "two from one": (lambda x, a, b: (x @ a, torch.relu(x @ b)), ((20, 512), (512, 64), (512, 48))),
}  # fmt: skip


@pytest.mark.parametrize("name", test_tensor_cores.defaults(torch.float16))
def test_products_in_f16(name: str, any_backend: Any) -> None:
    """Also at odd addresses, and of every second element: nothing of 16 bytes."""
    f, args, _ = test_tensor_cores.defaults(torch.float16)[name]
    check(f, args, any_backend)


@pytest.mark.parametrize("precision", ["tf32", "3xtf32"])
@pytest.mark.parametrize("shape", [(130, 200, 264), (520, 512, 516)], ids=str)
def test_products_in_tf32(
    shape: tuple[int, int, int], precision: Precision, any_backend: Any
) -> None:
    m, k, n = shape
    check(F.linear, drawn(((m, k), (n, k))), any_backend, precision)


@of_dtypes
def test_products_of_what_is_no_number(dtype: str, any_backend: Any) -> None:
    x, w = drawn(((40, 50), (50, 33)), DTYPES[dtype])
    x[3, 7], w[5, 2], x[8], w[:, 30] = torch.inf, torch.nan, -0.0, 0.0
    check(torch.matmul, [x, w], any_backend)


CONVOLUTIONS: dict[str, Program] = {
    "1d": (lambda x, w, b: F.conv1d(x, w, b, padding=2), ((2, 20, 101), (33, 20, 5), (33,))),
    "2d": (lambda x, w: F.conv2d(x, w, padding=1), ((2, 16, 14, 15), (32, 16, 3, 3))),
    "2d, strided": (lambda x, w: F.conv2d(x, w, stride=2), ((2, 8, 23, 20), (24, 8, 3, 3))),
    "2d, dilated": (lambda x, w: F.conv2d(x, w, dilation=2), ((1, 8, 19, 20), (24, 8, 3, 3))),
    "2d, 1 x 1": (F.conv2d, ((2, 64, 9, 9), (40, 64, 1, 1))),
    "3d": (lambda x, w: F.conv3d(x, w, padding=1), ((1, 4, 6, 7, 8), (16, 4, 3, 3, 3))),
    "grouped": (lambda x, w: F.conv2d(x, w, groups=4), ((2, 32, 10, 11), (48, 8, 3, 3))),
    "of each channel": (
        lambda x, w: F.conv2d(x, w, groups=24, padding=1), ((2, 24, 10, 11), (24, 1, 3, 3)),
    ),
    "transposed": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), ((2, 16, 9, 8), (16, 24, 4, 4)),
    ),
    "transposed, 1d": (lambda x, w: F.conv_transpose1d(x, w), ((2, 16, 30), (16, 24, 3))),
    "pooled": (
        lambda x, w: F.max_pool2d(torch.relu(F.conv2d(x, w)), 2), ((2, 8, 16, 16), (16, 8, 3, 3)),
    ),
}  # fmt: skip


def attended(heads: int, of_keys: int, rows: int, keys: int, width: int) -> Program:
    shapes = (1, heads, rows, width), *[(1, of_keys, keys, width)] * 2

    def f(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=heads > of_keys)

    return f, shapes


ATTENTION: dict[str, Program] = {
    **{
        name: (f, ((1, 2, 70, 64), (1, 2, 130, 64), (1, 2, 130, 64)))
        for name, f in test_attention.PROGRAMS.items()
    },
    "square": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        ((2, 3, 257, 64),) * 3,
    ),
    "shared keys": attended(8, 2, 100, 100, 32),
    "one row": attended(8, 2, 1, 4100, 64),
    "few rows": attended(4, 4, 5, 1030, 128),
    "wide": attended(2, 2, 66, 72, 128),
    "narrow": attended(2, 2, 66, 72, 16),
}


ROWS: dict[str, Program] = {
    "softmax of few": (lambda x: torch.softmax(x, -1), ((129, 7),)),
    "softmax": (lambda x: torch.softmax(x, -1), ((65, 1001),)),
    "softmax of many": (lambda x: torch.softmax(x, -1), ((3, 40009),)),
    "softmax of columns": (lambda x: torch.softmax(x, 0), ((301, 45),)),
    "log softmax": (lambda x: torch.log_softmax(x, -1), ((17, 5000),)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (768,), w, b), ((33, 768), (768,), (768,))),
    "long layer norm": (lambda x: F.layer_norm(x, (9001,)), ((3, 9001),)),
    "rms norm": (lambda x, w: F.rms_norm(x, (64,), w), ((257, 64), (64,))),
    "group norm": (lambda x: F.group_norm(x, 4), ((2, 16, 9, 11),)),
    "batch norm": (
        lambda x, m, v: F.batch_norm(x, m, v.abs() + 1), ((4, 8, 9, 7), (8,), (8,)),
    ),
    "variances": (lambda x: (x.var(-1), x.std(0), x.mean()), ((57, 310),)),
    "total": (lambda x: x.sum(), ((150001,),)),
    "extremes": (lambda x: (x.amax(1), x.amin(0), x.aminmax()), ((57, 310),)),
    "norms": (lambda x: (x.norm(dim=1), x.logsumexp(0), x.abs().prod(1)), ((57, 31),)),
    "counts": (lambda x: ((x > 0).sum(1), (x > 3).any(0), (x > -9).all()), ((57, 310),)),
    "loss": (lambda x: F.cross_entropy(x, x[:, :40].argmax(1)), ((40, 501),)),
}  # fmt: skip


def test_extremes_of_what_is_no_number(any_backend: Any) -> None:
    (x,) = drawn(((9, 301),))
    x[1, 7], x[2, 3], x[2, 99], x[3, 5], x[4] = (
        torch.nan,
        torch.nan,
        torch.nan,
        torch.inf,
        -torch.inf,
    )
    check(
        lambda x: (x.argmax(1), x.argmin(1), x.amax(1), x.max(0), torch.softmax(x, 1), x.cummax(1)),
        [x], any_backend,
    )  # fmt: skip


COPIES: dict[str, Program] = {
    "transposed": (lambda x: x.t().contiguous(), ((130, 257),)),
    "permuted": (lambda x: x.permute(2, 0, 3, 1).contiguous(), ((5, 33, 7, 40),)),
    "batches transposed": (lambda x: x.mT.contiguous() * 2, ((3, 66, 35),)),
    "joined": (lambda x, y: torch.cat((x, y, x), 1), ((9, 31), (9, 2))),
    "rolled": (lambda x: x.roll((3, -5), (0, 1)).flip(1), ((33, 65),)),
    "padded": (lambda x: F.pad(x, (3, 2, 1, 0), mode="reflect"), ((2, 3, 9, 11),)),
    "picked": (lambda x, y: x[y.argsort(0)[:, 0]], ((41, 64), (41, 3))),
    "scattered": (
        lambda x, y: x.scatter_add(0, (y > 0).long(), y), ((41, 64), (30, 64)),
    ),
    "masked": (lambda x, y: torch.where(x > y, x, y.tril()), ((67, 67), (67, 67))),
    "resized": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), ((1, 3, 9, 7),)),
    "of angles": (lambda x: (x.sin(), x.exp(), x.tanh(), x.erf(), x.sigmoid()), ((1000,),)),
}  # fmt: skip


PROGRAMS = {
    f"{table}, {name}": program
    for table, programs in (
        ("products", PRODUCTS),
        ("convolutions", CONVOLUTIONS),
        ("attention", ATTENTION),
        ("rows", ROWS),
        ("copies", COPIES),
    )
    for name, program in programs.items()
}
EXACT_ONLY = ("attention, a window, ALiBi",)
"""Whose distances are f32, which eager refuses to multiply with bf16."""


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, d) for n in PROGRAMS for d in DTYPES if d == "f32" or n not in EXACT_ONLY],
)
def test_programs_of_a_table(name: str, dtype: str, any_backend: Any) -> None:
    f, shapes = PROGRAMS[name]
    check(f, drawn(shapes, DTYPES[dtype]), any_backend)


ORDERS: dict[str, Program] = {
    "sorted": (lambda x: x.sort(-1), ((7, 300),)),
    "sorted down": (lambda x: x.sort(0, descending=True), ((1030, 3),)),
    "largest": (lambda x: x.topk(5), ((7, 1000),)),
    "ranks": (lambda x: x.sort(dim=1, stable=True), ((9, 64),)),
    "median": (lambda x: x.median(1), ((9, 65),)),
    "sums so far": (lambda x: x.cumsum(1), ((7, 76),)),
    "long sums so far": (lambda x: x.cumsum(1), ((2, 40000),)),
    "products so far": (lambda x: (1 + x / 100).cumprod(0), ((1000, 5),)),
    "largest so far": (lambda x: x.cummax(1), ((3, 40000),)),
    "sums of powers": (lambda x: x.logcumsumexp(1), ((3, 5000),)),
}


@pytest.mark.parametrize("name", ORDERS)
def test_orders(name: str, any_backend: Any) -> None:
    f, shapes = ORDERS[name]
    check(f, drawn(shapes), any_backend)


@pytest.mark.parametrize("name", test_scans.FOLLOWED)
def test_scans_and_what_follows(name: str, any_backend: Any) -> None:
    f = eval(f"lambda x, y: {test_scans.FOLLOWED[name]}", {"torch": torch})
    check(f, drawn(((7, 76),) * 2), any_backend)


# Sizes that vary.


@pytest.mark.parametrize("name", test_two_sizes.PROGRAMS)
def test_sizes(name: str, any_backend: Any) -> None:
    """One program for all sizes of its calls."""
    f, make, marked = test_two_sizes.PROGRAMS[name]
    made = dlc.compile(
        f, tuple(map(moved, make(3, 24))), TARGET, any_backend, dynamic_shapes=marked
    )
    for b, s in ((3, 24), (2, 17), (4, 65), (2, 64), (7, 37)):
        args = make(b, s)
        found = made(*map(moved, args))
        judge([found], [f(*map(precise, args))], [f(*args)], 128)
    assert made.imports.count == 1


# What is written in place, and steps one after the other.


def update(cache: Tensor, place: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    """New rows of a cache, and what is attended in all of it."""
    cache.index_copy_(1, place, rows)
    return torch.softmax(rows @ cache.mT, -1) @ cache @ weight


IN_PLACE: dict[str, tuple[Callable[..., Any], list[Tensor]]] = {
    "cache": (
        update,
        [*drawn(((2, 40, 64),)), torch.tensor([7, 9]), *drawn(((2, 2, 64), (64, 32)))],
    ),
    "sum": (lambda x, b: x.add_(b).sum(1), drawn(((40, 64), (64,)))),
    "column": (lambda x, b: (x[:, 0].add_(b), x.mul_(0.5))[1].sum(), drawn(((33, 65), (33,)))),
    "put": (lambda x, y: x.index_put_((torch.tensor([3, 5]),), y), drawn(((9, 7), (2, 7)))),
}


@of_dtypes
@pytest.mark.parametrize("name", IN_PLACE)
def test_updates(name: str, dtype: str, any_backend: Any) -> None:
    f, args = IN_PLACE[name]
    check(f, [a.to(DTYPES[dtype]) if a.is_floating_point() else a for a in args], any_backend)


@pytest.mark.parametrize(
    "name", ["lstm of all", "lstm of unusual", "lstm of halves", "gru of both", "rnn"]
)
def test_recurrent_layers(name: str, any_backend: Any) -> None:
    module, args = test_recurrent.CASES[name]
    module = test_recurrent.weighted(copy.deepcopy(module))
    there = copy.deepcopy(module).to(DEVICE)
    with torch.no_grad():
        eager = tree_leaves(module(*args))
        exact = tree_leaves(module.double()(*tree_map_only(Tensor, precise, args)))
        given = tree_map_only(Tensor, moved, args)
        made = dlc.compile(there, given, TARGET, any_backend)
        for _ in range(2):
            judge(tree_leaves(made(*given)), exact, eager, 8)


@with_clusters
@pytest.mark.parametrize("name", [n for n in test_overlap.PROGRAMS if n != "scattered"])
def test_launches_that_overlap(name: str, tmp_path: Path, any_backend: Any) -> None:
    f, args = test_overlap.PROGRAMS[name]
    made = dlc.compile(f, tuple(a.clone() for a in args), "sm_90", "host")
    file = tmp_path / "k.mlir"
    file.write_text(str(test_overlap.overlapped(made)))
    loaded = dlc.load(file, backend=any_backend)
    assert "grid_wait();" in loaded.ir("cuda")
    exact, eager = f(*map(precise, args)), f(*(a.clone() for a in args))
    for _ in range(3):
        found = loaded(*map(moved, args))
        judge(tree_leaves(found), [exact], [eager], made.variants[0].longest_reduction)


# Models.


@of_dtypes
def test_a_block_by_torch_compile(dtype: str) -> None:
    """Norms, rotated heads, causal attention, a gated product; for two sizes."""
    torch.manual_seed(0)
    block = test_programs.Block(64, 4).eval().to(DTYPES[dtype])
    there, doubled = copy.deepcopy(block).to(DEVICE), copy.deepcopy(block).double()
    torch._dynamo.reset()
    made = torch.compile(there, backend=dynamo.backend)
    for x in drawn(((2, 9, 64), (1, 33, 64)), DTYPES[dtype]):
        with torch.no_grad():
            judge([made(x.to(DEVICE))], [doubled(x.double())], [block(x)], 128)
    torch._dynamo.reset()


def test_tokens_are_those_of_transformers(any_backend: Any) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        bos_token_id=None, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    for parameter in model.parameters():
        parameter.data *= 4  # tokens are no ties
    prompts = [[5, 9, 44, 3, 8], [7], [99, 100, 11]]
    expected = [
        model.generate(torch.tensor([p]), max_new_tokens=6, do_sample=False)[0, len(p) :].tolist()
        for p in prompts
    ]
    assert dlc.generate(model.to(DEVICE), prompts, 6, backend=any_backend) == expected

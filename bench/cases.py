"""
The programs that dlc is measured on, as data: 84 cases of two models, and some beyond them.

    python bench/cases.py [--only REGEX]        # lists them: name, flops, bytes, text

A case is an expression over named inputs, so that each benchmark can draw them as it likes. Its
`text` is the same as one line for `dlc compile -c`. All is fp32 with batch 1; `tl` is TinyLlama
1.1B, `qw` is Qwen2.5 7B, and a name ends in the number of tokens: `matmul.tl.q_proj.s128`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

Shape = tuple[int, ...]

ELEMENT_BYTES = 4
TOKENS = (32, 128, 512)


@dataclass(frozen=True)
class Case:
    """A program and what it must do at least."""

    name: str
    group: str
    """`suite` (the 84), `square`, `linear` or `ragged`."""
    inputs: Mapping[str, Shape]
    """Drawn from a normal distribution."""
    expression: str
    """What is computed of them; `torch`, `F` and `math` are at hand."""
    output: Shape
    flops: float
    """Operations of the products that must be made (a multiply-add is two) or, without products,
    one for each input and output element."""
    constants: Mapping[str, str] = field(default_factory=dict)
    """Further inputs that are no random numbers, as expressions."""
    constant_elements: int = 0

    @property
    def text(self) -> str:
        drawn = {n: f"torch.randn({', '.join(map(str, s))})" for n, s in self.inputs.items()}
        given = {**drawn, **self.constants}
        return "; ".join([*(f"{n} = {made}" for n, made in given.items()), self.expression])

    @property
    def bytes(self) -> int:
        """Every input read once and the output written once."""
        shapes = (*self.inputs.values(), self.output)
        return ELEMENT_BYTES * (sum(map(prod, shapes)) + self.constant_elements)

    @property
    def aligned(self) -> bool:
        """Every row is a whole number of 16-byte accesses."""
        shapes = (*self.inputs.values(), self.output)
        return all(extent % 4 == 0 for shape in shapes for extent in shape[-1:])

    @property
    def function(self) -> Callable[..., Any]:
        """The expression as a function of the inputs and then the constants, in their order."""
        return eval(
            f"lambda {', '.join([*self.inputs, *self.constants])}: {self.expression}", _scope()
        )

    def make_constants(self) -> list[Any]:
        return [eval(made, _scope()) for made in self.constants.values()]


def _scope() -> dict[str, Any]:
    import math

    import torch

    return {"torch": torch, "F": torch.nn.functional, "nn": torch.nn, "math": math}


@dataclass(frozen=True)
class Model:
    """The extents of a decoder."""

    name: str
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int

    @property
    def projections(self) -> dict[str, tuple[int, int]]:
        """K and N of each linear layer of a block."""
        kv = self.kv_heads * self.head_dim
        return {
            "q_proj": (self.hidden, self.hidden),
            "o_proj": (self.hidden, self.hidden),
            "kv_proj": (self.hidden, kv),
            "gate_proj": (self.hidden, self.intermediate),
            "up_proj": (self.hidden, self.intermediate),
            "down_proj": (self.intermediate, self.hidden),
        }


MODELS = (
    Model("tl", 2048, 5632, 32, 4, 64),
    Model("qw", 3584, 18944, 28, 4, 128),
)


def _suite(model: Model, s: int) -> Iterator[Case]:
    """The 14 cases of a model at one number of tokens."""
    end = f"s{s}"
    for name, (k, n) in model.projections.items():
        yield matmul(f"matmul.{model.name}.{name}.{end}", "suite", s, k, n)
    yield rms_norm(f"rmsnorm.{model.name}.{end}", "suite", s, model.hidden)
    yield softmax(f"softmax.{model.name}.{end}", "suite", (1, model.heads, s, s))
    yield silu_mul(f"silu_mul.{model.name}.{end}", "suite", s, model.intermediate)
    yield sdpa(f"sdpa.{model.name}.{end}", "suite", model.heads, model.kv_heads, s, model.head_dim)
    yield naive_attention(f"naive_attn.{model.name}.{end}", "suite", model.heads, s, model.head_dim)
    for name in ("o_proj", "down_proj"):
        k, n = model.projections[name]
        yield matmul_add(f"matmul_add.{model.name}.{name}.{end}", "suite", s, k, n)
    k, n = model.projections["down_proj"]
    yield silu_mul_matmul(f"silu_mul_matmul.{model.name}.{end}", "suite", s, k, n)


def matmul(name: str, group: str, s: int, k: int, n: int) -> Case:
    return Case(name, group, {"x": (1, s, k), "w": (k, n)}, "x @ w", (1, s, n), 2 * s * k * n)


def linear(name: str, group: str, s: int, k: int, n: int) -> Case:
    """A product with a weight as PyTorch's linear layers store it."""
    return Case(
        name, group, {"x": (1, s, k), "w": (n, k)}, "F.linear(x, w)", (1, s, n), 2 * s * k * n
    )


def square(n: int) -> Case:
    return Case(f"gemm.{n}", "square", {"a": (n, n), "b": (n, n)}, "a @ b", (n, n), 2 * n**3)


def matmul_add(name: str, group: str, s: int, k: int, n: int) -> Case:
    inputs = {"x": (1, s, k), "w": (k, n), "r": (1, s, n)}
    return Case(name, group, inputs, "x @ w + r", (1, s, n), 2 * s * k * n)


def silu_mul_matmul(name: str, group: str, s: int, k: int, n: int) -> Case:
    inputs = {"g": (1, s, k), "u": (1, s, k), "w": (k, n)}
    return Case(name, group, inputs, "(F.silu(g) * u) @ w", (1, s, n), 2 * s * k * n)


def rms_norm(name: str, group: str, s: int, n: int) -> Case:
    inputs = {"x": (1, s, n), "w": (n,)}
    return Case(name, group, inputs, f"F.rms_norm(x, ({n},), w, 1e-6)", (1, s, n), 2 * s * n)


def softmax(name: str, group: str, shape: Shape) -> Case:
    return Case(name, group, {"x": shape}, "torch.softmax(x, -1)", shape, 2 * prod(shape))


def silu_mul(name: str, group: str, s: int, n: int) -> Case:
    inputs = {"g": (1, s, n), "u": (1, s, n)}
    return Case(name, group, inputs, "F.silu(g) * u", (1, s, n), 3 * s * n)


def sdpa(name: str, group: str, heads: int, kv_heads: int, s: int, d: int) -> Case:
    """Causal attention; what the mask leaves of the two products is s (s + 1) / 2 scores a head."""
    q, kv = (1, heads, s, d), (1, kv_heads, s, d)
    gqa = ", enable_gqa=True" if heads != kv_heads else ""
    call = f"F.scaled_dot_product_attention(q, k, v, is_causal=True{gqa})"
    return Case(name, group, {"q": q, "k": kv, "v": kv}, call, q, 2 * heads * s * (s + 1) * d)


def naive_attention(name: str, group: str, heads: int, s: int, d: int) -> Case:
    """Attention written out, with a mask that is added: no score may be left out."""
    shape = (1, heads, s, d)
    mask = f"torch.full(({s}, {s}), -1e9).triu(1)"
    call = f"torch.softmax(q @ k.transpose(-2, -1) / math.sqrt({d}) + mask, -1) @ v"
    inputs = {"q": shape, "k": shape, "v": shape}
    flops = 4 * heads * s * s * d
    return Case(name, group, inputs, call, shape, flops, {"mask": mask}, s * s)


def sum_all(name: str, n: int) -> Case:
    return Case(name, "ragged", {"x": (n,)}, "x.sum()", (), n)


SUITE = tuple(case for model in MODELS for s in TOKENS for case in _suite(model, s))

SQUARE = tuple(map(square, (1024, 2048, 4096, 8192)))

LINEAR = tuple(
    linear(f"linear.{model.name}.{name}.s{s}", "linear", s, k, n)
    for model in MODELS
    for s in TOKENS
    for name, (k, n) in model.projections.items()
    if name in ("q_proj", "kv_proj", "gate_proj", "down_proj")
)

VOCABULARY = 151669
"""Entries of the vocabulary of Qwen2.5, a number without small factors."""

RAGGED = (
    matmul("ragged.matmul.tl.q_proj.s100", "ragged", 100, 2048, 2048),
    matmul("ragged.matmul.qw.down_proj.s100", "ragged", 100, 18944, 3584),
    matmul_add("ragged.matmul_add.s1", "ragged", 1, 2048, 2048),
    matmul("ragged.matmul.vocabulary", "ragged", 32, 2048, VOCABULARY),
    linear("ragged.linear.vocabulary", "ragged", 32, 2048, VOCABULARY),
    matmul("ragged.matmul.primes", "ragged", 101, 1009, 2003),
    silu_mul_matmul("ragged.silu_mul_matmul.primes", "ragged", 101, 1009, 2003),
    rms_norm("ragged.rmsnorm.primes", "ragged", 97, 2053),
    rms_norm("ragged.rmsnorm.vocabulary", "ragged", 32, VOCABULARY),
    softmax("ragged.softmax.s100", "ragged", (1, 32, 100, 100)),
    softmax("ragged.softmax.primes", "ragged", (1, 13, 211, 211)),
    softmax("ragged.softmax.vocabulary", "ragged", (1, 32, VOCABULARY)),
    silu_mul("ragged.silu_mul.primes", "ragged", 101, 5639),
    sdpa("ragged.sdpa.s100", "ragged", 32, 4, 100, 64),
    naive_attention("ragged.naive_attn.primes", "ragged", 7, 101, 61),
    sum_all("ragged.sum.vocabulary", VOCABULARY),
)

CASES = (*SUITE, *SQUARE, *LINEAR, *RAGGED)


def select(only: str | None, cases: Iterable[Case] = CASES) -> list[Case]:
    """The cases whose name, or `group/name`, has a match of a regular expression."""
    pattern = re.compile(only or "")
    return [case for case in cases if pattern.search(f"{case.group}/{case.name}")]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--only", metavar="REGEX", help="of group/name, such as ^suite/matmul")
    for case in select(parser.parse_args().only):
        print(
            f"{case.name:40} {case.flops / 1e9:9.3f} GFLOP {case.bytes / 1e6:9.2f} MB  {case.text}"
        )


if __name__ == "__main__":
    main()

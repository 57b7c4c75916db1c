"""
Random PyTorch programs: a few statements over small tensors, as text that `dlc run -c` takes.

A statement is proposed from a table of templates and run by PyTorch; one that PyTorch refuses is
dropped, so that a template need not know which shapes it fits. In a template `{x}`, `{y}`, `{z}`
are floating-point tensors, `{b}` is a boolean one, `{i}` a tensor of integers, `{d}` and `{e}`
dimensions of x, `{n}` a small number, `{s}` a scalar, and `{m}` a matrix.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F

EXTENTS = (1, 1, 2, 3, 3, 4, 5, 7, 8, 12, 16, 17, 31, 33, 64)
MOST = 4096
"""Elements of a tensor at most."""
LARGEST = 1e4
"""Of finite numbers, so that what follows keeps some precision."""

POINTWISE = """
{x}.relu() | {x}.sigmoid() | {x}.tanh() | {x}.clamp(-4, 4).exp() | {x}.sin() | {x}.cos() | {x}.abs()
-{x} | {x}.abs().sqrt() | ({x}.abs() + 0.1).rsqrt() | ({x}.abs() + 0.1).log() | {x}.erf()
{x}.floor() | {x}.ceil() | {x}.round() | {x}.trunc() | {x}.square() | 1 / ({x}.abs() + 0.5)
F.silu({x}) | F.gelu({x}) | F.gelu({x}, approximate="tanh") | F.softplus({x}) | F.elu({x})
F.leaky_relu({x}, 0.1) | F.hardtanh({x}) | F.hardswish({x}) | F.mish({x}) | {x}.abs().log1p()
{x}.clamp(-3, 3).expm1() | {x}.sign() | {x}.nan_to_num() | F.softsign({x}) | F.selu({x})
F.hardsigmoid({x}) | F.logsigmoid({x}) | F.relu6({x}) | {x}.clamp(-0.9, 0.9).asin() | {x}.atan()
{x}.clamp(-3, 3).sinh() | {x}.clamp(min={s}) | {x} ** 2 | {x} * {s} | {s} - {x} | {x} / {s}
{x} + {y} | {x} - {y} | {x} * {y} | {x} / ({y}.abs() + 0.5) | torch.maximum({x}, {y})
torch.minimum({x}, {y}) | ({x}.abs() + 0.1) ** {y}.clamp(-2, 2) | torch.lerp({x}, {y}, 0.3)
{x} > {y} | {x} <= {y} | {x} != {x} | {x} >= {s} | {b} & ({x} > {s}) | {b} | ~{b}
{b}.logical_not()
torch.where({b}, {x}, {y}) | torch.where({x} > {y}, {x}, {y}) | {x}.masked_fill({b}, {s})
{x}.masked_fill({x} > 1, float("-inf")) | {x}.masked_fill({x} > 2, float("nan")) | {x}.isfinite()
{b}.float() | {i}.float() | {x}.int() | {i} + {i} | {i} * 2 - 1 | {i} // 2 | {i} % 3 | {i} == {n}
torch.addcmul({x}, {y}, {z}) | torch.atan2({x}, {y}.abs() + 0.5) | torch.fmod({x}, {s})
torch.remainder({x}, 1.7) | torch.logaddexp({x}, {y}) | {x}.clone() | {x}.double().float()
"""
REDUCTIONS = """
{x}.sum() | {x}.sum({d}) | {x}.sum({d}, keepdim=True) | {x}.sum(({d}, {e})) | {x}.mean({d})
{x}.mean(({d}, {e}), keepdim=True) | {x}.amax({d}) | {x}.amin(({d}, {e})) | {x}.max()
{x}.min({d})[0]
{x}.max({d})[1] | {x}.argmax({d}) | {x}.argmin({d}, keepdim=True) | {x}.argmax() | {x}.var({d})
{x}.var(({d}, {e}), correction=0) | {x}.std({d}, keepdim=True) | ({x} * 0.1 + 1).prod({d})
({x} > 0).any({d}) | {b}.all({d}) | {b}.any() | {b}.sum({d}) | {i}.sum({d}) | {x}.logsumexp({d})
{x}.norm(dim={d}) | {x}.abs().sum({d}).sqrt() | {x}.cumsum({d}) | {i}.cumsum({d}) | {i}.amax({d})
F.softmax({x}, {d}) | F.log_softmax({x}, {d}) | F.normalize({x}, dim={d})
F.layer_norm({x}, {x}.shape[-1:]) | F.rms_norm({x}, {x}.shape[-1:], eps=1e-5)
F.softmax({x} + {y}, {d}) | ({x} - {x}.mean({d}, keepdim=True)).square().mean({d})
F.cosine_similarity({x}, {y}, dim={d}) | {x}.count_nonzero({d})
"""
SHAPES = """
{x}.transpose({d}, {e}) | {x}.mT | {x}.flip({d}) | {x}.roll({n}, {d}) | {x}.unsqueeze({d})
{x}.squeeze({d}) | {x}.flatten() | {x}.flatten({d}) | {x}.reshape(-1) | {x}.reshape(-1, {n})
{x}.reshape({n}, -1) | {x}.unflatten({d}, ({n}, -1)) | {x}[{n}:] | {x}[..., {n}:] | {x}[..., ::2]
{x}[..., 1::3] | {x}[:, :{n}] | {x}[-1] | {x}[..., 0] | {x}[None] | {x}.narrow({d}, 0, {n})
torch.cat([{x}, {y}], {d}) | torch.cat([{x}, {x} * 2, {x}], {d}) | torch.stack([{x}, {y}], {d})
{x}.chunk(2, {d})[0] | {x}.chunk(2, {d})[1] | {x}.split({n}, {d})[-1]
{x}.repeat({n}, *[1] * {x}.ndim)
{x}.tile(2) | {x}.expand(3, *{x}.shape) | F.pad({x}, ({n}, 1))
F.pad({x}, (0, {n}, 1, 0), value={s})
F.pad({x}, (-1, {n})) | {x}.tril() | {x}.triu({n}) | {x}.unbind({d})[0] | {x}.movedim(0, -1)
{x}.repeat_interleave({n}, {d}) | {x}.swapaxes(0, -1).contiguous() | {x}.fliplr() | {x}.diagonal()
torch.arange({x}.shape[-1]) * {x} | torch.full_like({x}, {s}) + {x} | torch.ones_like({x}).tril()
torch.eye({x}.shape[-1]) | torch.hstack([{x}, {x}]) | {x}.unfold({d}, {n}, 1)
"""
INDEXING = """
{x}[{i} % {x}.shape[0]] | {x}[:, {i} % {x}.shape[1]]
{x}.index_select(0, {i}.flatten() % {x}.shape[0])
F.embedding({i} % {m}.shape[0], {m}) | F.one_hot({i} % 5, 5) | {x}.gather({d}, {x}.argsort({d}))
{x}[{i} % {x}.shape[0], {i} % {x}.shape[1]] | {x}[..., {i} % {x}.shape[-1], None]
{x}.take_along_dim({x}.argmax({d}, True), {d})
{x}.gather({d}, {x}.argmax({d}, True))
torch.zeros_like({x}).scatter({d}, {x}.argmax({d}, keepdim=True), 1.0)
torch.zeros({m}.shape).index_add(0, torch.arange({m}.shape[0]) // 2, {m})
torch.slice_scatter({x}, {x}[1:] * 2, 0, 1) | torch.select_scatter({x}, {x}[0] + 1, 0, -1)
"""
PRODUCTS = """
{x} @ {y} | {m} @ {m}.t() | {m}.t() @ {m} | {x} @ {x}.mT | {x}.mT @ {x}
torch.relu({m} @ {m}.t() + {s})
F.linear({x}, {m}) | F.linear({x}, {m}, {m}[:, 0]) | torch.einsum("ij,kj->ik", {m}, {m})
torch.einsum("...i,...i->...", {x}, {x}) | torch.addmm({m}, {m}, {m}.t() @ {m}) | {m} @ {m}[0]
F.scaled_dot_product_attention({x}, {x}, {x}) | F.scaled_dot_product_attention({x}, {y}, {y})
F.scaled_dot_product_attention({x}, {x}, {x}, is_causal=True) | {x}.flatten() @ {x}.flatten()
F.conv1d({x}, {x}[:, :, :3].transpose(0, 1)) | F.conv1d({x}, {x}[:2, :, :3], padding=1)
F.conv2d({x}, {x}[:, :, :2, :2], padding=1, stride=2) | F.avg_pool2d({x}, 2) | F.max_pool2d({x}, 2)
({m} @ {m}.t()).softmax(-1) @ {m} | torch.outer({x}.flatten(), {y}.flatten()[:5])
{x} @ ({x}.mT @ {x})
"""
TABLES = (POINTWISE, POINTWISE, REDUCTIONS, SHAPES, INDEXING, PRODUCTS)
TEMPLATES = [
    [entry.strip() for line in table.strip().splitlines() for entry in line.split(" | ")]
    for table in TABLES
]
NAMES = {"torch": torch, "F": F}


@dataclass(frozen=True)
class Statement:
    name: str
    text: str

    @property
    def uses(self) -> set[str]:
        return set(re.findall(r"\bv\d+\b", self.text))


@dataclass(frozen=True)
class Program:
    """`inputs` are made outside, then the statements run; what no statement uses is a result."""

    inputs: tuple[Statement, ...]
    statements: tuple[Statement, ...]
    results: tuple[str, ...] = field(default=())

    @property
    def text(self) -> str:
        """A function and a call of it."""
        names = ", ".join(s.name for s in self.inputs)
        body = "".join(f"    {s.name} = {s.text}\n" for s in self.statements)
        made = ", ".join(s.text for s in self.inputs)
        given = f"({', '.join(self.results)},)"
        return f"def program({names}):\n{body}    return {given}\nprogram({made})\n"

    def smaller(self) -> list[Program]:
        """Programs with one statement less, or with one replaced by an input."""
        found: list[Program] = []
        values = self.values()
        if len(self.results) > 1:
            found += [replace(self, results=(r,)).pruned() for r in self.results]
        for statement in self.statements[:-1]:
            found.append(replace(self, results=(statement.name,)).pruned())
        for n, statement in enumerate(self.statements):
            rest = (*self.statements[:n], *self.statements[n + 1 :])
            value = values[statement.name]
            given = (*self.inputs, Statement(statement.name, random_text(value)))
            others = tuple(r for r in self.results if r != statement.name)
            if rest and others != ():
                found.append(Program(given, rest, others).pruned())
            if rest and statement.name not in self.results:
                found.append(Program(given, rest, self.results).pruned())
        return [p for p in found if p.statements and p != self]

    def pruned(self) -> Program:
        """Without what no result needs."""
        needed, kept = set(self.results), list[Statement]()
        for statement in reversed(self.statements):
            if statement.name in needed:
                kept.insert(0, statement)
                needed |= statement.uses
        inputs = tuple(s for s in self.inputs if s.name in needed)
        return Program(inputs, tuple(kept), self.results)

    def values(self) -> dict[str, torch.Tensor]:
        """What PyTorch computes."""
        torch.manual_seed(0)
        values: dict[str, Any] = {}
        with torch.no_grad():
            for statement in (*self.inputs, *self.statements):
                values[statement.name] = eval(statement.text, NAMES, values)
        return values


def random_text(like: torch.Tensor) -> str:
    """The text that makes random numbers of a tensor's shape and type."""
    shape = ", ".join(map(str, like.shape))
    if like.is_floating_point():
        return f"torch.randn({shape})" if shape else "torch.randn(())"
    if like.dtype == torch.bool:
        return f"torch.randint(0, 2, ({shape}{',' * (like.ndim == 1)})).bool()"
    kind = "" if like.dtype == torch.int64 else f", dtype={like.dtype}"
    return f"torch.randint(0, 7, ({shape}{',' * (like.ndim == 1)}){kind})"


def random_program(rng: random.Random) -> Program:
    """One to eight statements."""
    inputs = _inputs(rng)
    pool = Program(inputs, ()).values()
    statements: list[Statement] = []
    wanted = rng.randint(1, 8)
    for _ in range(40 * wanted):
        if len(statements) == wanted:
            break
        name = f"v{len(pool)}"
        text = _fill_in(rng, rng.choice(rng.choice(TEMPLATES)), pool)
        value = _value(text, pool) if text is not None else None
        if value is not None:
            statements.append(Statement(name, text or ""))
            pool[name] = value
    used = set[str]().union(*(s.uses for s in statements))
    results = [s.name for s in statements if s.name not in used]
    if statements and rng.random() < 0.2:
        results.append(rng.choice(statements).name)
    return Program(inputs, tuple(statements), tuple(dict.fromkeys(results))).pruned()


def _inputs(rng: random.Random) -> tuple[Statement, ...]:
    """Tensors whose shapes have much in common, so that operations fit."""
    extents = [rng.choice(EXTENTS) for _ in range(3)]
    if rng.random() < 0.03:
        extents[rng.randrange(3)] = 0
    texts: list[str] = []
    for _ in range(rng.randint(1, 3)):
        shape = [rng.choice([*extents, 1]) for _ in range(rng.choice((1, 2, 2, 3, 3, 4)))]
        while torch.Size(shape).numel() > MOST:
            shape.pop()
        texts.append(random_text(torch.empty(shape)))
    texts.append(random_text(torch.empty([rng.choice(extents) for _ in range(2)])))
    texts.append(random_text(torch.empty([rng.choice((1, 3, 5))] * rng.randint(1, 2)).long()))
    return tuple(Statement(f"v{n}", text) for n, text in enumerate(texts))


def _fill_in(rng: random.Random, template: str, pool: dict[str, torch.Tensor]) -> str | None:
    floats = [n for n, v in pool.items() if v.is_floating_point()]
    kinds = {
        **dict.fromkeys("xyz", floats),
        "b": [n for n, v in pool.items() if v.dtype == torch.bool],
        "i": [n for n, v in pool.items() if v.dtype == torch.int64],
        "m": [n for n in floats if pool[n].ndim == 2],
    }
    chosen: dict[str, str] = {}
    for key in dict.fromkeys(re.findall(r"{(\w)}", template)):
        if key in kinds:
            if not kinds[key]:
                return None
            recent = kinds[key][-3:] if rng.random() < 0.6 else kinds[key]
            chosen[key] = rng.choice(recent)
        elif key in "de":
            rank = pool[chosen["x"]].ndim if "x" in chosen else 1
            chosen[key] = str(rng.randint(-rank, max(rank - 1, 0)))
        else:
            chosen[key] = str(rng.randint(1, 4) if key == "n" else rng.choice((0.5, -1.25, 3.0)))
    return template.format(**chosen)


def _value(text: str, pool: dict[str, torch.Tensor]) -> torch.Tensor | None:
    """What a statement gives, if it is to be in a program."""
    try:
        value = eval(text, NAMES, dict(pool))
    except (RuntimeError, IndexError, ValueError, TypeError, ZeroDivisionError):
        return None
    if not isinstance(value, torch.Tensor) or value.numel() > MOST or value.ndim > 5:
        return None
    finite = value[value.isfinite()].abs() if value.is_floating_point() else value.flatten()[:0]
    if finite.numel() and finite.max() > LARGEST:
        return None
    return value


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The smallest program on the way down that still fails."""
    changed = True
    while changed:
        changed = False
        for candidate in program.smaller():
            if fails(candidate):
                program, changed = candidate, True
                break
    return program

"""
Random PyTorch programs: a few statements over small tensors, as text that `dlc run -c` takes.

A statement is proposed from a table of templates and run by PyTorch; one that PyTorch refuses is
dropped.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F

from fuzzing.templates import TEMPLATES

EXTENTS = (1, 1, 2, 3, 3, 4, 5, 7, 8, 12, 16, 17, 31, 33, 64)
HALVES = (torch.float16, torch.bfloat16)
FLOATS = (
    *[(torch.float32,)] * 10,
    *[(half,) for half in HALVES] * 3,
    *[(torch.float32, half) for half in HALVES] * 2,
    (torch.float32, *HALVES, torch.float64),
    (torch.float64,),
)
"""The types of a program's inputs, of which each has one."""
INTEGER_TYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
MOST = 4096
"""Elements of a tensor at most."""
LARGEST = 1e4
"""Of finite numbers, so that what follows keeps some precision."""

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

    def overflows(self, inputs: Sequence[torch.Tensor]) -> bool:
        """Is a number of f16 infinite for want of range, of these inputs?"""
        given = (x.clone() for x in inputs)  # statements may write to them
        values = dict(zip((s.name for s in self.inputs), given, strict=True))
        with torch.no_grad():
            for statement in self.statements:
                value = values[statement.name] = eval(statement.text, NAMES, values)
                if value.dtype == torch.float16 and _overflows(value, statement.text, values):
                    return True
        return False


def random_text(like: torch.Tensor) -> str:
    """The text that makes random numbers of a tensor's shape and type."""
    shape = f"({', '.join(map(str, like.shape))}{',' * (like.ndim == 1)})"
    if like.dtype == torch.bool:
        return f"torch.randint(0, 2, {shape}).bool()"
    if like.is_floating_point():
        kind = "" if like.dtype == torch.float32 else f", dtype={like.dtype}"
        return f"torch.randn({shape}{kind})"
    kind = "" if like.dtype == torch.int64 else f", dtype={like.dtype}"
    return f"torch.randint(0, 7, {shape}{kind})"


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
        value = value_of(text, pool) if text is not None else None
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
    floats = rng.choice(FLOATS)

    def some(shape: list[int], types: Sequence[torch.dtype]) -> str:
        while torch.Size(shape).numel() > MOST:
            shape.pop()
        return random_text(torch.empty(shape, dtype=rng.choice(types)))

    texts = [
        some(
            [rng.choice([*extents, 1]) for _ in range(rng.choice((1, 2, 2, 2, 3, 3, 3, 4, 4, 5)))],
            floats,
        )
        for _ in range(rng.randint(1, 3))
    ]
    texts.append(some([rng.choice(extents) for _ in range(2)], floats))
    texts.append(some([rng.choice((1, 3, 5))] * rng.randint(1, 2), [torch.int64]))
    if rng.random() < 0.5:
        shape = [rng.choice([*extents, 1]) for _ in range(rng.randint(1, 3))]
        texts.append(some(shape, INTEGER_TYPES))
    return tuple(Statement(f"v{n}", text) for n, text in enumerate(texts))


def _fill_in(rng: random.Random, template: str, pool: dict[str, torch.Tensor]) -> str | None:
    floats = [n for n, v in pool.items() if v.is_floating_point()]
    booleans = [n for n, v in pool.items() if v.dtype == torch.bool]
    integers = [n for n, v in pool.items() if v.dtype in INTEGER_TYPES[:-1]]
    kinds = {
        **dict.fromkeys("xyz", floats),
        **dict.fromkeys("bc", booleans),
        **dict.fromkeys("ij", integers),
        "k": [n for n, v in pool.items() if v.dtype == torch.int64],
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
            rank = next((pool[chosen[key]].ndim for key in "xib" if key in chosen), 1)
            chosen[key] = str(rng.randint(-rank, max(rank - 1, 0)))
        else:
            chosen[key] = str(rng.randint(1, 4) if key == "n" else rng.choice((0.5, -1.25, 3.0)))
    return template.format(**chosen)


def value_of(text: str, pool: dict[str, torch.Tensor]) -> torch.Tensor | None:
    """What a statement gives, if it is to be in a program."""
    try:
        value = eval(text, NAMES, dict(pool))
    except (RuntimeError, IndexError, ValueError, TypeError, ZeroDivisionError):
        return None
    if not isinstance(value, torch.Tensor) or value.numel() > MOST or value.ndim > 5:
        return None
    wide = value.double()
    finite = wide[wide.isfinite()].abs()
    if finite.numel() and finite.max() > (LARGEST if value.is_floating_point() else 1e9):
        return None
    return None if value.dtype == torch.float16 and _overflows(value, text, pool) else value


def _overflows(value: torch.Tensor, text: str, pool: dict[str, torch.Tensor]) -> bool:
    """Is anything infinite for want of range? Where it is rounded decides, so anything is right."""
    given = (pool[name] for name in Statement("", text).uses)
    had = any(v.is_floating_point() and v.isinf().any() for v in given)
    return bool(value.isinf().any()) and not had and "inf" not in text


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

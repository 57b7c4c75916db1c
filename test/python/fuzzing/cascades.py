"""
Random chains of reduces along one axis, with random arithmetic between them: largest elements, sums
of what is relative to them, means, squares around means, products with matrices, and so on.
"""

from __future__ import annotations

import math
import random

import torch

from fuzzing.programs import EXTENTS, HALVES, MOST, Program, Statement, random_text, value_of

LONG = (1, 2, 3, 7, 17, 31, 33, 64, 100, 127, 129)
"""Extents of the axis that is reduced."""
SCORES = """
{x} | {x} * 0.5 + {y} | {x} * {r} | {q} @ {k}.mT | ({q} @ {k}.mT) * 0.25 | {q} @ ({k} * 0.5).mT
(({q} @ {k}.mT) / 20).tanh() * 20 | ({q} @ {k}.mT).masked_fill({x} > 1, float("-inf"))
{x}.masked_fill({y} > 1.5, float("-inf")) | {q} @ {k}.mT + {x} | {x} - 0.1 * {i}
torch.where({i} > 2, {x}, {y}) | {x}.masked_fill({i} < 2, float("-inf")) | {x}.abs() + 0.25
"""
REDUCES = """
{s}.amax(-1, True) | {s}.amax(-1, True) | {s}.amax(-1, True) | {s}.amax(-1, True)
{s}.mean(-1, True) | {s}.mean(-1, True) | {s}.sum(-1, True)
{s}.sum(-1, True) | {s}.amin(-1, True) | {s}.logsumexp(-1, True) | {s}.square().sum(-1, True)
({s} * {y}).sum(-1, True) | ({s} * 0.05 + 1).prod(-1, True) | {s}.abs().amax(-1, True)
{s}.var(-1, keepdim=True, correction=0) | {s}.exp().sum(-1, True)
"""
RELATIVE = """
({s} - {a}).exp() | ({s} - {a}).exp() | ({s} - {a}).exp() | ({s} - {a}).exp() | ({s} - {a}).exp()
({s} - {a}).exp() * {y} | ({y} * ({s} - {a}).exp()) | {s} - {a} | ({s} - {a}).square()
({s} - {a}).square() | {s} * {a} | {s} / ({a}.abs() + 0.5) | ({s} - {a}).exp() / ({a}.abs() + 1)
(({s} - {a}) * 0.5).exp() | torch.exp({s} - {a} - 1) | ({s} - {a}).abs() | {s} * ({a} + 1)
({y} - {a}).exp() | -({s} - {a}).exp() | torch.exp({a} - {s}).clamp(max=9)
"""
ENDS = """
{t} / ({b}.abs() + 0.1) | {t} @ {v} | ({t} @ {v}) / ({b}.abs() + 0.1) | {b} + 0 | {b}.log() + {a}
({t} / ({b}.abs() + 0.1)) @ {v} | {t} * {b} + {y}
{t} * ({b} + 0.1).abs().rsqrt() | {b} - {a} | ({t} * {y}).sum(-1)
"""


def random_cascade(rng: random.Random) -> Program:
    """A chain of one to three reduces, and what is made of the last two of them."""
    rows, length, width, columns = (rng.choice(e) for e in (EXTENTS, LONG, (1, 4, 8), (1, 3, 8)))
    batch = rng.choice(((), (), (2,), (1, 3)))
    rows = min(rows, MOST // length // math.prod(batch))
    dtype = rng.choice((torch.float32,) * 6 + HALVES)
    shapes = {
        "x": (*batch, rows, length),
        "y": (length,),
        "r": (rows, 1),
        "q": (*batch, rows, width),
        "k": (*batch, length, width),
        "v": (*batch, length, columns),
    }
    texts = [random_text(torch.empty(shape, dtype=dtype)) for shape in shapes.values()]
    chain = _Chain(rng, tuple(Statement(f"v{n}", text) for n, text in enumerate(texts)))
    chain.names |= {name: f"v{n}" for n, name in enumerate(shapes)}
    chain.names["i"] = f"torch.arange({length})"
    chain.names["s"] = chain.names["t"] = chain.say(SCORES)
    chain.names["a"] = chain.names["b"] = chain.say(REDUCES)
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        chain.names["t"] = chain.names["s"] = chain.say(RELATIVE)
        chain.names["a"] = chain.names["b"]
        chain.names["b"] = chain.say(REDUCES)
    ends = tuple(dict.fromkeys(chain.say(ENDS) for _ in range(rng.choice((1, 1, 2)))))
    return Program(chain.inputs, tuple(chain.statements), ends).pruned()


class _Chain:
    """Statements, drawn one after the other, whose values are no larger than a program's may be."""

    def __init__(self, rng: random.Random, inputs: tuple[Statement, ...]) -> None:
        self.rng, self.inputs = rng, inputs
        self.names: dict[str, str] = {}
        """What stands for the names in braces."""
        self.statements: list[Statement] = []
        self._pool = Program(inputs, ()).values()

    def say(self, table: str) -> str:
        """Draws a statement; its name."""
        name = f"v{len(self._pool)}"
        entries = [
            entry.strip() for line in table.strip().splitlines() for entry in line.split("|")
        ]
        self.rng.shuffle(entries)
        for entry in [*entries, "{x} * 1"]:
            text = entry.format(**self.names)
            if (value := value_of(text, self._pool)) is not None:
                self._pool[name] = value
                self.statements.append(Statement(name, text))
                return name
        raise AssertionError("expected a value of an input to be small")

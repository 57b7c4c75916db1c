"""Quotients by what is never tiny are products with a reciprocal, and right for all inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from harness import apply, parse
from torch.nn import functional as F

import dlc
from dlc.analysis.loop import float_ranges, loops
from dlc.transforms.loop.fusion import reciprocals

INF, NAN = float("inf"), float("nan")
ROWS = torch.tensor(
    [
        [1.0, 2.0, 3.0, -4.0, 0.5],
        [0.0, 0.0, 0.0, 0.0, 0.0],
        [-120.0, -130.0, -140.0, -150.0, -160.0],
        [3e38, -3e38, 1e38, 0.0, 1.0],
        [1e-39, 2e-39, 0.0, -1e-40, 1e-45],
        [INF, 1.0, 2.0, 3.0, 4.0],
        [-INF, 1.0, -INF, 3.0, 4.0],
        [-INF, -INF, -INF, -INF, -INF],
        [NAN, 1.0, 2.0, 3.0, 4.0],
    ]
)
"""Ordinary rows, and those whose sums are 0, tiny, huge, infinite or no number."""

INVERTED = {
    "softmax": lambda x: torch.softmax(x, -1),
    "softmax of a product": lambda x: torch.softmax(x * 0.125, -1),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "by a root": lambda x: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5),
}
DIVIDED = {
    "by a sum": lambda x: x / x.sum(-1, keepdim=True),
    "by a sum of exps": lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True),
    "by the largest": lambda x: x / x.amax(-1, keepdim=True),
    "the place of the largest": lambda x: F.normalize(x, dim=-1).argmax(-1),
    "a rounded sum": lambda x: torch.floor(torch.softmax(x, -1).sum(-1) * 0.75),
    "rounded": lambda x: torch.floor(x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5)),
}


def quotients(program: Callable[[torch.Tensor], torch.Tensor]) -> tuple[bool, torch.Tensor]:
    """True if a row is inverted once, and what the program gives on the host."""
    compiled = dlc.compile(program, (ROWS,), backend="host", target="sm_90")
    inverted = any("_reciprocal = 1.0f / " in kernel.source for kernel in compiled.kernels)
    return inverted, compiled(ROWS)


@pytest.mark.parametrize("name", INVERTED | DIVIDED)
def test_what_is_never_tiny_is_inverted_once(name: str) -> None:
    program = (INVERTED | DIVIDED)[name]
    inverted, result = quotients(program)
    assert inverted == (name in INVERTED)
    torch.testing.assert_close(result, program(ROWS), equal_nan=True)


LINKS = 40
"""As many values that are read twice would be 2 ** 40 paths through them."""


def _chain(first: str) -> tuple[str, str]:
    """Operations that each read what the one before makes twice; and the last value."""
    names = [first, *(f"%link{n}" for n in range(LINKS))]
    links = [f"{after} = math.fma {one}, {one}, {one} : f32" for one, after in pairwise(names)]
    return "\n".join(links), names[-1]


def _softmax_of_chains() -> str:
    links, last = _chain("%a")
    following, result = _chain("%q")
    return f"""
func.func @main(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {{
  %y = loop.kernel @softmax(%x: memref<8x64xf32> = %x) -> (%y: memref<8x64xf32>) {{
    loop.for %row in 8 {{
      %max = loop.reduce max %k in 64 -> f32 {{
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        {links}
        loop.yield {last} : f32
      }}
      %sum = loop.reduce add %k in 64 -> f32 {{
        %a = loop.load %x[%row, %k] : memref<8x64xf32>
        {links}
        %d = arith.subf {last}, %max : f32
        %e = math.exp %d : f32
        loop.yield %e : f32
      }}
      loop.for %c in 64 {{
        %a = loop.load %x[%row, %c] : memref<8x64xf32>
        %q = arith.divf %a, %sum : f32
        {following}
        loop.store {result}, %y[%row, %c] : memref<8x64xf32>
      }}
    }}
  }}
  func.return %y : tensor<8x64xf32>
}}"""


def test_what_is_read_often_is_visited_once(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = Counter[str]()
    for module, question in QUESTIONS:

        def counted(
            *args: object, ask: Callable[..., object] = getattr(module, question), key=question
        ) -> object:
            visits[key] += 1
            assert visits[key] < 5 * LINKS, f"{key} is asked again and again"
            return ask(*args)

        monkeypatch.setattr(module, question, counted)
    program = parse(_softmax_of_chains())
    apply(program, "take-reciprocals")
    assert "%sum_reciprocal = arith.divf" in str(program)
    assert all(visits[question] >= LINKS for _, question in QUESTIONS)


QUESTIONS = [
    (reciprocals, "_jumps"),
    (float_ranges, "_range"),
    (loops, "_do_alike"),
]
"""What is asked of each value that follows a quotient, that bounds a divisor, that is like one."""

"""Loops over the chunks of a ring whose fold holds for some iterations only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.passes import PassPipeline

from dlc.registry import parse_pipeline, register
from dlc.simulator import run_module

CHUNKS, BLOCKS = 8, 4

AT_ONCE = """
func.func @main(%x: tensor<256xf32>) -> tensor<4x32xf32> {{
  %y = tile.kernel @k(%x: memref<256xf32> = %x) -> (%y: memref<4x32xf32>) {{
    tile.launch block(%b in 4) thread(%t in 32) {{
      %r = tile.ring {kind} %x(%n in 8)[%n * 32] [32] : memref<256xf32>
          -> memref<3x32xf32, #tile.shared>
      %acc = tile.reduce add serial(%k in 8) -> f32 {{
        tile.fill %r[%k]
        %s = tile.acquire %r[%k] : memref<3x32xf32, #tile.shared> -> memref<32xf32, #tile.shared>
        %v = tile.load %s[31 - %t] : memref<32xf32, #tile.shared>
        tile.release %r[%k]
        tile.yield %v where ({condition}) : f32
      }}
      tile.store %acc, %y[%b, %t] : memref<4x32xf32>
    }}
  }}
  func.return %y : tensor<4x32xf32>
}}
"""
AHEAD = (
    AT_ONCE.replace("      %acc =", "      tile.fill %r[0]\n      tile.fill %r[1]\n      %acc =")
    .replace("        tile.fill %r[%k]\n", "")
    .replace("        %v =", "        tile.fill %r[%k + 2]\n        %v =")
)

CONDITIONS: dict[str, Callable[[int, int], bool]] = {
    "%b + %k < 6": lambda b, k: b + k < 6,
    "%k >= %b * 2": lambda b, k: k >= b * 2,
    "%b + %k mod 4 >= 3": lambda b, k: b + k % 4 >= 3,
}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("text", [AT_ONCE, AHEAD], ids=["at once", "ahead"])
@pytest.mark.parametrize("kind", ["", "async", "tma"])
def test_skipped_chunks(kind: str, text: str, condition: str) -> None:
    ctx = register(Context())
    module = Parser(ctx, text.format(kind=kind, condition=condition)).parse_module()
    PassPipeline(
        parse_pipeline("bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers")
    ).apply(ctx, module)
    module.verify()
    x = np.arange(256, dtype=np.float32)
    holds = CONDITIONS[condition]
    rows = x.reshape(CHUNKS, 32)[:, ::-1]
    expected = [sum(rows[k] for k in range(CHUNKS) if holds(b, k)) for b in range(BLOCKS)]
    (result,) = run_module(module, [x])
    np.testing.assert_array_equal(result, np.stack(expected))

"""Folds of products that begin where the sums are give the same numbers, at every step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from harness import STEPS, Array, apply, lowered, parse
from xdsl.dialects.builtin import ModuleOp

from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp, ReduceOp
from dlc.simulator import run_module
from dlc.target import set_target

SHAPES = ((7, 12, 8, 3), (1, 4, 1, 2), (5, 33, 17, 11), (3, 32, 16, 16), (0, 6, 4, 3), (2, 6, 0, 2))
"""Rows, columns, K, and points of a run."""
FOLDS: dict[str, Callable[..., Array]] = {
    "add": np.sum, "mul": np.prod, "max": np.max, "min": np.min
}  # fmt: skip


def program(rows: int, columns: int, k: int, monoid: str, *, planes: bool) -> ModuleOp:
    """Two products with a bias, and a fold of the squares of their columns, or of all of each."""
    shapes = (f"2x{rows}x{k}", f"{columns}x{k}", f"{columns}", f"2x{rows}x{columns}")
    x, w, b, y = (f"{n}xf32" for n in shapes)
    z = "2xf32" if planes else f"2x{rows}xf32"
    around, inside, place = f"%h in 2, %i in {rows}", f"%j in {columns}", "%h, %i"
    if planes:
        around, inside, place = "%h in 2", f"%i in {rows}, {inside}", "%h"
    module = parse(f"""
func.func @main(%x: tensor<{x}>, %w: tensor<{w}>, %b: tensor<{b}>) -> tensor<{z}> {{
  %y = loop.kernel @product(%x: memref<{x}> = %x, %w: memref<{w}> = %w, %b: memref<{b}> = %b)
      -> (%y: memref<{y}>) {{
    loop.for %h in 2, %i in {rows}, %j in {columns} {{
      %s = loop.reduce add %k in {k} -> f32 {{
        %c = loop.load %x[%h, %i, %k] : memref<{x}>
        %d = loop.load %w[%j, %k] : memref<{w}>
        %p = arith.mulf %c, %d : f32
        loop.yield %p : f32
      }}
      %e = loop.load %b[%j] : memref<{b}>
      %t = arith.addf %s, %e : f32
      loop.store %t, %y[%h, %i, %j] : memref<{y}>
    }}
  }}
  %z = loop.kernel @fold(%y: memref<{y}> = %y) -> (%z: memref<{z}>) {{
    loop.for {around} {{
      %m = loop.reduce {monoid} {inside} -> f32 {{
        %c = loop.load %y[%h, %i, %j] : memref<{y}>
        %d = arith.mulf %c, %c : f32
        loop.yield %d : f32
      }}
      %n = arith.negf %m : f32
      loop.store %n, %z[{place}] : memref<{z}>
    }}
  }}
  func.return %z : tensor<{z}>
}}""")
    set_target(module, "sm_90", "f32")
    apply(module, "canonicalize-loops")
    return module


def drawn(rows: int, columns: int, k: int) -> list[Array]:
    """Small numbers, whose sums of products are exact in any order, and some that are none."""
    rng, shapes = np.random.default_rng(k), ((2, rows, k), (columns, k), (columns,))
    inputs = [rng.integers(-1, 2, shape).astype(np.float32) for shape in shapes]
    if rows > 2:
        inputs[0][0, 1, -1], inputs[0][0, 2, 0] = -np.inf, np.nan
    return inputs


@pytest.mark.parametrize("planes", [False, True])
@pytest.mark.parametrize("monoid", FOLDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_numbers(shape: tuple[int, ...], monoid: str, planes: bool) -> None:
    rows, columns, k, points = shape
    if monoid in ("max", "min") and planes and not rows:
        return  # of nothing
    module = program(rows, columns, k, monoid, planes=planes)
    inputs = drawn(rows, columns, k)
    x, w, b = (t.astype(np.float64) for t in inputs)
    with np.errstate(all="ignore"):
        y = np.square(np.einsum("hik,jk->hij", x, w) + b)
        expected = -FOLDS[monoid](y, axis=(1, 2) if planes else 2)
    apply(module, f"fold-in-parts{{points={points}}}")
    if columns > points and rows > 1 and k > 1:
        first, second = kernels_in(module, KernelOp)
        (sums,) = (op for op in first.walk() if isinstance(op, ReduceOp))
        assert len(sums.results) == points
        assert second.inputs == tuple(first.results)
    apply(module, "schedule-kernels")
    for number, step in enumerate(STEPS):
        apply(module, step, round_trip=False)
        if shape == SHAPES[0] or number == len(STEPS) - 1:
            (found,) = run_module(lowered(module, round_trip=False), inputs)
            np.testing.assert_allclose(found, expected, rtol=1e-5)

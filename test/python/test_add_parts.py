"""Folds that add the parts of a product up give the same numbers, at every step of a schedule."""

from __future__ import annotations

import numpy as np
import pytest
from harness import STEPS, Array, apply, lowered, parse
from xdsl.dialects.builtin import ModuleOp

from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp
from dlc.simulator import run_module
from dlc.target import set_target

SHAPES = ((7, 5, 12, 3), (2, 3, 2, 2), (3, 33, 16, 4), (5, 8, 32, 16))
"""Rows, columns, K and its parts."""


def program(rows: int, columns: int, k: int, *, sums: int, returned: bool) -> ModuleOp:
    """A product, or two of one factor that are multiplied, with a residual, and a norm of rows."""
    x, w, y = f"{rows}x{k}xf32", f"{columns}x{k}xf32", f"{rows}x{columns}xf32"
    more, other = (", %v: memref<{0}> = %v", ", %v: tensor<{0}>") if sums == 2 else ("", "")
    second = (
        f"""%d = loop.load %v[%j, %k] : memref<{w}>
        %q = arith.mulf %a, %d : f32
        loop.yield %p, %q : f32, f32"""
        if sums == 2
        else "loop.yield %p : f32"
    )
    results = "%s, %g = loop.reduce add %k in {0} -> (f32, f32)"
    head = (results if sums == 2 else "%s = loop.reduce add %k in {0} -> f32").format(k)
    factor = "%h = arith.mulf %s, %g : f32" if sums == 2 else "%h = arith.addf %s, %s : f32"
    module = parse(f"""
func.func @main(%x: tensor<{x}>, %w: tensor<{w}>{other.format(w)}, %r: tensor<{y}>)
    -> (tensor<{y}>{f", tensor<{y}>" if returned else ""}) {{
  %y = loop.kernel @product(%x: memref<{x}> = %x, %w: memref<{w}> = %w{more.format(w)},
      %r: memref<{y}> = %r) -> (%y: memref<{y}>) {{
    loop.for %i in {rows}, %j in {columns} {{
      {head} {{
        %a = loop.load %x[%i, %k] : memref<{x}>
        %b = loop.load %w[%j, %k] : memref<{w}>
        %p = arith.mulf %a, %b : f32
        {second}
      }}
      {factor}
      %c = loop.load %r[%i, %j] : memref<{y}>
      %t = arith.addf %h, %c : f32
      loop.store %t, %y[%i, %j] : memref<{y}>
    }}
  }}
  %z = loop.kernel @norm(%y: memref<{y}> = %y) -> (%z: memref<{y}>) {{
    %one = arith.constant 1.0 : f32
    loop.for %i in {rows} {{
      %s = loop.reduce add %j in {columns} -> f32 {{
        %a = loop.load %y[%i, %j] : memref<{y}>
        %b = arith.mulf %a, %a : f32
        loop.yield %b : f32
      }}
      %m = arith.addf %s, %one : f32
      loop.for %c in {columns} {{
        %a = loop.load %y[%i, %c] : memref<{y}>
        %b = arith.divf %a, %m : f32
        loop.store %b, %z[%i, %c] : memref<{y}>
      }}
    }}
  }}
  func.return %z{", %y" if returned else ""} : tensor<{y}>{f", tensor<{y}>" if returned else ""}
}}""")
    set_target(module, "sm_90", "f32")
    return module


def drawn(rows: int, columns: int, k: int, *, sums: int) -> list[Array]:
    """Small whole numbers, whose sums of products are exact in any order, and rows that are not."""
    rng = np.random.default_rng(k)
    shapes = [(rows, k), *[(columns, k)] * sums, (rows, columns)]
    inputs = [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
    if rows > 2:
        inputs[0][1, -1], inputs[0][2, 0] = -np.inf, np.nan
    return inputs


def expected(inputs: list[Array]) -> list[Array]:
    x, *weights, r = (t.astype(np.float64) for t in inputs)
    with np.errstate(invalid="ignore"):
        found = [np.einsum("ik,jk->ij", x, w) for w in weights]
        y = (found[0] * found[1] if len(found) == 2 else 2 * found[0]) + r
        return [y / ((y * y).sum(1, keepdims=True) + 1), y]


def judged(module: ModuleOp, inputs: list[Array]) -> None:
    results = run_module(lowered(module, round_trip=False), inputs)
    for found, wanted in zip(results, expected(inputs), strict=False):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize("sums", [1, 2])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_numbers(shape: tuple[int, ...], sums: int, returned: bool) -> None:
    rows, columns, k, parts = shape
    module = program(rows, columns, k, sums=sums, returned=returned)
    inputs = drawn(rows, columns, k, sums=sums)
    apply(module, f"add-parts{{parts={parts}}}")
    first, second = kernels_in(module, KernelOp)
    assert [tuple(ref.type.get_shape()) for ref in first.output_refs] == [
        (parts, rows, columns)
    ] * sums
    assert len(second.results) == 1 + returned
    apply(module, "schedule-kernels")
    for number, step in enumerate(STEPS):
        apply(module, step, round_trip=False)
        if shape == SHAPES[0] or number == len(STEPS) - 1:
            judged(module, inputs)

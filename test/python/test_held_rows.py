"""
Attention on tensor cores: what lanes of warps hold in registers, from the scores of a chunk to the
powers that are a factor again. Every step of its schedules, on the host and in the simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import loop_cases
import numpy as np
import pytest
import torch
from attention_variants import Variant
from harness import STEPS, apply, interpret, lowered, obeyed, on_host, reference, scheduled
from test_attention import PROGRAMS
from test_attention_numbers import agrees, fused
from xdsl.dialects.builtin import ModuleOp

import dlc
from dlc.dialects import kernel, tile
from dlc.schedule.cascade_problem import CascadeProblem
from dlc.schedule.cascade_ranking import ranked_cascades
from dlc.simulator import run_module
from dlc.target import TARGETS

Array = np.ndarray
INF = float("inf")
MODES = (("forward", "late"), ("reverse", "early"), ("random", "late"))


def attention(
    rows: int,
    keys: int,
    width: int,
    columns: int,
    *,
    heads: int = 1,
    where: str = "",
    bias: bool = False,
    keep: Callable[[Array, Array], Array] | None = None,
    change: Callable[[Array, Array, Array], None] = lambda q, k, v: None,
) -> loop_cases.Case:
    """
    softmax(q · kᵀ / √width) · v of f16, one sweep over keys; where a condition on %row and %k
    fails, as `keep` has it, the score is -inf. With `bias`, ALiBi's: the distance, times -1/4.
    """
    rng = np.random.default_rng(rows * 1000 + keys)
    shapes = (heads, rows, width), (heads, keys, width), (heads, keys, columns)
    q, k, v = (rng.standard_normal(shape).astype(np.float16) for shape in shapes)
    change(q, k, v)
    types = ["x".join(map(str, (*shape, "f16"))) for shape in (*shapes, (heads, rows, columns))]
    (tq, tk, tv, to), scale = types, width**-0.5
    masked, score = "", "%scaled"
    if bias:
        score = "%biased"
        masked = """
          %i = loop.index %k - %row
          %ii = arith.index_cast %i : index to i32
          %far = arith.sitofp %ii : i32 to f32
          %near = arith.mulf %far, %quarter : f32
          %biased = arith.addf %scaled, %near : f32"""
    if where:
        masked += f"\n          %masked = loop.select {score} where ({where}) else %low : f32"
        score = "%masked"
    text = f"""
func.func @main(%q: tensor<{tq}>, %y: tensor<{tk}>, %v: tensor<{tv}>) -> tensor<{to}> {{
  %o = loop.kernel @attend(%q: memref<{tq}> = %q, %y: memref<{tk}> = %y, %v: memref<{tv}> = %v)
      -> (%o: memref<{to}>) {{
    %low = arith.constant 0xff800000 : f32
    %one = arith.constant 1.0 : f32
    %quarter = arith.constant 0.25 : f32
    %scale = arith.constant {scale} : f32
    loop.for %h in {heads}, %row in {rows}, %c in {columns} {{
      %max, %sum, %out = loop.reduce expsum %k in {keys} -> (f32, f32, f32) {{
        %dot = loop.reduce add %d in {width} -> f32 {{
          %a = loop.load %q[%h, %row, %d] : memref<{tq}>
          %b = loop.load %y[%h, %k, %d] : memref<{tk}>
          %ae = arith.extf %a : f16 to f32
          %be = arith.extf %b : f16 to f32
          %p = arith.mulf %ae, %be : f32
          loop.yield %p : f32
        }}
        %scaled = arith.mulf %dot, %scale : f32{masked}
        %z = loop.load %v[%h, %k, %c] : memref<{tv}>
        %ze = arith.extf %z : f16 to f32
        loop.yield {score}, %one, %ze : f32, f32, f32
      }}
      %none = arith.subf %max, %max : f32
      %whole = math.exp %none : f32
      %outs = arith.mulf %out, %whole : f32
      %sums = arith.mulf %sum, %whole : f32
      %r = arith.divf %outs, %sums : f32
      %half = arith.truncf %r {{storage}} : f32 to f16
      loop.store %half, %o[%h, %row, %c] : memref<{to}>
    }}
  }}
  func.return %o : tensor<{to}>
}}"""

    def expected(q: Array, k: Array, v: Array) -> list[Array]:
        scores = q @ np.swapaxes(k, -1, -2) * scale
        i, j = np.arange(rows)[:, None], np.arange(keys)[None]
        scores = scores + (0.25 * (j - i) if bias else 0)
        scores = np.where(keep(i, j), scores, -INF) if keep is not None else scores
        with np.errstate(invalid="ignore"):
            powers = np.exp(scores - scores.max(-1, keepdims=True))
            return [powers @ v / powers.sum(-1, keepdims=True)]

    return loop_cases.Case("attention", text, (q, k, v), expected, keys)


CAUSAL = {"where": "%row - %k >= 0", "keep": lambda i, j: i >= j}
WINDOW = {
    "where": "%row - %k >= 0, %k - %row + 20 >= 0",
    "keep": lambda i, j: (i >= j) & (j >= i - 20),
}


def schedule(
    rows: int, columns: int, *, warps: tuple[int, int] = (1, 1), bk: int = 32, tail: str = ""
) -> str:
    """Blocks of so many rows and columns, in so many warps, with so many keys at once."""
    held = f"{rows // warps[0]},{columns // warps[1]}"
    return (
        f"tileify,chunk-matmul-k{{bk={bk} vector=16}},blockify-launch{{block={rows},{columns} "
        f"thread={warps[0]},{warps[1]}}},stage-inputs{{budget=90000 compute=true}},"
        f"register-tile{{extents={held} mma=m16n8k16}},"
        + (tail or "double-buffer{depth=2},split-inner-for-swizzle,async-copy,pipeline-k-outer,")
        + "mark-unroll{limit=64}"
    )


def with_mask(rows: int, keys: int) -> loop_cases.Case:
    """Attention to whose scores a tensor is added."""
    case = attention(rows, keys, 16, 16)
    mask = np.random.default_rng(1).standard_normal((rows, keys)).astype(np.float16)
    type = f"{rows}x{keys}xf16"
    text = case.text.replace(") -> tensor<", f", %mask: tensor<{type}>) -> tensor<", 1)
    text = text.replace(")\n      -> (%o", f", %mask: memref<{type}> = %mask)\n      -> (%o", 1)
    text = text.replace(
        "%scaled = arith.mulf %dot, %scale : f32",
        f"""%plain = arith.mulf %dot, %scale : f32
        %m = loop.load %mask[%row, %k] : memref<{type}>
        %me = arith.extf %m : f16 to f32
        %scaled = arith.addf %plain, %me : f32""",
    )

    def expected(q: Array, k: Array, v: Array, m: Array) -> list[Array]:
        scores = q @ np.swapaxes(k, -1, -2) / 4 + m
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return [powers @ v / powers.sum(-1, keepdims=True)]

    return replace(case, text=text, inputs=(*case.inputs, mask), expected=expected)


def split(options: str) -> str:
    """A schedule that splits the keys."""
    text = schedule(32, 16, warps=(2, 1), bk=16)
    return text.replace("blockify", f"split-matmul-k{{{options}}},blockify", 1)


CASES: dict[str, tuple[loop_cases.Case, str]] = {
    "a mask that is added": (with_mask(40, 70), schedule(32, 16, warps=(2, 1), bk=16)),
    "keys apart": (
        attention(40, 100, 16, 16),
        split('splits=3 then="tileify,blockify-launch{block=8,8 thread=8,8}"'),
    ),
    "keys apart, in one launch": (attention(40, 100, 16, 16), split("splits=3 combine=last")),
    "one tile": (attention(16, 32, 16, 16), schedule(16, 16, bk=16)),
    "two warps": (attention(32, 32, 16, 8, **CAUSAL), schedule(32, 8, warps=(2, 1))),
    "tiles of a warp": (attention(64, 64, 16, 16, **CAUSAL), schedule(64, 16, warps=(2, 1))),
    "columns apart": (attention(16, 48, 16, 32), schedule(16, 32, warps=(1, 2), bk=16)),
    "ragged": (attention(17, 100, 32, 24, **CAUSAL), schedule(16, 24)),
    "rows and keys of one more": (attention(129, 129, 16, 16), schedule(64, 16, warps=(4, 1))),
    "two rows": (attention(2, 100, 16, 16), schedule(16, 16)),
    "seven rows": (attention(7, 17, 16, 16, **CAUSAL), schedule(16, 16, bk=16)),
    "heads": (
        attention(20, 50, 16, 16, heads=3, **CAUSAL),
        schedule(32, 16).replace("block=", "block=1,").replace("thread=", "thread=1,"),
    ),
    "a window": (attention(70, 70, 16, 16, **WINDOW), schedule(32, 16, warps=(2, 1), bk=16)),
    "ALiBi": (attention(33, 47, 16, 16, bias=True, **CAUSAL), schedule(32, 16, warps=(2, 1))),
    "padded": (
        attention(40, 60, 32, 16),
        schedule(32, 16, warps=(2, 1), tail="double-buffer{depth=3},async-copy,pad-smem,"
                 "pipeline-k-outer,"),
    ),
    "not asynchronous": (attention(19, 64, 16, 16), schedule(16, 16, tail="pad-smem,")),
}  # fmt: skip


def steps(case: loop_cases.Case, text: str, count: int | None = None) -> ModuleOp:
    module = scheduled(case, text, "sm_80")
    apply(module, ",".join(STEPS[:count]))
    return module


@pytest.mark.parametrize("name", CASES)
def test_attention(name: str) -> None:
    case, text = CASES[name]
    module = lowered(steps(case, text))
    products = [op for op in module.walk() if isinstance(op, kernel.MmaOp)]
    assert len(products) == 2
    interpret(case, module, name)
    on_host(case, module, name, [{"order": order, "async_mode": mode} for order, mode in MODES])


@pytest.mark.parametrize("count", range(1, len(STEPS)))
@pytest.mark.parametrize("name", ["ragged", "two warps"])
def test_steps(name: str, count: int) -> None:
    case, text = CASES[name]
    on_host(case, lowered(steps(case, text, count)), f"{name}, {count} steps")


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("length", [17, 100, 129])
def test_widths(length: int, width: int) -> None:
    case = attention(length, length, width, width, **CAUSAL)
    text = schedule(64, width, warps=(4, 1), bk=64 if length > 64 else 16)
    on_host(case, lowered(steps(case, text)), f"{length} rows and keys, {width} wide")


def test_what_is_held() -> None:
    """Scores, their largest, powers and sums are registers; only inputs are in shared memory."""
    case, text = CASES["tiles of a warp"]
    module = steps(case, text)
    held = {op.result.name_hint: op for op in module.walk() if isinstance(op, tile.HoldOp)}
    assert list(held) == ["masked", "max_part", "power", "power_factor", "sum_part"]
    assert str(held["power"].result.type) == "memref<2x2x32xf32, #tile.held>"
    assert str(held["power_factor"].result.type) == "memref<2x2x32xf16, #tile.held>"
    assert not any(isinstance(op, tile.ComputeOp) for op in module.walk())
    low = lowered(module)
    shared = [op for op in low.walk() if isinstance(op, kernel.AllocSharedOp)]
    assert sorted(str(op.result.name_hint) for op in shared) == ["q_smem", "v_ring", "y_ring"]


def _unusual(q: Array, k: Array, v: Array) -> None:
    q[0, 3], k[0, 5, 1], v[0, 2, 4], v[0, 9, 1] = np.nan, np.inf, np.nan, -np.inf


def test_infinities_and_nan() -> None:
    case = attention(20, 40, 16, 16, change=_unusual)
    module = lowered(steps(case, schedule(16, 16)))
    (found,), (expected,) = run_module(module, case.inputs), reference(case)
    finite = np.isfinite(expected)
    assert finite.any()
    assert np.isnan(expected).any()
    assert (np.isnan(found) == np.isnan(expected)).all()
    error = np.abs(found.astype(np.float64)[finite] - expected[finite])
    assert error.max() <= 2**-10 * np.abs(expected[finite]).max()


def test_scores_of_thousands() -> None:
    """Powers are of differences from the largest: no power overflows in f16."""

    def large(q: Array, k: Array, v: Array) -> None:
        q *= 60
        k *= 60

    case = attention(20, 64, 16, 16, change=large)
    on_host(case, lowered(steps(case, schedule(16, 16))), "large")


ERRORS = {
    "rows": (
        schedule(32, 16).replace("extents=32,16", "extents=16,16"),
        "all 32 points of a warp along %erow at once",
    ),
    "keys": (schedule(16, 16, bk=24).replace("vector=16", "vector=8"), "of 16 keys"),
    "sums": (
        schedule(16, 16).replace("budget=90000", "budget=6750"),
        "products of two loaded elements",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    text, message = ERRORS[name]
    module = scheduled(attention(64, 64, 16, 16), text, "sm_80")
    apply(module, ",".join(STEPS[:7]))
    step = next(s for s in text.replace("},", "}|").split("|") if s.startswith("register-tile"))
    errors = obeyed(module, step)
    assert len(errors) == 1
    assert message in str(errors[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["f16", "bf16"])
@pytest.mark.parametrize("program", ["sdpa", "causal", "masked", "soft-capped"])
def test_by_default(program: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """One kernel of halves, as accurate as eager PyTorch."""
    variant = Variant(PROGRAMS[program])
    generator = torch.Generator().manual_seed(0)
    shapes = (1, 8, 140, 64), (1, 8, 270, 64), (1, 8, 270, 64)
    inputs = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
    file = tmp_path / "joined.mlir"
    file.write_text(str(fused(variant, inputs)[0]))
    compiled = dlc.load(file, backend="host")
    assert ["mma=m" in kernel.schedule for kernel in compiled.kernels] == [True]
    agrees(compiled(*inputs), variant, inputs)


def test_estimates_of_few_keys_go_without() -> None:
    """A warp multiplies 16 keys at once; scores of 24 products are no multiple of that."""
    whole = CascadeProblem(
        batch=8, rows=256, columns=64, keys=256, width=64, row_bytes=128, score_bytes=0,
        key_bytes=128, column_bytes=2, results=3, memory_bytes=1 << 20, halves=True,
    )  # fmt: skip
    target = TARGETS["sm_80"]
    assert ranked_cascades(whole, target)[0].mma
    assert ranked_cascades(replace(whole, ends_early=True), target)[0].mma
    for changed in ({"keys": 15}, {"width": 24}, {"rows": 1}):
        assert not any(c.mma for c in ranked_cascades(replace(whole, **changed), target))
    assert not any(c.mma for c in ranked_cascades(whole, TARGETS["sm_75"]))

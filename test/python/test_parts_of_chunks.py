"""
Warps that have the same points, and parts of each chunk of K: products and attention, every step of
their schedules, on the host and in the simulator.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import test_held_rows as held
import test_tensor_cores as products
import test_wgmma_attention as groups
import torch
import torch.nn.functional as F
from harness import STEPS, apply, interpret, lowered, obeyed, on_host, reference, scheduled
from loop_cases import Case
from mutants import NEVER_EQUIVALENT, Subject, judge, mutations
from test_held_rows import CAUSAL, MODES, WINDOW, attention
from test_printer import nvcc_takes
from test_tensor_cores import product
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

import dlc
from dlc.backend.cuda.print.printer import print_module
from dlc.dialects import kernel, tile
from dlc.judge.accuracy import compare
from dlc.registry import PipelineError, parse_pipeline
from dlc.schedule.cascade_problem import CascadeProblem
from dlc.schedule.cascade_ranking import ranked_cascades
from dlc.simulator import run_module
from dlc.target import TARGETS

Array = np.ndarray
APART = "splits=3 combine=last"


def parts(text: str, count: int = 2) -> str:
    """A schedule with warps that take so many parts of each chunk."""
    return text.replace("k16}", f"k16 parts={count}}}", 1)


def rows(
    block: int, columns: int, warps: int = 1, bk: int = 32, count: int = 2, tail: str = ""
) -> str:
    """Blocks of so many rows, in tiles of so many warps that share them."""
    return parts(held.schedule(block, columns, warps=(warps, 1), bk=bk, tail=tail), count)


SMALL = parts(products.schedule((32, 32), (16, 16)))
CASES: dict[str, tuple[Case, str, str]] = {
    "a product": (product(64, 64, 64), "sm_80", parts(products.schedule((64, 64), (32, 32)))),
    "ragged": (product(17, 19, 100), "sm_80", SMALL),
    "one row and column": (product(17, 8, 33), "sm_80", parts(products.schedule((16, 8), (16, 8)))),
    "turned, four parts": (
        product(33, 7, 135, w_turned=True), "sm_80",
        parts(products.schedule((16, 16), (16, 8), bk=128, depth=2), 4),
    ),
    "batched, swizzled": (product(20, 24, 72, batch=3), "sm_80", parts(products.SWIZZLED)),
    "split K": (product(20, 24, 128), "sm_80", parts(
        products.schedule((32, 32), (16, 16), more=products.SPLIT))),
    "split K, in one launch": (product(20, 24, 200), "sm_80", parts(
        products.schedule((32, 32), (16, 16), more=f",split-matmul-k{{{APART}}}"))),
    "split K, by a cluster": (product(20, 24, 200), "sm_90", parts(products.schedule(
        (32, 32), (16, 16), more=f",split-matmul-k{{{APART}}}".replace("last", "cluster")))),
    "attention": (attention(40, 100, 16, 16), "sm_80", rows(32, 16, 2)),
    "causal": (attention(70, 70, 16, 16, **CAUSAL), "sm_80", rows(32, 16, 2)),
    "causal, four parts": (attention(40, 130, 16, 24, **CAUSAL), "sm_80", rows(16, 24, 1, 64, 4)),
    "tiles of a warp": (attention(64, 64, 16, 16, **CAUSAL), "sm_80", rows(64, 16, 2)),
    "a window": (attention(70, 70, 16, 16, **WINDOW), "sm_80", rows(32, 16, 2)),
    "ALiBi": (attention(33, 47, 16, 16, bias=True, **CAUSAL), "sm_80", rows(32, 16, 2)),
    "a mask that is added": (held.with_mask(40, 70), "sm_80", rows(32, 16, 2)),
    "rows and keys of one more": (attention(65, 129, 16, 16), "sm_80", rows(64, 16, 4)),
    "fewer keys than parts": (attention(7, 33, 16, 16), "sm_80", rows(16, 16)),
    "heads": (
        attention(20, 50, 16, 16, heads=3, **CAUSAL), "sm_80",
        rows(32, 16).replace("block=", "block=1,").replace("thread=", "thread=1,"),
    ),
    "padded": (attention(40, 100, 32, 16), "sm_80", rows(
        32, 16, 2, tail="double-buffer{depth=3},async-copy,pad-smem,pipeline-k-outer,")),
    "not asynchronous": (attention(19, 64, 16, 16), "sm_80", rows(16, 16, tail="pad-smem,")),
    "keys apart, in one launch": (attention(40, 200, 16, 16), "sm_80", parts(
        held.split(APART).replace("bk=16", "bk=32"))),
    "warpgroups": (attention(70, 70, 16, 16, **CAUSAL), "sm_90", parts(
        groups.schedule(tail=groups.THREADS))),
    "warpgroups, boxes": (attention(40, 100, 16, 16), "sm_90", parts(groups.schedule())),
}  # fmt: skip


def steps(name: str, count: int | None = None) -> tuple[Case, ModuleOp]:
    case, target, text = CASES[name]
    module = scheduled(case, text, target)
    apply(module, ",".join(STEPS[:count]))
    return case, module


@pytest.mark.parametrize("name", CASES)
def test_parts(name: str) -> None:
    case, module = steps(name)
    folds = [op for op in module.walk() if isinstance(op, tile.CombineOp) and op.dealt]
    assert len(folds) == 1
    low = lowered(module)
    interpret(case, low, name)
    on_host(case, low, name, [{"order": order, "async_mode": mode} for order, mode in MODES])


REGISTER_TILE = STEPS.index("register-tile")


@pytest.mark.parametrize("count", range(REGISTER_TILE + 1, len(STEPS)))
@pytest.mark.parametrize("name", ["ragged", "causal"])
def test_steps(name: str, count: int) -> None:
    case, module = steps(name, count)
    on_host(case, lowered(module), f"{name}, {count} steps")


def _unusual(q: Array, k: Array, v: Array) -> None:
    q[0, 3], k[0, 5, 1], v[0, 2, 4], v[0, 9, 1] = np.nan, np.inf, np.nan, -np.inf


def test_infinities_and_nan() -> None:
    case = attention(20, 72, 16, 16, change=_unusual)
    module = scheduled(case, rows(16, 16), "sm_80")
    apply(module, ",".join(STEPS))
    (found,), (expected,) = run_module(lowered(module), case.inputs), reference(case)
    finite = np.isfinite(expected)
    assert finite.any()
    assert np.isnan(expected).any()
    assert (np.isnan(found) == np.isnan(expected)).all()
    error = np.abs(found.astype(np.float64)[finite] - expected[finite])
    assert error.max() <= 2**-10 * np.abs(expected[finite]).max()


@pytest.mark.parametrize("name", ["ragged", "causal"])
def test_every_mutant_is_found(name: str) -> None:
    case, target, text = CASES[name]
    subject = Subject.of(case, target, text)
    ops = list(subject.module.walk())
    edits = [m for m in mutations(subject.module) if isinstance(ops[m.at], NEVER_EQUIVALENT)]
    assert "kernel.barrier: deleted" in {m.kind for m in edits}
    assert not [m.kind for m in edits if not judge(subject, m).by]


ERRORS = {
    "no multiple of 4 parts": "register-tile{extents=16,16 mma=m16n8k16 parts=4}",
    "more than a block can have": "register-tile{extents=16,16 mma=m16n8k16 parts=64}",
}


@pytest.mark.parametrize("message", ERRORS)
def test_errors(message: str) -> None:
    module = scheduled(attention(64, 64, 16, 16), held.schedule(16, 16), "sm_80")
    apply(module, ",".join(STEPS[:REGISTER_TILE]))
    (error,) = obeyed(module, ERRORS[message])
    assert message in str(error)


def test_threads_take_no_parts() -> None:
    with pytest.raises(PipelineError, match="expected products by warps"):
        parse_pipeline("register-tile{extents=16,16 parts=2}")


def test_what_is_dealt_is_the_same_for_all() -> None:
    _, module = steps("ragged")
    (fold,) = (op for op in module.walk() if isinstance(op, tile.CombineOp))
    fold.results[0].replace_all_uses_with(fold.values[0])
    with pytest.raises(VerifyException, match="nothing after a fold of what threads hold"):
        module.verify()


def test_nvcc_takes_it() -> None:
    """Each part of four has its share of the points to store, and no register is spilled."""
    case = attention(128, 128, 64, 64, heads=2, **CAUSAL)
    text = rows(32, 64, 1, 64, 4).replace("block=", "block=1,").replace("thread=", "thread=1,")
    module = scheduled(case, text.replace("extents=32", "extents=1,32"), "sm_80")
    apply(module, ",".join(STEPS))
    low = lowered(module)
    shared = {op.result.name_hint for op in low.walk() if isinstance(op, kernel.AllocSharedOp)}
    assert {"max_parts", "sum_parts", "out_parts"} < shared
    apply(low, "eliminate-dead-code,sink-expressions")
    assert nvcc_takes(print_module(low), "sm_80", "sm_120") == [0, 0]


def test_default_schedules_take_it_where_rows_are_few() -> None:
    few = CascadeProblem(
        batch=32, rows=128, columns=64, keys=128, width=64, row_bytes=128, score_bytes=0,
        key_bytes=128, column_bytes=2, results=3, memory_bytes=1 << 21, halves=True,
    )  # fmt: skip
    target = TARGETS["sm_120"]
    assert "parts=" in ranked_cascades(few, target)[0].tile_options
    many = replace(few, rows=4096, keys=4096, memory_bytes=1 << 26)
    assert "parts=" not in ranked_cascades(many, target)[0].tile_options


def test_by_default() -> None:
    """Causal attention of bf16 from PyTorch, of ragged rows and keys, is as accurate as eager."""
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(1, 32, 100, 64, generator=generator).bfloat16() for _ in range(3)]
    compiled = dlc.compile(_causal, tuple(given), "sm_120", "host")
    (only,) = compiled.kernels
    assert "parts=" in only.schedule
    exact, eager = _causal(*(x.double() for x in given)), _causal(*given)
    assert compare(compiled(*given), exact, eager, 100).ok


def _causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)

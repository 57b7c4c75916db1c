"""
Attention by warpgroups: scores by wgmma of what lies in shared memory, their powers a factor that
lanes hold. Every step of its schedules, on the host and in the simulator.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from harness import STEPS, apply, interpret, lowered, on_host, reference, scheduled
from loop_cases import Case
from mutants import Subject, judge, mutations
from test_held_rows import CAUSAL, MODES, WINDOW, attention, with_mask
from test_printer import nvcc_takes
from xdsl.dialects.builtin import ModuleOp

import dlc
from dlc.backend.cuda.print.printer import print_module
from dlc.diagnostics import TextError
from dlc.dialects import kernel
from dlc.judge.accuracy import compare
from dlc.schedule.cascade_problem import CascadeProblem
from dlc.schedule.cascade_ranking import ranked_cascades
from dlc.schedule.warpgroup_cascade import warpgroup_cascades
from dlc.simulator import run_module
from dlc.target import TARGETS

Array = np.ndarray
THREADS, TMA, STORED, PRODUCER, TURNS, TURNS_STORED, AHEAD = (
    "double-buffer{depth=2},split-inner-for-swizzle{bytes=32},async-copy,pipeline-k-outer,",
    "double-buffer{depth=2},tma-copy,split-inner-for-swizzle{bytes=32},pipeline-k-outer,",
    "double-buffer{depth=2},tma-copy{store=1},split-inner-for-swizzle{bytes=32},pipeline-k-outer,",
    "double-buffer{depth=2},tma-copy,split-inner-for-swizzle{bytes=32},"
    "pipeline-k-outer{producer=1},",
    "double-buffer{depth=2},tma-copy,split-inner-for-swizzle{bytes=32},"
    "pipeline-k-outer{producer=1 turns=1},",
    "double-buffer{depth=2},tma-copy{store=1},split-inner-for-swizzle{bytes=32},"
    "pipeline-k-outer{producer=1 turns=1},",
    "double-buffer{depth=2},tma-copy,split-inner-for-swizzle{bytes=32},"
    "pipeline-k-outer{producer=1 products=1},",
)


def schedule(
    rows: int = 64, columns: int = 16, *, groups: int = 1, bk: int = 32, heads: int = 1,
    tail: str = TMA, shape: int = 0,
) -> str:  # fmt: skip
    """Blocks of so many rows and columns, by so many warpgroups, with so many keys at once."""
    block, thread = (f"{rows},{columns}", f"{groups},1") if heads == 1 else (
        f"1,{rows},{columns}", f"1,{groups},1")  # fmt: skip
    return (
        f"tileify,chunk-matmul-k{{bk={bk} vector=16}},blockify-launch{{block={block} "
        f"thread={thread}}},stage-inputs{{budget=200000 compute=true points=4,4}},"
        f"register-tile{{extents={rows // groups},{columns} mma=m64n{shape or columns}k16}},"
        f"{tail}mark-unroll{{limit=64}}"
    )


CASES: dict[str, tuple[Case, str]] = {
    "threads copy": (attention(40, 100, 16, 16), schedule(tail=THREADS)),
    "boxes": (attention(40, 100, 16, 16), schedule()),
    "a producer": (attention(130, 100, 16, 16), schedule(128, groups=2, tail=PRODUCER)),
    "causal": (attention(70, 70, 16, 16, **CAUSAL), schedule()),
    "causal, a producer": (
        attention(130, 130, 16, 16, **CAUSAL), schedule(128, groups=2, tail=PRODUCER),
    ),
    "causal, in turns, stored by TMA": (
        attention(130, 130, 16, 16, **CAUSAL), schedule(128, groups=2, tail=TURNS_STORED),
    ),
    "three in turns": (attention(130, 100, 16, 16), schedule(192, groups=3, tail=TURNS)),
    "scores ahead": (attention(130, 100, 16, 16), schedule(128, groups=2, tail=AHEAD)),
    "scores ahead, of three slots": (
        with_mask(40, 130),
        schedule(tail=AHEAD.replace("=2", "=3")).replace("200000", "200000 buffers=q,y,v"),
    ),
    "scores of two products ahead": (attention(20, 96, 16, 16), schedule(bk=48, tail=AHEAD)),
    "a window": (attention(70, 70, 16, 16, **WINDOW), schedule(bk=16)),
    "a mask that is added": (with_mask(40, 70), schedule(tail=THREADS)),
    "a mask where it lies": (
        with_mask(130, 71),
        schedule(128, groups=2, tail=PRODUCER).replace("200000", "200000 buffers=q,y,v"),
    ),
    "ALiBi": (attention(33, 47, 16, 16, bias=True, **CAUSAL), schedule(bk=16)),
    "tiles of a warpgroup": (attention(128, 64, 16, 16, **CAUSAL), schedule(128)),
    "products beside each other": (attention(20, 64, 16, 32), schedule(columns=32, shape=16)),
    "scores of two products": (attention(20, 96, 16, 16), schedule(bk=48)),
    "wide": (attention(20, 70, 48, 16), schedule()),
    "heads, stored by TMA": (
        attention(70, 50, 16, 16, heads=3, **CAUSAL), schedule(heads=3, tail=STORED),
    ),
    "one row and key": (attention(2, 17, 16, 16), schedule(bk=16)),
}  # fmt: skip


def steps(case: Case, text: str, count: int | None = None) -> ModuleOp:
    module = scheduled(case, text, "sm_90")
    apply(module, ",".join(STEPS[:count]))
    return module


@pytest.mark.parametrize("name", CASES)
def test_attention(name: str) -> None:
    case, text = CASES[name]
    module = lowered(steps(case, text))
    scores = [op for op in module.walk() if isinstance(op, kernel.WgmmaOp)]
    held = [op for op in module.walk() if isinstance(op, kernel.WgmmaHeldOp)]
    assert (len(scores), len(held)) == (2 if "ahead" in name else 1, 1)
    assert not any(isinstance(op, kernel.MmaOp) for op in module.walk())
    interpret(case, module, name)
    on_host(case, module, name, [{"order": order, "async_mode": mode} for order, mode in MODES])


REGISTER_TILE = STEPS.index("register-tile")


@pytest.mark.parametrize("count", range(REGISTER_TILE, len(STEPS)))
def test_steps(count: int) -> None:
    """Those before are as without tensor cores."""
    case, text = CASES["causal, a producer"]
    on_host(case, lowered(steps(case, text, count)), f"{count} steps")


def _unusual(q: Array, k: Array, v: Array) -> None:
    q[0, 3], k[0, 5, 1], v[0, 2, 4], v[0, 9, 1] = np.nan, np.inf, np.nan, -np.inf


def test_infinities_and_nan() -> None:
    case = attention(20, 40, 16, 16, change=_unusual)
    module = lowered(steps(case, schedule()))
    (found,), (expected,) = run_module(module, case.inputs), reference(case)
    finite = np.isfinite(expected)
    assert finite.any()
    assert np.isnan(expected).any()
    assert (np.isnan(found) == np.isnan(expected)).all()
    error = np.abs(found.astype(np.float64)[finite] - expected[finite])
    assert error.max() <= 2**-10 * np.abs(expected[finite]).max()


@pytest.mark.parametrize("tail", [TMA, AHEAD])
def test_every_mutant_of_its_products_is_found(tail: str) -> None:
    case = attention(64, 20, 16, 16)
    subject = Subject.of(case, "sm_90", schedule(bk=16, tail=tail))
    ops = list(subject.module.walk())
    edits = [m for m in mutations(subject.module) if isinstance(ops[m.at], PRODUCTS)]
    kinds = {m.kind for m in edits}
    assert {"kernel.wgmma_held: deleted", "kernel.wgmma_fence: deleted"} < kinds
    assert not [m.kind for m in edits if not judge(subject, m).by]


PRODUCTS = (
    kernel.MatrixDescriptorOp
    | kernel.WgmmaOp
    | kernel.WgmmaHeldOp
    | kernel.WgmmaFenceOp
    | kernel.WgmmaCommitOp
    | kernel.WgmmaWaitOp
    | kernel.FenceProxyAsyncOp
)


NOT_AHEAD = {
    "threads meet": (attention(40, 100, 16, 16), TMA.replace("outer", "outer{products=1}")),
    "take turns": (attention(40, 100, 16, 16), AHEAD.replace("products=1", "products=1 turns=1")),
    "skips chunks": (attention(130, 130, 16, 16, **CAUSAL), AHEAD),
}


@pytest.mark.parametrize("message", NOT_AHEAD)
def test_scores_that_are_not_requested_ahead(message: str) -> None:
    case, tail = NOT_AHEAD[message]
    with pytest.raises(TextError, match=message):
        steps(case, schedule(128, groups=2, tail=tail))


def test_what_is_not_swizzled_is_multiplied_by_warps() -> None:
    """Scores of a q whose rows follow each other; the powers are a factor all the same."""
    case = attention(64, 32, 16, 16)
    tail = "double-buffer{depth=2},tma-copy,split-inner-for-swizzle{rings=v_ring bytes=32},"
    module = lowered(steps(case, schedule(bk=16, tail=f"{tail}pipeline-k-outer,")))
    assert {type(op) for op in module.walk() if isinstance(op, MULTIPLIES)} == {
        kernel.MmaOp,
        kernel.WgmmaHeldOp,
    }
    interpret(case, module, "q plain")


MULTIPLIES = kernel.MmaOp | kernel.WgmmaOp | kernel.WgmmaHeldOp

RAISED = "double-buffer{depth=2},tma-copy,split-inner-for-swizzle{bytes=128},pipeline-k-outer"
STORES = RAISED.replace("tma-copy", "tma-copy{store=2}")
LARGE = {
    "64 wide": (64, schedule(64, 64, bk=128, heads=2, tail=f"{RAISED},")),
    "128 wide, a producer": (
        128,
        schedule(128, 128, groups=2, bk=128, heads=2,
                 tail=f"{STORES}{{producer=1 registers=40 turns=1}},").replace("200000", "232448"),
    ),
    "128 wide, scores ahead": (
        128,
        schedule(128, 128, groups=2, bk=64, heads=2,
                 tail=f"{RAISED}{{producer=1 registers=40 products=1}},"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_nvcc_takes_it(name: str) -> None:
    """No register is spilled, and no product waits for another."""
    width, text = LARGE[name]
    masked = {} if "ahead" in name else CAUSAL
    module = lowered(steps(attention(256, 512, width, width, heads=2, **masked), text))
    apply(module, "eliminate-dead-code,sink-expressions")
    assert nvcc_takes(print_module(module), "sm_90") == [0]


def test_default_schedules_take_it_where_they_can() -> None:
    """Where the estimate says so: of matrices in memory, by a chip with wgmma, of two chunks."""
    whole = CascadeProblem(
        batch=32, rows=4096, columns=128, keys=4096, width=128, row_bytes=256, score_bytes=0,
        key_bytes=256, column_bytes=2, results=3, memory_bytes=1 << 26, halves=True, matrices=True,
        boxes=True,
    )  # fmt: skip
    first = ranked_cascades(whole, TARGETS["sm_90"])[0]
    assert (first.mma, "producer=1" in ",".join(first.copy_steps)) == ("m64n128k16", True)
    copied = replace(whole, boxes=False)
    assert not any("producer" in s for s in warpgroup_steps(copied))
    assert warpgroup_steps(copied)
    added = replace(whole, score_bytes=2, once_bytes=2)  # a mask that is read where it lies
    assert ranked_cascades(added, TARGETS["sm_90"])[0].mma == "m64n128k16"
    changed = {"keys": 64}, {"matrices": False}, {"ends_early": True}, {"score_bytes": 2}
    assert not any(warpgroup_steps(replace(whole, **change)) for change in changed)
    assert not any(c.mma.startswith("m64") for c in ranked_cascades(whole, TARGETS["sm_80"]))


def warpgroup_steps(problem: CascadeProblem) -> list[str]:
    """The steps of all tilings for warpgroups that copy keys."""
    return [s for c in warpgroup_cascades(problem, TARGETS["sm_90"]) for s in c.copy_steps]


@pytest.mark.parametrize("width", [64, 80])
def test_by_default(width: int) -> None:
    """Causal attention of bf16 from PyTorch, of ragged rows and keys, is as accurate as eager."""
    generator = torch.Generator().manual_seed(0)
    given = [
        torch.randn(1, 32, 300, width, generator=generator).to(torch.bfloat16) for _ in range(3)
    ]
    compiled = dlc.compile(_causal, tuple(given), "sm_90", "host")
    (only,) = compiled.kernels
    assert "mma=m64n" in only.schedule
    exact, eager = _causal(*(x.double() for x in given)), _causal(*given)
    assert compare(compiled(*given), exact, eager, 300).ok


def _causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)

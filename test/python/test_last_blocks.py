"""Kernels whose last block folds what the blocks that share a reduce hold."""

from __future__ import annotations

from typing import Any

import loop_cases
import numpy as np
import pytest
import torch
from harness import apply, interpret, lowered, parse
from test_mutants import ending_in_one
from test_printer import nvcc_takes
from test_split import (
    COUNT,
    GEMM,
)

import dlc
from dlc.backend.cuda.print.printer import print_module
from dlc.backend.executor import Executor, get_backend
from dlc.dialects import host, kernel
from dlc.dialects.kernel_blocks import counters_of, last_blocks_of
from dlc.schedule import endings
from dlc.simulator import Hazard, run_module
from dlc.simulator.checker import check_module
from dlc.transforms.kernel.lowering import block_folds


def test_one_place_for_all_counts() -> None:
    """It is zeroed where the program begins, once; every launch leaves it so."""
    module = parse(COUNT.format(type="f32", one="1.0"))
    apply(module, "tileify,split-matmul-k{splits=4 combine=last}")
    module = lowered(module)
    apply(module, "plan-buffers")
    zeros = [op for op in module.walk() if isinstance(op, host.ZeroOp)]
    assert len(zeros) == 1
    launches = [op for op in module.walk() if isinstance(op, host.LaunchOp)]
    places: set[int] = set()
    for op in launches:
        assert op.callee is not None
        (number,) = (op.callee.output_refs.index(ref) for ref in counters_of(op.callee))
        piece = op.outputs[number].owner
        assert isinstance(piece, host.SliceOp)
        places.add(piece.begin)
    assert len(launches) == 2
    assert len(places) == 1
    x = torch.arange(50, dtype=torch.float32)
    executor = Executor(module, get_backend("host"))
    for _ in range(3):
        y, z = executor([x])
        assert (y.item(), z.tolist()) == (1225, [8, 8, 8])
    found = run_module(module, [x.numpy()])
    np.testing.assert_array_equal(found[0], 1225)


def gemm_of_groups() -> Any:
    """A kernel with several groups of blocks, in Kernel IR."""
    module = parse(loop_cases.gemm(16, 32, 32).text)
    steps = "tileify,chunk-matmul-k{bk=8},split-matmul-k{splits=4 combine=last}"
    apply(module, f"{steps},blockify-launch{{block=8,8 thread=4,8}}")
    return lowered(module)


def test_without_the_count_parts_are_read_in_a_race() -> None:
    module = gemm_of_groups()
    (op,) = last_blocks_of(module)
    op.detach()
    with pytest.raises(Hazard, match=r"acc_parts|race|nothing"):
        run_module(module, loop_cases.gemm(16, 32, 32).inputs)


def test_what_is_the_same_for_several_groups_is_stored_for_each() -> None:
    """The largest score of a row, and the sum of powers, which do not depend on a column."""
    case = loop_cases.window(1, 4, 8, 3)
    module = parse(case.text)
    apply(module, "tileify,split-matmul-k{splits=2 combine=last}")
    apply(module, "blockify-launch{block=1,2,4 thread=1,2,4}")
    interpret(case, lowered(module), "two blocks of columns")


@pytest.mark.parametrize(
    ("count", "kind"), [(5, "none was the last"), (3, "nothing orders"), (2, "nothing orders")]
)
def test_a_wrong_count_is_a_hazard(count: int, kind: str) -> None:
    module = gemm_of_groups()
    (op,) = last_blocks_of(module)
    op.count = kernel.LastBlockOp(op.ref, op.subscripts, count).count
    with pytest.raises(Hazard, match=kind):
        run_module(module, loop_cases.gemm(16, 32, 32).inputs)


@pytest.mark.parametrize("blocks", [1, 4, 9])
def test_a_check_of_some_blocks_runs_those_that_share(blocks: int) -> None:
    """Else none would be the last, and what it does were not checked."""
    module = gemm_of_groups()
    (verdict,) = check_module(module, blocks=blocks)
    assert verdict.answer == "clean"
    (op,) = last_blocks_of(module)
    op.detach()
    (verdict,) = check_module(module, blocks=blocks)
    assert verdict.answer == "hazard"


def test_nvcc_takes_it() -> None:
    module = parse(loop_cases.linear(13, 17, 53).text)
    steps = "tileify,chunk-matmul-k{bk=4},split-matmul-k{splits=5 combine=last},"
    apply(module, steps + GEMM.replace("register-tile", "register-tile{extents=2,2}"))
    text = print_module(lowered(module))
    assert "if (!last_block(&arrived[" in text
    for target in ("sm_80", "sm_90"):
        nvcc_takes(text, target)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_halves_and_what_follows(dtype: torch.dtype) -> None:
    """Products of tensor cores, and an epilogue of several values."""
    torch.manual_seed(0)
    x, w, b = torch.randn(20, 2048), torch.randn(2048, 72), torch.randn(72)
    args = [t.to(dtype) for t in (x, w, b)]

    def f(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x @ w + b)

    compiled = dlc.compile(f, tuple(args), backend="host", target="sm_80")
    schedules = {k.name: ending_in_one(k.schedule) for k in compiled.kernels}
    schedules = {n: s for n, s in schedules.items() if "combine=last" in s}
    assert schedules
    last = compiled.with_schedule(schedules)
    assert len(last.kernels) == len(compiled.kernels) - 1
    assert torch.equal(last(*args), compiled(*args))


@pytest.mark.parametrize(("most", "run"), [(2, 1), (16, 3), (40, 8), (999, 24)])
def test_runs_of_parts_are_loaded_at_once(
    most: int, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as fit and divide them: in the same order, to the same bits."""
    case = loop_cases.gemm(5, 32, 101)
    steps = f"tileify,split-matmul-k{{splits=24 combine=last}},{GEMM}"
    results: list[Any] = []
    monkeypatch.setattr(block_folds, "parts_at_once", endings.parts_at_once.__wrapped__)
    for limit in (1, most):
        monkeypatch.setattr(endings, "HELD_WORDS", limit)
        module = parse(case.text)
        apply(module, steps.replace("register-tile", "register-tile{extents=2,2}"))
        module = lowered(module)
        if limit == most:
            assert f"arith.constant {run} : index" in str(module)
        interpret(case, module, steps)
        results.append(run_module(module, case.inputs))
    np.testing.assert_array_equal(*results)


def test_what_is_loaded_at_once_takes_no_time_to_find() -> None:
    """However many parts a text asks for."""
    assert endings.parts_at_once(2**40, 1) == 64
    assert endings.parts_at_once(7**20, 1) == 49


def _turns(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    def goes_on(i: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return i < 3

    def turn(i: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return i + 1, (x * x * s).sum() * 1e-5

    _, s = torch.while_loop(goes_on, turn, (torch.tensor(0), torch.ones((), dtype=x.dtype)))
    return s, x.sum()


def test_counts_in_loops_of_the_program() -> None:
    """Each turn finds zeros and leaves zeros, as does what follows; they are zeroed once."""
    torch.manual_seed(0)
    x = torch.randn(40_003)
    compiled = dlc.compile(_turns, (x,), backend="host")
    split = [k for k in compiled.kernels if "split-matmul-k" in k.schedule]
    assert len(split) == 2
    compiled = compiled.with_schedule({k.name: ending_in_one(k.schedule) for k in split})
    assert compiled.ir("kernel").count("host.zero") == 1
    for _ in range(2):
        for found, expected in zip(compiled(x), _turns(x.double()), strict=True):
            torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-3)

"""Rows that the blocks of a cluster hold between them: each goes on with what all reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import loop_cases
import numpy as np
import pytest
import torch
from harness import apply, interpret, lowered, obeyed, on_host, parse
from loop_cases import Case
from test_endings import ORDERS
from test_printer import nvcc_takes
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

import dlc
from dlc.backend.cuda.print.printer import print_module
from dlc.diagnostics import TextError
from dlc.dialects import kernel
from dlc.registry import parse_pipeline
from dlc.simulator import run_module
from dlc.simulator.checker import check_module

STAGED = "cooperative-reduce{{threads={} blocks={} vector={}}},stage-inputs{{budget=65536}}"
SIDE_BY_SIDE = "cooperative-reduce{{threads={} rows=4 order=rows blocks={} vector={}}}"
CASES = (
    (loop_cases.softmax(3, 1009), STAGED, 32, 4, 4),
    (loop_cases.softmax(2, 4096), STAGED, 64, 8, 4),
    (loop_cases.softmax(1, 63), STAGED, 8, 2, 1),
    (loop_cases.rms_norm(3, 517), STAGED, 32, 5, 1),
    (loop_cases.row_norm(3, 401), STAGED, 32, 3, 4),
    (loop_cases.moments(5, 521), STAGED, 16, 4, 2),
    (loop_cases.argmax(5, 777), STAGED, 32, 4, 1),
    (loop_cases.power_sums(3, 300), STAGED, 8, 3, 4),
    (loop_cases.deviations(3, 301), STAGED, 8, 7, 4),
    (loop_cases.column_sum(131, 37), SIDE_BY_SIDE, 4, 4, 1),
    (loop_cases.total(1009), STAGED, 32, 8, 1),
    # The last blocks have no round of a row, or part of one.
    (loop_cases.softmax(2, 33), STAGED, 4, 8, 1),
    (loop_cases.softmax(2, 161), STAGED, 4, 7, 4),
)


def scheduled(case: Case, steps: str) -> ModuleOp:
    """A kernel after steps that are each obeyed, lowered."""
    module = parse(case.text)
    apply(module, "tileify")
    for step in parse_pipeline(steps):
        obeyed(module, str(step))
    return lowered(module)


@pytest.mark.parametrize(
    ("case", "steps", "threads", "blocks", "vector"),
    CASES,
    ids=[f"{case.name}, {blocks}" for case, _, _, blocks, _ in CASES],
)
def test_rows(case: Case, steps: str, threads: int, blocks: int, vector: int) -> None:
    """Each block comes first, in the middle and last; simulated, no access is a hazard."""
    steps = steps.format(threads, blocks, vector)
    module = scheduled(case, steps)
    (func,) = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
    assert func.cluster_size == blocks
    interpret(case, module, steps)
    on_host(case, module, steps, ORDERS)
    for some in (None, blocks):
        (verdict,) = check_module(module, blocks=some)
        assert verdict.answer == "clean", verdict


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 500, 1008])
def test_what_is_no_number(bad: float, at: int) -> None:
    """It comes through from whichever block has it, in its row alone, as without a cluster."""
    case = loop_cases.softmax(3, 1009)
    x = np.array(case.inputs[0])
    x[1, at] = bad
    found, one = (
        np.asarray(run_module(scheduled(case, STAGED.format(32, blocks, 4)), [x])[0])
        for blocks in (4, 1)
    )
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(one))
    assert np.isfinite(found[[0, 2]]).all()
    assert np.isfinite(found[1]).all() == (bad == -np.inf)


def test_each_block_reads_its_share_once() -> None:
    """Of a row of 1009 elements 256 at most; the row is in no block whole."""
    module = scheduled(loop_cases.softmax(3, 1009), STAGED.format(32, 4, 4))
    text = str(module)
    assert "x_smem = kernel.alloc_shared : memref<256xf32, #kernel.shared>" in text
    loads = [op for op in module.walk() if isinstance(op, kernel.LoadOp)]
    assert sum("memref<3x1009xf32>" in str(op.ref.type) for op in loads) == 1


def test_a_thread_has_one_point() -> None:
    module = parse(loop_cases.column_sum(131, 37).text)
    steps = f"tileify,{SIDE_BY_SIDE.format(4, 4, 1)}"
    with pytest.raises(TextError, match="of blocks that meet in a cluster has one point, not 2"):
        apply(module, steps + ",blockify-launch{block=4 thread=2}")


def norm(x: Tensor) -> Sequence[Tensor]:
    return torch.native_layer_norm(x, [x.shape[-1]], None, None, 1e-5)


def softmax(x: Tensor) -> Sequence[Tensor]:
    largest = x.amax(-1, keepdim=True)
    power = (x - largest).exp()
    return power / power.sum(-1, keepdim=True), largest


def batch_norm(x: Tensor) -> Sequence[Tensor]:
    variance, mean = torch.var_mean(x, (0, 2, 3), correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + 1e-5), mean, variance


def similarity(x: Tensor) -> Sequence[Tensor]:
    return (torch.nn.functional.cosine_similarity(x, x.flip(0)),)


PROGRAMS = (
    (norm, (3, 40001)),
    (softmax, (5, 50000)),
    (batch_norm, (40, 3, 28, 28)),
    (similarity, (2, 70000)),
)


@pytest.mark.parametrize(("program", "shape"), PROGRAMS)
def test_few_long_rows(program: Callable[[Tensor], Sequence[Tensor]], shape: Sequence[int]) -> None:
    """They are held by clusters where a chip has them; what is kept of them is right."""
    torch.manual_seed(0)
    x = torch.randn(shape) * 3 + 7
    compiled = dlc.compile(program, (x,), backend="host", target="sm_90")
    assert any(" blocks=" in k.schedule for k in compiled.kernels)
    for found, expected in zip(compiled(x), program(x.double()), strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)
    older = dlc.compile(program, (x.to("meta"),), target="sm_80")
    assert not any(" blocks=" in k.schedule for k in older.kernels)


def test_sizes_are_read_as_before() -> None:
    """A row as long as a size has no fixed shares; rows as many as a size do."""
    x = torch.randn(3, 40001)
    for dims, held in (({1: "n"}, False), ({0: "rows"}, True)):
        shapes = ({at: torch.export.Dim(name, min=2, max=50000) for at, name in dims.items()},)
        compiled = dlc.compile(norm, (x,), backend="host", target="sm_90", dynamic_shapes=shapes)
        assert any(" blocks=" in k.schedule for k in compiled.kernels) == held
        for given in (x, x[:2]) if held else (x, x[:, :31000]):
            for found, expected in zip(compiled(given), norm(given.double()), strict=True):
                torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)


def test_nvcc_takes_it() -> None:
    module = scheduled(loop_cases.softmax(3, 1000), STAGED.format(32, 4, 4))
    text = print_module(module)
    assert "__cluster_dims__(4, 1, 1)" in text
    assert nvcc_takes(text, "sm_90", "sm_100", "sm_120") == [0, 0, 0]

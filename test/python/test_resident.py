"""Blocks that do the work of several, one after the other, with a producer that runs ahead."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from harness import STEPS, apply, interpret, lowered, on_host, scheduled
from loop_cases import Case
from mutants import NEVER_EQUIVALENT, Subject, judge, mutations
from test_registers import WIDE
from test_tensor_cores import MODES, product
from test_wgmma_tiles import GROUPS, OTHER_PRODUCTS, PRODUCER, TMA
from xdsl.dialects.builtin import ModuleOp

import dlc
from dlc.analysis.kernel.instruction_counts import counts_by_block
from dlc.backend import BackendError
from dlc.backend.cuda.run.nvcc import compile_cubin, find_nvcc
from dlc.diagnostics import TextError
from dlc.dialects import kernel
from dlc.schedule.scheduled_time import scheduled_seconds
from dlc.target import TARGETS

RESIDENT = PRODUCER.replace("producer=1", "producer=1 resident=1")
GIVES = GROUPS.replace("producer=1", "producer=1 resident=1 registers=40")
SPLIT = RESIDENT.replace(",blockify-launch", ",split-matmul-k{splits=2},blockify-launch")


@pytest.fixture(autouse=True)
def _few_sms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three SMs, so that small products have more blocks."""
    monkeypatch.setitem(TARGETS, "sm_90", replace(TARGETS["sm_90"], sms=3))


# Rows, columns and K of products, by how many blocks and chunks there are.
CASES: dict[str, tuple[Case, str]] = {
    "4 blocks of 7 chunks": (product(72, 72, 392, w_turned=True), RESIDENT),
    "6 blocks of 2 chunks": (product(136, 72, 104), RESIDENT),
    "5 blocks of 4 chunks, whose phases go on": (product(64, 264, 200), RESIDENT),
    "8 blocks of 5 chunks in two slots": (
        product(200, 72, 328, w_turned=True),
        RESIDENT.replace("depth=3", "depth=2"),
    ),
    "4 blocks of two warpgroups that take registers": (
        product(136, 72, 200, w_turned=True),
        GIVES,
    ),
    "5 blocks of 4 chunks in flight": (
        product(64, 264, 200),
        RESIDENT.replace("producer=1", "producer=1 products=1"),
    ),
    "6 blocks of batches": (product(72, 40, 200, batch=3), RESIDENT),
    "7 blocks, two for each SM": (product(392, 40, 136), RESIDENT.replace("nt=1", "nt=2")),
    "2 blocks, fewer than SMs": (product(72, 64, 200), RESIDENT),
    "4 blocks that split K": (product(72, 64, 512), SPLIT),
    "4 blocks by mma": (
        product(72, 80, 200, w_turned=True),
        OTHER_PRODUCTS["mma"].replace("producer=1", "producer=1 resident=1"),
    ),
    "6 blocks of threads": (
        product(72, 80, 200, w_turned=True),
        OTHER_PRODUCTS["threads"].replace("producer=1", "producer=1 resident=1"),
    ),
}


def steps(case: Case, text: str) -> ModuleOp:
    module = scheduled(case, text, "sm_90")
    apply(module, ",".join(STEPS))
    return lowered(module)


@pytest.mark.parametrize("name", CASES)
def test_products(name: str) -> None:
    case, text = CASES[name]
    module = steps(case, text)
    (func, *_) = (op for op in module.ops if isinstance(op, kernel.FuncOp))
    assert func.grid_size == min(int(name.split(" ")[0]), 6 if "two for each" in name else 3)
    assert func.resident is None
    interpret(case, module, name)
    on_host(case, module, name, [{"order": order, "async_mode": mode} for order, mode in MODES])


REFUSED = {
    "no producer": (TMA.replace("outer", "outer{resident=1}"), "no producer requests what comes"),
    "parts of 2, 2 and no chunks": (SPLIT.replace("=2", "=3"), "its loop skips chunks"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    text, message = REFUSED[name]
    with pytest.raises(TextError, match=message):
        apply(scheduled(product(72, 72, 200), text, "sm_90"), ",".join(STEPS))


@pytest.mark.parametrize("name", ["5 blocks of 4 chunks, whose phases go on"])
def test_every_mutant_is_found(name: str) -> None:
    case, text = CASES[name]
    subject = Subject.of(case, "sm_90", text)
    assert subject.ordinary
    survivors = []
    for mutation in mutations(subject.module):
        op = list(subject.module.walk())[mutation.at]
        if isinstance(op, (*NEVER_EQUIVALENT, kernel.TmaLoadOp)):
            verdict = judge(subject, mutation)
            if not verdict.by:
                survivors.append(mutation.kind)
    assert not survivors


def _sectors(text: str) -> tuple[float, float]:
    """What all blocks fetch, and the predicted time."""
    module = steps(CASES["5 blocks of 4 chunks, whose phases go on"][0], text)
    (func,) = (op for op in module.ops if isinstance(op, kernel.FuncOp))
    each = counts_by_block(func)
    blocks = func.grid_size
    total = sum(counts.sectors for counts in each) * blocks / len(each)
    return total, scheduled_seconds(func, TARGETS["sm_90"])


def test_the_estimate_counts_the_turns_that_there_are() -> None:
    """Five blocks' work on three: two turns of two of them, and one of the last."""
    (alone, _), (turns, seconds) = _sectors(PRODUCER), _sectors(RESIDENT)
    assert turns == pytest.approx(alone)
    assert seconds > 0


@pytest.mark.parametrize("beside", ["", " products=1"])
def test_nothing_spills_or_is_serialized(beside: str) -> None:
    """By ptxas for sm_90a, of 192 sums a thread."""
    try:
        find_nvcc()
    except BackendError as error:
        pytest.skip(str(error))
    given = [torch.empty(1024, 384, dtype=torch.bfloat16) for _ in range(2)]
    schedule = WIDE.replace("producer=1", f"producer=1 registers=40 resident=1{beside}")
    program = dlc.compile(
        torch.nn.functional.linear, given, "sm_90", "host", schedules={"linear": schedule}
    )
    assert "for (int turn" in program.kernels[0].source
    cubin = compile_cubin(program.kernels[0].source, "sm_90")
    assert (cubin.registers, cubin.spill_bytes, cubin.stack, cubin.serialized) == (168, 0, 0, 0)

"""Registers that warpgroups give up and take: the simulator, the host, mutants and ptxas."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from mutants import mutations
from test_printer import aligned, kernel_of, on_host, parse
from xdsl.utils.exceptions import VerifyException

import dlc
from dlc.analysis.kernel.instruction_counts import counts_of
from dlc.backend import BackendError, LaunchError
from dlc.backend.cuda.run.nvcc import Cubin, compile_cubin, find_nvcc
from dlc.dialects.kernel import FuncOp
from dlc.schedule.scheduled_time import Compiled, guessed, scheduled_seconds
from dlc.simulator import Hazard, run_kernel
from dlc.target import TARGETS, WARPGROUP

ENTRY = {128: 255, 256: 255, 384: 168, 512: 128, 640: 96, 768: 80, 1024: 64}
"""By ptxas for sm_90a, of blocks of so many threads with a launch bound of one on an SM."""
TEXT = """
kernel.func @roles(%x: memref<384xf32>) -> (%y: memref<384xf32>) grid 2 block 384 {
  %t = kernel.thread_id
  %asks = kernel.test where (%t < 128)
  scf.if %asks {
    kernel.set_max_registers 168 to 40
  } else {
    kernel.set_max_registers 168 to 232
  }
  %block = kernel.block_id
  %first = kernel.test where (%block < 1)
  scf.if %first {
    %v = kernel.load %x[%t] : memref<384xf32>
    kernel.store %v, %y[%t] : memref<384xf32>
  }
}"""
X = np.arange(384, dtype=np.float32)


def test_registers_at_the_entry() -> None:
    for target in TARGETS.values():
        for threads, registers in ENTRY.items():
            assert target.entry_registers(threads) == registers


def test_what_others_get() -> None:
    sm_90 = TARGETS["sm_90"]
    assert sm_90.registers_beside(384, 40) == 232
    assert sm_90.registers_beside(384, 24) == 240
    assert sm_90.registers_beside(512, 32) == 160
    for threads in ENTRY:
        for kept in range(24, sm_90.entry_registers(threads), 8):
            each = sm_90.registers_beside(threads, kept)
            total = WARPGROUP * kept + (threads - WARPGROUP) * each
            assert total <= sm_90.registers_per_sm
            assert each % 8 == 0
            assert each <= 248


def test_registers_are_dealt() -> None:
    (found,) = run_kernel(kernel_of(parse(TEXT)), (X,))
    np.testing.assert_array_equal(found, X)
    for order in ("forward", "reverse", "random"):
        x, y = aligned((384,)), aligned((384,))
        x[...] = X
        on_host(kernel_of(parse(TEXT)), [x, y], order=order)
        np.testing.assert_array_equal(y, X)


GIVES, TAKES = "kernel.set_max_registers 168 to 40", "kernel.set_max_registers 168 to 232"
BAD = {
    "more than there are": (
        TEXT.replace("to 232", "to 240"),
        "deadlock",
        r"waits for 9216 registers, of which \d+ are free when all threads have ended or wait",
        "wait for 9216 registers, of which",
    ),
    "the producer keeps too many": (
        TEXT.replace("to 40", "to 48"),
        "deadlock",
        "waits for 8192 registers, of which 7168 are free",
        "wait for 8192 registers, of which 7168 are free",
    ),
    "nothing is given up": (
        TEXT.replace(GIVES, ""),
        "deadlock",
        "waits for 8192 registers, of which 0 are free",
        "wait for 8192 registers, of which 0 are free",
    ),
    "all take": (
        TEXT.replace(GIVES, TAKES),
        "deadlock",
        "waits for 8192 registers, of which 0 are free",
        "wait for 8192 registers, of which 0 are free",
    ),
    "warps disagree": (
        TEXT.replace("(%t < 128)", "(%t < 96)"),
        "divergence",
        "all threads of a warpgroup must reach kernel.set_max_registers, and thread 96 does not",
        "diverged",
    ),
    "some warps alone": (
        TEXT.replace("(%t < 128)", "(%t < 32)").replace(TAKES, ""),
        "divergence",
        "all threads of a warpgroup must reach kernel.set_max_registers, and thread 32 does not",
        r"wait at set_max_registers\(\) for their warpgroup",
    ),
    "a second time": (
        TEXT.replace(GIVES, f"{GIVES}\n    {TAKES}"),
        "registers",
        "a warpgroup whose threads have 40 registers each sets them once more",
        "sets its registers a second time, to 232 from 40",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_hazards(name: str) -> None:
    text, kind, message, on_cpu = BAD[name]
    func = kernel_of(parse(text))
    func.verify()
    with pytest.raises(Hazard) as caught:
        run_kernel(func, (X,))
    assert caught.value.kind == kind, str(caught.value)
    assert re.search(message, str(caught.value)), str(caught.value)
    with pytest.raises(LaunchError, match=on_cpu):
        on_host(func, [aligned((384,)), aligned((384,))])


def test_every_mutant_is_found_or_takes_less() -> None:
    """What takes fewer registers than there are is slower at most: ptxas keeps to the number."""
    survivors = []
    kind = "kernel.set_max_registers"
    for edit in mutations(parse(TEXT)):
        if not edit.kind.startswith(kind):
            continue
        func = kernel_of(edit.applied(parse(TEXT)))
        try:
            func.verify()
            run_kernel(func, (X,))
        except (Hazard, VerifyException):
            continue
        survivors.append((edit.kind, "232" in edit.line))
    assert survivors == [
        (f"{kind}: 8 less", False),
        (f"{kind}: deleted", True),
        (f"{kind}: 8 less", True),
    ]


WIDE = (
    "tileify,chunk-matmul-k{bk=64 vector=16},blockify-launch{block=256,192 thread=2,1},"
    "stage-inputs{budget=65536},register-tile{extents=128,192 mma=m64n192k16},"
    "double-buffer{depth=3},tma-copy,split-inner-for-swizzle{bytes=128},"
    "pipeline-k-outer{producer=1},mark-unroll{limit=64}"
)


def test_sums_that_spill_have_room() -> None:
    """192 sums of each of 256 threads, by ptxas: 168 registers hold them only if others give up."""
    try:
        find_nvcc()
    except BackendError as error:
        pytest.skip(str(error))
    given = [torch.empty(512, 384, dtype=torch.bfloat16) for _ in range(2)]

    def cubin(schedule: str) -> Cubin:
        program = dlc.compile(
            torch.nn.functional.linear, given, "sm_90", "host", schedules={"linear": schedule}
        )
        return compile_cubin(program.kernels[0].source, "sm_90")

    plain = cubin(WIDE)
    assert plain.spill_bytes
    assert plain.serialized
    kept = cubin(WIDE.replace("producer=1", "producer=1 registers=40"))
    assert (kept.registers, kept.spill_bytes, kept.stack, kept.serialized) == (168, 0, 0, 0)


def test_the_estimate_knows_who_computes() -> None:
    """A producer adds no work; what it does not give up of registers, others lack."""
    given = [torch.empty(512, 384, dtype=torch.bfloat16) for _ in range(2)]
    sm_90 = TARGETS["sm_90"]

    def estimate(pipeline: str) -> tuple[float, Compiled]:
        schedule = WIDE.replace("{producer=1}", pipeline)
        program = dlc.compile(
            torch.nn.functional.linear, given, "sm_90", "host", schedules={"linear": schedule}
        )
        module = program.variants[0].module("kernel")
        (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
        return scheduled_seconds(func, sm_90), guessed(counts_of(func), func, sm_90)

    (alone, plain), (_, spilling) = estimate(""), estimate("{producer=1}")
    seconds, giving = estimate("{producer=1 registers=40}")
    assert seconds <= alone
    lacking = [one.spilled - plain.spilled for one in (giving, spilling)]
    assert lacking == [0, 216 - 168]  # of 216 that it is counted to hold
    assert (spilling.registers, giving.registers) == (168, 168)

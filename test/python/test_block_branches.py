"""What the blocks of a kernel have to do where a condition on their number says how much."""

from __future__ import annotations

import pytest
import torch
from harness import parse
from torch.nn.functional import scaled_dot_product_attention

import dlc
from dlc.analysis.kernel.block_branches import BlockBranches
from dlc.analysis.kernel.instruction_counts import NVCC_UNROLLS, counts_by_block, counts_of
from dlc.dialects import kernel
from dlc.schedule.scheduled_time import scheduled_seconds
from dlc.target import get_target

FOLDS = """
kernel.func @folds(%x: memref<8x4xf32>) -> (%y: memref<4xf32>) grid 4 block 1 {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %end = arith.constant 8 : index
  %b = kernel.block_id
  %row = kernel.index %b
  scf.for %k = %zero to %end step %one {
    %held = kernel.test where (CONDITIONS)
    scf.if %held {
      %v = kernel.load %x[%k, %b] : memref<8x4xf32>
      %w = arith.addf %v, %v : f32
      kernel.store %w, %y[%b] : memref<4xf32>
    }ELSE
  }
}
"""


def folds(conditions: str, rest: str = "") -> kernel.FuncOp:
    text = FOLDS.replace("CONDITIONS", conditions).replace("ELSE", rest)
    module = parse(text)
    return next(op for op in module.walk() if isinstance(op, kernel.FuncOp))


@pytest.mark.parametrize(
    ("conditions", "taken"),
    [
        ("%row * 2 - %k >= 0", [1, 3, 5, 7]),
        ("%row * 2 - %k >= 0, %k - 1 >= 0", [0, 2, 4, 6]),
        ("%b - 2 >= 0", [0, 0, 8, 8]),
        ("%row mod 2 - 1 >= 0", [0, 8, 0, 8]),
    ],
)
def test_branches_are_counted_as_often_as_they_are_taken(conditions: str, taken: list[int]) -> None:
    func = folds(conditions)
    found = [counts.waits * NVCC_UNROLLS for counts in counts_by_block(func)]
    assert found == taken
    assert counts_of(func).waits * NVCC_UNROLLS == sum(taken) / 4


def test_one_side_or_the_other() -> None:
    adds = "else {\n %u = kernel.load %x[%k, %b] : memref<8x4xf32>\n"
    adds += "kernel.store %u, %y[%b] : memref<4xf32>\n }"
    counted = counts_by_block(folds("%row * 2 - %k >= 0", adds))
    assert [counts.waits * NVCC_UNROLLS for counts in counted] == [8, 8, 8, 8]


def test_what_is_the_same_for_all_blocks_is_counted_once() -> None:
    func = folds("%k - 3 >= 0")
    assert not BlockBranches(func)
    assert len(counts_by_block(func)) == 1


def causal(rows: int, causal: bool) -> kernel.FuncOp:
    args = [torch.randn(1, 2, rows, 16) for _ in range(3)]
    schedule = (
        "tileify,chunk-matmul-k{bk=16 vector=4},blockify-launch{block=16,16 thread=8,4},"
        "stage-inputs{budget=16384 compute=true points=2,4},register-tile{extents=2,4}"
    )
    f = dlc.compile(
        lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=causal),
        args,
        target="sm_90",
        schedules={"scaled_dot_product_attention": schedule},
    )
    (func,) = (
        op for op in f.variants[0].stages.module("kernel").walk() if isinstance(op, kernel.FuncOp)
    )
    return func


def test_a_causal_mask_halves_the_work() -> None:
    """Of n chunks a block of the first rows does one, of the last all: (n + 1) / 2 on average."""
    masked, whole = causal(96, True), causal(96, False)
    assert counts_of(masked).fmas / counts_of(whole).fmas == pytest.approx(7 / 12)
    fmas = sorted(counts.fmas for counts in counts_by_block(masked))
    assert fmas[::2] == [pytest.approx(fmas[-1] * n / 6) for n in range(1, 7)]


def test_the_slowest_sm_counts() -> None:
    """Where each block has an SM to itself, that of the last rows takes as long as without mask."""
    target = get_target("sm_90")
    seconds = [scheduled_seconds(causal(96, mask), target) for mask in (True, False)]
    assert seconds[0] == pytest.approx(seconds[1], rel=0.05)


def test_what_unrolled_loops_ask_for_is_waited_for_once() -> None:
    """Also where a loop that is not unrolled comes next."""
    text = """
kernel.func @copies(%x: memref<8xf32>) -> (%y: memref<8xf32>) grid 1 block 1 {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %end = arith.constant 8 : index
  %held = kernel.alloc_local : memref<8xf32, #kernel.local>
  scf.for %i = %zero to %end step %one {
    %v = kernel.load %x[%i] : memref<8xf32>
    kernel.store %v, %held[%i] : memref<8xf32, #kernel.local>
  } {unroll}
  scf.for %j = %zero to %end step %one {
    %w = kernel.load %held[%j] : memref<8xf32, #kernel.local>
    kernel.store %w, %y[%j] : memref<8xf32>
  }
}
"""
    (func,) = (op for op in parse(text).walk() if isinstance(op, kernel.FuncOp))
    assert counts_of(func).waits == 1


def test_indices_in_registers_are_held() -> None:
    x, places = torch.randn(12, 17), torch.randint(0, 7, (5, 5))
    schedule = "tileify,blockify-launch{block=12,48 thread=4,16},register-tile{extents=3,3}"
    f = dlc.compile(lambda x, i: x[i], (x, places), target="sm_90", schedules={"index": schedule})
    (func,) = (
        op for op in f.variants[0].stages.module("kernel").walk() if isinstance(op, kernel.FuncOp)
    )
    assert "index, #kernel.local" in str(func)
    assert counts_of(func).registers > 0

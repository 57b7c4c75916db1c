"""Kernels whose reduces are split, chunked, or whose blocks are regrouped give the same results."""

from __future__ import annotations

import re
from functools import partial

import loop_cases
import numpy as np
import pytest
import torch
from harness import STEPS, apply, interpret, lowered, obeyed, on_host, parse, read_back, scheduled
from loop_cases import Case
from test_printer import nvcc_takes
from test_rings import LAUNCHES
from test_schedules import tiled
from xdsl.dialects.builtin import ModuleOp

from dlc.backend.cuda.print.printer import print_module
from dlc.backend.executor import Executor, get_backend
from dlc.dialects import tile
from dlc.registry import parse_pipeline
from dlc.simulator import run_module


def run(case: Case, module: ModuleOp) -> None:
    """Runs the kernels of a module in the interpreter, in order."""
    interpret(case, lowered(module, round_trip=False), "after the steps")


def check(case: Case, pipeline: str, *, kernel_count: int) -> ModuleOp:
    """Schedules a kernel as far as it can and runs it; every state between verifies."""
    module = parse(case.text)
    for step in parse_pipeline(pipeline):
        obeyed(module, str(step))
    read_back(str(module))
    kernel_ops = [op for op in module.walk() if isinstance(op, tile.KernelOp)]
    assert len(kernel_ops) == kernel_count, pipeline
    run(case, module)
    return module


THEN = "tileify,blockify-launch{block=4,16 thread=4,4},register-tile{extents=4}"
REST = "stage-inputs{budget=8192},register-tile,mark-unroll{limit=16}"
GEMM = f"blockify-launch{{block=8,16 thread=4,8}},{REST}"
VECTOR = f"blockify-launch{{block=16 thread=8}},{REST}"
"""For products with one row or column."""
SPLITS = (
    # Chunks per split: even, ragged, more splits than chunks (the last have none).
    (loop_cases.gemm(16, 32, 32), "chunk-matmul-k{bk=8}", 2, GEMM),
    (loop_cases.gemm(13, 31, 47), "chunk-matmul-k{bk=8}", 4, GEMM),
    (loop_cases.gemm(13, 31, 23, transposed=True), "chunk-matmul-k{bk=8}", 7, GEMM),
    (loop_cases.gemm(1, 29, 37), "chunk-matmul-k{bk=5}", 3, VECTOR),
    (loop_cases.gemm(7, 1, 37), "", 3, VECTOR),
    (loop_cases.batched(2, 9, 11, 19), "chunk-matmul-k{bk=4}", 3, GEMM),
    (loop_cases.linear(13, 17, 53), "chunk-matmul-k{bk=4}", 5, GEMM),
)
ROWS = "cooperative-reduce{threads=8 vector=4},stage-inputs"
REDUCES = (
    (loop_cases.total(1009), 7),
    (loop_cases.total(3), 5),
    (loop_cases.argmax(5, 77), 4),
    (loop_cases.power_sums(3, 77), 4),
    (loop_cases.deviations(3, 77), 4),
    (loop_cases.row_norm(3, 101), 3),
    (loop_cases.column_sum(53, 37), 4),
)


every_split = partial(
    pytest.mark.parametrize,
    ("case", "chunk", "splits", "blocks"),
    ids=lambda v: getattr(v, "name", v),
)


@every_split(SPLITS)
def test_split_contractions(case: Case, chunk: str, splits: int, blocks: str) -> None:
    steps = ["tileify", chunk, f'split-matmul-k{{splits={splits} then="{THEN}"}}', blocks]
    module = check(case, ",".join(s for s in steps if s), kernel_count=2)
    first, second = (op for op in module.walk() if isinstance(op, tile.KernelOp))
    assert second.name_ == f"{first.name_}_combine"
    assert second.schedule is not None
    # What bare steps do to the second kernel is what `then` says, with the options there.
    assert "register-tile{extents=4}" in second.schedule.data


def test_on_the_host() -> None:
    """Kernels one after the other, the second of which reads what the first left."""
    case, chunk, splits, blocks = SPLITS[-1]
    module = parse(case.text)
    apply(module, f'tileify,{chunk},split-matmul-k{{splits={splits} then="{THEN}"}}')
    for step in parse_pipeline(blocks):
        obeyed(module, str(step))
    on_host(case, lowered(module), "split", [{"order": "forward"}, {"order": "reverse"}])


@pytest.mark.parametrize(("case", "splits"), REDUCES, ids=lambda v: getattr(v, "name", v))
def test_split_other_reduces(case: Case, splits: int) -> None:
    check(case, f"tileify,split-matmul-k{{splits={splits}}},{ROWS}", kernel_count=2)


def test_every_prefix_of_a_split() -> None:
    case = loop_cases.gemm(5, 11, 13)
    steps = (
        "tileify",
        "chunk-matmul-k{bk=4}",
        f'split-matmul-k{{splits=3 then="{THEN}"}}',
        "blockify-launch",
        "stage-inputs{budget=8192}",
        "register-tile",
    )
    module = parse(case.text)
    for step in steps:
        apply(module, step)
        if step not in steps[:2]:
            run(case, module)


def test_splitting_twice_and_the_empty_grid() -> None:
    case = loop_cases.gemm(0, 6, 9)
    check(case, "tileify,split-matmul-k{splits=3}", kernel_count=2)
    module = parse(loop_cases.total(64).text)
    apply(module, "tileify,split-matmul-k{splits=4}")
    (late,) = obeyed(module, "split-matmul-k{splits=2}")
    assert "the launch is partitioned already" in str(late)
    names = [op.name_ for op in module.walk() if isinstance(op, tile.KernelOp)]
    # The launch with a block axis is refused; the kernel that combines has a reduce of its own.
    assert names == ["total", "total_combine", "total_combine_combine"]
    run(loop_cases.total(64), module)


def test_a_schedule_in_a_schedule_is_text() -> None:
    text = f'split-matmul-k{{splits=3 then="{THEN}"}}'
    (step,) = parse_pipeline(text)
    assert str(step) == text


# Parts that are added atomically.

ROW_STEPS = "cooperative-reduce{threads=8 rows=2 vector=4},stage-inputs"
ATOMIC = (
    (loop_cases.batched(2, 9, 11, 19), "chunk-matmul-k{bk=4}", 3, GEMM),
    (loop_cases.batched(2, 3, 5, 7, 23), "chunk-matmul-k{bk=4}", 7, GEMM),  # the last has no chunk
    (loop_cases.batched(1, 5, 7, 4), "", 6, ""),  # more parts than points
    (loop_cases.total(1009), "", 7, "cooperative-reduce{threads=64 vector=4}"),
    (loop_cases.total(3), "", 5, ROW_STEPS),
    (loop_cases.column_sum(53, 37), "", 4, ROW_STEPS),
)


def in_one_kernel(case: Case, chunk: str, split: str, blocks: str) -> ModuleOp:
    """A kernel that is split and scheduled further; interpreted before each of these steps."""
    module = parse(case.text)
    apply(module, ",".join(s for s in ("tileify", chunk, f"split-matmul-k{{{split}}}") if s))
    for step in parse_pipeline(blocks):
        run(case, module)
        obeyed(module, str(step))
        read_back(str(module))
    assert sum(isinstance(op, tile.KernelOp) for op in module.walk()) == 1
    return module


@every_split(ATOMIC)
def test_atomic_parts(case: Case, chunk: str, splits: int, blocks: str) -> None:
    """After each step, in the interpreter."""
    module = in_one_kernel(case, chunk, f"splits={splits} combine=atomic", blocks)
    assert any(isinstance(op, tile.AtomicAddOp) for op in module.walk())
    run(case, module)


@pytest.mark.parametrize(("target", "copy"), [("sm_80", "cp_async"), ("sm_90", "tma_load")])
def test_rings_of_parts_that_are_added_atomically(target: str, copy: str) -> None:
    """A whole schedule: the split, then tiles, rings, asynchronous copies and their pipeline."""
    case = loop_cases.batched(2, 20, 24, 68)
    schedule = re.sub(' then="[^"]*"', " combine=atomic", tiled(target, splits=3, depth=3))
    module = scheduled(case, schedule, target)
    apply(module, ",".join(STEPS))
    module = lowered(module)
    assert f"kernel.{copy}" in str(module)
    assert "kernel.atomic_add" in str(module)
    interpret(case, module, schedule)
    on_host(case, module, schedule, LAUNCHES[::3])


def test_nvcc_takes_atomic_adds() -> None:
    module = parse(ATOMIC[0][0].text)
    steps = f"tileify,chunk-matmul-k{{bk=4}},split-matmul-k{{splits=3 combine=atomic}},{GEMM}"
    apply(module, steps.replace("register-tile", "register-tile{extents=2,2}"))
    nvcc_takes(print_module(lowered(module)), "sm_80")


COUNT = """
func.func @main(%x: tensor<50x{type}>) -> (tensor<{type}>, tensor<3x{type}>) {{
  %y = loop.kernel @sum(%x: memref<50x{type}> = %x) -> (%y: memref<{type}>) {{
    %s = loop.reduce add %k in 50 -> {type} {{
      %a = loop.load %x[%k] : memref<50x{type}>
      loop.yield %a : {type}
    }}
    loop.store %s, %y[] : memref<{type}>
  }}
  %z = loop.kernel @count() -> (%z: memref<3x{type}>) {{
    %one = arith.constant {one} : {type}
    loop.for %i in 3 {{
      %s = loop.reduce add %k in 8 -> {type} {{
        loop.yield %one : {type}
      }}
      loop.store %s, %z[%i] : memref<3x{type}>
    }}
  }}
  func.return %y, %z : tensor<{type}>, tensor<3x{type}>
}}
"""


@pytest.mark.parametrize(("type", "one"), [("f32", "1.0"), ("f64", "1.0"), ("i32", "1")])
def test_atomic_sums_of_every_type(type: str, one: str) -> None:
    """One of what differs from block to block, and one of what is the same in all of them."""
    module = parse(COUNT.format(type=type, one=one))
    apply(module, "tileify,split-matmul-k{splits=4 combine=atomic}")
    assert str(module).count("tile.atomic_add") == 2
    module = lowered(module)
    dtype = {"f32": torch.float32, "f64": torch.float64, "i32": torch.int32}[type]
    x = torch.arange(50, dtype=dtype)
    for _ in range(2):  # the second time, new memory is what the first left behind
        y, z = Executor(module, get_backend("host"))([x])
        assert (y.item(), z.tolist()) == (1225, [8, 8, 8])
    found = run_module(module, [x.numpy()])
    np.testing.assert_array_equal(found[0], 1225)
    np.testing.assert_array_equal(found[1], [8, 8, 8])


CHUNKS = (
    (loop_cases.softmax(6, 100), "cooperative-reduce{threads=4 vector=4},chunk-reduce{bk=2}", 0),
    (loop_cases.softmax(5, 67), "chunk-reduce{bk=16}", 0),
    (
        loop_cases.column_sum(53, 33),
        "cooperative-reduce{threads=2 rows=8 vector=1},chunk-reduce{bk=5}",
        0,
    ),
    (loop_cases.total(1000), "cooperative-reduce{threads=32 vector=2},chunk-reduce{bk=5}", 0),
    (loop_cases.argmax(5, 77), "chunk-reduce{bk=1}", 0),
    (loop_cases.power_sums(5, 77), "chunk-reduce{bk=8}", 1),
    (loop_cases.total(1000), "chunk-reduce{bk=7 apart=true}", 0),
    (loop_cases.column_sum(53, 33), "chunk-reduce{bk=5 apart=true}", 0),
    (
        loop_cases.softmax(6, 100),
        "cooperative-reduce{threads=4 vector=4},chunk-reduce{bk=2 apart=true}",
        0,
    ),
    # Every row of a block reads the vector: a chunk of it is staged at a time, and of the shift.
    (loop_cases.gemm(37, 1, 43), "chunk-reduce{bk=8},blockify-launch{block=8,1 thread=8,1}", 2),
)


@pytest.mark.parametrize(("case", "steps", "staged"), CHUNKS, ids=lambda v: getattr(v, "name", v))
def test_chunks_of_reduces(case: Case, steps: str, staged: int) -> None:
    module = check(case, f"tileify,{steps},stage-inputs{{budget=256}}", kernel_count=1)
    inner = [op for op in module.walk() if isinstance(op, tile.ReduceOp)]
    assert any(isinstance(op.parent_op(), tile.ReduceOp) for op in inner)
    stages = [op for op in module.walk() if isinstance(op, tile.StageOp)]
    assert len([op for op in stages if isinstance(op.parent_op(), tile.ReduceOp)]) == staged


PANELS = (
    (loop_cases.gemm(37, 64, 9), 4),  # 8 block columns: even
    (loop_cases.gemm(23, 61, 9), 3),  # 8 of 9
    (loop_cases.gemm(17, 33, 9, transposed=True), 4),  # 5 of 8
    (loop_cases.batched(2, 17, 25, 9), 3),  # 4 of 6, and a batch
    (loop_cases.pad_pointwise(19, 53), 2),  # 7 of 8
)


@pytest.mark.parametrize(("case", "group"), PANELS, ids=lambda v: getattr(v, "name", v))
def test_panels_of_blocks(case: Case, group: int) -> None:
    blockify = f"blockify-launch{{block=8,8 thread=4,8 group={group}}}"
    module = check(
        case, f"tileify,{blockify},stage-inputs{{budget=8192}},register-tile", kernel_count=1
    )
    (launch,) = (op for op in module.walk() if isinstance(op, tile.LaunchOp))
    assert [a.name_hint for a in launch.axes_of("block")][-3:] == ["bjo", "bi", "bji"]

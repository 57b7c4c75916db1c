"""Operands that a block computes once: what is chosen, what it costs, and what it compiles to."""

from __future__ import annotations

from dataclasses import replace

import loop_cases
import pytest
from harness import STEPS, apply, interpret, lowered, parse, scheduled
from xdsl.dialects.builtin import ModuleOp

from dlc.analysis.kernel.bank_accesses import report
from dlc.backend import BackendError
from dlc.backend.cuda.print.printer import print_kernel
from dlc.backend.cuda.run.nvcc import compile_cubin, find_nvcc
from dlc.dialects import kernel, loop, tile
from dlc.remarks import collect
from dlc.schedule.candidate import Candidate
from dlc.schedule.heuristics import choose_schedule
from dlc.schedule.problem import Problem
from dlc.target import TARGETS, get_target

TILED = (
    "tileify,chunk-matmul-k{bk=16 vector=4},blockify-launch{block=128,128 thread=16,16},"
    "stage-inputs{budget=98304 compute=true},register-tile{extents=8,8},permute-register-tile"
)
SMALL = (
    "tileify,chunk-matmul-k{bk=8 vector=4},blockify-launch{block=16,32 thread=4,8},"
    "stage-inputs{budget=65536 compute=true},register-tile{extents=4,4},permute-register-tile"
)


def tiled(case: loop_cases.Case, pipeline: str, target: str = "sm_90") -> ModuleOp:
    module = scheduled(case, pipeline, target)
    apply(module, pipeline)
    return module


def kernel_of(module: ModuleOp) -> tile.KernelOp:
    return next(op for op in module.walk() if isinstance(op, tile.KernelOp))


def test_the_bank_model_of_a_computing_loop() -> None:
    """Runs of 4 elements, dealt over 256 threads: of 128 x 16, each has 2 in each of 4 chunks."""
    accesses = report(kernel_of(tiled(loop_cases.silu_matmul(256, 256, 64), TILED)))
    found = {(a.name, a.writes): (a.width, a.times, a.ways) for a in accesses}
    assert found["g_smem", False] == found["u_smem", False] == (16, 4 * 2, 1)
    assert found["h_smem", True] == (16, 4 * 2, 1)
    assert found["h_smem", False] == (16, 4 * 4 * 8, 1)


def test_a_transposed_input_of_a_computing_loop() -> None:
    """Threads that write rows read columns of it, groups of whose rows are then padded."""
    text = """
    %x = "test.op"() : () -> tensor<32x32xf32>
    tile.kernel @k(%x: memref<32x32xf32> = %x) -> () schedule "pad-smem" {
      tile.launch thread(%t in 128) {
        %s = tile.stage %x[0, 0] [32, 32] : memref<32x32xf32> -> memref<32x32xf32, #tile.shared>
        %h = tile.compute thread(%p in 32, %q in 32) {
          %a = tile.load %s[%q, %p] : memref<32x32xf32, #tile.shared>
          tile.yield %a : f32
        } : memref<32x32xf32, #tile.shared>
      }
    }"""
    module = parse(text)
    read, _, write = report(kernel_of(module))
    assert (read.width, read.times, read.ways) == (4, 2 * 4, 8)
    assert (write.name, write.width, write.times, write.ways) == ("h", 16, 2, 1)
    apply(module, "pad-smem")
    read, *_ = report(kernel_of(module))
    assert read.ways == 1


@pytest.mark.parametrize("rings", ["", "double-buffer{depth=3}", "double-buffer{depth=2},tma-copy"])
def test_schedules_have_no_conflicts(rings: str) -> None:
    pipeline = f"{TILED},{rings},split-inner-for-swizzle,pad-smem".replace(",,", ",")
    accesses = report(kernel_of(tiled(loop_cases.silu_matmul(256, 256, 256), pipeline)))
    assert {(a.ways, a.width) for a in accesses} == {(1, 16)}


STATES = {
    "single": ("sm_80", "pad-smem"),
    "rings": ("sm_80", "double-buffer{depth=2}"),
    "cp.async": ("sm_80", "double-buffer{depth=3},async-copy,pad-smem,pipeline-k-outer"),
    "TMA": ("sm_90", "double-buffer{depth=2},tma-copy,pipeline-k-outer,mark-unroll{limit=8}"),
}


@pytest.mark.parametrize(
    ("k", "state"), [(28, "single"), (29, "rings"), (29, "cp.async"), (28, "cp.async"), (28, "TMA")]
)
def test_no_number_where_inputs_end(k: int, state: str) -> None:
    """0 / 0 beyond K must not be folded, nor one from beyond the rows be stored."""
    case, (target, steps) = loop_cases.quotient_matmul(13, 20, k), STATES[state]
    module = tiled(case, f"{SMALL},{steps}", target)
    assert sum(isinstance(op, tile.ComputeOp) for op in module.walk()) == 1
    assert all(not op.yielded.where for op in module.walk() if isinstance(op, tile.ReduceOp))
    interpret(case, lowered(module), state)


def test_buffers_that_are_not_staged_are_read_where_the_element_is_computed() -> None:
    case = loop_cases.silu_matmul(13, 20, 28)
    pipeline = SMALL.replace("compute=true", 'buffers="g","w" compute=true')
    module = tiled(case, pipeline)
    (compute,) = (op for op in module.walk() if isinstance(op, tile.ComputeOp))
    loads = [op.ref.name_hint for op in compute.body.walk() if isinstance(op, tile.LoadOp)]
    assert sorted(filter(None, loads)) == ["g_smem", "u"]
    interpret(case, lowered(module), pipeline)


def test_it_counts_against_shared_memory() -> None:
    """3 slots each of 8 KiB of g, u and w, and 8 KiB of h, which stays single."""
    case = loop_cases.silu_matmul(256, 256, 256)
    module = tiled(case, TILED)
    with collect() as remarks:
        apply(module, "double-buffer{depth=3}")
    assert f"{(3 * 3 + 1) * 8192} B of shared memory" in str(remarks[-1])


# What schedules choose.


def schedule_of(case: loop_cases.Case, target: str = "sm_90") -> str:
    op = next(op for op in parse(case.text).walk() if isinstance(op, loop.KernelOp))
    return choose_schedule(op, get_target(target)).schedule


def test_schedules_compute_expensive_operands() -> None:
    case = loop_cases.silu_matmul(512, 512, 512)
    for target in TARGETS:
        assert "compute=true" in schedule_of(case, target)
    assert "compute" not in schedule_of(loop_cases.batched(1, 512, 512, 512))
    module = scheduled(case, None)
    apply(module, ",".join(STEPS[: STEPS.index("stage-inputs") + 1]), round_trip=False)
    assert sum(isinstance(op, tile.ComputeOp) for op in module.walk()) == 1


def test_what_a_candidate_counts() -> None:
    plain = Problem(1, 512, 2048, 5632)
    gated = replace(plain, row_operands=2, row_work=28)
    target = get_target("sm_90")

    def candidate(problem: Problem, thread: tuple[int, int] = (8, 8)) -> Candidate:
        return Candidate(problem, target, thread, (16, 16), 16, 3, 1)

    a, b = candidate(plain), candidate(gated)
    assert not a.computes
    assert b.computes
    slab = 128 * 16 * 4
    assert a.shared_bytes == 3 * 2 * slab * 5 // 4
    assert b.shared_bytes == (3 * 3 + 1) * slab * 5 // 4
    # Each of 128 x 16 elements once, by an SM that issues for 128 threads in a clock.
    assert 0 < b.chunk_clocks - a.chunk_clocks - 16 * 28 < 0.2 * a.chunk_clocks
    # One cheap operation on one row of a thread is not worth a barrier.
    assert not candidate(replace(plain, row_work=1), (1, 4)).computes
    assert candidate(replace(plain, row_work=1), (8, 8)).computes


def test_nvcc_takes_it_without_spills() -> None:
    try:
        find_nvcc()
    except BackendError as error:
        pytest.skip(str(error))
    for target, arches in {"sm_80": ("sm_80",), "sm_90": ("sm_90", "sm_120")}.items():
        module = scheduled(loop_cases.silu_matmul(512, 512, 512), None, target)
        apply(module, ",".join(STEPS), round_trip=False)
        funcs = [op for op in lowered(module).walk() if isinstance(op, kernel.FuncOp)]
        source = next(print_kernel(f) for f in funcs if "h_smem" in print_kernel(f))
        for arch in arches:
            cubin = compile_cubin(source, arch, ("-Werror", "all-warnings", "-Wreorder"))
            assert (cubin.spill_bytes, cubin.stack) == (0, 0)


def test_scores_of_one_key_at_a_time_are_computed_in_both_loops() -> None:
    """In one chunk, for whose slabs the budget is too small: another loop has no use for them."""
    case = loop_cases.window(2, 9, 4, 5)
    module = parse(case.text)
    apply(
        module, "tileify,chunk-matmul-k{bk=16 vector=4},blockify-launch{block=2,4,4 thread=1,4,4}"
    )
    with collect() as remarks:
        apply(module, "stage-inputs{budget=256 compute=true}")
    assert "of one place at a time serve one loop, not two" in str(remarks)
    interpret(case, lowered(module), "scores of one key")


def test_rows_of_scores_without_slabs_are_not_held() -> None:
    """What the threads of a row fold is a sum itself, of which each would have a part."""
    case = loop_cases.window(2, 9, 4, 5)
    module = parse(case.text)
    apply(module, "tileify,chunk-matmul-k{bk=8 vector=4},blockify-launch{block=1,2,4 thread=1,1,4}")
    apply(module, "stage-inputs{budget=300 compute=true}")
    with collect() as remarks:
        apply(module, "register-tile{extents=2 held=true}")
    assert "what is folded is summed itself" in str(remarks)
    interpret(case, lowered(module), "rows of scores without slabs")

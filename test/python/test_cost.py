"""The cost analysis: what it counts, and what the targets are."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import inf

import pytest
import torch
import torch.nn.functional as F
from harness import parse
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.parser import Parser

import dlc
from dlc.analysis.loop.contraction import contractions
from dlc.analysis.loop.loops import share_held, split_levels
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import ForOp, KernelOp, ReduceOp
from dlc.registry import register
from dlc.schedule.candidate import OF_TILE, Candidate
from dlc.schedule.contraction_tiles import tiled_contraction
from dlc.schedule.endings import (
    IN_FLIGHT,
    Parts,
    cluster_seconds,
    combining_seconds,
    endings,
    fastest_ending,
    last_block_seconds,
)
from dlc.schedule.estimate import estimate
from dlc.schedule.problem import Problem, TensorProduct
from dlc.schedule.tiling import SHAPES, TOLERANCE, best_candidate, bounds_of, candidates
from dlc.schedule.warp_candidate import WarpCandidate
from dlc.target import TARGETS, get_target, target_of

H100 = TARGETS["sm_90"]


def kernel(text: str, **sizes: int) -> KernelOp:
    for name, value in sizes.items():
        text = text.replace(f"${name}", str(value))
    module = Parser(register(Context()), text).parse_module()
    module.verify()
    return next(op for op in module.walk() if isinstance(op, KernelOp))


MATMUL = """
func.func @main(%a: tensor<$Mx$Kxf32>, %b: tensor<$Kx$Nxf32>) -> tensor<$Mx$Nxf32> {
  %c = loop.kernel @matmul(%a: memref<$Mx$Kxf32> = %a, %b: memref<$Kx$Nxf32> = %b)
      -> (%c: memref<$Mx$Nxf32>) {
    loop.for %i in $M, %j in $N {
      %s = loop.reduce add %k in $K -> f32 {
        %x = loop.load %a[%i, %k] : memref<$Mx$Kxf32>
        EXP
        %y = loop.load %b[%k, %j] : memref<$Kx$Nxf32>
        %p = arith.mulf %x, %y : f32
        loop.yield %p : f32
      }
      loop.store %s, %c[%i, %j] : memref<$Mx$Nxf32>
    }
  }
  func.return %c : tensor<$Mx$Nxf32>
}
"""

ROWS = """
func.func @main(%x: tensor<$Mx$Nxf32>) -> tensor<$Mx$Nxf32> {
  %y = loop.kernel @rows(%x: memref<$Mx$Nxf32> = %x) -> (%y: memref<$Mx$Nxf32>) {
    loop.for %row in $M {
      %s = loop.reduce add %k in $N -> f32 {
        %a = loop.load %x[%row, %k] : memref<$Mx$Nxf32>
        loop.yield %a : f32
      }
      loop.for %c in $N {
        %a = loop.load %x[%row, %c] : memref<$Mx$Nxf32>
        %d = arith.subf %a, %s : f32
        loop.store %d, %y[%row, %c] : memref<$Mx$Nxf32>
      }
    }
  }
  func.return %y : tensor<$Mx$Nxf32>
}
"""


def matmul(m: int, n: int, k: int, inlined: str = "") -> KernelOp:
    return kernel(MATMUL.replace("EXP", inlined), M=m, N=n, K=k)


def test_a_matmul() -> None:
    m, n, k = 512, 1024, 2048
    op = matmul(m, n, k)
    (c,) = contractions(op)
    assert [a.name_hint for a in c.rows] == ["i"]
    assert [a.name_hint for a in c.columns] == ["j"]
    assert [load.ref.name_hint for load in c.row_loads] == ["a"]
    assert [load.ref.name_hint for load in c.column_loads] == ["b"]
    cost = estimate(op, H100)
    assert cost.flops == 2 * m * n * k
    assert cost.memory_bytes == 4 * (m * k + k * n + m * n)
    assert cost.share == 1
    assert "MFLOP" in cost.explain
    best = candidates(Problem(1, m, n, k, padded=False), H100)[0]
    assert cost.l2_bytes == best.l2_bytes + 4 * m * n
    assert cost.seconds == best.seconds
    assert cost.combine_seconds == best.combine_seconds


def test_inlined_work_counts_once_and_takes_what_its_tiles_take() -> None:
    m, n, k = 512, 1024, 2048
    plain = estimate(matmul(m, n, k), H100)
    more = estimate(matmul(m, n, k, "%e = math.exp %x : f32"), H100)
    assert more.flops - plain.flops == 15 * m * k
    assert more.seconds == candidates(Problem(1, m, n, k, row_work=15), H100)[0].seconds
    assert more.seconds > plain.seconds


def test_tensor_cores_are_as_fast_as_the_table_says() -> None:
    n = 8192
    halves = MATMUL.replace("xf32", "xbf16").replace("EXP", "%x32 = arith.extf %x : bf16 to f32")
    halves = halves.replace(
        "%p = arith.mulf %x,", "%y32 = arith.extf %y : bf16 to f32\n%p = arith.mulf %x32,"
    )
    halves = halves.replace("%x32, %y :", "%x32, %y32 :").replace(
        "loop.store %s", "%h = arith.truncf %s : f32 to bf16\nloop.store %h"
    )
    op = kernel(halves, M=n, N=n, K=n)
    for name, flops in (("sm_80", 312e12), ("sm_90", 989e12), ("sm_120", 210e12)):
        target = TARGETS[name]
        assert target.tensor_flops == pytest.approx(flops, rel=0.1)
        cost, products = estimate(op, target), 2 * n**3
        reached = target.tensor_flops * (1 if target.has("wgmma") else target.mma_share)
        # Warps by themselves read factors and multiply in turn: 1.56 times as long on an H100.
        most = 1.5 if target.has("wgmma") else 1.7
        assert products / reached < cost.seconds < most * products / reached


@pytest.mark.parametrize(
    ("warp", "measured"), [((64, 32), 895e-6), ((32, 16), 1000e-6)], ids=["128x128", "64x64"]
)
def test_kernels_that_others_measured_take_as_long(warp: tuple[int, int], measured: float) -> None:
    """On an RTX 4090 at 2520 MHz, 4096 x 4096 x 4096 by 2 x 4 warps (`Target.apart_mma`)."""
    factors = TensorProduct("f16")
    problem = Problem(1, 4096, 4096, 4096, bytes_=2, tensor=factors, padded=True)
    tile = WarpCandidate(problem, TARGETS["sm_89"], warp, (2, 4), 32, 3, 1)
    assert tile.seconds == pytest.approx(measured, rel=0.03)


@pytest.mark.parametrize(
    "problem",
    [
        Problem(1, 128, 2048, 5632),
        Problem(4, 32, 128, 2048, row_operands=2, row_factors=2, sums=2),
        Problem(32, 128, 64, 128, row_work=15),
        Problem(1, 5, 7, 3),
        Problem(2, 40, 16, 32, beside=(8, 1), taps=3, stored=(0, 2, 1)),
        Problem(1, 40, 2048, 512, bytes_=2, tensor=TensorProduct("bf16")),
        Problem(2, 128, 96, 64, bytes_=2, sums=2, tensor=TensorProduct("f16", 15, row_runs=False)),
    ],
)
def test_no_bound_hides_a_faster_candidate(problem: Problem) -> None:
    seconds: list[float] = []
    bounds, before = bounds_of(problem, H100), 0.0
    for least, number, splits in bounds.rising(problem):
        split = [
            replace(tile, problem=problem, depth=depth, splits=splits, ending=ending).seconds
            for tile in bounds.tiles[number : number + 1]
            for depth, ending in product(tile.depths, endings(splits, H100))
        ]
        folded = least + min(bounds.endings(number, splits))
        assert before <= least <= folded
        assert folded < min(split) or min(split) == inf
        before = least
        seconds += split
    best, *others = candidates(problem, H100)
    assert min(seconds) <= best.seconds <= TOLERANCE * min(seconds)
    assert best_candidate(problem, H100) == best
    for name in OF_TILE & vars(best).keys():
        assert vars(best)[name] == getattr(replace(best), name)
    assert len({(c.block, c.splits) for c in (best, *others)}) == SHAPES


def test_neighbouring_threads_store_what_is_no_run() -> None:
    """
    A thread of four neighbours would store parts of as many sectors. Of rows that begin anywhere,
    blocks share sectors at the ends of their runs, none of rows of 16 bytes.
    """
    for stored, parts, shared in ((0, 2, 1), 1, 0), ((0, 1, 1), 0, 7 / 8):
        best = candidates(Problem(1, 4096, 64, 64, (32, 1), 3, stored=stored), H100)[0]
        assert best.points_held[0] == (1, best.thread[0])
        once = 4 * best.problem.results * H100.stored_rate / H100.l2_bandwidth
        ends = best.problem.results / best.spread[0][0] * shared * H100.shared_sector_seconds
        assert best.stored_seconds == pytest.approx(parts * once + ends)
        assert replace(best, lone=None).seconds > best.seconds
    assert candidates(Problem(1, 4096, 64, 64, (32, 1), 3), H100)[0].stored_seconds == 0


def test_blocks_store_whole_rows_that_begin_within_sectors() -> None:
    """Images of 54 columns, the sums of a point few: eight columns of many images cut each run."""
    best = candidates(Problem(54, 54, 64, 16, (64, 1), stored=(0, 1, 2)), H100)[0]
    assert best.spread[0][0] >= 54
    aligned = candidates(Problem(54, 56, 64, 16, (64, 1)), H100)[0]
    assert aligned.spread[0][0] < 54


def test_single_points_of_threads_fill_sectors() -> None:
    """Of windows with strides, in rows of odd length: strips of four are stored in parts."""
    problem = Problem(16, 32765, 64, 21, stored=(0, 1, 1))
    strided = replace(problem, strided=(True, False))
    best, strips = candidates(strided, H100)[0], candidates(problem, H100)[0]
    assert best.seconds < strips.seconds
    assert best.stored_seconds < replace(best, problem=problem).stored_seconds


def test_long_sums_of_few_products_fill_the_chip() -> None:
    best = candidates(Problem(1, 32, 32, 1 << 19), H100)[0]
    assert best.blocks >= H100.sms
    assert best.seconds < 1.5 * best.memory_seconds
    waits = (best.splits // IN_FLIGHT - 1) * H100.latency_seconds
    assert best.combine_seconds > H100.launch_seconds + waits


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
def test_the_last_block_ends_splits_of_small_tiles(target: str) -> None:
    """What a launch takes is saved; what one SM reads is paid."""
    chip = get_target(target)

    def parts(count: int, held: int, threads: int = 64) -> Parts:
        values = held * threads
        return Parts(count, 16 * values, held, 16, values)

    assert fastest_ending(parts(9, 4), replace(chip, launch_seconds=3e-6)) == "last"
    assert fastest_ending(parts(9, 4), chip) == "workspace"
    assert fastest_ending(parts(16, 64), chip) == "workspace"
    times = [last_block_seconds(parts(n, 16), chip) for n in (2, 4, 8, 16, 32)]
    assert times == sorted(times)
    assert combining_seconds(parts(4, 1), chip) > chip.launch_seconds
    sole = [combining_seconds(Parts(n, 1, 1, 1, 1), chip) for n in (IN_FLIGHT, 32 * IN_FLIGHT)]
    assert sole[1] - sole[0] < chip.latency_seconds, "a warp has all parts of a sole point at once"
    assert fastest_ending(parts(65, 1), chip) == "workspace", (
        "a thread would add more than 64 parts"
    )


@pytest.mark.parametrize("target", ["sm_90", "sm_100", "sm_120"])
def test_a_cluster_ends_splits_of_few_parts(target: str) -> None:
    """What it reads are no more bytes the more blocks share them, and pass no memory."""
    chip, older = get_target(target), get_target("sm_80")

    def parts(count: int) -> Parts:
        return Parts(count, 15 * 16 * 64, 16, 15, 16 * 64)

    for count in (2, 4, 8):
        assert fastest_ending(parts(count), chip) == "cluster"
        assert "cluster" not in endings(count, older)
        faster = cluster_seconds(parts(count), chip)
        assert faster < last_block_seconds(parts(count), chip)
        assert faster < combining_seconds(parts(count), chip)
    assert "cluster" not in endings(9, chip)
    assert sum(chip.gpcs) == chip.sms


def test_windows_with_strides_are_tiled_along_rows_of_results() -> None:
    """Neighbours in memory are stored together, though none are loaded."""
    with torch.device("meta"):
        images, weights = torch.empty(64, 3, 64, 64), torch.empty(16, 3, 7, 7)
    compiled = dlc.compile(lambda x, w: F.conv2d(x, w, stride=2), (images, weights))
    found = map(tiled_contraction, kernels_in(parse(compiled.ir("loop")), KernelOp))
    (tiled,) = filter(None, found)
    assert tiled.row is tiled.outer.axes[-1]
    assert tiled.problem.stored == (0, 1, 1)
    assert tiled.problem.strided == (True, False)


def test_clusters_find_their_sms_in_one_part_of_the_chip() -> None:
    """As many as the driver says fit on an H100: of 32 of 4 blocks, two wait for the others. Of 18
    of 6 one waits on another chip of the kind."""
    assert [H100.clusters_at_once(n) for n in (2, 4, 8)] == [66, 31, 15]
    assert [H100.busiest_share(128, n) for n in (1, 2, 4, 8)] == [1, 1, 2, 2]
    assert H100.busiest_share(128, 8, resident=4) == 2
    assert H100.busiest_share(8 * 15 * 4, 8, resident=4) == 4
    assert H100.busiest_share(8 * 92, 8, resident=6) == 6
    assert [H100.busiest_share(6 * n, 6) for n in (17, 18)] == [1, 2]


def test_what_other_blocks_read_keeps_blocks_out() -> None:
    tile = Candidate(Problem(1, 64, 64, 4096), H100, (8, 8), (8, 8), 32, 3, 8, "cluster")
    more = replace(tile, ending="workspace")
    assert tile.shared_held - more.shared_held == 4 * 64 * 64
    assert tile.resident < more.resident
    assert tile.combine_seconds == 0 < tile.ending_seconds


def test_what_the_last_block_folds_with_keeps_other_blocks_out() -> None:
    tile = Candidate(Problem(1, 64, 64, 4096), H100, (4, 4), (8, 8), 32, 2, 8, "last")
    more = replace(tile, ending="workspace")
    assert tile.registers == more.registers < tile.registers_held
    assert tile.resident <= more.resident
    assert (tile.combine_seconds, more.ending_seconds) == (0, more.combine_seconds)


def test_a_contraction_in_an_inner_loop_has_no_tiles() -> None:
    m, n, k = 512, 1024, 2048
    text = MATMUL.replace("EXP", "")
    text = text.replace("loop.for %i in $M, %j in $N {", "loop.for %i in $M { loop.for %j in $N {")
    text = text.replace("  }\n  func.return", "  } }\n  func.return")
    cost = estimate(kernel(text, M=m, N=n, K=k), H100)
    assert cost.l2_bytes >= 4 * 2 * m * n * k
    assert cost.seconds > 20 * estimate(matmul(m, n, k), H100).seconds


def test_a_row_that_an_sm_or_a_cluster_holds_is_read_once() -> None:
    cost = estimate(kernel(ROWS, M=1024, N=2048), H100)
    assert cost.memory_bytes == 2 * 4 * 1024 * 2048
    assert cost.l2_bytes == 2 * 4 * 1024 * 2048
    long, bytes_once = kernel(ROWS, M=1024, N=100_000), 2 * 4 * 1024 * 100_000
    held = estimate(long, H100)
    assert held.rows is not None
    assert held.memory_bytes == bytes_once
    assert estimate(long, TARGETS["sm_80"]).memory_bytes == bytes_once * 3 // 2
    assert (
        estimate(kernel(ROWS, M=1024, N=1_000_000), H100).memory_bytes == 3 * 4 * 1024 * 1_000_000
    )


def test_dependent_sweeps_use_as_many_sms_as_there_are_rows() -> None:
    assert estimate(kernel(ROWS, M=33, N=2048), H100).share == 33 / H100.sms
    assert "on 25.0% of the SMs" in estimate(kernel(ROWS, M=33, N=2048), H100).explain


def test_split_levels() -> None:
    op = kernel(ROWS, M=8, N=16)
    row = next(o for o in op.body.block.ops if isinstance(o, ForOp))
    inner = next(o for o in row.body.block.ops if isinstance(o, ForOp))
    names = [[a.name_hint for a in level] for level in split_levels([row, inner])]
    assert names == [["row"], ["c"]]


def test_targets() -> None:
    assert set(TARGETS) == {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}
    assert target_of(ModuleOp([])) is H100
    assert target_of(ModuleOp([], {"dlc.target": StringAttr("sm_80")})) is TARGETS["sm_80"]
    with pytest.raises(ValueError, match="unknown target 'sm_91'"):
        get_target("sm_91")
    for target in TARGETS.values():
        assert target.shared_per_block <= target.shared_per_sm - target.reserved_shared
        assert 8e12 < target.flops < 2e14
        assert target.sm_bandwidth < target.memory_bandwidth < target.l2_bandwidth or (
            target.memory_bandwidth > 7e12
        )


POINTS = """
func.func @main(%x: tensor<8x64x$Hx$Hxf32>, %w: tensor<16x64xf32>) -> tensor<8x16x$Hx$Hxf32> {
  %y = loop.kernel @points(%x: memref<8x64x$Hx$Hxf32> = %x, %w: memref<16x64xf32> = %w)
      -> (%y: memref<8x16x$Hx$Hxf32>) {
    loop.for %b in 8, %c in 16, %i in $H, %j in $H {
      %s = loop.reduce add %k in 64 -> f32 {
        %p = loop.load %x[%b, %k, %i, %j] : memref<8x64x$Hx$Hxf32>
        %q = loop.load %w[%c, %k] : memref<16x64xf32>
        %r = arith.mulf %p, %q : f32
        loop.yield %r : f32
      }
      loop.store %s, %y[%b, %c, %i, %j] : memref<8x16x$Hx$Hxf32>
    }
  }
  func.return %y : tensor<8x16x$Hx$Hxf32>
}
"""

WINDOWS = """
func.func @main(%x: tensor<64x30xf32>, %w: tensor<16x3xf32>) -> tensor<64x16x28xf32> {
  %y = loop.kernel @windows(%x: memref<64x30xf32> = %x, %w: memref<16x3xf32> = %w)
      -> (%y: memref<64x16x28xf32>) {
    loop.for %b in 64, %c in 16, %j in 28 {
      %s = loop.reduce add %k in 3 -> f32 {
        %p = loop.load %x[%b, %j + %k] : memref<64x30xf32>
        %q = loop.load %w[%c, %k] : memref<16x3xf32>
        %r = arith.mulf %p, %q : f32
        loop.yield %r : f32
      }
      loop.store %s, %y[%b, %c, %j] : memref<64x16x28xf32>
    }
  }
  func.return %y : tensor<64x16x28xf32>
}
"""


@pytest.mark.parametrize(("extent", "beside"), [(56, 56), (7, 7), (64, 1), (1000, 1)])
def test_places_that_do_not_fill_blocks_are_dealt_over_two_axes(extent: int, beside: int) -> None:
    """A convolution of windows of one point is a product whose columns are two axes."""
    tiled = tiled_contraction(kernel(POINTS, H=extent))
    assert tiled is not None
    p = tiled.problem
    assert max(p.beside) == beside
    assert p.batch * p.results == 8 * 16 * extent**2


def test_what_windows_share_is_read_once() -> None:
    """28 windows of 3 take 84 points of a row, of which there are 30."""
    tiled = tiled_contraction(kernel(WINDOWS))
    assert tiled is not None
    read = tiled.problem.compulsory_bytes / 4 - 64 * 16 * 28
    assert 64 * 30 + 16 * 3 <= read < 64 * 30 + 16 * 3 + 3


def test_candidates_that_take_the_same_time_keep_their_order() -> None:
    """Two endings of one tile may."""
    assert len(candidates(Problem(1, 333, 768, 512), H100)) == SHAPES


def test_loads_count_where_their_conditions_hold() -> None:
    """Halves of a row that are read under conditions cost what the row does, not twice that."""

    def seconds(text: str) -> float:
        x = torch.empty(4096, 4096, device="meta")
        scope: dict[str, object] = {"torch": torch}
        program = dlc.compile(eval(f"lambda x: {text}", scope), (x,), target="sm_90")
        return sum(
            estimate(op, H100).seconds
            for op in parse(program.ir("loop")).walk()
            if isinstance(op, KernelOp)
        )

    halves = "torch.cat((x[:, :2048] - x[:, 2048:], x[:, 2048:] + x[:, :2048]), 1)"
    assert seconds(halves) < 1.25 * seconds("x + 1")


@pytest.mark.parametrize(
    ("condition", "share"),
    [("%i >= 2", 0.8), ("-%i + 3 >= 0", 0.4), ("%i + %k >= 3", 1 - 6 / 40), ("%k * 2 >= %i", 0.4)],
)
def test_share_of_points_where_a_condition_holds(condition: str, share: float) -> None:
    found = kernel(
        """
        func.func @main(%x: tensor<10x4xf32>) -> tensor<10xf32> {
          %y = loop.kernel @f(%x: memref<10x4xf32> = %x) -> (%y: memref<10xf32>) {
            loop.for %i in 10 {
              %s = loop.reduce add %k in 4 -> f32 {
                %a = loop.load %x[%i, %k] : memref<10x4xf32>
                loop.yield %a where (CONDITION) : f32
              }
              loop.store %s, %y[%i] : memref<10xf32>
            }
          }
          func.return %y : tensor<10xf32>
        }""".replace("CONDITION", condition)
    )
    reduce = next(op for op in found.walk() if isinstance(op, ReduceOp))
    assert share_held(reduce.yielded.where) == pytest.approx(share)

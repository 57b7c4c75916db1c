"""The bank model on patterns whose conflicts are known, and the layouts and orders it chooses."""

from __future__ import annotations

import random

import loop_cases
import numpy as np
import pytest
from harness import apply, interpret, lowered, parse
from harness import scheduled as loops_of
from xdsl.dialects.builtin import MemRefType, StridedLayoutAttr, f32
from xdsl.utils.exceptions import VerifyException

from dlc.analysis.kernel.bank_accesses import BankAccess, report, report_global
from dlc.analysis.kernel.banks import phases, sectors, wavefronts, ways
from dlc.analysis.kernel.layout import group_padded, offset_in, padded, place_of, swizzled
from dlc.backend.cuda.print.printer import dynamic_shared_bytes, parameter_types, print_kernel
from dlc.backend.host.host_kernel import HostKernel
from dlc.dialects import kernel, tile
from dlc.dialects.layouts import PaddedGroupsAttr, SwizzleAttr, span, strides_of, verify_layout
from dlc.ir.analyses import Analyses
from dlc.ir.expr import Expr

F4 = 16
LANES = range(32)

PATTERNS = [
    # name, bytes of an access, the float that each lane begins at, ways
    ("neighbours", 4, lambda t: t, 1),
    ("one word", 4, lambda t: 0, 1),
    ("two halves read the same", 4, lambda t: t % 16, 1),
    ("every other word", 4, lambda t: 2 * t, 2),
    ("a column of rows of 32", 4, lambda t: 32 * t, 32),
    ("a column of rows of 33", 4, lambda t: 33 * t, 1),
    ("a column of rows of 16", 4, lambda t: 16 * t, 16),
    ("a column of rows of 17", 4, lambda t: 17 * t, 1),
    ("8 x 4 of rows of 32", 4, lambda t: 32 * (t // 4) + t % 4, 8),
    ("8 x 4 of rows of 36", 4, lambda t: 36 * (t // 4) + t % 4, 1),
    ("rows of 8 threads, 16 apart", 4, lambda t: 16 * (t // 16), 1),
    ("float2 neighbours", 8, lambda t: 2 * t, 1),
    ("float2, every other", 8, lambda t: 4 * t, 2),
    ("float2, halves in the same banks", 8, lambda t: 2 * (t % 16), 1),
    ("float2, the two halves of rows of 32", 8, lambda t: 32 * (t % 2) + 2 * (t // 2), 2),
    ("float4 neighbours", F4, lambda t: 4 * t, 1),
    ("float4, one for all", F4, lambda t: 0, 1),
    ("float4 pairs, 32 bytes apart", F4, lambda t: 8 * t, 2),
    ("float4 of rows of 16", F4, lambda t: 16 * t, 4),
    ("float4 of rows of 20", F4, lambda t: 20 * t, 1),
    ("float4 of rows of 32", F4, lambda t: 32 * t, 8),
    ("float4 of rows of 36", F4, lambda t: 36 * t, 1),
    ("float4 of rows of 64", F4, lambda t: 64 * t, 8),
    ("float4 of rows of 16, in strips of 4 rows", F4, lambda t: 64 * (t % 16), 8),
    ("float4 of rows of 128, 2 rows a warp", F4, lambda t: 128 * (t // 16) + 4 * (t % 16), 1),
    ("bytes", 1, lambda t: t / 4, 1),
]


@pytest.mark.parametrize(
    ("name", "width", "word", "expected"), PATTERNS, ids=[p[0] for p in PATTERNS]
)
def test_known_patterns(name: str, width: int, word, expected: int) -> None:
    del name
    lanes = [int(4 * word(t)) for t in LANES]
    assert ways(lanes, width) == expected
    assert ways([a + 128 * 7 + 64 for a in lanes], width) == expected  # banks turn, no more


def test_neighbours_with_one_address_are_served_16_lanes_at_a_time() -> None:
    one_row_each = [4 * 68 * (t // 2) for t in LANES]
    assert wavefronts(one_row_each, F4) == 2
    assert wavefronts([4 * 68 * (t // 4 * 2 + t % 2) for t in LANES], F4) == 2  # lanes n and n ^ 2
    assert wavefronts([4 * 68 * (t // 8 * 4 + t % 4) for t in LANES], F4) == 4  # n and n ^ 4
    assert wavefronts([16 * (t % 8) for t in LANES], F4) == 4
    assert wavefronts([4 * 64 * (t // 16) for t in LANES], F4) == 2
    assert wavefronts([4 * 64 * (t // 8) for t in LANES], F4) == 4  # two rows in the same banks
    assert wavefronts([None, *one_row_each[1:]], F4) == 2
    assert wavefronts([8 * (t // 2) for t in LANES], 8) == 2  # not measured: as others


def test_lanes_that_take_no_part() -> None:
    assert wavefronts([None] * 32, 4) == 0
    assert wavefronts([128 * t if t < 3 else None for t in LANES], 4) == 3
    assert phases([None] * 8 + [0] * 8 + [None] * 16, F4) == [[0] * 8]
    assert wavefronts([16 * t for t in range(5)], F4) == 1


def test_against_a_direct_count() -> None:
    rng = random.Random(0)
    for _ in range(200):
        width = rng.choice([4, 8, 16])
        lanes = [width * rng.randrange(64) for _ in LANES]
        total = 0
        group = 128 // width
        for first in range(0, 32, group):
            banks: dict[int, set[int]] = {}
            for address in lanes[first : first + group]:
                for byte in range(address, address + width, 4):
                    banks.setdefault(byte // 4 % 32, set()).add(byte // 4)
            total += max(len(words) for words in banks.values())
        assert wavefronts(lanes, width) == total


def test_sectors() -> None:
    assert sectors([4 * t for t in LANES], 4) == 4
    assert sectors([4 * t + 4 for t in LANES], 4) == 5
    assert sectors([32 * t for t in LANES], 16) == 32
    assert sectors([0] * 31 + [None], 4) == 1


# Layouts.


def _type(*shape: int) -> MemRefType:
    return MemRefType(f32, shape, memory_space=kernel.SharedAttr())


def _place(type: MemRefType, *at: int) -> int:
    place = place_of(type, [Expr((), n) for n in at]).evaluate({})
    assert place == offset_in(type)(at)
    return place


@pytest.mark.parametrize("bytes", [32, 64, 128])
def test_a_swizzle_is_that_of_the_tensor_memory_accelerator(bytes: int) -> None:
    """Bits 4 and up of a byte's address are xor-ed with bits 7 and up (CUtensorMapSwizzle)."""
    width = bytes // 4
    plain, type = (
        _type(2, 24, width),
        next(t for t in swizzled(_type(2, 24, width)) if t.layout == SwizzleAttr(bytes)),
    )
    for slot, row, column in np.ndindex(2, 24, width):
        address = 4 * _place(plain, slot, row, column)
        address ^= (address >> 7 & (bytes // 16 - 1)) << 4
        assert 4 * _place(type, slot, row, column) == address


def test_a_wide_slab_is_swizzled_panel_by_panel() -> None:
    type = MemRefType(f32, [2, 16, 64], SwizzleAttr(128), kernel.SharedAttr())
    places = {_place(type, *at) for at in np.ndindex(2, 16, 64)}
    assert places == set(range(span(type)))
    assert (_place(type, 0, 0, 32), _place(type, 1, 0, 0), _place(type, 0, 1, 0)) == (512, 1024, 36)
    for slot, row, column in np.ndindex(2, 16, 16):  # units of 16 bytes stay together
        first = _place(type, slot, row, 4 * column)
        assert first % 4 == 0
        assert [_place(type, slot, row, 4 * column + n) - first for n in range(4)] == [0, 1, 2, 3]


def test_groups_of_rows_lie_apart() -> None:
    type = MemRefType(f32, [2, 12, 16], PaddedGroupsAttr(4, 8), kernel.SharedAttr())
    assert strides_of(type) == (3 * 72, 16, 1)
    assert span(type) == 2 * 3 * 72
    for slot, row, column in np.ndindex(2, 12, 16):
        place = slot * 216 + row // 4 * 72 + row % 4 * 16 + column
        assert _place(type, slot, row, column) == place


@pytest.mark.parametrize("columns", [8, 16, 32, 64])
def test_strips_of_rows_hit_distinct_banks(columns: int) -> None:
    """Lanes 0 to 7 read 16 bytes of rows 0, 4, 8 and so on, of one of 4 groups of rows or more."""
    (type,) = [t for t in group_padded(_type(64, columns), 4) if t.layout == PaddedGroupsAttr(4, 4)]
    assert {_place(type, 4 * t, 0) // 4 % 8 for t in range(8)} == set(range(8))


def test_places_of_strided_buffers() -> None:
    type = MemRefType(f32, [3, 8, 16], StridedLayoutAttr([160, 20, 1], 4), kernel.SharedAttr())
    assert _place(type, 2, 3, 5) == 4 + 320 + 60 + 5
    assert _place(_type(3, 8, 16), 2, 3, 5) == 256 + 48 + 5
    assert _place(_type()) == 0


def test_which_layouts_fit() -> None:
    assert [t.layout for t in swizzled(_type(16, 64))] == [SwizzleAttr(n) for n in (128, 64, 32)]
    assert [t.layout for t in swizzled(_type(16, 64), 64)] == [SwizzleAttr(64), SwizzleAttr(32)]
    assert [t.layout for t in swizzled(_type(16, 24))] == [SwizzleAttr(32)]
    assert swizzled(_type(12, 64)) == swizzled(_type(64)) == []
    assert [t.layout for t in group_padded(_type(12, 16), 4)] == [
        PaddedGroupsAttr(rows, 4) for rows in (2, 4)
    ]
    assert padded(_type(3, 8, 16), 4).layout == StridedLayoutAttr([160, 20, 1])
    assert strides_of(padded(_type(3, 8, 16), 4)) == (160, 20, 1)
    for strides in ([15, 1], [16], [16, 0]):
        with pytest.raises(VerifyException):
            verify_layout(MemRefType(f32, [8, 16], StridedLayoutAttr(strides)))
    with pytest.raises(VerifyException, match="found strided<\\[16, 1\\], offset: 4>"):
        verify_layout(MemRefType(f32, [8, 16], StridedLayoutAttr([16, 1], 4)))
    with pytest.raises(VerifyException, match="swizzle of 32, 64 or 128 bytes, found 16"):
        SwizzleAttr(16)


SWIZZLED = """
kernel.func @k(%x: memref<ROWSxCOLUMNSxf32> align 16) -> (%y: memref<ROWSxCOLUMNSxf32>)
    grid 1 block ROWS {
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<2xROWSxCOLUMNSxf32, #kernel.swizzle<BYTES>, #kernel.shared>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %vectors = arith.constant VECTORS : index
  %columns = arith.constant COLUMNS : index
  scf.for %i = %c0 to %vectors step %c1 {
    %e = kernel.load %x[%t, %i * 4] : memref<ROWSxCOLUMNSxf32> -> vector<4xf32>
    kernel.store %e, %s[1, %t, %i * 4]
        : memref<2xROWSxCOLUMNSxf32, #kernel.swizzle<BYTES>, #kernel.shared>, vector<4xf32>
  }
  kernel.barrier
  scf.for %i = %c0 to %columns step %c1 {
    %e = kernel.load %s[1, ROWS - 1 - %t, %i]
        : memref<2xROWSxCOLUMNSxf32, #kernel.swizzle<BYTES>, #kernel.shared>
    kernel.store %e, %y[ROWS - 1 - %t, %i] : memref<ROWSxCOLUMNSxf32>
  } {unroll}
}
"""


@pytest.mark.parametrize(
    ("bytes", "rows", "columns"), [(32, 8, 8), (64, 24, 32), (128, 16, 32), (128, 40, 96)]
)
def test_swizzled_buffers_print_and_run(bytes: int, rows: int, columns: int) -> None:
    text = SWIZZLED.replace("VECTORS", str(columns // 4)).replace("BYTES", str(bytes))
    module = parse(text.replace("ROWS", str(rows)).replace("COLUMNS", str(columns)))
    module.verify()
    assert str(parse(str(module))) == str(module)
    (func,) = [op for op in module.walk() if isinstance(op, kernel.FuncOp)]
    source = print_kernel(func)
    assert f"alignas({8 * bytes}) float s[{2 * rows * columns}];" in source
    assert "^" in source
    x = np.random.default_rng(1).standard_normal((rows, columns)).astype(np.float32)
    y = np.full_like(x, np.nan)
    HostKernel(source, func.name_, parameter_types(func)).launch(
        [x.ctypes.data, y.ctypes.data], 1, rows, dynamic_shared_bytes(func)
    )
    np.testing.assert_array_equal(x, y)


# The model on kernels.

GEMM = (
    "tileify,chunk-matmul-k{bk=BK vector=4},blockify-launch{block=128,128 thread=16,16},"
    "stage-inputs{budget=98304},register-tile{extents=8,8}"
)


def scheduled(case: loop_cases.Case, pipeline: str) -> tile.KernelOp:
    module = loops_of(case, pipeline)
    apply(module, pipeline)
    (found,) = [op for op in module.walk() if isinstance(op, tile.KernelOp)]
    return found


def worst(accesses: list[BankAccess]) -> dict[str, float]:
    """The most ways of the reads and writes of each buffer."""
    found: dict[str, float] = {}
    for access in accesses:
        key = f"{'write' if access.writes else 'read'} {access.name}"
        found[key] = max(found.get(key, 0), access.ways)
    return found


def test_reads_and_writes_of_a_gemm() -> None:
    found = scheduled(loop_cases.gemm(256, 256, 64), GEMM.replace("BK", "16"))
    accesses = report(found)
    assert [str(a) for a in accesses] == [
        "read of x_smem, 16 bytes: 1 way",
        "read of shift_smem, 16 bytes: 1 way",
        "read of w_smem, 16 bytes: 2 ways",
        "write of x_smem, 16 bytes: 1 way",
        "write of shift_smem, 16 bytes: 1 way",
        "write of w_smem, 16 bytes: 1 way",
    ]
    # 4 chunks of 4 runs of 4 along K: 8 rows of x; 4 rows of w, each of 8 columns in 2 vectors.
    assert [a.times for a in accesses[:3]] == [4 * 4 * 8, 4 * 4, 4 * 4 * 4 * 2]
    assert accesses[2].excess == 4 * 4 * 4 * 2 * 4
    (bias, out) = report_global(found, Analyses())
    assert (bias.width, bias.times, bias.sectors) == (16, 2, 16)
    assert (out.width, out.times, out.sectors) == (16, 16, 32)


def test_scalar_reads_across_rows() -> None:
    """Two rows of 16 elements, 8 apart, share a bank; neighbouring rows do not."""
    case = loop_cases.gemm(256, 256, 64)
    before = GEMM.replace("BK vector=4", "16")
    assert worst(report(scheduled(case, before)))["read x_smem"] == 2
    after = scheduled(case, f"{before},permute-register-tile")
    assert worst(report(after))["read x_smem"] == 1
    assert "%x_smem[%ri * 16 + %ti, %ki]" in str(after)


GROUPS = """
func.func @main(%x: tensor<104x4xf32>) -> tensor<32xf32> {
  %y = tile.kernel @k(%x: memref<104x4xf32> = %x) -> (%y: memref<32xf32>) {
    tile.launch thread(%t in 32) {
      %s = tile.stage %x[0, 0] [104, 4] : memref<104x4xf32>
          -> memref<104x4xf32, #kernel.padded_groups<2, 4>, #tile.shared>
      %sum = tile.reduce add serial(%k in 8) register(%v in 4) -> f32 {
        %e = tile.load %s[%t * 3 + %k, %v]
            : memref<104x4xf32, #kernel.padded_groups<2, 4>, #tile.shared>
        tile.yield %e : f32
      }
      tile.store %sum, %y[%t] : memref<32xf32>
    }
  }
  func.return %y : tensor<32xf32>
}
"""


def test_every_row_of_a_group_counts() -> None:
    """Lanes that begin in even rows find distinct banks, those that begin in odd ones do not."""
    (found,) = [op for op in parse(GROUPS).walk() if isinstance(op, tile.KernelOp)]
    read, _ = report(found)
    assert (read.width, read.writes) == (16, False)
    assert read.ways > 1


def test_ragged_threads_and_columns() -> None:
    """Slabs of 6 columns are copied by 2s; the last warp has 16 lanes."""
    pipeline = (
        "tileify,chunk-matmul-k{bk=6},blockify-launch{block=12,12 thread=12,4},"
        "stage-inputs{budget=98304},register-tile{extents=1,3}"
    )
    accesses = report(scheduled(loop_cases.gemm(24, 24, 24), pipeline))
    assert {(a.name, a.writes): a.width for a in accesses} == {
        ("x_smem", False): 4, ("shift_smem", False): 4, ("w_smem", False): 4,
        ("x_smem", True): 8, ("shift_smem", True): 8, ("w_smem", True): 16,
    }  # fmt: skip
    assert all(a.ways >= 1 for a in accesses)


@pytest.mark.parametrize(
    "rings", ["", ",double-buffer{depth=3}", ",double-buffer{depth=2},tma-copy"]
)
@pytest.mark.parametrize("bk", [16, 32, 64])
@pytest.mark.parametrize("transposed", [False, True])
def test_schedules_without_conflicts(transposed: bool, bk: int, rings: str) -> None:
    by_tma = transposed and "tma-copy" in rings
    order = "{strip=1}" if by_tma else ""
    pipeline = (
        GEMM.replace("BK", str(bk))
        + f",permute-register-tile{order}{rings},split-inner-for-swizzle,pad-smem"
    )
    found = scheduled(loop_cases.gemm(256, 256, 256, transposed=transposed), pipeline)
    accesses = report(found)
    assert set(worst(accesses).values()) == {1}
    assert {a.width for a in accesses} == {16}
    assert {a.width for a in report_global(found, Analyses())} == ({4} if by_tma else {16})


# Results.


def small(bk: int, steps: str) -> str:
    return (
        f"tileify,chunk-matmul-k{{bk={bk} vector=4}},blockify-launch{{block=32,64 thread=4,8}},"
        f"stage-inputs{{budget=49152}},register-tile{{extents=8,8}}{steps}"
    )


@pytest.mark.parametrize(
    ("case", "bk"),
    [
        (loop_cases.gemm(64, 128, 64), 16),
        (loop_cases.gemm(64, 128, 96, transposed=True), 32),
        (loop_cases.gemm(37, 50, 40), 32),
        (loop_cases.gemm(20, 70, 36, transposed=True), 16),
    ],
    ids=lambda p: str(getattr(p, "name", p)),
)
def test_results(case: loop_cases.Case, bk: int) -> None:
    for steps in (
        ",permute-register-tile,pad-smem",
        ",permute-register-tile,double-buffer{depth=3},async-copy,pad-smem,mark-unroll{limit=8}",
        ",permute-register-tile,double-buffer{depth=3},tma-copy,split-inner-for-swizzle,"
        "pipeline-k-outer",
    ):
        pipeline = small(bk, steps)
        module = loops_of(case, pipeline)
        apply(module, pipeline)
        interpret(case, lowered(module), pipeline)

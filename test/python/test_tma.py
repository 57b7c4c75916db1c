"""The tensor memory accelerator: hand-written kernels, tensor maps, and the step tma-copy."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import loop_cases
import numpy as np
import pytest
from harness import apply, interpret, lowered, parse
from stub_driver import needs_bindings, run_with_driver
from test_barriers import redundant_barriers
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import DiagnosticException

from dlc.analysis.kernel.barriers import missing_barriers
from dlc.analysis.kernel.tensor_maps import TensorMap, tensor_map, tma_obstacle
from dlc.backend import BackendError, LaunchError
from dlc.backend.cuda.print.interface import (
    c_name,
    dynamic_shared_bytes,
    parameter_types,
    shared_bytes,
)
from dlc.backend.cuda.print.printer import print_kernel
from dlc.backend.cuda.run.nvcc import compile_cubin, find_nvcc
from dlc.backend.host.host_backend import host_arguments
from dlc.backend.host.host_kernel import HostKernel
from dlc.dialects import kernel, loop, tile
from dlc.dialects.kernel import FuncOp
from dlc.registry import register
from dlc.simulator import Hazard, run_kernel
from dlc.transforms.step import parse_schedule

RUNS = list(itertools.product(("late", "early"), ("forward", "reverse", "random")))
"""When copies land, and which thread goes first."""


def func_of(text: str) -> FuncOp:
    return next(op for op in parse(text).walk() if isinstance(op, FuncOp))


_hosts: dict[FuncOp, HostKernel] = {}


def on_host(func: FuncOp, arrays: Sequence[np.ndarray], **options: object) -> None:
    """Runs a kernel on the host backend; as the launcher does, without torch."""
    if func not in _hosts:
        _hosts[func] = HostKernel(print_kernel(func), c_name(func), parameter_types(func))
    host, bytes = _hosts[func], dynamic_shared_bytes(func)
    arguments = host_arguments(func, [array.ctypes.data for array in arrays])
    host.launch(arguments, func.grid_size, func.block_size, bytes, **options)  # pyright: ignore[reportArgumentType]


def aligned(*shape: int) -> np.ndarray:
    """Random numbers at an address that is a multiple of 16."""
    size = int(np.prod(shape)) * 4
    raw = np.zeros(size + 16, np.uint8)
    start = -raw.ctypes.data % 16
    array = raw[start : start + size].view(np.float32).reshape(shape)
    array[...] = np.random.default_rng(size).standard_normal(shape)
    return array


# Hand-written Kernel IR: a ring of `x` in boxes of 32 × 8 and one of `w` in boxes of 8, filled two
# chunks ahead by thread 0. Thread t folds half of row t mod 32 of every chunk, in order.

REQUEST = """
    {empty}
    kernel.mbarrier_expect_tx %full[{slot}], 1056
    kernel.tma_load %x_map[%b * 32, {k} * 8] -> %x_ring[{slot}, 0, 0], %full[{slot}] : {x_ring}
    kernel.tma_load %w_map[{k} * 8] -> %w_ring[{slot}, 0], %full[{slot}] : {w_ring}
"""

RING = """
kernel.func @ring(%x: {x}, %w: {w}) -> (%y: {y}) grid {grid} block 64 {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %depth = arith.constant {depth} : index
  %chunks = arith.constant {chunks} : index
  %zero = arith.constant 0.0 : f32
  %factor = arith.constant 1.5 : f32
  %b = kernel.block_id
  %t = kernel.thread_id
  %x_map = kernel.tensor_map %x box [32, 8]{swizzle} : {x}
  %w_map = kernel.tensor_map %w box [8] : {w}
  %x_ring = kernel.alloc_shared : {x_ring}
  %w_ring = kernel.alloc_shared : {w_ring}
  %full = kernel.alloc_mbarriers {depth}
  %empty = kernel.alloc_mbarriers {depth}
  %first = kernel.test where (%t < 1)
  %leads = kernel.test where (%t mod 32 < 1)
  scf.if %first {{
    scf.for %s = %c0 to %depth step %c1 {{
      kernel.mbarrier_init %full[%s], 1
      kernel.mbarrier_init %empty[%s], 2
    }}
    kernel.fence_mbarrier_init
  }}
  {meet}
  scf.if %first {{ {prologue} }}
  %acc = kernel.alloc_local : memref<f32, #kernel.local>
  kernel.store %zero, %acc[] : memref<f32, #kernel.local>
  scf.for %k = %c0 to %chunks step %c1 {{
    {full}
    %more = kernel.test where (%t < 1, %k + {ahead} < {chunks})
    scf.if %more {{ {request} }}
    scf.for %c = %c0 to %c4 step %c1 {{
      %v = kernel.load %x_ring[%k mod {depth}, %t mod 32, %t floordiv 32 * 4 + %c] : {x_ring}
      %u = kernel.load %w_ring[%k mod {depth}, %t floordiv 32 * 4 + %c] : {w_ring}
      %a = kernel.load %acc[] : memref<f32, #kernel.local>
      %p = arith.mulf %v, %u : f32
      %f = arith.mulf %a, %factor : f32
      %q = arith.addf %f, %p : f32
      kernel.store %q, %acc[] : memref<f32, #kernel.local>
    }}
    {together}
    scf.if %leads {{ {release} }}
  }}
  %r = kernel.load %acc[] : memref<f32, #kernel.local>
  kernel.store %r, %y[%b, %t] : {y}
}}
"""

PARTS = {
    "empty": "kernel.mbarrier_wait %empty[{slot}], parity ({k} floordiv {depth} + 1) mod 2",
    "full": "kernel.mbarrier_wait %full[%k mod {depth}], parity (%k floordiv {depth}) mod 2",
    "meet": "kernel.barrier",
    "together": "kernel.fence_proxy_async kernel.sync_warp",
    "release": "kernel.mbarrier_arrive %empty[%k mod {depth}]",
}
"""What keeps the order; a test leaves one out."""


def ring(
    rows: int, columns: int, depth: int, chunks: int, *, swizzled: bool = False, without: str = ""
) -> FuncOp:
    """The kernel on x (rows × columns), without one of its `PARTS`."""
    grid, ahead = -(-rows // 32), depth - 1
    layout = ", #kernel.swizzle<32>" if swizzled else ""
    x_ring = f"memref<{depth}x32x8xf32{layout}, #kernel.shared>"
    w_ring = f"memref<{depth}x8xf32, strided<[32, 1]>, #kernel.shared>"
    parts = {name: "" if name == without else text for name, text in PARTS.items()}

    def request(k: str, slot: str) -> str:
        empty = parts["empty"].format(slot=slot, k=k, depth=depth)
        return REQUEST.format(empty=empty, slot=slot, k=k, x_ring=x_ring, w_ring=w_ring)

    return func_of(
        RING.format(
            x=f"memref<{rows}x{columns}xf32>",
            w=f"memref<{columns}xf32>",
            y=f"memref<{grid}x64xf32>",
            grid=grid,
            depth=depth,
            chunks=chunks,
            ahead=ahead,
            swizzle=" swizzle 32" if swizzled else "",
            x_ring=x_ring,
            w_ring=w_ring,
            prologue="".join(request(str(k), str(k % depth)) for k in range(min(ahead, chunks))),
            request=request(f"(%k + {ahead})", f"(%k + {ahead}) mod {depth}"),
            meet=parts["meet"],
            full=parts["full"].format(depth=depth),
            together=parts["together"],
            release=parts["release"].format(depth=depth),
        )
    )


def folded(x: np.ndarray, w: np.ndarray, chunks: int) -> np.ndarray:
    """What the kernel computes, in fp64; elements beyond `x` and `w` are 0."""
    rows, columns = -(-x.shape[0] // 32) * 32, chunks * 8
    padded, weights = np.zeros((rows, columns)), np.zeros(columns)
    padded[: x.shape[0], : x.shape[1]] = x[:, :columns]
    weights[: len(w)] = w[:columns]
    products = (padded * weights).reshape(rows // 32, 32, chunks, 2, 4)
    total = np.zeros((rows // 32, 2, 32))
    for k, c in itertools.product(range(chunks), range(4)):
        total = total * 1.5 + products[:, :, k, :, c].transpose(0, 2, 1)
    return total.reshape(-1, 64)


def is_right(func: FuncOp, rows: int, columns: int, chunks: int, mode: str, order: str) -> bool:
    x, w, y = aligned(rows, columns), aligned(columns), np.zeros((-(-rows // 32), 64), np.float32)
    expected = folded(x, w, chunks)
    on_host(func, [x, w, y], async_mode=mode, order=order, seed=7)
    return bool(np.abs(y - expected).max() <= 1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("depth", "chunks", "swizzled"),
    [(2, 1, False), (2, 7, True), (3, 1, True), (3, 2, False), (3, 7, False), (4, 7, True)],
)
def test_ring(depth: int, chunks: int, swizzled: bool) -> None:
    rows, columns = 50, 8 * chunks - 4  # the last boxes hang over both edges
    func = ring(rows, columns, depth, chunks, swizzled=swizzled)
    assert not missing_barriers(func)
    assert not redundant_barriers(func)
    for mode, order in RUNS:
        assert is_right(func, rows, columns, chunks, mode, order), (mode, order)


@pytest.mark.parametrize("part", PARTS)
def test_nothing_can_be_left_out(part: str) -> None:
    func = ring(64, 64, 3, 8, without=part)
    assert bool(missing_barriers(func)) == (part == "meet")
    wrong = 0
    for mode, order in RUNS:
        try:
            wrong += not is_right(func, 64, 64, 8, mode, order)
        except LaunchError:
            wrong += 1
    assert wrong, "no run shows the fault"


def test_a_request_that_nobody_waits_for_is_an_error() -> None:
    """Its bytes would land in shared memory that belongs to another block by then."""
    text = """
    kernel.func @k(%x: memref<64xf32>) -> () grid 1 block 1 {
      %x_map = kernel.tensor_map %x box [64] : memref<64xf32>
      %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
      %full = kernel.alloc_mbarriers 1
      kernel.mbarrier_init %full[0], 1
      kernel.mbarrier_expect_tx %full[0], 256
      kernel.tma_load %x_map[0] -> %s[0], %full[0] : memref<64xf32, #kernel.shared>
    }"""
    with pytest.raises(LaunchError, match="tma_load requests that no mbarrier_wait completed"):
        on_host(func_of(text), [aligned(64)])


# The text.


def test_text() -> None:
    func = ring(50, 52, 3, 7)
    text = print_kernel(func)
    lines = [line.strip() for line in text[text.index("// grid") :].splitlines()]
    assert lines[2] == "ring("
    assert lines[3:5] == [
        "const __grid_constant__ tensor_map x_map,",
        "const __grid_constant__ tensor_map w_map,",
    ]
    assert parameter_types(func)[:3] == ["const __grid_constant__ tensor_map"] * 2 + [
        "const float*"
    ]
    assert "__shared__ alignas(128) float x_ring[768];  // [3][32][8]" in lines
    assert "__shared__ alignas(8) unsigned long long full[3];" in lines
    assert "mbarrier_wait(&full[k % 3], k / 3 % 2);" in lines
    request = lines.index("mbarrier_arrive_expect_tx(&full[0], 1056);")
    assert lines[request + 1] == "tma_load_2d(&x_ring[0], &x_map, &full[0], 0, b * 32);"
    assert lines[request + 2] == "tma_load_1d(&w_ring[0], &w_map, &full[0], 0);"


def test_nvcc_takes_it() -> None:
    try:
        find_nvcc()
    except BackendError as error:
        pytest.skip(str(error))
    for swizzled in (False, True):
        text = print_kernel(ring(50, 52, 3, 7, swizzled=swizzled))
        for arch in ("sm_90", "sm_120"):
            cubin = compile_cubin(text, arch, ("-Werror", "all-warnings", "-Wreorder"))
            assert cubin.spill_bytes == 0


def test_dynamic_shared_memory() -> None:
    """A ring beyond 48 KB, and a tensor of rank 3 whose dimension of extent 1 is dropped."""
    slab = "memref<2x64x128xf32, #kernel.shared>"
    func = func_of(
        f"""
    kernel.func @big(%x: memref<60x1x256xf32>) -> (%y: memref<2x64x128xf32>) grid 1 block 128 {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c64 = arith.constant 64 : index
      %t = kernel.thread_id
      %x_map = kernel.tensor_map %x box [64, 1, 128] : memref<60x1x256xf32>
      %s = kernel.alloc_shared : {slab}
      %full = kernel.alloc_mbarriers 1
      %first = kernel.test where (%t < 1)
      scf.if %first {{
        kernel.mbarrier_init %full[0], 1
        kernel.fence_mbarrier_init
        kernel.mbarrier_expect_tx %full[0], 65536
        scf.for %n = %c0 to %c2 step %c1 {{
          kernel.tma_load %x_map[2, 0, %n * 128] -> %s[%n, 0, 0], %full[0] : {slab}
        }}
      }}
      kernel.barrier
      kernel.mbarrier_wait %full[0], parity 0
      scf.for %n = %c0 to %c2 step %c1 {{
        scf.for %r = %c0 to %c64 step %c1 {{
          %v = kernel.load %s[%n, %r, %t] : {slab}
          kernel.store %v, %y[%n, %r, %t] : memref<2x64x128xf32>
        }}
      }}
    }}"""
    )
    assert dynamic_shared_bytes(func) == shared_bytes(func) == 64 * 1024 + 8
    text = print_kernel(func)
    assert "unsigned long long* full = reinterpret_cast<unsigned long long*>(smem + 65536);" in text
    assert "tma_load_2d(&s[n * 8192], &x_map, &full[0], n * 128, 2);" in text
    x, y = aligned(60, 1, 256), np.ones((2, 64, 128), np.float32)
    for mode, order in RUNS:
        on_host(func, [x, y], async_mode=mode, order=order)
        padded = np.zeros((64, 256), np.float32)
        padded[:58] = x[2:, 0]
        assert (y == padded.reshape(64, 2, 128).transpose(1, 0, 2)).all()


# The step.

SCHEDULE = (
    "tileify,chunk-matmul-k{{bk=8 vector={vector}}},blockify-launch{{block=32,32 thread=8,8}},"
    "stage-inputs{{budget=24576}},register-tile{{extents=4,4}},double-buffer{{depth={depth}}},"
    "tma-copy,{more}"
)


def scheduled(case: loop_cases.Case, depth: int = 3, vector: int = 4, more: str = "") -> ModuleOp:
    """The tile kernel of a case whose rings the tensor memory accelerator fills."""
    module = parse(case.text)
    schedule = SCHEDULE.format(depth=depth, vector=vector, more=more).rstrip(",")
    (loops,) = (op for op in module.walk() if isinstance(op, loop.KernelOp))
    loops.schedule = StringAttr(schedule)
    apply(module, ",".join(spec.name for spec in parse_schedule(schedule)))
    rings = [op for op in module.walk() if isinstance(op, tile.RingOp)]
    assert rings
    assert all(ring.fill_kind == "tma" for ring in rings)
    return module


PIPELINED = "pipeline-k-outer,mark-unroll{limit=16}"


@pytest.mark.parametrize(
    ("case", "depth", "vector", "more"),
    [
        (loop_cases.gemm(37, 52, 12), 4, 4, PIPELINED),  # two, the second ragged, and four slots
        (loop_cases.gemm(37, 52, 24), 2, 4, PIPELINED),
        (loop_cases.gemm(37, 52, 52), 2, 4, PIPELINED),  # seven
        (loop_cases.gemm(37, 52, 52), 3, 1, PIPELINED),
        (loop_cases.gemm(33, 4, 20), 3, 4, PIPELINED),
        (loop_cases.gemm(70, 52, 56), 4, 4, PIPELINED),
        (loop_cases.gemm(37, 52, 52), 3, 4, ""),  # requested and awaited in the same iteration
        (loop_cases.gemm(37, 51, 52, transposed=True), 3, 4, PIPELINED),
        (loop_cases.batched(3, 17, 36, 28), 3, 4, PIPELINED),
        (loop_cases.batched(1, 17, 36, 28), 2, 4, PIPELINED),  # a dimension of one element
    ],
    ids=lambda v: getattr(v, "name", str(v)[:8]),
)
def test_step(case: loop_cases.Case, depth: int, vector: int, more: str) -> None:
    module = scheduled(case, depth, vector, more)
    interpret(case, lowered(module), f"depth {depth}, {more}")


@pytest.mark.parametrize(
    ("case", "depth"),
    [
        (loop_cases.gemm(37, 52, 52), 2),
        (loop_cases.gemm(37, 52, 12), 4),
        (loop_cases.batched(3, 17, 36, 28), 3),
    ],
    ids=lambda v: getattr(v, "name", str(v)),
)
def test_step_on_the_host(case: loop_cases.Case, depth: int) -> None:
    func = materialized(scheduled(case, depth, 4, PIPELINED))
    for mode, order in RUNS:
        assert error(func, case, mode, order) <= 1e-6 * case.longest**0.5


def error(func: FuncOp, case: loop_cases.Case, mode: str, order: str) -> float:
    """The largest error of a kernel on the host against fp64, relative to the largest result."""
    (expected,) = case.expected(*(a.astype(np.float64) for a in case.inputs))
    y = np.full(expected.shape, np.nan, np.float32)
    on_host(func, [*case.inputs, y], async_mode=mode, order=order, seed=7)
    return float(np.abs(y - expected).max() / np.abs(expected).max())


def materialized(module: ModuleOp) -> FuncOp:
    (func,) = (op for op in lowered(module).walk() if isinstance(op, FuncOp))
    return func


def synchronizations(func: FuncOp) -> list[Operation]:
    """What keeps the order in a kernel, but for the fence, which the host has no use for."""
    kinds = (
        kernel.MbarrierWaitOp,
        kernel.MbarrierArriveOp,
        kernel.MbarrierInitOp,
        kernel.SyncWarpOp,
        kernel.BarrierOp,
    )
    return [op for op in func.walk() if isinstance(op, kinds)]


def test_nothing_is_released_where_no_slot_is_filled_again() -> None:
    func = materialized(scheduled(loop_cases.gemm(37, 52, 20), 3, 4, PIPELINED))
    mbarriers = [op for op in func.walk() if isinstance(op, kernel.AllocMbarriersOp)]
    assert [op.count.value.data for op in mbarriers] == [3]
    released = kernel.SyncWarpOp | kernel.MbarrierArriveOp
    assert not [op for op in synchronizations(func) if isinstance(op, released)]


def test_what_it_becomes() -> None:
    func = materialized(scheduled(loop_cases.gemm(37, 52, 52), 3, 4, PIPELINED))
    (barrier,) = (op for op in func.walk() if isinstance(op, kernel.BarrierOp))
    assert barrier.parent_op() is func, "no barrier of the block stands in the loop"
    assert len([op for op in func.walk() if isinstance(op, kernel.AllocMbarriersOp)]) == 2
    loads = [op for op in func.walk() if isinstance(op, kernel.TmaLoadOp)]
    assert len(loads) == 9, "three rings, two chunks ahead and one in the loop"
    expected = [op for op in func.walk() if isinstance(op, kernel.MbarrierExpectTxOp)]
    assert [op.bytes.value.data for op in expected] == [2 * 32 * 8 * 4 + 8 * 4] * 3


def test_no_synchronization_can_be_left_out() -> None:
    case = loop_cases.gemm(37, 52, 64)
    whole = materialized(scheduled(case, 3, 4, PIPELINED))
    run_kernel(whole, case.inputs)
    for number in range(len(synchronizations(whole))):
        func = whole.clone()
        left_out = synchronizations(func)[number]
        Rewriter.erase_op(left_out)
        with pytest.raises(Hazard):
            run_kernel(func, case.inputs)


def test_swizzled_step() -> None:
    case = loop_cases.gemm(37, 52, 52, transposed=True)
    module = scheduled(case, 3, 4, f"split-inner-for-swizzle,{PIPELINED}")
    assert "#kernel.swizzle<32>" in str(module)
    func = materialized(module)
    for mode, order in RUNS:
        assert error(func, case, mode, order) <= 1e-6 * case.longest**0.5


def test_swizzled_panels() -> None:
    """The example of lower-tma.mlir: rows of two panels, and of fewer than there are."""
    text = Path(__file__).parent.parent / "filecheck/transforms/lower-tma.mlir"
    func = materialized(parse(text.read_text()))
    x, b, y = aligned(60, 64), aligned(60), np.zeros(64, np.float32)
    for mode, order in RUNS:
        on_host(func, [x, b, y], async_mode=mode, order=order)
        assert np.allclose(y, x.astype(np.float64).T @ b, atol=1e-4)


def test_nvcc_takes_what_the_step_makes() -> None:
    try:
        find_nvcc()
    except BackendError as error:
        pytest.skip(str(error))
    text = print_kernel(materialized(scheduled(loop_cases.gemm(37, 52, 52), 3, 4, PIPELINED)))
    for arch in ("sm_90", "sm_120"):
        cubin = compile_cubin(text, arch, ("-Werror", "all-warnings", "-Wreorder"))
        assert cubin.spill_bytes == 0


def test_a_loop_that_skips_chunks() -> None:
    """Chunks that a block skips are not requested: their bytes would come after its end."""
    text = """
    %y = tile.kernel @k(%x: memref<40xf32> = %x) -> (%y: memref<4x32xf32>) {
      tile.launch block(%s in 4) thread(%t in 32) {
        %r = tile.ring tma %x(%n in 3)[%s * 24 + %n * 8] [8] : memref<40xf32>
            -> memref<2x8xf32, strided<[32, 1]>, #tile.shared>
        tile.fill %r[0]
        %sum = tile.reduce add serial(%k in 3) -> f32 {
          %b = tile.acquire %r[%k] : memref<2x8xf32, strided<[32, 1]>, #tile.shared>
              -> memref<8xf32, strided<[1]>, #tile.shared>
          tile.fill %r[%k + 1]
          %p = tile.reduce add serial(%c in 8) -> f32 {
            %v = tile.load %b[%c] : memref<8xf32, strided<[1]>, #tile.shared>
            tile.yield %v : f32
          }
          tile.release %r[%k]
          tile.yield %p where (%s * 3 + %k < 5) : f32
        }
        tile.store %sum, %y[%s, %t] : memref<4x32xf32>
      }
    }"""
    func = materialized(
        parse(
            "func.func @main(%x: tensor<40xf32>) -> tensor<4x32xf32> {"
            f"{text} func.return %y : tensor<4x32xf32> }}"
        )
    )
    x, y = aligned(40), np.full((4, 32), np.nan, np.float32)
    for mode, order in RUNS:
        on_host(func, [x, y], async_mode=mode, order=order)
        sums = np.array([x[:24].sum(), x[24:].sum(), 0, 0])
        assert np.allclose(y, sums[:, None], atol=1e-5)


# Tensor maps.


def map_of(type: str, box: str, swizzle: str = "", align: str = "") -> TensorMap:
    text = f"""kernel.func @k(%x: {type}{align}) -> () grid 1 block 1 {{
      %m = kernel.tensor_map %x box {box}{swizzle} : {type}
    }}"""
    (op,) = func_of(text).tensor_maps
    return tensor_map(op)


def test_what_a_map_says() -> None:
    map = map_of("memref<7x1x100x64xf32, strided<[12800, 4, 128, 1]>>", "[2, 1, 8, 32]")
    assert map.extents == (64, 100, 7)
    assert map.strides == (4, 512, 51200)
    assert map.box == (32, 8, 2)
    assert (map.element_bytes, map.swizzle_bytes, map.offset) == (4, 0, 0)
    map = map_of("memref<1x64xf16, strided<[64, 1], offset: 8>>", "[8, 32]", " swizzle 64")
    assert (map.extents, map.box) == ((64, 1), (32, 8))  # a box of 8 rows over one row
    assert (map.swizzle_bytes, map.offset) == (64, 16)
    assert map_of("memref<1x1xi8>", "[1, 16]").extents == (1,)


@pytest.mark.parametrize(
    ("type", "box", "alignment", "message"),
    [
        ("memref<100x64xf32>", (32, 16), 16, None),
        ("memref<1x64xf32, strided<[3, 1]>>", (1, 16), 16, None),  # there is nothing to step over
        ("memref<64x1xf32, strided<[1, 7]>>", (16, 1), 16, None),
        ("memref<f32>", (), 16, "expected at least one dimension"),
        ("memref<100x64xf32>", (32, 16), 4, "expected an address that is a multiple of 16 bytes"),
        ("memref<9x64xf32, strided<[64, 1], offset: 2>>", (8, 16), 16, "an address"),
        ("memref<100x62xf32>", (32, 16), 16, "a multiple of 16 bytes below 2^40, found 248 bytes"),
        ("memref<9x64xf32, strided<[0, 1]>>", (8, 16), 16, "found 0 bytes"),
        ("memref<64x100xf32, strided<[1, 64]>>", (16, 32), 16, "an innermost stride of 1"),
        ("memref<0x64xf32>", (32, 16), 16, "no extent of 0"),
        ("memref<100x64xf32>", (257, 16), 16, "box sizes of 1 to 256, found [257, 16]"),
        ("memref<100x64xf32>", (32, 3), 16, "a multiple of 16 bytes, found 12"),
        ("memref<2x2x2x2x2x64xf32>", (2, 2, 2, 2, 2, 16), 16, "at most 5 dimensions"),
        ("memref<2x3000000000xi8>", (2, 16), 16, "extents below 2^31"),
        ("memref<64xf80>", (16,), 16, "expected elements of one of the types f64, f32"),
    ],
)
def test_obstacles(type: str, box: tuple[int, ...], alignment: int, message: str | None) -> None:
    found = tma_obstacle(Parser(register(Context()), type).parse_type(), box, alignment)  # pyright: ignore[reportArgumentType]
    assert found is None if message is None else found is not None and message in found


def test_no_map_of_what_is_misaligned() -> None:
    text = """kernel.func @k(%x: memref<64xf32> align 4) -> () grid 1 block 1 {
      %m = kernel.tensor_map %x box [16] : memref<64xf32>
    }"""
    with pytest.raises(DiagnosticException, match="no tensor map can be made of %x: expected an"):
        print_kernel(func_of(text))


ENCODE = """
typedef struct {
  u64 address, dims[5], strides[5];
  unsigned type, rank, box[5], steps[5], modes[4];
} call;
call last;
result cuTensorMapEncodeTiled(
    void *map, int type, unsigned rank, void *address, const u64 *dims, const u64 *strides,
    const unsigned *box, const unsigned *steps, int interleave, int swizzle, int promotion,
    int fill) {
  if (rank > 5 || strides == NULL) return 1;
  memset(&last, 0, sizeof last);
  last.address = (u64)address;
  last.type = type, last.rank = rank;
  for (unsigned d = 0; d < rank; ++d) {
    last.dims[d] = dims[d];
    if (d + 1 < rank) last.strides[d] = strides[d];
    last.box[d] = box[d], last.steps[d] = steps[d];
  }
  last.modes[0] = interleave, last.modes[1] = swizzle, last.modes[2] = promotion;
  last.modes[3] = fill;
  for (int i = 0; i < 128; ++i) ((unsigned char *)map)[i] = i;
  return dims[0] == 13 ? 700 : 0;
}
"""
ENCODE_ALL = """
import ctypes, json, struct
from test_tma import MAPS, map_of
from dlc.backend import BackendError
from dlc.backend.cuda.run.bindings import load_bindings
from dlc.backend.cuda.run.tensor_map import encode_tensor_map
cuda = load_bindings()
library = ctypes.CDLL("libcuda.so.1")
found = []
for arguments in MAPS:
    try:
        bytes = list(encode_tensor_map(cuda, map_of(*arguments), 4096))
        last = (ctypes.c_char * 160).in_dll(library, "last").raw
        found.append([bytes, struct.unpack("Q5Q5Q2I5I5I4I", last[:152])])
    except BackendError as error:
        found.append(str(error))
print(json.dumps(found))
"""
MAPS = (
    ("memref<7x100x64xf32, strided<[12800, 128, 1], offset: 4>>", "[2, 8, 32]"),
    ("memref<64x32xbf16>", "[8, 32]", " swizzle 64"),
    ("memref<13xi32>", "[4]"),
)


@needs_bindings
def test_the_driver_gets_what_a_map_says(tmp_path: Path) -> None:
    """A library with the signature of cuda.h, which notes its arguments."""
    float32, bfloat16, refused = run_with_driver(ENCODE, ENCODE_ALL, tmp_path)
    bytes, (address, *fields) = float32
    assert bytes == list(range(128))
    assert address == 4096 + 16
    assert fields[:10] == [64, 100, 7, 0, 0, 512, 51200, 0, 0, 0]
    assert fields[10:12] == [7, 3]  # float32, rank
    assert fields[12:22] == [32, 8, 2, 0, 0, 1, 1, 1, 0, 0]
    assert fields[22:] == [0, 0, 2, 0]
    _, fields = bfloat16
    assert fields[11] == 9
    assert fields[-4:] == [0, 2, 2, 0]
    assert re.search(r"refuses a tensor map \(error 700\) with extents \(13,", refused)


@needs_bindings
def test_a_driver_may_be_older_than_tensor_maps(tmp_path: Path) -> None:
    said = run_with_driver("", ENCODE_ALL, tmp_path)
    assert all(re.search(r"has no cuTensorMapEncodeTiled \(.* not found\)", s) for s in said)

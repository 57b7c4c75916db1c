"""The tensor memory accelerator: hand-written kernels, tensor maps, and the step tma-copy."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i8, i64
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException

from dlc.analysis.barriers import missing_barriers, redundant_barriers
from dlc.analysis.tensor_maps import TensorMap, tensor_map, tma_obstacle
from dlc.backend import BackendError, LaunchError
from dlc.backend.cuda.interface import (
    c_name,
    dynamic_shared_bytes,
    parameter_types,
    shared_bytes,
)
from dlc.backend.cuda.nvcc import compile_cubin, find_nvcc
from dlc.backend.cuda.printer import print_kernel
from dlc.backend.cuda.tensor_map import TensorMaps
from dlc.backend.host.launcher import tensor_map_arguments
from dlc.backend.host.runtime import HostKernel
from dlc.dialects.kernel import FuncOp
from dlc.registry import register

RUNS = list(itertools.product(("late", "early"), ("forward", "reverse", "random")))
"""When copies land, and which thread goes first."""


@pytest.fixture(scope="module", autouse=True)
def cache_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DLC_CACHE_DIR", str(path))
        yield path


def parse(text: str) -> ModuleOp:
    module = Parser(register(Context()), text).parse_module()
    module.verify()
    return module


def func_of(text: str) -> FuncOp:
    return next(op for op in parse(text).walk() if isinstance(op, FuncOp))


def on_host(func: FuncOp, arrays: Sequence[np.ndarray], **options: object) -> None:
    """Runs a kernel on the host backend; as the launcher does, without torch."""
    host = HostKernel(print_kernel(func), c_name(func), parameter_types(func))
    addresses = [array.ctypes.data for array in arrays]
    arguments = [*tensor_map_arguments(func, addresses), *addresses]
    bytes = dynamic_shared_bytes(func)
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
    "together": "kernel.sync_warp",
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


@pytest.mark.parametrize("swizzled", [False, True])
@pytest.mark.parametrize("depth", [2, 3, 4])
def test_ring(depth: int, swizzled: bool) -> None:
    for chunks in (1, 2, 3, 7):
        rows, columns = 50, 8 * chunks - 4  # the last boxes hang over both edges
        func = ring(rows, columns, depth, chunks, swizzled=swizzled)
        assert not missing_barriers(func)
        for mode, order in RUNS:
            assert is_right(func, rows, columns, chunks, mode, order), (chunks, mode, order)


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("part", PARTS)
def test_nothing_can_be_left_out(part: str, depth: int) -> None:
    func = ring(64, 64, depth, 8, without=part)
    assert bool(missing_barriers(func)) == (part == "meet")
    wrong: list[tuple[str, str]] = []
    for mode, order in RUNS:
        try:
            if not is_right(func, 64, 64, 8, mode, order):
                wrong.append((mode, order))
        except LaunchError:
            wrong.append((mode, order))
    assert wrong, "no run shows the fault"

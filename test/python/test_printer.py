"""The CUDA printer: its text, that nvcc takes it without warnings, and that it computes."""

import ctypes
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from harness import apply
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException

import dlc
from dlc.analysis.kernel.barriers import missing_barriers
from dlc.backend import BackendError
from dlc.backend.cuda.print.c_text import constant, kernel_name
from dlc.backend.cuda.print.printer import (
    c_name,
    dynamic_shared_bytes,
    parameter_types,
    print_kernel,
    print_module,
    shared_bytes,
)
from dlc.backend.cuda.run.nvcc import compile_cubin, find_nvcc
from dlc.backend.host.host_kernel import HostKernel
from dlc.diagnostics import OpError
from dlc.dialects.kernel import FuncOp, LoadOp
from dlc.registry import register
from dlc.transforms.kernel.place_barriers import PlaceBarriersPass
from dlc.transforms.kernel.vectorize_accesses import VectorizeAccessesPass

WARNINGS = ("-Werror", "all-warnings", "-Wreorder")


def parse(text: str) -> ModuleOp:
    module = Parser(register(Context()), text).parse_module()
    module.verify()
    return module


def kernel_of(module: ModuleOp) -> FuncOp:
    return next(op for op in module.walk() if isinstance(op, FuncOp))


def printed(body: str, head: str = "", *, grid: int = 4, block: int = 32, after: str = "") -> str:
    """The lines of a kernel's body in C, after a pass if one is named."""
    head = head or "(%x: memref<64x128xf32>, %n: memref<64xi64>) -> (%y: memref<64x128xf32>)"
    text = f"kernel.func @k{head} grid {grid} block {block} {{\n{body}\n}}"
    module = parse(text)
    apply(module, after)
    source = print_kernel(kernel_of(module))
    text = source[source.index("// grid") :]
    return "\n".join(line.strip() for line in text.splitlines()[3:-1])


def on_host(func: FuncOp, arrays: Sequence[np.ndarray], **options: object) -> None:
    """Runs a kernel on the host backend."""
    host = HostKernel(print_kernel(func), c_name(func), parameter_types(func))
    addresses = [a.ctypes.data_as(ctypes.c_void_p).value or 0 for a in arrays]
    host.launch(addresses, func.grid_size, func.block_size, dynamic_shared_bytes(func), **options)  # pyright: ignore[reportArgumentType]


def aligned(shape: Sequence[int], dtype: type = np.float32) -> np.ndarray:
    """Zeros at an address that is a multiple of 16."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 16, np.uint8)
    start = -raw.ctypes.data % 16
    return raw[start : start + size].view(dtype).reshape(shape)


def nvcc_takes(source: str, *arches: str) -> list[int]:
    """Compiles without warnings for each architecture; returns the bytes spilled or on stack."""
    try:
        find_nvcc()
    except BackendError as error:
        pytest.skip(str(error))
    cubins = [compile_cubin(source, arch, WARNINGS) for arch in arches]
    assert not any(cubin.serialized for cubin in cubins)
    return [c.spill_bytes + c.stack for c in cubins]


GEMM = """
kernel.func @mm_relu(%A: memref<200x96xf32>, %B: memref<96x256xf32>) -> (%C: memref<200x256xf32>)
    grid 4 block 256 lockstep schedule "tileify,chunk-matmul-k{bk=16}" {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c6 = arith.constant 6 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %bid = kernel.block_id
  %tid = kernel.thread_id
  %bi = kernel.index %bid floordiv 2
  %bj = kernel.index %bid mod 2
  %ti = kernel.index %tid floordiv 16
  %tj = kernel.index %tid mod 16
  %As = kernel.alloc_shared : memref<128x16xf32, #kernel.shared>
  %Bs = kernel.alloc_shared : memref<16x128xf32, #kernel.shared>
  %acc = kernel.alloc_local : memref<8x8xf32, #kernel.local>
  scf.for %i = %c0 to %c8 step %c1 {
    scf.for %j = %c0 to %c8 step %c1 {
      kernel.store %zero, %acc[%i, %j] : memref<8x8xf32, #kernel.local>
    } {unroll}
  } {unroll}
  scf.for %ko = %c0 to %c6 step %c1 {
    scf.for %r = %c0 to %c2 step %c1 {
      %run = kernel.alloc_local : memref<4xf32, #kernel.local>
      scf.for %v = %c0 to %c4 step %c1 {
        %a = kernel.load %A[%bi * 128 + %r * 64 + %tid floordiv 4, %ko * 16 + %tid mod 4 * 4 + %v]
          where (%bi * 128 + %r * 64 + %tid floordiv 4 < 200) : memref<200x96xf32>
        kernel.store %a, %run[%v] : memref<4xf32, #kernel.local>
      } {unroll}
      scf.for %v = %c0 to %c4 step %c1 {
        %a = kernel.load %run[%v] : memref<4xf32, #kernel.local>
        kernel.store %a, %As[%r * 64 + %tid floordiv 4, %tid mod 4 * 4 + %v]
          : memref<128x16xf32, #kernel.shared>
      } {unroll}
    } {unroll}
    scf.for %r = %c0 to %c2 step %c1 {
      scf.for %v = %c0 to %c4 step %c1 {
        %b = kernel.load %B[%ko * 16 + %r * 8 + %tid floordiv 32,
          %bj * 128 + %tid mod 32 * 4 + %v] : memref<96x256xf32>
        kernel.store %b, %Bs[%r * 8 + %tid floordiv 32, %tid mod 32 * 4 + %v]
          : memref<16x128xf32, #kernel.shared>
      } {unroll}
    } {unroll}
    scf.for %k = %c0 to %c16 step %c1 {
      %b_regs = kernel.alloc_local : memref<8xf32, #kernel.local>
      scf.for %j = %c0 to %c8 step %c1 {
        %b = kernel.load %Bs[%k, %j floordiv 4 * 64 + %tj * 4 + %j mod 4]
          : memref<16x128xf32, #kernel.shared>
        kernel.store %b, %b_regs[%j] : memref<8xf32, #kernel.local>
      } {unroll}
      scf.for %i = %c0 to %c8 step %c1 {
        %a = kernel.load %As[%i * 16 + %ti, %k] : memref<128x16xf32, #kernel.shared>
        scf.for %j = %c0 to %c8 step %c1 {
          %b = kernel.load %b_regs[%j] : memref<8xf32, #kernel.local>
          %p = arith.mulf %a, %b : f32
          %old = kernel.load %acc[%i, %j] : memref<8x8xf32, #kernel.local>
          %new = arith.addf %old, %p : f32
          kernel.store %new, %acc[%i, %j] : memref<8x8xf32, #kernel.local>
        } {unroll}
      } {unroll}
    } {unroll}
  }
  scf.for %i = %c0 to %c8 step %c1 {
    scf.for %j = %c0 to %c8 step %c1 {
      %sum = kernel.load %acc[%i, %j] : memref<8x8xf32, #kernel.local>
      %c = arith.maximumf %sum, %zero : f32
      kernel.store %c, %acc[%i, %j] : memref<8x8xf32, #kernel.local>
    } {unroll}
    scf.for %j = %c0 to %c8 step %c1 {
      %c = kernel.load %acc[%i, %j] : memref<8x8xf32, #kernel.local>
      kernel.store %c, %C[%bi * 128 + %i * 16 + %ti,
        %bj * 128 + %j floordiv 4 * 64 + %tj * 4 + %j mod 4]
        where (%bi * 128 + %i * 16 + %ti < 200) : memref<200x256xf32>
    } {unroll}
  } {unroll}
}
"""


def gemm() -> FuncOp:
    module = parse(GEMM)
    PlaceBarriersPass().apply(Context(), module)
    VectorizeAccessesPass().apply(Context(), module)
    module.verify()
    return kernel_of(module)


def test_gemm_reads_well() -> None:
    text = print_kernel(gemm())
    assert "// grid 4, block 256; schedule: tileify,chunk-matmul-k{bk=16}\n" in text
    assert 'extern "C" __global__ void __launch_bounds__(256)\nmm_relu(const float* __re' in text
    assert "__shared__ alignas(16) float As[2048];  // [128][16]" in text
    assert "acc[i][j] += a * b_regs[j];" in text
    assert "acc[i][j] = max_nan(acc[i][j], 0.0f);" in text
    assert text.count("__syncthreads();") == 2
    assert text.count("load4(") >= 5
    assert "shuffle" not in text
    assert all(len(line) <= 100 for line in text.splitlines())
    assert not missing_barriers(gemm())


def test_a_scheduled_gemm_reads_like_one_written_by_hand() -> None:
    """128 x 2048 @ 2048 x 5632 on sm_90, partial sums included: short, with names of its parts."""
    operands = torch.randn(128, 2048), torch.randn(2048, 5632)
    program = dlc.compile(lambda x, w: x @ w, operands, "sm_90")
    text = "".join(k.source[k.source.index("// grid") :] for k in program.kernels)
    assert text.count("\n") < 150
    for line in (
        "float* x_ring = reinterpret_cast<float*>(smem);  // [3][128][16]",
        "float* w_ring = reinterpret_cast<float*>(smem + 24576);  // [3][16][256]",
        "cp_async_commit();",
        "cp_async_wait<1>();",
        "const int slot = ko % 3;",
        "const int slot_1 = slot < 1 ? slot + 2 : slot - 1;",
        "if (ko < 20 && ks * 22 + ko < 126) {",
        "matmul[ri][rjo][rji] = fmaf(x_1[ri][kv], w_1[kv][rjo][rji], matmul[ri][rjo][rji]);",
    ):
        assert line in text, line
    assert text.count("__syncthreads();") == 1


def test_gemm_computes() -> None:
    rng = np.random.default_rng(0)
    a, b, c = aligned((200, 96)), aligned((96, 256)), aligned((200, 256))
    a[:], b[:] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
    on_host(gemm(), [a, b, c])
    wanted = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
    assert np.abs(c - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_gemm_on_gpus() -> None:
    assert nvcc_takes(print_kernel(gemm()), "sm_80", "sm_90", "sm_120") == [0, 0, 0]


OPERATIONS = """
kernel.func @exp(%x: memref<64xf32>, %d: memref<64xf64>, %n: memref<64xi64>, %m: memref<64xi32>,
    %b: memref<64xi8>, %p: memref<64xi1>, %s: memref<f32>) -> (%y: memref<32x64xf32>,
    %yd: memref<8x64xf64>, %yn: memref<16x64xi64>, %yb: memref<16x64xi1>, %ym: memref<8x64xi32>,
    %y8: memref<2x64xi8>) grid 2 block 32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %two = arith.constant 2.0 : f32
  %third = arith.constant 0.333333343 : f32
  %inf = arith.constant 0x7F800000 : f32
  %two64 = arith.constant 2.0 : f64
  %n3 = arith.constant 3 : i64
  %m1 = arith.constant 1 : i32
  %m3 = arith.constant 3 : i32
  %b1 = arith.constant 100 : i8
  %true = arith.constant true
  %bid = kernel.block_id
  %tid = kernel.thread_id
  %i = kernel.index %bid * 32 + %tid
  %f = kernel.load %x[%i] : memref<64xf32>
  %fd = kernel.load %d[%i] : memref<64xf64>
  %fn = kernel.load %n[%i] : memref<64xi64>
  %fm = kernel.load %m[%i] : memref<64xi32>
  %fb = kernel.load %b[%i] : memref<64xi8>
  %fp = kernel.load %p[%i] : memref<64xi1>
  %fs = kernel.load %s[] : memref<f32>
  OPS
}
"""
# Which output, the operations that define %r, and what NumPy gives for the inputs.
CASES = [
    ("y", "%r = math.exp %f : f32", lambda i: np.exp(i.x)),
    ("y", "%q = arith.addf %f, %fs : f32\n%r = arith.mulf %q, %q : f32",
     lambda i: (i.x + i.s) ** 2),
    ("y", "%q = arith.subf %f, %two : f32\n%r = arith.subf %third, %q : f32",
     lambda i: np.float32(1 / 3) - (i.x - 2)),
    ("y", "%q = arith.divf %f, %two : f32\n%r = arith.divf %third, %q : f32",
     lambda i: np.float32(1 / 3) / (i.x / 2)),
    ("y", "%q = arith.negf %f : f32\n%r = arith.negf %q : f32", lambda i: i.x),
    ("y", "%r = arith.maximumf %f, %two : f32", lambda i: np.maximum(i.x, 2)),
    ("y", "%r = arith.minimumf %f, %inf : f32", lambda i: np.minimum(i.x, np.inf)),
    ("y", "%r = arith.maxnumf %f, %two : f32", lambda i: np.fmax(i.x, 2)),
    ("y", "%q = arith.cmpf uno, %f, %f : f32\n%r = arith.select %q, %two, %f : f32",
     lambda i: np.where(np.isnan(i.x), 2, i.x)),
    ("y", "%r = math.rsqrt %f : f32", lambda i: 1 / np.sqrt(i.x)),
    ("y", "%r = math.roundeven %f : f32", lambda i: np.round(i.x)),
    ("y", "%r = math.powf %f, %two : f32", lambda i: i.x**2),
    ("y", "%r = math.fma %f, %two, %fs : f32", lambda i: i.x * 2 + i.s),
    ("y", "%r = math.copysign %two, %f : f32", lambda i: np.copysign(2, i.x)),
    ("y", "%r = arith.sitofp %fn : i64 to f32", lambda i: i.n),
    ("y", "%r = arith.uitofp %fp : i1 to f32", lambda i: i.p),
    ("y", "%r = arith.truncf %fd : f64 to f32", lambda i: i.d),
    ("y", "%r = arith.uitofp %fb : i8 to f32", lambda i: i.b.astype(np.uint8)),
    ("y", "%r = kernel.select %f where (%i < 7) else %fs : f32",
     lambda i: np.where(np.arange(64) < 7, i.x, i.s)),
    ("y", "%r = kernel.load %x[%i - 3] where (%i - 3 >= 0) else %fs : memref<64xf32>",
     lambda i: np.concatenate([np.full(3, i.s), i.x[:-3]])),
    ("y", "%q = arith.remsi %fn, %n3 : i64\n%j = arith.index_cast %q : i64 to index\n"
     "%r = kernel.load %x[%j + 5] : memref<64xf32>", lambda i: i.x[np.fmod(i.n, 3) + 5]),
    ("y", "%r = scf.for %k = %c0 to %c5 step %c1 iter_args(%a = %f) -> (f32) {\n"
     "%q = arith.addf %a, %two : f32\nscf.yield %q : f32 }", lambda i: i.x + 10),
    ("y", "%r, %z = scf.for %k = %c0 to %c5 step %c1 iter_args(%a = %f, %e = %fs) -> (f32, f32) {\n"
     "scf.yield %e, %a : f32, f32 }", lambda i: np.full(64, i.s)),
    ("y", "%q = kernel.test where (%i < 9)\n%r = scf.if %q -> (f32) { scf.yield %f : f32 } else {\n"
     "%t = arith.mulf %f, %two : f32\nscf.yield %t : f32 }",
     lambda i: np.where(np.arange(64) < 9, i.x, 2 * i.x)),
    ("yd", "%r = math.sqrt %fd : f64", lambda i: np.sqrt(i.d)),
    ("yd", "%r = arith.maximumf %fd, %two64 : f64", lambda i: np.maximum(i.d, 2)),
    ("yd", "%r = arith.extf %f : f32 to f64", lambda i: i.x.astype(np.float64)),
    ("yn", "%r = arith.floordivsi %fn, %n3 : i64", lambda i: i.n // 3),
    ("yn", "%q = arith.addi %fn, %n3 : i64\n%r = arith.muli %q, %n3 : i64",
     lambda i: (i.n + 3) * 3),
    ("yn", "%r = arith.maxsi %fn, %n3 : i64", lambda i: np.maximum(i.n, 3)),
    ("yn", "%q = arith.index_cast %i : index to i64\n%r = arith.shli %n3, %q : i64",
     lambda i: 3 << np.arange(64, dtype=np.int64)),
    ("yn", "%r = arith.extsi %fm : i32 to i64", lambda i: i.m),
    ("yn", "%r = arith.extsi %fp : i1 to i64", lambda i: -i.p.astype(np.int64)),
    ("yn", "%r = arith.extui %fm : i32 to i64", lambda i: i.m.astype(np.uint32)),
    ("yn", "%r = arith.fptosi %fd : f64 to i64", lambda i: np.nan_to_num(i.d).astype(np.int64)),
    ("yb", "%r = arith.cmpf ult, %f, %two : f32", lambda i: ~(i.x >= 2)),
    ("yb", "%r = arith.cmpf one, %f, %two : f32", lambda i: (i.x < 2) | (i.x > 2)),
    ("yb", "%r = arith.cmpf une, %f, %two : f32", lambda i: i.x != 2),
    ("yb", "%r = arith.cmpf ord, %f, %fs : f32", lambda i: ~np.isnan(i.x)),
    ("yb", "%r = arith.cmpi ult, %fm, %m3 : i32", lambda i: i.m.astype(np.uint32) < 3),
    ("yb", "%q = arith.cmpi slt, %fm, %m3 : i32\n%t = arith.ori %q, %fp : i1\n"
     "%r = arith.andi %t, %fp : i1", lambda i: ((i.m < 3) | i.p) & i.p),
    ("yb", "%r = arith.xori %fp, %true : i1", lambda i: ~i.p),
    ("yb", "%r = arith.trunci %fm : i32 to i1", lambda i: i.m % 2 == 1),
    ("ym", "%q = arith.xori %fm, %m3 : i32\n%r = arith.shrsi %q, %m1 : i32",
     lambda i: (i.m ^ 3) >> 1),
    ("ym", "%q = arith.shrui %fm, %m1 : i32\n%r = arith.subi %m3, %q : i32",
     lambda i: 3 - (i.m.astype(np.uint32) >> 1).astype(np.int32)),
    ("ym", "%r = math.absi %fm : i32", lambda i: np.abs(i.m)),
    ("ym", "%r = arith.maxui %fm, %m3 : i32",
     lambda i: np.maximum(i.m.astype(np.uint32), 3).astype(np.int32)),
    ("ym", "%q = arith.divsi %fm, %m3 : i32\n%t = arith.remsi %fm, %m3 : i32\n"
     "%r = arith.subi %q, %t : i32", lambda i: np.trunc(i.m / 3).astype(int) - np.fmod(i.m, 3)),
    ("y8", "%r = arith.addi %fb, %b1 : i8", lambda i: i.b + np.int8(100)),
]  # fmt: skip


class Inputs:
    """The inputs of `OPERATIONS`."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.x, self.d = aligned((64,)), aligned((64,), np.float64)
        self.n, self.m = aligned((64,), np.int64), aligned((64,), np.int32)
        self.b, self.p = aligned((64,), np.int8), aligned((64,), np.bool_)
        self.s = aligned((1,))
        self.x[:], self.d[:] = rng.standard_normal(64) * 3, np.abs(rng.standard_normal(64)) * 3
        self.x[:3], self.x[8:12] = [np.nan, np.inf, -np.inf], [2, -0.0, 0.5, 2.5]
        self.n[:], self.m[:] = rng.integers(-99, 99, 64), rng.integers(-99, 99, 64)
        self.b[:], self.p[:] = rng.integers(-128, 128, 64), rng.integers(0, 2, 64)
        self.s[:] = 0.75

    @property
    def arrays(self) -> list[np.ndarray]:
        return [self.x, self.d, self.n, self.m, self.b, self.p, self.s]


def operations() -> FuncOp:
    """One kernel with all cases; each stores to a row of its own."""
    rows: dict[str, int] = {}
    types = {"y": "32x64xf32", "yd": "8x64xf64", "yn": "16x64xi64"}
    types |= {"yb": "16x64xi1", "ym": "8x64xi32", "y8": "2x64xi8"}
    lines: list[str] = []
    for number, (output, text, _) in enumerate(CASES):
        row = rows[output] = rows.get(output, -1) + 1
        for local in ("r", "q", "t", "j", "z", "k", "a", "e"):
            text = text.replace(f"%{local} ", f"%{local}{number} ")
            text = text.replace(f"%{local},", f"%{local}{number},")
            text = text.replace(f"%{local}\n", f"%{local}{number}\n")
        lines.append(text)
        lines.append(f"kernel.store %r{number}, %{output}[{row}, %i] : memref<{types[output]}>")
    return kernel_of(parse(OPERATIONS.replace("OPS", "\n  ".join(lines))))


def test_every_scalar_operation_computes() -> None:
    inputs = Inputs()
    shapes = {"y": ((32, 64), np.float32), "yd": ((8, 64), np.float64)}
    shapes |= {"yn": ((16, 64), np.int64), "yb": ((16, 64), np.bool_)}
    shapes |= {"ym": ((8, 64), np.int32), "y8": ((2, 64), np.int8)}
    outputs = {name: aligned(*shape) for name, shape in shapes.items()}
    on_host(operations(), [*inputs.arrays, *outputs.values()])
    rows: dict[str, int] = {}
    for output, text, reference in CASES:
        row = rows[output] = rows.get(output, -1) + 1
        with np.errstate(all="ignore"):
            wanted = np.asarray(reference(inputs)).astype(outputs[output].dtype)
        np.testing.assert_allclose(
            outputs[output][row], np.broadcast_to(wanted, 64), rtol=1e-6, err_msg=text
        )


def test_every_scalar_operation_on_gpus() -> None:
    assert nvcc_takes(print_kernel(operations()), "sm_80", "sm_90", "sm_120") == [0, 0, 0]


REDUCTION = """
kernel.func @sum_rows(%x: memref<6x1000xf32, strided<[1024, 1], offset: 3>>)
    -> (%y: memref<6xf32>, %total: memref<f32>) grid 6 block 256 {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %row = kernel.block_id
  %t = kernel.thread_id
  %parts = kernel.alloc_shared : memref<8xf32, #kernel.shared>
  %acc = kernel.alloc_local : memref<f32, #kernel.local>
  kernel.store %zero, %acc[] : memref<f32, #kernel.local>
  scf.for %o = %c0 to %c4 step %c1 {
    %v = kernel.load %x[%row, %o * 256 + %t] where (%o * 256 + %t < 1000)
      : memref<6x1000xf32, strided<[1024, 1], offset: 3>>
    %old = kernel.load %acc[] : memref<f32, #kernel.local>
    %new = arith.addf %old, %v : f32
    kernel.store %new, %acc[] : memref<f32, #kernel.local>
  } {unroll}
  %part = kernel.load %acc[] : memref<f32, #kernel.local>
  %o16 = kernel.shuffle xor %part, 16 width 32 : f32
  %s16 = arith.addf %part, %o16 : f32
  %o8 = kernel.shuffle xor %s16, 8 width 32 : f32
  %s8 = arith.addf %s16, %o8 : f32
  %o4 = kernel.shuffle xor %s8, 4 width 32 : f32
  %s4 = arith.addf %s8, %o4 : f32
  %o2 = kernel.shuffle xor %s4, 2 width 32 : f32
  %s2 = arith.addf %s4, %o2 : f32
  %o1 = kernel.shuffle xor %s2, 1 width 32 : f32
  %s1 = arith.addf %s2, %o1 : f32
  kernel.store %s1, %parts[%t floordiv 32] where (%t mod 32 == 0) : memref<8xf32, #kernel.shared>
  kernel.barrier
  %sum = kernel.alloc_local : memref<f32, #kernel.local>
  kernel.store %zero, %sum[] : memref<f32, #kernel.local>
  scf.for %w = %c0 to %c8 step %c1 {
    %p = kernel.load %parts[%w] : memref<8xf32, #kernel.shared>
    %old = kernel.load %sum[] : memref<f32, #kernel.local>
    %new = arith.addf %old, %p : f32
    kernel.store %new, %sum[] : memref<f32, #kernel.local>
  } {unroll}
  %result = kernel.load %sum[] : memref<f32, #kernel.local>
  kernel.store %result, %y[%row] where (%t == 0) : memref<6xf32>
  kernel.atomic_add %result, %total[] where (%t == 0) : memref<f32>
}
"""


@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
def test_reduction_computes(order: str) -> None:
    func = kernel_of(parse(REDUCTION))
    x = np.random.default_rng(2).standard_normal(3 + 6 * 1024).astype(np.float32)
    y, total = aligned((6,)), aligned((1,))
    on_host(func, [x, y, total], order=order)
    wanted = x[3:].reshape(6, 1024)[:, :1000].sum(1, dtype=np.float64)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(total[0], wanted.sum(), rtol=1e-3, atol=1e-3)


def test_reduction_reads_well() -> None:
    module = parse(REDUCTION)
    apply(module, "sink-expressions")
    text = print_kernel(kernel_of(module))
    assert "float acc = 0.0f;" in text
    assert "  acc += v;" in text
    assert "const float v = o * 256 + t < 1000 ? x[row * 1024 + o * 256 + t + 3] : 0.0f;" in text
    assert "const float s16 = acc + shuffle_xor(acc, 16, 32);" in text
    assert "if (t % 32 == 0) parts[t / 32] = s1;" in text
    assert "sum += parts[w];" in text
    assert "if (t == 0) atomic_add(&total[0], sum);" in text


COPIES = """
kernel.func @ring(%x: memref<4x6000xf32>) -> (%y: memref<4x6000xf32>) grid 4 block 128 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c12 = arith.constant 12 : index
  %c47 = arith.constant 47 : index
  %b = kernel.block_id
  %t = kernel.thread_id
  %small = kernel.alloc_shared : memref<5xf32, #kernel.shared>
  %big = kernel.alloc_shared : memref<2x6144xf32, strided<[6400, 1]>, #kernel.shared>
  scf.for %o = %c0 to %c12 step %c1 {
    kernel.cp_async %x[%b, %o * 512 + %t * 4], %big[1, %o * 512 + %t * 4] elements 4
      where (%o * 512 + %t * 4 < 6000)
      : memref<4x6000xf32>, memref<2x6144xf32, strided<[6400, 1]>, #kernel.shared>
  }
  kernel.commit
  kernel.wait 0
  kernel.barrier
  %v = kernel.load %big[1, 17] : memref<2x6144xf32, strided<[6400, 1]>, #kernel.shared>
  kernel.store %v, %small[%t] where (%t < 5) : memref<5xf32, #kernel.shared>
  kernel.barrier
  scf.for %o = %c0 to %c47 step %c1 {
    %w = kernel.load %big[1, %o * 128 + %t] where (%o * 128 + %t < 6000)
      : memref<2x6144xf32, strided<[6400, 1]>, #kernel.shared>
    %u = kernel.load %small[4] : memref<5xf32, #kernel.shared>
    %r = arith.addf %w, %u : f32
    kernel.store %r, %y[%b, %o * 128 + %t] where (%o * 128 + %t < 6000) : memref<4x6000xf32>
  }
}
"""


@pytest.mark.parametrize("mode", ["late", "early"])
def test_dynamic_shared_memory_and_async_copies(mode: str) -> None:
    func = kernel_of(parse(COPIES))
    assert shared_bytes(func) == dynamic_shared_bytes(func) == 128 + (6400 + 6144) * 4
    text = print_kernel(func)
    assert "char* smem = dynamic_shared();" in text
    assert "float* big = reinterpret_cast<float*>(smem + 128);  // [2][6144]" in text
    x, y = aligned((4, 6000)), aligned((4, 6000))
    x[:] = np.random.default_rng(3).standard_normal(x.shape)
    on_host(func, [x, y], async_mode=mode)
    np.testing.assert_array_equal(y, x + x[:, 17:18])


def test_reduction_and_copies_on_gpus() -> None:
    module = parse(REDUCTION + COPIES)
    text = print_module(module)
    assert text.count('extern "C"') == 2
    assert nvcc_takes(text, "sm_80", "sm_90", "sm_120") == [0, 0, 0]


@pytest.mark.parametrize(
    ("count", "bounds"), [(21000, "128, 2"), (30000, "128, 1"), (12000, "128"), (1, "128")]
)
def test_where_shared_memory_leaves_room_for_all_registers_nvcc_is_told(
    count: int, bounds: str
) -> None:
    """Of 128 threads an SM has registers for 2 blocks with all that a thread may have."""
    slab = f"memref<{count}xf32, #kernel.shared>"
    kernel = f"""kernel.func @k() -> (%y: memref<128xf32>) grid 1 block 128 {{
      %t = kernel.thread_id
      %slab = kernel.alloc_shared : {slab}
      %v = kernel.load %slab[0] : {slab}
      kernel.store %v, %y[%t] : memref<128xf32>
    }}"""
    module = parse(f'builtin.module attributes {{dlc.target = "sm_90"}} {{ {kernel} }}')
    assert f"__launch_bounds__({bounds})" in print_kernel(kernel_of(module))


def test_small_shared_memory_is_static() -> None:
    func = gemm()
    assert shared_bytes(func) == 2 * 128 * 16 * 4
    assert dynamic_shared_bytes(func) == 0
    assert parameter_types(func) == ["const float*", "const float*", "float*"]


def test_values_are_not_moved_across_stores() -> None:
    text = printed(
        """%t = kernel.thread_id
        %s = kernel.alloc_local : memref<f32, #kernel.local>
        %v = kernel.load %x[0, %t] : memref<64x128xf32>
        kernel.store %v, %s[] : memref<f32, #kernel.local>
        %old = kernel.load %s[] : memref<f32, #kernel.local>
        %w = kernel.load %x[1, %t] : memref<64x128xf32>
        kernel.store %w, %s[] : memref<f32, #kernel.local>
        %new = kernel.load %s[] : memref<f32, #kernel.local>
        %r = arith.subf %old, %new : f32
        kernel.store %r, %y[0, %t] : memref<64x128xf32>""",
        after="sink-expressions",
    )
    assert text.splitlines()[1:] == [
        "float s = x[t];",
        "const float old = s;",
        "s = x[t + 128];",
        "y[t] = old - s;",
    ]


def test_values_are_not_moved_into_loops_and_ifs() -> None:
    text = printed(
        """%c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c9 = arith.constant 9 : index
        %t = kernel.thread_id
        %v = kernel.load %y[0, %t] : memref<64x128xf32>
        scf.for %k = %c0 to %c9 step %c1 {
          kernel.store %v, %y[%k + 1, %t] : memref<64x128xf32>
        }""",
        after="sink-expressions",
    )
    assert "const float v = y[t];\nfor (int k = 0; k < 9; ++k) {\ny[k * 128 + t + 128] = v;" in text


def test_dead_code_is_not_printed() -> None:
    text = printed(
        """%c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %t = kernel.thread_id
        %b = kernel.block_id
        %s = kernel.alloc_shared : memref<8xf32, #kernel.shared>
        %v = kernel.load %x[0, %t] : memref<64x128xf32>
        scf.for %k = %c0 to %c1 step %c1 {
          kernel.store %v, %s[%k] : memref<8xf32, #kernel.shared>
        }
        %u = arith.addf %v, %v : f32""",
        after="eliminate-dead-code",
    )
    assert text == ""


def test_what_bounds_make_needless_is_not_printed() -> None:
    """Nvcc warns of variables that nothing uses."""
    text = printed(
        """%b = kernel.block_id
        %t = kernel.thread_id
        %d = kernel.load %x[1] : memref<2xf32>
        %v = kernel.load %x[0] where (%b >= 0, %b < 9) else %d : memref<2xf32>
        %w = kernel.select %v where (%t < 3) else %d : f32
        kernel.store %w, %y[%t, %b] : memref<1x4xf32, strided<[1, 0]>>""",
        "(%x: memref<2xf32>) -> (%y: memref<1x4xf32, strided<[1, 0]>>)",
        block=1,
        after="eliminate-dead-code",
    )
    assert text == "y[0] = x[0];"


def test_wide_offsets_are_computed_in_64_bits() -> None:
    text = printed(
        """%b = kernel.block_id
        %t = kernel.thread_id
        %v = kernel.load %x[%b, %t] : memref<70000x70000xf32>
        kernel.store %v, %y[%b] : memref<70000xf32>""",
        "(%x: memref<70000x70000xf32>) -> (%y: memref<70000xf32>)",
        grid=70000,
    )
    assert "y[b] = x[(long long)b * 70000 + t];" in text


@pytest.mark.parametrize(
    ("rows", "columns", "counter", "element"),
    [
        (1, 2**31 - 1, "int", "x[i]"),
        (1, 2**31, "long long", "x[i]"),  # the counter ends at 2^31
        (1, 2**31 + 1, "long long", "x[i]"),
        (2, 2**30 - 1, "int", "x[b * 1073741823 + i]"),  # 2^31 - 2 elements
        (65536, 32768, "int", "x[b * 32768 + i]"),  # 2^31 elements, the last at 2^31 - 1
        (3, 715827883, "int", "x[(long long)b * 715827883 + i]"),  # 2^31 + 1 elements
    ],
)
def test_indices_have_64_bits_where_32_do_not_hold_them(
    rows: int, columns: int, counter: str, element: str
) -> None:
    text = printed(
        f"""%b = kernel.block_id
        %begin = arith.constant 0 : index
        %end = arith.constant {columns} : index
        %step = arith.constant 1 : index
        scf.for %i = %begin to %end step %step {{
          %v = kernel.load %x[%b, %i] : memref<{rows}x{columns}xi8>
          kernel.store %v, %y[%b, %i] : memref<{rows}x{columns}xi8>
        }}""",
        f"(%x: memref<{rows}x{columns}xi8>) -> (%y: memref<{rows}x{columns}xi8>)",
        grid=rows,
        block=1,
    )
    assert f"for ({counter} i = 0; i < {columns}{'ll' if columns >= 2**31 else ''}; ++i)" in text
    assert element in text


def test_a_counter_is_a_step_beyond_its_last_value_in_the_end() -> None:
    for end, counter in ((2**31 - 5, "int"), (2**31 - 4, "long long")):
        text = printed(
            f"""%begin = arith.constant 0 : index
            %end = arith.constant {end} : index
            %step = arith.constant 5 : index
            scf.for %i = %begin to %end step %step {{
              %v = kernel.load %x[%i] : memref<{end}xi8>
              kernel.store %v, %y[%i] : memref<{end}xi8>
            }}""",
            f"(%x: memref<{end}xi8>) -> (%y: memref<{end}xi8>)",
        )
        assert f"for ({counter} i = 0; i < {end}; i += 5)" in text


REMAINDERS = """kernel.func @k(%x: memref<12xf32>) -> (%y: memref<9x6xf32>) grid 1 block 9 {
  %t = kernel.thread_id
  %slot = kernel.index (%t - 4) mod DIVISOR
  %v = kernel.load %x[%slot] : memref<12xf32>
  kernel.store %v, %y[%t, 0] : memref<9x6xf32>
  %p = kernel.test where (%t < 8)
  scf.if %p {
STEPS
  }
}"""


@pytest.mark.parametrize("divisor", [3, 4, 5])
def test_remainders_that_follow_from_one_at_hand_take_no_division(divisor: int) -> None:
    """Of a number that is so much more or less; powers of two take none anyhow."""
    steps = [
        f"""%s{n} = kernel.index (%t + {more} - 4) mod {divisor}
        %v{n} = kernel.load %x[%s{n}] : memref<12xf32>
        kernel.store %v{n}, %y[%t, {n}] : memref<9x6xf32>"""
        for n, more in enumerate((1, 2, -1, divisor, 7), 1)
    ]
    text = REMAINDERS.replace("DIVISOR", str(divisor)).replace("STEPS", "\n".join(steps))
    func = kernel_of(parse(text))
    source = print_kernel(func)
    known = f"slot < {divisor - 1} ? slot + 1 : slot - {divisor - 1}"
    assert (known in source) == (divisor != 4)
    x, y = np.arange(12, dtype=np.float32), aligned((9, 6))
    on_host(func, [x, y])
    numbers = np.arange(9)[:, None] + np.array([0, 1, 2, -1, divisor, 7]) - 4
    wanted = numbers % divisor
    wanted[8, 1:] = 0
    np.testing.assert_array_equal(y, wanted)


def test_indices_that_leave_64_bits_are_an_error() -> None:
    rows, columns = 2**31 - 1, 2**33
    with pytest.raises(
        OpError, match="expected indices of 64 bits, found one that can be 184"
    ) as e:
        printed(
            f"""%b = kernel.block_id
            %v = kernel.load %x[%b, 0] : memref<{rows}x{columns}xi8>
            kernel.store %v, %y[%b] : memref<{rows}xi8>""",
            f"(%x: memref<{rows}x{columns}xi8>) -> (%y: memref<{rows}xi8>)",
            grid=rows,
        )
    assert isinstance(e.value.op, LoadOp)


def test_indices_from_memory() -> None:
    text = printed(
        """%t = kernel.thread_id
        %n64 = kernel.load %n[%t] : memref<64xi64>
        %j = arith.index_cast %n64 : i64 to index
        %q = kernel.index %j floordiv 4 + 1
        %v = kernel.load %x[%j, %q mod 8] where (%j >= 0, %j < 64) : memref<64x128xf32>
        kernel.store %v, %y[0, %t] : memref<64x128xf32>"""
    )
    assert "const long long j = n[t];" in text
    assert "const long long q = floor_div<long long>(j, 4) + 1;" in text
    assert "j >= 0 && j < 64 ? x[j * 128 + floor_mod<long long>(q, 8)] : 0.0f;" in text


def test_names() -> None:
    assert kernel_name("std") == "std_kernel"
    assert kernel_name("exp") == "exp_kernel"
    assert kernel_name("expf") == "expf_kernel"
    assert kernel_name("double") == "double_kernel"
    assert kernel_name("load4") == "load4_kernel"
    assert kernel_name("main") == "main_kernel"
    assert kernel_name("dlc_thread") == "dlc_thread_kernel"
    assert kernel_name("rms_norm") == "rms_norm"
    assert kernel_name("layer.norm") == "layer_norm"
    assert kernel_name("std") == "std_kernel"
    assert kernel_name("erfinv") == "erfinv_kernel"
    text = printed(
        """%t = kernel.thread_id
        %double = kernel.load %x[0, %t] : memref<64x128xf32>
        %exp = math.exp %double : f32
        %k = arith.mulf %exp, %exp : f32
        %r = arith.addf %k, %double : f32
        kernel.store %r, %y[0, %t] : memref<64x128xf32>"""
    )
    assert text.splitlines()[1:] == [
        "const float double_1 = x[t];",
        "const float exp = expf(double_1);",
        "y[t] = exp * exp + double_1;",
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0.0 : f32", "0.0f"),
        ("-0.0 : f32", "-0.0f"),
        ("0.1 : f32", "0.1f"),
        ("1.0e-6 : f32", "1e-06f"),
        ("100000.0 : f32", "100000.0f"),
        ("3.40282347e+38 : f32", "3.4028235e+38f"),
        ("0.1 : f64", "0.1"),
        ("2.0 : f64", "2.0"),
        ("0x7F800000 : f32", "INFINITY"),
        ("0xFF800000 : f32", "-INFINITY"),
        ("0x7FC00000 : f32", "NAN"),
        ("true", "true"),
        ("7 : i32", "7"),
        ("-2147483648 : i32", "-2147483647 - 1"),
        ("7 : i64", "7ll"),
    ],
)
def test_constants(text: str, wanted: str) -> None:
    module = parse(f"%c = arith.constant {text}")
    op = next(iter(module.body.block.ops))
    found = constant(op.properties["value"])
    assert found is not None
    assert str(found) == wanted


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "%v = kernel.load %x[0] : memref<4xf16>\n%w = arith.addf %v, %v : f16\n"
            "kernel.store %w, %y[0] : memref<4xf16>",
            "no text for 'arith.addf' of f16",
        ),
        ('"test.op"() : () -> ()', "no text for 'test.op'"),
        (
            "%c = arith.constant 1 : i32\n%d = arith.ceildivsi %c, %c : i32\n"
            "%f = arith.sitofp %d : i32 to f32\nkernel.store %f, %z[0] : memref<4xf32>",
            "no text for 'arith.ceildivsi'",
        ),
    ],
)
def test_what_has_no_text_is_an_error(body: str, message: str) -> None:
    head = "(%x: memref<4xf16>) -> (%y: memref<4xf16>, %z: memref<4xf32>)"
    if "f16" not in body:
        head = "() -> (%z: memref<4xf32>)"
    with pytest.raises(DiagnosticException, match=message):
        printed(body, head)

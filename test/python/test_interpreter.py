"""The Kernel IR interpreter: values, and every kind of hazard that it reports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import loop_cases
import numpy as np
import pytest
from test_tma import PARTS, aligned, folded, ring
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser

from dlc.backend.cuda.print.interface import c_name, dynamic_shared_bytes, parameter_types
from dlc.backend.cuda.print.printer import print_kernel
from dlc.backend.host.host_kernel import HostKernel
from dlc.dialects import kernel
from dlc.error_report import format_error
from dlc.ir.locations import LocParser
from dlc.registry import PASSES, parse_pipeline, register
from dlc.simulator import Hazard, run_kernel, run_module

STEPS = list(PASSES)[list(PASSES).index("tileify") : list(PASSES).index("bind-axes")]
GEMM = (
    "tileify,chunk-matmul-k{{bk=16}},blockify-launch{{block=32,32 thread=8,8}},"
    "stage-inputs{{budget=49152}},register-tile{{extents=4,4}},double-buffer{{depth={depth}}},"
    "{copies}pipeline-k-outer,mark-unroll{{limit=16}}"
)


def parse(text: str) -> ModuleOp:
    module = Parser(register(Context()), text).parse_module()
    module.verify()
    return module


def func_in(module: ModuleOp) -> kernel.FuncOp:
    return next(op for op in module.walk() if isinstance(op, kernel.FuncOp))


def lowered(case: loop_cases.Case, schedule: Sequence[str] | str = STEPS) -> ModuleOp:
    module = parse(case.text)
    steps = schedule if isinstance(schedule, str) else ",".join(schedule)
    rest = "bind-axes,lower-stages,lower-reduces,lower-registers,place-barriers,vectorize-accesses"
    for step in parse_pipeline(f"{steps},{rest}" if steps else rest):
        step.apply(Context(), module)
    return module


def error_of(outputs: Sequence[np.ndarray], case: loop_cases.Case) -> float:
    """The largest error relative to the largest number, and in units of the last place."""
    inputs = (x.astype(np.float64) if x.dtype == np.float32 else x for x in case.inputs)
    errors = [0.0]
    for found, expected in zip(outputs, case.expected(*inputs), strict=True):
        assert found.shape == np.shape(expected)
        if np.size(expected):
            scale = np.abs(expected).max() * np.finfo(np.float32).eps or 1
            errors.append(float(np.abs(found - expected).max() / scale))
    return max(errors)


# Values.


@pytest.mark.parametrize("schedule", [STEPS, ""], ids=["default", "none"])
@pytest.mark.parametrize("case", loop_cases.SMALL, ids=lambda c: c.name)
def test_values(case: loop_cases.Case, schedule: Sequence[str] | str) -> None:
    outputs = run_module(lowered(case, schedule), case.inputs)
    assert error_of(outputs, case) <= max(4, 2 * case.longest**0.5)


RACING = [
    loop_cases.gemm(20, 36, 24, transposed=True),
    loop_cases.silu_matmul(9, 20, 24),
    loop_cases.column_sum(50, 33),
    loop_cases.total(1000),
]


@pytest.mark.parametrize("case", RACING, ids=lambda c: c.name)
def test_lockstep_orders_what_barriers_do(case: loop_cases.Case) -> None:
    module = parse(case.text)
    for step in parse_pipeline(
        ",".join([*STEPS, "bind-axes,lower-stages,lower-reduces,lower-registers"])
    ):
        step.apply(Context(), module)
    assert error_of(run_module(module, case.inputs), case) <= max(4, 2 * case.longest**0.5)
    func_in(module).lockstep = None
    with pytest.raises(Hazard, match="race"):
        run_module(module, case.inputs)


UNCONTRACTED = """
#ifdef __clang__
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif
"""


@pytest.mark.parametrize("case", loop_cases.SMALL, ids=lambda c: c.name)
def test_the_host_computes_the_same(case: loop_cases.Case) -> None:
    """Bit by bit where nothing is contracted, but for the functions of the C library."""
    func = func_in(lowered(case))
    outputs = run_kernel(func, case.inputs)
    found = [np.empty_like(output) for output in outputs]
    HostKernel(UNCONTRACTED + print_kernel(func), c_name(func), parameter_types(func)).launch(
        [a.ctypes.data for a in (*case.inputs, *found)],
        func.grid_size,
        func.block_size,
        dynamic_shared_bytes(func),
    )
    for mine, theirs in zip(outputs, found, strict=True):
        if "softmax" in case.name:
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)
        else:
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    "case",
    [
        loop_cases.gemm(0, 6, 5),
        loop_cases.gemm(5, 6, 0),
        loop_cases.column_sum(0, 5),
        loop_cases.total(1),
    ],
    ids=lambda c: c.name,
)
def test_edge_sizes(case: loop_cases.Case) -> None:
    assert error_of(run_module(lowered(case), case.inputs), case) <= 4


def body(text: str, *, block: int = 64, grid: int = 1, inputs: str = "", output: str = "") -> str:
    """A kernel `@k` with constants, the thread `%t`, the block `%b`, input %x and output %y."""
    return f"""
kernel.func @k({inputs or "%x: memref<64xf32>"}) -> ({output or "%y: memref<64xf32>"})
    grid {grid} block {block} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant 0.0 : f32
  %t = kernel.thread_id
  %b = kernel.block_id
{text}
}}"""


X = np.arange(64, dtype=np.float32)


def run(text: str, *inputs: np.ndarray) -> np.ndarray:
    (output,) = run_kernel(func_in(parse(text)), inputs or (X,))
    return output


N = np.nan
SCALARS: list[tuple[str, str, list[float], list[float]]] = [
    ("arith.divsi %a, %b : i32", "i32", [7, -7, 7, -7, 2, 2, -2, -2], [3, -3, -3, 3]),
    ("arith.remsi %a, %b : i32", "i32", [7, -7, 7, -7, 2, 2, -2, -2], [1, -1, 1, -1]),
    ("arith.floordivsi %a, %b : i32", "i32", [7, -7, 7, -7, 2, 2, -2, -2], [3, -4, -4, 3]),
    ("arith.divui %a, %b : i8", "i8", [-1, -128, 7, 6, 2, 3, 2, -1], [127, 42, 3, 0]),
    ("arith.addi %a, %b : i8", "i8", [127, -128, 1, 2, 1, -1, 1, 1], [-128, 127, 2, 3]),
    ("arith.shrui %a, %b : i16", "i16", [-1, -2, 8, 9, 15, 1, 2, 0], [1, 32767, 2, 9]),
    ("arith.shrsi %a, %b : i16", "i16", [-1, -2, 8, 9, 15, 1, 2, 0], [-1, -1, 2, 9]),
    ("arith.maxui %a, %b : i32", "i32", [-1, 2, 5, 0, 1, -2, 4, 0], [-1, -2, 5, 0]),
    ("arith.maximumf %a, %b : f32", "f32", [1, N, 2, 3, N, 1, 5, 0], [N, N, 5, 3]),
    ("arith.minimumf %a, %b : f32", "f32", [1, N, 2, 3, N, 1, 5, 0], [N, N, 2, 0]),
    ("arith.maxnumf %a, %b : f32", "f32", [1, N, 2, 3, N, 1, 5, 0], [1, 1, 5, 3]),
    ("arith.mulf %a, %b : f32", "f32", [1 + 2**-23, 3, 1e30, 0, 1 + 2**-23, 5, 1e30, 1],
     [1 + 2**-22, 15, np.inf, 0]),
    ("math.copysign %a, %b : f32", "f32", [1, -1, 2, 0, -1, 1, -0.0, -3], [-1, 1, -2, -0.0]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "type", "operands", "expected"), SCALARS, ids=lambda c: str(c)[:16])
def test_scalars(op: str, type: str, operands: list[float], expected: list[float]) -> None:
    numbers = np.array(operands).astype({"f32": np.float32}.get(type, f"i{int(type[1:]) // 8}"))
    text = body(
        f"""
  %a = kernel.load %x[%t] : memref<8x{type}>
  %b2 = kernel.load %x[%t + 4] : memref<8x{type}>
  %r = {op.replace("%b", "%b2")}
  kernel.store %r, %y[%t] : memref<4x{type}>""",
        block=4,
        inputs=f"%x: memref<8x{type}>",
        output=f"%y: memref<4x{type}>",
    )
    np.testing.assert_array_equal(run(text, numbers), np.array(expected, numbers.dtype))


@pytest.mark.parametrize(
    ("convert", "expected"),
    [
        ("%r = arith.extsi %p : i1 to i32\n%f = arith.sitofp %r : i32 to f32", [0, -1]),
        ("%f = arith.uitofp %p : i1 to f32", [0, 1]),
        ("%f = arith.sitofp %p : i1 to f32", [0, -1]),
        ("%h = arith.truncf %third : f32 to bf16\n%f = arith.extf %h : bf16 to f32", [171 / 512]),
        ("%h = arith.truncf %third : f32 to f16\n%f = arith.extf %h : f16 to f32", [1365 / 4096]),
        ("%q = arith.cmpi slt, %p, %no : i1\n%f = arith.uitofp %q : i1 to f32", [0, 1]),
        ("%q = arith.cmpi ult, %no, %p : i1\n%f = arith.uitofp %q : i1 to f32", [0, 1]),
        ("%i = arith.index_cast %t : index to i64\n%f = arith.sitofp %i : i64 to f32", [0, 1]),
        ("%g = math.fma %third, %third, %third : f32\n%f = math.absf %g : f32", [4 / 9]),
        ("%i = arith.fptosi %third : f32 to i32\n%f = arith.sitofp %i : i32 to f32", [0, 0]),
    ],
    ids=lambda c: str(c)[:30],
)  # fmt: skip
def test_conversions(convert: str, expected: list[float]) -> None:
    text = body(
        f"""
  %third = arith.constant 0.333333343 : f32
  %no = arith.constant false
  %p = kernel.test where (%t >= 1)
  {convert}
  kernel.store %f, %y[%t] : memref<2xf32>""",
        block=2,
        output="%y: memref<2xf32>",
    )
    np.testing.assert_allclose(run(text), np.broadcast_to(expected, 2), rtol=1e-7)


def test_conditions_that_differ_among_threads() -> None:
    """Both branches, values of both, loops with bounds of their own, locals set in part."""
    text = body("""
  %a = kernel.load %x[%t] : memref<64xf32>
  %p = kernel.test where (%t < 10)
  %acc = kernel.alloc_local : memref<2xf32, #kernel.local>
  kernel.store %a, %acc[%t mod 2] : memref<2xf32, #kernel.local>
  %v = scf.if %p -> (f32) {
    %s = scf.for %i = %c0 to %t step %c1 iter_args(%sum = %zero) -> (f32) {
      %n = arith.addf %sum, %a : f32
      scf.yield %n : f32
    }
    scf.yield %s : f32
  } else {
    %own = kernel.load %acc[%t mod 2] : memref<2xf32, #kernel.local>
    %d = arith.subf %zero, %own : f32
    scf.yield %d : f32
  }
  %w = kernel.select %v where (%t < 60) else %zero : f32
  kernel.store %w, %y[%t] : memref<64xf32>""")
    t = np.arange(64)
    np.testing.assert_array_equal(run(text), np.where(t < 10, t * t, np.where(t < 60, -t, 0)))


def test_guarded_loads() -> None:
    text = body("""
  %one = arith.constant 1.0 : f32
  %a = kernel.load %x[%t + 1] where (%t + 1 < 64) else %one : memref<64xf32>
  %c = kernel.load %x[%t - 1] where (%t >= 1) : memref<64xf32>
  %s = arith.addf %a, %c : f32
  kernel.store %s, %y[%t] : memref<64xf32>""")
    expected = np.append(X[1:], 1) + np.append(0, X[:-1])
    np.testing.assert_array_equal(run(text), expected)


def test_atomic_additions() -> None:
    text = body(
        """
  %first = kernel.test where (%t < 4)
  kernel.store %zero, %y[%t] where (%t < 4) : memref<4xf32>
  kernel.barrier
  %a = kernel.load %x[%t] : memref<64xf32>
  kernel.atomic_add %a, %y[%t mod 4] : memref<4xf32>""",
        output="%y: memref<4xf32>",
    )
    np.testing.assert_array_equal(run(text), X.reshape(16, 4).sum(axis=0))


@pytest.mark.parametrize(
    "layout",
    ["", ", strided<[12, 1]>", ", #kernel.swizzle<32>"],
    ids=["plain", "padded", "swizzled"],
)
def test_layouts_of_shared_memory(layout: str) -> None:
    s = f"memref<8x8xf32{layout}, #kernel.shared>"
    text = body(f"""
  %a = kernel.load %x[%t] : memref<64xf32>
  %s = kernel.alloc_shared : {s}
  kernel.store %a, %s[%t floordiv 8, %t mod 8] : {s}
  kernel.barrier
  %v = kernel.load %s[%t mod 8, %t floordiv 32 * 4] where (%t mod 32 < 8) : {s} -> vector<4xf32>
  kernel.store %v, %y[%t mod 8 * 8 + %t floordiv 32 * 4] where (%t mod 32 < 8)
    : memref<64xf32>, vector<4xf32>""")
    np.testing.assert_array_equal(run(text), X)


def test_blocks_that_take_different_ways() -> None:
    """A barrier that only some of the blocks that run together reach."""
    text = body(
        """
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %odd = kernel.test where (%b mod 2 >= 1)
  %a = kernel.load %x[%t] : memref<64xf32>
  kernel.store %a, %s[%t] : memref<64xf32, #kernel.shared>
  %r = scf.if %odd -> (f32) {
    kernel.barrier
    %other = kernel.load %s[63 - %t] : memref<64xf32, #kernel.shared>
    scf.yield %other : f32
  } else {
    scf.yield %a : f32
  }
  kernel.store %r, %y[%b, %t] : memref<3x64xf32>""",
        grid=3,
        output="%y: memref<3x64xf32>",
    )
    np.testing.assert_array_equal(run(text), [X, X[::-1], X])


# Hazards.

SMEM = "memref<64xf32, #kernel.shared>"
STAGED = f"""
  %s = kernel.alloc_shared : {SMEM}
  %a = kernel.load %x[%t] : memref<64xf32>
  kernel.store %a, %s[%t] : {SMEM}"""
DONE = "\n  kernel.store %a, %y[%t] : memref<64xf32>"

SLOTS = "memref<2x64xf32, #kernel.shared>"

HAZARDS: dict[str, tuple[str, str, str]] = {
    "written, then read": (
        f"{STAGED}\n  %v = kernel.load %s[63 - %t] : {SMEM}\n{DONE}",
        "race",
        r"thread 0 of block 0 reads %s\[63\], written by thread 63, and nothing orders the two",
    ),
    "read, then written": (
        f"""{STAGED}
  scf.for %i = %c0 to %c3 step %c1 {{
    kernel.barrier
    %v = kernel.load %s[(%t + %i) mod 64] : {SMEM}
    kernel.store %v, %s[%t] where (%i >= 2) : {SMEM}
  }}{DONE}""",
        "race",
        r"thread 0 of block 0 writes %s\[0\], read by thread 62.*\n.*thread 0, %i = 2: kernel.store"
        r".*\n.*thread 62, %i = 2: %v = kernel.load",
    ),
    "written by two threads": (
        f"{STAGED}\n  kernel.store %a, %s[%t floordiv 2] where (%t >= 64) : {SMEM}"
        "\n  kernel.store %a, %y[%t floordiv 2] : memref<64xf32>",
        "race",
        r"writes %y\[0\], written by thread 1",
    ),
    "written by two blocks": (
        "%a = kernel.load %x[%t] : memref<64xf32>" + DONE,
        "race",
        r"thread 0 of block . writes %y\[0\], written by thread 0 of block .",
    ),
    "shuffles order no memory": (
        f"{STAGED}\n  %o = kernel.shuffle xor %a, 1 width 32 : f32"
        f"\n  %v = kernel.load %s[%t floordiv 2 * 2] : {SMEM}\n{DONE}",
        "race",
        r"thread 1 of block 0 reads %s\[0\], written by thread 0",
    ),
    "atomic and ordinary": (
        "kernel.store %zero, %y[%t] : memref<64xf32>\n  kernel.barrier"
        "\n  kernel.atomic_add %zero, %y[%t floordiv 2] : memref<64xf32>"
        "\n  kernel.store %zero, %y[%t] : memref<64xf32>",
        "race",
        r"writes %y\[0\], added to by thread 1, and",
    ),
    "shared memory, uninitialized": (
        f"%s = kernel.alloc_shared : {SMEM}\n  %a = kernel.load %s[%t] : {SMEM}" + DONE,
        "uninitialized",
        r"%s\[0\] is read, which nothing has written",
    ),
    "local memory, uninitialized in a thread": (
        "%l = kernel.alloc_local : memref<2xf32, #kernel.local>"
        "\n  kernel.store %zero, %l[1] where (%t < 40) : memref<2xf32, #kernel.local>"
        "\n  %a = kernel.load %l[1] : memref<2xf32, #kernel.local>" + DONE,
        "uninitialized",
        r"%l is read at offset 1, which nothing has written\n.*thread 40",
    ),
    "an output, uninitialized": (
        "%a = kernel.load %y[%t] : memref<64xf32>" + DONE,
        "uninitialized",
        r"%y\[0\] is read",
    ),
    "beyond a memref": (
        "%a = kernel.load %x[%t * 2] : memref<64xf32>" + DONE,
        "out of bounds",
        r"%x\[64\] is not in memref<64xf32>\n.*thread 32: %a = kernel.load",
    ),
    "before a memref": (
        "%a = kernel.load %x[%t - 1] where (%t < 60) : memref<64xf32>" + DONE,
        "out of bounds",
        r"%x\[-1\]",
    ),
    "beyond local memory": (
        "%l = kernel.alloc_local : memref<2xf32, #kernel.local>"
        "\n  kernel.store %zero, %l[%c3] : memref<2xf32, #kernel.local>"
        "\n  %a = kernel.load %x[%t] : memref<64xf32>" + DONE,
        "out of bounds",
        r"%l\[3\] is not in memref<2xf32, #kernel.local>",
    ),
    "a vector beyond a memref": (
        "%v = kernel.load %x[%t * 4] where (%t < 17) : memref<64xf32> -> vector<4xf32>"
        "\n  %a = kernel.load %x[%t] : memref<64xf32>" + DONE,
        "out of bounds",
        r"%x\[64\]",
    ),
    "a vector at no multiple of its size": (
        "%v = kernel.load %x[%t * 2] where (%t < 20) : memref<64xf32> -> vector<4xf32>"
        "\n  %a = kernel.load %x[%t] : memref<64xf32>" + DONE,
        "misaligned",
        r"16 bytes are accessed at %x \+ 8 bytes\n.*thread 1:",
    ),
    "part of a block at a barrier": (
        f"{STAGED}{DONE}\n  %p = kernel.test where (%t < 32)\n  scf.if %p {{\n  kernel.barrier\n}}",
        "divergence",
        r"all threads of a block must reach kernel.barrier, and thread 32 does not",
    ),
    "part of a warp at a shuffle": (
        f"{STAGED}{DONE}\n  %p = kernel.test where (%t < 40)\n  scf.if %p {{"
        "\n  %o = kernel.shuffle xor %a, 1 width 32 : f32\n}",
        "divergence",
        r"all lanes of a warp must reach kernel.shuffle, and thread 40 does not",
    ),
    "a barrier in a loop of the warps' own lengths": (
        "%n = kernel.index %t floordiv 32 + 1\n  scf.for %i = %c0 to %n step %c1 {"
        "\n  kernel.barrier\n  }\n  %a = kernel.load %x[%t] : memref<64xf32>" + DONE,
        "divergence",
        r"must reach kernel.barrier, and thread 0 does not\n.*thread 32, %i = 1: kernel.barrier",
    ),
    "a named lane that does not come": (
        f"{STAGED}{DONE}\n  %p = kernel.test where (%t < 36)\n  scf.if %p {{"
        "\n  %o = kernel.shuffle xor %a, 1 width 8 threads 40 : f32\n}",
        "divergence",
        r"all lanes of threads below 40 must reach kernel.shuffle, and thread 36 does not",
    ),
    "a lane that comes and is not named": (
        f"{STAGED}{DONE}\n  %o = kernel.shuffle xor %a, 1 width 8 threads 40 : f32",
        "divergence",
        r"lane 8 is not among those that are named\n.*thread 40: %o = kernel.shuffle",
    ),
    "a lane that reads one that is not named": (
        f"{STAGED}{DONE}\n  %p = kernel.test where (%t < 39)\n  scf.if %p {{"
        "\n  %o = kernel.shuffle xor %a, 1 width 8 threads 39 : f32\n}",
        "divergence",
        r"lane 6 reads lane 7 of its warp, which is not named\n.*thread 38: %o = kernel.shuffle",
    ),
    "a shuffle in both branches": (
        f"{STAGED}{DONE}\n  %p = kernel.test where (%t mod 2 < 1)\n  scf.if %p {{"
        "\n  %o = kernel.shuffle xor %a, 1 width 32 : f32\n} else {"
        "\n  %o = kernel.shuffle xor %a, 1 width 32 : f32\n}",
        "divergence",
        r"all lanes of a warp must reach kernel.shuffle, and thread 1 does not",
    ),
    "a group of copies too few": (
        f"%s = kernel.alloc_shared : {SLOTS}"
        f"\n  kernel.cp_async %x[%t], %s[0, %t] elements 1 : memref<64xf32>, {SLOTS}"
        "\n  kernel.commit\n  scf.for %k = %c0 to %c3 step %c1 {"
        "\n  %more = kernel.test where (%k < 2)\n  scf.if %more {"
        f"\n  kernel.cp_async %x[%t], %s[(%k + 1) mod 2, %t] elements 1 : memref<64xf32>, {SLOTS}"
        "\n  kernel.commit\n  }\n  kernel.wait 1\n  kernel.barrier"
        f"\n  %v = kernel.load %s[%k mod 2, 63 - %t] : {SLOTS}\n  kernel.barrier\n  }}"
        "\n  %a = kernel.load %x[%t] : memref<64xf32>" + DONE,
        "copy in flight",
        r"%s\[0, 63\] is .* not waited for its group\n.*%k = 2: %v = .*\n.*%k = 1: kernel.cp_async",
    ),
    "an element without a store": (
        "%a = kernel.load %x[%t] : memref<64xf32>"
        "\n  kernel.store %a, %y[%t] where (%t < 62) : memref<64xf32>",
        "unwritten",
        r"2 of 64 elements of %y are never written, %y\[62\] the first",
    ),
    "division by zero": (
        "%i = arith.index_cast %t : index to i32\n  %q = arith.divsi %i, %i : i32"
        "\n  %a = kernel.load %x[%t] : memref<64xf32>" + DONE,
        "arithmetic",
        r"an integer is divided by 0\n.*thread 0: %q = arith.divsi",
    ),
    "a loop that does not get on": (
        "%n = kernel.index %t mod 2\n  scf.for %i = %c0 to %c3 step %n {\n  }"
        "\n  %a = kernel.load %x[%t] : memref<64xf32>" + DONE,
        "arithmetic",
        r"the step of a loop must be positive, found 0\n.*thread 0: scf.for",
    ),
    "arithmetic in bf16": (
        "%a = kernel.load %x[%t] : memref<64xf32>\n  %h = arith.truncf %a : f32 to bf16"
        "\n  %q = arith.addf %h, %h : bf16" + DONE,
        "not checked",
        "arithmetic is done in f32 or f64, not in bf16",
    ),
    "a wait that nothing ends": (
        "%m = kernel.alloc_mbarriers 1\n  %p = kernel.test where (%t < 1)\n  scf.if %p {"
        "\n  kernel.mbarrier_init %m[0], 2\n  kernel.mbarrier_arrive %m[0]"
        "\n  kernel.mbarrier_wait %m[0], parity 0\n  }",
        "deadlock",
        "phase 0 of the mbarrier does not end: .* 1 of 2 arrivals are missing",
    ),
    "an operation without a meaning": (
        "%a = kernel.load %x[%t] : memref<64xf32>\n  %q = math.ctpop %t : index" + DONE,
        "not checked",
        "the interpreter does not know 'math.ctpop'",
    ),
}


def report(text: str) -> Hazard:
    func = func_in(parse(text))
    with pytest.raises(Hazard) as caught:
        run_kernel(func, [X])
    assert str(caught.value).startswith(f"{caught.value.kind}: {caught.value.sentence}")
    return caught.value


@pytest.mark.parametrize("name", HAZARDS)
def test_hazards(name: str) -> None:
    text, kind, message = HAZARDS[name]
    hazard = report(body(text, grid=2 if "two blocks" in name else 1))
    assert hazard.kind == kind, str(hazard)
    assert re.search(message, str(hazard)), str(hazard)


@pytest.mark.parametrize(("block", "at"), [(8, (8, 0)), (40, (8, 1)), (63, (31, 1))])
@pytest.mark.parametrize("named", ["", "threads 65"])
def test_a_lane_is_named_that_does_not_exist(block: int, at: tuple[int, int], named: str) -> None:
    shuffle = f"kernel.shuffle xor %a, 1 width 2 {named} : f32"
    hazard = report(body(f"{STAGED}{DONE}\n  %o = {shuffle}", block=block))
    assert hazard.kind == "divergence"
    lane, warp = at
    assert f"lane {lane} of warp {warp} is named and does not exist in a block" in str(hazard)


@pytest.mark.parametrize("block", [8, 40, 64, 72])
def test_shuffles_of_some_lanes(block: int) -> None:
    """Those that the block has, and fewer where only these come."""
    x, y = f"%x: memref<{block}xf32>", f"%y: memref<{block}xf32>"
    named = f"threads {block}" if block % 32 else ""
    text = f"""
  %a = kernel.load %x[%t] : memref<{block}xf32>
  %o = kernel.shuffle xor %a, 4 width 8 {named} : f32
  kernel.store %o, %y[%t] : memref<{block}xf32>
  %p = kernel.test where ({block - 5} - %t >= 0)
  scf.if %p {{
    %q = kernel.shuffle xor %o, 1 width 2 threads {block - 4} : f32
    kernel.store %q, %y[%t] : memref<{block}xf32>
  }}"""
    func = func_in(parse(body(text, block=block, inputs=x, output=y)))
    values = np.arange(block, dtype=np.float32)
    expected = values[np.arange(block) ^ 4]
    expected[: block - 4] = values[np.arange(block - 4) ^ 5]
    (result,) = run_kernel(func, [values])
    np.testing.assert_array_equal(result, expected)
    on_host = HostKernel(print_kernel(func), c_name(func), parameter_types(func))
    for order in ("forward", "reverse", "random"):
        found = np.zeros(block, np.float32)
        on_host.launch([values.ctypes.data, found.ctypes.data], 1, block, order=order)
        np.testing.assert_array_equal(found, expected)


# Atomic additions of two blocks to a zeroed output.

ZEROED = "%y: memref<64xf32> zeroed"
ADDS = """
  %a = kernel.load %x[%t] : memref<64xf32>
  kernel.atomic_add %a, %y[%t floordiv 2] : memref<64xf32>"""
MBARRIERS = """
  %m = kernel.alloc_mbarriers 1
  %first = kernel.test where (%t < 1)
  scf.if %first {
    kernel.mbarrier_init %m[0], 64
  }"""


@pytest.mark.parametrize("clocks", ["", MBARRIERS], ids=["barriers", "mbarriers"])
def test_blocks_add_to_zeros(clocks: str) -> None:
    text = body(clocks + ADDS, grid=3, output=ZEROED)
    np.testing.assert_array_equal(run(text), [*(3 * X.reshape(32, 2).sum(axis=1)), *[0] * 32])


PLAIN = {
    "stores after adding": (
        f"{ADDS}\n  kernel.store %a, %y[%t] where (%b >= 1) : memref<64xf32>",
        r"thread 0 of block 1 writes %y\[0\], added to by thread 1 of block 0",
    ),
    "adds after storing": (
        "kernel.store %zero, %y[%t] where (%b < 1) : memref<64xf32>\n  kernel.barrier" + ADDS,
        r"thread 0 of block 1 .* %y\[0\], written by thread 0 of block 0",
    ),
    "reads after adding": (
        f"{ADDS}\n  %v = kernel.load %y[%t] where (%b >= 1) : memref<64xf32>",
        r"thread 0 of block 1 reads %y\[0\], added to by thread 1 of block 0",
    ),
    "adds after reading": (
        "%v = kernel.load %y[%t] where (%b < 1) : memref<64xf32>" + ADDS,
        r"adds to %y\[0\], read by thread 0 of block 0",
    ),
    "of one thread": (
        "kernel.atomic_add %zero, %y[%t] where (%b < 1) : memref<64xf32>"
        "\n  %v = kernel.load %y[%t] where (%b >= 1) : memref<64xf32>",
        r"thread 0 of block 1 reads %y\[0\], added to by thread 0 of block 0",
    ),
}


@pytest.mark.parametrize("clocks", ["", MBARRIERS], ids=["barriers", "mbarriers"])
@pytest.mark.parametrize("name", PLAIN)
def test_atomic_and_plain_accesses_race(name: str, clocks: str) -> None:
    text, message = PLAIN[name]
    hazard = report(body(clocks + text, grid=2, output=ZEROED))
    assert hazard.kind == "race", str(hazard)
    assert re.search(message, str(hazard)), str(hazard)


def test_a_hazard_names_its_place() -> None:
    text = body(HAZARDS["read, then written"][0])
    module = LocParser(register(Context()), text, "k.mlir").parse_module()
    with pytest.raises(Hazard) as caught:
        run_kernel(func_in(module), [X])
    hazard = caught.value
    assert [(a.thread, a.iteration) for a in hazard.accesses] == [(0, (2,)), (62, (2,))]
    line = 1 + text[: text.index("kernel.store %v, %s[%t]")].count("\n")
    assert f"%i = 2: k.mlir:{line}: kernel.store %v" in str(hazard)
    assert format_error(hazard, {"k.mlir": text}).startswith(f"k.mlir:{line}:5: error: race: ")


# Asynchronous copies.

ASYNC = f"""
  %s = kernel.alloc_shared : {SMEM}
  kernel.cp_async %x[%t], %s[%t] elements 1 where (%t < 60) : memref<64xf32>, {SMEM}
  {{commit}}
  {{wait}}
  {{meet}}
  %a = kernel.load %s[63 - %t] : {SMEM}{DONE}"""
KEPT = {"commit": "kernel.commit", "wait": "kernel.wait 0", "meet": "kernel.barrier"}


def test_cp_async() -> None:
    expected = np.where(np.arange(64) < 60, X, 0)[::-1]
    np.testing.assert_array_equal(run(body(ASYNC.format(**KEPT))), expected)


@pytest.mark.parametrize(
    ("changed", "kind", "message"),
    [
        (
            {"commit": ""},
            "copy in flight",
            "thread 63 requested it and has not committed its group",
        ),
        ({"wait": ""}, "copy in flight", "thread 63 requested it and has not waited for its group"),
        ({"wait": "kernel.wait 1"}, "copy in flight", r"%s\[63\] is accessed while a copy to it"),
        ({"meet": ""}, "race", r"reads %s\[63\], written by thread 63"),
        ({"wait": "kernel.barrier", "meet": "kernel.wait 0"}, "race", "written by thread 63"),
    ],
)
def test_cp_async_without(changed: dict[str, str], kind: str, message: str) -> None:
    hazard = report(body(ASYNC.format(**(KEPT | changed))))
    assert hazard.kind == kind
    assert re.search(message, str(hazard)), str(hazard)


def test_cp_async_that_nothing_awaits() -> None:
    text = (
        ASYNC.format(**KEPT)
        + f"""
  kernel.barrier
  kernel.cp_async %x[%t], %s[%t] elements 1 : memref<64xf32>, {SMEM}
  kernel.commit"""
    )
    assert report(body(text)).kind == "copy never awaited"


@pytest.mark.parametrize("ring", ["x_ring", "y_ring"])
def test_the_copy_in_flight_is_that_to_the_memory_accessed(ring: str) -> None:
    """Two copies of one group have the same elements, of different memories."""
    text = f"""
  %x_ring = kernel.alloc_shared : {SMEM}
  %y_ring = kernel.alloc_shared : {SMEM}
  kernel.cp_async %x[%t], %x_ring[%t] elements 1 : memref<64xf32>, {SMEM}
  kernel.cp_async %x[%t], %y_ring[%t] elements 1 : memref<64xf32>, {SMEM}
  kernel.commit
  kernel.barrier
  %a = kernel.load %{ring}[%t] : {SMEM}
  kernel.wait 0{DONE}"""
    hazard = report(body(text))
    assert hazard.kind == "copy in flight"
    assert f"%{ring}[0] is accessed while a copy to it is in flight" in str(hazard)
    read, copy = str(hazard).splitlines()[1:]
    assert f"kernel.load %{ring}[" in read
    assert f"kernel.cp_async %x[%t], %{ring}[%t]" in copy


def test_atomic_addition_to_what_is_copied() -> None:
    adds = f"kernel.atomic_add %zero, %s[%t] : {SMEM}\n  kernel.commit"
    hazard = report(body(ASYNC.format(**(KEPT | {"commit": adds}))))
    assert hazard.kind == "copy in flight"
    assert hazard.op.name == "kernel.atomic_add"


BOX = f"""
  %s = kernel.alloc_shared : {SMEM}
  %m = kernel.alloc_mbarriers 1
  %map = kernel.tensor_map %x box [64] : memref<64xf32>
  %first = kernel.test where (%t < 1)
  scf.if %first {{
    kernel.mbarrier_init %m[0], 1
    kernel.fence_mbarrier_init
  }}
  PREPARED
  kernel.barrier
  scf.for %o = %c0 to %c3 step %c1 {{
    scf.for %k = %c0 to %c3 step %c1 {{
      scf.if %first {{
        kernel.mbarrier_expect_tx %m[0], 256
        kernel.tma_load %map[0] -> %s[0], %m[0] : {SMEM}
      }}
      kernel.mbarrier_wait %m[0], parity (%o * 3 + %k) mod 2
      %v = kernel.load %s[63 - %t] : {SMEM}
      kernel.fence_proxy_async
      kernel.barrier
    }}
  }}
  %a = kernel.load %x[%t] : memref<64xf32>{DONE}"""
ZEROS = f"kernel.store %zero, %s[%t] : {SMEM}"
FENCE = "kernel.fence_proxy_async"
COPY = f"kernel.cp_async %x[%t], %s[%t] elements 1 where (%t < 1) : memref<64xf32>, {SMEM}"


def test_a_box_where_threads_have_written() -> None:
    fenced = body(BOX.replace("PREPARED", f"{ZEROS}\n  {FENCE}"))
    run(fenced)
    again = f"kernel.barrier\n  {FENCE}\n  kernel.fence_mbarrier_init\n  scf.for %o"
    run(fenced.replace("kernel.barrier\n  scf.for %o", again))


@pytest.mark.parametrize(
    ("prepared", "kind", "message"),
    [
        (ZEROS, "race", r"no kernel.fence_proxy_async .*\n.*tma_load.*\n.*thread 0: kernel.store"),
        (f"{FENCE}\n  {ZEROS}", "race", "no kernel.fence_proxy_async stands between"),
        (
            f"{ZEROS}\n  scf.if %first {{\n  {FENCE}\n  }}",
            "race",
            "no kernel.fence_proxy_async .*\n.*\n.*thread 1: kernel.store",
        ),
        (COPY, "copy in flight", "not committed its group\n.*thread 0, %o = 0, %k = 0: .*tma_load"),
    ],
)
def test_a_box_where_threads_may_write_later(prepared: str, kind: str, message: str) -> None:
    hazard = report(body(BOX.replace("PREPARED", prepared)))
    assert hazard.kind == kind, str(hazard)
    assert re.search(message, str(hazard)), str(hazard)


def test_a_box_where_threads_may_read_still() -> None:
    unfenced = BOX.replace("PREPARED", "").replace(f"      {FENCE}\n", "")
    hazard = report(body(unfenced))
    assert hazard.kind == "race"
    assert "stands between a load from %s and this, which writes there" in str(hazard)


def test_parities_of_a_loop_that_is_entered_again() -> None:
    """An odd number of phases in the inner loop: its parities are others the next time."""
    right = body(BOX.replace("PREPARED", ""))
    run(right)
    hazard = report(right.replace("(%o * 3 + %k) mod 2", "%k mod 2"))
    assert hazard.kind == "mbarrier"
    assert hazard.accesses[0].iteration == (1, 0)


def test_cp_async_at_no_multiple_of_its_size() -> None:
    text = f"""
  %s = kernel.alloc_shared : {SMEM}
  kernel.cp_async %x[%t * 2], %s[%t * 4] elements 4 where (%t < 8) : memref<64xf32>, {SMEM}"""
    hazard = report(body(text, block=16))
    assert hazard.kind == "misaligned"


@pytest.mark.parametrize(
    ("depth", "chunks", "swizzled"), [(2, 1, False), (2, 7, True), (3, 2, True), (4, 7, False)]
)
def test_tma_ring(depth: int, chunks: int, swizzled: bool) -> None:
    x, w = aligned(50, 8 * chunks - 4), aligned(8 * chunks - 4)
    (y,) = run_kernel(ring(50, 8 * chunks - 4, depth, chunks, swizzled=swizzled), [x, w])
    expected = folded(x, w, chunks)
    assert np.abs(y - expected).max() <= 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("part", "kind", "message"),
    [
        ("empty", "race", r"writes %x_ring\[0, 0, 4\], read by thread 32"),
        ("full", "race", r"written by the tensor memory accelerator"),
        ("meet", "race", "thread 1 uses an mbarrier that thread 0 initialized"),
        ("together", "race", r"writes %x_ring\[0, 1, 0\], read by thread 1"),
        ("release", "deadlock", "phase 0 of the mbarrier does not end: .* 2 of 2 arrivals are mis"),
    ],
)
def test_tma_ring_without(part: str, kind: str, message: str) -> None:
    assert part in PARTS
    with pytest.raises(Hazard, match=message) as caught:
        run_kernel(ring(64, 64, 3, 8, without=part), [aligned(64, 64), aligned(64)])
    assert caught.value.kind == kind


# Mutations.

MEETINGS = (
    kernel.BarrierOp,
    kernel.WaitOp,
    kernel.CommitOp,
    kernel.CpAsyncOp,
    kernel.MbarrierInitOp,
    kernel.MbarrierArriveOp,
    kernel.MbarrierExpectTxOp,
    kernel.TmaLoadOp,
    kernel.FenceMbarrierInitOp,
    kernel.SyncWarpOp,
)


def without_each(
    func: kernel.FuncOp, of: tuple[type[Operation], ...]
) -> Iterator[tuple[str, kernel.FuncOp]]:
    """The kernel without each operation of some kinds in turn."""
    count = sum(isinstance(op, of) for op in func.walk())
    for n in range(count):
        mutant = func.clone()
        op = [op for op in mutant.walk() if isinstance(op, of)][n]
        name = str(op)
        op.detach()
        yield name, mutant


def survivors(
    func: kernel.FuncOp, inputs: Sequence[np.ndarray], of: tuple[type[Operation], ...] = MEETINGS
) -> list[str]:
    found: list[str] = []
    for name, mutant in without_each(func, of):
        try:
            run_kernel(mutant, inputs)
        except Hazard:
            continue
        found.append(name)
    return found


SYNCHRONOUS = (
    "tileify,chunk-matmul-k{bk=8},blockify-launch{block=16,32 thread=8,8},"
    "stage-inputs{budget=49152},register-tile{extents=2,4},mark-unroll{limit=16}"
)
BARRIERS = (
    (loop_cases.gemm(37, 50, 40), SYNCHRONOUS),
    (loop_cases.gemm(20, 70, 33, transposed=True), SYNCHRONOUS),
    (loop_cases.batched(3, 17, 9, 21), SYNCHRONOUS),
    (
        loop_cases.column_sum(300, 20),
        "tileify,cooperative-reduce{threads=32 rows=8 vector=1 order=rows}",
    ),
    (loop_cases.total(5000), "tileify,cooperative-reduce{threads=1024 rows=1 vector=4}"),
    (loop_cases.softmax(3, 700), "tileify,cooperative-reduce{threads=64 rows=1 vector=4}"),
    (loop_cases.argmax(3, 700), "tileify,cooperative-reduce{threads=128 rows=1 vector=1}"),
    (loop_cases.power_sums(3, 700), "tileify,cooperative-reduce{threads=64 rows=1 vector=4}"),
    (loop_cases.deviations(3, 700), "tileify,cooperative-reduce{threads=64 rows=1 vector=4}"),
)


@pytest.mark.parametrize(("case", "schedule"), BARRIERS, ids=lambda c: getattr(c, "name", ""))
def test_every_barrier_is_needed(case: loop_cases.Case, schedule: str) -> None:
    func = func_in(lowered(case, schedule))
    assert any(isinstance(op, kernel.BarrierOp) for op in func.walk())
    assert not survivors(func, case.inputs)


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("copies", ["", "async-copy,"], ids=["plain", "async"])
def test_every_part_of_a_ring_is_needed(copies: str, depth: int) -> None:
    case = loop_cases.gemm(50, 72, 7 * 16 - 4)
    func = func_in(lowered(case, GEMM.format(depth=depth, copies=copies)))
    assert error_of(run_kernel(func, case.inputs), case) <= 20
    assert any(isinstance(op, kernel.CpAsyncOp) for op in func.walk()) == bool(copies)
    assert not survivors(func, case.inputs)


def test_every_part_of_a_tma_ring_is_needed() -> None:
    """But for the two first waits, which wait for nothing."""
    found = survivors(ring(64, 64, 3, 8), [aligned(64, 64), aligned(64)])
    assert not found
    waits = survivors(ring(64, 64, 3, 8), [aligned(64, 64), aligned(64)], (kernel.MbarrierWaitOp,))
    assert [w[:29] for w in waits] == [f"kernel.mbarrier_wait %empty[{n}]"[:29] for n in (0, 1)]

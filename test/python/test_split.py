"""Kernels whose reduces are split, chunked, or whose blocks are regrouped give the same results."""

from __future__ import annotations

import kernels
import numpy as np
import pytest
from kernels import Case
from test_schedules import apply, check_bounds, parse
from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, ModuleOp, i64
from xdsl.ir import SSAValue

from dlc.backend.cuda.printer import dynamic_shared_bytes, parameter_types, print_kernel
from dlc.backend.host.launcher import host_arguments
from dlc.backend.host.runtime import HostKernel, compile_all
from dlc.dialects import kernel, tile
from dlc.registry import parse_pipeline

GUARD, CANARY = 1024, -12345.0


def run(case: Case, module: ModuleOp) -> None:
    """
    Runs the kernels of `@main` on the host, and compares the results with fp64. Every output,
    workspaces included, is poisoned first and has canaries around it.
    """
    apply(module, "materialize-tiles", round_trip=False)
    funcs = {op.name_: op for op in module.walk() if isinstance(op, kernel.FuncOp)}
    for f in funcs.values():
        check_bounds(f)
    apply(module, "vectorize-accesses,drop-redundant-barriers", round_trip=False)
    hosts = {n: HostKernel(print_kernel(f), n, parameter_types(f)) for n, f in funcs.items()}
    compile_all(hosts[n] for n, f in funcs.items() if f.grid_size)
    main = next(op for op in module.ops if isinstance(op, func.FuncOp))
    values: dict[SSAValue, np.ndarray] = dict(zip(main.body.block.args, case.inputs, strict=True))
    for op in main.body.block.ops:
        if isinstance(op, func.ReturnOp):
            compare(case, [values[v] for v in op.operands])
            return
        assert isinstance(op, kernel.LaunchOp)
        assert op.callee is not None
        memories = [poisoned(ref.type) for ref in op.callee.output_refs]
        outputs = [m[GUARD : m.size - GUARD] for m in memories]
        inputs = [values[v] for v in op.inputs]
        f = funcs[op.callee.name_]
        hosts[f.name_].launch(
            host_arguments(f, [a.ctypes.data for a in (*inputs, *outputs)]),
            f.grid_size,
            max(f.block_size, 1),
            dynamic_shared_bytes(f),
        )
        for memory, value, flat in zip(memories, op.outputs, outputs, strict=True):
            assert (memory[:GUARD] == CANARY).all()
            assert (memory[memory.size - GUARD :] == CANARY).all()
            values[value] = flat


def poisoned(type: object) -> np.ndarray:
    """A flat array for a memref that is poisoned, with canaries before and behind it."""
    assert isinstance(type, MemRefType)
    size = int(np.prod(type.get_shape(), dtype=int))
    memory = np.full(size + 2 * GUARD, CANARY, np.int64 if type.element_type == i64 else np.float32)
    memory[GUARD : GUARD + size] = -99 if type.element_type == i64 else np.nan
    return memory


def compare(case: Case, results: list[np.ndarray]) -> None:
    exact = [x.astype(np.float64) if x.dtype == np.float32 else x for x in case.inputs]
    for flat, expected in zip(results, case.expected(*exact), strict=True):
        result = flat.reshape(np.shape(expected))
        if result.dtype == np.int64:
            np.testing.assert_array_equal(result, expected)
            continue
        scale = np.abs(expected).max(initial=0)
        error = np.abs(result - expected).max(initial=0)
        # Each of n terms is rounded once, relative to sums that grow like the square root of n.
        assert error <= np.finfo(np.float32).eps * scale * max(4, 2 * case.longest**0.5)


def check(case: Case, pipeline: str, *, kernel_count: int) -> ModuleOp:
    """Schedules a kernel and runs it; every state between verifies and round-trips."""
    module = parse(case.text)
    apply(module, pipeline)
    kernel_ops = [op for op in module.walk() if isinstance(op, tile.KernelOp)]
    assert len(kernel_ops) == kernel_count, pipeline
    run(case, module.clone())
    return module


def linear(m: int, n: int, k: int) -> Case:
    """Two outputs, x @ w + residual and its relu times a row's factor, which is read before."""
    rng = np.random.default_rng(7)
    x, w, r, f = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n), (m,))
    )
    text = f"""
func.func @main(%x: tensor<{m}x{k}xf32>, %w: tensor<{k}x{n}xf32>, %r: tensor<{m}x{n}xf32>,
    %f: tensor<{m}xf32>) -> (tensor<{m}x{n}xf32>, tensor<{m}x{n}xf32>) {{
  %y, %z = loop.kernel @linear(%x: memref<{m}x{k}xf32> = %x, %w: memref<{k}x{n}xf32> = %w,
      %r: memref<{m}x{n}xf32> = %r, %f: memref<{m}xf32> = %f)
      -> (%y: memref<{m}x{n}xf32>, %z: memref<{m}x{n}xf32>) {{
    %zero = arith.constant 0.0 : f32
    loop.for %i in {m}, %j in {n} {{
      %e = loop.load %f[%i] : memref<{m}xf32>
      %acc = loop.reduce add %k in {k} -> f32 {{
        %a = loop.load %x[%i, %k] : memref<{m}x{k}xf32>
        %ae = arith.mulf %a, %e : f32
        %b = loop.load %w[%k, %j] : memref<{k}x{n}xf32>
        %p = arith.mulf %ae, %b : f32
        loop.yield %p : f32
      }}
      %c = loop.load %r[%i, %j] : memref<{m}x{n}xf32>
      %s = arith.addf %acc, %c : f32
      loop.store %s, %y[%i, %j] : memref<{m}x{n}xf32>
      %t = arith.maximumf %s, %zero : f32
      %u = arith.mulf %t, %e : f32
      loop.store %u, %z[%i, %j] : memref<{m}x{n}xf32>
    }}
  }}
  func.return %y, %z : tensor<{m}x{n}xf32>, tensor<{m}x{n}xf32>
}}
"""

    def expected(x: np.ndarray, w: np.ndarray, r: np.ndarray, f: np.ndarray) -> list[np.ndarray]:
        y = (x * f[:, None]) @ w + r
        return [y, np.maximum(y, 0) * f[:, None]]

    return Case(f"linear_{m}x{n}x{k}", text, (x, w, r, f), expected, k)


def row_norm(rows: int, columns: int) -> Case:
    """Each row over its largest element: a loop follows the reduce."""
    x = np.random.default_rng(8).standard_normal((rows, columns)).astype(np.float32)
    type = f"memref<{rows}x{columns}xf32>"
    text = f"""
func.func @main(%x: tensor<{rows}x{columns}xf32>) -> tensor<{rows}x{columns}xf32> {{
  %y = loop.kernel @row_norm(%x: {type} = %x) -> (%y: {type}) {{
    loop.for %row in {rows} {{
      %m = loop.reduce max %k in {columns} -> f32 {{
        %a = loop.load %x[%row, %k] : {type}
        loop.yield %a : f32
      }}
      loop.for %c in {columns} {{
        %a = loop.load %x[%row, %c] : {type}
        %q = arith.divf %a, %m : f32
        loop.store %q, %y[%row, %c] : {type}
      }}
    }}
  }}
  func.return %y : tensor<{rows}x{columns}xf32>
}}
"""
    return Case(
        f"row_norm_{rows}x{columns}",
        text,
        (x,),
        lambda x: [x / x.max(axis=1, keepdims=True)],
        columns,
    )


THEN = "tileify,blockify-launch{block=4,16 thread=4,4},register-tile{extents=4}"
GEMM = (
    "blockify-launch{block=8,16 thread=4,8},stage-inputs{budget=8192},register-tile,mark-unroll"
    "{limit=16}"
)
SPLITS = (
    # Chunks per split: even, ragged, more splits than chunks (the last have none).
    (kernels.gemm(16, 32, 32), "chunk-matmul-k{bk=8}", 2),
    (kernels.gemm(13, 31, 47), "chunk-matmul-k{bk=8}", 4),
    (kernels.gemm(13, 31, 23, transposed=True), "chunk-matmul-k{bk=8}", 7),
    (kernels.gemm(1, 29, 37), "chunk-matmul-k{bk=5}", 3),
    (kernels.gemm(7, 1, 37), "", 3),
    (kernels.batched(2, 9, 11, 19), "chunk-matmul-k{bk=4}", 3),
    (linear(13, 17, 53), "chunk-matmul-k{bk=4}", 5),
)
REDUCES = (
    (kernels.total(1009), 7),
    (kernels.total(3), 5),
    (kernels.argmax(5, 77), 4),
    (row_norm(3, 101), 3),
    (kernels.column_sum(53, 37), 4),
)


@pytest.mark.parametrize(("case", "chunk", "splits"), SPLITS, ids=lambda v: getattr(v, "name", v))
def test_split_contractions(case: Case, chunk: str, splits: int) -> None:
    steps = ["tileify", chunk, f'split-matmul-k{{splits={splits} then="{THEN}"}}', GEMM]
    module = check(case, ",".join(s for s in steps if s), kernel_count=2)
    first, second = (op for op in module.walk() if isinstance(op, tile.KernelOp))
    assert second.name_ == f"{first.name_}_combine"
    assert second.schedule is not None
    # What bare steps do to the second kernel is what `then` says, with the options there.
    assert "register-tile{extents=4}" in second.schedule.data


@pytest.mark.parametrize(("case", "splits"), REDUCES, ids=lambda v: getattr(v, "name", v))
def test_split_other_reduces(case: Case, splits: int) -> None:
    split = f"tileify,split-matmul-k{{splits={splits}}}"
    check(case, f"{split},cooperative-reduce{{threads=8 vector=4}},stage-inputs", kernel_count=2)


def test_every_prefix_of_a_split() -> None:
    case = kernels.gemm(5, 11, 13)
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
            run(case, module.clone())


def test_splitting_twice_and_the_empty_grid() -> None:
    case = kernels.gemm(0, 6, 9)
    check(case, "tileify,split-matmul-k{splits=3}", kernel_count=2)
    module = parse(kernels.total(64).text)
    apply(module, "tileify,split-matmul-k{splits=4},split-matmul-k{splits=2}")
    names = [op.name_ for op in module.walk() if isinstance(op, tile.KernelOp)]
    # The launch with a block axis declines; the kernel that combines has a reduce of its own.
    assert names == ["total", "total_combine", "total_combine_combine"]
    run(kernels.total(64), module)


def test_a_schedule_in_a_schedule_is_text() -> None:
    text = f'split-matmul-k{{splits=3 then="{THEN}"}}'
    (step,) = parse_pipeline(text)
    assert str(step) == text


CHUNKS = (
    (kernels.softmax(6, 100), "cooperative-reduce{threads=4 vector=4},chunk-reduce{bk=2}", 0),
    (kernels.softmax(5, 67), "chunk-reduce{bk=16}", 0),
    (
        kernels.column_sum(53, 33),
        "cooperative-reduce{threads=2 rows=8 vector=1},chunk-reduce{bk=5}",
        0,
    ),
    (kernels.total(1000), "cooperative-reduce{threads=32 vector=2},chunk-reduce{bk=5}", 0),
    (kernels.argmax(5, 77), "chunk-reduce{bk=1}", 0),
    # Every row of a block reads the vector: a chunk of it is staged at a time, and of the shift.
    (kernels.gemm(37, 1, 43), "chunk-reduce{bk=8},blockify-launch{block=8,1 thread=8,1}", 2),
)


@pytest.mark.parametrize(("case", "steps", "staged"), CHUNKS, ids=lambda v: getattr(v, "name", v))
def test_chunks_of_reduces(case: Case, steps: str, staged: int) -> None:
    module = check(case, f"tileify,{steps},stage-inputs{{budget=256}}", kernel_count=1)
    inner = [op for op in module.walk() if isinstance(op, tile.ReduceOp)]
    assert any(isinstance(op.parent_op(), tile.ReduceOp) for op in inner)
    stages = [op for op in module.walk() if isinstance(op, tile.StageOp)]
    assert len([op for op in stages if isinstance(op.parent_op(), tile.ReduceOp)]) == staged


PANELS = (
    (kernels.gemm(37, 64, 9), 4),  # 8 block columns: even
    (kernels.gemm(23, 61, 9), 3),  # 8 of 9
    (kernels.gemm(17, 33, 9, transposed=True), 4),  # 5 of 8
    (kernels.batched(2, 17, 25, 9), 3),  # 4 of 6, and a batch
    (kernels.pad_pointwise(19, 53), 2),  # 7 of 8
)


@pytest.mark.parametrize(("case", "group"), PANELS, ids=lambda v: getattr(v, "name", v))
def test_panels_of_blocks(case: Case, group: int) -> None:
    blockify = f"blockify-launch{{block=8,8 thread=4,8 group={group}}}"
    module = check(
        case, f"tileify,{blockify},stage-inputs{{budget=8192}},register-tile", kernel_count=1
    )
    (launch,) = (op for op in module.walk() if isinstance(op, tile.LaunchOp))
    assert [a.name_hint for a in launch.axes_of("block")][-3:] == ["bjo", "bi", "bji"]

"""Every state between two scheduling steps is right: prefixes, left-out steps, random options."""

from __future__ import annotations

import random

import kernels
import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.parser import Parser

from dlc.backend.cuda.printer import dynamic_shared_bytes, parameter_types, print_kernel
from dlc.backend.host.launcher import host_arguments
from dlc.backend.host.runtime import HostKernel
from dlc.dialects import kernel
from dlc.ir.dominance import verify_dominance
from dlc.ir.expr import within
from dlc.registry import PASSES, parse_pipeline, register

STEPS = list(PASSES)[list(PASSES).index("tileify") : list(PASSES).index("materialize-tiles")]


def parse(text: str) -> ModuleOp:
    return Parser(register(Context()), text).parse_module()


def apply(module: ModuleOp, pipeline: str, *, round_trip: bool = True) -> None:
    """Runs passes; after each the module verifies and its text parses back to itself."""
    for step in parse_pipeline(pipeline):
        step.apply(Context(), module)
        module.verify()
        verify_dominance(module)
        if round_trip:
            assert str(parse(str(module))) == str(module)


def check_bounds(func: kernel.FuncOp) -> None:
    """Every load stays in its memref, by the ranges of its indices and its conditions."""
    for op in func.walk():
        if isinstance(op, kernel.LoadOp):
            assert isinstance(op.ref.type, MemRefType)
            for subscript, extent in zip(op.subscripts, op.ref.type.get_shape(), strict=True):
                sure = extent == 0 or not within(subscript, extent, op.where)
                assert sure, f"{op} may leave its memref"


_results: dict[str, str] = {}


GUARD, CANARY = 4096, -12345


def _guarded_output(expected: np.ndarray) -> np.ndarray:
    """A poisoned output with canaries before and behind it, which no store may touch."""
    type = np.int64 if expected.dtype == np.int64 else np.float32
    whole = np.full(expected.size + 2 * GUARD, CANARY, type)
    whole[GUARD:-GUARD] = -99 if type is np.int64 else np.nan
    return whole


def check(case: kernels.Case, pipeline: str, **launch: str) -> None:
    """Schedules a kernel, runs it on the host and compares it with fp64."""
    module = parse(case.text)
    apply(module, pipeline)
    run(case, module, pipeline, **launch)


def run(case: kernels.Case, module: ModuleOp, pipeline: str, **launch: str) -> None:
    """Materializes a state and runs it on the host; equal states and equal texts run once."""
    state = f"{case.name} {sorted(launch.items())} {module}"
    if state in _results:
        return
    _results[state] = pipeline
    module = module.clone()
    apply(module, "materialize-tiles")
    (func,) = [op for op in module.walk() if isinstance(op, kernel.FuncOp)]
    check_bounds(func)
    apply(module, "vectorize-accesses,drop-redundant-barriers")
    source = print_kernel(func)
    key = f"{case.name} {sorted(launch.items())} {source}"
    if key in _results:
        return
    _results[key] = pipeline
    expected = case.expected(
        *(x.astype(np.float64) if x.dtype == np.float32 else x for x in case.inputs)
    )
    guarded = [_guarded_output(np.asarray(e)) for e in expected]
    outputs = [whole[GUARD:-GUARD] for whole in guarded]
    if func.grid_size:
        HostKernel(source, func.name_, parameter_types(func)).launch(
            host_arguments(func, [a.ctypes.data for a in (*case.inputs, *outputs)]),
            func.grid_size,
            func.block_size,
            dynamic_shared_bytes(func),
            **launch,  # pyright: ignore[reportArgumentType]
        )
    for whole, flat, reference in zip(guarded, outputs, expected, strict=True):
        assert (whole[:GUARD] == CANARY).all()
        assert (whole[-GUARD:] == CANARY).all()
        result = flat.reshape(np.shape(reference))
        if result.dtype == np.int64:
            np.testing.assert_array_equal(result, reference)
            continue
        scale = np.abs(reference).max(initial=0)
        error = np.abs(result - reference).max(initial=0)
        # Each of n terms is rounded once, relative to sums that grow like the square root of n.
        bound = np.finfo(np.float32).eps * scale * max(4, 2 * case.longest**0.5)
        assert error <= bound, f"{case.name} after {pipeline}: error {error:.3g} > {bound:.3g}"


@pytest.mark.parametrize("case", kernels.SMALL, ids=lambda c: c.name)
def test_every_prefix_and_every_step_left_out(case: kernels.Case) -> None:
    module = parse(case.text)
    run(case, module, "")
    for n, step in enumerate(STEPS):
        without = module.clone()
        apply(without, ",".join(STEPS[n + 1 :]), round_trip=False)
        run(case, without, f"all steps but {step}")
        apply(module, step)
        run(case, module, f"all steps up to {step}")


@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
@pytest.mark.parametrize("case", kernels.SMALL[:4], ids=lambda c: c.name)
def test_fiber_orders(case: kernels.Case, order: str) -> None:
    check(case, ",".join(STEPS), order=order)


EDGES = (
    kernels.gemm(1, 50, 40),
    kernels.gemm(127, 1, 40),
    kernels.gemm(5, 6, 1),
    kernels.gemm(5, 6, 0),
    kernels.gemm(0, 6, 5),
    kernels.gemm(128, 64, 32),
    kernels.gemm(128, 64, 32, transposed=True),
    kernels.softmax(1, 1),
    kernels.softmax(3, 1),
    kernels.softmax(2, 2048),
    kernels.softmax(127, 127),
    kernels.column_sum(1, 5),
    kernels.column_sum(0, 5),
    kernels.column_sum(5, 0),
    kernels.column_sum(300, 2000),
    kernels.total(0),
    kernels.total(1),
    kernels.total(5000),
    kernels.argmax(3, 4096),
    kernels.pad_pointwise(1, 1),
    kernels.pad_pointwise(3, 4096),
    kernels.pad_pointwise(0, 4),
)


@pytest.mark.parametrize("case", EDGES, ids=lambda c: c.name)
def test_edge_sizes(case: kernels.Case) -> None:
    check(case, "")
    check(case, ",".join(STEPS))


def random_schedule(rng: random.Random) -> str:
    """Steps with random options, mostly in order, some left out."""

    def pick(*options: int) -> int:
        return rng.choice(options)

    thread = [pick(1, 2, 4, 8, 16), pick(1, 4, 8, 16)]
    extents = [pick(1, 2, 3, 4, 8), pick(1, 2, 4, 8)]
    block = [t * e for t, e in zip(thread, extents, strict=True)]
    text = {
        "tileify": "tileify",
        "chunk": f"chunk-matmul-k{{bk={pick(1, 3, 8, 16)}}}",
        "cooperative": f"cooperative-reduce{{threads={pick(2, 4, 8, 32, 64, 96)} "
        f"rows={pick(1, 2, 5, 8)} vector={pick(1, 2, 4)}}}",
        "blockify": f"blockify-launch{{block={block[0]},{block[1]} "
        f"thread={thread[0]},{thread[1]}}}",
        "stage": f"stage-inputs{{budget={pick(512, 4096, 49152, 200000)}}}",
        "register": f"register-tile{{extents={extents[0]},{extents[1]}}}",
        "unroll": f"mark-unroll{{limit={pick(4, 16)}}}",
    }
    names = [name for name in text if rng.random() < 0.85 or name == "tileify"]
    if rng.random() < 0.2:
        rng.shuffle(names)
    return ",".join(text[name] for name in names)


@pytest.mark.parametrize("seed", range(6))
def test_random_schedules(seed: int) -> None:
    rng = random.Random(seed)
    for case in kernels.SMALL:
        check(case, random_schedule(rng))

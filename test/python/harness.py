"""Scheduling kernels step by step, running them in the interpreter or on the host, judging them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import loop_cases
import numpy as np
from verified import verify
from xdsl.context import Context
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr, f16, f32, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.parser import Parser

from dlc.backend.cuda.print.printer import dynamic_shared_bytes, parameter_types, print_kernel
from dlc.backend.host.host_backend import host_arguments
from dlc.backend.host.host_kernel import HostKernel, compile_all
from dlc.diagnostics import TextError
from dlc.dialects import kernel, loop
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.kernel_blocks import counters_of
from dlc.error_report import format_error
from dlc.ir.bounds import within
from dlc.ir.expr import Expr
from dlc.registry import PASSES, parse_pipeline, register
from dlc.simulator import Hazard, run_module
from dlc.target import TARGET_ATTRIBUTE
from dlc.transforms.step import SchedulingPass, kernels_of

STEPS = tuple(PASSES)[list(PASSES).index("tileify") : list(PASSES).index("bind-axes")]
"""The sixteen scheduling steps, in order."""
GUARD, CANARY = 1024, -12344
EPSILON = float(np.finfo(np.float32).eps)
TF32_EPSILON = 2.0**-10

Array = np.ndarray[Any, Any]


def parse(text: str) -> ModuleOp:
    module = Parser(register(Context()), text).parse_module()
    module.verify()
    return module


def apply(module: ModuleOp, pipeline: str, *, round_trip: bool = True) -> None:
    """Runs passes; after each the module verifies, after the last its text parses to itself."""
    for step in parse_pipeline(pipeline):
        step.apply(Context(), module)
        verify(module)
    if round_trip:
        read_back(str(module))


def obeyed(module: ModuleOp, step: str) -> list[TextError]:
    """
    Applies a step to each kernel that it can be obeyed on; the errors of the others, which stay as
    they are. Each error has its place in the step or in the kernel's schedule.
    """
    (scheduling,) = parse_pipeline(step)
    assert isinstance(scheduling, SchedulingPass)
    errors: list[TextError] = []
    unchanged = True
    for op in list(kernels_of(module)):
        before = str(op)
        try:
            scheduling.act(op, module)
        except TextError as error:
            errors.append(error)
            unchanged &= str(op) == before
    assert unchanged
    verify(module)
    names = {scheduling.name, *(field.name for field in fields(scheduling))}
    for error in errors:
        assert error.text[error.start :][: error.width] in names, error
        assert "^" in format_error(error)
    return errors


@cache
def read_back(text: str) -> None:
    """The text of a verified module parses back to itself, which is seen once of a text."""
    assert str(Parser(register(Context()), text).parse_module()) == text


def scheduled(case: loop_cases.Case, schedule: str | None, target: str = "sm_90") -> ModuleOp:
    """The kernels of a case, each with a schedule for a target; by default those of dlc."""
    module = parse(case.text)
    module.attributes[TARGET_ATTRIBUTE] = StringAttr(target)
    if schedule is None:
        apply(module, "schedule-kernels", round_trip=False)
    for op in module.walk():
        if isinstance(op, loop.KernelOp) and schedule is not None:
            op.schedule = StringAttr(schedule)
    return module


def lowered(module: ModuleOp, *, round_trip: bool = True) -> ModuleOp:
    """A copy of a module at any step, in Kernel IR."""
    module = module.clone()
    apply(module, "bind-axes,lower-stages,lower-reduces,lower-registers", round_trip=round_trip)
    check_bounds(module)
    apply(module, "place-barriers,vectorize-accesses", round_trip=round_trip)
    return module


def check_bounds(module: ModuleOp) -> None:
    """Every load and copy stays in its source, by ranges and conditions of indices alone."""
    for op in module.walk():
        if isinstance(op, kernel.LoadOp):
            _check_inside(op, op.ref.type)
        elif isinstance(op, kernel.CpAsyncOp):
            _check_inside(op, op.source.type)


def _check_inside(op: IndexedOp, type: Attribute) -> None:
    assert isinstance(type, MemRefType)
    known = [*op.where, *_conditions_around(op)]
    for subscript, extent in zip(op.subscripts, type.get_shape(), strict=True):
        assert extent == 0 or not within(subscript, extent, known), f"{op} may leave {type}"


def _conditions_around(op: Operation) -> Iterator[Expr]:
    """What holds wherever an operation runs: the conditions of each `scf.if` it is in."""
    while (parent := op.parent_op()) is not None:
        if isinstance(parent, scf.IfOp) and op.parent_region() is parent.true_region:
            if isinstance(test := parent.cond.owner, kernel.TestOp):
                yield from test.where
        op = parent


def interpret(case: loop_cases.Case, module: ModuleOp, what: str) -> None:
    """Runs kernels in the interpreter, which finds hazards, and compares the results with fp64."""
    try:
        results = run_module(module, case.inputs)
    except Hazard as hazard:
        raise AssertionError(f"{case.name}, {what}: {hazard}") from hazard
    compare(case, results, what)


def on_host(
    case: loop_cases.Case, module: ModuleOp, what: str, launches: Sequence[dict[str, Any]] = ({},)
) -> None:
    """Compiles kernels for the host, runs them with each of some options, compares with fp64."""
    funcs = {op.name_: op for op in module.walk() if isinstance(op, kernel.FuncOp)}
    hosts = {n: HostKernel(print_kernel(f), n, parameter_types(f)) for n, f in funcs.items()}
    compile_all(hosts[n] for n, f in funcs.items() if f.grid_size)
    for options in launches:
        compare(case, _launch_all(case, module, hosts, options), f"{what}, {options}")


def _launch_all(
    case: loop_cases.Case, module: ModuleOp, hosts: dict[str, HostKernel], options: dict[str, Any]
) -> list[Array]:
    """What `@main` returns. Outputs, workspaces too, are zeroed or poisoned, and have canaries."""
    main = next(op for op in module.ops if isinstance(op, func.FuncOp))
    values: dict[SSAValue, Array] = dict(zip(main.body.block.args, case.inputs, strict=True))
    for op in main.body.block.ops:
        if isinstance(op, func.ReturnOp):
            return [values[v] for v in op.operands]
        assert isinstance(op, kernel.LaunchOp)
        callee = op.callee
        assert callee is not None
        zeroed = callee.zeroed_refs
        memories = [_new_memory(ref.type, zeroed=ref in zeroed) for ref in callee.output_refs]
        outputs = [m[GUARD : m.size - GUARD] for m in memories]
        addresses = [a.ctypes.data for a in (*(values[v] for v in op.inputs), *outputs)]
        if callee.grid_size:
            hosts[callee.name_].launch(
                host_arguments(callee, addresses),
                callee.grid_size,
                callee.block_size,
                dynamic_shared_bytes(callee),
                **options,
            )
        counted = counters_of(callee)
        for ref, flat in zip(callee.output_refs, outputs, strict=True):
            assert ref not in counted or not flat.any(), "the count of blocks is 0 again"
        for memory, value, flat in zip(memories, op.outputs, outputs, strict=True):
            assert (memory[:GUARD] == CANARY).all()
            assert (memory[memory.size - GUARD :] == CANARY).all()
            values[value] = flat
    raise AssertionError("@main returns nothing")


def _new_memory(type: object, *, zeroed: bool) -> Array:
    """Flat memory for a memref, zeroed or poisoned, with canaries before and behind it."""
    assert isinstance(type, MemRefType)
    size = int(np.prod(type.get_shape(), dtype=int))
    integers = {i64: np.int64, i32: np.int32}
    dtype = (integers | {f32: np.float32, f16: np.float16})[type.element_type]
    memory = np.full(size + 2 * GUARD, CANARY, dtype)
    poison = -99 if type.element_type in integers else np.nan
    memory[GUARD : GUARD + size] = 0 if zeroed else poison
    return memory


def reference(case: loop_cases.Case) -> list[Array]:
    """The results in fp64."""
    floats = (np.float16, np.float32)
    exact = (x.astype(np.float64) if x.dtype in floats else x for x in case.inputs)
    return [np.asarray(e) for e in case.expected(*exact)]


def compare(case: loop_cases.Case, results: Sequence[Array], what: str) -> None:
    """
    The largest error of a result may be 2 * sqrt(n) ulp of its largest element, n the terms of the
    longest reduce, and 4 ulp at least: each of n additions rounds a partial sum by up to half an
    ulp, either way, and the scalar operations around it by some ulp more. A result of f16 is
    rounded once, by half an ulp of its own. Where a schedule, which `what` names, multiplies in
    tf32, an ulp is one of that: factors have 10 bits behind the first.
    """
    epsilon = TF32_EPSILON if "precision=tf32" in what else EPSILON
    for found, expected in zip(results, reference(case), strict=True):
        result = found.reshape(expected.shape)
        if result.dtype == np.int64:
            np.testing.assert_array_equal(result, expected)
            continue
        scale = np.abs(expected).max(initial=0)
        error = np.abs(result - expected).max(initial=0)  # NaN where something is NaN
        bound = epsilon * scale * max(4, 2 * case.longest**0.5)
        if result.dtype == np.float16:
            bound += float(np.finfo(np.float16).eps) / 2 * scale
        assert error <= bound, f"{case.name}, {what}: error {error:.3g} > {bound:.3g}"

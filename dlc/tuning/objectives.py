"""
What a schedule is judged by: seconds, predicted or measured.

An objective is a function of a kernel and a schedule, run in a process of its own if it runs
anything but dlc. It raises what is wrong with a candidate: a sentence, with which it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

import torch

from dlc.analysis.loop.loops import longest_reduction
from dlc.backend import BackendError
from dlc.backend.cuda.print.printer import print_kernel
from dlc.backend.cuda.run import sass
from dlc.backend.cuda.run.nvcc import Cubin, compile_cubin, find_nvcc
from dlc.backend.executor import Executor, default_backend, get_backend
from dlc.schedule.scheduled_time import Compiled, scheduled_seconds
from dlc.tuning.candidate_program import Subject
from dlc_bench import subject as bench
from dlc_bench.contender import Contender, Report, dlc_module
from dlc_bench.device import find_device
from dlc_bench.measure import Plan, Result, measure
from dlc_bench.work import Work

ObjectiveName = Literal["estimate", "static", "host", "gpu"]
OBJECTIVES: tuple[ObjectiveName, ...] = get_args(ObjectiveName)

ALONE = Plan(warm_up_seconds=0.05, seconds=0.3, least_rounds=5)
"""How long a candidate is timed."""
EACH_SECONDS = 0.2
"""How long each of several is timed, side by side."""
WORD = 4
"""Bytes of a register."""


class Failure(Exception):
    """A candidate without a score: the message says why."""


@dataclass(frozen=True)
class Score:
    """What an objective found of a candidate."""

    seconds: float
    registers: int | None = None
    """The most of its kernels', where they were compiled."""


Expected = list[torch.Tensor]
"""What the results of a kernel should be, if the objective looks at them."""


@dataclass(frozen=True)
class Objective:
    """An objective by its name."""

    name: ObjectiveName
    score: Callable[[Subject, str, Expected], Score]
    """Of a kernel with a schedule."""
    isolated: bool
    """True if it runs in a process of its own, which may die."""
    measures: str
    """What its seconds are."""
    side_by_side: Callable[[Subject, Sequence[str], Expected], list[Score | Failure]] | None = None
    """Of several schedules of a kernel, timed in turn; None if nothing is run and timed."""
    prepare: Callable[[Subject, str], None] | None = None
    """
    What can be done at once for several candidates before each is judged alone; None if they can
    be judged at once.
    """


def objective(name: str, *, elsewhere: bool = False) -> Objective:
    """
    An objective; ValueError for an unknown one, BackendError where it cannot be had here, unless
    candidates are judged `elsewhere`.
    """
    match name:
        case "estimate":
            return Objective(name, by_estimate, False, "predicted")
        case "static":
            if not elsewhere:
                find_nvcc()
                sass.find_nvdisasm()
            return Objective(name, by_machine_code, True, "predicted of its SASS")
        case "host":
            clocks = partial(by_clock, "host"), partial(by_clocks, "host")
            return Objective(name, clocks[0], True, "measured on the host", clocks[1])
        case "gpu":
            if not elsewhere and default_backend() != "cuda":
                raise BackendError(
                    "there is no GPU here to measure on: --objective static goes by machine code, "
                    "host by the CPU's clock"
                )
            clocks = partial(by_clock, "cuda"), partial(by_clocks, "cuda")
            return Objective(name, clocks[0], True, "measured on the GPU", clocks[1], compiled)
        case _:
            raise ValueError(f"expected an objective of {', '.join(OBJECTIVES)}, found '{name}'")


def by_estimate(subject: Subject, schedule: str, expected: Expected) -> Score:
    """The estimate of the kernels that the schedule makes."""
    target, funcs = subject.target, subject.funcs(schedule)
    return Score(subject.corrected([scheduled_seconds(func, target) for func in funcs]))


def by_machine_code(subject: Subject, schedule: str, expected: Expected) -> Score:
    """The same, with registers, spills and the share of multiply-adds of what nvcc makes."""
    target = subject.target
    seconds, registers = list[float](), 0
    for func in subject.funcs(schedule):
        cubin = compile_cubin(print_kernel(func), target.name)
        seconds.append(scheduled_seconds(func, target, _compiled(cubin)))
        registers = max(registers, cubin.registers)
    return Score(subject.corrected(seconds), registers)


def compiled(subject: Subject, schedule: str) -> None:
    """Has nvcc compile a schedule's kernels, whose machine code is then in the cache."""
    for func in subject.funcs(schedule):
        compile_cubin(print_kernel(func), subject.target.name)


def _compiled(cubin: Cubin) -> Compiled:
    functions = sass.parse(sass.disassemble(cubin.path))
    function = max(functions, key=lambda f: len(f.instructions))
    loop = function.hot_loop
    share = 0.0 if loop is None else sass.fma_share(function.body(loop))
    return Compiled(cubin.registers, cubin.spill_bytes / WORD, share)


def by_clock(backend: str, subject: Subject, schedule: str, expected: Expected) -> Score:
    """As `dlc run --bench` times a contender: after its results were found right."""
    (found,) = _measured(backend, subject, [schedule], expected, ALONE)
    if isinstance(found, Failure):
        raise found
    return found


def by_clocks(
    backend: str, subject: Subject, schedules: Sequence[str], expected: Expected
) -> list[Score | Failure]:
    """Several in turn, round by round."""
    plan = replace(ALONE, seconds=EACH_SECONDS * len(schedules))
    return _measured(backend, subject, schedules, expected, plan)


def _measured(
    backend: str, subject: Subject, schedules: Sequence[str], expected: Expected, plan: Plan
) -> list[Score | Failure]:
    device = find_device(backend)
    program = bench.Subject(
        _no_eager,
        [t.to(device.torch) for t in subject.arguments()],
        lambda: [t.double() if t.is_floating_point() else t for t in expected],
        Work(0.0, 0.0, 0.0),
        has_eager=False,
    )
    contenders = [_contender(subject, schedule, backend) for schedule in schedules]
    longest, how = longest_reduction(subject.module), subject.target.precision
    found = measure(program, contenders, device, plan, longest_reduction=longest, precision=how)
    return [_score(found[schedule]) for schedule in schedules]


def _no_eager(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    raise NotImplementedError("PyTorch has no such program")


def _contender(subject: Subject, schedule: str, backend: str) -> Contender:
    def make(program: bench.Subject, report: Report) -> bench.Call:
        executor = Executor(subject.lowered(schedule), get_backend(backend))
        return dlc_module(executor).make(program, report)

    return Contender(schedule, make)


def _score(result: Result) -> Score | Failure:
    if result.error is not None or result.best is None:
        return Failure(result.error or "it was not timed")
    return Score(result.best.median)

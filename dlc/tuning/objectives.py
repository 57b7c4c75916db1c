"""
What a schedule is judged by: seconds, predicted or measured.

An objective is a function of a kernel and a schedule, run in a process of its own if it runs
anything but dlc. It raises what is wrong with a candidate: a sentence, with which it is kept.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch

from dlc.backend import BackendError
from dlc.backend.cuda.print.printer import print_kernel
from dlc.backend.cuda.run import sass
from dlc.backend.cuda.run.nvcc import Cubin, compile_cubin, find_nvcc
from dlc.backend.executor import Executor, default_backend, get_backend
from dlc.schedule.scheduled_time import Compiled, scheduled_seconds
from dlc.tuning.candidate_program import Subject

ObjectiveName = Literal["estimate", "static", "host", "gpu"]
OBJECTIVES: tuple[ObjectiveName, ...] = get_args(ObjectiveName)

SECONDS = 0.3
"""How long a candidate is timed."""
LEAST_ROUNDS, MOST_ROUNDS = 5, 200
WORD = 4
"""Bytes of a register."""


class WrongResult(Exception):
    """A candidate computes something else than the default schedule."""


@dataclass(frozen=True)
class Score:
    """What an objective found of a candidate."""

    seconds: float
    registers: int | None = None
    """The most of its kernels', where they were compiled."""


@dataclass(frozen=True)
class Objective:
    """An objective by its name."""

    name: ObjectiveName
    score: Callable[[Subject, str, list[torch.Tensor]], Score]
    """Of a kernel with a schedule, whose results should be these, if results are looked at."""
    isolated: bool
    """True if it runs in a process of its own, which may die."""
    runs: bool
    """True if it runs the kernel, and wants to know what its results should be."""
    measures: str
    """What its seconds are."""
    exact: bool
    """True if it gives the same each time."""


def objective(name: str) -> Objective:
    """An objective; ValueError for an unknown one, BackendError where it cannot be had here."""
    match name:
        case "estimate":
            return Objective(name, by_estimate, False, False, "predicted", True)
        case "static":
            find_nvcc()
            sass.find_nvdisasm()
            return Objective(name, by_machine_code, True, False, "predicted of its SASS", True)
        case "host":
            score = partial(by_clock, "host")
            return Objective(name, score, True, True, "measured on the host", False)
        case "gpu":
            if default_backend() != "cuda":
                raise BackendError(
                    "there is no GPU here to measure on: --objective static goes by machine code, "
                    "host by the CPU's clock"
                )
            score = partial(by_clock, "cuda")
            return Objective(name, score, True, True, "measured on the GPU", False)
        case _:
            raise ValueError(f"expected an objective of {', '.join(OBJECTIVES)}, found '{name}'")


def by_estimate(subject: Subject, schedule: str, expected: list[torch.Tensor]) -> Score:
    """The estimate of the kernels that the schedule makes."""
    target = subject.target
    return Score(sum(scheduled_seconds(func, target) for func in subject.funcs(schedule)))


def by_machine_code(subject: Subject, schedule: str, expected: list[torch.Tensor]) -> Score:
    """The same, with registers, spills and the share of multiply-adds of what nvcc makes."""
    target = subject.target
    seconds, registers = 0.0, 0
    for func in subject.funcs(schedule):
        cubin = compile_cubin(print_kernel(func), target.name)
        seconds += scheduled_seconds(func, target, _compiled(cubin))
        registers = max(registers, cubin.registers)
    return Score(seconds, registers)


def _compiled(cubin: Cubin) -> Compiled:
    functions = sass.parse(sass.disassemble(cubin.path))
    function = max(functions, key=lambda f: len(f.instructions))
    loop = function.hot_loop
    share = 0.0 if loop is None else sass.fma_share(function.body(loop))
    return Compiled(cubin.registers, cubin.spill_bytes / WORD, share)


def by_clock(backend: str, subject: Subject, schedule: str, expected: list[torch.Tensor]) -> Score:
    """The median of calls, after one whose results are checked."""
    place: Any = get_backend(backend)
    executor = Executor(subject.lowered(schedule), place)
    arguments = [t.to(place.device) for t in subject.arguments()]
    if wrong := subject.complaint(executor(arguments), expected):
        raise WrongResult(wrong)
    call = partial(executor, arguments)
    return Score(_timed(call, torch.cuda.synchronize if backend == "cuda" else _nothing))


def _nothing() -> None:
    """What waits for the host: calls return when they are done."""


def _timed(call: Callable[[], object], wait: Callable[[], None]) -> float:
    """The median of the seconds of calls, as many as fit in the time."""
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    call()
    wait()
    while len(times) < LEAST_ROUNDS or (time.perf_counter() < end and len(times) < MOST_ROUNDS):
        begin = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)

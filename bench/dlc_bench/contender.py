"""Who is measured: dlc, eager PyTorch, torch.compile, and whatever is plugged in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Protocol

import torch

from dlc.backend.executor import BackendLike, Executor
from dlc.compiler import compile as dlc_compile
from dlc_bench.subject import Call, Subject

DLC, EAGER, COMPILE, AUTOTUNE = "dlc", "eager", "torch.compile", "max-autotune"
RUN_SECONDS = 30.0
"""What a step that runs kernels may take."""
COMPILE_SECONDS = 180.0
AUTOTUNE_SECONDS = 420.0


class TakesNoPart(Exception):
    """A contender does not do this subject, which is no error of it."""

    def __str__(self) -> str:
        return "takes no part"


class Report(Protocol):
    """Is told what happens next, and how many seconds it may take."""

    def __call__(self, step: str, seconds: float) -> None: ...


@dataclass(frozen=True)
class Contender:
    """An implementation, made for a subject; what it cannot do it raises."""

    name: str
    make: Callable[[Subject, Report], Call]
    seconds: float = COMPILE_SECONDS
    """What making it may take."""
    launches: Callable[[], int | None] = lambda: None
    """Kernels of a call, where it is known without a GPU."""


def eager() -> Contender:
    return Contender(EAGER, lambda subject, report: subject.call)


def torch_compile() -> Contender:
    """torch.compile in its default mode with static shapes."""
    return Contender(COMPILE, lambda subject, report: _compiled(subject, None))


def autotune() -> Contender:
    """torch.compile with static shapes, which tries Triton's and cuBLAS's kernels by timing."""
    mode = "max-autotune-no-cudagraphs"
    return Contender(AUTOTUNE, lambda subject, report: _compiled(subject, mode), AUTOTUNE_SECONDS)


PEERS = {EAGER: eager, COMPILE: torch_compile, AUTOTUNE: autotune}
"""What makes the contenders that are PyTorch, by name."""


def _compiled(subject: Subject, mode: str | None) -> Call:
    # Tensors are arguments of their own: the elements of a list would be guarded one by one.
    def function(*tensors: torch.Tensor) -> Any:
        return subject.call(tensors)

    # Dynamo writes into the globals of what it compiles. The program of a text has those of this
    # module within reach: had they grown, torch.compile would compile again, and then give up.
    own = FunctionType(function.__code__, dict(globals()), closure=function.__closure__)
    compiled = torch.compile(own, mode=mode, dynamic=False)
    compiled(*subject.tensors)  # this is when it compiles
    state = torch.are_deterministic_algorithms_enabled()

    def call(tensors: Sequence[torch.Tensor]) -> Any:
        # In another state, as that which fills memory, torch.compile would compile again, and what
        # is checked would not be what is timed; the memory that its kernels take is never filled.
        if (other := torch.are_deterministic_algorithms_enabled()) == state:
            return compiled(*tensors)
        warn = torch.is_deterministic_algorithms_warn_only_enabled()
        torch.use_deterministic_algorithms(state)
        try:
            return compiled(*tensors)
        finally:
            torch.use_deterministic_algorithms(other, warn_only=warn)

    return call


def dlc(target: str | None = None, backend: BackendLike = None) -> Contender:
    """The subject's function compiled by dlc; its first run goes kernel by kernel."""
    made: list[Executor] = []

    def make(subject: Subject, report: Report) -> Call:
        program = dlc_compile(
            lambda *tensors: subject.call(tensors), subject.tensors, target, backend
        )
        variant = program.variant(subject.tensors)
        bound = [t.detach() for t in variant.program.bind(subject.tensors)]
        first_run(variant.executor, bound, report)
        made.append(variant.executor)
        return lambda tensors: program(*tensors)

    return Contender(DLC, make, launches=lambda: launches_of(made[-1]) if made else None)


def dlc_module(executor: Executor, finish: Callable[..., Any] | None = None) -> Contender:
    """
    Kernels that have been made already, of the subject's tensors as `@main` takes them; `finish`
    makes the program's output of their results and the tensors.
    """

    def make(subject: Subject, report: Report) -> Call:
        first_run(executor, subject.tensors, report)

        def call(tensors: Sequence[torch.Tensor]) -> Any:
            results = executor(tensors)
            return results if finish is None else finish(results, tensors)

        return call

    return Contender(DLC, make, launches=lambda: launches_of(executor))


def first_run(executor: Executor, tensors: Sequence[torch.Tensor], report: Report) -> None:
    """Runs kernel by kernel, so that one that hangs or crashes is known by its name."""
    executor.prepare()
    names = [launch.func.name_ for launch in executor.launches if launch.grid > 0]
    steps = iter(f"kernel {name}, {i} of {len(names)}" for i, name in enumerate(names, 1))

    def announce() -> None:
        report(next(steps, "the end of the first run"), RUN_SECONDS)

    announce()
    executor(tensors, lambda func, seconds: announce())


def launches_of(executor: Executor) -> int:
    """Kernels of a call."""
    return sum(launch.grid > 0 for launch in executor.launches)

"""
Translation validation: the states of a program between passes are run, and must agree.

    validation = Validation(ctx, Question.of(ctx, module, arguments))
    run_pipeline(ctx, module, "kernel", [validation])      # WrongResult names the first wrong pass

Every state that is not Kernel IR yet becomes it in the plainest way, by the passes `PLAINEST`
alone, and runs as printed CUDA C: so those, the printer and the backend take part in each answer.
On the host each state runs twice, with threads in order and asynchronous copies landing late, and
with threads in a random order and copies landing early.

Each state is compiled once and also runs, in one of the two ways, on unusual inputs (see
`unusual_inputs`). There Torch IR is judged by how well its results can be known (`conditioning`),
or, where PyTorch itself gives something else, by what the first state gives. Inputs that the
program itself refuses are left out, and all unusual ones where the arguments have more than `MOST`
elements. What a state takes is mostly the C++ compiler's time, for each kernel that the pass
changed, so sizes matter little up to some million multiply-adds. Of a model, one layer and a short
prompt will do, or a configuration with smaller sizes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from typing import Any, Protocol

import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from dlc.analysis.loop.loops import longest_reduction
from dlc.backend import BackendError
from dlc.backend.executor import Backend, Executor
from dlc.backend.host.host_backend import HostBackend
from dlc.diagnostics import OpError, with_context, with_hint
from dlc.dialects import flow
from dlc.dialects.main_function import is_parameter, main_of
from dlc.judge.conditioning import Expected
from dlc.judge.known_results import Known
from dlc.judge.reference import evaluate, widened
from dlc.judge.unusual_inputs import unusual_inputs
from dlc.passes import Stage, Step, steps_between
from dlc.pipeline import apply_pass, stage_of, text_of
from dlc.remarks import Remark
from dlc.target import precision_of
from dlc.text import counted

PLAINEST = (
    "decompose-torch",
    "lift-to-loops",
    "bind-axes",
    "lower-stages",
    "lower-reduces",
    "lower-registers",
    "place-barriers",
)
"""The passes that make Kernel IR of a program, and nothing better than that."""

MOST = 1 << 22
"""Elements of all arguments together, up to which unusual inputs are made."""


class WrongResult(ValueError):
    """A pass changed what a program computes."""


class Judge(Protocol):
    """Knows the right results of a program on some inputs."""

    def complaint(self, results: Sequence[torch.Tensor]) -> str | None:
        """An error in the results; None if they are right."""
        ...


@dataclass(frozen=True)
class Trial:
    """Inputs of a program, what they are called, and what knows its results on them."""

    name: str
    arguments: Sequence[torch.Tensor]
    judge: Judge


@dataclass(frozen=True)
class Question:
    """The right results of a program: on its own inputs first, then on unusual ones."""

    trials: Sequence[Trial]
    notes: Sequence[str] = ()
    """The unusual inputs on which Torch IR, run in the plainest way, gives other results than
    PyTorch: there, its own results are taken for right."""

    @staticmethod
    def of(ctx: Context, module: ModuleOp, arguments: Sequence[torch.Tensor]) -> Question:
        """
        PyTorch gives the results of Torch IR. For a module of a later IR its own results on the
        host are taken for right, as nothing else is known.
        """
        itself = _Itself(ctx, module)
        ordinary: Judge
        if stage_of(module) == "torch":
            exact, eager = evaluate(module, arguments, double=True), evaluate(module, arguments)
            precision = precision_of(module)
            ordinary = Known(exact, eager, itself.longest, precision=precision, in_order=True)
            original = module.clone()
        else:
            ordinary, original = itself.known(arguments), None
        trials, notes = [Trial("", arguments, ordinary)], list[str]()
        if sum(t.numel() for t in arguments) <= MOST:
            # What parameters are multiplied with may be summed before (`reorder-sums`).
            values = main_of(module).body.block.args
            finite = [n for n, value in enumerate(values) if is_parameter(value)]
            for name, inputs in unusual_inputs(arguments, finite=finite):
                with suppress(Exception):  # the program may refuse such inputs, as indices
                    judge = itself.known(inputs)
                    if original is not None:
                        expected = Expected(original, inputs, itself.longest)
                        if (said := expected.complaint(judge.own)) is None:
                            judge = expected
                        else:
                            notes.append(f"on {name}, PyTorch gives something else: {said}")
                    trials.append(Trial(name, inputs, judge))
        return Question(trials, notes)


class _Itself:
    """The results of a module that runs in the plainest way on the host."""

    def __init__(self, ctx: Context, module: ModuleOp) -> None:
        self.ctx = ctx
        self.module = module.clone()
        self.longest = 1
        with suppress(Exception):  # a pass that fails here will fail in the pipeline, and be named
            until: Stage = "loop" if stage_of(module) == "torch" else stage_of(module)
            self.longest = longest_reduction(_plainest(ctx, module, until))

    @cached_property
    def executor(self) -> Executor:
        return Answers(self.ctx, [HostBackend()]).executors(self.module)[0]

    def known(self, inputs: Sequence[torch.Tensor]) -> Known:
        own = run(self.executor, inputs)
        exact = [*map(widened, own)]
        return Known(exact, None, self.longest, own, precision_of(self.module))


class Answers:
    """Makes modules of any IR run, on one or several backends."""

    def __init__(self, ctx: Context, backends: Sequence[Backend] | None = None) -> None:
        self.ctx = ctx
        self.backends: Sequence[Backend] = backends or (
            HostBackend("forward", "late"),
            HostBackend("random", "early", seed=1),
        )

    def executors(self, module: ModuleOp) -> list[Executor]:
        """One for each backend; kernels are compiled at the first call."""
        module = _plainest(self.ctx, module, "kernel")
        return [Executor(module, backend) for backend in self.backends]


def run(executor: Executor, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The results; every element that no kernel writes is NaN, or extreme."""
    with _poisoned():
        return executor(arguments)


def _plainest(ctx: Context, module: ModuleOp, until: Stage) -> ModuleOp:
    """A copy of a module, taken to the IR `until` by as few passes as that takes."""
    module = module.clone()
    for step in steps_between(stage_of(module), until):
        if step.pass_name in PLAINEST:
            apply_pass(ctx, module, step.pass_name)
    if until == "kernel" and any(isinstance(op, flow.FLOW) for op in module.walk()):
        apply_pass(ctx, module, "plan-buffers")  # control flow runs on buffers alone
    return module


class Validation:
    """Runs the module after every pass that changed it; WrongResult for the first wrong state."""

    def __init__(self, ctx: Context, question: Question, backends: Sequence[Backend] | None = None):
        self.question = question
        self.answers = Answers(ctx, backends)
        self.text = ""
        self.checked = self.passes = 0
        self.seconds = 0.0
        """Seconds that the runs of states have taken."""

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        self.text = text_of(module)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        begin = time.perf_counter()
        try:
            self.check(module, step.pass_name)
        finally:
            self.seconds += time.perf_counter() - begin

    def check(self, module: ModuleOp, pass_name: str) -> None:
        """Runs a module to which `pass_name` was applied last, if that changed its text."""
        self.passes += 1
        text = text_of(module)
        if text == self.text:
            return
        self.text = text
        self.checked += 1
        if (wrong := self.complaint(module)) is not None:
            error = with_context(WrongResult(f"the result changes: {wrong}"), f"pass {pass_name}")
            raise with_hint(error, "`dlc bisect` shows the kernel and what the pass did to it")

    def complaint(self, module: ModuleOp) -> str | None:
        """An error in the results of a module, or why it does not run; None if it is right."""
        ordinary, *unusual = self.question.trials
        try:
            executors = self.answers.executors(module)
            asked = [(executor, ordinary) for executor in executors]
            asked += zip(cycle(executors), unusual, strict=False)
            for executor, trial in asked:
                backend = executor.backend
                said = trial.judge.complaint(run(executor, trial.arguments))
                if said is not None:
                    how = [trial.name] if trial.name else []
                    if isinstance(backend, HostBackend):
                        how += [f"threads in {backend.order} order"]
                        how[-1] += f", asynchronous copies {backend.async_mode}"
                    return f"{said} ({'; '.join(how)})" if how else said
        except (BackendError, OpError) as error:
            return f"what it leaves does not run: {error}"
        return None

    def __str__(self) -> str:
        if self.checked:
            on = f"on {counted(len(self.question.trials), 'set')} of inputs"
            changed = f"{self.checked} changed the program, and none its results, {on}"
        else:
            changed = "none changed the program, so no results were compared"
        text = f"{counted(self.passes, 'pass')} ran: {changed}" if self.passes else "no pass ran"
        return "\n".join([*self.question.notes, text])


@contextmanager
def _poisoned() -> Iterator[None]:
    """New memory from PyTorch holds NaN, or the largest integer."""
    deterministic: Any = torch.utils.deterministic  # its switch is a property that hides from types
    before = torch.are_deterministic_algorithms_enabled(), deterministic.fill_uninitialized_memory
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=warn)
        deterministic.fill_uninitialized_memory = before[1]

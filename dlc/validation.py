"""
Translation validation: the states of a program between passes are run, and must agree.

    validation = Validation(ctx, Question.of(ctx, module, arguments))
    run_pipeline(ctx, module, "kernel", [validation])      # WrongResult names the first wrong pass

Every state that is not Kernel IR yet becomes it in the plainest way, by `lift-to-loops` and
`materialize-tiles` alone, and runs as printed CUDA C: so those two, the printer and the backend
take part in each answer. On the host each state runs twice, with threads in order and asynchronous
copies landing late, and with threads in a random order and copies landing early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from dlc.accuracy import Accuracy, compare
from dlc.analysis.loops import longest_reduction
from dlc.backend import BackendError
from dlc.backend.executor import Backend, Executor
from dlc.backend.host.launcher import HostBackend
from dlc.diagnostics import with_context, with_hint
from dlc.pipeline import Stage, Step, stage_of, text_of
from dlc.reference import evaluate, widened
from dlc.registry import get_pass
from dlc.remarks import Remark, collect

PLAINEST: dict[Stage, tuple[str, ...]] = {
    "torch": ("decompose-torch", "lift-to-loops", "materialize-tiles"),
    "tensor": ("lift-to-loops", "materialize-tiles"),
    "loop": ("materialize-tiles",),
    "tile": ("materialize-tiles",),
    "kernel": (),
}
"""The passes that make Kernel IR of a state, and nothing better than that."""


class WrongResult(ValueError):
    """A pass changed what a program computes."""


@dataclass(frozen=True)
class Question:
    """What a program is to compute of some arguments; in fp64, and in its own dtypes if known."""

    arguments: Sequence[torch.Tensor]
    exact: Sequence[torch.Tensor]
    eager: Sequence[torch.Tensor] | None
    longest_reduction: int

    @staticmethod
    def of(ctx: Context, module: ModuleOp, arguments: Sequence[torch.Tensor]) -> Question:
        """
        Torch IR is answered by PyTorch. Of a module further on nothing is known but what it gives:
        its own results on the host are taken for right.
        """
        if stage_of(module) != "torch":
            results = Answers(ctx, arguments, [HostBackend()]).of(module)[0]
            return Question(arguments, [*map(widened, results)], None, longest_reduction(module))
        exact = evaluate(module, arguments, double=True)
        eager = evaluate(module, arguments)
        with suppress(Exception):  # a pass that fails here will fail in the pipeline, and be named
            module = _applied(ctx, module, ("decompose-torch", "lift-to-loops"))
        return Question(arguments, exact, eager, longest_reduction(module))

    def judge(self, results: Sequence[torch.Tensor], backend: str = "host") -> list[Accuracy]:
        """ValueError for other numbers of results, shapes or dtypes than expected."""
        eager = self.eager or [None] * len(self.exact)
        judged: list[Accuracy] = []
        for result, exact, own in zip(results, self.exact, eager, strict=True):
            if own is not None and result.element_size() == own.element_size():
                result = result.view(own.dtype)  # Tensor IR has no unsigned bytes
            judged.append(compare(result, exact, own, self.longest_reduction, backend))
        return judged


class Answers:
    """Runs modules of any IR on some arguments, on one or several backends."""

    def __init__(
        self,
        ctx: Context,
        arguments: Sequence[torch.Tensor],
        backends: Sequence[Backend] | None = None,
    ) -> None:
        self.ctx = ctx
        self.arguments = arguments
        self.backends: Sequence[Backend] = backends or (
            HostBackend("forward", "late"),
            HostBackend("random", "early", seed=1),
        )

    def of(self, module: ModuleOp) -> list[list[torch.Tensor]]:
        """The results on each backend; every element that no kernel writes is NaN, or extreme."""
        module = _applied(self.ctx, module, PLAINEST[stage_of(module)])
        answers: list[list[torch.Tensor]] = []
        for backend in self.backends:
            with _poisoned():
                answers.append(Executor(module, backend)(self.arguments))
        return answers


def _applied(ctx: Context, module: ModuleOp, passes: Sequence[str]) -> ModuleOp:
    """What passes make of a copy of a module."""
    module = module.clone()
    with collect():
        for name in passes:
            get_pass(name)().apply(ctx, module)
    return module


class Validation:
    """Runs the module after every pass that changed it; WrongResult for the first wrong state."""

    def __init__(self, ctx: Context, question: Question, backends: Sequence[Backend] | None = None):
        self.question = question
        self.answers = Answers(ctx, question.arguments, backends)
        self.text = ""

    def start(self, module: ModuleOp) -> None:
        self.text = text_of(module)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        self.check(module, step.pass_name)

    def check(self, module: ModuleOp, pass_name: str) -> None:
        """Runs a module to which `pass_name` was applied last, if that changed its text."""
        text = text_of(module)
        if text == self.text:
            return
        self.text = text
        if (wrong := self.complaint(module)) is not None:
            error = with_context(WrongResult(f"the result changes: {wrong}"), f"pass {pass_name}")
            raise with_hint(error, "`dlc bisect` shows the kernel and what the pass did to it")

    def complaint(self, module: ModuleOp) -> str | None:
        """What is wrong with the results of a module, or that it does not run; None if nothing."""
        try:
            answers = self.answers.of(module)
        except BackendError as error:
            return f"what it leaves does not run: {error}"
        for backend, results in zip(self.answers.backends, answers, strict=True):
            for number, accuracy in enumerate(self.question.judge(results, backend.name)):
                if not accuracy.ok:
                    place = _worst_element(results[number], self.question.exact[number])
                    how = f" ({_how(backend)})" if isinstance(backend, HostBackend) else ""
                    return f"result {number} has {accuracy}{place}{how}"
        return None


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


def _how(backend: HostBackend) -> str:
    return f"threads in {backend.order} order, asynchronous copies {backend.async_mode}"


def _worst_element(result: torch.Tensor, exact: torch.Tensor) -> str:
    """Where the largest error is, as the end of a sentence."""
    if not result.numel():
        return ""
    wide, exact = result.double().cpu(), exact.double().cpu()
    error = (wide - exact).abs().nan_to_num(torch.inf, torch.inf, torch.inf)
    error[wide == exact] = 0
    error[wide.isnan() & exact.isnan()] = 0
    flat = int(error.flatten().argmax())
    index = [int(i) for i in torch.unravel_index(torch.tensor(flat), result.shape)]
    found, wanted = wide.flatten()[flat].item(), exact.flatten()[flat].item()
    return f"; at {index} it is {found:.7g}, not {wanted:.7g}"

"""`dlc bisect`: the pass that changes what a program computes, and what it did to which kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ArgSpecParseError

from dlc.backend.executor import get_backend
from dlc.backend.kernel_program import isolated
from dlc.cli.job import Job
from dlc.cli.pass_reproducer import write_reproducer
from dlc.cli.program_input import Loaded
from dlc.cli.status_line import progress
from dlc.diagnostics import TextError, failed_pass
from dlc.dialects.main_function import main_of
from dlc.error_report import format_error
from dlc.judge.random_inputs import random_arguments
from dlc.judge.validation import Question, Validation
from dlc.passes import Step, steps
from dlc.pipeline import Observer, apply_step, run_pipeline, text_of
from dlc.remarks import Remark
from dlc.text import counted, diff


@dataclass(frozen=True)
class _State:
    """A program before `step`, the next one that changes it or fails."""

    module: ModuleOp
    step: Step


@dataclass(frozen=True)
class _Culprit:
    """A failure of a pass: the program, or the one kernel, that it gets wrong."""

    before: ModuleOp
    complaint: str
    kernel: str | None = None


class _States:
    """Collects the states before each step that changes something, and the last one."""

    def __init__(self) -> None:
        self.found: list[_State] = []

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        self.last, self.text = module.clone(), text_of(module)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        if (text := text_of(module)) != self.text:
            self.found.append(_State(self.last, step))
            self.last, self.text = module.clone(), text

    def run(self, ctx: Context, module: ModuleOp, observers: Sequence[Observer]) -> str | None:
        """
        Takes a module through the pipeline; what failed if any pass did, of which `found` then has
        the state before it.
        """
        try:
            run_pipeline(ctx, module, "kernel", [*observers, self])
        except TextError:
            raise  # what a schedule asks for is no pass's fault
        except (Exception, ArgSpecParseError) as error:
            step = next((s for s in steps() if s.pass_name == failed_pass(error)), None)
            if step is None:
                raise
            self.found.append(_State(self.last, step))
            return format_error(error)
        return None


def bisect_and_report(job: Job) -> int:
    """1 where a pass is found that fails or changes a result, else 0."""
    ctx, loaded, options, timing = job.ctx, job.loaded, job.options, job.timing
    backends = None if options.backend in (None, "host") else [get_backend(options.backend)]
    source = job.source()
    with timing.phase("dlc", "the results to judge by"):
        question = Question.of(ctx, source.module, source.arguments(options.seed))
    judge = Validation(ctx, question, backends)
    if source is not loaded:
        _check_results(source, loaded)
        if (complaint := judge.complaint(loaded.module)) is not None:
            print(f"{options.file} itself differs from -c, before any pass: {complaint}")
            return 1
    collected = _States()
    failure = collected.run(ctx, loaded.module, job.observers)
    states, last = collected.found, collected.last
    asked = 0

    def is_wrong(number: int) -> bool:
        """True if the program is wrong before step `number`; behind the last one is `last`."""
        nonlocal asked
        asked += 1
        module = states[number].module if number < len(states) else last
        running = timing.phase("dlc", "running of states")
        with running, progress(f"running state {number} of {len(states)} …"):
            return judge.complaint(module) is not None

    end = len(states) - 1 if failure else len(states)
    if (number := _first(is_wrong, end)) is not None:
        culprit, after = states[number - 1], states[number].module if number < len(states) else last
        complaint, failure = judge.complaint(after) or "", None
    elif failure is not None:
        culprit, complaint = states[-1], failure
    else:
        if states:
            print(f"no pass changes the result: the last of {counted(end + 1, 'state')} ran, too")
        else:
            print("no pass changes the program, so there is nothing to bisect")
        return 0
    print(f"{culprit.step.name} is wrong; {asked} of {counted(end + 1, 'state')} ran\n")
    alone = _in_one_kernel(ctx, culprit, options.seed, judge)
    _report(
        ctx,
        culprit.step,
        alone or _Culprit(culprit.module, complaint),
        job.colour,
        "" if failure else "--validate",
    )
    return 1


def _check_results(source: Loaded, loaded: Loaded) -> None:
    """ValueError where the program of -c and that of a file take or return different tensors."""
    types = [main_of(p.module).function_type for p in (source, loaded)]
    for what, of in (("arguments", "inputs"), ("results", "outputs")):
        wanted, found = (len(getattr(type, of)) for type in types)
        if wanted != found:
            raise ValueError(f"expected {wanted} {what} as -c has, @main of the file has {found}")


def _applied(ctx: Context, module: ModuleOp, step: Step) -> str | None:
    """Runs a pass and the verifiers; what they complain of."""
    try:
        apply_step(ctx, module, step.pass_name)
    except (Exception, ArgSpecParseError) as error:
        return format_error(error)
    return None


def _first(is_wrong: Callable[[int], bool], end: int) -> int | None:
    """The first of 1 … end that is wrong, if the last one is; what follows a wrong one is wrong."""
    if end < 1 or not is_wrong(end):
        return None
    right, wrong = 0, end
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if is_wrong(middle):
            wrong = middle
        else:
            right = middle
    return wrong


def _in_one_kernel(ctx: Context, state: _State, seed: int, judge: Validation) -> _Culprit | None:
    """The first kernel that the pass gets wrong alone, on random arguments."""
    if state.step.stage == "tensor":
        return None
    for name, module in isolated(state.module):
        question = Question.of(ctx, module, random_arguments(module, seed))
        after = module.clone()
        complaint = _applied(ctx, after, state.step)
        if complaint is None:
            complaint = Validation(ctx, question, judge.answers.backends).complaint(after)
        if complaint is not None:
            return _Culprit(module, complaint, name)
    return None


def _report(ctx: Context, step: Step, found: _Culprit, colour: bool, arguments: str) -> None:
    where = f"kernel {found.kernel}: " if found.kernel else ""
    print(f"{where}{found.complaint}\n")
    after = found.before.clone()
    if _applied(ctx, after, step) is None:
        print(diff(text_of(found.before), text_of(after), colour), end="\n\n")
    command = write_reproducer(text_of(found.before), step.pass_name, arguments, Path())
    print(f"reproduce with: {command}")

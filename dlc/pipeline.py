"""
Runs the passes of the standard pipeline (`dlc.passes`), and shows observers what each did.

A module of any stage goes on from where it is: `run_pipeline(ctx, module, "kernel")`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from io import StringIO
from itertools import zip_longest
from typing import Protocol

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer
from xdsl.utils.exceptions import ArgSpecParseError

from dlc.diagnostics import with_context
from dlc.dialects.size import needing_numbers
from dlc.garbage import rarely_collected
from dlc.ir.verification import Verifier
from dlc.passes import Stage, Step, steps_between
from dlc.registry import get_pass
from dlc.remarks import Remark, collect


class Observer(Protocol):
    """
    Looks at the module before the first and after every pass; one with `is_clock = True` does not,
    but at times and remarks alone.
    """

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        """`steps` are the passes that will run, if none fails."""
        ...

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        """`seconds` is the time of the pass and of the verifier, if it runs after it."""
        ...


def stage_of(module: ModuleOp) -> Stage:
    """
    The IR that a module is in, told by its operations; the earliest where several are mixed. A
    kernel in the tile dialect is taken as scheduled, whatever has been done to it, and one in
    lockstep is no Kernel IR yet.
    """
    found: set[Stage] = set()
    for op in module.walk():
        match op.name.split("."):
            case ["torch", *_]:
                return "torch"
            case ["tensor_ir", *_]:
                found.add("tensor")
            case ["loop" | "tile" as stage, "kernel"]:
                found.add(stage)
            case ["kernel", "func"]:
                found.add("tile" if "lockstep" in op.properties else "kernel")
            case _:
                pass
    for stage in ("tensor", "tile", "loop", "kernel"):
        if stage in found:
            return stage
    return "torch"


def text_of(module: ModuleOp) -> str:
    """The module's text, which `dlc-opt` and `dlc` read."""
    stream = StringIO()
    Printer(stream).print_op(module)
    return f"{stream.getvalue()}\n"


def run_pipeline(
    ctx: Context, module: ModuleOp, until: Stage = "kernel", observers: Sequence[Observer] = ()
) -> None:
    """
    Takes `module` to the IR `until`, in place. It is verified after every pass where observers see
    it, and else in each IR that it comes to. What a pass or the verifier raises is raised with the
    name of the pass: where something is wrong with what was not verified in between, the passes run
    again on what was given, so that the first is named that leaves what is not valid.
    """
    steps = steps_between(stage_of(module), until)
    for observer in observers:
        observer.start(module, steps)
    with rarely_collected():
        if not all(getattr(observer, "is_clock", False) for observer in observers):
            _run(ctx, module, steps, observers, steps)
            return
        given = module.clone()
        ends = [s for s, after in zip_longest(steps, steps[1:]) if _ends(s, after)]
        try:
            _run(ctx, module, steps, observers, ends)
        except (Exception, ArgSpecParseError):
            _run(ctx, given, steps, (), steps)
            raise


def _ends(step: Step, after: Step | None) -> bool:
    """True if a module has come to an IR by a step that another one follows, if any does."""
    return after is None or after.stage != step.stage


def _run(
    ctx: Context,
    module: ModuleOp,
    steps: Sequence[Step],
    observers: Sequence[Observer],
    verified: Collection[Step],
) -> None:
    """
    Runs passes on a module, in place, and verifies what some of them leave, or each: only then is
    there something in a module that was verified as it is.
    """
    verifier = Verifier(is_compared=len(verified) == len(steps))
    for step in steps:
        begin = time.perf_counter()
        remarks = _applied(ctx, module, step.pass_name)
        if step in verified:
            _verify(module, step.pass_name, verifier)
        seconds = time.perf_counter() - begin
        for observer in observers:
            observer.passed(step, module, remarks, seconds)


def apply_step(
    ctx: Context, module: ModuleOp, name: str, verifier: Verifier | None = None
) -> list[Remark]:
    """
    Runs the pass `name` on a module, in place, and verifies what it leaves; its remarks. What the
    pass or the verifier raises is raised with the name of the pass.
    """
    remarks = _applied(ctx, module, name)
    _verify(module, name, verifier or Verifier())
    return remarks


def _applied(ctx: Context, module: ModuleOp, name: str) -> list[Remark]:
    try:
        return apply_pass(ctx, module, name)
    except (Exception, ArgSpecParseError) as error:
        raise with_context(error, f"pass {name}")


def _verify(module: ModuleOp, name: str, verifier: Verifier) -> None:
    try:
        verifier.verify(module)
    except Exception as error:
        raise with_context(error, f"after pass {name}")


def apply_pass(ctx: Context, module: ModuleOp, name: str) -> list[Remark]:
    """Runs the pass `name` on a module, in place, and leaves it unverified; its remarks."""
    with collect() as remarks:
        with needing_numbers(module, "the program"):
            get_pass(name)().apply(ctx, module)
    return remarks

"""
Runs the passes of the standard pipeline (`dlc.passes`), and shows observers what each did.

A module of any stage goes on from where it is: `run_pipeline(ctx, module, "kernel")`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from io import StringIO
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
    """Looks at the module before the first and after every pass."""

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        """`steps` are the passes that will run, if none fails."""
        ...

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        """`seconds` is the time of the pass and of the verifier after it."""
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
    Takes `module` to the IR `until`, in place, and verifies it after every pass. What a pass or
    the verifier raises is raised with the name of the pass.
    """
    steps = steps_between(stage_of(module), until)
    for observer in observers:
        observer.start(module, steps)
    verifier = Verifier()
    with rarely_collected():
        for step in steps:
            begin = time.perf_counter()
            remarks = apply_step(ctx, module, step.pass_name, verifier)
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
    try:
        remarks = apply_pass(ctx, module, name)
    except (Exception, ArgSpecParseError) as error:
        raise with_context(error, f"pass {name}")
    try:
        (verifier or Verifier()).verify(module)
    except Exception as error:
        raise with_context(error, f"after pass {name}")
    return remarks


def apply_pass(ctx: Context, module: ModuleOp, name: str) -> list[Remark]:
    """Runs the pass `name` on a module, in place, and leaves it unverified; its remarks."""
    with collect() as remarks:
        with needing_numbers(module, "the program"):
            get_pass(name)().apply(ctx, module)
    return remarks

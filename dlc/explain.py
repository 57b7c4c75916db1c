"""`dlc compile --explain`: for each kernel, its schedule, what was preferred to what, and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from textwrap import wrap

from xdsl.dialects.builtin import ModuleOp, StringAttr

from dlc.analysis.kernel.bank_accesses import report
from dlc.dialects import tile
from dlc.dialects.fusion_plan import FUSING, FusionPlan
from dlc.dialects.kernel_op import TUNED, KernelSignature, kernels_in
from dlc.ir.provenance import ops_of
from dlc.passes import CHOOSING, JOINING, Step, last_step, step_before
from dlc.remarks import Remark
from dlc.schedule.kernel_table import (
    combining_kernels,
    joined_launches,
    kernel_table,
    launches_in,
)
from dlc.schedule.progress import schedule_as_run
from dlc.target import target_of
from dlc.text import BOLD, CYAN, DIM, paint

WIDTH = 100
"""Columns of a line. A schedule is one line, however long, so that it can be copied."""
LABEL = 24
"""Columns of a label."""
NO_BREAK = "\N{NO-BREAK SPACE}"
UNNAMED = "the kernel's schedule does not name it"


OptionsOf = Callable[[ModuleOp, Step], Iterable[tuple[str, str]]]
"""Names of kernels, each with a step and what its options may be."""


def _no_options(module: ModuleOp, step: Step) -> Iterable[tuple[str, str]]:
    return ()


class Explanation:
    """
    Collects what was decided about each kernel; `str` is the account of it:

    ```
    kernel  launches    us    MB   MFLOP  operations
    matmul         1  70.2  49.8  2952.8  matmul
    1 kernel, launched 1 time: 70.2 us predicted on sm_90
    1 kernel more combines what is split: 2 launches in all

    matmul for sm_90, 132 SMs
      tileify,chunk-matmul-k{bk=16 vector=4},…

      because                 64x128 blocks of 128 threads, …
        rather than           128x64 blocks of 128 threads, …
      tileify                 thread axes %i, %j
      …
      shared memory           read of x_ring, 16 bytes: 1 way
      options                 chunk-matmul-k: bk 4, 8, 16, 32; vector 2, 4
    ```
    """

    def __init__(self, colour: bool, options: OptionsOf = _no_options) -> None:
        """`options` tells, of a module after a pass, what the next step may do with kernels."""
        self._colour = colour
        self._options_of = options
        self._options: list[tuple[str, str]] = []
        self._remarks: list[Remark] = []
        self._target = ""
        self._table = ""
        self._named: set[str] = set()
        self._combining = ""
        self._apart = 0
        self._joined = ""
        self._plan = ""
        self._ops: dict[str, list[str]] = {}
        self._schedules: dict[str, str] = {}
        self._banks: dict[str, list[str]] = {}

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        target = target_of(module)
        self._target = f"{target.name}, {target.sms} SMs"
        self._look(module)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        self._remarks += remarks
        if step.stage == "tile":
            self._options += self._options_of(module, step)
        if step == step_before(FUSING):
            self._plan = _plan(module)
        if step.pass_name == CHOOSING:
            self._table = kernel_table(module, target_of(module))
            self._named = {kernel.name_ for kernel in kernels_in(module, KernelSignature)}
        if step == last_step("tile"):
            self._look(module)
            self._combining = combining_kernels(module, self._named) if self._table else ""

        if step == step_before(JOINING):
            self._apart = launches_in(module)
        if step.pass_name == JOINING:
            self._joined = joined_launches(self._apart, launches_in(module))

    def _look(self, module: ModuleOp) -> None:
        """Notes what the kernels of the Tile IR say themselves."""
        for kernel in module.walk():
            if isinstance(kernel, tile.KernelOp):
                self._ops[kernel.name_] = ops_of(kernel)
                self._schedules[kernel.name_] = schedule_as_run(kernel) or ""
                self._banks[kernel.name_] = list(dict.fromkeys(map(str, report(kernel))))

    def __str__(self) -> str:
        made = [r.kernel for r in self._remarks if r.pass_name == "bind-axes"]
        kernels = dict.fromkeys(made)
        head = "\n".join(part for part in (self._table, self._combining, self._joined) if part)
        parts = [part for part in (head, self._plan) if part]
        return "\n\n".join([*parts, *map(self._kernel, kernels)]) or "no kernel was scheduled"

    def _kernel(self, name: str) -> str:
        lines = [f"{paint(name, BOLD, self._colour)} for {self._target}"]
        if schedule := self._schedules.get(name):
            lines += [f"  {paint(schedule, CYAN, self._colour)}", ""]
        last = ""
        for (label, text), alike in groupby(self._entries(name)):
            if (times := len(list(alike))) > 1:
                text += f", {times} times"
            own = "" if label == last else label
            last = label
            shade = DIM if text.startswith("skipped") else None
            for line in _wrapped(text):
                shown = line if shade is None else paint(line, shade, self._colour)
                lines.append(f"  {own:<{LABEL}}{shown}")
                own = ""
        return "\n".join(lines)

    def _entries(self, name: str) -> Iterator[tuple[str, str]]:
        """Labels and texts, in the order of the passes."""
        if ops := self._ops.get(name):
            yield "implements", ", ".join(ops)
        decided = dict(self._decided(name))
        for remark in self._remarks:
            if remark.kernel != name or remark.text.endswith(UNNAMED):
                continue
            word, _, rest = remark.text.partition(" ")
            if remark.pass_name != CHOOSING:
                yield remark.pass_name, decided.get(remark.pass_name, remark.text)
            elif word == "because":
                yield "because", rest
            elif word == "rather":
                yield "  rather than", rest.removeprefix("than ")
        for access in self._banks.get(name, ()):
            yield "shared memory", access
        yield from (("options", text) for kernel, text in self._options if kernel == name)

    def _decided(self, name: str) -> Iterator[tuple[str, str]]:
        """The steps whose options were decided by the kernel itself, each with the reason."""
        for remark in self._remarks:
            if remark.pass_name == CHOOSING and remark.kernel == name:
                word, _, rest = remark.text.partition(" ")
                if word == "with":
                    step, _, why = rest.partition(": ")
                    yield step, why


def _plan(module: ModuleOp) -> str:
    """What was said of which kernels merge, and by which tuning; empty if nothing was."""
    said, tuned = FusionPlan.written(module), module.attributes.get(TUNED)
    by = f", {tuned.data}" if isinstance(tuned, StringAttr) else ""
    return f"plan: {said}{by}" if said.groups else ""


def _wrapped(text: str) -> list[str]:
    """Lines of a text; a number stays with the word before it."""
    whole = re.sub(r"(?<=\w) (?=\d)", NO_BREAK, text)
    lines = wrap(whole, WIDTH - LABEL - 2, break_on_hyphens=False)
    return [line.replace(NO_BREAK, " ") for line in lines]

"""Observers of the pipeline that show its passes: remarks, diffs and times."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dlc.cli.status_line import STATUS, bar, progress
from dlc.text import BOLD, diff, paint, table

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from dlc.passes import Step
    from dlc.remarks import Remark


class Remarks:
    """Prints to stderr what each pass did or why it declined, and whether it changed the text."""

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        self.text = _text_of(module)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        STATUS.clear()
        text = _text_of(module)
        lines = [str(remark) for remark in remarks]
        if not lines:
            lines = [f"{step.pass_name}: {'nothing to do' if text == self.text else 'done'}"]
        print(*lines, sep="\n", file=sys.stderr)
        self.text = text


class Diffs:
    """Prints, for each pass, a unified diff between `>>> t:007_stage_inputs` and `<<< …`."""

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        self.text = _text_of(module)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        STATUS.clear()
        text = _text_of(module)
        print(paint(f">>> {step.name}", BOLD, self.colour))
        print(diff(self.text, text, self.colour))
        print(paint(f"<<< {step.name}", BOLD, self.colour))
        self.text = text


def _text_of(module: ModuleOp) -> str:
    from dlc.pipeline import text_of  # with xDSL

    return text_of(module)


class Timing:
    """
    Seconds per phase of a compilation: PyTorch's own, and dlc's with xDSL's import. On a terminal
    it says what is going on.
    """

    is_clock = True

    def __init__(self, loading: float = 0.0) -> None:
        """`loading` is how long the import of this package and xDSL took, in seconds."""
        self.phases = [("dlc", "import of dlc and xDSL", loading)]
        """Owner, name and seconds of each phase."""
        self._steps: Sequence[Step] = ()

    @contextmanager
    def phase(self, owner: str, name: str) -> Iterator[None]:
        """Times its body; what an inner phase takes is not counted twice."""
        begin, already = time.perf_counter(), self.total()
        try:
            with progress(f"{name} …"):
                yield
        finally:
            own = time.perf_counter() - begin - (self.total() - already)
            self.phases.append((owner, name, own))

    def total(self, owner: str | None = None) -> float:
        return sum(s for whose, _, s in self.phases if owner in (None, whose))

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._say_next(0)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        name = f"passes to {step.stage.capitalize()} IR"
        if self.phases and self.phases[-1][:2] == ("dlc", name):
            seconds += self.phases.pop()[2]
        self.phases.append(("dlc", name, seconds))
        self._say_next(self._steps.index(step) + 1)

    def _say_next(self, done: int) -> None:
        if done < len(self._steps):
            STATUS.show(f"{bar(done / len(self._steps))} {self._steps[done].pass_name} …")
        else:
            STATUS.clear()

    def __str__(self) -> str:
        rows = [[owner, name, f"{value:.3f}"] for owner, name, value in self.phases]
        rows += [[o, "total", f"{self.total(o):.3f}"] for o in dict.fromkeys(r[0] for r in rows)]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak_mib = peak / (2**20 if sys.platform == "darwin" else 2**10)
        return f"{table(['by', 'phase', 'seconds'], rows)}\npeak memory: {peak_mib:.0f} MiB"

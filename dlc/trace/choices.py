"""An observer that notes why kernels have their schedules, and what these were preferred to."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp

from dlc.passes import CHOOSING, Step
from dlc.remarks import Remark
from dlc.trace.model import Candidates

BECAUSE, RATHER = "because ", "rather than "


class Choices:
    """Reads the remarks of whoever chooses schedules, as `--explain` does."""

    def __init__(self) -> None:
        self._remarks: list[Remark] = []

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        pass

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        self._remarks += (r for r in remarks if r.pass_name == CHOOSING)

    def of(self, kernel: str) -> Candidates | None:
        """What was said of a kernel; None if nothing was."""
        said = [r.text for r in self._remarks if r.kernel == kernel]
        chosen = [text.removeprefix(BECAUSE) for text in said if text.startswith(BECAUSE)]
        lost = [text.removeprefix(RATHER) for text in said if text.startswith(RATHER)]
        return Candidates(chosen[0], lost) if chosen else None

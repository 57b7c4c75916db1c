"""An observer that writes down what validation says of the program after each pass."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp

from dlc.judge.validation import Validation, WrongResult
from dlc.passes import Step
from dlc.remarks import Remark
from dlc.trace.model import Verdict

NO_CHANGE = Verdict("no change", False)
SAME = Verdict("same results", False)
NOT_COMPARED = Verdict("not compared: an earlier pass changed the result", False)


class Verdicts:
    """A pass that changes the result is noted as `wrong`, and the program is taken on."""

    def __init__(self, validation: Validation) -> None:
        self.validation = validation
        self.said: list[Verdict] = []
        """Of each pass, in their order."""
        self.wrong: WrongResult | None = None

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        self.validation.start(module, steps)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        self.said.append(self._judge(step, module, remarks, seconds))

    def _judge(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> Verdict:
        if self.wrong is not None:
            return NOT_COMPARED
        before = self.validation.checked
        try:
            self.validation.passed(step, module, remarks, seconds)
        except WrongResult as wrong:
            self.wrong = wrong
            return Verdict(str(wrong), True)
        return SAME if self.validation.checked > before else NO_CHANGE

    @property
    def summary(self) -> str:
        """All of it in a sentence or two, as the command line says it."""
        return str(self.validation if self.wrong is None else self.wrong)

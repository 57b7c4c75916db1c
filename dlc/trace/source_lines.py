"""An observer that keeps one of a program's texts, and knows what is made of each of its lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from dlc.diagnostics import UsageError
from dlc.passes import Stage, Step, last_step
from dlc.pipeline import stage_of
from dlc.remarks import Remark
from dlc.trace.lines import Lines, mark, origins


class SourceLines:
    """
    The text of one IR as a file, for `#line` directives. It writes into the locations of the module
    that is compiled: see `dlc.trace.lines`.
    """

    def __init__(self, ir: Stage) -> None:
        self.ir: Stage = ir
        self.file = f"{ir}.mlir"
        self._text: str | None = None

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        if stage_of(module) == self.ir:
            self._take(module)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        if step.stage == self.ir and step == last_step(self.ir):
            self._take(module)

    def _take(self, module: ModuleOp) -> None:
        lines = Lines(module)
        mark(module, lines, self.ir)
        self._text = lines.text

    @property
    def files(self) -> Mapping[str, str]:
        """The text by the name of its file; UsageError for a program that began after that IR."""
        if self._text is None:
            raise UsageError(f"the program has no {self.ir.capitalize()} IR: it begins later")
        return {self.file: self._text}

    def place_of(self, op: Operation) -> tuple[str, int] | None:
        """The file, and the first line of it, that an operation of Kernel IR is made of."""
        found = origins(op, self.ir)
        return (self.file, found[0] + 1) if found else None

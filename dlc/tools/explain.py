"""`dlc compile --explain`: for each kernel, its schedule, what was preferred to what, and why."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp

from dlc.pipeline import Step
from dlc.remarks import Remark
from dlc.tools.tables import BOLD, paint

UNNAMED = "the kernel's schedule does not name it"


class Explanation:
    """Collects what was decided about each kernel; `str` is the account of it."""

    def __init__(self, colour: bool) -> None:
        self._colour = colour
        self._remarks: list[Remark] = []

    def start(self, module: ModuleOp) -> None:
        pass

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        self._remarks += remarks

    def __str__(self) -> str:
        made = [r.kernel for r in self._remarks if r.pass_name == "materialize-tiles"]
        kernels = dict.fromkeys(made)
        return "\n\n".join(self._kernel(name) for name in kernels)

    def _kernel(self, name: str) -> str:
        lines = [paint(name, BOLD, self._colour)]
        for remark in self._remarks:
            if remark.kernel != name or remark.text.endswith(UNNAMED):
                continue
            label = remark.pass_name
            lines.append(f"  {label:<24}{remark.text}")
        return "\n".join(lines)

"""A program's use of memory, as `dlc compile --explain` and `dlc run` report it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dlc.backend.bound_program import BoundProgram
from dlc.backend.memory_use import MemoryUse
from dlc.passes import Step
from dlc.remarks import Remark
from dlc.text import table

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


class MemoryReport:
    """Looks at the host program once it is planned, and at what eager PyTorch would need."""

    def __init__(self, eager: int | None = None) -> None:
        """`eager` are the bytes that eager PyTorch needs, where they are known."""
        self.use: MemoryUse | None = None
        self.eager = eager

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        from dlc.backend.eager_memory import eager_peak  # with the dialects of Torch IR
        from dlc.pipeline import stage_of

        if stage_of(module) == "torch":
            self.eager = eager_peak(module)
        self.look(module)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        self.look(module)

    def look(self, module: ModuleOp) -> None:
        """Takes the use of a module that is planned, if none was before."""
        if self.use is None and any(op.name == "host.launch" for op in module.walk()):
            from dlc.backend.host_program import HostProgram  # with the dialects of Kernel IR

            self.take(HostProgram.of(module).bind())

    def take(self, program: BoundProgram) -> None:
        """Takes the use of a program, if it is planned and launches anything."""
        if program.planned and program.launches:
            self.use = MemoryUse.of(program)

    def __str__(self) -> str:
        """A table; empty for a program that is not planned."""
        use = self.use
        if use is None:
            return ""
        rows = [
            ("tensors between kernels", use.intermediates),
            ("of these, with data at once", use.live),
            ("workspace", use.workspace),
            ("results", use.results),
            ("peak: workspace and results", use.peak),
        ]
        if use.kept:
            rows.append(("kept from the first call on", use.kept))
        if self.eager is not None:
            rows.append(("eager PyTorch's peak, at least", self.eager))
        return table(["memory", "bytes"], [[name, str(size)] for name, size in rows])

    @property
    def line(self) -> str:
        """The same in one line."""
        if self.use is None:
            return ""
        sizes = f"{self.use.workspace} B of workspace, {self.use.results} B of results"
        eager = "" if self.eager is None else f"; eager's peak is at least {self.eager} B"
        return f"memory: {sizes}{eager}"

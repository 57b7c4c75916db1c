"""Kernels that serve all sizes of a program, and the sentence that says why there are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from dlc.diagnostics import OpError, failed_pass
from dlc.dialects.size_index import SizeIndexOp
from dlc.error_report import file_line_col
from dlc.frontend.sized_program import SizedProgram
from dlc.log import get_logger
from dlc.stages import Stages


@dataclass
class SharedKernels:
    """The kernels of programs that were imported for many sizes, by program and precision."""

    _made: dict[tuple[int, str], Stages | None] = field(default_factory=dict)
    obstacle: str = ""
    """Why the last program that has none is compiled for each size."""

    def stages(
        self, program: SizedProgram, precision: str, make: Callable[[ModuleOp], Stages]
    ) -> Stages | None:
        """
        What `make` makes of a copy of the program for all sizes, if that comes to Kernel IR; else
        the program is compiled for each size, which is logged with the reason.
        """
        key = id(program), precision
        if key not in self._made:
            stages = make(program.module.clone())
            try:
                stages.module("kernel")
                self._made[key] = stages
            except OpError as error:
                self._made[key] = None
                self.obstacle = f"kernels are compiled for each size: {_told(error)}"
                get_logger("compile").info("%s", self.obstacle)
        return self._made[key]


def are_made_for(kernels: ModuleOp, sizes: Mapping[str, int]) -> bool:
    """True if all kernels of a module take these sizes."""
    for op in kernels.walk():
        if isinstance(op, SizeIndexOp):
            low, high = op.symbol.bounds
            if not low <= sizes[op.size.data] <= high:
                return False
    return True


def _told(error: OpError) -> str:
    """`pass lift-to-loops: its loop nest needs a number for s (model.py:3)`."""
    place, name = file_line_col(error.op.location), failed_pass(error)
    where = f" ({place.filename.data}:{place.line.data})" if place is not None else ""
    return f"{f'pass {name}: ' if name else ''}{error.args[0]}{where}"

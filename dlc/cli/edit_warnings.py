"""Warnings about IR that somebody edited: what it does is legal, and seldom meant."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp

from dlc.analysis.loop.oversights import oversights
from dlc.diagnostics import OpError
from dlc.dialects import tile
from dlc.error_report import format_error
from dlc.schedule.progress import steps_left


def warn_of_oversights(module: ModuleOp, sources: Mapping[str, str]) -> None:
    """Prints them to stderr, each with its place."""
    for op, text in oversights(module):
        print(format_error(OpError(op, text), sources, "warning"), file=sys.stderr)


def warn_of_steps_left(module: ModuleOp, sources: Mapping[str, str]) -> None:
    """Tells of kernels in Tile IR on which not all steps of their schedule ran."""
    for op in module.walk():
        if isinstance(op, tile.KernelOp) and (left := steps_left(op)):
            text = f"@{op.name_} goes on as it is: of its schedule {', '.join(left)} did not run"
            print(format_error(OpError(op, text), sources, "warning"), file=sys.stderr)

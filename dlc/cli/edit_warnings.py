"""Warnings about IR that somebody edited: what it does is legal, and seldom meant."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp

from dlc.analysis.loop.oversights import oversights
from dlc.diagnostics import OpError
from dlc.error_report import format_error


def warn_of_oversights(module: ModuleOp, sources: Mapping[str, str]) -> None:
    """Prints them to stderr, each with its place."""
    for op, text in oversights(module):
        print(format_error(OpError(op, text), sources, "warning"), file=sys.stderr)

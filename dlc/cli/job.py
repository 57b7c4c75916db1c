"""The job of a command of `dlc`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context

from dlc.cli.observers import Timing
from dlc.cli.program_input import Loaded
from dlc.passes import Stage
from dlc.pipeline import Observer, run_pipeline
from dlc.text import wants_colour


@dataclass(frozen=True)
class Job:
    """A loaded program, and the options that say what is wanted of it."""

    ctx: Context
    loaded: Loaded
    options: argparse.Namespace
    observers: Sequence[Observer]
    timing: Timing
    sources: Mapping[str, str]
    """The texts that were loaded, by the names of their files."""

    @property
    def colour(self) -> bool:
        """True if what goes to stdout is coloured."""
        return wants_colour(self.options.color, sys.stdout)

    def run_passes(self, until: Stage, observers: Sequence[Observer] = ()) -> None:
        """Takes the module to an IR, watched by these observers, too."""
        run_pipeline(self.ctx, self.loaded.module, until, [*self.observers, *observers])

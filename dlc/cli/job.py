"""The job of a command of `dlc`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context

from dlc.cli.observers import Timing
from dlc.cli.program_input import Loaded, load_program
from dlc.kernel_cache import lower
from dlc.passes import Stage
from dlc.pipeline import Observer, run_pipeline, stage_of
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

    def source(self) -> Loaded:
        """What results are judged by: the program of -c where that stands beside a file."""
        if self.loaded.program is not None or self.options.text is None:
            return self.loaded
        return load_program(self.options.text, None, None, self.timing, self.options.seed)

    def run_passes(self, until: Stage, observers: Sequence[Observer] = ()) -> None:
        """Takes the module to an IR, watched by these observers, too."""
        run_pipeline(self.ctx, self.loaded.module, until, [*self.observers, *observers])

    def lower(self, observers: Sequence[Observer] = ()) -> int | None:
        """
        Takes the module to Kernel IR. If nobody but the timing watches the passes, they do not run
        where they have run before; then the longest reduction of Torch IR's loops is known, too.
        """
        module = self.loaded.module
        if observers or self.observers != [self.timing] or stage_of(module) != "torch":
            self.run_passes("kernel", observers)
            return None
        with self.timing.phase("dlc", "Kernel IR, looked up or written"):
            lowered = lower(self.ctx, module, self.observers)
        module.attributes = lowered.module.attributes
        module.detach_region(module.body)
        module.add_region(lowered.module.detach_region(lowered.module.body))
        return lowered.longest_reduction

"""The job of a command of `dlc`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlc.cli.observers import Timing
from dlc.cli.program_input import Loaded, load_program
from dlc.ir.cached import cached
from dlc.text import wants_colour

if TYPE_CHECKING:
    from xdsl.context import Context

    from dlc.kernel_cache import Lowered
    from dlc.passes import Stage
    from dlc.pipeline import Observer


def new_context() -> Context:
    """What modules are parsed and passes are run in."""
    from xdsl.context import Context

    from dlc.registry import register

    return register(Context())


@dataclass(frozen=True)
class Job:
    """A loaded program, and the options that say what is wanted of it."""

    loaded: Loaded
    options: argparse.Namespace
    observers: Sequence[Observer]
    timing: Timing
    sources: Mapping[str, str]
    """The texts that were loaded, by the names of their files."""

    @cached
    def ctx(self) -> Context:
        return new_context()

    @property
    def colour(self) -> bool:
        """True if what goes to stdout is coloured."""
        return wants_colour(self.options.color, sys.stdout)

    def source(self) -> Loaded:
        """What results are judged by: the program of -c where that stands beside a file."""
        if self.loaded.is_imported or self.options.text is None:
            return self.loaded
        return load_program(self.options, self.options.text, None, None, self.timing)

    def run_passes(self, until: Stage, observers: Sequence[Observer] = ()) -> None:
        """Takes the module to an IR, watched by these observers, too."""
        from dlc.pipeline import run_pipeline  # with xDSL

        run_pipeline(self.ctx, self.loaded.module, until, [*self.observers, *observers])

    def lower(self, observers: Sequence[Observer] = ()) -> Lowered:
        """
        The module, which is left as it is, in Kernel IR. If nobody but the timing watches the
        passes, they do not run where they have run before; else the longest reduction is not known.
        """
        from dlc.kernel_cache import Lowered, lower  # with PyTorch
        from dlc.pipeline import run_pipeline, stage_of  # with xDSL

        module = self.loaded.module
        if observers or self.observers != [self.timing] or stage_of(module) != "torch":
            module = module.clone()
            run_pipeline(self.ctx, module, "kernel", [*self.observers, *observers])
            return Lowered.of(module)
        with self.timing.phase("dlc", "Kernel IR, looked up or written"):
            return lower(self.ctx, module, self.observers)

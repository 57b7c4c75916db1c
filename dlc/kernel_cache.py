"""
Kernel IR on disk, found by the Torch IR that it was made from, its target and dlc's own source.

It lies beside the machine code (`dlc/backend/cache.py`), as text with locations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.printer import Printer

from dlc.analysis.loop.loops import longest_reduction
from dlc.backend.cache import content_key, lookup, lookup_or_build
from dlc.pipeline import Observer, run_pipeline
from dlc.version import source_key

LABEL, FILE = "kernel-ir", "kernel.mlir"


@dataclass(frozen=True)
class Lowered:
    """A program in Kernel IR."""

    module: ModuleOp
    longest_reduction: int
    """The points of the longest reduce in its Loop IR."""


def lower(ctx: Context, module: ModuleOp, observers: Sequence[Observer] = ()) -> Lowered:
    """
    A module of Torch IR, which is left as it is, taken to Kernel IR, or what that gave before. The
    observers see the passes that run. Raises what `run_pipeline` does.
    """
    key = content_key(_text(module), source_key())
    if (entry := lookup(LABEL, key, FILE)) is not None:
        text = entry.path.read_text()
        found = Parser(ctx, text, str(entry.path)).parse_module()
        return Lowered(found, entry.info["longest_reduction"])
    module = module.clone()
    run_pipeline(ctx, module, "loop", observers)
    lowered = Lowered(module, longest_reduction(module))
    run_pipeline(ctx, module, "kernel", observers)

    def build(directory: Path) -> dict[str, int]:
        (directory / FILE).write_text(_text(module))
        return {"longest_reduction": lowered.longest_reduction}

    lookup_or_build(LABEL, key, FILE, build)
    return lowered


def _text(module: ModuleOp) -> str:
    stream = StringIO()
    Printer(stream, print_debuginfo=True).print_op(module)
    return stream.getvalue()

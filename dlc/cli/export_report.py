"""`dlc compile … -o DIRECTORY/`: the program as files that run without dlc."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from dlc.backend.export import export_program
from dlc.cli.program_input import Loaded
from dlc.text import counted
from dlc.trace.source_lines import SourceLines


def export(loaded: Loaded, options: argparse.Namespace, lines: SourceLines | None = None) -> str:
    """
    Exports a program in Kernel IR to the directory `-o`, with `#line` directives if `lines` watched
    how it was made; how to run it.
    """
    weights = None
    if options.with_weights and loaded.program is not None:
        arguments = loaded.program.arguments
        weights = {a.name: a.tensor for a in arguments if a.tensor is not None}
    directory = Path(options.o)
    told = {} if lines is None else {"place_of": lines.place_of, "more": lines.files}
    files = export_program(loaded.module, directory, weights, **told)
    kernels = counted(sum(file.suffix == ".cu" for file in files), "kernel")
    name, binary = shlex.quote(str(directory)), shlex.quote(str(directory / "run"))
    return (
        f"{directory}: {kernels}; to run it: make -C {name}, or make -C {name} HOST=1, then "
        f"{binary} INPUTS RESULTS\n"
    )

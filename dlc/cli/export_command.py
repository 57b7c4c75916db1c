"""`dlc compile … -o DIRECTORY/`: the program as files that run without dlc."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from xdsl.context import Context

from dlc.backend.export import export_program
from dlc.cli.program_input import Loaded
from dlc.pipeline import Observer, run_pipeline


def export_and_report(
    ctx: Context, loaded: Loaded, options: argparse.Namespace, observers: Sequence[Observer]
) -> int:
    """Exports what was loaded to the directory `-o` and says how to run it."""
    run_pipeline(ctx, loaded.module, "kernel", observers)
    weights = None
    if options.with_weights and loaded.program is not None:
        arguments = loaded.program.arguments
        weights = {a.name: a.tensor for a in arguments if a.tensor is not None}
    directory = Path(options.o)
    files = export_program(loaded.module, directory, weights)
    kernels = sum(file.suffix == ".cu" for file in files)
    name, binary = shlex.quote(str(directory)), shlex.quote(str(directory / "run"))
    print(
        f"{directory}: {kernels} kernel{'s' * (kernels != 1)}; to run it: make -C {name}, or "
        f"make -C {name} HOST=1, then {binary} INPUTS RESULTS"
    )
    return 0

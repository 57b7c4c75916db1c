"""
Runs modules of Kernel IR once more after a first time, for tools that look at a process:

    ncu --profile-from-start off … python -P profiled.py KERNELS.mlir
    compute-sanitizer … python -P profiled.py KERNELS.mlir …

The second run lies between the start and the stop of the CUDA profiler. Inputs are random. It is
run as a file that imports dlc alone, so it runs wherever dlc does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from xdsl.context import Context

from dlc.backend.executor import Backend, Executor, default_backend, get_backend
from dlc.ir.locations import LocParser
from dlc.judge.random_inputs import random_arguments
from dlc.registry import register


def command(backend: str, files: Sequence[Path]) -> list[str]:
    """Runs files of Kernel IR in a process of their own."""
    return [sys.executable, "-P", __file__, "--backend", backend, *map(str, files)]


def run_file(path: Path, backend: Backend) -> list[str]:
    """Runs a module twice; the names of its kernels."""
    module = LocParser(register(Context()), path.read_text(), str(path)).parse_module()
    executor = Executor(module, backend)
    arguments = random_arguments(module, seed=0)
    executor(arguments)
    with _profiled(backend.name):
        executor(arguments)
    return [func.name_ for func in executor.funcs]


@contextmanager
def _profiled(backend: str) -> Iterator[None]:
    if backend != "cuda":
        yield
        return
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    try:
        yield
        torch.cuda.synchronize()
    finally:
        torch.cuda.profiler.stop()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="KERNELS.mlir")
    parser.add_argument("--backend", default=default_backend(), choices=("host", "cuda"))
    options = parser.parse_args(argv)
    backend = get_backend(options.backend)
    for path in options.files:
        print(f"{path.name}: {', '.join(run_file(path, backend))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

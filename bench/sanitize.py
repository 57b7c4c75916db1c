"""
Runs small kernels of every family under compute-sanitizer.

    python bench/sanitize.py [--tool memcheck] [--tool racecheck] [--budget 90s]

The sizes are ragged, so that guards are at work, and large enough for three chunks of K, so that
rings go round. `--backend host` runs them without the sanitizer. Exits with 1 if one reports
something.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from cases import (
    Case,
    linear,
    matmul,
    matmul_add,
    naive_attention,
    rms_norm,
    sdpa,
    silu_mul,
    silu_mul_matmul,
    softmax,
    sum_all,
)
from suite import parse_budget

from dlc.backend.cuda.run.tools import find_tool
from dlc_bench import profiled

TOOLS = ("memcheck", "racecheck")
FOUND = 9
"""The exit code of a sanitizer that has something to report."""

CASES: tuple[Case, ...] = (
    matmul("matmul", "small", 97, 200, 132),
    matmul("matmul_unaligned", "small", 33, 131, 67),
    linear("linear", "small", 65, 260, 129),
    matmul_add("matmul_add_split", "small", 5, 4096, 64),
    silu_mul_matmul("silu_mul_matmul", "small", 33, 100, 68),
    rms_norm("rms_norm", "small", 5, 2053),
    softmax("softmax", "small", (1, 3, 33, 131)),
    silu_mul("silu_mul", "small", 33, 131),
    sdpa("sdpa", "small", 4, 2, 67, 64),
    naive_attention("naive_attention", "small", 3, 67, 32),
    sum_all("sum_all", 10007),
)


def write_kernels(folder: Path, compiled: bool) -> list[Path]:
    """The Kernel IR of each case in a file, for the GPU at hand; with a GPU, compiled as well."""
    from dlc.backend.cuda.print.printer import print_kernel
    from dlc.backend.cuda.run.nvcc import compile_cubins
    from dlc.backend.executor import default_target
    from dlc.dialects.kernel import FuncOp
    from dlc.frontend.export.fx import import_program
    from dlc.frontend.scripts.capture import capture_text
    from dlc.pipeline import run_pipeline, text_of
    from dlc.stages import compiler_context
    from dlc.target import set_target
    from dlc.transforms.tensor.decompositions import DECOMPOSITIONS

    paths: list[Path] = []
    sources: list[str] = []
    for case in CASES:
        module = import_program(*capture_text(case.text), whole=DECOMPOSITIONS).module
        set_target(module, default_target())
        run_pipeline(compiler_context(), module, "kernel")
        paths.append(folder / f"{case.name}.mlir")
        paths[-1].write_text(text_of(module))
        sources += [print_kernel(op) for op in module.ops if isinstance(op, FuncOp)]
    if compiled:
        compile_cubins(sources, default_target())
    return paths


def command(tool: str, backend: str, paths: Sequence[Path]) -> list[str]:
    """One process for all kernels; on the host without a sanitizer."""
    run = profiled.command(backend, paths)
    if backend == "host":
        return run
    found = find_tool("compute-sanitizer")
    if found is None:
        raise FileNotFoundError("compute-sanitizer was not found on PATH or in $CUDA_HOME")
    # Calls that PyTorch makes to see whether they work are no errors of ours.
    checks = ["--report-api-errors", "no"] if tool == "memcheck" else []
    return [str(found), "--tool", tool, *checks, "--target-processes", "application-only",
            "--error-exitcode", str(FOUND), "--print-limit", "20", *run]  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--tool", action="append", choices=TOOLS, help="[both]")
    parser.add_argument("--backend", choices=("host", "cuda"), default="cuda")
    parser.add_argument("--budget", type=parse_budget, default=parse_budget("90s"))
    options = parser.parse_args(argv)
    deadline = time.monotonic() + options.budget
    bad = 0
    # Tensors that share an allocation hide accesses beside them.
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    with tempfile.TemporaryDirectory(prefix="dlc-sanitize-") as folder:
        paths = write_kernels(Path(folder), options.backend == "cuda")
        for tool in options.tool or TOOLS:
            left = max(1.0, deadline - time.monotonic())
            verdict = "ran out of time"
            try:
                code = subprocess.run(
                    command(tool, options.backend, paths), timeout=left, env=environment
                ).returncode
                said = {0: "nothing to report", FOUND: "ERRORS"}
                verdict = said.get(code, f"failed with code {code}")
            except subprocess.TimeoutExpired:
                pass
            except OSError as error:
                verdict = f"not begun: {error}"
            bad += verdict != "nothing to report"
            where = "" if options.backend == "cuda" else " (on the host, without the sanitizer)"
            print(f"{tool}: {verdict}, {len(paths)} modules{where}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

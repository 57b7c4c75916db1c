"""Runs a kernel against operations of PyTorch, for the scripts of `--reproduce`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import torch

from dlc.analysis.loop.loops import longest_reduction
from dlc.backend import BACKENDS
from dlc.backend.executor import Executor, get_backend
from dlc.cli.run_report import kernel_table, report_accuracy, timed_run
from dlc.cli.user_results import rows_of
from dlc.dialects.main_function import main_of
from dlc.ir.locations import LocParser
from dlc.judge.known_results import Known
from dlc.judge.random_inputs import random_arguments
from dlc.judge.reference import Widened, widened
from dlc.stages import compiler_context
from dlc.target import precision_of


def check_kernel(
    text: str,
    operations: Callable[..., Sequence[torch.Tensor]],
    argv: Sequence[str] | None = None,
) -> int:
    """
    Runs the Kernel IR `text` on random arguments of its `@main` and prints how its results compare
    with those of `operations`, in fp64 and as they are: 1 where one is wrong, else 0.
    """
    parser = argparse.ArgumentParser(description="Runs a kernel and checks its results.")
    parser.add_argument("--backend", choices=BACKENDS, help="where it runs [cuda or host]")
    parser.add_argument("--seed", type=int, default=0, help="of random inputs [0]")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto")
    options = parser.parse_args(argv)
    module = LocParser(compiler_context(), text, "<kernel>").parse_module()
    module.verify()
    arguments = random_arguments(module, options.seed)
    with torch.no_grad():
        eager = operations(*arguments)
        with Widened():
            exact = operations(*(widened(t) for t in arguments))
    backend = get_backend(options.backend)
    executor = Executor(module, backend)
    results, times = timed_run(executor, arguments)
    print(kernel_table(executor.funcs, times, backend.name))
    print()
    question = Known(exact, eager, longest_reduction(module), precision=precision_of(module))
    return report_accuracy(rows_of(main_of(module)), results, question, options, backend)

"""A program that `dlc run` compiles, or finds by its Torch IR."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from dlc.backend.eager_memory import eager_peak
from dlc.cli.job import Job
from dlc.cli.memory_report import MemoryReport
from dlc.cli.observers import Timing
from dlc.cli.program_input import Loaded
from dlc.cli.run_subject import Shown, Subject, check_memory
from dlc.cli.user_results import rows_of
from dlc.dialects.main_function import main_of
from dlc.dialects.user_outputs import mutated_by
from dlc.judge.reference import evaluate
from dlc.pipeline import Observer, run_pipeline, stage_of
from dlc.target import precision_of


def compiled(job: Job, source: Loaded, observers: Sequence[Observer]) -> Subject:
    """
    What was loaded in Kernel IR, and the results of `source`, by which it is judged. The observers
    see the passes. OpError for what PyTorch refuses, and as of the passes.
    """
    loaded, timing = job.loaded, job.timing
    arguments = source.arguments(job.options.seed)
    reference = make_reference(source.module, arguments, timing)
    peak = eager_peak(loaded.module) if stage_of(loaded.module) == "torch" else None
    lowered = job.lower(observers)
    longest = lowered.longest_reduction
    if reference is None:
        longest = 1
    elif longest is None or source is not loaded:
        longest = _longest_reduction(job.ctx, source.module.clone())
    main = main_of(source.module)
    memory = MemoryReport(peak)
    memory.take(lowered.program)
    shown = Shown(rows_of(main), mutated_by(main), peak, memory.line)
    precision = precision_of(loaded.module)
    return Subject(lowered, arguments, reference, longest, shown, precision)


def make_reference(
    module: ModuleOp, arguments: Sequence[torch.Tensor], timing: Timing
) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
    """PyTorch's results in fp64 and in eager's dtypes, for a module in Torch IR."""
    if stage_of(module) != "torch":
        return None
    check_memory(eager_peak(module), arguments)
    with timing.phase("torch", "reference in fp64 and eager"):
        eager = evaluate(module, arguments)  # first, as what it refuses is of the program's types
        return evaluate(module, arguments, double=True), eager


def _longest_reduction(ctx: Context, module: ModuleOp) -> int:
    """The points of the longest reduce of Torch IR, which is taken to Loop IR."""
    from dlc.analysis.loop.loops import longest_reduction

    run_pipeline(ctx, module, "loop")
    return longest_reduction(module)

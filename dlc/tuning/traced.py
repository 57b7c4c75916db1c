"""What a tuning tried and found, for the page of a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from xdsl.dialects.builtin import ModuleOp, StringAttr

from dlc.dialects import loop
from dlc.dialects.kernel_op import kernels_in
from dlc.passes import CHOOSING, Step, step_before
from dlc.pipeline import stage_of
from dlc.remarks import Remark
from dlc.trace.model import Candidates, Tried
from dlc.tuning.tuner import Trial, Tuning
from dlc.tuning.tuning_report import difference, verdict


class GivenSchedules:
    """An observer that writes schedules on kernels, by their names, before any would be chosen."""

    def __init__(self, schedules: Mapping[str, str]) -> None:
        self.schedules = schedules

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        if stage_of(module) == "loop":
            self._write(module)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        if step == step_before(CHOOSING):
            self._write(module)

    def _write(self, module: ModuleOp) -> None:
        for kernel in kernels_in(module, loop.KernelOp):
            if (schedule := self.schedules.get(kernel.name_)) is not None:
                kernel.schedule = StringAttr(schedule)


def candidates_of(tuning: Tuning) -> Candidates:
    """The schedules that were judged, the fastest first, those that were refused last."""
    ranked = tuning.ranked
    rest = [trial for trial in tuning.trials if trial.score is None]
    tried = [_tried(tuning, trial) for trial in (*ranked, *rest)]
    chosen = verdict(tuning).splitlines()[0].partition(": ")[2]
    return Candidates(chosen, (), tuning.objective.measures, tried)


def _tried(tuning: Tuning, trial: Trial) -> Tried:
    return Tried(
        tuning.trials.index(trial),
        difference(tuning.default.schedule, trial.schedule),
        trial.estimate if isfinite(trial.estimate) else -1.0,
        -1.0 if trial.seconds is None else trial.seconds,
        trial.again,
        next(iter(trial.refusal.splitlines()), ""),
    )

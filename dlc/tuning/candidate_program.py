"""A kernel with a candidate schedule, as a program of its own: lowered, and run for its results."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from xdsl.dialects.builtin import ModuleOp

from dlc.analysis.loop.loops import longest_reduction
from dlc.backend.executor import Executor, get_backend
from dlc.dialects import kernel
from dlc.judge.accuracy import compare
from dlc.judge.random_inputs import random_arguments
from dlc.stages import Stages
from dlc.target import Target, target_of


@dataclass(frozen=True)
class Subject:
    """The kernel `name` of a module of Loop IR that runs it alone; the seed is of its inputs."""

    module: ModuleOp
    name: str
    seed: int = 0

    @property
    def target(self) -> Target:
        return target_of(self.module)

    def lowered(self, schedule: str) -> ModuleOp:
        """Its Kernel IR with a schedule."""
        return Stages(self.module, {self.name: schedule}).module("kernel")

    def funcs(self, schedule: str) -> list[kernel.FuncOp]:
        """Its kernels with a schedule: a split one is two."""
        return [op for op in self.lowered(schedule).walk() if isinstance(op, kernel.FuncOp)]

    def arguments(self) -> list[torch.Tensor]:
        return random_arguments(self.module, self.seed)

    def results(self, schedule: str) -> list[torch.Tensor]:
        """What it computes on the host with a schedule."""
        return Executor(self.lowered(schedule), get_backend("host"))(self.arguments())

    def complaint(self, results: list[torch.Tensor], expected: list[torch.Tensor]) -> str:
        """What is wrong with results; empty if nothing is."""
        longest = longest_reduction(self.module)
        for number, (result, right) in enumerate(zip(results, expected, strict=True)):
            verdict = compare(result.cpu(), right.double(), None, longest)
            if not verdict.ok:
                return f"result {number} differs from the default schedule's: {verdict}"
        return ""

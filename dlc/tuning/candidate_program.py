"""A kernel with a candidate schedule, as a program of its own: lowered, and run for its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from dlc.analysis.loop.loops import longest_reduction
from dlc.backend.executor import Executor, get_backend
from dlc.dialects import kernel, loop
from dlc.judge.accuracy import compare
from dlc.judge.random_inputs import random_arguments
from dlc.pipeline import text_of
from dlc.schedule.estimate import estimate
from dlc.schedule.scheduled_time import scheduled_seconds
from dlc.stages import Stages, compiler_context
from dlc.target import Target, target_of


@dataclass(frozen=True)
class Subject:
    """
    The kernel `name` of a module of Loop IR that runs it alone; the seed is of its inputs. It goes
    to another process as text.
    """

    module: ModuleOp
    name: str
    seed: int = 0

    @property
    def target(self) -> Target:
        return target_of(self.module)

    @property
    def kernel(self) -> loop.KernelOp:
        return next(op for op in self.module.walk() if isinstance(op, loop.KernelOp))

    def lowered(self, schedule: str) -> ModuleOp:
        """Its Kernel IR with a schedule."""
        return Stages(self.module, {self.name: schedule}).module("kernel")

    def funcs(self, schedule: str) -> list[kernel.FuncOp]:
        """Its kernels with a schedule: a split one is two."""
        return _funcs(self.lowered(schedule))

    @cached_property
    def correction(self) -> float:
        """
        How many times as long as its Kernel IR counts to with the default schedule, launches aside,
        the estimate is by which kernels are fused and scheduled.
        """
        module = self.module.clone()
        for op in module.walk():
            if isinstance(op, loop.KernelOp):
                op.schedule = None
        funcs, target = _funcs(Stages(module).module("kernel")), self.target
        launches = len(funcs) * target.launch_seconds
        counted = sum(scheduled_seconds(func, target) for func in funcs) - launches
        return (estimate(self.kernel, target).seconds - launches) / counted if counted else 1.0

    def corrected(self, seconds: Sequence[float]) -> float:
        """
        What its kernels take of which each counts to so many seconds, in the same microseconds as
        `--explain` tells of the default schedule.
        """
        launches = len(seconds) * self.target.launch_seconds
        return launches + self.correction * (sum(seconds) - launches)

    def arguments(self) -> list[torch.Tensor]:
        return random_arguments(self.module, self.seed)

    def results(self, schedule: str) -> list[torch.Tensor]:
        """What it computes on the host with a schedule."""
        return Executor(self.lowered(schedule), get_backend("host"))(self.arguments())

    def complaint(self, results: list[torch.Tensor], expected: list[torch.Tensor]) -> str:
        """What is wrong with results; empty if nothing is."""
        how = longest_reduction(self.module), self.target.precision
        for number, (result, right) in enumerate(zip(results, expected, strict=True)):
            verdict = compare(result.cpu(), right.double(), None, *how)
            if not verdict.ok:
                return f"result {number} differs from the default schedule's: {verdict}"
        return ""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "module": text_of(self.module)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        module = Parser(compiler_context(), state["module"]).parse_module()
        self.__dict__.update({**state, "module": module})


def _funcs(module: ModuleOp) -> list[kernel.FuncOp]:
    return [op for op in module.walk() if isinstance(op, kernel.FuncOp)]

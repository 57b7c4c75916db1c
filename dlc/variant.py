"""A program compiled for one set of shapes: what runs, and what a graph of it replays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType

from dlc import gradients
from dlc.analysis.loop.loops import longest_reduction
from dlc.backend import BackendError
from dlc.backend.dtypes import torch_dtype
from dlc.backend.executor import Backend, Executor, OnLaunch
from dlc.bound_kernels import kernels_at, program_at
from dlc.cuda_graph import Graph
from dlc.dialects.main_function import main_of
from dlc.frontend.export.imported import ImportedProgram
from dlc.log import get_logger
from dlc.passes import Stage
from dlc.precision import Precision
from dlc.stages import Stages
from dlc.target import precision_of


class Variant:
    """A program compiled for one set of shapes, dtypes, strides and alignments."""

    def __init__(
        self,
        program: ImportedProgram,
        backend: Backend,
        stages: Stages | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        """With `sizes`, `stages` are those of the program for all sizes, which these bind."""
        self.program = program
        self.sizes = dict(sizes or {})
        self.backend = backend
        self.stages = stages or Stages(program.module)
        self.precision: Precision = precision_of(program.module)
        types = main_of(program.module).function_type.outputs.data
        # Tensor IR has no unsigned bytes: the results of its kernels are seen as what they are.
        self._dtypes = [
            torch_dtype(t.element_type) for t in types if isinstance(t, TensorType | MemRefType)
        ]

    def module(self, stage: Stage) -> ModuleOp:
        """The program's module at a stage; it must not be changed."""
        return self.stages.module(stage)

    @cached_property
    def bound(self) -> Stages:
        """The stages of the program of this variant's sizes alone, from its Kernel IR on."""
        if not self.sizes:
            return self.stages
        return Stages(kernels_at(self.module("kernel"), self.sizes))

    @cached_property
    def executor(self) -> Executor:
        sizes = self.sizes
        program = program_at(self.module("kernel"), sizes) if sizes else self.stages.program()
        executor = Executor(program, self.backend)
        eager = self.program.eager
        self.stages.dump(getattr(eager, "__name__", type(eager).__name__))
        log = get_logger("kernels")
        for func in executor.funcs:
            given = func.name_, func.grid_size, func.block_size, func.schedule
            log.info("%s<<<%d, %d>>> %s", *given)
        return executor

    def run(self, bound: Sequence[torch.Tensor], on_launch: OnLaunch | None = None) -> Any:
        """The user's output for the tensors of `@main`, mutations written back."""
        return self.finish(self.compute(bound, on_launch), bound)

    def compute(
        self, bound: Sequence[torch.Tensor], on_launch: OnLaunch | None = None
    ) -> list[torch.Tensor]:
        """
        The results of the kernels for the tensors that `@main` takes, some of which they update.
        """
        given = [t.detach() if t.requires_grad else t for t in bound]
        self.executor.tell_of_copies(given)
        return self.executor(given, on_launch, in_place=True)

    def rehearse(self, bound: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The same, with the tensors as they were."""
        return self.executor([t.detach() for t in bound])

    def finish(self, results: Sequence[torch.Tensor], bound: Sequence[torch.Tensor]) -> Any:
        """The user's output of what the kernels computed, mutations written back."""
        return self.program.unflatten(self._typed(results), bound)

    def _typed(self, results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [
            r if r.dtype == d else r.view(d) for r, d in zip(results, self._dtypes, strict=True)
        ]

    def write(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """As `compute`; the arguments that the program writes to have their new values, too."""
        results = self._typed(self.compute(tensors))
        with torch.no_grad():
            for result in self.program.results:
                if result.argument is not None:
                    mutated, made = tensors[result.argument], results[result.index]
                    if mutated.data_ptr() != made.data_ptr():
                        results[result.index] = mutated.copy_(made)
        return results

    @cached_property
    def gradients(self) -> gradients.Gradients:
        return gradients.Gradients(self.program)

    @cached_property
    def graphs(self) -> list[Graph]:
        """The graph that was captured last, if any."""
        return []

    def replay(self, bound: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """
        As `compute`, by a CUDA graph, which is captured if there is none for these parameters.
        """
        return self.graph(bound).run(bound)

    def graph(self, bound: Sequence[torch.Tensor]) -> Graph:
        """The graph that was captured last, or where it is not for these parameters, a new one."""
        if not self.graphs or not self.graphs[-1].fits(bound):
            self.graphs[:] = [self.capture(bound)]
        return self.graphs[-1]

    def capture(self, bound: Sequence[torch.Tensor]) -> Graph:
        if self.executor.program.branches_on_data:
            raise BackendError(
                "a CUDA graph cannot wait for what it computes, and this program branches on that "
                "(torch.cond or while_loop): leave out graph=True"
            )
        arguments, constants = self.program.arguments, self.executor.program.constants
        return Graph(self.backend, arguments, constants, self.write, self.rehearse, bound)

    @cached_property
    def longest_reduction(self) -> int:
        return longest_reduction(self.module("loop"))

"""A graph as a callable that runs dlc's kernels, or PyTorch where there are none."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from xdsl.utils.exceptions import DiagnosticException

from dlc.compile_options import CompileOptions
from dlc.compiler import CompiledProgram
from dlc.dynamo.options import Options
from dlc.dynamo.placeholders import changing
from dlc.frontend.state.constants import key_of
from dlc.log import get_logger


class CompiledGraph(torch.nn.Module):
    """
    Compiles a graph for each combination of sizes, numbers, dtypes, strides and alignments that it
    is called with. With `fallback`, a call that it cannot be compiled for is left to PyTorch. It is
    made for arguments like `inputs`, and imported once for all sizes that are symbols there.
    """

    def __init__(self, graph: GraphModule, options: Options, inputs: Sequence[Any]) -> None:
        super().__init__()
        self.graph = graph
        self.fallback = options.fallback
        how = CompileOptions(
            options.graph, precision=options.precision, dynamic_shapes=changing(graph, inputs)
        )
        self.program = CompiledProgram(graph, options.chip(), options.place(), how)
        self.left: set[Hashable] = set()
        """The calls that are left to PyTorch, by their keys."""

    def prepare(self, args: Sequence[Any]) -> None:
        """Compiles the graph for such a call, to machine code. DiagnosticException if it cannot."""
        variant, _ = self.program.prepared(args)
        variant.executor.prepare()

    def leave(self, args: Sequence[Any], reason: str) -> None:
        """Such calls are left to PyTorch."""
        self.left.add(_key(args))
        left_to_eager(self.graph, reason)

    def forward(self, *args: Any) -> Any:
        if self.left and _key(args) in self.left:
            return self.graph(*args)
        try:
            return self.program(*args)
        except DiagnosticException as error:
            if not self.fallback:
                raise
            self.leave(args, reason_of(error))
            return self.graph(*args)


def left_to_eager(graph: GraphModule, reason: str) -> Callable[..., Any]:
    """What runs a graph by PyTorch; a warning says why."""
    get_logger("graphs").warning("a graph is left to eager PyTorch: %s", reason)
    return graph.forward


def reason_of(error: Exception) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split())


def _key(args: Sequence[Any]) -> Hashable:
    return key_of(
        [
            (value.shape, value.stride(), value.dtype) if isinstance(value, torch.Tensor) else value
            for value in args
        ]
    )

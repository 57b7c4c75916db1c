"""
`torch.compile(model, backend="dlc")`.

Dynamo calls `backend` with a graph of torch functions. Where no gradient is wanted, dlc exports and
compiles it as it is. Otherwise, and where dlc cannot compile all of it or it differentiates by
`torch.func`, which an export does not follow, AOTAutograd makes graphs of ATen operations that
write to nothing, one of the forward and one of the backward: dlc compiles what it can of both, that
of the backward when it is first called, and PyTorch runs the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule
from xdsl.utils.exceptions import DiagnosticException

from dlc.diagnostics import hints_in_text
from dlc.dynamo.compiled_graph import CompiledGraph, left_to_eager, reason_of
from dlc.dynamo.options import Options
from dlc.dynamo.pieces import compile_pieces
from dlc.dynamo.placeholders import (
    concrete,
    name_inputs,
    take_numbers,
    with_numbers,
)
from dlc.frontend.aten.margins import margins_of_eager
from dlc.frontend.aten.mixed_norms import MIXED_NORMS
from dlc.frontend.aten.resampling import resampling_kept_whole
from dlc.frontend.aten.written_views import ViewWriteError
from dlc.frontend.exclusive import outside_of_tracing


def backend(
    graph: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """
    Compiles a graph for `example_inputs`, and for other sizes, numbers, strides and alignments when
    it is called with them; inputs that it mutates are written back. `mode` and `options` are those
    of `Options.of`.

    Without the option `fallback`, raises ImportFailure, UnsupportedError or OpError for what dlc
    cannot compile; BackendError where kernels cannot be compiled to machine code.
    """
    with hints_in_text():  # Dynamo shows nothing else of an error
        return _compiled(graph, example_inputs, Options.of(mode, options))


backend.__name__ = "dlc"  # as Dynamo names it in errors


def _compiled(
    graph: GraphModule, example_inputs: Sequence[Any], chosen: Options
) -> Callable[..., Any]:
    if not _wants_gradients(example_inputs) and not _differentiates(graph):
        try:
            return _whole(graph, example_inputs, chosen)
        except DiagnosticException as error:
            if not chosen.fallback:
                raise
            if isinstance(error, ViewWriteError):  # a functional graph adds up what is written
                return left_to_eager(graph, reason_of(error))
    return _differentiable(graph, example_inputs, chosen)


def _wants_gradients(inputs: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(
        isinstance(value, torch.Tensor) and value.requires_grad for value in inputs
    )


def _differentiates(graph: GraphModule) -> bool:
    """True if a graph enters a transform of torch.func that differentiates."""
    names = (getattr(node.target, "__name__", "") for node in graph.graph.nodes)
    return any(re.search("grad_increment|jvp_increment|dual_level", name) for name in names)


def _whole(graph: GraphModule, inputs: Sequence[Any], options: Options) -> Callable[..., Any]:
    """The graph by kernels of dlc alone."""
    graph = GraphModule(graph, deepcopy(graph.graph))
    name_inputs(graph)
    numbers = take_numbers(graph)
    compiled = CompiledGraph(graph, options, inputs)
    with outside_of_tracing():
        compiled.prepare(with_numbers(concrete(inputs), numbers))

    @torch.compiler.disable
    def run(*args: Any) -> Any:
        return compiled(*with_numbers(args, numbers))

    return run


def _differentiable(
    graph: GraphModule, inputs: Sequence[Any], options: Options
) -> Callable[..., Any]:
    """The graph by AOTAutograd: its forward and its backward, or pieces of these, by dlc."""

    # What is kept for a backward, and gradients that are added to, outlive the next call: a CUDA
    # graph would overwrite them.
    kept = replace(options, graph=options.graph and not _wants_gradients(inputs))

    def forward(traced: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        with outside_of_tracing():
            return make_boxed_func(compile_functional(traced, inputs, kept))

    def backward(traced: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        run = _when_called(traced, inputs, kept) if options.backward else traced.forward
        return make_boxed_func(run)

    with margins_of_eager(), resampling_kept_whole():
        return aot_autograd(
            fw_compiler=forward, bw_compiler=backward, decompositions=dict(MIXED_NORMS)
        )(graph, inputs)


def compile_functional(
    graph: GraphModule, inputs: Sequence[Any], options: Options
) -> Callable[..., Any]:
    """A functional ATen graph, compiled as a whole or in pieces."""
    compiled = CompiledGraph(graph, options, inputs)
    try:
        compiled.prepare(concrete(inputs))
    except DiagnosticException:
        if not options.fallback:
            raise
        return compile_pieces(graph, options)
    return compiled


def _when_called(graph: GraphModule, inputs: Sequence[Any], options: Options) -> Callable[..., Any]:
    """The same, compiled at the first call: few forwards are asked for their gradients."""

    @cache
    def compiled() -> Callable[..., Any]:
        with outside_of_tracing():
            return compile_functional(graph, inputs, options)

    return lambda *args: compiled()(*args)

"""Splits a graph into pieces that dlc compiles and operations that PyTorch runs."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils._pytree import tree_leaves
from xdsl.utils.exceptions import DiagnosticException

from dlc.dynamo.compiled_graph import CompiledGraph, reason_of
from dlc.dynamo.options import Options
from dlc.dynamo.placeholders import concrete
from dlc.frontend.export.fx import import_program
from dlc.frontend.source import ImportFailure, UnsupportedError, place_of
from dlc.log import get_logger
from dlc.pipeline import run_pipeline
from dlc.stages import compiler_context
from dlc.transforms.tensor.decompose_torch import UnsupportedOperations
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS


def compile_pieces(graph: GraphModule, options: Options) -> Callable[..., Any]:
    """
    A functional ATen graph whose supported operations are compiled, as many together as can be.
    One warning sums up what PyTorch runs, and why.
    """
    for node in graph.graph.find_nodes(op="get_attr"):
        if isinstance(value := getattr(graph, str(node.target), None), torch.Tensor):
            node.meta.setdefault("val", value)
    support = Support()
    count = sum(node.op == "call_function" for node in graph.graph.nodes)
    partitioner = CapabilityBasedPartitioner(graph, support, allows_single_node_partition=True)
    split = partitioner.partition_and_fuse("dlc_")
    support.report(count)
    for node in split.graph.find_nodes(op="call_module"):
        name = str(node.target)
        piece = split.get_submodule(name)
        assert isinstance(piece, GraphModule)
        given = [argument.meta["val"] for argument in piece.graph.find_nodes(op="placeholder")]
        compiled = CompiledGraph(piece, options, given)
        setattr(split, name, compiled)
        try:
            compiled.prepare(concrete(given))
        except DiagnosticException as error:
            compiled.leave(concrete(given), reason_of(error))
    return split


class Support(OperatorSupportBase):
    """Tells operations that dlc compiles: those that it takes to Tensor IR alone."""

    def __init__(self) -> None:
        self.known: dict[str, str | None] = {}
        """Why an operation with such arguments is left; None for one that dlc compiles."""
        self.left: dict[Node, str] = {}
        """The operations that are left to PyTorch, and why."""

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        if node.op != "call_function" or not _computes_tensors(node):
            return False
        if node.target is operator.getitem:
            return self.is_node_supported(submodules, node.all_input_nodes[0])
        if any("val" not in given.meta for given in node.all_input_nodes):
            self.left[node] = "it runs graphs of its own"
            return False
        alone, inputs = _alone(node)
        key = f"{alone.graph}{[_described(value) for value in inputs]}"
        if key not in self.known:
            self.known[key] = why_not(alone, inputs)
        reason = self.known[key]
        if reason is not None:
            self.left[node] = reason
        return reason is None

    def report(self, count: int) -> None:
        """Says what is left of a graph of so many operations."""
        reasons = Counter(_named(node, reason) for node, reason in self.left.items())
        if not reasons:
            get_logger("graphs").warning("a graph is compiled in pieces: as a whole it was refused")
            return
        what = [f"{name} ({n} times)" if n > 1 else name for name, n in reasons.items()]
        get_logger("graphs").warning(
            "%d of %d operations of a graph are left to eager PyTorch: %s",
            len(self.left), count, "; ".join(what),
        )  # fmt: skip


def why_not(graph: GraphModule, inputs: Sequence[Any]) -> str | None:
    """Why dlc cannot take a graph of one operation to Tensor IR; None if it can."""
    try:
        program = import_program(graph, inputs, whole=DECOMPOSITIONS)
        run_pipeline(compiler_context(), program.module, "tensor")
    except UnsupportedError as error:
        return error.found[0][0].partition(": ")[2]
    except UnsupportedOperations as error:
        return error.found[0][1] or "dlc has no decomposition of it"
    except ImportFailure as error:
        return error.message
    except DiagnosticException as error:
        return reason_of(error)
    return None


def _computes_tensors(node: Node) -> bool:
    leaves = tree_leaves(node.meta.get("val"))
    return any(isinstance(leaf, torch.Tensor) for leaf in leaves)


def _alone(node: Node) -> tuple[GraphModule, list[Any]]:
    """A graph of one operation only, and arguments for it."""
    graph = Graph()
    inputs = {n: graph.placeholder(f"x{i}") for i, n in enumerate(node.all_input_nodes)}
    graph.output(graph.node_copy(node, inputs.__getitem__))
    return GraphModule({}, graph), concrete([given.meta["val"] for given in inputs])


def _described(value: Any) -> object:
    return (value.shape, value.dtype, value.stride()) if hasattr(value, "shape") else value


def _named(node: Node, reason: str) -> str:
    place = place_of(node.meta.get("stack_trace"))
    where = f"{place.file}:{place.line}: " if place else ""
    return f"{node.target} ({where}{re.split('; |, expected ', reason)[0]})"

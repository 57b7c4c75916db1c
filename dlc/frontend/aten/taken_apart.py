"""Which exported graphs are of operations that dlc lowers, so that none needs to be taken apart."""

from __future__ import annotations

import operator
from collections.abc import Container, Mapping

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from dlc.frontend.aten.draws import DRAWS
from dlc.frontend.aten.overloads import CHECKED_BY_EXPORT, TO_DEVICE, TO_DTYPE, bind_arguments
from dlc.frontend.aten.recurrent_layers import is_dropping
from dlc.frontend.state.ambient import Ambient

LEFT = frozenset(
    (
        CHECKED_BY_EXPORT,
        TO_DEVICE,
        TO_DTYPE,
        torch.ops.aten.contiguous.default,
        torch.ops.aten.flatten.using_ints,
        torch.ops.aten.reshape.default,
    )
)
"""What PyTorch would take apart, and is as well left whole."""
DROPPING: Mapping[object, str] = {
    torch.ops.aten.dropout.default: "p",
    torch.ops.aten.feature_dropout.default: "p",
    torch.ops.aten.alpha_dropout.default: "p",
    torch.ops.aten.feature_alpha_dropout.default: "p",
    torch.ops.aten.scaled_dot_product_attention.default: "dropout_p",
}
"""What drops elements at random, and the name of the probability."""


def is_taken_apart(exported: torch.export.ExportedProgram, whole: Container[str] | None) -> bool:
    """
    True if a graph is as `run_decompositions` would leave it, but for operations in `LEFT`: so are
    those of most models. Decomposing traces all of it anew, which takes as long as the export,
    and is when autocast takes effect.
    """
    nodes = (node for node in exported.graph.nodes if node.op not in ("placeholder", "output"))
    if whole is None or Ambient.now().autocast:
        return False
    return all(
        node.target in LEFT
        or node.target is operator.getitem  # one of several results
        or _is_of_sizes(node)
        or (
            _is_functional(node.target)
            and overload_name(node.target) in whole
            and node.target not in DRAWS
            and not is_in_training(node)
            and not is_dropping(node)
        )
        for node in nodes
    )


def _is_of_sizes(node: Node) -> bool:
    """True for a number that depends on sizes, of which none depends on data."""
    value = node.meta.get("val")
    return isinstance(value, torch.SymInt) and not free_unbacked_symbols(value)


def is_in_training(node: Node) -> bool:
    """
    True if an operation draws random numbers, normalizes a batch, or writes to running statistics,
    of which its schema says nothing.
    """
    if (probability := DROPPING.get(node.target)) is not None:
        given = bind_arguments(node)
        return bool(given.get(probability)) and bool(given.get("train", True))
    if node.target is torch.ops.aten.rrelu.default:
        return bool(bind_arguments(node).get("training"))
    if node.target is torch.ops.aten.batch_norm.default:
        return bool(bind_arguments(node)["training"])
    if node.target is torch.ops.aten.instance_norm.default:
        given = bind_arguments(node)
        return bool(given["use_input_stats"]) and given["running_mean"] is not None
    return False


def _is_functional(op: object) -> bool:
    """True if an operation writes to no argument."""
    return isinstance(op, OpOverload) and not op._schema.is_mutable


def overload_name(op: object) -> str:
    """`add.Tensor`, or an empty text for what is no overload of an ATen op."""
    ours = isinstance(op, OpOverload) and op.namespace == "aten"
    return str(op).removeprefix("aten.") if ours else ""

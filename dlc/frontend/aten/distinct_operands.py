"""Control flow in exported graphs, and copies of its operands so that they are distinct."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch._higher_order_ops.scan import scan_op
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

CONTROL_FLOW = ("cond", "while_loop", "scan", "map_impl")
"""The operations that take functions, by PyTorch's names."""

COPY = torch.ops.aten.clone.default


def is_control_flow(node: Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.HigherOrderOperator) and target.name() in CONTROL_FLOW


def make_operands_distinct(program: GraphModule) -> None:
    """
    Gives control flow copies of its operands: of two that share memory, PyTorch would not take it
    apart. A copy is no work, as it is a value here.
    """
    for module in program.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in [n for n in module.graph.nodes if is_control_flow(n)]:
            # Each use gets a copy of its own.
            node.args = map_arg(node.args, partial(_copy_before, node))
        module.recompile()


def _copy_before(node: Node, argument: Node) -> Node:
    """A copy of a tensor that a node is given."""
    value = argument.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return argument
    with node.graph.inserting_before(node):
        made = node.graph.call_function(COPY, (argument,))
    made.meta = {"val": value.clone(), "stack_trace": node.meta.get("stack_trace")}
    return made


def scan_of_copies(
    function: Callable[..., Any],
    init: Sequence[Any],
    xs: Sequence[Any],
    additional_inputs: Sequence[Any] = (),
) -> list[torch.Tensor]:
    """
    `scan_op`, which carries copies: while it traces the function, PyTorch takes a tensor that is
    carried twice, or that the function reads beside, for one value. It asks what the function reads
    for its address, which a tensor does not have that export knows as a constant only: a view of
    it has.
    """
    copies = [v.clone() if isinstance(v, torch.Tensor) else v for v in init]
    read = tuple(
        torch.ops.aten.alias(v) if isinstance(v, torch.Tensor) else v for v in additional_inputs
    )
    return list(scan_op(function, copies, xs, read))

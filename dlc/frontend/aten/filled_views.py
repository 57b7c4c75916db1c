"""Writes to views by operations that, out of place, give a tensor of another layout."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch._ops import OpOverload
from torch.fx import Graph

aten = torch.ops.aten
OUT_OF_PLACE: Mapping[OpOverload, OpOverload] = {
    aten.masked_fill_.Scalar: aten.masked_fill.Scalar,
    aten.masked_fill_.Tensor: aten.masked_fill.Tensor,
    aten.masked_scatter_.default: aten.masked_scatter.default,
}
"""Those whose result is row-major whatever their argument is."""


def keep_layouts(graph: Graph) -> None:
    """Makes them copies into their argument, of what it would be: so that this lies as it did."""
    for node in [n for n in graph.nodes if n.target in OUT_OF_PLACE]:
        with graph.inserting_before(node):
            made = graph.call_function(OUT_OF_PLACE[node.target], node.args, node.kwargs)
            copied = graph.call_function(aten.copy_.default, (node.args[0], made))
        made.meta = {**node.meta, "val": node.meta["val"].contiguous()}
        copied.meta = node.meta
        node.replace_all_uses_with(copied, propagate_meta=False)
        graph.erase_node(node)

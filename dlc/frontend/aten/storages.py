"""Programs that count elements from the begin of an argument's memory, not from its first one."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.fx import Graph

from dlc.frontend.aten.overloads import bind_arguments
from dlc.frontend.aten.strided import OF_ANOTHER
from dlc.frontend.aten.written_views import views_of
from dlc.frontend.source import ImportFailure, place_of

aten = torch.ops.aten
STRIDED = (
    aten.as_strided.default,
    aten.as_strided_.default,
    aten.as_strided_copy.default,
    aten.as_strided_scatter.default,
)


def counted_from_storage(graph: Graph, shown_as: Mapping[str, str]) -> set[str]:
    """
    The names of the placeholders of an exported graph whose memory, through views and writes,
    `as_strided` counts from its begin: those have to begin there. ImportFailure for one that does
    not.
    """
    found = set[str]()
    for node in graph.nodes:
        if node.target not in STRIDED or bind_arguments(node).get("storage_offset") is None:
            continue
        *_, first = (node, *views_of(node))
        base = first.args[0] if first.op == "call_function" else first
        if not isinstance(base, torch.fx.Node) or base.op != "placeholder":
            continue
        if base.meta["val"].storage_offset():
            place = place_of(node.meta.get("stack_trace"), shown_as)
            raise ImportFailure(OF_ANOTHER, place)
        found.add(base.name)
    return found

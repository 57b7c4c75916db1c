"""Numbers of Python that a program returns, as the tensors of one element that hold them."""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, Node

from dlc.frontend.subscripts import NUMBER

aten = torch.ops.aten


def returned_numbers(graph: Graph) -> frozenset[Node]:
    """
    Puts a copy of the tensor in the place of each number that a program takes out of one and does
    nothing with but return it. These copies: the user gets the number that each holds.
    """
    output = graph.find_nodes(op="output")[0]
    numbers = [n for n in graph.nodes if n.op == "call_function" and n.target in NUMBER]
    found: set[Node] = set()
    for number in numbers:
        if output not in number.users:
            continue
        _drop_truth_checks(graph, number)
        if list(number.users) != [output]:
            continue
        held = number.args[0]
        assert isinstance(held, Node)
        with graph.inserting_before(number):
            # A copy: the tensor may be an argument that the program writes to later.
            copy = graph.call_function(aten.clone.default, (held,))
        copy.meta = {**number.meta, "val": held.meta["val"]}
        number.replace_all_uses_with(copy, propagate_meta=False)
        graph.erase_node(number)
        found.add(copy)
    return frozenset(found)


def _drop_truth_checks(graph: Graph, flag: Node) -> None:
    """Erases what torch.export asserts of a bool: that it is 0 or 1 as an integer."""
    for integer in [n for n in flag.users if n.target is torch.sym_ite and n.args[1:] == (1, 0)]:
        for test in list(integer.users):
            checks = list(test.users)
            trivial = (test.target, test.args[1:]) in ((operator.ge, (0,)), (operator.le, (1,)))
            if not trivial or any(c.target is not aten._assert_scalar.default for c in checks):
                continue
            for check in checks:
                graph.erase_node(check)
            graph.erase_node(test)
        if not integer.users:
            graph.erase_node(integer)

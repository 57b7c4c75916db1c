"""Numbers of Python that a program returns, as the tensors of one element that hold them."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from dlc.frontend.aten.subscripts import NUMBER

aten = torch.ops.aten
ARITHMETIC = {
    operator.add: aten.add.Tensor,
    operator.sub: aten.sub.Tensor,
    operator.mul: aten.mul.Tensor,
    operator.truediv: aten.div.Tensor,
    operator.neg: aten.neg.default,
    torch.sym_float: aten.clone.default,
}
"""What Python computes of numbers, and the same of tensors that hold them."""


def returned_numbers(graph: Graph) -> frozenset[Node]:
    """
    Puts tensors in the places of the numbers that a program takes out of tensors, computes with as
    Python does, in f64 and i64, and does nothing with but return them; a number that is returned
    as it is taken is in a copy of its tensor. These tensors: the user gets the number in each.
    Where Python would raise for a division by zero it is infinite or NaN, and sums of integers wrap
    around behind 64 bits.
    """
    output = graph.find_nodes(op="output")[0]
    numbers = [n for n in graph.nodes if n.op == "call_function" and n.target in NUMBER]
    for number in numbers:
        _drop_truth_checks(graph, number)
    computed = _computed(graph, numbers)
    alone = _only_returned([*numbers, *computed], output)
    held = _Held()
    found = {n: held.of(n) if n in computed else _copied(n) for n in alone if output in n.users}
    output.args = map_arg(output.args, lambda node: found.get(node, node))
    for number in reversed([n for n in graph.nodes if n in alone]):
        if not number.users:
            graph.erase_node(number)
    return frozenset(found.values())


def _computed(graph: Graph, numbers: Iterable[Node]) -> list[Node]:
    """The numbers that Python computes of some, and of constants."""
    known, computed = {*numbers}, list[Node]()
    for node in graph.nodes:
        arithmetic = node.op == "call_function" and node.target in ARITHMETIC
        inputs = node.all_input_nodes
        if arithmetic and inputs and known.issuperset(inputs) and all(map(_fits, node.args)):
            known.add(node)
            computed.append(node)
    return computed


def _fits(operand: Any) -> bool:
    """False for an integer that has no place in 64 bits."""
    return not isinstance(operand, int) or -(2**63) <= operand < 2**63


def _only_returned(numbers: Iterable[Node], output: Node) -> list[Node]:
    """Those of some numbers that nothing uses but the output and others of these."""
    left = [*numbers]
    while more := [n for n in left if not {*n.users} <= {output, *left}]:
        left = [n for n in left if n not in more]
    return left


class _Held:
    """Makes tensors that hold computed numbers, of those that hold what they are computed of."""

    def __init__(self) -> None:
        self._made: dict[Node, Node] = {}

    def of(self, number: Node) -> Node:
        """The tensor for one of them, in front of it; f64 of a float, i64 of an integer."""
        if number in self._made:
            return self._made[number]
        of_floats = isinstance(number.meta["val"], torch.SymFloat)
        dtype = torch.float64 if of_floats else torch.int64
        target: Any = number.target
        operands = [self._operand(operand, number, dtype) for operand in number.args]
        made = self._made[number] = _called(number, ARITHMETIC[target], *operands)
        return made

    def _operand(self, operand: Any, number: Node, dtype: torch.dtype) -> Node:
        if not isinstance(operand, Node):
            return _called(number, aten.full.default, [], operand, dtype=dtype)
        source: Any = self.of(operand) if operand.target in ARITHMETIC else operand.args[0]
        return _called(number, aten._to_copy.default, source, dtype=dtype)


def _copied(number: Node) -> Node:
    """A copy of the tensor that holds a number, to which, an argument, may be written later."""
    (source,) = number.args
    with number.graph.inserting_before(number):
        copy = number.graph.call_function(aten.clone.default, (source,))
    assert isinstance(source, Node)
    copy.meta = {**number.meta, "val": source.meta["val"]}
    return copy


def _called(number: Node, target: Any, *args: Any, **options: Any) -> Node:
    """An operation of tensors in front of a number, at whose place in the source it is."""
    with number.graph.inserting_before(number):
        node = number.graph.call_function(target, args, options)
    values = [a.meta["val"] if isinstance(a, Node) else a for a in args]
    with _mode_of(number):
        node.meta = {**number.meta, "val": target(*values, **options)}
    return node


def _mode_of(number: Node) -> AbstractContextManager[object]:
    """The mode in which the tensors are that a number is computed of."""
    while isinstance(value := number.meta["val"], torch.SymFloat | torch.SymInt | torch.SymBool):
        number = number.all_input_nodes[0]
    return getattr(value, "fake_mode", nullcontext())


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

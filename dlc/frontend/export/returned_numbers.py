"""Numbers of Python that a program returns, as the tensors of one element that hold them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from dlc.frontend.aten.subscripts import NUMBER

aten = torch.ops.aten
ARITHMETIC: dict[object, Any] = {
    operator.add: aten.add.Tensor,
    operator.sub: aten.sub.Tensor,
    operator.mul: aten.mul.Tensor,
    operator.truediv: aten.div.Tensor,
    operator.floordiv: aten.floor_divide.default,
    operator.mod: aten.remainder.Tensor,
    operator.pow: aten.pow.Tensor_Tensor,
    operator.neg: aten.neg.default,
    operator.pos: aten.clone.default,
    operator.abs: aten.abs.default,
    round: aten.round.default,
    math.floor: aten.floor.default,
    math.ceil: aten.ceil.default,
    math.trunc: aten.trunc.default,
    torch.sym_max: aten.maximum.default,
    torch.sym_min: aten.minimum.default,
    torch.sym_float: aten.clone.default,
    torch.sym_not: aten.logical_not.default,
    operator.and_: aten.bitwise_and.Tensor,
    operator.or_: aten.bitwise_or.Tensor,
    operator.lshift: aten.bitwise_left_shift.Tensor,
    operator.rshift: aten.bitwise_right_shift.Tensor,
    operator.eq: aten.eq.Tensor,
    operator.ne: aten.ne.Tensor,
    operator.lt: aten.lt.Tensor,
    operator.le: aten.le.Tensor,
    operator.gt: aten.gt.Tensor,
    operator.ge: aten.ge.Tensor,
}
"""What Python computes of numbers, and the same of tensors that hold them."""
FILLED = (
    aten.scalar_tensor.default,
    aten.full.default,
    aten.full_like.default,
    aten.new_full.default,
)
"""Operations that fill a tensor with a number, their last argument."""


def returned_numbers(graph: Graph) -> frozenset[Node]:
    """
    Puts tensors in the places of the numbers that a program takes out of tensors, computes with as
    Python does, in f64 and i64, and makes tensors of or returns, but does nothing else with; a
    number that is returned as it is taken is in a copy of its tensor. Those that are returned: the
    user gets the number in each. Where Python would raise, as for a division by zero or the root
    of -1, there are infinities and NaN; integers wrap around behind 64 bits.
    """
    output = graph.find_nodes(op="output")[0]
    numbers = [n for n in graph.nodes if n.op == "call_function" and n.target in NUMBER]
    if not numbers:
        return frozenset()
    for number in numbers:
        _drop_truth_checks(graph, number)
    held, computed = _Held(), _computed(graph, numbers)
    for number in [*numbers, *computed]:
        for user in [u for u in number.users if u.target in FILLED]:
            _fill(user, held.of(number))
    alone = _only_returned([*numbers, *computed], output)
    found = {n: held.of(n) if n in computed else _copied(n) for n in alone if output in n.users}
    output.args = map_arg(output.args, lambda node: found.get(node, node))
    for number in reversed([n for n in graph.nodes if n in alone]):
        if not number.users:
            graph.erase_node(number)
    return frozenset(found.values())


def _fill(node: Node, held: Node) -> None:
    """Fills a tensor with what a tensor holds in place of a number."""
    dtype = node.meta["val"].dtype
    if node.target is aten.scalar_tensor.default:
        same = held.meta["val"].dtype == dtype
        made = held if same else _called(node, aten._to_copy.default, held, dtype=dtype)
        node.replace_all_uses_with(made, propagate_meta=False)
        node.graph.erase_node(node)
        return
    *rest, _ = node.args
    node.args, node.kwargs = (*rest, 0), {**node.kwargs, "dtype": dtype}
    with node.graph.inserting_after(node):
        filled = node.graph.call_function(aten.fill.Tensor)
    node.replace_all_uses_with(filled, propagate_meta=True)
    filled.args = (node, held)


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
    """Makes tensors that hold numbers: computed ones, of those that hold what they are made of."""

    def __init__(self) -> None:
        self._made: dict[Node, Node] = {}

    def of(self, number: Node) -> Node:
        """The tensor for a number, in front of it; f64 of a float, i64 of an integer."""
        if number not in self._made:
            self._made[number] = (
                self._taken(number) if number.target in NUMBER else self._computed(number)
            )
        return self._made[number]

    def _taken(self, number: Node) -> Node:
        (source,) = number.args
        assert isinstance(source, Node)
        if source.meta["val"].dim():
            source = _called(number, aten.reshape.default, source, [])
        return _called(number, aten._to_copy.default, source, dtype=_dtype(number))

    def _computed(self, number: Node) -> Node:
        target, result = number.target, _dtype(number)
        operands, options = [*number.args], {}
        if target is round and (digits := operands.pop()) is not None:
            target, options = aten.round.decimals, {"decimals": digits}
        kinds = {result, *map(_dtype, operands)} - {torch.bool} or {torch.bool}
        dtype = torch.float64 if torch.float64 in kinds else kinds.pop()
        tensors = [self._operand(operand, number, dtype) for operand in operands]
        made = _called(number, ARITHMETIC.get(target, target), *tensors, **options)
        if made.meta["val"].dtype != result:
            made = _called(number, aten._to_copy.default, made, dtype=result)
        return made

    def _operand(self, operand: Any, number: Node, dtype: torch.dtype) -> Node:
        if not isinstance(operand, Node):
            return _called(number, aten.full.default, [], operand, dtype=dtype)
        held = self.of(operand)
        if held.meta["val"].dtype == dtype:
            return held
        return _called(number, aten._to_copy.default, held, dtype=dtype)


def _dtype(number: object) -> torch.dtype:
    """The dtype of a tensor that holds a number, of the program or of Python."""
    value = number.meta["val"] if isinstance(number, Node) else number
    if isinstance(value, bool | torch.SymBool):
        return torch.bool
    return torch.int64 if isinstance(value, int | torch.SymInt) else torch.float64


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

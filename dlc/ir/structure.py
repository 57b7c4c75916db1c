"""
Structural keys of operations, names and places aside: equal for two that do the same.

Two kernels of one structure, given equal arguments, give equal results: they are compiled once, and
what is decided about one holds for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

_NAMES = frozenset({"sym_name"})
"""Properties that name an operation, and say nothing about it."""

Given = Callable[[SSAValue], Hashable]
"""Gives the key of a value that an operation uses and does not define inside."""


def structure(op: Operation, given: Given | None = None, *, names: bool = False) -> Hashable:
    """
    A key of an operation: its kind, types, properties, and all of its regions, in which a value is
    the number of its definition. Which values `op` itself is given counts as `given` says, for what
    its regions use, too; by default it does not count, and `op` is isolated from above. Nor do
    symbol names and its discardable attributes count, nor, unless `names` says so, locations and
    name hints inside. A region with successors or with an operation that names another parent has
    no equal.
    """
    operands = (v.type if given is None else given(v) for v in op.operands)
    key: list[Hashable] = [op.name, tuple(operands), op.result_types, _sorted(op.properties)]
    if not op.regions:
        return tuple(key)
    numbers: dict[SSAValue, int] = {}

    def number(value: SSAValue) -> Hashable:
        if (known := numbers.get(value)) is not None:
            return known
        return -1 if given is None else given(value)

    def visit(region: Region) -> None:
        for block in region.blocks:
            key.append(block.arg_types)
            if block.parent is not region:
                key.append(block)
            for argument in block.args:
                numbers[argument] = len(numbers)
            for inner in block.ops:
                visit_op(inner, block)
            key.append(None)

    def visit_op(inner: Operation, block: Block) -> None:
        operands = tuple(map(number, inner.operands))
        extra = _sorted(inner.attributes)
        if inner.parent is not block or inner.successors:
            key.append(inner)
        key.append((inner.name, operands, inner.result_types, _sorted(inner.properties), extra))
        if names:
            key.append((inner.location, *(r.name_hint for r in inner.results)))
        for region in inner.regions:
            visit(region)
        for result in inner.results:
            numbers[result] = len(numbers)

    for region in op.regions:
        visit(region)
    return tuple(key)


def _sorted(attributes: Mapping[str, Attribute]) -> tuple[Hashable, ...]:
    if not attributes:
        return ()
    return tuple(sorted((k, v) for k, v in attributes.items() if k not in _NAMES))

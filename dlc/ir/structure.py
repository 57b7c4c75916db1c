"""
What an operation is, names and places aside: equal for two operations that do the same.

Two kernels of one structure, given equal arguments, give equal results: they are compiled once, and
what is decided about one holds for the other.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from xdsl.ir import Attribute, Operation, Region, SSAValue

_NAMES = frozenset({"sym_name"})
"""Properties that name an operation, and say nothing about it."""


def structure(op: Operation) -> Hashable:
    """
    A key of an operation that is isolated from above: its kind, types, properties, and all of its
    regions, in which a value is the number of its definition. Which values `op` itself is given
    does not count, nor do locations, name hints, symbol names and its discardable attributes. A
    region with successors or with an operation that names another parent has no equal.
    """
    key: list[Hashable] = [
        op.name,
        tuple(v.type for v in op.operands),
        op.result_types,
        _sorted(op.properties),
    ]
    numbers: dict[SSAValue, int] = {}
    for region in op.regions:
        _visit(region, numbers, key)
    return tuple(key)


def _visit(region: Region, numbers: dict[SSAValue, int], key: list[Hashable]) -> None:
    for block in region.blocks:
        key.append(block.arg_types)
        if block.parent is not region:
            key.append(block)
        for argument in block.args:
            numbers[argument] = len(numbers)
        for op in block.ops:
            operands = tuple(numbers.get(v, -1) for v in op.operands)
            extra = _sorted(op.attributes)
            if op.parent is not block or op.successors:
                key.append(op)
            key.append((op.name, operands, op.result_types, _sorted(op.properties), extra))
            for inner in op.regions:
                _visit(inner, numbers, key)
            for result in op.results:
                numbers[result] = len(numbers)
        key.append(None)


def _sorted(attributes: Mapping[str, Attribute]) -> tuple[Hashable, ...]:
    return tuple(sorted((k, v) for k, v in attributes.items() if k not in _NAMES))

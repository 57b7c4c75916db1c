"""
Structural keys of operations, names and places aside: equal for two that do the same.

Two kernels of one structure, given equal arguments, give equal results: they are compiled once, and
what is decided about one holds for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from xdsl.ir import Attribute, Operation, Region, SSAValue

_NAMES = frozenset({"sym_name"})
"""Properties that name an operation, and say nothing about it."""

Given = Callable[[SSAValue], Hashable]
"""Gives the key of a value that an operation uses and does not define inside."""


def itself(value: SSAValue) -> SSAValue:
    """That of operations in one place, which are equal if they are given the same."""
    return value


def structure(op: Operation, given: Given | None = None, *, names: bool = False) -> Hashable:
    """
    A key of an operation: its kind, types, properties, and all of its regions, in which a value is
    the number of its definition. Which values `op` itself is given counts as `given` says, for what
    its regions use, too; by default it does not count, and `op` is isolated from above. Nor do
    symbol names and its discardable attributes count, nor, unless `names` says so, locations and
    name hints inside. A region with successors or with an operation that names another parent has
    no equal.
    """
    operands = tuple([v.type if given is None else given(v) for v in op.operands])
    key: list[Hashable] = [op.name, operands, op.result_types, _sorted(op.properties)]
    if not op.regions:
        return tuple(key)
    numbers: dict[SSAValue, Hashable] = {}
    for region in op.regions:
        _add_region(region, key, numbers, given, names=names)
    return tuple(key)


def _add_region(
    region: Region,
    key: list[Hashable],
    numbers: dict[SSAValue, Hashable],
    given: Given | None,
    *,
    names: bool,
) -> None:
    """Appends what a region is; `numbers` has the values defined before, and then those in it."""
    for block in region.blocks:
        key.append(block.arg_types)
        if block.parent is not region:
            key.append(block)
        for argument in block.args:
            numbers[argument] = len(numbers)
        for op in block.ops:
            operands = tuple(
                [
                    numbers[v] if v in numbers else -1 if given is None else given(v)
                    for v in op.operands
                ]
            )
            extra = _sorted(op.attributes)
            if op.parent is not block or op.successors:
                key.append(op)
            key.append((op.name, operands, op.result_types, _sorted(op.properties), extra))
            if names:
                key.append((op.location, *(r.name_hint for r in op.results)))
            for inner in op.regions:
                _add_region(inner, key, numbers, given, names=names)
            for result in op.results:
                numbers[result] = len(numbers)
        key.append(None)


def _sorted(attributes: Mapping[str, Attribute]) -> tuple[Hashable, ...]:
    if not attributes:
        return ()
    return tuple(sorted([(k, v) for k, v in attributes.items() if k not in _NAMES]))

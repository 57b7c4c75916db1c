"""
The form of an operation: all that its IRDL declaration and the rules of terminators speak of.

Of two operations of one form, both declarations hold or neither does. Where a declaration demands
no more of an attribute than its class, as of a map or of a memref that may have any shape, the form
has the class; where it demands more, the identity of the attribute, which never changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.irdl import (
    AnyAttr,
    AnyOf,
    AnyRange,
    AttrConstraint,
    AttributeDef,
    AttrSizedSegments,
    BaseAttr,
    EqAttrConstraint,
    IRDLOperation,
    PropertyDef,
    RangeConstraint,
    RangeLengthConstraint,
    RangeOf,
)


@dataclass(frozen=True)
class _Classes:
    """Where a declaration asks for classes alone."""

    operands: bool = False
    results: bool = False
    arguments: bool = False
    """Of blocks."""
    named: frozenset[str] = frozenset()
    """Properties and attributes, by name."""
    discardable: bool = False
    """True if attributes that are not declared may be any."""
    declared: frozenset[str] = frozenset()
    """The attributes that are."""


def declared_form(op: Operation) -> Hashable | None:
    """The form of an operation; None if its successors are a part of it."""
    if op.successors:
        return None
    last = None
    if op.next_op is None and op.parent is not None and (region := op.parent.parent) is not None:
        last = len(region.blocks), type(region.parent)
    kind = type(op)
    classes = _classes(kind)
    of = type if classes.operands else id
    form: list[Hashable] = [kind, last, *[of(value.type) for value in op.operands], None]
    of = type if classes.results else id
    form += [of(result.type) for result in op.results]
    named = classes.named
    for name, value in op.properties.items():
        form += (name, type(value) if name in named else id(value))
    form.append(None)
    for name, value in op.attributes.items():
        any_ = name in named or (classes.discardable and name not in classes.declared)
        form += (name, type(value) if any_ else id(value))
    of = type if classes.arguments else id
    for region in op.regions:
        form.append(tuple([tuple([of(a.type) for a in b.args]) for b in region.blocks]))
    return tuple(form)


def attributes_in(op: Operation) -> object:
    """What has to be kept with an operation's form, so that no identity in it is another's."""
    return list(_identified(op))


def _identified(op: Operation) -> Iterator[Attribute]:
    classes = _classes(type(op))
    if not classes.operands:
        yield from (value.type for value in op.operands)
    if not classes.results:
        yield from (value.type for value in op.results)
    if not classes.arguments:
        for region in op.regions:
            for block in region.blocks:
                yield from block.arg_types
    for values in (op.properties, op.attributes):
        yield from (value for name, value in values.items() if name not in classes.named)


@cache
def _classes(kind: type[Operation]) -> _Classes:
    """Where the declaration of an operation asks for classes alone; nowhere without one."""
    if not issubclass(kind, IRDLOperation):
        return _Classes()
    declared = kind.get_irdl_definition()
    sizes = {o.attribute_name for o in declared.options if isinstance(o, AttrSizedSegments)}
    return _Classes(
        all(_by_class(one.constr) for _, one in declared.operands),
        all(_by_class(one.constr) for _, one in declared.results),
        all(_by_class(one.entry_args) for _, one in declared.regions),
        frozenset((_names(declared.properties) | _names(declared.attributes)) - sizes),
        True,
        frozenset({*declared.attributes, *sizes}),
    )


def _names(declared: Mapping[str, PropertyDef] | Mapping[str, AttributeDef]) -> set[str]:
    return {name for name, one in declared.items() if _by_class(one.constr)}


def _by_class(constraint: AttrConstraint | RangeConstraint) -> bool:
    """True if a constraint holds for all attributes of one class, or for none."""
    match constraint:
        case AnyAttr() | BaseAttr() | AnyRange():
            return True
        case EqAttrConstraint(attr=ParametrizedAttribute() as only):
            return not only.parameters
        case AnyOf():
            parts: Sequence[AttrConstraint] = constraint.attr_constrs
            return all(map(_by_class, parts))
        case RangeOf():
            return _by_class(constraint.constr)
        case RangeLengthConstraint():  # the form has the number of values
            return _by_class(constraint.constraint)
        case _:
            return False

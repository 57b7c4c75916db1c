"""
Operations that xDSL's constructors and `Operation.clone` make, made with less work: part of
`dlc.ir.quick_xdsl`.

*Faster because* what a definition demands of arguments is looked up in the definition once, and not
for each operation; uses are chained where they are made; sizes of segments are made once. What is
not as a definition says is left to xDSL, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from xdsl.dialects.builtin import UNKNOWN_LOC, DenseArrayBase, i32
from xdsl.ir import Attribute, Operation, OpResult, Region, SSAValue, Use
from xdsl.ir.core import OpOperands, SSAValues
from xdsl.irdl import (
    AttrSizedOperandSegments,
    AttrSizedRegionSegments,
    AttrSizedResultSegments,
    IRDLOperation,
    OptionalDef,
    VariadicDef,
)
from xdsl.irdl.operations import AttrSizedSegments

_init_by_xdsl = IRDLOperation.__init__
_ONE, _AT_MOST_ONE, _ANY = range(3)
_new = object.__new__


def install(put: Callable[..., None]) -> None:
    """Puts the functions below in the place of xDSL's, by `put(class, name=function)`."""
    put(Operation, __init__=_init, operands=property(_operands, _set_operands))
    put(IRDLOperation, __init__=_init_by_definition, __post_init__=_give_defaults)


def _operands(op: Operation) -> OpOperands:
    """The getter of `Operation.operands`."""
    view = _new(OpOperands)
    view._op = op
    return view


def _set_operands(op: Operation, new: Sequence[SSAValue]) -> None:
    """The setter of `Operation.operands`."""
    for operand, use in zip(op._operands, op._operand_uses, strict=False):
        operand.remove_use(use)
    values = SSAValues(new)
    uses: list[Use] = []
    for number, value in enumerate(values):
        first = value.first_use
        use = Use(op, number, None, first)
        if first is not None:
            first._prev_use = use
        value.first_use = use
        uses.append(use)
    op._operands = values
    op._operand_uses = tuple(uses)


def _init(
    op: Operation,
    *,
    operands: Sequence[SSAValue] = (),
    result_types: Sequence[Attribute] = (),
    properties: Mapping[str, Attribute] = {},
    attributes: Mapping[str, Attribute] = {},
    location: Any = None,
    successors: Sequence[Any] = (),
    regions: Sequence[Region] = (),
) -> None:
    """`Operation.__init__`."""
    _set_operands(op, operands)
    results = [OpResult(type, op, number) for number, type in enumerate(result_types)]
    op.results = SSAValues(results)
    op.properties = dict(properties)
    op.attributes = dict(attributes)
    op.location = UNKNOWN_LOC if location is None else location
    if successors:
        op.successors = list(successors)
    op.regions = ()
    for region in regions:
        op.add_region(region)
    op.__post_init__()


@dataclass(frozen=True)
class _Shape:
    """How many operands, results and regions a class of operations has, each by how many it is."""

    operands: tuple[int, ...]
    results: tuple[int, ...]
    regions: tuple[int, ...]
    segments: tuple[tuple[str, int, bool], ...]
    """
    The names of what says how many there are of each operand, result or region, which of the three
    it is, and whether it is a property.
    """


_SEGMENTS: tuple[type[AttrSizedSegments], ...] = (
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    AttrSizedRegionSegments,
)


@cache
def _shape(kind: type[IRDLOperation]) -> _Shape | None:
    """The shape of a class; None where it is left to xDSL."""
    definition = kind.get_irdl_definition()
    if definition.successors:
        return None
    segments: list[tuple[str, int, bool]] = []
    for option in definition.options:
        if type(option) not in _SEGMENTS:
            return None
        assert isinstance(option, AttrSizedSegments)
        number = _SEGMENTS.index(type(option))
        segments.append((option.attribute_name, number, option.as_property))
    return _Shape(
        _counts(definition.operands),
        _counts(definition.results),
        _counts(definition.regions),
        tuple(segments),
    )


def _counts(defined: Sequence[tuple[str, Any]]) -> tuple[int, ...]:
    return tuple(
        _AT_MOST_ONE if isinstance(d, OptionalDef) else _ANY if isinstance(d, VariadicDef) else _ONE
        for _, d in defined
    )


def _flat(
    given: Sequence[Any] | None, counts: tuple[int, ...], kind: type
) -> tuple[list[Any], tuple[int, ...]] | None:
    """All that is given, and how many each are; None where that is left to xDSL."""
    if not given and not counts:
        return [], ()
    given = given or ()
    if len(given) != len(counts):
        return None
    flat: list[Any] = []
    sizes: list[int] = []
    for one, count in zip(given, counts, strict=True):
        if isinstance(one, kind):
            flat.append(one)
            sizes.append(1)
        elif one is None:
            if count != _AT_MOST_ONE:
                return None
            sizes.append(0)
        else:
            if type(one) not in (list, tuple, SSAValues):
                return None
            size = len(one)
            is_fit = count == _ANY or size == 1 or (count == _AT_MOST_ONE and not size)
            if not is_fit or not all([isinstance(value, kind) for value in one]):
                return None
            flat += one
            sizes.append(size)
    return flat, tuple(sizes)


@lru_cache(1024)
def segment_sizes(sizes: tuple[int, ...]) -> Attribute:
    """What says how many operands, results or regions there are of each that a class has."""
    return DenseArrayBase.from_list(i32, sizes)


def _init_by_definition(
    op: IRDLOperation,
    *,
    operands: Sequence[Any] | None = None,
    result_types: Sequence[Any] | None = None,
    properties: Mapping[str, Attribute | None] | None = None,
    attributes: Mapping[str, Attribute | None] | None = None,
    successors: Sequence[Any] | None = None,
    regions: Sequence[Any] | None = None,
) -> None:
    """`IRDLOperation.__init__`."""
    shape = _shape(type(op))
    if (
        shape is None
        or successors
        or (values := _flat(operands, shape.operands, SSAValue)) is None
        or (types := _flat(result_types, shape.results, Attribute)) is None
        or (bodies := _flat(regions, shape.regions, Region)) is None
    ):
        _init_by_xdsl(
            op,
            operands=operands,
            result_types=result_types,
            properties=properties,
            attributes=attributes,
            successors=successors,
            regions=regions,
        )
        return
    stated = {k: v for k, v in properties.items() if v is not None} if properties else {}
    said = {k: v for k, v in attributes.items() if v is not None} if attributes else {}
    found = (values[1], types[1], bodies[1])
    for name, number, is_property in shape.segments:
        (stated if is_property else said)[name] = segment_sizes(found[number])
    _init(
        op,
        operands=values[0],
        result_types=types[0],
        properties=stated,
        attributes=said,
        regions=bodies[0],
    )


@cache
def _defaults(kind: type[IRDLOperation]) -> tuple[tuple[str, Attribute, bool], ...]:
    """The properties, and the attributes, that a class of operations has by default."""
    definition = kind.get_irdl_definition()
    return tuple(
        (name, stated.default_value, of is definition.properties)
        for of in (definition.properties, definition.attributes)
        for name, stated in of.items()
        if not isinstance(stated, OptionalDef) and stated.default_value is not None
    )


def _give_defaults(op: IRDLOperation) -> None:
    """`IRDLOperation.__post_init__`."""
    for name, value, is_property in _defaults(type(op)):
        (op.properties if is_property else op.attributes).setdefault(name, value)
    super(IRDLOperation, op).__post_init__()

"""
Operations that subscript.

An indexed operation holds the index values that it mentions as operands and its subscripts and
conditions as affine maps over them. `subscripts` and `where` give them as `Expr`s; `set_index`
replaces them. A condition is an expression that is >= 0 where the operation has its effect.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from functools import cache
from typing import ClassVar, NamedTuple

from xdsl.dialects.builtin import (
    AffineMapAttr,
    IndexType,
)
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.canonical import CanonicalizedByDialect
from dlc.ir.affine_forms import from_affine, to_maps
from dlc.ir.bounds import sure
from dlc.ir.expr import Expr, Range, range_of
from dlc.ir.quick_operations import segment_sizes

Replace = Callable[[SSAValue], Expr | SSAValue | int | None]


class _Known(NamedTuple):
    """The results of a map over index operands, and all that they follow from."""

    exprs: tuple[Expr, ...]
    map: Attribute
    operands: Sequence[SSAValue]
    segments: Attribute | None
    ranges: list[_KnownRange]


class _KnownRange(NamedTuple):
    """
    An index operand and its range. That of an axis whose operation has extents that are numbers
    follows from these and its place, and is not asked for while they are the same.
    """

    value: SSAValue
    range: Range
    loop: Operation | None = None
    extents: Attribute | None = None
    number: int = 0

    @staticmethod
    def of(value: SSAValue, range: Range) -> _KnownRange:
        if isinstance(value, BlockArgument) and (loop := value.block.parent_op()) is not None:
            kept: tuple[Attribute, object] | None = vars(loop).get("kept_ranges")
            if kept is not None:  # by `AxesOp.axis_range`, where extents are numbers
                return _KnownRange(value, range, loop, kept[0], value.index)
        return _KnownRange(value, range)


class IndexedOp(IRDLOperation, ABC):
    """Base of all operations with subscripts (`map`) or conditions (`conditions`)."""

    indices = var_operand_def(IndexType())
    map = prop_def(AffineMapAttr)
    conditions = opt_prop_def(AffineMapAttr)
    traits = traits_def(CanonicalizedByDialect())

    IS_TEST: ClassVar[bool] = False
    """True for an operation that says whether its conditions hold: it has some."""

    @property
    def subscripts(self) -> tuple[Expr, ...]:
        """The subscripts, outermost dimension first."""
        return self.exprs("map")

    @property
    def where(self) -> tuple[Expr, ...]:
        """The conditions, each holding where it is >= 0."""
        return self.exprs("conditions")

    def exprs(self, name: str) -> tuple[Expr, ...]:
        """
        The results of the map over the indices that a property is; none without it. They are kept,
        and given again while they follow from the same map, operands and ranges of indices: no
        edit of the IR has to drop them.
        """
        properties = self.properties
        if (map := properties.get(name)) is None:
            return ()
        operands = self._operands  # a new tuple after every edit
        segments = properties.get("operandSegmentSizes")
        kept: dict[str, _Known] | None = vars(self).get("kept_exprs")
        if kept is None:
            kept = vars(self)["kept_exprs"] = {}
        elif (known := kept.get(name)) is not None:
            exprs, of, over, sizes, ranges = known
            if of is map and over is operands and sizes is segments and _are_known(ranges):
                return exprs
        assert isinstance(map, AffineMapAttr)
        indices = self.indices
        ranges = [range_of(value) for value in indices]
        values = [Expr.within(*of) for of in zip(indices, ranges, strict=True)]
        exprs = tuple([from_affine(e, values) for e in map.data.results])
        known_ranges = [_KnownRange.of(*of) for of in zip(indices, ranges, strict=True)]
        kept[name] = _Known(exprs, map, operands, segments, known_ranges)
        return exprs

    def set_index(self, subscripts: Sequence[Expr], where: Sequence[Expr]) -> None:
        """Replaces subscripts and conditions, and with them the index operands."""
        indices, properties = self.index_properties(subscripts, where)
        names = _operand_names(type(self))
        segments: list[Sequence[SSAValue]] = [_as_tuple(getattr(self, name)) for name in names]
        segments[names.index("indices")] = indices
        self.operands = [value for segment in segments for value in segment]
        if "operandSegmentSizes" in self.properties:
            sizes = tuple([len(segment) for segment in segments])
            self.properties["operandSegmentSizes"] = segment_sizes(sizes)
        for name, value in properties.items():
            if value is None:
                self.properties.pop(name, None)
            else:
                self.properties[name] = value

    def index_properties(
        self, subscripts: Sequence[Expr], where: Sequence[Expr]
    ) -> tuple[list[SSAValue], dict[str, Attribute | None]]:
        """The index operands, and the maps over them, that subscripts and conditions make."""
        indices, map, conditions = index_parts(subscripts, where)
        return indices, {"map": map, "conditions": conditions}

    def substitute(self, replace: Replace, extra: Sequence[Expr] = ()) -> None:
        """Replaces index values in subscripts and conditions; `extra` conditions are added."""
        subscripts = [e.substitute(replace) for e in self.subscripts]
        where = [e.substitute(replace) for e in self.where]
        self.set_index(subscripts, simplify_where([*where, *extra]))

    def verify_index(self, count: int, of: object) -> None:
        """Checks the maps against the operands and the number of subscripts."""
        if len(self.map.data.results) != count:
            raise VerifyException(
                f"expected {count} subscripts for {of}, found {len(self.map.data.results)}"
            )
        verify_maps([self.map, self.conditions], len(self.indices))


def _are_known(ranges: Sequence[_KnownRange]) -> bool:
    """True if index operands have the ranges that they had: asked more often than all else."""
    for value, range, loop, extents, number in ranges:
        if loop is not None and isinstance(value, BlockArgument):
            region = value.block.parent
            is_there = region is not None and region.parent is loop and value.index == number
            if is_there and loop.properties["extents"] is extents:
                continue
        if range_of(value) != range:
            return False
    return True


@cache
def _operand_names(kind: type[IRDLOperation]) -> list[str]:
    """The operands that a class of operations has, in order."""
    return [name for name, _ in kind.get_irdl_definition().operands]


def verify_maps(maps: Sequence[AffineMapAttr | None], indices: int) -> None:
    """Checks that maps, where there are any, are over so many index operands."""
    for map in maps:
        if map is not None and (map.data.num_dims != indices or map.data.num_symbols):
            raise VerifyException(
                f"expected affine maps over the {indices} index operands and no symbols, found "
                f"{map.data.num_dims} dimensions and {map.data.num_symbols} symbols"
            )


def simplify_where(conditions: Sequence[Expr]) -> list[Expr]:
    """Conditions without those that ranges make sure, and each once."""
    return list(dict.fromkeys(c for c in conditions if not sure(c)))


def index_parts(
    subscripts: Sequence[Expr], where: Sequence[Expr]
) -> tuple[list[SSAValue], AffineMapAttr, AffineMapAttr | None]:
    """The index operands, the subscript map and the condition map of an indexed operation."""
    indices: list[SSAValue] = []
    map, conditions = to_maps([subscripts, where], indices)
    return indices, map, conditions if where else None


def _as_tuple(operand: SSAValue | Sequence[SSAValue] | None) -> Sequence[SSAValue]:
    if operand is None:
        return ()
    return (operand,) if isinstance(operand, SSAValue) else operand


def indexed_ops(op: Operation) -> list[IndexedOp]:
    """All operations with subscripts or conditions in `op`, itself included."""
    return [o for o in op.walk() if isinstance(o, IndexedOp)]

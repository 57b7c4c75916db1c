"""
What the loop and the tile dialect do along an axis: scans, which have at each of its points the
fold of all points so far, and sorts, which put what values are at them in order.

```
loop.for %k in 64 {
  %a = loop.load %x[%k] : memref<64xf32>
  %sum = loop.scan add %a along %k : f32
  loop.store %sum, %y[%k] : memref<64xf32>
  %key = loop.load %n[%k] : memref<64xi32>
  %next = loop.sort %key along %k : i32
  loop.store %next, %z[%k] : memref<64xi32>
}
```
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, StringAttr, UnitAttr, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import MemoryReadEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.directives import Name, Value
from dlc.dialects.indexed_op import IndexedOp, index_parts
from dlc.dialects.nest_ops import verify_monoid
from dlc.dialects.type_directives import SameType
from dlc.ir.expr import Expr
from dlc.ir.monoid import MONOIDS, Monoid
from dlc.ir.quick_operations import segment_sizes


class AlongOpBase(IndexedOp, ABC):
    """
    Gives, at each point of the loops around it, something of what values are at all points there:
    the place, an index expression, numbers these in their order. At axes that the place does not
    mention, there are such rows of points of their own. Where it mentions threads by their numbers,
    `among` lists all that number threads of a block, the last one running fastest.
    """

    values = var_operand_def(AnyAttr())
    indices = var_operand_def(IndexType())
    threads = var_operand_def(IndexType())
    results_ = var_result_def(AnyAttr())

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect())

    @property
    def place(self) -> Expr:
        """What numbers the points in their order."""
        return self.subscripts[0]

    def bind(self, threads: Sequence[SSAValue]) -> None:
        """Says which values number the threads of a block."""
        segments = [self.values, self.indices, threads]
        self.operands = [value for segment in segments for value in segment]
        sizes = segment_sizes(tuple([len(segment) for segment in segments]))
        self.properties["operandSegmentSizes"] = sizes

    def verify_(self) -> None:
        self.verify_index(1, f"a {self.name.partition('.')[2]}")
        if [v.type for v in self.values] != [r.type for r in self.results]:
            raise VerifyException("expected results of the values' types")


_FORMAT = (
    "$values `along` custom<Value>($indices, $map, $conditions)"
    " (`among` `(` $threads^ `)`)? attr-dict"
    " `:` custom<SameType>(type($values), type($results_))"
)


class ScanOpBase(AlongOpBase, ABC):
    """
    `%p = d.scan add %a along expr (among(%row, %t))? : f32`

    Folds, with a monoid, what a value is at all points whose place is not after that of the point.
    Several values are scanned together, as `d.reduce` folds them.
    """

    monoid_name = prop_def(StringAttr, prop_name="monoid")

    custom_directives = (Name, Value, SameType)
    assembly_format = f"custom<Name>($monoid) {_FORMAT}"

    def __init__(self, monoid: str, values: Sequence[SSAValue], place: Expr) -> None:
        indices, map, _ = index_parts([place], [])
        super().__init__(
            operands=[values, indices, []],
            properties={"monoid": StringAttr(monoid), "map": map},
            result_types=[[v.type for v in values]],
        )

    @property
    def monoid(self) -> Monoid:
        return MONOIDS[self.monoid_name.data]

    def verify_(self) -> None:
        super().verify_()
        verify_monoid(self.monoid_name.data, [r.type for r in self.results])


class SortOpBase(AlongOpBase, ABC):
    """
    `%s, … = d.sort (bitonic)? (first 8)? %a, … along expr (among(%row, %t))? : i64, …`

    At the point of place n what the values are at the point that comes n-th in rising order: of the
    first value, of the second where that is equal, and so on. There are 2^m points. What is bitonic
    rises up to some point, and falls from there: then a merge does. If only the first 2^k are asked
    for, that is so of them, and at a place beyond them is what is at the place modulo 2^k.
    """

    bitonic = opt_prop_def(UnitAttr)
    first_ = opt_prop_def(IntegerAttr.constr(i64), prop_name="first")

    custom_directives = (Value, SameType)
    assembly_format = f"(`bitonic` $bitonic^)? (`first` $first^)? {_FORMAT}"

    def __init__(
        self,
        values: Sequence[SSAValue],
        place: Expr,
        *,
        bitonic: bool = False,
        first: int | None = None,
    ) -> None:
        indices, map, _ = index_parts([place], [])
        super().__init__(
            operands=[values, indices, []],
            properties={
                "map": map,
                "bitonic": UnitAttr() if bitonic else None,
                "first": None if first is None else IntegerAttr(first, i64),
            },
            result_types=[[v.type for v in values]],
        )

    @property
    def first(self) -> int | None:
        """How many are asked for, if not all: a power of two."""
        return None if self.first_ is None else self.first_.value.data

    def verify_(self) -> None:
        super().verify_()
        verify_sorted([r.type for r in self.results])
        if self.first is not None:
            if self.bitonic is not None:
                raise VerifyException("expected all of what is bitonic to be sorted")
            if self.first < 1 or self.first & (self.first - 1):
                raise VerifyException(f"expected the first 2^k points, found {self.first}")


def verify_sorted(types: Sequence[Attribute], points: int | None = None) -> None:
    """VerifyException unless values of these types, at so many points, can be sorted."""
    if not types or not all(t in (i32, i64) for t in types):
        found = ", ".join(map(str, types)) or "nothing"
        raise VerifyException(f"expected i32 or i64 to sort, found {found}")
    if points is not None and (points < 1 or points & (points - 1)):
        raise VerifyException(f"expected a power of two of points to sort, found {points}")

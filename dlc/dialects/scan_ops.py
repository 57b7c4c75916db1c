"""
The scan of the loop and the tile dialect: at each point of an axis, the fold of all points so far.

```
loop.for %k in 64 {
  %a = loop.load %x[%k] : memref<64xf32>
  %sum = loop.scan add %a along %k : f32
  loop.store %sum, %y[%k] : memref<64xf32>
}
```
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import MemoryReadEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import IndexedOp, index_parts
from dlc.dialects.directives import Name, SameType, Value
from dlc.dialects.nest_ops import verify_monoid
from dlc.ir.expr import Expr
from dlc.ir.monoid import MONOIDS, Monoid
from dlc.ir.quick_operations import segment_sizes


class ScanOpBase(IndexedOp, ABC):
    """
    `%p = d.scan add %a along expr (among(%row, %t))? : f32`

    Folds, with a monoid, what a value is at all points of the loops around it whose place, which
    the expression numbers, is not after that of the point; at axes that the place does not mention,
    points are scanned apart. Several values are scanned together, as `d.reduce` folds them. Where
    the place mentions threads by their numbers, `among` lists all that number threads of a block,
    the last one running fastest.
    """

    monoid_name = prop_def(StringAttr, prop_name="monoid")
    values = var_operand_def(AnyAttr())
    indices = var_operand_def(IndexType())
    threads = var_operand_def(IndexType())
    results_ = var_result_def(AnyAttr())

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives = (Name, Value, SameType)
    assembly_format = (
        "custom<Name>($monoid) $values `along` custom<Value>($indices, $map, $conditions)"
        " (`among` `(` $threads^ `)`)? attr-dict"
        " `:` custom<SameType>(type($values), type($results_))"
    )
    traits = traits_def(MemoryReadEffect())

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

    @property
    def place(self) -> Expr:
        """What numbers the points in the order in which they are folded."""
        return self.subscripts[0]

    def bind(self, threads: Sequence[SSAValue]) -> None:
        """Says which values number the threads of a block."""
        segments = [self.values, self.indices, threads]
        self.operands = [value for segment in segments for value in segment]
        sizes = segment_sizes(tuple([len(segment) for segment in segments]))
        self.properties["operandSegmentSizes"] = sizes

    def verify_(self) -> None:
        self.verify_index(1, "a scan")
        verify_monoid(self.monoid_name.data, [r.type for r in self.results])
        if [v.type for v in self.values] != [r.type for r in self.results]:
            raise VerifyException("expected results of the values' types")

"""Tensor operations that read where data say: at indices, and along runs whose ends are data."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, StringAttr, TensorType, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.canonical import CanonicalizedByDialect
from dlc.dialects.directives import Name
from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.nest_ops import verify_monoid
from dlc.dialects.sized_types import sized_tensor
from dlc.dialects.tensor_checks import shown, verify_map, verify_same_element, verify_sizes
from dlc.dialects.tensor_directives import Gathered, Tensors, Walked


@irdl_op_definition
class GatherOp(IRDLOperation):
    """
    `%y = tensor_ir.gather (%i, …) (d0, d1) -> %x[i0, d1] : (tensor<…xi64>, …), tensor -> tensor`

    Reads `%x` at subscripts that may also mention `i0`, `i1`, …: the elements of the index
    tensors, which have the result's shape. Indices must be in range (0 up to the extent).
    """

    name = "tensor_ir.gather"
    source = operand_def(TensorType)
    indices = var_operand_def(TensorType)
    map = prop_def(AffineMapAttr)
    result = result_def(TensorType)
    custom_directives = (
        Gathered,
        Tensors,
    )
    assembly_format = (
        "` ` `(` $indices `)` custom<Gathered>($source, $map, ref($indices))"
        " `:` `(` custom<Tensors>(type($indices)) `)` `,` custom<Tensors>(type($source))"
        " `->` custom<Tensors>(type($result)) attr-dict"
    )
    traits = traits_def(Pure(), CanonicalizedByDialect())

    def __init__(
        self, source: SSAValue, indices: Sequence[SSAValue], map: AffineMap, shape: Sequence[int]
    ) -> None:
        super().__init__(
            operands=[source, indices],
            properties={"map": AffineMapAttr(map)},
            result_types=[sized_tensor(element_of(source), shape)],
        )

    def verify_(self) -> None:
        verify_sizes(self)
        shape = shape_of(self.result)
        for index in self.indices:
            if shape_of(index) != shape:
                raise VerifyException(
                    f"expected index tensors of the result's shape {shown(shape)}, found "
                    f"{index.type}"
                )
            if element_of(index) != i64:
                raise VerifyException(f"expected indices of type i64, found {element_of(index)}")
        verify_map(self.map.data, len(shape), len(self.indices), self.source)
        verify_same_element(self.result, self.source)


@irdl_op_definition
class FoldOp(IRDLOperation):
    """
    ```
    %y = tensor_ir.fold add about 2 (%first, %last) (d0, d1) -> %x[i0, d1]
        : (tensor<4xi64>, tensor<4xi64>), tensor<9x8xf32> -> tensor<4x8xf32>
    ```

    Folds with a monoid, in order, what `%x` has at subscripts of which one is a place, `i0`: of the
    places from `%first` on and before `%last`, which have the result's shape, as far as there are
    such. Where there are none, the result is the monoid's identity. A run is expected to have about
    as many places as is said.
    """

    name = "tensor_ir.fold"
    monoid = prop_def(StringAttr)
    source = operand_def(TensorType)
    ends = var_operand_def(TensorType)
    map = prop_def(AffineMapAttr)
    about = prop_def(IntegerAttr.constr(i64))
    result = result_def(TensorType)
    custom_directives = (Name, Walked, Tensors)
    assembly_format = (
        "custom<Name>($monoid) `about` $about ` ` `(` $ends `)` custom<Walked>($source, $map)"
        " `:` `(` custom<Tensors>(type($ends)) `)` `,` custom<Tensors>(type($source))"
        " `->` custom<Tensors>(type($result)) attr-dict"
    )
    traits = traits_def(Pure())

    def __init__(
        self,
        monoid: str,
        source: SSAValue,
        ends: Sequence[SSAValue],
        map: AffineMap,
        about: int,
    ) -> None:
        super().__init__(
            operands=[source, ends],
            properties={
                "monoid": StringAttr(monoid),
                "map": AffineMapAttr(map),
                "about": IntegerAttr(about, i64),
            },
            result_types=[sized_tensor(element_of(source), shape_of(ends[0]))],
        )

    @property
    def axis(self) -> int:
        """The dimension of the source of which a place is walked over."""
        place = AffineExpr.dimension(self.map.data.num_dims - 1)
        return self.map.data.results.index(place)

    def verify_(self) -> None:
        verify_sizes(self)
        verify_monoid(self.monoid.data, [element_of(self.source)])
        shape = shape_of(self.result)
        ends = [(shape_of(end), element_of(end)) for end in self.ends]
        if ends != [(shape, i64)] * 2:
            raise VerifyException(
                f"expected where runs begin and end, i64 of the result's shape {shown(shape)}, "
                f"found {', '.join(str(end.type) for end in self.ends)}"
            )
        if self.about.value.data < 1:
            raise VerifyException(f"expected about 1 place or more, found {self.about.value.data}")
        map, rank = self.map.data, len(shape)
        if map.num_dims != rank + 1 or len(map.results) != len(shape_of(self.source)):
            raise VerifyException(
                f"expected {len(shape_of(self.source))} subscripts over {rank} dimensions and a "
                f"place, found {len(map.results)} over {map.num_dims - 1}"
            )
        walked = [e for e in map.results if rank in e.used_dims()]
        if walked != [AffineExpr.dimension(rank)]:
            raise VerifyException("expected one subscript that is the place, which no other has")
        verify_same_element(self.result, self.source)

"""
The `tensor_ir` dialect: what is computed, on whole tensors (Tensor IR).

```
%s = tensor_ir.index_map (d0, d1) -> %w[d1] : tensor<64xf32> -> tensor<16x64xf32>
%y = tensor_ir.elementwise (%a = %x, %b = %s) : tensor<16x64xf32> -> tensor<16x64xf32> {
  %0 = arith.addf %a, %b : f32
  tensor_ir.yield %0 : f32
}
%t = tensor_ir.reduce add over [1] (%y) : tensor<16x64xf32> -> tensor<16xf32>
```

Elementwise operations take operands of one shape; broadcasting, transposing, slicing, padding and
concatenating are index maps, which later dissolve into subscripts.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Block, Dialect, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import ConstantLike, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.canonical import CanonicalizedByDialect
from dlc.dialects.directives import Name
from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.nest_ops import verify_monoid
from dlc.dialects.scan_ops import verify_sorted
from dlc.dialects.size import check_declared
from dlc.dialects.sized_types import sized_tensor
from dlc.dialects.tensor_checks import shown, verify_axis, verify_scalar, verify_sizes
from dlc.dialects.tensor_directives import Bound, Ranked, Sources, Tensors
from dlc.dialects.tensor_reads import FoldOp, GatherOp
from dlc.dialects.tensor_updates import ScatterAddOp
from dlc.dialects.type_directives import ResultTypes
from dlc.ir.sizes import Size

Scalar = FloatAttr | IntegerAttr


@irdl_op_definition
class ConstantOp(IRDLOperation, HasFolderInterface):
    """`%c = tensor_ir.constant 1.0 : f32 -> tensor<4xf32>`: one scalar, everywhere."""

    name = "tensor_ir.constant"
    value = prop_def(AnyAttr())
    result = result_def(TensorType)
    custom_directives = (Tensors,)
    assembly_format = "$value `->` custom<Tensors>(type($result)) attr-dict"
    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, value: Scalar, shape: Sequence[int]) -> None:
        super().__init__(
            properties={"value": value}, result_types=[sized_tensor(value.type, shape)]
        )

    def fold(self) -> Sequence[Attribute]:
        return [self.value]

    def verify_(self) -> None:
        verify_sizes(self)
        verify_scalar(self.value, element_of(self.result))


@irdl_op_definition
class IotaOp(IRDLOperation):
    """`%i = tensor_ir.iota along 0 -> tensor<4x2xi64>`: the index along an axis."""

    name = "tensor_ir.iota"
    axis = prop_def(IntegerAttr.constr(i64))
    result = result_def(TensorType)
    custom_directives = (Tensors,)
    assembly_format = "`along` $axis `->` custom<Tensors>(type($result)) attr-dict"
    traits = traits_def(Pure())

    def __init__(self, axis: int, shape: Sequence[int], element: Attribute = i64) -> None:
        super().__init__(
            properties={"axis": IntegerAttr(axis, i64)},
            result_types=[sized_tensor(element, shape)],
        )

    def verify_(self) -> None:
        verify_sizes(self)
        verify_axis(self.axis, self.result)
        if not isinstance(element_of(self.result), IntegerType):
            raise VerifyException(f"expected integers, found {element_of(self.result)}")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """`tensor_ir.yield %v : f32`: the element that an elementwise operation gives."""

    name = "tensor_ir.yield"
    value = operand_def(AnyAttr())
    traits = traits_def(Pure(), IsTerminator())

    assembly_format = "$value attr-dict `:` type($value)"

    def __init__(self, value: SSAValue) -> None:
        super().__init__(operands=[value])

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), ElementwiseOp):
            raise VerifyException("expected to stand in a tensor_ir.elementwise")


@irdl_op_definition
class ElementwiseOp(IRDLOperation):
    """
    `%y = tensor_ir.elementwise (%a = %x, …) : tensor, … -> tensor { … tensor_ir.yield %v : f32 }`

    Computes each element of the result from the elements of the inputs at the same place. All
    inputs and the result have one shape.
    """

    name = "tensor_ir.elementwise"
    inputs = var_operand_def(TensorType)
    result = result_def(TensorType)
    body = region_def("single_block")
    custom_directives = (Bound,)
    assembly_format = "custom<Bound>($inputs, type($inputs), type($result), $body) attr-dict"
    traits = traits_def(Pure(), CanonicalizedByDialect())

    def __init__(self, inputs: Sequence[SSAValue], result: TensorType, body: Region) -> None:
        super().__init__(operands=[inputs], result_types=[result], regions=[body])

    @staticmethod
    def new_body(inputs: Sequence[SSAValue]) -> Block:
        """A block whose arguments are the elements of `inputs`."""
        block = Block(arg_types=[element_of(v) for v in inputs])
        for argument, value in zip(block.args, inputs, strict=True):
            argument.name_hint = value.name_hint
        return block

    def verify_(self) -> None:
        verify_sizes(self)
        shapes = {shape_of(v) for v in (*self.inputs, self.result)}
        if len(shapes) != 1:
            found = ", ".join(sorted(map(shown, shapes)))
            raise VerifyException(f"expected one shape for all operands and results, found {found}")
        expected = [element_of(v) for v in self.inputs]
        if [a.type for a in self.body.block.args] != expected:
            raise VerifyException("expected a block argument per input, of its element type")
        last = self.body.block.last_op
        expected = element_of(self.result)
        if not isinstance(last, YieldOp) or last.value.type != expected:
            found = last.value.type if isinstance(last, YieldOp) else last.name if last else "none"
            raise VerifyException(f"expected a body that yields {expected}, found {found}")


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """
    `%r = tensor_ir.reduce add over [1, 2] (%x) : tensor -> tensor`

    Folds with a monoid over the named axes, which the result no longer has. Several inputs of one
    shape give as many results, each folded on its own but by a monoid of several values.
    """

    name = "tensor_ir.reduce"
    monoid = prop_def(StringAttr)
    axes = prop_def(DenseArrayBase.constr(i64))
    inputs = var_operand_def(TensorType)
    results_ = var_result_def(TensorType)
    custom_directives = (
        Name,
        Tensors,
        ResultTypes,
    )
    assembly_format = (
        "custom<Name>($monoid) `over` $axes ` ` `(` $inputs `)`"
        " `:` custom<Tensors>(type($inputs)) custom<ResultTypes>(type($results_)) attr-dict"
    )
    traits = traits_def(Pure(), CanonicalizedByDialect())

    def __init__(self, monoid: str, axes: Sequence[int], inputs: Sequence[SSAValue]) -> None:
        shape = [n for d, n in enumerate(shape_of(inputs[0])) if d not in axes]
        super().__init__(
            operands=[inputs],
            properties={
                "monoid": StringAttr(monoid),
                "axes": DenseArrayBase.from_list(i64, list(axes)),
            },
            result_types=[[sized_tensor(element_of(v), shape) for v in inputs]],
        )

    def verify_(self) -> None:
        verify_sizes(self)
        verify_monoid(self.monoid.data, [element_of(r) for r in self.results])
        axes = [int(a) for a in self.axes.get_values()]
        shape = shape_of(self.inputs[0])
        if len(set(axes)) != len(axes) or any(not 0 <= a < len(shape) for a in axes):
            raise VerifyException(
                f"expected different axes from 0 to {len(shape) - 1}, found {axes}"
            )
        rest = [n for d, n in enumerate(shape) if d not in axes]
        expected = [sized_tensor(element_of(v), rest) for v in self.inputs]
        if any(shape_of(v) != shape for v in self.inputs):
            raise VerifyException("expected inputs of one shape")
        if [r.type for r in self.results] != expected:
            raise VerifyException(
                f"expected results of type {', '.join(map(str, expected))}, found "
                f"{', '.join(str(r.type) for r in self.results)}"
            )


@irdl_op_definition
class ScanOp(IRDLOperation):
    """
    `%p = tensor_ir.scan add along 1 (%x) : tensor -> tensor`

    At each point the fold, with a monoid, of the elements along an axis up to it. Several inputs of
    one shape give as many results, each scanned on its own but by a monoid of several values.
    """

    name = "tensor_ir.scan"
    monoid = prop_def(StringAttr)
    axis = prop_def(IntegerAttr.constr(i64))
    inputs = var_operand_def(TensorType)
    results_ = var_result_def(TensorType)
    custom_directives = (Name, Tensors, ResultTypes)
    assembly_format = (
        "custom<Name>($monoid) `along` $axis ` ` `(` $inputs `)`"
        " `:` custom<Tensors>(type($inputs)) custom<ResultTypes>(type($results_)) attr-dict"
    )
    traits = traits_def(Pure())

    def __init__(self, monoid: str, axis: int, inputs: Sequence[SSAValue]) -> None:
        super().__init__(
            operands=[inputs],
            properties={"monoid": StringAttr(monoid), "axis": IntegerAttr(axis, i64)},
            result_types=[[v.type for v in inputs]],
        )

    def verify_(self) -> None:
        verify_sizes(self)
        verify_monoid(self.monoid.data, [element_of(r) for r in self.results])
        if any(shape_of(v) != shape_of(self.inputs[0]) for v in self.inputs):
            raise VerifyException("expected inputs of one shape")
        if [r.type for r in self.results] != [v.type for v in self.inputs]:
            raise VerifyException("expected results of the types of the inputs")
        verify_axis(self.axis, self.inputs[0])


@irdl_op_definition
class SortOp(IRDLOperation):
    """
    `%s = tensor_ir.sort (bitonic)? first 8 along 1 (%x) : tensor -> tensor`

    The first elements along an axis, of 2^m, in rising order. Several inputs of one shape are
    sorted together: by the first one, by the second where that is equal, and so on. What is bitonic
    rises up to some point of the axis, and falls from there.
    """

    name = "tensor_ir.sort"
    bitonic = opt_prop_def(UnitAttr)
    count = prop_def(IntegerAttr.constr(i64))
    axis = prop_def(IntegerAttr.constr(i64))
    inputs = var_operand_def(TensorType)
    results_ = var_result_def(TensorType)
    custom_directives = (Tensors, ResultTypes)
    assembly_format = (
        "(`bitonic` $bitonic^)? `first` $count `along` $axis ` ` `(` $inputs `)`"
        " `:` custom<Tensors>(type($inputs)) custom<ResultTypes>(type($results_)) attr-dict"
    )
    traits = traits_def(Pure())

    def __init__(
        self, axis: int, inputs: Sequence[SSAValue], count: int, *, bitonic: bool = False
    ) -> None:
        shape = list(shape_of(inputs[0]))
        shape[axis] = count
        super().__init__(
            operands=[inputs],
            properties={
                "bitonic": UnitAttr() if bitonic else None,
                "count": IntegerAttr(count, i64),
                "axis": IntegerAttr(axis, i64),
            },
            result_types=[[sized_tensor(element_of(v), shape) for v in inputs]],
        )

    def verify_(self) -> None:
        verify_sizes(self)
        types = [element_of(v) for v in self.inputs]
        verify_sorted(types)
        shape = list(shape_of(self.inputs[0]))
        if any(shape_of(v) != tuple(shape) for v in self.inputs):
            raise VerifyException("expected inputs of one shape")
        verify_axis(self.axis, self.inputs[0])
        axis, count = self.axis.value.data, self.count.value.data
        points = shape[axis]
        if isinstance(points, Size):
            raise VerifyException("expected a number of points to sort, found a size")
        verify_sorted(types, points)
        if not 1 <= count <= points:
            raise VerifyException(f"expected the first 1 to {points} elements, found {count}")
        shape[axis] = count
        if [r.type for r in self.results] != [sized_tensor(t, shape) for t in types]:
            raise VerifyException(
                f"expected results of the types of the inputs, of {count} elements along the axis"
            )


@irdl_op_definition
class IndexMapOp(IRDLOperation):
    """
    ```
    %y = tensor_ir.index_map (d0, d1) -> %a[d0, d1] where (d1 < 3), %b[d0, d1 - 3] else 0.0 : f32
        : tensor<4x3xf32>, tensor<4x2xf32> -> tensor<4x5xf32>
    ```

    Each element of the result comes from the first source whose condition holds there, read at
    its map, or is the final scalar. `d0`, `d1`, … are the result's dimensions; sizes that maps and
    conditions mention are named after them, as in `(d0)[s] -> %x[s - d0 - 1]`.
    """

    name = "tensor_ir.index_map"
    sources = var_operand_def(TensorType)
    maps = prop_def(ArrayAttr[AffineMapAttr])
    conditions = prop_def(ArrayAttr[AffineMapAttr])
    fill = opt_prop_def(AnyAttr())
    sizes = opt_prop_def(ArrayAttr[StringAttr])
    result = result_def(TensorType)
    custom_directives = (
        Sources,
        Tensors,
        Ranked,
    )
    assembly_format = (
        "custom<Sources>($sources, $maps, $conditions, $fill, $sizes)"
        " `:` custom<Tensors>(type($sources))"
        " `->` custom<Ranked>(type($result), ref($maps), ref($sizes)) attr-dict"
    )
    traits = traits_def(Pure(), CanonicalizedByDialect())

    def __init__(
        self,
        sources: Sequence[SSAValue],
        maps: Sequence[AffineMap],
        shape: Sequence[int],
        conditions: Sequence[AffineMap] | None = None,
        fill: Scalar | None = None,
        sizes: Sequence[str] = (),
    ) -> None:
        """The maps are over the dimensions of `shape`, then the sizes."""
        if conditions is None:
            conditions = [AffineMap(len(shape) + len(sizes), 0, ()) for _ in sources]
        super().__init__(
            operands=[sources],
            properties={
                "maps": ArrayAttr([AffineMapAttr(m) for m in maps]),
                "conditions": ArrayAttr([AffineMapAttr(m) for m in conditions]),
                "fill": fill,
                "sizes": ArrayAttr(map(StringAttr, sizes)) if sizes else None,
            },
            result_types=[sized_tensor(element_of(sources[0]), shape)],
        )

    @property
    def named_sizes(self) -> list[str]:
        """The sizes that the last dimensions of maps and conditions are."""
        return [] if self.sizes is None else [size.data for size in self.sizes]

    def verify_(self) -> None:
        verify_sizes(self)
        check_declared(self, self.named_sizes)
        rank = len(shape_of(self.result))
        count = rank + len(self.named_sizes)
        if not len(self.sources) == len(self.maps) == len(self.conditions) or not self.sources:
            raise VerifyException("expected at least one source, each with a map and a condition")
        for source, map, where in zip(self.sources, self.maps, self.conditions, strict=True):
            if element_of(source) != element_of(self.result):
                raise VerifyException(
                    f"expected sources of element type {element_of(self.result)}, found "
                    f"{element_of(source)}"
                )
            if map.data.num_dims != count or where.data.num_dims != count:
                raise VerifyException(f"expected maps over the result's {rank} dimensions")
            if len(map.data.results) != len(shape_of(source)):
                raise VerifyException(
                    f"expected {len(shape_of(source))} subscripts for {source.type}, found "
                    f"{len(map.data.results)}"
                )
        always = not self.conditions.data[-1].data.results
        if self.fill is None and not always and 0 not in shape_of(self.result):
            raise VerifyException("expected `else` and a scalar after a conditional last source")
        if self.fill is not None:
            verify_scalar(self.fill, element_of(self.result))


TensorIR = Dialect(
    "tensor_ir",
    [
        ConstantOp,
        IotaOp,
        YieldOp,
        ElementwiseOp,
        ReduceOp,
        ScanOp,
        SortOp,
        IndexMapOp,
        GatherOp,
        FoldOp,
        ScatterAddOp,
    ],
    [],
)

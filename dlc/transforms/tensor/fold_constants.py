"""The pass `fold-constants`: what does not depend on inputs is computed now."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import dce

from dlc.dialects.tensor_ir import (
    ConstantOp,
    ElementwiseOp,
    IndexMapOp,
    ReduceOp,
    Scalar,
    YieldOp,
    element_of,
    shape_of,
)
from dlc.ir.elements import element
from dlc.ir.evaluate import evaluate, scalar
from dlc.ir.monoid import MONOIDS
from dlc.ir.provenance import inherit


@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """
    Constants go into the bodies that use them; what is constant then is computed, and the rest of
    what nobody uses removed.

    ```
    %c = tensor_ir.constant 2.0 : f32 -> tensor<4xf32>
    %y = tensor_ir.elementwise (%a = %x, %b = %c) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32> {
      %0 = arith.mulf %a, %b : f32
      tensor_ir.yield %0 : f32
    }
    ```
    becomes
    ```
    %y = tensor_ir.elementwise (%a = %x) : tensor<4xf32> -> tensor<4xf32> {
      %b = arith.constant 2.0 : f32
      %0 = arith.mulf %a, %b : f32
      tensor_ir.yield %0 : f32
    }
    ```

    A sum or product of a constant is computed only where it is exact.
    """

    name = "fold-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if isinstance(inner, ElementwiseOp):
                fold_elementwise(inner)
            elif isinstance(inner, ReduceOp):
                replace(inner, folded_reduce(inner))
            elif isinstance(inner, IndexMapOp):
                replace(inner, folded_index_map(inner))
        dce(op)


def constant_of(value: SSAValue) -> Scalar | None:
    """The scalar that all elements of a tensor are known to have."""
    owner = value.owner
    if not isinstance(owner, ConstantOp):
        return None
    assert isinstance(owner.value, FloatAttr | IntegerAttr)
    return owner.value


def replace(op: Operation, value: Scalar | None) -> None:
    """Puts a constant in the place of an operation, if it has one."""
    if value is None:
        return
    (result,) = op.results
    constant = ConstantOp(value, shape_of(result))
    constant.location = op.location
    inherit(constant, op, *_owners(op))
    constant.result.name_hint = result.name_hint
    Rewriter.insert_op(constant, InsertPoint.before(op))
    result.replace_all_uses_with(constant.result)
    op.detach()
    op.erase()


def fold_elementwise(op: ElementwiseOp) -> None:
    """Moves constant inputs into the body, computes there, and replaces what yields a constant."""
    body, arguments = op.body.block, list(op.body.block.args)
    values: dict[SSAValue, Scalar] = {
        argument: value
        for argument, tensor in zip(arguments, op.inputs, strict=True)
        if (value := constant_of(tensor)) is not None
    }
    # Without any input there is no operation: one that cannot be computed keeps its constants.
    absorbed: dict[SSAValue, Scalar] = dict(values) if len(values) < len(arguments) else {}
    for inner in body.ops:
        if isinstance(inner, arith.ConstantOp):
            assert isinstance(inner.value, FloatAttr | IntegerAttr)
            values[inner.result] = inner.value
        elif inner.results and all(v in values for v in inner.operands):
            value = evaluate(inner, [values[v] for v in inner.operands])
            if value is not None:
                values[inner.results[0]] = absorbed[inner.results[0]] = value
    yielded = body.last_op
    assert isinstance(yielded, YieldOp)
    if yielded.value in values:
        replace(op, values[yielded.value])
    elif absorbed:
        write_constants(op, absorbed)
        if any(argument in absorbed for argument in arguments):
            drop_inputs(op, [argument not in absorbed for argument in arguments])


def write_constants(op: ElementwiseOp, values: dict[SSAValue, Scalar]) -> None:
    """Makes constants of the values of a body that are known; who computed them is then dead."""
    body = op.body.block
    made: dict[Scalar, SSAValue] = {}
    for value, attribute in values.items():
        if value.first_use is None:
            continue
        if attribute not in made:
            constant = arith.ConstantOp(attribute)
            constant.location = op.location
            constant.result.name_hint = value.name_hint
            assert body.first_op is not None
            Rewriter.insert_op(constant, InsertPoint.before(body.first_op))
            made[attribute] = constant.result
        value.replace_all_uses_with(made[attribute])


def drop_inputs(op: ElementwiseOp, kept: list[bool]) -> None:
    """Replaces an operation by one without the inputs that its body does not use any more."""
    body = op.body.block
    for argument, keep in list(zip(body.args, kept, strict=True)):
        if not keep:
            body.erase_arg(argument)
    inputs = [v for v, keep in zip(op.inputs, kept, strict=True) if keep]
    assert isinstance(op.result.type, TensorType)
    new = ElementwiseOp(inputs, op.result.type, op.detach_region(op.body))
    new.location = op.location
    inherit(new, op, *_owners(op))
    new.result.name_hint = op.result.name_hint
    Rewriter.insert_op(new, InsertPoint.before(op))
    op.result.replace_all_uses_with(new.result)
    op.detach()
    op.erase()


def _owners(op: Operation) -> list[Operation]:
    """The constants that an operation reads."""
    return [v.owner for v in op.operands if isinstance(v.owner, ConstantOp)]


def folded_index_map(op: IndexMapOp) -> Scalar | None:
    """The scalar that all sources and the rest have in common."""
    values = {constant_of(v) for v in op.sources}
    if op.fill is not None:
        assert isinstance(op.fill, FloatAttr | IntegerAttr)
        values.add(op.fill)
    return values.pop() if len(values) == 1 else None


def folded_reduce(op: ReduceOp) -> Scalar | None:
    """What a fold of equal elements, or of none, gives; None where it would have to round."""
    monoid, elements = MONOIDS[op.monoid.data], [element_of(v) for v in op.inputs]
    if len(elements) != 1:
        return None
    shape = shape_of(op.inputs[0])
    count = prod(shape[int(a)] for a in op.axes.get_values())
    if count == 0:
        (identity,) = monoid.identity(elements)
        assert isinstance(identity, FloatAttr | IntegerAttr)
        return identity
    value = constant_of(op.inputs[0])
    if value is None or monoid.idempotent or count == 1:
        return value
    number, type = value.value.data, value.type
    if monoid.name == "mul":
        return value if number in (0, 1) or type == IntegerType(1) else None
    if isinstance(type, IntegerType):
        return scalar(number * count, type)
    largest = element(type).exact_integers
    exact = float(number).is_integer() and abs(number) * count <= largest
    return scalar(number * count + 0.0, type) if exact else None

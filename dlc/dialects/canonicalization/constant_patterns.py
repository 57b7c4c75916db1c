"""Patterns of tensor operations on constants; a tensor constant is one scalar, everywhere."""

from __future__ import annotations

from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint
from xdsl.traits import ConstantLike

from dlc.dialects.layouts import shape_of
from dlc.dialects.tensor_ir import (
    ConstantOp,
    ElementwiseOp,
    IndexMapOp,
    ReduceOp,
    Scalar,
    YieldOp,
    element_of,
)
from dlc.ir.elements import element
from dlc.ir.evaluate import evaluate, scalar
from dlc.ir.monoid import MONOIDS
from dlc.ir.provenance import inherit


class FoldElementwise(RewritePattern):
    """Constant inputs move into the body; what is known there is computed, if all, instead."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ElementwiseOp, rewriter: PatternRewriter, /) -> None:
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
            _replace(op, values[yielded.value], rewriter)
            return
        _write_constants(op, absorbed, rewriter)
        if any(argument in absorbed for argument in arguments):
            _drop_inputs(op, [argument not in absorbed for argument in arguments], rewriter)


class FoldReduce(RewritePattern):
    """A fold of equal elements, or of none, is a constant where no rounding is at stake."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReduceOp, rewriter: PatternRewriter, /) -> None:
        _replace(op, folded_reduce(op), rewriter)


class FoldIndexMap(RewritePattern):
    """An index map whose sources and rest are one scalar is that."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: IndexMapOp, rewriter: PatternRewriter, /) -> None:
        _replace(op, folded_index_map(op), rewriter)


def constant_of(value: SSAValue) -> Scalar | None:
    """The scalar that all elements of a tensor are known to have."""
    constant = ConstantLike.get_constant_value(value)
    assert constant is None or isinstance(constant, FloatAttr | IntegerAttr)
    return constant


def _replace(op: Operation, value: Scalar | None, rewriter: PatternRewriter) -> None:
    """Puts a constant in the place of an operation, if it has one."""
    if value is None:
        return
    (result,) = op.results
    constant = ConstantOp(value, shape_of(result))
    constant.location = op.location
    inherit(constant, op, *_owners(op))
    rewriter.replace(op, constant)


def _write_constants(
    op: ElementwiseOp, values: dict[SSAValue, Scalar], rewriter: PatternRewriter
) -> None:
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
            rewriter.insert(constant, InsertPoint.before(body.first_op))
            made[attribute] = constant.result
        rewriter.replace_all_uses_with(value, made[attribute])


def _drop_inputs(op: ElementwiseOp, kept: list[bool], rewriter: PatternRewriter) -> None:
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
    rewriter.replace(op, new)


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
    """The result of a fold of equal elements, or of none; None where it would have to round."""
    monoid, elements = MONOIDS[op.monoid.data], [element_of(v) for v in op.inputs]
    if len(elements) != 1:
        return None
    shape = shape_of(op.inputs[0])
    count = prod(shape[int(a)] for a in op.axes.get_values())
    if not isinstance(count, int):  # a size, which is a number later
        return None
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
    if monoid.name != "add":
        return None
    if isinstance(type, IntegerType):
        return scalar(number * count, type)
    largest = element(type).exact_integers
    exact = float(number).is_integer() and abs(number) * count <= largest
    return scalar(number * count + 0.0, type) if exact else None

"""
Which tensors have memory of their own, and how they lie in it: what `@main` returns, and what
control flow carries, scans and stacks. Where that is no tensor that is computed for it, it is
copied. What is joined of several tensors before a loop that reads it is joined once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.diagnostics import fail
from dlc.dialects import flow, tensor_ir
from dlc.dialects.host_flow import stack_type
from dlc.dialects.kernel_memory import element_bytes, memref_type
from dlc.dialects.layouts import DEFAULT_ALIGNMENT, shape_of, strides_of
from dlc.dialects.size import ReshapeOp, in_memory
from dlc.dialects.sized_types import SizesAttr, sized_memref
from dlc.ir.sizes import Size, several

DISSOLVED = (tensor_ir.IndexMapOp, tensor_ir.ConstantOp, tensor_ir.IotaOp)
"""What is computed where it is read, and has no memory unless something here wants it."""
COMPUTED = (
    tensor_ir.ElementwiseOp,
    tensor_ir.ReduceOp,
    tensor_ir.ScanOp,
    tensor_ir.SortOp,
    tensor_ir.GatherOp,
    tensor_ir.FoldOp,
    tensor_ir.ScatterAddOp,
)


@dataclass
class Layouts:
    """The layouts of a function's tensors that are not row-major or not aligned to 16 bytes."""

    strides: dict[SSAValue, tuple[int, ...]] = field(default_factory=dict)
    alignments: dict[SSAValue, int] = field(default_factory=dict)

    def memref(self, tensor: SSAValue) -> MemRefType:
        assert isinstance(tensor.type, TensorType)
        strides = self.strides.get(tensor)
        element, shape = tensor.type.element_type, shape_of(tensor)
        if strides is not None and any(isinstance(n, Size) for n in (*shape, *strides)):
            return sized_memref(element, shape, strides)
        layout = NoneAttr() if strides is None else StridedLayoutAttr(strides)
        return memref_type(element, shape, layout)

    def alignment(self, tensor: SSAValue) -> int:
        return self.alignments.get(in_memory(tensor), DEFAULT_ALIGNMENT)

    def step(self, tensor: SSAValue) -> int:
        """The bytes from an element along the first dimension to the next."""
        return strides_of(self.memref(tensor))[0] * element_bytes(tensor_ir.element_of(tensor))


def put_in_memory(function: func.FuncOp, layouts: Layouts) -> set[Operation]:
    """
    Fills `layouts`, and gives the operations whose results must be in memory. Every result of
    `@main` has memory of its own: an argument, or a tensor returned twice, is copied. So has what
    is carried, as a loop writes to it, and what a branch gives. What is reshaped where it lies has
    memory, row by row.
    """
    block = function.body.block
    for argument, attributes in zip(
        block.args, _attributes(function.arg_attrs, len(block.args)), strict=True
    ):
        if (strides := _strides(attributes)) is not None:
            layouts.strides[argument] = strides
        align = attributes.data.get("dlc.align")
        if isinstance(align, IntegerAttr):
            layouts.alignments[argument] = min(align.value.data, DEFAULT_ALIGNMENT)
    found = _put_results(function, layouts)
    for inner in flow.blocks_of(block):
        for op in list(inner.ops):
            if isinstance(op, tensor_ir.IndexMapOp) and is_joined_before_loop(op):
                found.add(op)
            if isinstance(op, flow.FLOW):
                found |= _put_operands(op)
            if isinstance(op, flow.ForOp):
                _lay_out(op, layouts)
    inside = [op for inner in flow.blocks_of(block) for op in inner.ops]
    return found.union(*(_put_reshaped(op, layouts) for op in inside if isinstance(op, ReshapeOp)))


def _put_reshaped(op: ReshapeOp, layouts: Layouts) -> set[Operation]:
    """Gives a tensor memory in which it can be read under another shape."""
    if op.source in layouts.strides:
        op.operands[0] = _insert_copy(op.source, op)
    owner = op.source.owner
    return {owner} if isinstance(owner, Operation) else set()


def is_joined_before_loop(op: tensor_ir.IndexMapOp) -> bool:
    """True if an index map chooses among tensors, and a loop that it stands before reads it."""
    readers = (use.operation for use in op.result.uses)
    return len(op.sources) > 1 and any(flow.is_before_loop(op, reader) for reader in readers)


def _put_results(function: func.FuncOp, layouts: Layouts) -> set[Operation]:
    terminator = function.body.block.last_op
    assert terminator is not None
    attributes = _attributes(function.res_attrs, len(terminator.operands))
    fixed = set[SSAValue](function.body.block.args)
    for index, wanted in enumerate(map(_strides, attributes)):
        value = terminator.operands[index]
        if not isinstance(value.type, TensorType):
            fail(terminator, f"expected a function that returns tensors, found {value.type}")
        if in_memory(value) in fixed or _is_fixed(in_memory(value), wanted):
            value = _insert_copy(value, terminator)
            terminator.operands[index] = value
        fixed.add(in_memory(value))
        if wanted is not None:
            layouts.strides[value] = wanted
    owners = (value.owner for value in terminator.operands)
    return {owner for owner in owners if isinstance(owner, Operation)}


def _is_fixed(value: SSAValue, wanted: tuple[int, ...] | None) -> bool:
    """True if control flow gives a tensor otherwise than `@main` returns it."""
    match value.owner:
        case flow.ForOp(stacked=stacked):
            return value not in stacked or wanted is not None or _padded(value) is not None
        case flow.IfOp():
            return wanted is not None
        case owner:
            return isinstance(owner, flow.WhileOp)


def _put_operands(op: Operation) -> set[Operation]:
    """Gives memory to what control flow takes and to what its bodies yield."""
    match op:
        case flow.ForOp():
            owned, read = op.inits, [*op.scanned]
        case flow.WhileOp():
            owned, read = op.inits, [op.flag]
        case flow.IfOp():
            owned, read = (), [op.flag]
        case _:
            return set()
    for index, value in enumerate(owned):
        if not _is_computed_in(value, op.parent) or value.has_more_than_one_use():
            op.operands[index] = _insert_copy(value, op)
    taken = [*op.operands[: len(owned)]]
    for region in op.regions:
        end = region.block.last_op
        assert end is not None
        if isinstance(op, flow.WhileOp) and region is op.before:
            continue
        for index, value in enumerate(end.operands):
            if not _is_computed_in(value, region.block) or value in end.operands[:index]:
                end.operands[index] = _insert_copy(value, end)
        taken += end.operands
    owners = (value.owner for value in (*taken, *read))
    return {owner for owner in owners if isinstance(owner, Operation)}


def _is_computed_in(value: SSAValue, block: Block | None) -> bool:
    """True for a tensor that an operation of the block computes, and not its control flow."""
    owner = value.owner
    return isinstance(owner, COMPUTED + DISSOLVED) and owner.parent is block


def _lay_out(op: flow.ForOp, layouts: Layouts) -> None:
    """
    Elements of what is scanned lie in it; those of what is stacked begin where kernels expect their
    outputs to begin.
    """
    for piece, source in zip(op.pieces, op.scanned, strict=True):
        if source in layouts.strides:
            layouts.strides[piece] = layouts.strides[source][1:]
        step = layouts.step(source) if several(op.trips) else 0
        layouts.alignments[piece] = gcd(layouts.alignment(source), Size.of(step).divisor)
    for stack in op.stacked:
        if (strides := _padded(stack)) is not None:
            layouts.strides[stack] = strides


def _padded(stack: SSAValue) -> tuple[int, ...] | None:
    """The strides of what is stacked, unless it lies without gaps."""
    assert isinstance(stack.type, TensorType)
    type = stack_type(stack.type)
    return None if isinstance(type.layout, NoneAttr) else strides_of(type)


def _attributes(
    attributes: ArrayAttr[DictionaryAttr] | None, count: int
) -> Sequence[DictionaryAttr]:
    return [DictionaryAttr({})] * count if attributes is None else attributes.data


def _strides(attributes: DictionaryAttr) -> tuple[int, ...] | None:
    """`dlc.strides`, in elements."""
    strides: Attribute | None = attributes.data.get("dlc.strides")
    if isinstance(strides, SizesAttr):
        return tuple(n if n.number is None else n.number for n in strides.data)  # pyright: ignore
    if not isinstance(strides, DenseArrayBase):
        return None
    return tuple(int(s) for s in strides.get_values())


def _insert_copy(value: SSAValue, before: Operation) -> SSAValue:
    """A copy of a tensor, as an index map."""
    shape = shape_of(value)
    if isinstance(value.owner, ReshapeOp):  # of what lies in memory under the other shape
        again = ReshapeOp(_insert_copy(value.owner.source, before), shape)
        again.location, again.result.name_hint = value.owner.location, value.name_hint
        Rewriter.insert_op(again, InsertPoint.before(before))
        return again.result
    copy = tensor_ir.IndexMapOp([value], [AffineMap.identity(len(shape))], shape)
    copy.result.name_hint = value.name_hint
    block = before.parent
    assert block is not None
    block.insert_op_before(copy, before)
    return copy.result

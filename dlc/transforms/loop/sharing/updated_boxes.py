"""Kernels that update a box of a tensor, as kernels that update a view of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, NoneAttr
from xdsl.ir import BlockArgument, SSAValue
from xdsl.rewriter import Rewriter

from dlc.dialects.access import LoadOpBase, StoreOpBase
from dlc.dialects.kernel import LaunchOp, ViewOp, WholeOp
from dlc.dialects.kernel_op import tensor_of
from dlc.dialects.layouts import DEFAULT_ALIGNMENT, shape_of, strides_of
from dlc.dialects.loop import KernelOp
from dlc.dialects.sized_types import sized_memref
from dlc.dialects.views import offset_bytes
from dlc.ir.bounds import bounds

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Boxed:
    """A kernel, and one that does the same to a view of the tensor that it updates."""

    kernel: KernelOp
    begin: Numbers
    """Where the view begins along each dimension."""
    alone: KernelOp
    """The other one, inserted nowhere, which is bound to what `kernel` is as yet."""

    def replace(self) -> KernelOp:
        """Puts the view, its kernel, and the tensor that is whole again in the kernel's place."""
        kernel, alone = self.kernel, self.alone
        (input,) = alone.updated_refs.values()
        number = alone.input_refs.index(input)
        tensor, extents = kernel.inputs[number], shape_of(input)
        view = ViewOp(tensor, self.begin, extents)
        alone.operands[number] = view.result
        (part,) = alone.results
        whole = WholeOp(view, part)
        for value in (view.result, part):
            value.name_hint = f"{tensor.name_hint or 'tensor'}_part"
        view.location = whole.location = kernel.location
        Rewriter.replace_op(kernel, [view, alone, whole], [whole.result])
        return alone


def boxed(kernel: KernelOp) -> Boxed | None:
    """
    A kernel on a view of the tensor that it updates, if that is in `@main` and lies row by row, and
    all that it stores and loads of it is a box of known places, less than all of it, that begins at
    an address which kernels take for granted.
    """
    if len(kernel.outputs) != 1 or not isinstance(kernel.parent_op(), func.FuncOp):
        return None
    if not kernel.updated_refs or not _is_for_kernels(kernel.results[0]):
        return None
    ((output, input),) = kernel.updated_refs.items()
    box = _box(output, input)
    if box is None:
        return None
    begin, extents = box
    type = output.type
    assert isinstance(type, MemRefType)
    if not isinstance(type.layout, NoneAttr) or extents == shape_of(type):
        return None
    if offset_bytes(begin, type) % DEFAULT_ALIGNMENT:
        return None
    alone = kernel.clone()
    new = sized_memref(type.element_type, extents, strides_of(type))
    for ref in (*alone.updated_refs.keys(), *alone.updated_refs.values()):
        for op in [use.operation for use in ref.uses]:
            assert isinstance(op, LoadOpBase | StoreOpBase)
            places = zip(op.subscripts, begin, strict=True)
            op.set_index([at - first for at, first in places], op.where)
        Rewriter.replace_value_with_new_type(ref, new)
    Rewriter.replace_value_with_new_type(alone.results[0], tensor_of(new))
    return Boxed(kernel, begin, alone)


def _is_for_kernels(tensor: SSAValue) -> bool:
    """True if kernels alone use a tensor, or the program returns it."""
    users = (use.operation for use in tensor.uses)
    return all(isinstance(user, KernelOp | LaunchOp | func.ReturnOp) for user in users)


def _box(output: BlockArgument, input: BlockArgument) -> tuple[Numbers, Numbers] | None:
    """Where the box of all places that are stored or loaded begins, and its extents, if known."""
    accesses = [use.operation for ref in (output, input) for use in ref.uses]
    found: list[list[tuple[float, float]]] = []
    for op in accesses:
        if not isinstance(op, LoadOpBase | StoreOpBase):
            return None
        found.append([bounds(at) for at in op.subscripts])
    sides = [(min(low for low, _ in side), max(high for _, high in side)) for side in zip(*found)]
    extents = shape_of(output)
    if not sides or len(sides) != len(extents):
        return None
    for (low, high), extent in zip(sides, extents, strict=True):
        if not isinstance(extent, int) or not (0 <= low <= high < extent) or not isfinite(high):
            return None
    begin = tuple(int(low) for low, _ in sides)
    ends = (int(high) + 1 for _, high in sides)
    return begin, tuple(end - first for end, first in zip(ends, begin, strict=True))

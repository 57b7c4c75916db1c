"""Kernels that lay an operand of another one out anew, and how that one reads it then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Block, BlockArgument, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import loop
from dlc.dialects.axes import AxesOp, new_body
from dlc.dialects.indexed_op import simplify_where
from dlc.dialects.kernel_memory import memref_of, memref_type
from dlc.dialects.layouts import DEFAULT_ALIGNMENT, shape_of
from dlc.ir.evaluate import scalar
from dlc.ir.expr import Expr
from dlc.ir.provenance import OPS
from dlc.schedule.packing import Packing

Stores = Callable[[Builder, SSAValue, SSAValue, Sequence[Expr]], None]
"""Inserts what stores an element at a place of a memref."""


@dataclass(frozen=True)
class Laid:
    """How a kernel goes through an operand that it lays out anew."""

    names: Sequence[str | None]
    """Of its axes, a dimension of the memory for each."""
    extents: Sequence[int]
    at: Callable[[Sequence[Expr]], tuple[Sequence[Expr], Sequence[Expr]]]
    """The subscripts of the operand at points of the axes, and the conditions on which there is an
    element."""


def copying_kernel(
    kernel: loop.KernelOp, packing: Packing, shape: tuple[int, ...], name: str, store: Stores
) -> loop.KernelOp:
    """The kernel that lays an operand out in memory of a shape, not inserted anywhere: `store` is
    given each element and its place."""
    load, last = packing.load, packing.axes[-1]
    around = last.owner.parent_op()
    assert isinstance(around, AxesOp)
    extent = around.extent(last)

    def at(axes: Sequence[Expr]) -> tuple[Sequence[Expr], Sequence[Expr]]:
        place: dict[SSAValue, Expr] = dict(zip(packing.axes, axes, strict=True))

        def meaning(value: SSAValue) -> Expr | int:
            return place.get(value, 0)  # else an axis of one point

        where = [e.substitute(meaning) for e in load.where]
        if extent < packing.extents[-1]:
            where.append(place[last] * -1 + (extent - 1))
        return [e.substitute(meaning) for e in load.subscripts], where

    names = [axis.name_hint for axis in packing.axes]
    return laying_kernel(kernel, load, Laid(names, packing.extents, at), shape, name, store)


def laying_kernel(
    kernel: loop.KernelOp,
    load: loop.LoadOp,
    laid: Laid,
    shape: tuple[int, ...],
    name: str,
    store: Stores,
) -> loop.KernelOp:
    """The kernel that lays what a load reads out in memory of a shape, not inserted anywhere."""
    ref = load.ref
    assert isinstance(ref, BlockArgument)
    element = load.result.type
    packed = memref_type(element, shape)
    block = Block(arg_types=[ref.type, packed])
    source, target = block.args
    source.name_hint, target.name_hint = ref.name_hint, name
    axes = loop.ForOp(laid.extents, new_body(len(laid.extents), laid.names))
    subscripts, where = laid.at([Expr.of(axis) for axis in axes.axes])
    where = simplify_where(where)
    default = None
    if where:
        value = scalar(0, element)
        if load.default is not None:
            assert isinstance(load.default.owner, arith.ConstantOp)
            value = load.default.owner.value
        constant = arith.ConstantOp(value)
        block.add_op(constant)
        default = constant.result
    block.add_op(axes)
    body = Builder(InsertPoint.before(axes.yielded))
    found = body.insert(loop.LoadOp(source, subscripts, where, default))
    found.result.name_hint = load.result.name_hint
    store(body, found.result, target, [Expr.of(a) for a in axes.axes])
    return operand_kernel(kernel, load, block, name)


def operand_kernel(
    kernel: loop.KernelOp, load: loop.LoadOp, block: Block, name: str
) -> loop.KernelOp:
    """A kernel of what a load in another one reads, which does what a block says."""
    ref = load.ref
    assert isinstance(ref, BlockArgument)
    tensor = kernel.inputs[kernel.input_refs.index(ref)]
    made = loop.KernelOp(name, [tensor], Region(block), [kernel.alignment(ref)])
    made.results[0].name_hint = name
    for op in made.walk():
        op.location = load.location
    if OPS in kernel.attributes:
        made.attributes[OPS] = kernel.attributes[OPS]
    return made


def read_packed(kernel: loop.KernelOp, packing: Packing, packed: SSAValue) -> None:
    """Has a kernel read an operand where it is packed."""
    read_laid(kernel, packing.load, packed, [Expr.of(axis) for axis in packing.axes])


def read_laid(
    kernel: loop.KernelOp,
    load: loop.LoadOp,
    packed: SSAValue,
    subscripts: Sequence[Expr],
    where: Sequence[Expr] = (),
) -> None:
    """Has a kernel read where an operand is laid out what a load does."""
    ref = load.ref
    assert isinstance(ref, BlockArgument)
    number = kernel.input_refs.index(ref)
    type = memref_type(memref_of(ref).element_type, shape_of(packed.type))
    new = Rewriter.replace_value_with_new_type(ref, type)
    kernel.operands[number] = packed
    alignments = [int(n) for n in kernel.alignments.get_values()]
    alignments[number] = DEFAULT_ALIGNMENT
    kernel.alignments = DenseArrayBase.from_list(i64, alignments)
    again = loop.LoadOp(new, subscripts, where, load.default if where else None)
    again.result.name_hint = load.result.name_hint
    again.location = load.location
    Rewriter.replace_op(load, again)

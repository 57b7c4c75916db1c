"""Nested sums with the sums over windows taken first, of each factor; see `reorder-sums`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr
from xdsl.ir import Attribute, Block, BlockArgument, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import loop
from dlc.dialects.axes import AxesOp, new_body
from dlc.dialects.kernel_memory import memref_type
from dlc.ir.expr import Expr
from dlc.transforms.loop.fusion.canonical_form import canonicalize_kernel
from dlc.transforms.loop.packing.copying import operand_kernel, read_laid
from dlc.transforms.loop.reordering.nested_sums import NestedSum, values_of


def factored(found: NestedSum) -> list[loop.KernelOp]:
    """
    The kernels that sum each operand over the axes of `found.total` along which it varies, inserted
    nowhere, followed by that of `found`, which sums products of these.
    """
    made: list[loop.KernelOp] = []
    for load in found.loads:
        if summed := found.summed(load):
            axes = _axes_of(found, load)
            made.append(summing := _summing(found.kernel, load, axes, summed))
            read_laid(found.kernel, load, summing.results[0], [Expr.of(axis) for axis in axes])
    _take_out(found)
    canonicalize_kernel(found.kernel)
    return [*made, found.kernel]


def _axes_of(found: NestedSum, load: loop.LoadOp) -> list[BlockArgument]:
    """
    The axes along which what is summed of a load varies, as its memory has them: first those that
    are alone in a subscript, then those of the inner sum, so that results are neighbours.
    """
    inner, summed = found.inner.axes, found.total.axes
    known = [axis for axis in values_of(load) if axis not in summed]
    others = [[a for a in s.values() if a not in summed] for s in load.subscripts]
    alone = {axes[0] for axes in others if len(axes) == 1}

    def place(axis: SSAValue) -> int:
        return 0 if axis in alone else 1 if axis in inner else 2

    return [axis for axis in sorted(known, key=place) if isinstance(axis, BlockArgument)]


def _summing(
    kernel: loop.KernelOp,
    load: loop.LoadOp,
    axes: Sequence[BlockArgument],
    summed: Sequence[BlockArgument],
) -> loop.KernelOp:
    """The kernel that sums what is loaded along some axes, at each point of others."""
    ref = load.ref
    assert isinstance(ref, BlockArgument)
    name = f"{ref.name_hint or 'operand'}_summed"
    block = Block(arg_types=[ref.type, memref_type(load.result.type, _extents(axes))])
    source, target = block.args
    source.name_hint, target.name_hint = ref.name_hint, name
    outer = loop.ForOp(_extents(axes), new_body(len(axes), [a.name_hint for a in axes]))
    body = new_body(len(summed), [a.name_hint for a in summed])
    at = dict[SSAValue, SSAValue](zip(axes, outer.axes, strict=True))
    at |= zip(summed, body.block.args, strict=True)
    default = None
    if load.default is not None:
        assert isinstance(load.default.owner, arith.ConstantOp)
        block.add_op(constant := load.default.owner.clone())
        default = constant.result
    inside = Builder(InsertPoint.at_end(body.block))
    reduce = loop.ReduceOp("add", _extents(summed), [load.result.type], body)
    subscripts, where = ([e.substitute(at.get) for e in es] for es in (load.subscripts, load.where))
    element = inside.insert(loop.LoadOp(source, subscripts, where, default))
    inside.insert(loop.YieldOp([element.result]))
    element.result.name_hint, reduce.results[0].name_hint = load.result.name_hint, name
    around = Builder(InsertPoint.before(outer.yielded))
    around.insert(reduce)
    around.insert(loop.StoreOp(reduce.results[0], target, [Expr.of(axis) for axis in outer.axes]))
    block.add_op(outer)
    return operand_kernel(kernel, load, block, name)


def _take_out(found: NestedSum) -> None:
    """Puts the inner sum, and a summand so many times, with constants, in the place of the sum
    around it."""
    total, builder = found.total, Builder(InsertPoint.before(found.total))
    for op in [op for op in total.body.block.ops if op is not total.yielded]:
        op.detach()
        builder.insert(op)
        if isinstance(op, loop.LoadOp) and found.repeats > 1:
            count = builder.insert(arith.ConstantOp(_number(found.repeats, op.result.type)))
            often = builder.insert(arith.MulfOp(op.result, count.result))
            op.result.replace_all_uses_with(often.result)
            often.operands[0] = op.result
    Rewriter.replace_op(total, [], [total.yielded.values[0]])


def _number(value: int, type: Attribute) -> FloatAttr:
    assert isinstance(type, AnyFloat)
    return FloatAttr(float(value), type)


def _extents(axes: Sequence[BlockArgument]) -> tuple[int, ...]:
    return tuple(_extent(axis) for axis in axes)


def _extent(axis: BlockArgument) -> int:
    around = axis.owner.parent_op()
    assert isinstance(around, AxesOp)
    return around.extent(axis)

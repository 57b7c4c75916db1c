"""
Kernels that update tensors in place: a value of the graph whose memory is written to is used by
nothing that comes after. So whoever runs a program in its order may let both lie in one place.
A tensor may be stored part by part so: by a kernel that makes it, and others that update it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

from xdsl.dialects import func
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import LoadOpBase, StoreOpBase
from dlc.dialects.axes import loops_around
from dlc.dialects.size import in_memory, in_memory_of
from dlc.dialects.user_outputs import mutated_by
from dlc.dialects.views import Updating, ViewOp, WholeOp
from dlc.ir.bounds import bounds, sure
from dlc.ir.expr import Expr


def verify_in_place(kernel: Operation, updated: Sequence[SSAValue]) -> None:
    """Checks that nothing needs what these operands of a kernel, or of a launch of one, were."""
    for tensor in updated:
        name = f"%{tensor.name_hint or 'value'}"
        if sum(in_memory(operand) is in_memory(tensor) for operand in kernel.operands) > 1:
            raise VerifyException(f"expected one input that is {name}, which is updated in place")
        if (obstacle := _obstacle(kernel, tensor)) is not None:
            raise VerifyException(f"expected to update {name} in place, found {obstacle}")
        for use in (u for other in in_memory_of(in_memory(tensor)) for u in other.uses):
            if use.operation is kernel or _takes_over(use.operation, kernel):
                continue
            if not _precedes(use.operation, kernel):
                raise VerifyException(
                    f"expected nothing to use {name} once it is updated in place, found "
                    f"'{use.operation.name}'"
                )


def _takes_over(user: Operation, kernel: Operation) -> bool:
    """True for what names the memory of a tensor once a kernel has updated a view of it."""
    return isinstance(user, WholeOp) and user.part.owner is kernel


def verify_partial(tensors: Iterable[SSAValue]) -> None:
    """
    Checks that tensors of which a part is stored are used by kernels alone: by those that store
    more of them, and by those that read of them what is there (`stored_parts.py`).
    """
    for tensor in tensors:
        for use in tensor.uses:
            user = use.operation
            if not isinstance(user, Updating | ViewOp):
                raise VerifyException(
                    f"expected %{tensor.name_hint or 'value'}, of which a part is stored, to be "
                    f"updated, found '{user.name}', which uses it"
                )


def verify_reads(output: SSAValue, input: SSAValue) -> None:
    """
    Checks that a kernel reads of the memory that it updates what it is about to write alone: so
    each point has the old element, whatever other points have done.
    """
    stores = [use.operation for use in output.uses if isinstance(use.operation, StoreOpBase)]
    for use in input.uses:
        load = use.operation
        if not isinstance(load, LoadOpBase):
            raise VerifyException(
                f"expected loads alone of %{input.name_hint}, which is updated, found '{load.name}'"
            )
        if not all(_is_before(load, store) or _are_apart(load, store) for store in stores):
            raise VerifyException(
                f"expected to load of %{input.name_hint}, which is updated, the element that is "
                f"stored after it, found another one"
            )


def _is_before(load: LoadOpBase, store: StoreOpBase) -> bool:
    """True if the element that is loaded is the one that is stored later at the same point."""
    return load.subscripts == store.subscripts and _precedes(load, store)


def _are_apart(load: LoadOpBase, store: StoreOpBase) -> bool:
    """True if no point stores what any point loads, as one has other places along a dimension."""
    pairs = list(zip(load.subscripts, store.subscripts, strict=True))
    ways = ((read, load.where, written) for read, written in pairs)
    others = ((written, store.where, read) for read, written in pairs)
    return any(_is_apart(*way) for way in (*ways, *others))


def _is_apart(one: Expr, where: Sequence[Expr], other: Expr) -> bool:
    """True if what a subscript is under its conditions is beyond the bounds of another."""
    least, most = bounds(other)
    below = isfinite(least) and sure(Expr((), int(least) - 1) - one, where)
    return below or (isfinite(most) and sure(one - int(most) - 1, where))


def verify_points(output: SSAValue, input: SSAValue) -> None:
    """
    Checks that a kernel of loops that reads what it updates stores an element at one point alone:
    at each axis around a store, one of the subscripts is the axis, times or plus a number.
    """
    if not input.uses:
        return
    for store in (use.operation for use in output.uses):
        if not isinstance(store, StoreOpBase):
            continue
        alone = {
            value
            for subscript in store.subscripts
            for value in subscript.values()
            if len(subscript.values()) == 1 and subscript.coefficient(value)
        }
        for loop in loops_around(store):
            for axis in loop.axes:
                if axis not in alone and loop.most(axis) > 1:
                    raise VerifyException(
                        f"expected subscripts that tell the points of %{axis.name_hint} apart, for "
                        f"%{input.name_hint} is read where it is updated"
                    )


def _obstacle(kernel: Operation, tensor: SSAValue) -> str | None:
    """Why the memory of a tensor may not be written, if it may not."""
    owner = tensor.owner
    if isinstance(owner, Operation):
        return None if owner.parent is kernel.parent else "a value of another block"
    main = owner.parent_op()
    if kernel.parent is owner and not isinstance(main, func.FuncOp):
        return "what a loop is given"
    assert isinstance(tensor, BlockArgument)
    if isinstance(main, func.FuncOp) and tensor.index not in mutated_by(main):
        return "an argument that no result is written back to (`dlc.mutates`)"
    return None if kernel.parent is owner else "a value of another block"


def _precedes(first: Operation, second: Operation) -> bool:
    """True if an operation comes before another one in the block of either."""
    for block in (second.parent, first.parent):
        one = None if block is None else block.find_ancestor_op_in_block(first)
        other = None if block is None else block.find_ancestor_op_in_block(second)
        if one is not None and other is not None:
            return one is not other and one.is_before_in_block(other)
    return False

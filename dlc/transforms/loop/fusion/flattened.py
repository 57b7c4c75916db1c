"""Unflattening the axes of a reader that takes a tensor's dimensions apart; see `unflattened`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import BlockArgument, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects.axes import new_body
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, StoreOp
from dlc.ir.expr import Expr, FloorDiv, Mod
from dlc.ir.sizes import ceildiv, divides
from dlc.transforms.loop.fusion.normal_form import normalize_kernel

_Inner = Callable[[ForOp, BlockArgument, Sequence[Expr]], int | None]
"""What finds the extent of the inner part of a loop's axis in the subscripts of a load."""


def unflattened(kernel: KernelOp, tensor: SSAValue) -> KernelOp | None:
    """
    A copy of a kernel, in normal form and not inserted anywhere, that runs over two axes where it
    ran over one and read `tensor` at the quotient and the remainder of that by one number, as a
    reshape does that joins two dimensions; None where it reads none so. What computes the element
    then runs over axes of its own, as tiles take it. Where the number does not divide the extent,
    the points beyond store nothing.

    ```
    loop.for %c in 128 { %0 = loop.load %x[%c floordiv 32, %c mod 32] … loop.store %0, %y[%c] }
    ```
    becomes
    ```
    loop.for %q, %r in 4, 32 { %0 = loop.load %x[%q, %r] … loop.store %0, %y[%q * 32 + %r] }
    ```
    """
    return _taken_apart(kernel, tensor, _both_parts)


def grouped(kernel: KernelOp, tensor: SSAValue) -> KernelOp | None:
    """
    The same where `tensor` is read at quotients of an axis alone, by a number that divides its
    extent: an element for each group of points, as a mean of channels is. It is computed once so.
    """
    return _taken_apart(kernel, tensor, _quotient)


def _taken_apart(kernel: KernelOp, tensor: SSAValue, inner: _Inner) -> KernelOp | None:
    if next(_joined(kernel, tensor, inner), None) is None:
        return None
    copy = kernel.clone()
    while (found := next(_joined(copy, tensor, inner), None)) is not None:
        take_apart(*found)
    normalize_kernel(copy, clean=True)
    return copy


def _joined(
    kernel: KernelOp, tensor: SSAValue, inner: _Inner
) -> Iterator[tuple[ForOp, BlockArgument, int]]:
    """The axes of which some load of `tensor` takes parts, and the extents of the inner ones."""
    refs = {r for r, v in zip(kernel.input_refs, kernel.inputs, strict=True) if v is tensor}
    loads = [op for op in kernel.walk() if isinstance(op, LoadOp) and op.ref in refs]
    for loop in (op for op in kernel.walk() if isinstance(op, ForOp)):
        for axis in loop.axes:
            for load in loads:
                if extent := inner(loop, axis, load.subscripts):
                    yield loop, axis, extent


def _both_parts(loop: ForOp, axis: BlockArgument, subscripts: Sequence[Expr]) -> int | None:
    """The number by which subscripts are the quotient and the remainder of an axis, if they are."""
    quotients, remainders = _parts(axis, subscripts)
    return next(iter(quotients & remainders), None)


def _quotient(loop: ForOp, axis: BlockArgument, subscripts: Sequence[Expr]) -> int | None:
    """The number that divides an extent, by which a subscript is the quotient of its axis."""
    quotients, _ = _parts(axis, subscripts)
    return next((n for n in quotients if divides(n, loop.extent(axis))), None)


def _parts(axis: BlockArgument, subscripts: Sequence[Expr]) -> tuple[set[int], set[int]]:
    """What subscripts are the quotient of an axis by, and what they are the remainder by."""
    whole = Expr.of(axis)
    atoms = [s.terms[0][0] for s in subscripts if len(s.terms) == 1 and s.constant == 0]
    quotients = {a.divisor for a in atoms if isinstance(a, FloorDiv) and a.base == whole}
    remainders = {a.divisor for a in atoms if isinstance(a, Mod) and a.base == whole}
    return quotients, remainders


def take_apart(loop: ForOp, axis: BlockArgument, inner: int) -> None:
    """Makes a loop run over the quotients and the remainders of an axis."""
    extents, names = [loop.extent(a) for a in loop.axes], [a.name_hint for a in loop.axes]
    at, whole = axis.index, loop.extent(axis)
    extents[at : at + 1] = [ceildiv(whole, inner), inner]
    names.insert(at, names[at])
    new = ForOp(extents, new_body(len(extents), names))
    new.location = loop.location
    Rewriter.insert_op(new, InsertPoint.before(loop))  # where the sizes of its axes are told
    exprs = [Expr.of(a) for a in new.axes]
    exprs[at : at + 2] = [exprs[at] * inner + exprs[at + 1]]
    place: dict[SSAValue, Expr] = dict(zip(loop.axes, exprs, strict=True))
    within = [] if divides(inner, whole) else [loop.count(axis) - 1 - place[axis]]
    copies: dict[SSAValue, SSAValue] = {}
    for op in loop.body.block.ops:
        if op is loop.yielded:
            continue
        copy = op.clone(copies)
        new.body.block.insert_op_before(copy, new.yielded)
        for user in copy.walk():
            if isinstance(user, IndexedOp):
                user.substitute(place.get, within if isinstance(user, StoreOp) else ())
    Rewriter.erase_op(loop)

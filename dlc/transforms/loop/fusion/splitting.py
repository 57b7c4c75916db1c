"""Splitting a loop so that it reads fewer elements of a tensor at a point; see `split_reader`."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from dlc.dialects.axes import new_body
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, ReduceOp
from dlc.ir.expr import Expr
from dlc.ir.sizes import divides
from dlc.transforms.loop.fusion.normal_form import normalize_kernel

MAX_PARTS = 4
"""Parts that an axis is split into at most: the body of the loop is there once for each."""


def split_reader(kernel: KernelOp, tensor: SSAValue) -> KernelOp | None:
    """
    A copy of a pointwise kernel, in normal form and not inserted anywhere, in which a loop runs
    over one of several equal parts of an axis and does in its body what each of them does, so that
    at a point it reads fewer different elements of `tensor` for a part than it did; None where
    none is like that. It is, if the elements lie at multiples of a part from each other and
    conditions choose among them by the part, as where halves of a row change places:

    ```
    loop.for %j in 64 {
      %0 = loop.load %x[%j] …
      %1 = loop.load %x[%j + 32] where (%j < 32) …
      %2 = loop.load %x[%j - 32] where (%j >= 32) …
    ```
    reads 3 elements at each of 64 points, and
    ```
    loop.for %j in 32 {
      %0 = loop.load %x[%j] …
      %1 = loop.load %x[%j + 32] …
    ```
    2 at each of 32.
    """
    best, fewest = None, float(_reads(kernel, tensor))
    if fewest < 2 or any(isinstance(op, ReduceOp) for op in kernel.walk()):
        return None
    for trial, parts in _trials(kernel):
        if (reads := _reads(trial, tensor) / parts) < fewest:
            if best is not None:
                best.erase()
            best, fewest = trial, reads
        else:
            trial.erase()
    return best


def _reads(kernel: KernelOp, tensor: SSAValue) -> int:
    """The number of different elements of a tensor that a kernel loads at a point."""
    refs = {r for r, v in zip(kernel.input_refs, kernel.inputs, strict=True) if v is tensor}
    loads = (op for op in kernel.walk() if isinstance(op, LoadOp) and op.ref in refs)
    return len({op.subscripts for op in loads})


def _trials(kernel: KernelOp) -> Iterator[tuple[KernelOp, int]]:
    """The kernel with each axis of each loop in so many parts."""
    loops = [op for op in kernel.walk() if isinstance(op, ForOp)]
    for number, loop in enumerate(loops):
        for axis in loop.axes:
            for parts in range(2, MAX_PARTS + 1):
                if divides(parts, loop.extent(axis)):
                    trial = kernel.clone()
                    copies = [op for op in trial.walk() if isinstance(op, ForOp)]
                    _split(copies[number], axis.index, parts)
                    normalize_kernel(trial, clean=parts < loop.least(axis))
                    yield trial, parts


def _split(loop: ForOp, number: int, parts: int) -> None:
    """Makes a loop run over one of several parts of an axis, with its body once for each."""
    extents = [loop.extent(a) for a in loop.axes]
    extents[number] //= parts
    split = ForOp(extents, new_body(len(extents), [a.name_hint for a in loop.axes]))
    split.location = loop.location
    place: dict[SSAValue, Expr] = {}
    for part in range(parts):
        for n, (old, new) in enumerate(zip(loop.axes, split.axes, strict=True)):
            place[old] = Expr.of(new) + (part * extents[n] if n == number else 0)
        copies: dict[SSAValue, SSAValue] = {}
        for op in loop.body.block.ops:
            if op is loop.yielded:
                continue
            copy = op.clone(copies)
            split.body.block.insert_op_before(copy, split.yielded)
            for inner in copy.walk():
                if isinstance(inner, IndexedOp):
                    inner.substitute(place.get)
    Rewriter.replace_op(loop, split)

"""Tensors between kernels are stored with the dimensions that their readers take as one joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NoneAttr
from xdsl.ir import BlockArgument
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.kernel_memory import memref_of, memref_type
from dlc.dialects.kernel_op import kernels_in, tensor_of
from dlc.dialects.layouts import shape_of
from dlc.dialects.loop import KernelOp, LoadOp, StoreOp
from dlc.ir.expr import Expr, FloorDiv
from dlc.ir.sizes import Size
from dlc.remarks import remark


@dataclass(frozen=True)
class JoinDimensionsPass(ModulePass):
    """
    A tensor that is read as if two of its dimensions were one is stored with these as one.

    *Legal when* kernels alone use the tensor, which one computes in memory of its own, and all that
    read it do so at the quotient of a place along one dimension, and at its remainder along
    another, by the extent of that.
    *Faster because* a product that folds along the place reads runs of memory: chunks of it are
    boxes, which the tensor memory accelerator copies and warpgroups multiply, where quotient and
    remainder are windows. So the heads of attention are rows of the next product.

    ```
    %y = loop.kernel @attention(…) -> (%y: memref<32x512x64xf32>) {
      … loop.store %o, %y[%h, %i, %j] : memref<32x512x64xf32>
    %z = loop.kernel @product(%y: memref<32x512x64xf32> = %y, …) … {
      … loop.load %y[%k floordiv 64, %i, %k mod 64] : memref<32x512x64xf32>
    ```
    becomes
    ```
    %y = loop.kernel @attention(…) -> (%y: memref<512x2048xf32>) {
      … loop.store %o, %y[%i, %h * 64 + %j] : memref<512x2048xf32>
    %z = loop.kernel @product(%y: memref<512x2048xf32> = %y, …) … {
      … loop.load %y[%i, %k] : memref<512x2048xf32>
    ```
    """

    name = "join-dimensions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in kernels_in(op, KernelOp):
            for number in range(len(kernel.results)):
                while (refs := _refs_of(kernel, number)) and (found := _joined(refs)):
                    before = _text(kernel, number)
                    _join(kernel, number, refs, *found)
                    name = kernel.results[number].name_hint
                    text = f"stores %{name} as it is read: {before} is {_text(kernel, number)}"
                    remark(self.name, kernel.name_, text)


def _text(kernel: KernelOp, number: int) -> str:
    """`32 x 512 x 64`."""
    return " x ".join(map(str, shape_of(kernel.results[number])))


def _refs_of(owner: KernelOp, number: int) -> list[BlockArgument]:
    """
    What kernels call a result of one, first that one; nothing where something else uses it, or
    another tensor lies in its memory.
    """
    output = owner.output_refs[number]
    if output in owner.updated_refs or output in owner.partial_refs:
        return []
    refs = [output]
    for use in owner.results[number].uses:
        reader = use.operation
        if not isinstance(reader, KernelOp) or reader.schedule is not None:
            return []
        refs.append(reader.input_refs[use.index])
        if refs[-1] in reader.updated_refs.values():
            return []
    plain = all(memref_of(ref).layout == NoneAttr() for ref in refs)
    return refs if plain and owner.schedule is None and len(refs) > 1 else []


def _joined(refs: Sequence[BlockArgument]) -> tuple[int, int] | None:
    """The dimensions along which all loads are at quotients, and at the remainders of these."""
    loads = [use.operation for ref in refs[1:] for use in ref.uses]
    if not all(isinstance(op, LoadOp) for op in loads):
        return None
    if not all(isinstance(use.operation, StoreOp) for use in refs[0].uses):
        return None
    found: set[tuple[int, int]] | None = None
    for op in loads:
        assert isinstance(op, LoadOp)
        pairs = {(p, q) for p, q, _ in _pairs(op, shape_of(refs[0].type))}
        found = pairs if found is None else found & pairs
    return min(found) if found else None


def _pairs(load: LoadOp, shape: Sequence[int]) -> Iterator[tuple[int, int, Expr]]:
    """Dimensions, the second one after the first, and the place that they are parts of."""
    for p, quotient in enumerate(load.subscripts):
        for q in range(p + 1, len(shape)):
            if isinstance(count := shape[q], Size) or count == 1:
                continue
            for base in _divided(quotient, count):
                if load.subscripts[q] == base % count:
                    yield p, q, base


def _divided(expr: Expr, by: int) -> Iterator[Expr]:
    """What an expression is the quotient of, by a number."""
    match expr:
        case Expr(terms=((FloorDiv(base=base, divisor=divisor), 1),), constant=0):
            if divisor == by:
                yield base
        case _:
            pass


def _join(kernel: KernelOp, number: int, refs: Sequence[BlockArgument], p: int, q: int) -> None:
    """Makes one dimension of two, where the second one was."""
    type = memref_of(refs[0])
    shape = list(shape_of(type))
    count = shape[q]
    shape[q] *= shape[p]
    del shape[p]
    joined = memref_type(type.element_type, tuple(shape))
    for ref in refs:
        for op in [use.operation for use in ref.uses]:
            assert isinstance(op, IndexedOp)
            subscripts = list(op.subscripts)
            place = subscripts[p] * count + subscripts[q]
            if isinstance(op, LoadOp):
                place = next(at for *pair, at in _pairs(op, shape_of(type)) if pair == [p, q])
            subscripts[q] = place
            del subscripts[p]
            op.set_index(subscripts, op.where)
    for ref in refs:
        Rewriter.replace_value_with_new_type(ref, joined)
    Rewriter.replace_value_with_new_type(kernel.results[number], tensor_of(joined))

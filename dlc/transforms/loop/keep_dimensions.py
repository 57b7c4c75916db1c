"""A copy that differs from a tensor in dimensions of extent 1 takes that tensor's place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, NoneAttr
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.kernel_memory import memref_of
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.layouts import shape_of
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, StoreOp, YieldOp
from dlc.ir.expr import Expr
from dlc.ir.provenance import ops_of, set_ops, set_values, values_of
from dlc.ir.sizes import several
from dlc.remarks import remark

_COPYING = (ForOp, LoadOp, StoreOp, YieldOp)


@dataclass(frozen=True)
class KeepDimensionsPass(ModulePass):
    """
    What a kernel stores, and another one copies with dimensions of extent 1 that it lacks or has
    more of, is stored as the copy has it; all read that, and the copy is gone.

    *Legal when* kernels alone read the tensor, which one computes in memory of its own beside the
    copy, and the copy has all of its elements in their order; it is read by kernels, or returned:
    what a loop carries or a condition gives has memory of its own.
    *Faster because* a launch is saved: so `amax(-1, keepdim=True)` is stored for what returns it
    where the rest of the row is computed.

    ```
    %m = loop.kernel @amax(…) -> (%m: memref<8xf32>) { … loop.store %0, %m[%i] }
    %c = loop.kernel @copy(%m: memref<8xf32> = %m) -> (%c: memref<8x1xf32>) {
      loop.for %i in 8 { %0 = loop.load %m[%i] … loop.store %0, %c[%i, 0] }
    }
    %y = loop.kernel @sub(%m: memref<8xf32> = %m, …) … { … loop.load %m[%i] … }
    ```
    becomes
    ```
    %c = loop.kernel @amax(…) -> (%c: memref<8x1xf32>) { … loop.store %0, %c[%i, 0] }
    %y = loop.kernel @sub(%m: memref<8x1xf32> = %c, …) … { … loop.load %m[%i, 0] … }
    ```
    """

    name = "keep-dimensions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for copy in kernels_in(op, KernelOp):
            if (source := _source(copy)) is not None:
                kernel, number = source
                copied = copy.results[0].name_hint
                remark(self.name, kernel.name_, f"stores %{copied} as the copy of it has it")
                _keep(kernel, number, copy)


def _source(copy: KernelOp) -> tuple[KernelOp, int] | None:
    """The kernel, and the number of its result, of which another one is such a copy."""
    ops = [op for op in copy.body.walk() if not isinstance(op, YieldOp)]
    if len(copy.inputs) != 1 or len(copy.outputs) != 1 or copy.schedule is not None:
        return None
    owner = copy.inputs[0].owner
    if [type(op) for op in ops] != [ForOp, LoadOp, StoreOp] or not isinstance(owner, KernelOp):
        return None
    loop, load, store = ops
    assert isinstance(loop, ForOp)
    assert isinstance(load, LoadOp)
    assert isinstance(store, StoreOp)
    if load.where or store.where or copy.updated_refs or copy.partial_refs:
        return None
    axes = [Expr.of(axis) for axis in loop.axes]
    if not (_moves(load, axes, loop) and _moves(store, axes, loop)):
        return None
    if owner.parent is not copy.parent or not _is_given_out_alone(copy):
        return None
    number = owner.results.index(copy.inputs[0])
    return (owner, number) if _is_read_alone(owner, number) else None


def _is_given_out_alone(copy: KernelOp) -> bool:
    """True if a copy has another shape, and is not made for memory that loops write or bodies give:
    kernels read it, and it may be returned."""
    users = [use.operation for use in copy.results[0].uses]
    read = all(isinstance(u, func.ReturnOp) or isinstance(u, KernelOp) for u in users)
    updated = any(isinstance(u, KernelOp) and u.updates is not None for u in users)
    return copy.inputs[0].type != copy.results[0].type and read and not updated


def _moves(op: LoadOp | StoreOp, axes: Sequence[Expr], loop: ForOp) -> bool:
    """True if an access is at all axes of a loop in their order, and at 0 along other dimensions,
    and so reaches every element."""
    places = list(zip(op.subscripts, shape_of(op.ref.type), strict=True))
    long = [(at, extent) for at, extent in places if several(extent)]
    extents = list(zip(axes, map(loop.extent, loop.axes), strict=True))
    return long == [pair for pair in extents if several(pair[1])] and all(
        at == Expr((), 0) for at, extent in places if not several(extent)
    )


def _is_read_alone(owner: KernelOp, number: int) -> bool:
    """True if kernels read a result, and it has its memory for itself, in the plain layout."""
    output = owner.output_refs[number]
    if output in owner.updated_refs or output in owner.partial_refs or owner.schedule is not None:
        return False
    refs = [output]
    for use in owner.results[number].uses:
        reader = use.operation
        if not isinstance(reader, KernelOp) or reader.schedule is not None:
            return False
        refs.append(reader.input_refs[use.index])
        if refs[-1] in reader.updated_refs.values():
            return False
    return all(memref_of(ref).layout == NoneAttr() for ref in refs)


def _keep(kernel: KernelOp, number: int, copy: KernelOp) -> None:
    """Has a kernel store a result, which others load, as a copy has it."""
    result, other = kernel.results[number], copy.results[0]
    new = memref_of(copy.output_refs[0])
    uses = [(use.operation, use.index) for use in result.uses]
    readers = [reader.input_refs[n] for reader, n in uses if isinstance(reader, KernelOp)]
    for ref in (kernel.output_refs[number], *readers):
        for op in [use.operation for use in ref.uses]:
            assert isinstance(op, IndexedOp)
            places = zip(op.subscripts, shape_of(ref.type), strict=True)
            long = iter([at for at, extent in places if several(extent)])
            at = [next(long) if several(extent) else Expr((), 0) for extent in shape_of(new)]
            op.set_index(at, op.where)
        hint = ref.name_hint
        Rewriter.replace_value_with_new_type(ref, new).name_hint = hint
    kernel.output_refs[number].name_hint = copy.output_refs[0].name_hint
    kept = Rewriter.replace_value_with_new_type(result, other.type)
    kept.name_hint = other.name_hint
    texts = values_of(kernel, len(kernel.results))
    texts[number] = values_of(copy, 1)[0] or texts[number]
    set_values(kernel, texts)
    set_ops(kernel, ops_of(kernel, copy))
    other.replace_all_uses_with(kept)
    Rewriter.erase_op(copy)

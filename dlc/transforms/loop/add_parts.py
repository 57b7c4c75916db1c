"""Folds of a product that blocks share add its parts up themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.loop.updates import changed_by
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp
from dlc.remarks import remark
from dlc.schedule.adding_up import parts_for_readers, possible_parts
from dlc.target import Target, target_of
from dlc.text import unique_name
from dlc.transforms.loop.fusion.adding import Adding, adding
from dlc.transforms.loop.fusion.inline import inlinable
from dlc.transforms.loop.fusion.merging import Merges
from dlc.transforms.loop.fusion.naming import name_of
from dlc.transforms.loop.fusion.storing import earliest, stand_first
from dlc.transforms.loop.fusion.wishes import forbidden


@dataclass(frozen=True)
class AddPartsPass(ModulePass):
    """
    A product of few tiles, whose K blocks would share, stores the sums over parts of K, and a fold
    that reads it, such as a norm, adds these up, where a second kernel would combine them
    (`split-matmul-k`); what follows the product is done there, too, and stored for others.

    *Legal when* `fuse-loops` could merge the product into the fold, as another kernel of parts that
    it reads; K is one axis, and a multiple of the number of parts. The attribute `fuse = "never"`
    forbids it, and a plan that has both in different groups.
    *Faster because* a launch is saved, and what the combining kernel would write is in registers
    already. It is done where the estimate of both kernels is below that of what they replace.

    ```
    %y = loop.kernel @linear_add(%x … = %x, %w … = %w, %r … = %r) -> (%y: memref<128x2048xf32>) {
      loop.for %i in 128, %j in 2048 {
        %s = loop.reduce add %k in 2048 -> f32 { … loop.load %x[%i, %k] … loop.load %w[%j, %k] … }
        %0 = loop.load %r[%i, %j] …
        %1 = arith.addf %s, %0 : f32
        loop.store %1, %y[%i, %j] …
    %z = loop.kernel @norm(%y … = %y) … { loop.for %i in 128 { … loop.load %y[%i, %k] …
    ```
    becomes
    ```
    %s_parts = loop.kernel @linear_add(%x … = %x, %w … = %w)
        -> (%s_parts: memref<4x128x2048xf32>) {
      loop.for %p in 4, %i in 128, %j in 2048 {
        %s = loop.reduce add %k in 512 -> f32 { … loop.load %x[%i, %p * 512 + %k] … }
        loop.store %s, %s_parts[%p, %i, %j] …
    %z, %y = loop.kernel @linear_add_norm(%s_parts … = %s_parts, %r … = %r) … {
      loop.for %i in 128 { … loop.load %s_parts[0, %i, %k] … loop.load %s_parts[3, %i, %k] …
    ```
    """

    name = "add-parts"

    parts: int = 0
    """In how many parts all are that can be, whatever the estimate says; 0 for what it says."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels, target = kernels_in(op, KernelOp), target_of(op)
        names, merges = {kernel.name_ for kernel in kernels}, Merges(target)
        for kernel in reversed(kernels):
            self._add(kernel, target, merges, names)

    def _add(self, kernel: KernelOp, target: Target, merges: Merges, names: set[str]) -> None:
        """Has a fold of what a kernel computes add its parts up, if that pays."""
        if kernel.schedule is not None or inlinable(kernel) is not None:
            return
        users = _users(kernel)
        if not any(isinstance(user, KernelOp) for user in users):
            return
        if not (counts := self._counts(kernel, target)):
            return
        stores, found, readers = len(users) > 1, None, _readers(kernel, users)
        if not isinstance(readers, str):
            found = adding(kernel, readers, merges, counts, stores=stores)
        if found is None:
            why = readers if isinstance(readers, str) else "no fold that reads it can add them up"
            remark(self.name, kernel.name_, f"not in parts: {why}")
            return
        if found.seconds >= found.apart and not self.parts:
            remark(self.name, kernel.name_, f"not {found.told(found.consumer.name_)}")
            found.erase()
            return
        new = self._done(kernel, found, merges, names, stores=stores)
        remark(self.name, kernel.name_, found.told(new.name_))

    def _counts(self, kernel: KernelOp, target: Target) -> Sequence[int]:
        """The numbers of parts to try; none of what is no product that blocks share."""
        if not self.parts:
            return parts_for_readers(kernel, target)
        possible = possible_parts(kernel)
        if possible and self.parts not in possible:
            ways = f"{', '.join(map(str, possible))} are possible"
            remark(self.name, kernel.name_, f"not in {self.parts} parts: {ways}")
        return [n for n in possible if n == self.parts]

    def _done(
        self, kernel: KernelOp, found: Adding, merges: Merges, names: set[str], *, stores: bool
    ) -> KernelOp:
        """The kernel that adds parts up, which are there, in the place of what is gone."""
        sums, whole, consumer = found.sums, found.whole, found.consumer
        Rewriter.insert_op([sums, whole], InsertPoint.before(kernel))
        Rewriter.replace_op(kernel, [], whole.results)
        new = merges.build(found.merged, [whole], consumer)
        merges.fill(new)
        Rewriter.replace_op(consumer, new, new.results[: len(consumer.results)])
        if stores:
            whole.results[0].replace_all_uses_with(new.results[-1])
            here = earliest({new, *_users(new)})
            if here is not new:
                new.detach()
                Rewriter.insert_op(new, InsertPoint.before(here))
        Rewriter.erase_op(whole)
        new.sym_name = StringAttr(unique_name(name_of(new), names))
        return new


def _readers(kernel: KernelOp, users: set[Operation]) -> Sequence[KernelOp] | str:
    """Which kernels may add up parts of what a kernel computes, or why none may."""
    if why := forbidden(kernel, []):
        return why
    if _is_updated(kernel):
        return "its result is updated in place"
    readers = [reader for reader in stand_first(users) if reader.schedule is None]
    if not readers:
        return "no kernel that reads it may stand ahead of all that do"
    if not (allowed := [reader for reader in readers if not forbidden(kernel, [reader])]):
        return forbidden(kernel, readers) or ""
    if not (kept := [r for r in allowed if not changed_by(r, kernel.inputs)]):
        return "what it reads is updated in place ahead of its readers"
    return kept


def _is_updated(kernel: KernelOp) -> bool:
    """True if a kernel updates in place what another one gives."""
    uses = ((use.operation, result) for result in kernel.results for use in result.uses)
    return any(isinstance(op, KernelOp) and op.changes(result) for op, result in uses)


def _users(kernel: KernelOp) -> set[Operation]:
    """The operations of a kernel's block in which something reads what it gives."""
    block = kernel.parent
    assert block is not None
    uses = [use.operation for result in kernel.results for use in result.uses]
    return {op for use in uses if (op := block.find_ancestor_op_in_block(use))}

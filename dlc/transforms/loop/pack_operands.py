"""Operands that lie against the grain are laid out as blocks fetch them, once."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from dlc.analysis.once import kept_values
from dlc.dialects import loop
from dlc.dialects.kernel_op import kernels_in
from dlc.ir.expr import Expr
from dlc.remarks import remark
from dlc.schedule.estimate import estimate
from dlc.schedule.packing import Kept, Packing, scattered_operands
from dlc.target import Target, target_of
from dlc.text import microseconds
from dlc.transforms.loop.packing.copying import copying_kernel, read_packed
from dlc.transforms.loop.packing.made_copies import Copies


@dataclass(frozen=True)
class PackOperandsPass(ModulePass):
    """
    Copies an operand of a contraction of which blocks cannot fetch 16 bytes at once to memory in
    which they can: a dimension for each axis that it varies along, rows or columns the last one.

    With `precision=tf32` on sm_90, where warpgroups multiply what lies along K, K is the last of an
    operand that does not, if the other one does.

    *Legal when* the operand is all that a kernel reads of an input, at places that follow from its
    axes, and this is not written meanwhile. What conditions leave out is stored as it is read.
    *Faster because* blocks fetch an operand again and again: threads that copy neighbours which lie
    apart in memory, as the weights of a convolution do, touch a line of memory for each, of 4 bytes
    at once. It is done where the estimate of both kernels is below that of the one. What several
    kernels read is packed once; a parameter at each call, which the estimate counts, but that of a
    frozen module once for all. Kernels with sizes stay: how blocks fetch is known for numbers only.

    ```
    %y = loop.kernel @conv1d(%x: memref<64x1024xf32> = %x, %w: memref<128x64x3xf32> = %w) … {
      loop.for %i in 128, %j in 1022 {
        %s = loop.reduce add %k in 3, %l in 64 -> f32 { … loop.load %w[%i, %l, %k] …
    ```
    becomes
    ```
    %w_packed = loop.kernel @w_packed(%w: memref<128x64x3xf32> = %w)
        -> (%w_packed: memref<3x64x128xf32>) {
      loop.for %k in 3, %l in 64, %i in 128 {
        %w_1 = loop.load %w[%i, %l, %k] …
        loop.store %w_1, %w_packed[%k, %l, %i] …
    %y = loop.kernel @conv1d(%x: memref<64x1024xf32> = %x, %w: memref<3x64x128xf32> = %w_packed) … {
      loop.for %i in 128, %j in 1022 {
        %s = loop.reduce add %k in 3, %l in 64 -> f32 { … loop.load %w[%k, %l, %i] …
    ```
    """

    name = "pack-operands"

    always: bool = False
    """Pack all that can be packed, whatever the estimate says."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels, target = kernels_in(op, loop.KernelOp), target_of(op)
        made, same = Copies(kernels), kept_values(op)
        for kernel in kernels:
            if kernel.schedule is None:
                self._pack(kernel, target, made, same)

    def _pack(
        self, kernel: loop.KernelOp, target: Target, made: Copies, same: Container[SSAValue]
    ) -> None:
        """
        Packs the operands of a kernel for which that pays, one after the other; those that are
        `made` before it are there.
        """
        left, found, now = 0, scattered_operands(kernel, target), 0.0
        while left < len(found):
            packing = found[left]
            name = packing.load.ref.name_hint or "operand"
            if isinstance(packing, Kept):
                remark(self.name, kernel.name_, f"leaves %{name}, which {packing.why}")
                left += 1
                continue
            copying = copying_kernel(kernel, packing, packing.extents, f"{name}_packed", _store)
            there = made.has(kernel, copying) or copying.inputs[0] in same
            now = now or estimate(kernel, target).seconds
            if self._pays(kernel, packing, copying, target, now=now, there=there):
                read_packed(kernel, packing, made.take(kernel, copying))
                found, now = scattered_operands(kernel, target), 0.0
            else:
                copying.erase()
                left += 1

    def _pays(
        self,
        kernel: loop.KernelOp,
        packing: Packing,
        copying: loop.KernelOp,
        target: Target,
        *,
        now: float,
        there: bool,
    ) -> bool:
        """
        True if a kernel, which takes so many seconds `now`, is to read what `copying` makes, which
        may be there already.
        """
        copies: dict[SSAValue, SSAValue] = {}
        trial = kernel.clone(copies)
        read_packed(trial, packing.among(copies), copying.results[0])
        name = packing.load.ref.name_hint or "operand"
        then = estimate(trial, target).seconds
        trial.erase()
        once = 0.0 if there else estimate(copying, target).seconds
        pays = then + once < now or self.always
        packed = "packed already" if there else f"and {microseconds(once)} us to pack it"
        told = f"{microseconds(then)} us {packed}, {microseconds(now)} us as it lies"
        remark(self.name, kernel.name_, f"{'packs' if pays else 'leaves'} %{name}: {told}")
        return pays


def _store(body: Builder, value: SSAValue, target: SSAValue, place: Sequence[Expr]) -> None:
    body.insert(loop.StoreOp(value, target, place))

"""Factors of f32 are laid out as parts that tensor cores multiply by warpgroups."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import loop
from dlc.dialects.kernel_op import kernels_in
from dlc.ir.expr import Expr
from dlc.ir.structure import structure
from dlc.remarks import remark
from dlc.schedule.estimate import estimate
from dlc.schedule.factor_parts import COUNT, factors_to_part
from dlc.schedule.packing import Kept, Packing
from dlc.target import Target, target_of
from dlc.text import microseconds, unique_name
from dlc.transforms.loop.packing.copying import copying_kernel, read_packed
from dlc.transforms.tf32_parts import taken_apart

Made = dict[Hashable, loop.KernelOp]
"""The kernels that lay factors out, by what they do."""


@dataclass(frozen=True)
class SplitFactorsPass(ModulePass):
    """
    Lays both factors of a product of f32 out in parts, side by side along K, so that a plain
    product of tf32 of three times the K is one of f32: `[a', a, a]` and `[b, b', b]`, where a is
    what tf32 keeps of an element and a' the rest.

    *Legal when* `precision=3xtf32` is asked for: the product of both rests is left out. Each factor
    is all that a kernel reads of an input, at places that follow from its axes. 0 stands for an
    infinite element where it meets a rest.
    *Faster because* warpgroups (`wgmma`) read factors from shared memory as they lie, and take none
    apart; `mma`, which does so in registers, runs at 63 % of them. It is done where the estimate of
    all kernels is below that of the one. The parts take 12 bytes an element, which a remark says.

    ```
    %y = loop.kernel @linear(%x: memref<512x256xf32> = %x, %w: memref<384x256xf32> = %w) … {
      loop.for %i in 512, %j in 384 {
        %s = loop.reduce add %k in 256 -> f32 { … loop.load %x[%i, %k] … loop.load %w[%j, %k] …
    ```
    becomes
    ```
    %x_parts = loop.kernel @x_parts(%x: memref<512x256xf32> = %x)
        -> (%x_parts: memref<512x768xf32>) {
      loop.for %i in 512, %k in 256 {
        %x_1 = loop.load %x[%i, %k] …
        loop.store %small, %x_parts[%i, %k] …
        loop.store %finite, %x_parts[%i, %k + 256] …
        loop.store %big, %x_parts[%i, %k + 512] …
    %w_parts = loop.kernel @w_parts(%w: memref<384x256xf32> = %w) … {
      …
    %y = loop.kernel @linear(%x: memref<512x768xf32> = %x_parts,
        %w: memref<384x768xf32> = %w_parts) … {
      loop.for %i in 512, %j in 384 {
        %s = loop.reduce add %k in 768 -> f32 { … loop.load %x[%i, %k] … } {parts}
    ```
    """

    name = "split-factors"

    always: bool = False
    """Lay out all factors that can be, whatever the estimate says."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op)
        if target.precision != "3xtf32" or not target.has("wgmma"):
            return
        kernels = kernels_in(op, loop.KernelOp)
        names, made = {kernel.name_ for kernel in kernels}, Made()
        for kernel in kernels:
            if kernel.schedule is None:
                self._split(kernel, target, names, made)

    def _split(self, kernel: loop.KernelOp, target: Target, names: set[str], made: Made) -> None:
        """Splits the factors of a kernel if that pays; those that are `made` are there."""
        found = factors_to_part(kernel)
        if isinstance(found, Kept):
            what = f"leaves %{found.load.ref.name_hint}, which {found.why}"
            remark(self.name, kernel.name_, what)
        if found is None or isinstance(found, Kept):
            return
        copying = [_splitting(kernel, p, column=n == 1) for n, p in enumerate(found)]
        keys = [(kernel.parent, *each.operands, structure(each)) for each in copying]
        new = [each for each, key in zip(copying, keys, strict=True) if key not in made]
        trial = kernel.clone()
        _read_parts(trial, [each.results[0] for each in copying])
        now, then = (estimate(k, target).seconds for k in (kernel, trial))
        trial.erase()
        once = sum(estimate(each, target).seconds for each in new)
        pays = then + once < now or self.always
        size = sum(COUNT * prod(p.extents) * 4 for p in found) / 1e6
        told = (
            f"{microseconds(then)} us by parts of {size:.3g} MB, and {microseconds(once)} us to "
            f"lay these out, {microseconds(now)} us without"
        )
        remark(self.name, kernel.name_, f"{'splits' if pays else 'leaves'} its factors: {told}")
        if pays:
            for each, key in zip(copying, keys, strict=True):
                if key not in made:
                    each.sym_name = StringAttr(unique_name(each.name_, names))
                    Rewriter.insert_op(each, InsertPoint.before(kernel))
                    made[key] = each
            _read_parts(kernel, [made[key].results[0] for key in keys])
        for each in copying:
            if each.parent is None:
                each.erase()


def _splitting(kernel: loop.KernelOp, packing: Packing, *, column: bool) -> loop.KernelOp:
    """The kernel that lays the parts of a factor along rows or columns out, inserted nowhere."""
    *outer, along = packing.extents
    name = f"{packing.load.ref.name_hint or 'factor'}_parts"
    store = partial(_store_parts, along=along, column=column)
    return copying_kernel(kernel, packing, (*outer, COUNT * along), name, store)


def _store_parts(
    body: Builder,
    value: SSAValue,
    target: SSAValue,
    place: Sequence[Expr],
    *,
    along: int,
    column: bool,
) -> None:
    def insert(op: Operation, name: str | None = None) -> SSAValue:
        (result,) = body.insert(op).results
        result.name_hint = name
        return result

    def constant(value: FloatAttr | IntegerAttr) -> SSAValue:
        return insert(arith.ConstantOp(value))

    big, finite, small = taken_apart(insert, constant, value)
    *outer, k = place
    for n, part in enumerate((finite, small, big) if column else (small, finite, big)):
        body.insert(loop.StoreOp(part, target, [*outer, k + n * along]))


def _read_parts(kernel: loop.KernelOp, parts: Sequence[SSAValue]) -> None:
    """Has a kernel sum products of parts."""
    found = factors_to_part(kernel)
    assert isinstance(found, tuple)
    reduce = found[0].load.parent_op()
    assert isinstance(reduce, loop.ReduceOp)
    for packing, made in zip(found, parts, strict=True):
        read_packed(kernel, packing, made)
    reduce.set_axes([COUNT * found[0].extents[-1]])
    reduce.attributes[loop.PARTS] = UnitAttr()

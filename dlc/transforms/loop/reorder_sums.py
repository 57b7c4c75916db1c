"""Sums over windows of sums of products become sums of products of what is summed over windows."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.loop.updates import changed_by
from dlc.dialects import loop
from dlc.dialects.kernel_op import kernels_in
from dlc.remarks import remark
from dlc.schedule.estimate import CLEARLY, estimate
from dlc.target import Target, target_of
from dlc.text import microseconds, unique_name
from dlc.transforms.loop.reordering.factored import factored
from dlc.transforms.loop.reordering.nested_sums import Chain, chain_to, merged, nested_sum


@dataclass(frozen=True)
class ReorderSumsPass(ModulePass):
    """
    Sums a factor of products before it is multiplied, where all that is wanted of the sums of these
    products is their sum, as of the windows of an average pooling behind a convolution or a linear
    layer (distributivity).

    *Legal when* nothing else reads the sums of products, or what is made of them by adding a
    summand, as a bias, and by finite constants as factors; and no factor varies along an axis
    of the outer sum together with the other one, once places of a transposed convolution that
    meet points of its window by turns are summed as one window. What is multiplied with a sum
    must be a parameter, which is taken for finite (or NaN): of infinity, sums of numbers of
    both signs would make infinity, not NaN. f32 and f64 only, where the bound of the error is
    the same in either order.
    *Faster because* there are as many products less as a window has points: of 4 x 4, a sixteenth;
    and where only classes of places are joined, the same products are one sum, and none is stored.
    It is done where the estimate of the kernels is clearly below that of the old ones.

    ```
    %y = loop.kernel … { loop.for %i in 4096, %j in 128 {
        %s = loop.reduce add %k in 1024 -> f32 { … %x[%i, %k] … %w[%j, %k] … }
        loop.store %s, %y[%i, %j] …
    %z = loop.kernel … { loop.for %i in 1024, %j in 128 {
        %t = loop.reduce add %l in 4 -> f32 { … loop.load %y[%i * 4 + %l, %j] … }
        loop.store %t, %z[%i, %j] …
    ```
    becomes
    ```
    %x_summed = loop.kernel @x_summed … { loop.for %i in 1024, %k in 1024 {
        %x_1 = loop.reduce add %l in 4 -> f32 { … loop.load %x[%i * 4 + %l, %k] … }
        loop.store %x_1, %x_summed[%i, %k] …
    %z = loop.kernel … { loop.for %i in 1024, %j in 128 {
        %s = loop.reduce add %k in 1024 -> f32 { … %x_summed[%i, %k] … %w[%j, %k] … }
        loop.store %s, %z[%i, %j] …
    ```
    """

    name = "reorder-sums"

    always: bool = False
    """Reorder all sums that can be, whatever the estimate says."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels, target = kernels_in(op, loop.KernelOp), target_of(op)
        names = {kernel.name_ for kernel in kernels}
        for kernel in kernels:
            if (chain := chain_to(kernel)) is not None:
                self._reorder(chain, target, names)

    def _reorder(self, chain: Chain, target: Target, names: set[str]) -> None:
        """Puts what sums factors first in the place of a chain of kernels, if that pays."""
        total = chain.total
        kernel = merged(chain.kernels)
        found = nested_sum(kernel)
        if changed_by(total, kernel.inputs):
            found = "an operand is updated"
        if isinstance(found, str):
            remark(self.name, total.name_, f"leaves the order of its sums: {found}")
            kernel.erase()
            return
        products = merged([chain.products, chain.sums])
        now = sum(estimate(k, target).seconds for k in (products, total))
        products.erase()
        made = factored(found)
        then = sum(estimate(k, target).seconds for k in made)
        pays = CLEARLY * then < now or self.always
        told = f"{microseconds(then)} us, {microseconds(now)} us as they were"
        did = "sums factors first" if pays else "leaves the order of its sums"
        remark(self.name, total.name_, f"{did}: {told}")
        if not pays:
            for kernel in reversed(made):
                kernel.erase()
            return
        for kernel in made[:-1]:
            kernel.sym_name = StringAttr(unique_name(kernel.name_, names))
            Rewriter.insert_op(kernel, InsertPoint.before(total))
        Rewriter.replace_op(total, made[-1])
        for kernel in reversed(chain.kernels[:-1]):
            Rewriter.erase_op(kernel)

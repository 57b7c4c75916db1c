"""Loop kernels are brought into their simplest form."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp
from dlc.transforms.loop.fusion.canonical_form import canonicalize_kernel


@dataclass(frozen=True)
class CanonicalizeLoopsPass(ModulePass):
    """
    Brings every operation of a loop kernel into its simplest form, by the canonicalization patterns
    of the loop dialect (`dlc.dialects.canonicalization`).

    Axes of extent 1 become 0, and a loop without axes its body; conditions that are sure go, and
    loads and selects of which one side is known become it; a load that stays in bounds anyway is
    free of its conditions, and a select follows; what memory does not lie between is not rounded;
    equal inputs become one; what is not used goes, inputs and kernels too.
    *Legal always*: loads have no effect, and no floating-point operation changes.
    *Faster because* vectors can be loaded where there are no conditions, and because the passes
    that follow meet one form only.

    `canonicalize` does this, too, and to operations of other dialects what xDSL does to them.

    ```
    loop.for %i in 1, %j in 8 {
      %a = loop.load %x[%i, %j] where (%i < 5) else %zero : memref<1x8xf32>
      …
    ```
    becomes
    ```
    loop.for %j in 8 {
      %a = loop.load %x[0, %j] : memref<1x8xf32>
      …
    ```
    """

    name = "canonicalize-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in reversed(kernels_in(op, KernelOp)):
            if is_trivially_dead(kernel):
                kernel.detach()
                kernel.erase()
            else:
                canonicalize_kernel(kernel)

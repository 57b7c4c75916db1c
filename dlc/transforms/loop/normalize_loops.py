"""The pass `normalize-loops`: see `NormalizeLoopsPass`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from dlc.dialects.loop import KernelOp
from dlc.transforms.loop.fusion.normal_form import normalize_kernel


@dataclass(frozen=True)
class NormalizeLoopsPass(ModulePass):
    """
    Brings every loop kernel into canonical form.

    Axes of extent 1 become 0; what does not vary along a loop moves out of it, a reduce by
    splitting the nest around it; equal operations and equal inputs become one, and so do
    contractions of the same rows and columns that share an operand; what is unused goes,
    kernels without a reader too. A load that stays in bounds without its conditions is free of
    them, so that vectors can be loaded; a select follows. What no reduce of a block needs stands
    after its last one.
    Legal always: the points of a free loop are independent, loads have no effect, and no
    floating-point operation changes or changes places with another in a fold.
    Faster because nothing is computed twice, and passes that follow meet one form only.

    ```
    loop.for %i in 32, %j in 64 {
      %s = loop.reduce add %k in 64 -> f32 { %a = loop.load %x[%i, %k] … }
      %b = loop.load %x[%i, %j] : memref<32x64xf32>
      …
    ```
    becomes
    ```
    loop.for %row in 32 {
      %s = loop.reduce add %k in 64 -> f32 { %a = loop.load %x[%row, %k] … }
      loop.for %c in 64 {
        %b = loop.load %x[%row, %c] : memref<32x64xf32>
        …
    ```
    """

    name = "normalize-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in reversed([k for k in op.walk() if isinstance(k, KernelOp)]):
            if any(result.uses for result in kernel.results):
                normalize_kernel(kernel)
            else:
                kernel.detach()
                kernel.erase()

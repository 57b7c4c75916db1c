"""Kernels that read what a kernel computes compute it themselves."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp
from dlc.target import target_of
from dlc.transforms.loop.fusion.fusing import Fusion
from dlc.transforms.loop.fusion.wishes import check_wishes


@dataclass(frozen=True)
class FuseLoopsPass(ModulePass):
    """
    Merges a kernel into the kernels that read its result, where the estimate says that this pays.

    *Legal when* the producer has one result, stored at its axes: then the load of an element can be
    replaced by the program that computes it. Of one that scans, the reader must take each element
    at one point: that is done where the element is stored.
    *Faster because* traffic and a launch are saved, where these outweigh the work that is repeated
    and the tiling that is lost (`dlc.schedule.estimate`); a copy in a wider type is never kept.

    A decoder block becomes nine to eleven kernels: two norms; the products for queries, keys and
    values, rotated in their epilogues; attention in one, or in two where scores in memory are
    estimated to be faster; the output product with the residual; gate and up in one,
    with activation and product; down with the residual. Norms of many rows stay apart, as several
    products read them and a prologue would compute them in each column of tiles; those of one token
    become part of what reads them (`tileify{repeat=true}`), and those of a few, whose squares are
    summed beside the product (`join-cascades`). `--explain` tells each estimate.

    A result that others read, too, is merged into one reader alone, that with which it pays most
    among those that read each element at a point of its own, or for a row of points, and may stand
    first: there it is stored for the others. So a sum with a residual is stored by the norm of it,
    a mean by the variance, and both by what is divided by them.

    Kernels that go point by point, each read by the next alone, are merged in one step
    (`dlc.transforms.loop.fusion.chaining`), as each step looks at all of the kernel that grows.

    Merges that pay only together, as those that end in one sweep of a cascade, are one step
    (`dlc.transforms.loop.fusion.together`): scores into a softmax, and that into a product.

    A plan (`dlc.dialects.fusion_plan`) takes the place of the estimate where it says so.

    A reader of several elements of a product at constant distances, as a rotation is, would compute
    as many sums at each of its points. If these lie parts of an axis from each other, the merged
    kernel runs over one part and does what all parts do (`dlc.transforms.loop.fusion.splitting`),
    so that each sum is computed once; `join-reduces` makes such sums one reduce, which is
    tiled as one product is. A kernel that stores several parts is computed at no loads of others.

    A reader that folds windows of a product which share no point, as most pools do, has each point
    written out (`dlc.transforms.loop.fusion.window_folds`): the sums of a window are one reduce, of
    which each element is computed once, and a thread folds them in its registers.

    Two kernels that read a tensor and go over the same points, as sums of its columns and of their
    squares do, are one (`dlc.transforms.loop.fusion.beside`): the tensor is read once.

    What is stored piece by piece, as a concatenation is, may be stored by what computes the pieces:
    by a kernel for each, in one tensor (`dlc.transforms.loop.fusion.concatenating`).

    ```
    %a = loop.kernel @add(%x … = %x) -> (%y …) { loop.for %i in 8 { … loop.store %s, %y[%i] } }
    %b = loop.kernel @exp(%a … = %a) -> (%y …) { loop.for %i in 8 { %0 = loop.load %a[%i] … } }
    ```
    becomes
    ```
    %b = loop.kernel @add_exp(%x … = %x) -> (%y …) { loop.for %i in 8 { %s = … math.exp %s … } }
    ```
    """

    name = "fuse-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = kernels_in(op, KernelOp)
        check_wishes(kernels)
        for block in dict.fromkeys(k.parent for k in kernels):
            if block is not None:
                elsewhere = {k.name_ for k in kernels if k.parent not in (block, None)}
                Fusion(block, target_of(op), self.name, elsewhere).run()
                kernels = kernels_in(op, KernelOp)

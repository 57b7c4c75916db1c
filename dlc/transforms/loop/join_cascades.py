"""A sum relative to what another reduce finds is folded in one sweep with that."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from dlc.dialects.loop import KernelOp
from dlc.remarks import remark
from dlc.transforms.loop.fusion.apart import swept_apart
from dlc.transforms.loop.fusion.cascades import join_cascades
from dlc.transforms.loop.fusion.hoisting import hoist
from dlc.transforms.loop.fusion.moments import join_moments
from dlc.transforms.loop.fusion.row_factors import join_row_factors


@dataclass(frozen=True)
class JoinCascadesPass(ModulePass):
    """
    Makes sums of w·e^(x − p), where p is computed of the largest x, and the reduce that finds it,
    one reduce (cascaded reductions; for softmax known as online softmax); and so sums of (x − p)²,
    where p is computed of the sum of x (Welford's and Chan's updates of moments), and products
    with what is computed of another sum, as those of a normalized row are.

    *Legal when* x is what the largest was found of, at the same points, and w, which may differ for
    each of several sums, does not depend on the largest. For any m, the sum of w·e^(x − p) is
    e^(m − p) times that of w·e^(x − m). The monoid `expsum` keeps (m, the sum of w·e^(x − m)) for
    the largest x so far: a new m multiplies the sum by e^(old − new), and after the last point m is
    the largest of all. So sums are as before up to rounding, and no power overflows. Where the
    largest is infinite or NaN, e^(m − p) makes of them what the program had: NaN for p = m. What is
    the same for all points is done to the sum: division by another sum, and 0 for a certain largest
    value, as that of a row of which all is masked.
    *Faster because* rows that no block can hold are read once, not twice; one reduce can be split
    over blocks, and two that need each other cannot. Exponents may be sums, and w may vary along
    axes that they do not vary along: so attention is one sweep over keys, of which no score is
    stored.

    ```
    %m = loop.reduce max %k in 65536 -> f32 { … loop.yield %x : f32 }
    %s = loop.reduce add %k in 65536 -> f32 {
      %d = arith.subf %x, %m : f32
      %e = math.exp %d : f32
      loop.yield %e : f32
    }
    ```
    becomes
    ```
    %m, %a = loop.reduce expsum %k in 65536 -> (f32, f32) { … loop.yield %x, %one : f32, f32 }
    %d = arith.subf %m, %m : f32
    %e = math.exp %d : f32
    %s = arith.mulf %a, %e : f32
    ```

    *And legal when* (x − p)² is summed over the points at which x was. For any p, the sum of
    (x − p)² over n points is that of (x − m)² and n·(m − p)², where m is the mean. The monoid
    `moments` keeps (n, m, the sum of (x − m)²), and combines two by their means and weights: so no
    large numbers are subtracted from each other, however far the mean is from 0. What is folded is
    x − c, where c is the first x, so that rounding is that of distances, not of the mean; and x
    itself, which is the sum where the mean is near 0. Where a number is infinite or NaN, sums are
    what they were.

    ```
    %s = loop.reduce add %k in 65536 -> f32 { … loop.yield %x : f32 }
    %p = arith.divf %s, %n : f32
    %q = loop.reduce add %k in 65536 -> f32 {
      %d = arith.subf %x, %p : f32
      %e = arith.mulf %d, %d : f32
      loop.yield %e : f32
    }
    ```
    becomes, with `c`, which is `%x` at 0,
    ```
    %n, %mean, %q, %t = loop.reduce moments %k in 65536 -> (f32, f32, f32, f32) {
      %d = arith.subf %x, %c : f32
      loop.yield %one, %d, %zero, %x : f32, f32, f32, f32
    }
    ```

    *And legal when* each value of a sum is linear in a factor that is computed of another sum over
    the same points, one of squares of what has the factor: Σ x·r·w is r · Σ x·w, and x, whose
    square is finite, is far from infinite without it. What was rounded to bf16 with the factor,
    also by a cast, is rounded without it, as the range is that of f32; a product that is rounded to
    f16 stays. So a product of matrices is of the rows before their norm, and their norm is
    multiplied with sums.

    ```
    %s = loop.reduce add %k in 4096 -> f32 { … loop.yield %x · %x : f32 }
    %p = loop.reduce add %k in 4096 -> f32 { … loop.yield (%x · %r) · %w : f32 }
    ```
    becomes, where `%r` is computed of `%s`,
    ```
    %s, %q = loop.reduce add %k in 4096 -> (f32, f32) { … loop.yield %x · %x, %x · %w : f32, f32 }
    %p = arith.mulf %q, %r : f32
    ```

    By default, `fuse-loops` does this, to the kernels for which the estimate says that it pays.
    """

    name = "join-cascades"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                for said in _joined(kernel):
                    remark(self.name, kernel.name_, said)
                hoist(kernel)
                for said in swept_apart(kernel):
                    remark(self.name, kernel.name_, said)


def _joined(kernel: KernelOp) -> list[str]:
    """Joins what can be; what was."""
    return join_cascades(kernel) + join_moments(kernel) + join_row_factors(kernel)

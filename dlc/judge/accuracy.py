"""
The accuracy that a result must have: dlc's rule, in one place.

An error is max |y - y64| over a tensor relative to max |y64|, both over what is finite. It may be
c times eager PyTorch's error or 4 ulp of the result's dtype, whichever is more: c is
max(2, sqrt(K) / 4) for a program whose longest reduction has K terms, since libraries may sum in
many partial sums where a kernel sums in order (of 864 terms of a transposed convolution cuDNN on an
H100 is off by 2.4e-7, a kernel by 1.4e-6). Where products of f32 may be
computed in tf32 (`dlc.precision`), an ulp is that of tf32, if that is more; three products of tf32
are judged as f32.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import torch

from dlc.precision import Precision

ULPS = 4
TF32_EPS = 2.0**-10
"""An ulp of tf32, which has 10 bits of a fraction."""


@dataclass(frozen=True)
class Accuracy:
    """Errors relative to the largest magnitude of the fp64 reference, and what is allowed."""

    error: float
    eager_error: float
    bound: float
    mismatches: int = 0
    """Elements that must agree exactly (integers, booleans, NaN, infinities) and do not."""

    @property
    def ok(self) -> bool:
        return self.mismatches == 0 and self.error <= self.bound

    @property
    def verdict(self) -> str:
        """OK or WRONG, and how many elements differ that must be equal."""
        if self.mismatches:
            return f"WRONG, {self.mismatches} elements differ that must be equal"
        return "OK" if self.ok else "WRONG"

    def __str__(self) -> str:
        return (
            f"error {self.error:.2e}, eager {self.eager_error:.2e}, bound {self.bound:.2e}: "
            f"{self.verdict}"
        )


def compare(
    result: torch.Tensor,
    reference64: torch.Tensor,
    eager: torch.Tensor | None,
    longest_reduction: int = 1,
    precision: Precision = "f32",
    *,
    in_order: bool = False,
) -> Accuracy:
    """
    Judges `result` against the program in fp64, beside eager PyTorch in the result's dtype.

    An integer or boolean, a NaN and an infinity must be that of the reference rounded to the
    result's dtype, or eager's: where the two differ, fp64's margin is below eager's own rounding.
    Where eager's result is not known, the bound is 2 sqrt(K) ulp, or 4: each of K additions rounds
    a partial sum by up to half an ulp, either way, and so it was for the reference. Where a single
    thread adds all terms `in_order`, sqrt(K) ulp of what is added in are allowed, too: eager's sums
    of few results may be off by next to nothing. ValueError if the shapes or dtypes are not the
    same. Of complex numbers the parts are judged.
    """
    ulps: float = ULPS
    if eager is None:
        eager, ulps = reference64.to(result.dtype), max(ULPS, 2 * sqrt(longest_reduction))
    if not result.shape == reference64.shape == eager.shape or result.dtype != eager.dtype:
        raise ValueError(
            f"expected a result {list(eager.shape)} of {eager.dtype} as eager has it, found "
            f"{list(result.shape)} of {result.dtype}"
        )
    result, reference64, eager = (
        as_real(t.detach().to(reference64.device)) for t in (result, reference64, eager)
    )
    rounded = reference64.to(result.dtype)
    if not result.is_floating_point():
        wrong = (result != eager) & (result != rounded)
        return Accuracy(0.0, 0.0, 0.0, int(wrong.sum()))
    dtype = result.dtype
    eps = max(torch.finfo(dtype).eps, TF32_EPS if precision == "tf32" else 0.0)
    result, rounded, eager = (t.double() for t in (result, rounded, eager))
    exact = ~(result.isfinite() & rounded.isfinite())
    same = _same(result, rounded) | _same(result, eager)
    scale = _largest(reference64, reference64.isfinite())
    error = _largest(result - reference64, ~exact) / (scale or 1.0)
    eager_finite = eager.isfinite() & rounded.isfinite()
    eager_error = _largest(eager - reference64, eager_finite) / (scale or 1.0)
    factor = max(2.0, sqrt(longest_reduction) / 4)
    bound = max(factor * eager_error, ulps * eps)
    if in_order:
        of_sums = torch.finfo(torch.float64 if dtype.itemsize > 4 else torch.float32).eps
        bound = max(bound, sqrt(longest_reduction) * of_sums)
    return Accuracy(error, eager_error, bound, int((exact & ~same).sum()))


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """The parts of complex numbers along a last dimension; another tensor itself."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (a.isnan() & b.isnan())


def _largest(values: torch.Tensor, where: torch.Tensor) -> float:
    chosen = values[where].abs()
    return float(chosen.max()) if chosen.numel() else 0.0

"""What programs are to give on whatever processor the tests run: from fp64, never from fp32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from dlc.judge.accuracy import Accuracy, compare
from dlc.judge.reference import widened, without_onednn

EXACT = (
    "aten::div",
    "aten::nan_to_num",
    "aten::nextafter",
    "aten::fake_quantize_per_channel_affine_cachemask",
)
"""Operations that their dtype defines to the bit: one rounds a quotient before it is truncated, one
knows the dtype's largest number, one gives its next one, one takes no
scales of fp64."""

APART = ("aten::upsample_linear1d", "aten::upsample_bilinear2d", "aten::upsample_bicubic2d")
"""Operations that PyTorch takes apart first, as they compute places in fp32 in eager, too."""


class Rounded(TorchDispatchMode):
    """
    Within it, an operation on floats is computed in fp64 and rounded to the dtypes that it has, as
    are its numbers to fp32 where it is calculated in that. So results overflow and lose digits
    where eager's do, and owe nothing to how some processor's library sums, or what it approximates.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name in APART:
            with self:
                return decomposition_table[func](*args, **(kwargs or {}))
        plain = func(*args, **(kwargs or {}))
        given = tree_leaves((args, kwargs))
        floats = [t for t in given if isinstance(t, torch.Tensor) and _has_digits(t)]
        if not floats or func._schema.name in EXACT or _aliases(func._schema):
            return plain
        single = all(t.dtype not in (torch.float64, torch.complex128) for t in floats)
        args, kwargs = tree_map(lambda leaf: _wide(leaf, single), (args, kwargs or {}))
        return tree_map(_rounded, func(*args, **kwargs), plain)


def rounded(function: Callable[..., Any], *args: Any) -> Any:
    """A program's results as eager would have them if it rounded each operation once."""
    with torch.no_grad(), without_onednn(), Rounded():
        return function(*args)


def judge(
    result: torch.Tensor, exact: torch.Tensor, rounded: torch.Tensor, longest_reduction: int
) -> Accuracy:
    """
    dlc's rule of accuracy for results of the host, with `rounded` in eager's place. As that has no
    errors of sums, that of the longest is added, in ulp of fp32 or of a wider result.
    """
    judged = compare(result, exact, rounded)
    if not result.is_floating_point():
        return judged
    ulp = torch.finfo(torch.promote_types(result.dtype, torch.float32)).eps
    off = 2 * judged.eager_error + sum_error(longest_reduction) * ulp
    return replace(judged, bound=max(judged.bound, off))


def sum_error(terms: int) -> float:
    """
    The error of a sum whose terms are added in order, in ulp of the largest of such sums: as each
    rounding is as likely up as down, it grows as the root of their number. A test measures it.
    """
    return sqrt(terms) / 2


def _aliases(schema: Any) -> bool:
    """Does an operation write to an argument, or is its result a view of one?"""
    return any(a.alias_info is not None for a in (*schema.arguments, *schema.returns))


def _has_digits(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _wide(leaf: Any, single: bool) -> Any:
    if isinstance(leaf, torch.Tensor):
        return widened(leaf)
    if isinstance(leaf, torch.dtype) and leaf.is_floating_point:
        return torch.float64
    if isinstance(leaf, torch.dtype) and leaf.is_complex:
        return torch.complex128
    if isinstance(leaf, float) and single:
        return torch.tensor(leaf, dtype=torch.float32).item()
    return leaf


def _rounded(wide: Any, plain: Any) -> Any:
    if isinstance(plain, torch.Tensor) and _has_digits(plain):
        return plain.copy_(wide)
    return plain

"""
Cholesky's factor of a symmetric positive definite matrix, a column after the other.

That of another matrix has NaNs from the first column on that has none; eager raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch._ops import OperatorBase

from dlc.frontend.aten.factorizations.columns import column, laid_out, line, over, places
from dlc.frontend.aten.factorizations.triangular import of_one_batch, solved

aten = torch.ops.aten


def factored(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """
    The lower factor, of a lower half alone; and the number of the first column whose pivot is not
    positive, from 1 on, or 0.
    """
    size, batch = matrix.shape[-1], matrix.shape[:-2]
    none = torch.zeros(batch, dtype=torch.int32, device=matrix.device)
    if not matrix.numel():
        return matrix.clone(), none

    def step(
        rest: Tensor, failed: Tensor, place: Tensor, rows: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        factor = column(rest, place)
        pivot = line(factor, place)
        root = pivot.sqrt()
        below, across = rows[:, None], rows
        factor = torch.where(below > place, factor / root, root)
        inner = torch.where((below > place) & (across > place), rest - factor * factor.mT, rest)
        rest = torch.where((below >= place) & (across == place), factor, inner)
        bad = (failed == 0) & ~(pivot[..., 0, 0] > 0)
        return [rest, torch.where(bad, (place + 1).to(torch.int32), failed)], []

    rows = places(size, matrix)
    (found, failed), _ = over(step, [matrix.contiguous(), none], [rows], rows)
    return found.tril(), failed


@laid_out(aten.linalg_cholesky_ex.default)
def cholesky_ex(
    matrix: Tensor, *, upper: bool = False, check_errors: bool = False
) -> tuple[Tensor, Tensor]:
    found, failed = factored(matrix.mT if upper else matrix)
    return (found.mT if upper else found), failed


@laid_out(aten.cholesky.default)
def cholesky(matrix: Tensor, upper: bool = False) -> Tensor:
    found, _ = factored(matrix.mT if upper else matrix)
    return found.mT if upper else found


def both_solved(factor: Tensor, right: Tensor, upper: bool) -> Tensor:
    lower = factor.mT if upper else factor
    return solved(lower.mT, solved(lower, right, upper=False), upper=True)


@laid_out(aten.cholesky_solve.default)
def cholesky_solve(right: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    factor, right = of_one_batch(factor, right)
    return both_solved(factor, right, upper)


@laid_out(aten.cholesky_inverse.default)
def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    one = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    return both_solved(factor, one.expand(factor.shape), upper)


CHOLESKY: Mapping[OperatorBase, Callable[..., object]] = {
    aten.linalg_cholesky_ex.default: cholesky_ex,
    aten.cholesky.default: cholesky,
    aten.cholesky_solve.default: cholesky_solve,
    aten.cholesky_inverse.default: cholesky_inverse,
}

"""Systems of triangular matrices, a row of the solution after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch._ops import OperatorBase

from dlc.frontend.aten.factorizations.columns import column, laid_out, line, over, places

aten = torch.ops.aten


def solved(matrix: Tensor, right: Tensor, *, upper: bool, unit: bool = False) -> Tensor:
    """
    X of A X = B, where A has zeros below its diagonal, or above it; with `unit` the diagonal is of
    ones. The other half is not read. Batches are those of B.
    """
    rows = places(matrix.shape[-1], matrix)

    def step(
        found: Tensor, place: Tensor, matrix: Tensor, rows: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        factors, own = column(matrix, place), line(found, place)
        if not unit:
            own = own / line(factors, place)
        left, here = (rows < place if upper else rows > place)[:, None], (rows == place)[:, None]
        return [torch.where(left, found - factors * own, torch.where(here, own, found))], []

    if not right.numel():
        return right.clone()
    turns = places(matrix.shape[-1], matrix, backwards=upper)
    (found,), _ = over(step, [right.contiguous()], [turns], matrix, rows)
    return found


def of_one_batch(matrix: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Both, with the dimensions before the last two broadcast."""
    batch = torch.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    return matrix.expand(*batch, *matrix.shape[-2:]), right.expand(*batch, *right.shape[-2:])


@laid_out(aten.linalg_solve_triangular.default)
def solve_triangular(
    matrix: Tensor, right: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    matrix, right = of_one_batch(matrix, right)
    if left:
        return solved(matrix, right, upper=upper, unit=unitriangular)
    return solved(matrix.mT, right.mT, upper=not upper, unit=unitriangular).mT


@laid_out(aten.triangular_solve.default)
def triangular_solve(
    right: Tensor,
    matrix: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Tensor, Tensor]:
    """The solution, and a copy of the matrix."""
    matrix, right = of_one_batch(matrix, right)
    factor = matrix.mT if transpose else matrix
    found = solved(factor, right, upper=upper != transpose, unit=unitriangular)
    return found, matrix.clone()


TRIANGULAR: Mapping[OperatorBase, Callable[..., object]] = {
    aten.linalg_solve_triangular.default: solve_triangular,
    aten.triangular_solve.default: triangular_solve,
}

"""
Solutions of least squares (Golub and Van Loan, Matrix Computations, 5.3 and 5.5): by QR factors if
the driver is `gels`, which takes the rank to be full, else by singular values.
"""

from __future__ import annotations

import torch
from torch import Tensor, linalg

from dlc.frontend.aten.stand_ins import check


def lstsq(
    input: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """
    `torch.linalg.lstsq`: the solution, squared residuals, ranks and singular values. Where eager
    gives no residuals because a matrix has not the full rank, they are NaN: a shape cannot depend
    on values.
    """
    rows, columns = input.shape[-2:]
    if input.numel() and b.numel():  # of ones there are no factors of full rank
        check(linalg.lstsq, input, b, rcond, driver=None if driver == "gels" else driver)
    is_vector = b.dim() == 1 or (b.dim() + 1 == input.dim() and b.shape == input.shape[:-1])
    right = b[..., None] if is_vector else b
    none = input.new_empty(0)
    if driver == "gels":
        found = of_full_rank(input, right)
        sizes, rank, is_full = none, none.long(), None
    else:
        found, sizes, rank = by_singular_values(input, right, rcond)
        is_full = (rank == columns).all()
    residuals = none
    if rows > columns and driver not in (None, "gelsy"):
        residuals = (right - input @ found).square().sum(-2)
        if is_full is not None:
            residuals = torch.where(is_full, residuals, torch.nan)
    found = found.mT.contiguous().mT
    sizes = sizes if driver in ("gelss", "gelsd") else none
    solution = found[..., 0] if is_vector else found
    return torch.return_types.linalg_lstsq((solution, residuals, rank, sizes))  # pyright: ignore


def of_full_rank(matrix: Tensor, right: Tensor) -> Tensor:
    """By QR factors of the matrix or, if it is wide, of its transpose: the shortest solution."""
    if matrix.shape[-2] >= matrix.shape[-1]:
        factor, triangle = linalg.qr(matrix)
        return linalg.solve_triangular(triangle, factor.mT @ right, upper=True)
    factor, triangle = linalg.qr(matrix.mT)
    return factor @ linalg.solve_triangular(triangle.mT, right, upper=False)


def by_singular_values(
    matrix: Tensor, right: Tensor, rcond: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The shortest solution, all singular values, and the number of those that count."""
    left, sizes, other = linalg.svd(matrix, full_matrices=False)
    usual = torch.finfo(matrix.dtype).eps * max(matrix.shape[-2:])
    is_kept = ~(sizes <= (usual if rcond is None else rcond) * sizes[..., :1])
    inverse = torch.where(is_kept, 1 / sizes, 0.0)[..., None]
    return other.mT @ (inverse * (left.mT @ right)), sizes, is_kept.sum(-1)

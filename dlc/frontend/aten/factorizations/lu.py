"""
LU factors of matrices by Gauss's elimination, a column after the other, with rows exchanged so that
each pivot is the largest that is left; and what is solved by them.

A singular matrix has no inverse: what should hold it has infinities or NaNs; eager raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch._ops import OperatorBase

from dlc.frontend.aten.factorizations.columns import column, laid_out, line, over, places
from dlc.frontend.aten.factorizations.triangular import of_one_batch, solved

aten = torch.ops.aten


def factored(matrix: Tensor, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """
    Both factors in one matrix, the rows that were exchanged, from 1 on, and the first pivot of 0,
    from 1 on, or 0.
    """
    size = min(matrix.shape[-2:])
    none = torch.zeros(matrix.shape[:-2], dtype=torch.int32, device=matrix.device)
    if not matrix.numel():
        own = places(size, matrix).to(torch.int32) + 1
        return matrix.clone(), own.expand(*matrix.shape[:-2], size), none

    def step(
        rest: Tensor, failed: Tensor, place: Tensor, rows: Tensor, columns: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        largest = place
        if pivot:
            sizes = torch.where(rows >= place, column(rest, place)[..., 0].abs(), -1.0)
            largest = sizes.argmax(-1)[..., None]
            order = torch.where(rows == largest, place, rows)
            order = torch.where(rows == place, largest, order)
            rest = rest.gather(-2, order[..., None].expand(rest.shape))
        top, factor = line(rest, place), column(rest, place)
        divisor = line(factor, place)
        below, across = (rows > place)[:, None], columns
        factor = torch.where(divisor == 0, factor, factor / divisor)
        inner = torch.where(below & (across > place), rest - factor * top, rest)
        rest = torch.where(below & (across == place), factor, inner)
        bad = (failed == 0) & (divisor[..., 0, 0] == 0)
        failed = torch.where(bad, (place + 1).to(torch.int32), failed)
        chosen = (largest.reshape(failed.shape) if pivot else largest.expand(failed.shape)) + 1
        return [rest, failed], [chosen.to(torch.int32)]

    rows, columns = (places(count, matrix) for count in matrix.shape[-2:])
    turns = places(size, matrix)
    found, (chosen,) = over(step, [matrix.contiguous(), none], [turns], rows, columns)
    return found[0], chosen.movedim(0, -1), found[1]


def permutation(pivots: Tensor, rows: int) -> Tensor:
    """Which row is at each place once rows were exchanged."""
    at = places(rows, pivots)
    start = at.expand(*pivots.shape[:-1], rows).contiguous()
    if not start.numel():
        return start

    def step(
        order: Tensor, place: Tensor, other: Tensor, at: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        other = (other.long() - 1)[..., None]
        here = order.index_select(-1, place.reshape(1))
        there = order.gather(-1, other)
        order = torch.where(at == place, there, torch.where(at == other, here, order))
        return [order], []

    turns = places(pivots.shape[-1], pivots)
    (order,), _ = over(step, [start], [turns, pivots.movedim(-1, 0).contiguous()], at)
    return order


def halves(factors: Tensor) -> tuple[Tensor, Tensor]:
    """L, with its diagonal of ones, and U."""
    rows, columns = factors.shape[-2:]
    size = min(rows, columns)
    one = torch.eye(rows, size, dtype=factors.dtype, device=factors.device)
    return factors[..., :size].tril(-1) + one, factors[..., :size, :].triu()


def matrix_of(order: Tensor, dtype: torch.dtype) -> Tensor:
    """The matrix that puts row `order[i]`'s place back: 1 in row `order[i]` of column `i`."""
    at = places(order.shape[-1], order)
    return (at[:, None] == order[..., None, :]).to(dtype)


@laid_out(aten.linalg_lu_factor_ex.default)
def lu_factor_ex(
    matrix: Tensor, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    return factored(matrix, pivot)


@laid_out(aten.linalg_lu.default)
def lu(matrix: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    factors, pivots, _ = factored(matrix, pivot)
    lower, upper = halves(factors)
    if not pivot:
        return matrix.new_empty(0), lower, upper
    order = permutation(pivots, matrix.shape[-2])
    return matrix_of(order, matrix.dtype), lower, upper


@laid_out(aten.lu_unpack.default)
def lu_unpack(
    factors: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    empty = factors.new_empty(0)
    lower, upper = halves(factors) if unpack_data else (empty, empty)
    if not unpack_pivots:
        return empty, lower, upper
    order = permutation(pivots, factors.shape[-2])
    return matrix_of(order, factors.dtype), lower, upper


def solved_by(factors: Tensor, pivots: Tensor, right: Tensor, transposed: bool = False) -> Tensor:
    """X of A X = B, or of its transpose, by the factors of A."""
    factors, right = of_one_batch(factors, right)
    order = permutation(pivots, factors.shape[-1]).expand(factors.shape[:-1])[..., None]
    if transposed:
        half = solved(factors.mT, right, upper=False)
        found = solved(factors.mT, half, upper=True, unit=True)
        back = torch.zeros_like(order)
        own = places(factors.shape[-1], factors)[:, None].expand(order.shape)
        back = back.scatter(-2, order, own)
        return found.gather(-2, back.expand(found.shape))
    half = right.gather(-2, order.expand(right.shape))
    return solved(factors, solved(factors, half, upper=False, unit=True), upper=True)


@laid_out(aten.linalg_lu_solve.default)
def lu_solve(
    factors: Tensor, pivots: Tensor, right: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    if left:
        return solved_by(factors, pivots, right, adjoint)
    return solved_by(factors, pivots, right.mT, not adjoint).mT


@laid_out(aten._linalg_solve_ex.default)
def solve_ex(
    matrix: Tensor, right: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    batch = matrix.shape[:-1]
    is_vector = right.dim() == 1 or (right.dim() + 1 == matrix.dim() and right.shape == batch)
    factors, pivots, failed = factored(matrix)
    found = lu_solve(factors, pivots, right[..., None] if is_vector else right, left=left)
    return (found[..., 0] if is_vector else found), factors, pivots, failed


@laid_out(aten.linalg_inv_ex.default)
def inv_ex(matrix: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    factors, pivots, failed = factored(matrix)
    one = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return solved_by(factors, pivots, one.expand(matrix.shape)), failed


def factored_as_it_lies(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """As eager does for a determinant: of what is in row-major order the transpose is factored."""
    factors, pivots, _ = factored(matrix.mT if matrix.is_contiguous() else matrix)
    return factors, pivots


def sign_of(pivots: Tensor, dtype: torch.dtype) -> Tensor:
    """-1 where an odd number of rows were exchanged, else 1."""
    moved = (pivots != places(pivots.shape[-1], pivots) + 1).sum(-1)
    return (1 - 2 * (moved % 2)).to(dtype)


@laid_out(aten._linalg_det.default)
def det(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    factors, pivots = factored_as_it_lies(matrix)
    diagonal = factors.diagonal(dim1=-2, dim2=-1)
    return diagonal.prod(-1) * sign_of(pivots, matrix.dtype), factors, pivots


@laid_out(aten._linalg_slogdet.default)
def slogdet(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    factors, pivots = factored_as_it_lies(matrix)
    diagonal = factors.diagonal(dim1=-2, dim2=-1)
    sign = diagonal.sgn().prod(-1) * sign_of(pivots, matrix.dtype)
    return sign, diagonal.abs().log().sum(-1), factors, pivots


LU: Mapping[OperatorBase, Callable[..., object]] = {
    aten.linalg_lu_factor_ex.default: lu_factor_ex,
    aten.linalg_lu.default: lu,
    aten.lu_unpack.default: lu_unpack,
    aten.linalg_lu_solve.default: lu_solve,
    aten._linalg_solve_ex.default: solve_ex,
    aten.linalg_inv_ex.default: inv_ex,
    aten._linalg_det.default: det,
    aten._linalg_slogdet.default: slogdet,
}

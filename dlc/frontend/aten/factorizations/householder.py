"""
QR factors of matrices by Householder's reflections, one for each column (Golub and Van Loan, Matrix
Computations, 5.2.1), in LAPACK's form: reflection j is 1 - tau v vT, where v has zeros above row j
and 1 in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch._ops import OperatorBase

from dlc.frontend.aten.factorizations.columns import column, laid_out, line, over, places

aten = torch.ops.aten


def exponents(matrix: Tensor) -> Tensor:
    """
    Of each matrix the power of two that its largest number is below: what divides it, so that
    squares of numbers that matter are neither 0 nor infinite.
    """
    largest = matrix.abs().amax((-2, -1), keepdim=True)
    return torch.where(largest.isfinite(), torch.frexp(largest)[1], 0)


def reflected(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """R above vectors v, of which the 1 is not stored; and tau of each."""
    size = min(matrix.shape[-2:])
    if not matrix.numel():
        return matrix.clone(), matrix.new_zeros(*matrix.shape[:-2], size)

    def step(
        rest: Tensor, place: Tensor, rows: Tensor, columns: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        factor = column(rest, place)
        first = line(factor, place)
        below, here = (rows > place)[:, None], (rows == place)[:, None]
        tail = torch.where(below, factor, 0.0)
        squares = (tail * tail).sum(-2, keepdim=True)
        beta = torch.copysign((first * first + squares).sqrt(), -first)
        is_done = squares == 0
        tau = torch.where(is_done, 0.0, (beta - first) / beta)
        tail = torch.where(below & ~is_done, tail / (first - beta), 0.0)
        vector = torch.where(here, 1.0, tail)
        inner = rest - tau * vector * (vector * rest).sum(-2, keepdim=True)
        own = torch.where(below, tail, torch.where(here & ~is_done, beta, factor))
        rest = torch.where(columns == place, own, torch.where(columns > place, inner, rest))
        return [rest], [tau[..., 0, 0]]

    rows, columns = (places(count, matrix) for count in matrix.shape[-2:])
    exponent = exponents(matrix)
    scaled = torch.ldexp(matrix, -exponent).contiguous()
    (found,), (taus,) = over(step, [scaled], [places(size, matrix)], rows, columns)
    upper = (rows[:, None] <= columns).expand(found.shape)
    return torch.where(upper, torch.ldexp(found, exponent), found), taus.movedim(0, -1)


def applied(factors: Tensor, taus: Tensor, other: Tensor, *, backwards: bool) -> Tensor:
    """The product of all reflections with a matrix, the first one applied last if `backwards`."""
    if not other.numel() or not taus.numel():
        return other.clone()

    def step(
        found: Tensor, place: Tensor, tau: Tensor, factors: Tensor, rows: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        below, here = (rows > place)[:, None], (rows == place)[:, None]
        vector = torch.where(below, column(factors, place), torch.where(here, 1.0, 0.0))
        product = (vector * found).sum(-2, keepdim=True)
        return [found - tau[..., None, None] * vector * product], []

    order = taus.movedim(-1, 0)
    order = (order.flip(0) if backwards else order).contiguous()
    turns = places(taus.shape[-1], factors, backwards=backwards)
    rows = places(factors.shape[-2], factors)
    (found,), _ = over(step, [other.contiguous()], [turns, order], factors, rows)
    return found


def some_columns(factors: Tensor, taus: Tensor, count: int) -> Tensor:
    """The first columns of the product of all reflections."""
    rows = factors.shape[-2]
    one = torch.eye(rows, count, dtype=factors.dtype, device=factors.device)
    return applied(factors, taus, one.expand(*factors.shape[:-2], rows, count), backwards=True)


@laid_out(aten.linalg_qr.default)
def qr(matrix: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    rows, columns = matrix.shape[-2:]
    found, taus = reflected(matrix)
    count = rows if mode == "complete" else min(rows, columns)
    upper = found[..., :count, :].triu()
    return (matrix.new_empty(0) if mode == "r" else some_columns(found, taus, count)), upper


def geqrf(matrix: Tensor) -> tuple[Tensor, Tensor]:
    if matrix.is_complex():
        return NotImplemented
    found, taus = reflected(matrix)
    return found.mT.contiguous().mT, taus


@laid_out(aten.linalg_householder_product.default)
def householder_product(factors: Tensor, taus: Tensor) -> Tensor:
    return some_columns(factors, taus, factors.shape[-1])


@laid_out(aten.ormqr.default)
def ormqr(
    factors: Tensor, taus: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    if left:
        return applied(factors, taus, other, backwards=not transpose)
    return applied(factors, taus, other.mT, backwards=transpose).mT


HOUSEHOLDER: Mapping[OperatorBase, Callable[..., object]] = {
    aten.linalg_qr.default: qr,
    aten.geqrf.default: geqrf,
    aten.linalg_householder_product.default: householder_product,
    aten.ormqr.default: ormqr,
}

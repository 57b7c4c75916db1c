"""
Eigenvalues of symmetric matrices, and singular values, by Jacobi's rotations (Golub and Van Loan,
Matrix Computations, 8.5 and 8.6.3): of two columns at a time, so chosen that they are orthogonal
afterwards. All pairs of disjoint columns are rotated at once; a sweep of rounds meets each pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch._ops import OperatorBase

from dlc.frontend.aten.factorizations.columns import laid_out, over, places
from dlc.frontend.aten.factorizations.householder import applied, exponents, reflected, some_columns

aten = torch.ops.aten

SWEEPS = {torch.float32: 10, torch.float64: 12}
"""Sweeps after which nothing changes any more: they converge quadratically, after a few."""


def partners(size: int, like: Tensor) -> Tensor:
    """
    For each round of all sweeps the column that each is paired with, itself where the number is
    odd: in round r the columns i and j with i + j = r modulo the odd number of rounds, and the last
    one with what is left.
    """
    rounds = size - 1 if size % 2 == 0 else size
    turn = torch.arange(SWEEPS[like.dtype] * rounds, device=like.device)[:, None] % rounds
    place = torch.arange(size, device=like.device)
    other = (turn - place + rounds) % rounds
    if size % 2:
        return other
    alone = ((turn + (turn % 2) * rounds) // 2) % rounds  # that is its own partner
    other = torch.where(place == alone, size - 1, other)
    return torch.where(place == size - 1, alone, other)


class Rotation(NamedTuple):
    """
    Of each column c with its partner d: it becomes `cosine c - sine d`. `half`, the tangent of half
    the angle, is sine / (1 + cosine).
    """

    tangent: Tensor
    sine: Tensor
    half: Tensor


def rotation(
    own: Tensor, other: Tensor, product: Tensor, is_first: Tensor, is_nothing: Tensor
) -> Rotation:
    """
    The rotations that make 0 of the product of two columns, or of the element beside the diagonal,
    for the squares of both or the elements on it: of the second column of a pair sine and tangent
    have the other sign. Where there is nothing to do the angle is 0.
    """
    low, high = torch.where(is_first, own, other), torch.where(is_first, other, own)
    ratio = (high - low) / (2 * product)
    tangent = torch.copysign(1 / (ratio.abs() + torch.hypot(ratio, torch.ones_like(ratio))), ratio)
    tangent = torch.where(is_nothing, 0.0, torch.where(is_first, tangent, -tangent))
    cosine = 1 / torch.hypot(tangent, torch.ones_like(tangent))
    sine = tangent * cosine
    return Rotation(tangent, sine, sine / (1 + cosine))


def agreed(value: Tensor, other: Tensor, is_first: Tensor) -> Tensor:
    """
    For both columns of a pair what the first one has: where two values are equal but for rounding
    a last digit, or a sign of 0, turns the pair by another angle, and both must have the same.
    """
    return torch.where(is_first, value, value.index_select(-1, other))


def rotated(value: Tensor, *, by: Rotation, other: Tensor) -> Tensor:
    """All columns, each turned with its partner, in a form that is exact for small angles."""
    sine, half = by.sine[..., None, :], by.half[..., None, :]
    return value - sine * (value.index_select(-1, other) + half * value)


def eigen(matrix: Tensor, vectors: bool) -> tuple[Tensor, Tensor]:
    """The eigenvalues of symmetric matrices, as they come, and the vectors of each as columns."""
    size = matrix.shape[-1]
    one = torch.eye(size, dtype=matrix.dtype, device=matrix.device).expand(matrix.shape)
    if size < 2 or not matrix.numel():
        return matrix.diagonal(dim1=-2, dim2=-1), one

    def step(rest: Tensor, *given: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        *found, other, place = given
        diagonal = rest.diagonal(dim1=-2, dim2=-1)
        far = diagonal.index_select(-1, other)
        beside = rest.gather(-1, other[:, None].expand((*rest.shape[:-1], 1)))[..., 0]
        beside = agreed(beside, other, place < other)
        least = torch.minimum(diagonal.abs(), far.abs()) * (torch.finfo(rest.dtype).eps / 8)
        is_nothing = (place == other) | (beside.abs() <= least)
        angle = rotation(diagonal, far, beside, place < other, is_nothing)

        turned = partial(rotated, by=angle, other=other)
        rest = turned(turned(rest).mT)
        exact = diagonal - angle.tangent * beside
        meets, here = other[:, None] == place, place[:, None] == place
        rest = torch.where(here, exact[..., None, :], torch.where(meets, 0.0, rest))
        return [rest, *map(turned, found)], []

    exponent = exponents(matrix)
    scaled = torch.ldexp(matrix, -exponent).contiguous()
    carried = [scaled, one.contiguous()] if vectors else [scaled]
    (rest, *found), _ = over(step, carried, [partners(size, matrix)], places(size, matrix))
    values = torch.ldexp(rest.diagonal(dim1=-2, dim2=-1), exponent[..., 0])
    return values, orthonormal(found[0]) if found else one


@laid_out(aten._linalg_eigh.default)
def eigh(matrix: Tensor, UPLO: str = "L", compute_v: bool = True) -> tuple[Tensor, Tensor]:
    half = matrix.mT if UPLO.upper() == "U" else matrix
    values, vectors = eigen(half.tril() + half.tril(-1).mT, compute_v)
    values, order = values.sort(-1)
    if not compute_v:
        return values, matrix.new_empty(0)
    return values, vectors.gather(-1, order[..., None, :].expand(vectors.shape))


def orthonormal(matrix: Tensor) -> Tensor:
    """Columns that are orthogonal but for rounding, or 0, as such of length 1, by QR factors."""
    factors, taus = reflected(matrix)
    signs = torch.where(factors.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0)
    return some_columns(factors, taus, matrix.shape[-1]) * signs[..., None, :]


def orthogonal(matrix: Tensor, vectors: bool) -> tuple[Tensor, Tensor]:
    """The matrix times rotations that make its columns orthogonal, and these rotations."""
    size = matrix.shape[-1]
    one = torch.eye(size, dtype=matrix.dtype, device=matrix.device)
    one = one.expand(*matrix.shape[:-2], size, size).contiguous()
    if size < 2:
        return matrix, one

    def step(rest: Tensor, *given: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        *found, other, place = given
        squares, far = (rest * rest).sum(-2), rest.index_select(-1, other)
        product = agreed((rest * far).sum(-2), other, place < other)
        beside = squares.index_select(-1, other)
        least = (squares.sqrt() * beside.sqrt()) * torch.finfo(rest.dtype).eps
        is_nothing = (place == other) | (product.abs() <= least)
        angle = rotation(squares, beside, product, place < other, is_nothing)

        turned = partial(rotated, by=angle, other=other)
        return [turned(value) for value in (rest, *found)], []

    carried = [matrix.contiguous(), one] if vectors else [matrix.contiguous()]
    (rest, *found), _ = over(step, carried, [partners(size, matrix)], places(size, matrix))
    return rest, found[0] if found else one


def tall(matrix: Tensor, vectors: bool) -> tuple[Tensor, Tensor, Tensor]:
    """
    U, S and V of a matrix that is no wider than high: of R of its QR factors, transposed, which
    converges sooner. Columns of U whose singular value is 0 complete the others.
    """
    factors, taus = reflected(matrix)
    size = matrix.shape[-1]
    rest, rotations = orthogonal(factors[..., :size, :].triu().mT, vectors)
    sizes = torch.linalg.vector_norm(rest, dim=-2)
    values, order = sizes.sort(-1, descending=True)
    if not vectors:
        return rest, values, rest
    order = order[..., None, :].expand(rest.shape)
    right, left = rest.gather(-1, order), rotations.gather(-1, order)
    rows, right, left = matrix.shape[-2], orthonormal(right), orthonormal(left)
    left = torch.cat([left, left.new_zeros(*left.shape[:-2], rows - size, size)], -2)
    return applied(factors, taus, left, backwards=True), values, right


@laid_out(aten._linalg_svd.default)
def svd(
    matrix: Tensor,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    rows, columns = matrix.shape[-2:]
    none = matrix.new_empty(0)
    size = min(rows, columns)
    if not matrix.numel():
        one = [torch.eye(n, n if full_matrices else size, dtype=matrix.dtype, device=matrix.device)
               .expand(*matrix.shape[:-2], n, n if full_matrices else size)
               for n in (rows, columns)]  # fmt: skip
        values = matrix.new_empty(*matrix.shape[:-2], size)
        return (one[0], values, one[1].mT) if compute_uv else (none, values, none)
    exponent = exponents(matrix)
    scaled = torch.ldexp(matrix, -exponent)
    left, values, right = tall(scaled.mT if rows < columns else scaled, compute_uv)
    values = torch.ldexp(values, exponent[..., 0])
    if not compute_uv:
        return none, values, none
    if full_matrices and rows != columns:
        left = completed(left)
    left, right = (right, left) if rows < columns else (left, right)
    return left, values, right.mT


def completed(matrix: Tensor) -> Tensor:
    """Orthogonal columns, and others that make a square matrix of them."""
    factors, taus = reflected(matrix)
    rest = some_columns(factors, taus, matrix.shape[-2])[..., matrix.shape[-1] :]
    return torch.cat([matrix, rest], -1)


def pseudoinverse(
    matrix: Tensor,
    *,
    atol: Tensor | None = None,
    rtol: Tensor | None = None,
    hermitian: bool = False,
) -> Tensor:
    """`aten.linalg_pinv`: what is no larger than the tolerance counts as a singular value of 0."""
    if matrix.is_complex():
        return NotImplemented
    if not matrix.numel():
        return matrix.mT.clone()
    if hermitian:
        values, left = eigh(matrix)
        right = left
    else:
        left, values, other = svd(matrix)
        right = other.mT
    sizes, usual = values.abs(), torch.finfo(matrix.dtype).eps * max(matrix.shape[-2:])
    default = sizes.new_full((), usual)
    if rtol is None and atol is not None:
        default = torch.where(atol > 0, torch.zeros_like(default), default)
    least = (default if rtol is None else rtol)[..., None] * sizes.amax(-1, keepdim=True)
    least = least if atol is None else torch.maximum(atol[..., None], least)
    inverse = torch.where(sizes <= least, 0.0, 1 / values)  # NaN stays
    return (right * inverse[..., None, :]) @ left.mT


JACOBI: Mapping[OperatorBase, Callable[..., object]] = {
    aten._linalg_eigh.default: eigh,
    aten._linalg_svd.default: svd,
    aten.linalg_pinv.atol_rtol_tensor: pseudoinverse,
}

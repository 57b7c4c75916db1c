"""
L D LT of symmetric matrices that need not be positive definite, by the diagonal pivoting of Bunch
and Kaufman (Golub and Van Loan, Matrix Computations, 4.4.4): D has blocks of one or two rows.

As LAPACK has it: pivot `p` of a block of one row says that it was exchanged with row p, from 1 on;
both rows of a block of two have -p, with which the second one was exchanged; and the columns before
are left as they were. A column without a pivot, or of NaNs, is left, and its number is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch._ops import OperatorBase

from dlc.frontend.aten.factorizations.columns import column, laid_out, line, over, places
from dlc.frontend.aten.factorizations.triangular import of_one_batch

aten = torch.ops.aten

GROWTH = (1 + 17**0.5) / 8
"""Of a pivot to what is beside it: two steps of one row let elements grow as one of two rows."""


def exchanged(place: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Which row is where once two of each matrix changed places."""
    one, other = one[..., None], other[..., None]
    return torch.where(place == one, other, torch.where(place == other, one, place))


def pivot_of(rest: Tensor, place: Tensor, place_of: Tensor) -> tuple[Tensor, Tensor]:
    """The row to exchange, and whether a block of two begins, of matrices whole from `place` on."""
    own = column(rest, place)[..., 0].abs()
    below = torch.where(place_of > place, own, -1.0)
    largest, at = below.max(-1)
    far = rest.gather(-1, at[..., None, None].expand(*rest.shape[:-1], 1))[..., 0].abs()
    beside = torch.where((place_of >= place) & (place_of != at[..., None]), far, -1.0).amax(-1)
    pivot = own.index_select(-1, place.reshape(1))[..., 0]
    other = far.gather(-1, at[..., None])[..., 0]
    stays = (pivot >= GROWTH * largest) | (pivot * beside >= GROWTH * largest * largest)
    moves = ~stays & ~pivot.isnan()
    return torch.where(moves, at, place), moves & ~(other >= GROWTH * beside)


@laid_out(aten.linalg_ldl_factor_ex.default)
def ldl_factor_ex(
    matrix: Tensor, *, hermitian: bool = False, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """L below D in one matrix, the pivots, and the first column without one, from 1 on, or 0."""
    size, batch = matrix.shape[-1], matrix.shape[:-2]
    none = torch.zeros(batch, dtype=torch.int32, device=matrix.device)
    if not matrix.numel():
        return matrix.clone(), none[..., None].expand(*batch, size), none

    def step(
        rest: Tensor, failed: Tensor, last: Tensor, place: Tensor, place_of: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        is_done = last < 0  # with the row before
        chosen, is_pair = pivot_of(rest, place, place_of)
        chosen, is_pair = torch.where(is_done, place, chosen), is_pair & ~is_done
        first = place + is_pair.long()
        order = exchanged(place_of, first, chosen)
        moved = rest.gather(-2, order[..., None].expand(rest.shape))
        moved = moved.gather(-1, order[..., None, :].expand(rest.shape))
        below, across = place_of[:, None], place_of
        rest = torch.where((below >= place) & (across >= place), moved, rest)

        after = (place + 1).clamp(max=size - 1)
        own, next_one = column(rest, place), column(rest, after)
        pivot = line(own, place)
        is_left = (is_done | (pivot == 0)[..., 0, 0] | pivot.isnan()[..., 0, 0]) & ~is_pair
        is_left, pair = is_left[..., None, None], is_pair[..., None, None]
        beside = line(own, after)
        one, two = line(next_one, after) / beside, pivot / beside
        scale = 1 / ((one * two - 1) * beside)
        left = torch.where(pair, scale * (one * own - next_one), own / pivot)
        right = torch.where(pair, scale * (two * next_one - own), 0.0)
        taken = left * own.mT + torch.where(pair, right * next_one.mT, 0.0)
        end = first[..., None, None]
        under = (below > end) & ~is_left
        rest = torch.where(under & (across > end), rest - taken, rest)
        rest = torch.where(under & (across == place), left, rest)
        rest = torch.where(under & pair & (across == after), right, rest)
        bad = is_left[..., 0, 0] & ~is_done & (failed == 0)
        failed = torch.where(bad, (place + 1).to(torch.int32), failed)
        named = torch.where(is_pair, -1 - chosen, chosen + 1).to(torch.int32)
        named = torch.where(is_done, last, named)
        return [rest, failed, torch.where(is_done, 0, named)], [named]

    rows = places(size, matrix)
    whole = matrix.tril() + matrix.tril(-1).mT
    (found, failed, _), (pivots,) = over(step, [whole, none, none], [rows], rows)
    return found.tril(), pivots.movedim(0, -1), failed


@laid_out(aten.linalg_ldl_solve.default)
def ldl_solve(factors: Tensor, pivots: Tensor, right: Tensor, *, hermitian: bool = False) -> Tensor:
    """X of A X = B by the factors of A."""
    factors, right = of_one_batch(factors, right)
    if not right.numel():
        return right.clone()
    pivots = pivots.expand(factors.shape[:-1])
    is_second = (pivots < 0) & ((pivots < 0).cumsum(-1) % 2 == 0)
    is_first = (pivots < 0) & ~is_second
    place_of = places(pivots.shape[-1], factors)
    rows = place_of + is_first
    others = torch.where(is_second, place_of, pivots.abs().long() - 1)
    rows = torch.where(is_second, place_of, rows)
    turns = [value.movedim(-1, 0).contiguous() for value in (rows, others)]

    def turn(found: Tensor, row: Tensor, other: Tensor, place_of: Tensor) -> Tensor:
        order = exchanged(place_of, row, other)[..., None]
        return found.gather(-2, order.expand(found.shape))

    def lower(factors: Tensor, place: Tensor, row: Tensor, place_of: Tensor) -> Tensor:
        under = place_of > row[..., None]
        return torch.where(under[..., None], column(factors, place), 0.0)

    def forwards(found: Tensor, *given: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        place, row, other, factors, place_of = given
        found = turn(found, row, other, place_of)
        return [found - lower(factors, place, row, place_of) * line(found, place)], []

    def backwards(found: Tensor, *given: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        place, row, other, factors, place_of = given
        product = (lower(factors, place, row, place_of) * found).sum(-2, keepdim=True)
        found = torch.where((place_of == place)[:, None], found - product, found)
        return [turn(found, row, other, place_of)], []

    (half,), _ = over(forwards, [right.contiguous()], [place_of, *turns], factors, place_of)
    half = by_blocks(factors, half, is_first, is_second)
    turns = [place_of.flip(0), *(value.flip(0) for value in turns)]
    (found,), _ = over(backwards, [half], turns, factors, place_of)
    return found


def by_blocks(factors: Tensor, right: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """X of D X = B, whose blocks of two begin where `first` is and end where `second` is."""
    own = factors.diagonal(dim1=-2, dim2=-1)
    below = torch.nn.functional.pad(factors.diagonal(-1, -2, -1), (0, 1))
    beside = torch.where(first, below, below.roll(1, -1))[..., None]
    far = torch.where(first, own.roll(-1, -1), own.roll(1, -1))[..., None]
    there = torch.where(first[..., None], right.roll(-1, -2), right.roll(1, -2))
    scaled = far / beside
    pair = (scaled * right - there) / (scaled * own[..., None] - beside)
    return torch.where((first | second)[..., None], pair, right / own[..., None])


LDL: Mapping[OperatorBase, Callable[..., object]] = {
    aten.linalg_ldl_factor_ex.default: ldl_factor_ex,
    aten.linalg_ldl_solve.default: ldl_solve,
}

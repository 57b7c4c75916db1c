"""
The exponential of a matrix, by a Taylor polynomial of a part of it that is small enough, squared as
often as it takes (Bader, Blanes and Casas, "Computing the matrix exponential with an optimized
Taylor polynomial approximation", 2019, of which the bounds are).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import factorial
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop_op
from torch._ops import OperatorBase

from dlc.frontend.aten.factorizations.columns import laid_out

aten = torch.ops.aten

DEGREE, STEP = 18, 3
MOST = {torch.float32: 3.010066362817634, torch.float64: 1.090863719290036}
"""The largest 1-norm of a matrix whose polynomial of that degree is exact to the last digits."""
EXPONENTS = {torch.float32: 128, torch.float64: 1024}


def polynomial(matrix: Tensor) -> Tensor:
    """The sum of `matrix^n / n!` up to the degree, by powers of its power `STEP`."""
    one = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    powers = [one, matrix]
    while len(powers) <= STEP:
        powers.append(powers[-1] @ matrix)
    found = powers[0] / factorial(DEGREE)
    for first in range(DEGREE - STEP, -1, -STEP):
        terms = [powers[n] / factorial(first + n) for n in range(STEP)]
        found = found @ powers[STEP] + sum(terms[1:], terms[0])
    return found


def squared(matrix: Tensor, times: Tensor) -> Tensor:
    """Each matrix to the power of 2 to the power of its number of times."""

    def goes_on(found: Tensor, turn: Tensor, times: Tensor) -> Tensor:
        return (times > turn).any()

    def step(found: Tensor, turn: Tensor, times: Tensor) -> tuple[Tensor, Tensor]:
        return torch.where(times > turn, found @ found, found), turn + 1

    start = torch.zeros((), dtype=torch.int32, device=matrix.device)
    given: Any = (matrix, start)  # PyTorch's own type has one
    return while_loop_op(goes_on, step, given, (times,))[0]


@laid_out(aten.linalg_matrix_exp.default)
def matrix_exp(matrix: Tensor) -> Tensor:
    if not matrix.numel():
        return matrix.clone()
    if matrix.dtype not in MOST:
        return matrix_exp(matrix.float()).to(matrix.dtype)
    norm = matrix.abs().sum(-2).amax(-1)[..., None, None]
    times = (norm / MOST[matrix.dtype]).log2().ceil().clamp(0, EXPONENTS[matrix.dtype])
    times = torch.where(norm.isnan(), 0, times.nan_to_num()).to(torch.int32)
    return squared(polynomial(torch.ldexp(matrix, -times)), times)


EXPONENTIAL: Mapping[OperatorBase, Callable[..., object]] = {
    aten.linalg_matrix_exp.default: matrix_exp,
}

"""
Whether results of a program are right, whatever it does to rounding errors.

The program is computed in fp64, and some times more with every intermediate number disturbed by up
to one ulp of the program's dtype. How far the results move says how well they can be known; what
moves between integers, or between finite and not, cannot be known at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import torch
from xdsl.dialects.builtin import ModuleOp

from dlc.reference import evaluate

SAMPLES = 4
SLACK = 64.0
"""How many times as far as the disturbed results a right one may be."""


class Expected:
    """The results of a program in Torch IR, and how exactly they are known; errors as raised."""

    def __init__(self, module: ModuleOp, arguments: Sequence[torch.Tensor]) -> None:
        generator = torch.Generator().manual_seed(0)
        self.eager = evaluate(module, arguments)
        kinds = [t.dtype for t in (*arguments, *self.eager) if t.is_floating_point()]
        self.ulp = ulp = max((torch.finfo(kind).eps for kind in kinds), default=0.0)

        def disturb(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.is_floating_point():
                return tensor
            noise = torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype, device="cpu")
            return tensor * (1 + ulp * (2 * noise - 1))

        self.exact = evaluate(module, arguments, double=True)
        self.moved = [
            evaluate(module, arguments, double=True, disturb=disturb) for _ in range(SAMPLES)
        ]

    def complaint(self, results: Sequence[torch.Tensor], backend: str = "host") -> str | None:
        """What is wrong with some results, from whatever backend; None if nothing is."""
        if len(results) != len(self.exact):
            return f"expected {len(self.exact)} results, found {len(results)}"
        for number, result in enumerate(results):
            moved = [sample[number] for sample in self.moved]
            result = result.view(self.eager[number].dtype)
            if said := _complaint(result, self.exact[number], self.eager[number], moved, self.ulp):
                return f"result {number} {said}"
        return None


def _complaint(
    result: torch.Tensor,
    exact: torch.Tensor,
    eager: torch.Tensor,
    moved: list[torch.Tensor],
    ulp: float,
) -> str | None:
    if result.shape != exact.shape:
        return f"has shape {list(result.shape)}, not {list(exact.shape)}"
    if not result.is_floating_point():
        known = torch.stack([m == exact for m in moved]).all(0)
        return _first(known & (result != eager) & (result != exact.to(result.dtype)), result, exact)
    unknown = torch.stack([_kind(m) != _kind(exact) for m in moved]).any(0)
    rounded = exact.to(result.dtype)
    wrong_kind = (_kind(result) != _kind(rounded)) & (_kind(result) != _kind(eager)) & ~unknown
    if said := _first(wrong_kind, result, exact):
        return said
    both = result.isfinite() & exact.isfinite() & ~unknown
    distance = torch.stack([(m - exact).abs() for m in moved]).amax(0).where(both, 0)
    scale = exact.abs().where(both, 0).max() if exact.numel() else torch.tensor(0.0)
    ordinary = _most(distance[both])
    denormal = torch.finfo(result.dtype).tiny
    allowed = SLACK * torch.maximum(distance, ordinary) + 16 * ulp * scale + denormal
    return _first(both & ((result.double() - exact).abs() > allowed), result, exact)


def _most(distances: torch.Tensor) -> torch.Tensor:
    """What nine of ten do not exceed."""
    count = distances.numel()
    return distances.kthvalue(ceil(0.9 * count)).values if count else torch.tensor(0.0)


def _kind(tensor: torch.Tensor) -> torch.Tensor:
    """0 for finite numbers, 1 for NaN, 2 and 3 for infinities."""
    return tensor.isnan() * 1 + tensor.isposinf() * 2 + tensor.isneginf() * 3


def _first(wrong: torch.Tensor, result: torch.Tensor, exact: torch.Tensor) -> str | None:
    if not wrong.any():
        return None
    place = tuple(int(i) for i in wrong.nonzero()[0])
    return (
        f"is wrong at {int(wrong.sum())} of {wrong.numel()} places, at {list(place)} first: "
        f"{result[place].item():.9g} instead of {exact[place].item():.9g}"
    )

"""Results that are known, and what other results are by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dlc.judge.accuracy import Accuracy, compare
from dlc.precision import Precision


@dataclass(frozen=True)
class Known:
    """Results in fp64, and in their own dtypes if PyTorch has computed them."""

    exact: Sequence[torch.Tensor]
    eager: Sequence[torch.Tensor] | None
    longest_reduction: int
    own: Sequence[torch.Tensor] = ()
    """The program's own results, if these are what `exact` is."""
    precision: Precision = "f32"
    """What products of f32 may be computed in."""
    in_order: bool = False
    """True if each sum may be a single thread's."""

    def complaint(self, results: Sequence[torch.Tensor]) -> str | None:
        """ValueError for other numbers of results, shapes or dtypes than expected."""
        for number, accuracy in enumerate(self.judge(results)):
            if not accuracy.ok:
                place = _worst_element(results[number], self.exact[number])
                return f"result {number} has {accuracy}{place}"
        return None

    def judge(self, results: Sequence[torch.Tensor]) -> list[Accuracy]:
        eager = self.eager or [None] * len(self.exact)
        judged: list[Accuracy] = []
        how = self.longest_reduction, self.precision
        for result, exact, own in zip(results, self.exact, eager, strict=True):
            if own is not None and result.element_size() == own.element_size():
                result = result.view(own.dtype)  # Tensor IR has no unsigned bytes
            judged.append(compare(result, exact, own, *how, in_order=self.in_order))
        return judged


def _worst_element(result: torch.Tensor, exact: torch.Tensor) -> str:
    """The place of the largest error, as the end of a sentence."""
    if not result.numel():
        return ""
    wide, exact = result.double().cpu(), exact.double().cpu()
    error = (wide - exact).abs().nan_to_num(torch.inf, torch.inf, torch.inf)
    error[wide == exact] = 0
    error[wide.isnan() & exact.isnan()] = 0
    flat = int(error.flatten().argmax())
    index = [int(i) for i in torch.unravel_index(torch.tensor(flat), result.shape)]
    found, wanted = wide.flatten()[flat].item(), exact.flatten()[flat].item()
    return f"; at {index} it is {found:.7g}, not {wanted:.7g}"

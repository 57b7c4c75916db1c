"""Reduces of which one needs the result of the other, and that stay two sweeps: what is said."""

from __future__ import annotations

from collections.abc import Iterator

from dlc.dialects.loop import KernelOp
from dlc.transforms.loop.fusion.cascades import apart_cascades
from dlc.transforms.loop.fusion.moments import apart_moments
from dlc.transforms.loop.fusion.row_factors import apart_row_factors


def swept_apart(kernel: KernelOp) -> Iterator[str]:
    """
    A sentence for each reduce that needs what another found at the same points, and is not folded
    with it: why it cannot be, or that it could be and the estimate is for two sweeps.
    """
    rules = apart_cascades, apart_moments, apart_row_factors
    reasons: dict[tuple[str, ...], list[str]] = {}
    for later, first, reason in (found for rule in rules for found in rule(kernel)):
        names = tuple(op.results[0].name_hint or op.monoid_name.data for op in (later, first))
        reasons.setdefault(names, []).append(reason)
    for names, own in reasons.items():
        why = ", and ".join(own) if all(own) else "two sweeps are estimated to be faster"
        yield "%{} is swept after %{}: {}".format(*names, why)

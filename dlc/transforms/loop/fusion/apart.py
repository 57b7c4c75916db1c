"""Reduces of which one needs the result of the other, and that stay two sweeps: what is said."""

from __future__ import annotations

from collections.abc import Iterator

from dlc.dialects.loop import KernelOp
from dlc.transforms.loop.fusion.cascades import apart_cascades
from dlc.transforms.loop.fusion.moments import apart_moments


def swept_apart(kernel: KernelOp) -> Iterator[str]:
    """
    A sentence for each reduce that needs what another found at the same points, and is not folded
    with it: why it cannot be, or that it could be and the estimate is for two sweeps.
    """
    for later, first, reason in (*apart_cascades(kernel), *apart_moments(kernel)):
        names = (op.results[0].name_hint or op.monoid_name.data for op in (later, first))
        why = reason or "two sweeps are estimated to be faster"
        yield "%{} is swept after %{}: {}".format(*names, why)

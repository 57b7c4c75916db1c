"""The normal form of a loop kernel; see `normalize_kernel`."""

from __future__ import annotations

from dlc.dialects.loop import KernelOp
from dlc.transforms.loop.fusion.canonical_form import canonicalize_kernel
from dlc.transforms.loop.fusion.hoisting import hoist
from dlc.transforms.loop.fusion.joining import join_reduces
from dlc.transforms.loop.fusion.lengths import take_lengths
from dlc.transforms.loop.fusion.nesting import nest
from dlc.transforms.loop.fusion.reciprocals import take_reciprocals
from dlc.transforms.loop.fusion.sinking import sink


def normalize_kernel(kernel: KernelOp, *, clean: bool = False) -> None:
    """
    Brings one kernel into the form that the passes between `lift-to-loops` and `fuse-loops` give
    to all, in their order; `clean` as in `canonicalize_kernel`.
    """
    canonicalize_kernel(kernel, clean=clean)
    hoist(kernel)
    if take_lengths(kernel):
        hoist(kernel)  # one that several reduces have in common is computed once
    if join_reduces(kernel):
        hoist(kernel)  # what both had in their bodies becomes one
    nest(kernel)
    take_reciprocals(kernel)
    sink(kernel)

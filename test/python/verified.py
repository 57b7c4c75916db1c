"""Modules, verified after every pass by a verifier that knows what it has found valid before."""

from __future__ import annotations

from functools import lru_cache
from itertools import count

from xdsl.dialects.builtin import ModuleOp

from dlc.ir.verification import Verifier

TURN = 500
"""After so many modules a verifier knows enough, and a new one begins."""


def verify(module: ModuleOp) -> None:
    """Verifies operations, scoping and dominance, as the pipeline does."""
    _verifier(next(_verified) // TURN).verify(module)


@lru_cache(maxsize=1)
def _verifier(turn: int) -> Verifier:
    return Verifier()


_verified = count()
"""The number of modules that were verified."""

"""Errors of factorizations, which depend on values: a compiled program has none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

CHECK = "aten::_linalg_check_errors"


@contextmanager
def unchecked_factors() -> Iterator[None]:
    """Within it, what raises such an error has no effect that an export keeps."""
    try:
        from torch._higher_order_ops import effects
        from torch._library.simple_registry import singleton

        entry = singleton.find(CHECK).effect
        known = entry.effect
    except (ImportError, AttributeError):  # a PyTorch that keeps none
        yield
        return
    effects._register_effectful_op(CHECK, None)
    try:
        yield
    finally:
        effects._register_effectful_op(CHECK, known)

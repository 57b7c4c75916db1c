"""What PyTorch's tracers do at an operation: its kernels in Python, which go before any table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch._C import DispatchKey
from torch._ops import OpOverload


@contextmanager
def python_kernels(
    wanted: Mapping[OpOverload, Mapping[DispatchKey, Callable[..., Any]]],
) -> Iterator[None]:
    """Operations have these kernels in Python, and no others."""
    kept = {op: op.py_kernels.copy() for op in wanted}
    try:
        _set(wanted)
        yield
    finally:
        _set(kept)


def _set(wanted: Mapping[OpOverload, Mapping[Any, Callable[..., Any]]]) -> None:
    for op, kernels in wanted.items():
        op.py_kernels.clear()
        op.py_kernels.update(kernels)
        op._dispatch_cache.clear()

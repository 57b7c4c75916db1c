"""One export at a time: PyTorch's tracers, and dlc's records, replace functions of the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch._guards import tracing
from torch.utils._python_dispatch import _disable_current_modes


@contextmanager
def exclusive() -> Iterator[None]:
    """
    Only one thread is in here at a time; it may enter again, from a program that is being exported.
    The lock is Dynamo's own: Dynamo holds it while it calls dlc, and export calls Dynamo.
    """
    import torch.export._trace as trace
    from torch._dynamo.convert_frame import compile_lock

    with compile_lock, outside_of_tracing():
        around = trace._EXPORT_MODULE_HIERARCHY  # which an export sets to None at its end
        try:
            yield
        finally:
            trace._EXPORT_MODULE_HIERARCHY = around


@contextmanager
def outside_of_tracing() -> Iterator[None]:
    """Within this context PyTorch knows nothing of the tracer that dlc is called by."""
    with tracing(None), _disable_current_modes():
        yield

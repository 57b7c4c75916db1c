"""NVIDIA's cuda-bindings, the CUDA driver in Python: how it is loaded, and how its calls fail."""

from __future__ import annotations

import importlib
from typing import Any

from dlc.backend import BackendError
from dlc.backend.cuda.run.driver import DriverError


def load_bindings() -> Any:
    """The module cuda.bindings.driver. BackendError without the wheel, or without a driver."""
    try:
        cuda = importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise BackendError(
            f"launching on a GPU needs NVIDIA's cuda-bindings ({error}): install it with "
            "pip install 'dlc[gpu]', or take the backend 'host'"
        ) from None
    try:
        cuda.cuDriverGetVersion()
    except RuntimeError as error:
        raise BackendError(
            f"the NVIDIA driver's library cannot be loaded ({error}); install the driver, or take "
            "the backend 'host'"
        ) from None
    return cuda


def call(cuda: Any, name: str, *arguments: object) -> Any:
    """Calls the driver and gives its result, several values as a list; DriverError if it fails."""
    status, *given = getattr(cuda, name)(*arguments)
    check(cuda, name, status)
    return given[0] if len(given) == 1 else given


def check(cuda: Any, name: str, status: Any) -> None:
    """DriverError if a call returned anything but success."""
    if status != cuda.CUresult.CUDA_SUCCESS:
        raise DriverError(name, int(status), error_text(cuda, status))


def error_text(cuda: Any, code: int) -> str:
    """The driver's description of an error."""
    _, text = cuda.cuGetErrorString(cuda.CUresult(code))
    return (text or b"unknown error").decode(errors="replace")

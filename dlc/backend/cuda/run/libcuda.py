"""The CUDA driver's library as ctypes loads it, and its errors."""

from __future__ import annotations

import ctypes
from typing import Any

from dlc.backend import BackendError
from dlc.backend.cuda.run.driver import (
    FATAL,
    LOAD_FAILURES,
    OUT_OF_MEMORY,
    OUT_OF_RESOURCES,
    DriverError,
)

_UNKNOWN = 999


def load_library() -> Any:
    """libcuda. BackendError if there is none."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise BackendError(
            f"the NVIDIA driver's library cannot be loaded ({error}); install the driver, or take "
            "the backend 'host'"
        ) from None


def check(library: Any, call: str, status: int) -> None:
    """DriverError if a call returned anything but success."""
    if status:
        raise DriverError(call, status, error_text(library, status))


def error_text(library: Any, code: int) -> str:
    """What the driver says of an error."""
    text = ctypes.c_char_p()
    library.cuGetErrorString(ctypes.c_int(code), ctypes.byref(text))
    return (text.value or b"unknown error").decode(errors="replace")


def error_code(library: Any, text: str) -> int:
    """The error of which the driver says this, if it is one that is told apart, else `unknown`."""
    for code in (OUT_OF_MEMORY, OUT_OF_RESOURCES, *LOAD_FAILURES, *FATAL):
        if text.startswith(error_text(library, code)):
            return code
    return _UNKNOWN

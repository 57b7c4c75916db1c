"""
The calls to the CUDA driver that launching needs, as one small interface.

`open_driver` chooses who makes them: PyCUDA where it is installed, else ctypes. Streams are the
integers that the driver knows them by; 0 is the legacy default stream, which is also torch's.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeAlias
from warnings import warn

from dlc.backend import BackendError

OUT_OF_MEMORY = 2
LOAD_FAILURES = (200, 209, 218, 222)
"""Invalid image, no binary for the GPU, invalid PTX, unsupported PTX version."""
OUT_OF_RESOURCES = 701
FATAL = (214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721)
"""After these the process must end: cuda.h says so of each. They may be of an earlier kernel."""

MAX_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""
SHARED_OPT_IN = 97
"""CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN."""
NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING: a stream that does not wait for the legacy default stream."""


class DriverError(Exception):
    """A call to the driver failed: its name, the value of CUresult, and what the driver says."""

    def __init__(self, call: str, code: int, text: str) -> None:
        super().__init__(f"{call}: {text} (CUDA error {code})")
        self.code = code


@dataclass(frozen=True)
class LaunchShape:
    """What is the same in every launch of a kernel."""

    name: str
    """Of the function in the cubin."""
    grid: int
    block: int
    dynamic_bytes: int
    """Of shared memory for each block, beside what is static."""
    argument_bytes: int


Launch: TypeAlias = Callable[[int, bytes], None]
"""Launches a kernel: on a stream, with its parameters as they lie in memory."""


class Driver(Protocol):
    """The driver, in the primary context of one device. Every call may raise DriverError."""

    @property
    def name(self) -> str: ...

    @property
    def library(self) -> Any:
        """libcuda as ctypes loads it."""
        ...

    @property
    def own_stream(self) -> int | None:
        """The one stream beside 0 that launches can go to; None where they can go to any."""
        ...

    def push(self) -> None:
        """Makes the context current in this thread, which the calls below need."""
        ...

    def pop(self) -> None: ...

    def shared_limit(self) -> int:
        """The bytes of shared memory that a block can opt in to."""
        ...

    def load(self, cubin: str, shape: LaunchShape) -> Launch:
        """Loads a kernel of the file `cubin`, for good."""
        ...

    def zero(self, stream: int, address: int, size: int) -> None:
        """Fills bytes with zeros, in the order of the stream."""
        ...

    def synchronize(self, stream: int) -> None:
        """Waits for the work of a stream; raises what went wrong in it."""
        ...


@cache
def open_driver(device: int) -> Driver:
    """
    The driver for a device by its number, one for the process: torch's allocator may remember its
    stream. BackendError if there is no driver.
    """
    from dlc.backend.cuda.run.ctypes_driver import CtypesDriver
    from dlc.backend.cuda.run.pycuda_driver import PyCudaDriver

    try:
        if importlib.util.find_spec("pycuda") is not None:
            try:
                return PyCudaDriver(device)
            except ImportError as error:
                warn(f"PyCUDA cannot be imported ({error}); kernels are launched through ctypes")
        return CtypesDriver(device)
    except DriverError as error:
        raise BackendError(
            f"the CUDA driver cannot be used ({error}); take the backend 'host'"
        ) from error

"""
The calls to the CUDA driver that launching needs, as one small interface. Streams are the integers
that the driver knows them by; 0 is the legacy default stream, which is also torch's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from dlc.target import PARAMETER_ALIGNMENT

OUT_OF_MEMORY = 2
LOAD_FAILURES = (200, 209, 218, 222)
"""Invalid image, no binary for the GPU, invalid PTX, unsupported PTX version."""
OUT_OF_RESOURCES = 701
NOT_TAKEN = (1, 801)
"""Invalid value, not supported: of launches with an attribute that a driver does not take."""
OVERLAP_IN_GRAPHS = 12030
"""The version of the driver from which kernels of a graph may overlap."""
FATAL = (214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721)
"""After these the process must end: cuda.h says so of each. They may be of an earlier kernel."""


class DriverError(Exception):
    """A call to the driver failed: its name, the value of CUresult, and what the driver says."""

    def __init__(self, call: str, code: int, text: str) -> None:
        super().__init__(f"{call}: {text} (CUDA error {code})")
        self.code = code


@dataclass(frozen=True)
class LaunchShape:
    """The part of a kernel's launch that every launch shares."""

    name: str
    """The name of the function in the cubin."""
    grid: int
    block: int
    dynamic_bytes: int
    """Dynamic shared memory of a block, in bytes."""
    parameters: tuple[int, ...]
    """The bytes of each parameter. Together they are given one behind the other."""
    cluster: int = 1
    """Blocks that are started together, on one cluster of multiprocessors; divides the grid."""
    overlaps: bool = False
    """True if it may start before the kernel ahead of it ends, which it waits for by itself
    (programmatic dependent launch, CUDA C++ Programming Guide)."""

    @property
    def is_packed(self) -> bool:
        """
        True if the kernel reads its parameters as they are given. What is aligned to more than the
        place where a chip has the first one lies behind a gap: on sm_90, a tensor map is 112 bytes
        behind that place, as a cubin's EIATTR_KPARAM_INFO says, which the driver reads.
        """
        return all(size <= PARAMETER_ALIGNMENT for size in self.parameters)


Launch: TypeAlias = Callable[[int, bytes], None]
"""Launches a kernel: on a stream, with its parameters as they lie in memory."""


class Driver(Protocol):
    """The driver, in the primary context of one device. Every call may raise DriverError."""

    @property
    def name(self) -> str: ...

    @property
    def cuda(self) -> Any:
        """The module cuda.bindings.driver, for calls that no launch needs."""
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

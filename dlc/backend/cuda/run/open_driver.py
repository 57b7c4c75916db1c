"""The choice of the CUDA driver's interface: PyCUDA where it is installed, else cuda-bindings."""

from __future__ import annotations

import importlib.util
from functools import cache
from warnings import warn

from dlc.backend import BackendError
from dlc.backend.cuda.run.bindings_driver import BindingsDriver
from dlc.backend.cuda.run.driver import Driver, DriverError
from dlc.backend.cuda.run.pycuda_driver import PyCudaDriver


@cache
def open_driver(device: int) -> Driver:
    """The driver for a device by its number, one for the process. BackendError if there is none."""
    try:
        if importlib.util.find_spec("pycuda") is not None:
            try:
                return PyCudaDriver(device)
            except ImportError as error:
                warn(f"PyCUDA cannot be imported ({error}); cuda-bindings launches kernels")
        return BindingsDriver(device)
    except DriverError as error:
        raise BackendError(
            f"the CUDA driver cannot be used ({error}); take the backend 'host'"
        ) from error

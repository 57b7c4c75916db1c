"""The CUDA driver through ctypes: needs nothing but the driver, and launches on any stream."""

from __future__ import annotations

import ctypes
import os
from ctypes import c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from dlc.backend.cuda.run.driver import MAX_DYNAMIC_SHARED, SHARED_OPT_IN, Launch, LaunchShape
from dlc.backend.cuda.run.libcuda import check, load_library

# What stands before each entry of cuLaunchKernel's `extra` (cuda.h: CU_LAUNCH_PARAM_*).
_END, _BUFFER_POINTER, _BUFFER_SIZE = 0, 1, 2


class CtypesDriver:
    """
    `library` is libcuda as ctypes loads it. Kernels are never unloaded: a graph that somebody
    captured may still hold them.
    """

    name = "ctypes"
    own_stream = None

    def __init__(self, device: int, library: Any = None) -> None:
        self.library = library or load_library()
        self._call("cuInit", c_uint(0))
        self._device = c_int()
        self._call("cuDeviceGet", ctypes.byref(self._device), c_int(device))
        self._context = c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._device)

    def _call(self, name: str, *arguments: object) -> None:
        check(self.library, name, getattr(self.library, name)(*arguments))

    def push(self) -> None:
        self._call("cuCtxPushCurrent_v2", self._context)

    def pop(self) -> None:
        self._call("cuCtxPopCurrent_v2", ctypes.byref(c_void_p()))

    def shared_limit(self) -> int:
        value = c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), c_int(SHARED_OPT_IN), self._device)
        return value.value

    def load(self, cubin: str, shape: LaunchShape) -> Launch:
        module, function = c_void_p(), c_void_p()
        self._call("cuModuleLoad", ctypes.byref(module), ctypes.c_char_p(os.fsencode(cubin)))
        name = ctypes.c_char_p(shape.name.encode())
        self._call("cuModuleGetFunction", ctypes.byref(function), module, name)
        if shape.dynamic_bytes:
            limit = c_int(MAX_DYNAMIC_SHARED)
            self._call("cuFuncSetAttribute", function, limit, c_int(shape.dynamic_bytes))
        return _launch(self.library, function, shape)

    def zero(self, stream: int, address: int, size: int) -> None:
        self._call(
            "cuMemsetD8Async", c_uint64(address), ctypes.c_ubyte(0), c_size_t(size),
            c_void_p(stream),
        )  # fmt: skip

    def synchronize(self, stream: int) -> None:
        self._call("cuStreamSynchronize", c_void_p(stream))


def _launch(library: Any, function: c_void_p, shape: LaunchShape) -> Launch:
    """A launch whose arguments for ctypes are made beforehand; its buffer is for one thread."""
    memory, size = ctypes.create_string_buffer(shape.argument_bytes), c_size_t(shape.argument_bytes)
    kept = memory, size  # `extra` holds their addresses only
    extra = (c_void_p * 5)(
        _BUFFER_POINTER, ctypes.addressof(memory), _BUFFER_SIZE, ctypes.addressof(size), _END
    )
    one, grid, block = c_uint(1), c_uint(shape.grid), c_uint(shape.block)
    fixed = (function, grid, one, one, block, one, one, c_uint(shape.dynamic_bytes))
    call = library.cuLaunchKernel

    def launch(stream: int, arguments: bytes) -> None:
        kept[0].raw = arguments
        if status := call(*fixed, c_void_p(stream), None, extra):
            check(library, "cuLaunchKernel", status)

    return launch

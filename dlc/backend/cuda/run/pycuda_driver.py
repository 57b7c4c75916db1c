"""
The CUDA driver through PyCUDA, which cannot launch on a stream that it did not make: launches go
to the legacy default stream or to one stream of ours.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dlc.backend.cuda.run.driver import NON_BLOCKING, DriverError, Launch, LaunchShape
from dlc.backend.cuda.run.libcuda import error_code, load_library


class PyCudaDriver:
    """`cuda` is the module pycuda.driver and `library` libcuda; both are loaded by default."""

    name = "pycuda"

    def __init__(self, device: int, cuda: Any = None, library: Any = None) -> None:
        self._cuda = cuda or _import_pycuda()
        self.library = library or load_library()
        with self._errors():
            self._cuda.init()
            self._device = self._cuda.Device(device)
            self._context = self._device.retain_primary_context()
            self._context.push()
            try:
                own = self._cuda.Stream(flags=NON_BLOCKING)
            finally:
                self._context.pop()
        self.own_stream: int = own.handle
        self._streams = {0: None, self.own_stream: own}
        # Its destructor, at the end of the process, would take it for one that PyCUDA made.
        atexit.register(self._context.detach)
        self._modules: list[Any] = []
        """Never unloaded: a graph that somebody captured may still hold their kernels."""

    def push(self) -> None:
        try:
            self._context.push()
        except self._cuda.Error as error:
            raise self._described(error) from None

    def pop(self) -> None:
        try:
            self._context.pop()
        except self._cuda.Error as error:
            raise self._described(error) from None

    def shared_limit(self) -> int:
        attribute = self._cuda.device_attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        return self._device.get_attribute(attribute)

    def load(self, cubin: str, shape: LaunchShape) -> Launch:
        with self._errors():
            module = self._cuda.module_from_file(cubin)
            function = module.get_function(shape.name)
            if shape.dynamic_bytes:
                limit = self._cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                function.set_attribute(limit, shape.dynamic_bytes)
        self._modules.append(module)
        # What PyCUDA's prepared calls end in. They would pack the arguments once more and set the
        # block's shape by a deprecated call, which takes ten times as long.
        call, error_type, streams = function._launch_kernel, self._cuda.Error, self._streams
        grid, block, dynamic_bytes = (shape.grid, 1), (shape.block, 1, 1), shape.dynamic_bytes

        def launch(stream: int, arguments: bytes) -> None:
            try:
                call(grid, block, arguments, dynamic_bytes, streams[stream])
            except error_type as error:
                raise self._described(error) from None

        return launch

    def zero(self, stream: int, address: int, size: int) -> None:
        with self._errors():
            self._cuda.memset_d8_async(address, 0, size, self._streams[stream])

    def synchronize(self, stream: int) -> None:
        known = self._streams[stream]
        with self._errors():
            (self._cuda.Context if known is None else known).synchronize()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._cuda.Error as error:
            raise self._described(error) from None

    def _described(self, error: Exception) -> DriverError:
        """PyCUDA says `<call> failed: <what the driver says>`, and no number."""
        call, _, text = str(error).partition(" failed: ")
        return DriverError(call, error_code(self.library, text), text)


def _import_pycuda() -> Any:
    import pycuda.driver as cuda  # pyright: ignore[reportMissingImports]

    return cuda

"""
The CUDA driver through PyCUDA, which loads kernels and launches them on the default stream. It
cannot launch on a stream that it did not make, knows no attributes of launches and gives parameters
as they lie in memory: what is else is cuda-bindings', as all other calls are.
"""

from __future__ import annotations

import atexit
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dlc.backend.cuda.run.bindings import error_text
from dlc.backend.cuda.run.bindings_driver import BindingsDriver
from dlc.backend.cuda.run.driver import (
    FATAL,
    LOAD_FAILURES,
    OUT_OF_MEMORY,
    OUT_OF_RESOURCES,
    DriverError,
    Launch,
    LaunchShape,
)

_UNKNOWN = 999


class PyCudaDriver(BindingsDriver):
    """`pycuda` is the module pycuda.driver, loaded by default as `cuda` is. Each kernel is loaded
    twice, by PyCUDA and by cuda-bindings: PyCUDA does not tell its handles."""

    name = "pycuda"

    def __init__(self, device: int, cuda: Any = None, pycuda: Any = None) -> None:
        self._pycuda = pycuda or importlib.import_module("pycuda.driver")
        super().__init__(device, cuda)
        with self._errors():
            self._pycuda.init()
            self._primary = self._pycuda.Device(device).retain_primary_context()
        # Its destructor, at the end of the process, would take it for one that PyCUDA made.
        atexit.register(self._primary.detach)
        self._modules: list[Any] = []
        """Never unloaded: a graph that somebody captured may still hold their kernels."""

    def load(self, cubin: str, shape: LaunchShape) -> Launch:
        elsewhere = super().load(cubin, shape)
        if shape.cluster > 1 or shape.overlaps or not shape.is_packed:
            return elsewhere
        function, error_type = self._function(cubin, shape), self._pycuda.Error
        # What PyCUDA's prepared calls end in. They would pack the arguments once more and set the
        # block's shape by a deprecated call, which takes ten times as long.
        launch_kernel, shared = function._launch_kernel, shape.dynamic_bytes
        grid, block = (shape.grid, 1), (shape.block, 1, 1)

        def launch(stream: int, arguments: bytes) -> None:
            if stream:
                return elsewhere(stream, arguments)
            try:
                launch_kernel(grid, block, arguments, shared, None)
            except error_type as error:
                raise self._described(error) from None

        return launch

    def _function(self, cubin: str, shape: LaunchShape) -> Any:
        with self._errors():
            self._primary.push()
            try:
                module = self._pycuda.module_from_file(cubin)
                function = module.get_function(shape.name)
                if shape.dynamic_bytes:
                    limit = self._pycuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                    function.set_attribute(limit, shape.dynamic_bytes)
            finally:
                self._primary.pop()
        self._modules.append(module)
        return function

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._pycuda.Error as error:
            raise self._described(error) from None

    def _described(self, error: Exception) -> DriverError:
        """PyCUDA says `<call> failed: <what the driver says>`, and no number."""
        call, _, text = str(error).partition(" failed: ")
        return DriverError(call, self._code(text), text)

    def _code(self, text: str) -> int:
        """The error of which the driver says this, if it is one that is told apart."""
        for code in (OUT_OF_MEMORY, OUT_OF_RESOURCES, *LOAD_FAILURES, *FATAL):
            if text.startswith(error_text(self.cuda, code)):
                return code
        return _UNKNOWN

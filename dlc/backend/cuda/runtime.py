"""
The GPU as a backend of the executor: nvcc's cubins, launched with PyCUDA on torch's memory.

PyCUDA is imported when a kernel is prepared. It cannot wrap a foreign stream, and its `None` is
the legacy default stream: so on torch's default stream kernels go to `None`, and under any other
stream to one of ours, with which torch's stream is synchronised before and after each program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from dlc.analysis.tensor_maps import TensorMap
from dlc.backend import BackendError, LaunchError
from dlc.backend.cuda.interface import (
    c_name,
    dynamic_shared_bytes,
    shared_bytes,
    tensor_maps,
)
from dlc.backend.cuda.nvcc import compile_cubin
from dlc.backend.cuda.printer import print_kernel
from dlc.backend.cuda.tensor_map import MAP_BYTES, TensorMaps
from dlc.dialects.kernel import FuncOp


@dataclass(frozen=True)
class _Loaded:
    """A kernel on the device."""

    function: Any
    dynamic_bytes: int
    module: Any
    """Unloads the kernel when it is dropped."""
    maps: list[tuple[int, TensorMap]]
    """The tensor maps to pass: of which argument, and what they say."""


class CudaBackend:
    """Runs kernels on one GPU: the current one of torch when the backend is made."""

    name = "cuda"

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise BackendError("the backend 'cuda' needs a GPU that torch can use; take 'host'")
        self.device = torch.device("cuda", torch.cuda.current_device())
        self._driver = _import_driver()
        torch.cuda.init()
        torch.empty(1, device=self.device)  # torch makes the primary context, which we then share
        self._context: Any = self._driver.Device(self.device.index).retain_primary_context()
        self._own_stream: Any = None
        self._stream: Any = None
        """Where launches go; None is the legacy default stream, torch's default."""
        self._torch_stream: torch.cuda.Stream | None = None
        """The same as torch sees it."""
        self._kernels: dict[FuncOp, _Loaded] = {}
        self._tensor_maps = TensorMaps()

    def prepare(self, funcs: Sequence[FuncOp]) -> None:
        major, minor = torch.cuda.get_device_capability(self.device)
        arch = f"sm_{major}{minor}"
        new = [func for func in funcs if func not in self._kernels]
        with ThreadPoolExecutor() as pool:
            cubins = list(pool.map(lambda func: compile_cubin(print_kernel(func), arch), new))
        with self._active():
            for func, cubin in zip(new, cubins, strict=True):
                self._kernels[func] = self._load(func, str(cubin.path))

    def _load(self, func: FuncOp, path: str) -> _Loaded:
        module = self._driver.module_from_file(path)
        function = module.get_function(c_name(func))
        maps = tensor_maps(func)
        function.prepare([f"{MAP_BYTES}s"] * len(maps) + ["P"] * len(func.refs))
        dynamic = dynamic_shared_bytes(func)
        if dynamic:
            limit = self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            try:
                function.set_attribute(limit, dynamic)
            except self._driver.Error as error:
                raise LaunchError(
                    _describe(func, f"the GPU refuses its memory: {error}")
                ) from error
        return _Loaded(function, dynamic, module, maps)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Orders our launches after torch's work so far, and torch's later work after them."""
        current = torch.cuda.current_stream(self.device)
        with self._active():
            if current == torch.cuda.default_stream(self.device):
                self._stream = self._torch_stream = None
                yield
                return
            self._own_stream = self._stream = self._own_stream or self._driver.Stream()
            ours = torch.cuda.ExternalStream(self._stream.handle, device=self.device)
            self._torch_stream = ours
            ours.wait_stream(current)
            yield
            current.wait_stream(ours)

    def zero(self, tensor: torch.Tensor) -> None:
        with torch.cuda.stream(self._torch_stream):
            tensor.zero_()

    def keep(self, tensor: torch.Tensor) -> None:
        if self._torch_stream is not None:
            tensor.record_stream(self._torch_stream)

    def launch(self, func: FuncOp, addresses: Sequence[int]) -> None:
        loaded = self._kernels[func]
        maps = [self._tensor_maps.encode(m, addresses[number]) for number, m in loaded.maps]
        try:
            loaded.function.prepared_async_call(
                (func.grid_size, 1),
                (func.block_size, 1, 1),
                self._stream,
                *maps,
                *addresses,
                shared_size=loaded.dynamic_bytes,
            )
        except self._driver.Error as error:
            raise LaunchError(_describe(func, f"the launch fails: {error}")) from error

    @contextmanager
    def _active(self) -> Iterator[None]:
        self._context.push()
        try:
            yield
        finally:
            self._context.pop()


def _describe(func: FuncOp, what: str) -> str:
    arguments = ", ".join(f"{ref.name_hint}: {ref.type}" for ref in func.refs)
    return (
        f"{func.name_}: {what} (grid {func.grid_size}, block {func.block_size}, "
        f"{shared_bytes(func)} bytes of shared memory, arguments {arguments})"
    )


def _import_driver() -> Any:
    try:
        import pycuda.driver as driver  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise BackendError(
            f"the backend 'cuda' launches with PyCUDA, which cannot be imported ({error}); "
            "install it with: pip install 'dlc[gpu]'"
        ) from None
    driver.init()
    return driver

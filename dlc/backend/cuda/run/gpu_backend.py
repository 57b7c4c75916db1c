"""
The GPU as a backend of the executor: nvcc's cubins, launched on torch's memory and on torch's
current stream, so that they are ordered with torch's own work.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import torch

from dlc.backend import BackendError
from dlc.backend.cuda.run import failures
from dlc.backend.cuda.run.driver import Driver, DriverError, Launch, LaunchShape
from dlc.backend.cuda.run.nvcc import compile_cubins
from dlc.backend.cuda.run.open_driver import open_driver
from dlc.backend.cuda.run.tensor_map import MAP_BYTES, encode_tensor_map
from dlc.backend.cuda.run.torch_device import CudaDevice, TorchDevice
from dlc.backend.kernel_image import KernelImage
from dlc.backend.parallel import OnDone
from dlc.ir.span import span

if TYPE_CHECKING:
    from dlc.analysis.kernel.tensor_maps import TensorMap

T = TypeVar("T")
POINTER_BYTES, SIZE_BYTES = 8, 4
_CACHED = 64
"""Addresses for which a kernel's tensor maps are kept; tensors mostly lie where they lay."""


@dataclass(frozen=True)
class Arguments:
    """
    The parameters of a kernel as they lie in memory: tensor maps, which are aligned to their size,
    then addresses, then sizes.
    """

    count: int
    """The number of tensors among the arguments."""
    maps: Sequence[tuple[int, TensorMap]]
    """The tensor maps: the position of each one's tensor, and its description."""
    encode: Callable[[TensorMap, int], bytes]
    sizes: tuple[int, ...] = ()
    _encoded: dict[tuple[int, ...], bytes] = field(default_factory=dict)
    """Maps, by the addresses that they are of."""

    @property
    def parameters(self) -> tuple[int, ...]:
        """The bytes of each."""
        pointers = (POINTER_BYTES,) * self.count
        return (MAP_BYTES,) * len(self.maps) + pointers + (SIZE_BYTES,) * len(self.sizes)

    def pack(self, addresses: Sequence[int]) -> bytes:
        pointers = struct.pack(f"<{self.count}Q{len(self.sizes)}i", *addresses, *self.sizes)
        return self._map_bytes(addresses) + pointers if self.maps else pointers

    def _map_bytes(self, addresses: Sequence[int]) -> bytes:
        key = tuple(addresses[number] for number, _ in self.maps)
        if (known := self._encoded.get(key)) is not None:
            return known
        if len(self._encoded) >= _CACHED:
            self._encoded.clear()
        made = b"".join(self.encode(m, a) for (_, m), a in zip(self.maps, key, strict=True))
        return self._encoded.setdefault(key, made)


@dataclass(frozen=True)
class _Loaded:
    launch: Launch
    arguments: Arguments


class CudaBackend:
    """
    Runs kernels on one GPU: the current one of torch when the backend is made. With `sync` every
    launch is waited for, so that a kernel that fails is named. `on_compiled` is told how many
    kernels of how many are compiled.

    The backend is the context manager that is around the launches of a program: one thread's at a
    time.
    """

    name = "cuda"

    def __init__(
        self,
        *,
        sync: bool = False,
        on_compiled: OnDone | None = None,
        torch_device: TorchDevice | None = None,
        driver: Driver | None = None,
    ) -> None:
        self._torch = torch_device or CudaDevice()
        self.device = self._torch.device
        failures.check_gpu(self._torch.name, self._torch.capability)
        self.driver = driver or open_driver(self.device.index)
        self.sync = sync
        self.on_compiled = on_compiled
        self._stream = 0
        """Where launches go while a program runs."""
        self._waits = False
        self._kernels: dict[KernelImage, _Loaded] = {}
        self._counts: dict[int, torch.Tensor] = {}
        """Zeros in which the kernels of a stream count blocks, one kernel after the other."""
        self._counts_of_graph: torch.Tensor | None = None
        """Those of the graph that is being captured."""
        self._lock = threading.RLock()

    @property
    def arch(self) -> str:
        """The architecture that kernels are compiled for, such as sm_90."""
        major, minor = self._torch.capability
        return f"sm_{major}{minor}"

    @property
    def looks(self) -> bool:
        return self.sync and not self.captures

    @property
    def captures(self) -> bool:
        return self._torch.capturing()

    def prepare(self, funcs: Sequence[KernelImage]) -> None:
        with self._lock:
            new = [func for func in dict.fromkeys(funcs) if func not in self._kernels]
            if not new:
                return
            try:
                self._check(new)
                cubins = compile_cubins([f.source for f in new], self.arch, self.on_compiled)
                self._load_all({f: cubin.path for f, cubin in zip(new, cubins, strict=True)})
            except (RuntimeError, DriverError) as error:
                self._raise_explained(error)
                raise

    @property
    def chip(self) -> str:
        """What machine code is for."""
        return self.arch

    def objects(self, funcs: Sequence[KernelImage]) -> list[Path]:
        """The cubins of kernels, compiled if they are not yet."""
        cubins = compile_cubins([f.source for f in funcs], self.arch, self.on_compiled)
        return [cubin.path for cubin in cubins]

    def load(self, objects: Mapping[KernelImage, Path]) -> None:
        """Takes cubins in place of compiling the kernels. BackendError as of `prepare`."""
        with self._lock:
            try:
                self._check(list(objects))
                self._load_all(objects)
            except (RuntimeError, DriverError) as error:
                self._raise_explained(error)
                raise

    def _check(self, funcs: Sequence[KernelImage]) -> None:
        gpu = self._torch
        if self.captures:
            raise BackendError(
                "kernels cannot be loaded while a graph is captured; call the program once before"
            )
        limit = self.driver.shared_limit()
        for func in funcs:
            if func.target is not None:
                failures.check_target(func.target, gpu.name, gpu.capability)
            failures.check_grid(func)
            failures.check_shared(func, gpu.name, limit)

    def _load_all(self, cubins: Mapping[KernelImage, Path]) -> None:
        self.driver.push()
        try:
            for func, cubin in cubins.items():
                self._kernels[func] = self._load(func, str(cubin))
        finally:
            self.driver.pop()

    def _load(self, func: KernelImage, cubin: str) -> _Loaded:
        encode = partial(encode_tensor_map, self.driver.cuda)
        arguments = Arguments(len(func.buffers), func.tensor_maps, encode, func.size_values)
        shape = LaunchShape(
            func.c_name,
            func.grid_size,
            func.block_size,
            func.dynamic_shared_bytes,
            arguments.parameters,
            overlaps=func.overlaps,
        )
        try:
            return _Loaded(self.driver.load(cubin, shape), arguments)
        except DriverError as error:
            raise failures.load_failure(func, self.arch, error) from error

    def running(self) -> CudaBackend:
        return self

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self._begin()
        except BaseException as error:
            self._lock.release()
            self._raise_explained(error)
            raise

    def _begin(self) -> None:
        self._waits = self.looks
        self._stream = self._torch.current_stream()
        self.driver.push()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            self.driver.pop()
        except DriverError as later:
            if error is None:
                self._raise_explained(later)
                raise
        finally:
            self._lock.release()
        if error is not None:
            self._raise_explained(error)

    def _raise_explained(self, error: BaseException) -> None:
        """Raises an error of the GPU as a sentence; does nothing for any other error."""
        if said := failures.explain(error, self.device):
            raise said from error

    def zero(self, tensor: torch.Tensor) -> None:
        if tensor.numel():
            elements = span(tensor.shape, tensor.stride())
            self.driver.zero(self._stream, tensor.data_ptr(), elements * tensor.element_size())

    def counts(self, size: int) -> torch.Tensor:
        """
        Those of the stream, kept from call to call. A graph has its own, since it may be replayed
        on another stream; one that torch alone captures fills them each time that it is replayed.
        """
        if not self.captures:
            kept = self._counts.get(self._stream)
            if kept is None or kept.numel() < size:
                kept = self._counts[self._stream] = self._zeros(size)
            return kept
        own = self._counts_of_graph
        return self._zeros(size) if own is None or own.numel() < size else own

    def _zeros(self, size: int) -> torch.Tensor:
        made = torch.empty(size, dtype=torch.uint8, device=self.device)
        self.zero(made)
        return made

    def launch(self, func: KernelImage, addresses: Sequence[int]) -> None:
        loaded = self._kernels[func]
        arguments = loaded.arguments.pack(addresses)
        try:
            loaded.launch(self._stream, arguments)
        except DriverError as error:
            raise failures.launch_failure(func, addresses, error, waited=self._waits) from error
        if self._waits:
            try:
                self.driver.synchronize(self._stream)
            except DriverError as error:
                raise failures.launch_failure(func, addresses, error, waited=True) from error

    def capture(self, run: Callable[[], T]) -> tuple[Callable[[], None], T]:
        """
        Puts the launches of `run`, and torch's, into a CUDA graph instead of doing them: what
        replays the graph, and the result, whose tensors every replay writes anew. The kernels must
        be prepared. BackendError with `sync`, which a graph has no place for.
        """
        if self.sync:
            raise BackendError("a graph has no place to wait for a kernel: take sync or a graph")
        size = max((kept.numel() for kept in self._counts.values()), default=0)
        if size:
            with self.running():
                self._counts_of_graph = self._zeros(size)
                self.driver.synchronize(self._stream)
        own = self._counts_of_graph
        try:
            replay, result = self._torch.capture(run)
        finally:
            self._counts_of_graph = None

        if own is None:
            return replay, result

        def again() -> None:
            replay()
            self._torch.keep_until_done(own)

        return again, result

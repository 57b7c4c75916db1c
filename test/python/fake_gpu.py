"""
A GPU that is none: what stands where libcuda, PyCUDA and torch's streams stand, over CPU tensors.

The functions of `FakeGpu.library` are called through the C ABI, as ctypes calls libcuda. A
"cubin" is a file with the printed text of a kernel; launching it unpacks the parameters from the
buffer by the types in that text, as the hardware would find them, and runs it on the host backend.

Work is queued on streams and done at the latest moment, the newest stream first or the oldest:
what is not ordered by an event is done in the wrong order in one of the two. While `active`, the
in-place operations of torch that programs use go to the current stream, too.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from dlc.backend import LaunchError
from dlc.backend.cuda.run import gpu_backend as runtime
from dlc.backend.cuda.run.ctypes_driver import CtypesDriver
from dlc.backend.cuda.run.gpu_backend import CudaBackend
from dlc.backend.cuda.run.nvcc import Cubin
from dlc.backend.cuda.run.pycuda_driver import PyCudaDriver
from dlc.backend.host.host_kernel import HostKernel, encode_tensor_map
from dlc.target import STATIC_SHARED_LIMIT, TARGETS

OK, INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE, NOT_FOUND = 0, 1, 201, 400, 500
ILLEGAL_ADDRESS, OUT_OF_RESOURCES, CAPTURE_UNSUPPORTED, CAPTURE_UNJOINED = 700, 701, 900, 904
_TEXTS = {
    2: "out of memory", 209: "no kernel image is available for execution on the device",
    700: "an illegal memory access was encountered", 701: "too many resources requested for launch",
    900: "operation not permitted when stream is capturing",
}  # fmt: skip
_IN_PLACE = (torch.ops.aten.copy_.default, torch.ops.aten.zero_.default)
_ALLOCATIONS = (torch.ops.aten.empty.memory_format, torch.ops.aten.empty_strided.default)
_SWIZZLE_BYTES = (0, 32, 64, 128)
_ELEMENT_BYTES = {0: 1, 1: 2, 3: 4, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2}


@dataclass
class Event:
    done: bool = False


@dataclass
class Kernel:
    host: HostKernel
    opted_in: int = 0

    def unpack(self, buffer: bytes) -> list[int | bytes] | None:
        """The parameters at their aligned offsets; None if the buffer has another size."""
        values: list[int | bytes] = []
        offset = 0
        for kind in self.host.parameter_types:
            size = 128 if kind.endswith("tensor_map") else 8
            offset = (offset + size - 1) // size * size
            piece = buffer[offset : offset + size]
            offset += size
            if len(piece) != size:
                return None
            values.append(piece if size == 128 else struct.unpack("<Q", piece)[0])
        return values if offset == len(buffer) else None


@dataclass
class FakeGpu:
    newest_first: bool = True
    capability: tuple[int, int] = (9, 0)
    shared_limit: int = TARGETS["sm_90"].shared_per_block
    refuse: dict[str, int] = field(default_factory=dict)
    """Calls that fail, and with what."""
    broken: str = ""
    """The kernel that accesses what it must not."""
    calls: list[str] = field(default_factory=list)
    streams: dict[int, deque[Callable[[], bool]]] = field(default_factory=lambda: {0: deque()})
    current: int = 0
    capturing: set[int] = field(default_factory=set)
    """The streams whose work goes into the graph that is being captured."""
    sticky: int = 0
    contexts: int = 0
    alive: list[torch.Tensor] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        handle, pointer = c_void_p, POINTER(c_void_p)
        signatures: dict[str, list[Any]] = {
            "cuInit": [c_uint],
            "cuGetErrorString": [c_int, POINTER(c_char_p)],
            "cuDeviceGet": [POINTER(c_int), c_int],
            "cuDeviceGetAttribute": [POINTER(c_int), c_int, c_int],
            "cuDevicePrimaryCtxRetain": [pointer, c_int],
            "cuCtxPushCurrent_v2": [handle],
            "cuCtxPopCurrent_v2": [pointer],
            "cuModuleLoad": [pointer, c_char_p],
            "cuModuleGetFunction": [pointer, handle, c_char_p],
            "cuFuncSetAttribute": [handle, c_int, c_int],
            "cuMemsetD8Async": [c_uint64, ctypes.c_ubyte, c_size_t, handle],
            "cuStreamSynchronize": [handle],
            "cuLaunchKernel": [handle, *[c_uint] * 7, handle, pointer, pointer],
            "cuTensorMapEncodeTiled": [
                handle, c_int, c_uint, handle, POINTER(c_uint64), POINTER(c_uint64),
                POINTER(c_uint), POINTER(c_uint), c_int, c_int, c_int, c_int,
            ],
        }  # fmt: skip
        self.library = SimpleNamespace(
            **{
                name: CFUNCTYPE(c_int, *types)(partial(self._called, name))
                for name, types in signatures.items()
            }
        )

    def _called(self, name: str, *arguments: Any) -> int:
        self.calls.append(name)
        if name in self.refuse:
            return self.refuse[name]
        return getattr(self, f"_{name.removesuffix('_v2')}")(*arguments)

    # libcuda

    def _cuInit(self, flags: int) -> int:
        return OK

    def _cuGetErrorString(self, code: int, text: Any) -> int:
        text[0] = _TEXTS.get(code, f"the fake GPU's error {code}").encode()
        return OK

    def _cuDeviceGet(self, device: Any, ordinal: int) -> int:
        device[0] = ordinal
        return OK

    def _cuDeviceGetAttribute(self, value: Any, attribute: int, device: int) -> int:
        value[0] = {97: self.shared_limit}[attribute]
        return OK

    def _cuDevicePrimaryCtxRetain(self, context: Any, device: int) -> int:
        context[0] = 0xC0
        return OK

    def _cuCtxPushCurrent(self, context: int) -> int:
        assert context == 0xC0
        self.contexts += 1
        return OK

    def _cuCtxPopCurrent(self, context: Any) -> int:
        self.contexts -= 1
        return OK if self.contexts >= 0 else INVALID_CONTEXT

    def _cuModuleLoad(self, module: Any, path: bytes) -> int:
        if self.capturing or not self.contexts:
            return CAPTURE_UNSUPPORTED if self.capturing else INVALID_CONTEXT
        self.modules.append(Path(path.decode()).read_text())
        module[0] = len(self.modules)
        return OK

    def _cuModuleGetFunction(self, function: Any, module: int, name: bytes) -> int:
        text = self.modules[module - 1]
        head = re.search(rf"__global__ void[^;{{]*?\b{name.decode()}\(([^)]*)\)", text)
        if head is None:
            return NOT_FOUND
        # A parameter is its type and its name.
        types = [re.sub(r"\w+\s*$", "", p) for p in head[1].split(",")]
        self.kernels.append(Kernel(HostKernel(text, name.decode(), types)))
        function[0] = len(self.kernels)
        return OK

    def _cuFuncSetAttribute(self, function: int, attribute: int, value: int) -> int:
        if attribute != 8 or value > self.shared_limit:
            return INVALID_VALUE
        self.kernels[function - 1].opted_in = value
        return OK

    def _cuMemsetD8Async(self, address: int, value: int, size: int, stream: int | None) -> int:
        return self._queue(stream or 0, lambda: ctypes.memset(address, value, size))

    def _cuStreamSynchronize(self, stream: int | None) -> int:
        if self.capturing:
            return CAPTURE_UNSUPPORTED
        self.synchronize()
        return self.sticky

    def _cuLaunchKernel(
        self, function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int,
        stream: int | None, parameters: Any, extra: Any,
    ) -> int:  # fmt: skip
        kernel = self.kernels[function - 1]
        if parameters or (extra[0], extra[2], extra[4]) != (1, 2, None) or (gy, gz) != (1, 1):
            return INVALID_VALUE
        if not gx or shared > max(kernel.opted_in, STATIC_SHARED_LIMIT) or bx * by * bz > 1024:
            return INVALID_VALUE
        size = ctypes.cast(extra[3], POINTER(c_size_t))[0]
        values = kernel.unpack(ctypes.string_at(extra[1], size))
        if values is None:
            return OUT_OF_RESOURCES  # what cuda.h says of arguments of the wrong size
        return self._queue(stream or 0, lambda: self._run(kernel, values, gx, bx, shared))

    def _run(self, kernel: Kernel, values: list[int | bytes], *shape: int) -> None:
        try:
            if kernel.host.name == self.broken:
                raise LaunchError
            kernel.host.launch(values, *shape, threads=1)
        except LaunchError:
            self.sticky = ILLEGAL_ADDRESS

    def _cuTensorMapEncodeTiled(
        self, map: int, element: int, rank: int, address: int, extents: Any, strides: Any, box: Any,
        steps: Any, *options: int,
    ) -> int:  # fmt: skip
        interleave, swizzle, _, fill = options
        size = _ELEMENT_BYTES[element]
        if (
            map % 64
            or address % 16
            or interleave
            or fill
            or any(steps[d] != 1 for d in range(rank))
        ):
            return INVALID_VALUE
        form = encode_tensor_map(
            address, extents[:rank], [size, *strides[: rank - 1]], box[:rank], size,
            _SWIZZLE_BYTES[swizzle],
        )  # fmt: skip
        ctypes.memmove(map, form, 128)
        return OK

    # Streams

    def _queue(self, stream: int, work: Callable[[], object]) -> int:
        if not self.contexts or self.sticky:
            return self.sticky or INVALID_CONTEXT
        if stream not in self.streams:
            return INVALID_HANDLE
        if self.capturing and stream not in self.capturing:
            return CAPTURE_UNSUPPORTED
        self.push(stream, work)
        return OK

    def push(self, stream: int, work: Callable[[], object]) -> None:
        self.streams[stream].append(lambda: (work(), True)[1])

    def new_stream(self) -> int:
        self.streams[0x5000 + len(self.streams)] = deque()
        return max(self.streams)

    def order(self, first: int, then: int) -> None:
        """`then` waits for what `first` has to do so far; a capture spreads that way."""
        event = Event()
        self.push(first, lambda: setattr(event, "done", True))
        self.streams[then].append(lambda: event.done)
        if first in self.capturing:
            self.capturing.add(then)

    def synchronize(self) -> None:
        """Does all work, stream by stream as far as each can go."""
        assert not self.capturing
        while any(self.streams.values()):
            before = sum(map(len, self.streams.values()))
            for stream in sorted(self.streams, reverse=self.newest_first):
                queue = self.streams[stream]
                with _disable_current_modes():  # this is the GPU
                    while queue and queue[0]():
                        queue.popleft()
            assert sum(map(len, self.streams.values())) < before, "streams wait for each other"
        self.alive.clear()


class InPlace(TorchDispatchMode):
    """Queues torch's own operations, and keeps memory until what is queued is done."""

    def __init__(self, gpu: FakeGpu) -> None:
        super().__init__()
        self.gpu = gpu

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _IN_PLACE:
            self.gpu.alive += [a for a in args if isinstance(a, torch.Tensor)]
            self.gpu.push(self.gpu.current, lambda: func(*args))
            return args[0]
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            if func in _ALLOCATIONS and result.device.type == "cpu" and result.is_floating_point():
                size = result.untyped_storage().nbytes() // result.element_size()
                result.as_strided((size,), (1,), 0).fill_(torch.nan)
            self.gpu.alive.append(result)
        return result


class FakeDevice:
    """What torch is to the backend."""

    name = "Fake GPU"

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.device = torch.device("cpu")
        self.capability = gpu.capability

    def current_stream(self) -> int:
        return self.gpu.current

    def capturing(self) -> bool:
        return self.gpu.current in self.gpu.capturing

    def fork(self, stream: int) -> None:
        self.gpu.order(self.gpu.current, stream)

    def join(self, stream: int) -> None:
        self.gpu.order(stream, self.gpu.current)

    def capture(self, run: Callable[[], Any], stream: int | None) -> tuple[Callable[[], None], Any]:
        gpu = self.gpu
        gpu.synchronize()
        with self.stream(stream or gpu.new_stream()) as origin:
            gpu.capturing = {origin}
            try:
                result = run()
            finally:
                streams, gpu.capturing = gpu.capturing, set()
        nodes = {s: list(gpu.streams[s]) for s in streams}
        for s in streams:
            gpu.streams[s].clear()
        held = list(gpu.alive)

        def replay() -> None:
            """In the order of the current stream, which does nothing else here."""
            assert held is not None
            gpu.synchronize()
            for s, work in nodes.items():
                gpu.streams[s].extend(work)
            gpu.synchronize()

        return replay, result

    @contextmanager
    def stream(self, handle: int) -> Iterator[int]:
        before, self.gpu.current = self.gpu.current, handle
        try:
            yield handle
        finally:
            self.gpu.current = before


def pycuda(gpu: FakeGpu) -> Any:
    """The module pycuda.driver, as far as launching needs it."""
    library = gpu.library

    class Error(Exception):
        pass

    def call(name: str, *arguments: Any) -> None:
        if status := getattr(library, name)(*arguments):
            text = c_char_p()
            library.cuGetErrorString(status, ctypes.byref(text))
            raise Error(f"{name} failed: {(text.value or b'').decode()}")

    class Context:
        def detach(self) -> None:
            pass

        def push(self) -> None:
            call("cuCtxPushCurrent_v2", 0xC0)

        def pop(self) -> None:
            call("cuCtxPopCurrent_v2", ctypes.byref(c_void_p()))

        @staticmethod
        def synchronize() -> None:
            call("cuStreamSynchronize", None)

    class Device:
        def __init__(self, ordinal: int) -> None:
            self.ordinal = ordinal

        def retain_primary_context(self) -> Context:
            return Context()

        def get_attribute(self, attribute: int) -> int:
            value = c_int()
            call("cuDeviceGetAttribute", ctypes.byref(value), attribute, self.ordinal)
            return value.value

    class Stream:
        def __init__(self, flags: int = 0) -> None:
            assert flags == 1, "a blocking stream waits for the default one"
            self.handle = gpu.new_stream()

        def synchronize(self) -> None:
            call("cuStreamSynchronize", self.handle)

    class Function:
        def __init__(self, handle: int) -> None:
            self.handle = handle

        def set_attribute(self, attribute: int, value: int) -> None:
            call("cuFuncSetAttribute", self.handle, attribute, value)

        def _launch_kernel(
            self, grid: tuple[int, ...], block: tuple[int, int, int], arguments: bytes,
            shared: int, stream: Stream | None,
        ) -> None:  # fmt: skip
            buffer = ctypes.create_string_buffer(arguments)
            size = c_size_t(len(buffer) - 1)
            extra = (c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
            call(
                "cuLaunchKernel", self.handle, *grid, *[1] * (3 - len(grid)), *block, shared,
                stream and stream.handle, None, extra,
            )  # fmt: skip

    class Module:
        def __init__(self, path: str) -> None:
            self.handle = c_void_p()
            call("cuModuleLoad", ctypes.byref(self.handle), path.encode())

        def get_function(self, name: str) -> Function:
            function = c_void_p()
            call("cuModuleGetFunction", ctypes.byref(function), self.handle, name.encode())
            return Function(function.value or 0)

    def memset_d8_async(dest: int, data: int, size: int, stream: Stream | None = None) -> None:
        call("cuMemsetD8Async", dest, data, size, stream and stream.handle)

    return SimpleNamespace(
        Error=Error,
        Context=Context,
        Device=Device,
        Stream=Stream,
        init=lambda: call("cuInit", 0),
        module_from_file=Module,
        memset_d8_async=memset_d8_async,
        device_attribute=SimpleNamespace(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=97),
        function_attribute=SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES=8),
    )


def text_cubins(folder: Path) -> Callable[..., list[Cubin]]:
    """What stands for nvcc: a cubin is a kernel's text."""

    def compile_cubins(sources: Sequence[str], arch: str, on_done: Any = None) -> list[Cubin]:
        made: list[Cubin] = []
        for source in sources:
            path = folder / f"{len(list(folder.iterdir()))}.cubin"
            path.write_text(source)
            made.append(Cubin(path, 0, 0, 0, 0))
        if on_done is not None:
            on_done(len(made), len(made))
        return made

    return compile_cubins


DRIVERS = ("ctypes", "pycuda")


def fake_backend(gpu: FakeGpu, driver: str, folder: Path, monkeypatch: Any, **options: Any) -> Any:
    """The backend `cuda` on a GPU that is none."""
    monkeypatch.setattr(runtime, "compile_cubins", text_cubins(folder))
    if driver == "ctypes":
        made = CtypesDriver(0, gpu.library)
    else:
        made = PyCudaDriver(0, pycuda(gpu), gpu.library)
    return CudaBackend(torch_device=FakeDevice(gpu), driver=made, **options)

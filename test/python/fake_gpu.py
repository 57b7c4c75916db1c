"""
A GPU that is none: what stands where cuda-bindings, PyCUDA and torch's streams stand, over CPU
tensors. (`stub_driver.py` has what stands where libcuda stands, below the true cuda-bindings.)

A "cubin" is a file with the printed text of a kernel; launching it unpacks the parameters from the
buffer by the types in that text, as the hardware would find them, and runs it on the host backend.

Work is queued on streams and done at the latest moment, the newest stream first or the oldest:
what is on another stream is done in the wrong order in one of the two. While `active`, the
in-place operations of torch that programs use go to the current stream, too.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_size_t, c_void_p
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from dlc.backend import LaunchError
from dlc.backend.cuda.run import gpu_backend as runtime
from dlc.backend.cuda.run.bindings_driver import BindingsDriver
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
_SWIZZLE_BYTES = {"NONE": 0, "32B": 32, "64B": 64, "128B": 128}
_ELEMENT_BYTES = {
    "UINT8": 1, "UINT16": 2, "INT32": 4, "INT64": 8, "FLOAT16": 2, "FLOAT32": 4, "FLOAT64": 8,
    "BFLOAT16": 2,
}  # fmt: skip


class CUresult(int):
    """A status that, as an enumeration's, is there once."""

    CUDA_SUCCESS: CUresult


CUresult.CUDA_SUCCESS = CUresult(OK)


class Names:
    """An enumeration whose members are their names without a prefix, if they are known."""

    def __init__(self, prefix: str, *names: str) -> None:
        self.__dict__.update({prefix + name: name for name in names})


class Number(int):
    """What takes the place of cuuint32_t and cuuint64_t, which take no other numbers."""


FIRST_PARAMETER = 0x210
"""Where sm_90 has a kernel's first parameter in constant memory, as cubins say
(EIATTR_PARAM_CBANK): a multiple of 16, not of what a tensor map is aligned to."""


@dataclass
class Kernel:
    host: HostKernel
    opted_in: int = 0

    @property
    def sizes(self) -> list[int]:
        """The bytes of each parameter."""
        return [128 if kind.endswith("tensor_map") else 8 for kind in self.host.parameter_types]

    def unpack(self, buffer: bytes) -> list[int | bytes] | None:
        """
        The parameters where the kernel reads them, at offsets that align their addresses; None if
        the buffer has another size.
        """
        values: list[int | bytes] = []
        offset = FIRST_PARAMETER
        for size in self.sizes:
            offset += -offset % size
            begin = offset - FIRST_PARAMETER
            piece = buffer[begin : begin + size]
            offset += size
            if len(piece) != size:
                return None
            values.append(piece if size == 128 else struct.unpack("<Q", piece)[0])
        return values if offset - FIRST_PARAMETER == len(buffer) else None

    def read(self, parameters: int) -> list[int | bytes]:
        """The parameters from the addresses of all."""
        sizes = self.sizes
        places = (c_void_p * len(sizes)).from_address(parameters)
        pieces = [ctypes.string_at(p or 0, n) for p, n in zip(places, sizes, strict=True)]
        return [p if len(p) == 128 else struct.unpack("<Q", p)[0] for p in pieces]


@dataclass
class FakeGpu:
    newest_first: bool = True
    capability: tuple[int, int] = (9, 0)
    version: int = 13000
    """Of the driver."""
    takes_overlaps: bool = True
    shared_limit: int = TARGETS["sm_90"].shared_per_block
    refuse: dict[str, int] = field(default_factory=dict)
    """Calls that fail, and with what."""
    broken: str = ""
    """The kernel that accesses what it must not."""
    calls: list[str] = field(default_factory=list)
    streams: dict[int, deque[Callable[[], object]]] = field(default_factory=lambda: {0: deque()})
    current: int = 0
    capturing: int = 0
    """The stream whose work goes into the graph that is being captured; 0 if there is none."""
    sticky: int = 0
    contexts: int = 0
    alive: list[torch.Tensor] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    attributes: Sequence[Any] = ()
    """Of the latest extended launch."""

    @property
    def cuda(self) -> Any:
        """The module cuda.bindings.driver, as far as it is used."""
        functions = [name[1:] for name in dir(self) if name.startswith("_cu")]
        return SimpleNamespace(
            **{name: partial(self.called, name) for name in functions},
            CUresult=CUresult,
            CUstream=int,
            CUlaunchConfig=SimpleNamespace,
            CUlaunchAttribute=lambda: SimpleNamespace(
                value=SimpleNamespace(clusterDim=SimpleNamespace())
            ),
            CUlaunchAttributeID=Names(
                "CU_LAUNCH_ATTRIBUTE_", "CLUSTER_DIMENSION", "PROGRAMMATIC_STREAM_SERIALIZATION"
            ),
            CUdevice_attribute=Names("CU_DEVICE_ATTRIBUTE_", "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            CUfunction_attribute=Names("CU_FUNC_ATTRIBUTE_", "MAX_DYNAMIC_SHARED_SIZE_BYTES"),
            cuuint32_t=Number,
            cuuint64_t=Number,
            CUtensorMapDataType=Names("CU_TENSOR_MAP_DATA_TYPE_", *_ELEMENT_BYTES),
            CUtensorMapSwizzle=Names("CU_TENSOR_MAP_SWIZZLE_", *_SWIZZLE_BYTES),
            CUtensorMapInterleave=Names("CU_TENSOR_MAP_INTERLEAVE_", "NONE"),
            CUtensorMapL2promotion=Names("CU_TENSOR_MAP_L2_PROMOTION_", "L2_128B"),
            CUtensorMapFloatOOBfill=Names("CU_TENSOR_MAP_FLOAT_OOB_FILL_", "NONE"),
        )

    def called(self, name: str, *arguments: Any) -> tuple[Any, ...]:
        """What a function of cuda-bindings gives: the status, and at most one value."""
        self.calls.append(name)
        if name in self.refuse:
            return CUresult(self.refuse[name]), None
        given = getattr(self, f"_{name}")(*arguments)
        status, *values = given if isinstance(given, tuple) else (given,)
        return (CUresult(status) if status else CUresult.CUDA_SUCCESS), *values

    # cuda-bindings

    def _cuInit(self, flags: int) -> int:
        return OK

    def _cuDriverGetVersion(self) -> tuple[int, int]:
        return OK, self.version

    def _cuGetErrorString(self, code: CUresult) -> tuple[int, bytes]:
        return OK, _TEXTS.get(code, f"the fake GPU's error {int(code)}").encode()

    def _cuDeviceGet(self, ordinal: int) -> tuple[int, int]:
        return OK, ordinal

    def _cuDeviceGetAttribute(self, attribute: str, device: int) -> tuple[int, int]:
        return OK, {"MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": self.shared_limit}[attribute]

    def _cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int, int]:
        return OK, 0xC0

    def _cuCtxPushCurrent(self, context: int) -> int:
        assert context == 0xC0
        self.contexts += 1
        return OK

    def _cuCtxPopCurrent(self) -> tuple[int, int]:
        self.contexts -= 1
        return (OK if self.contexts >= 0 else INVALID_CONTEXT), 0xC0

    def _cuModuleLoad(self, path: bytes) -> tuple[int, int]:
        if self.capturing or not self.contexts:
            return (CAPTURE_UNSUPPORTED if self.capturing else INVALID_CONTEXT), 0
        self.modules.append(Path(path.decode()).read_text())
        return OK, len(self.modules)

    def _cuModuleGetFunction(self, module: int, name: bytes) -> tuple[int, int]:
        text = self.modules[module - 1]
        head = re.search(rf"__global__ void[^;{{]*?\b{name.decode()}\(([^)]*)\)", text)
        if head is None:
            return NOT_FOUND, 0
        # A parameter is its type and its name.
        types = [re.sub(r"\w+\s*$", "", p) for p in head[1].split(",")]
        self.kernels.append(Kernel(HostKernel(text, name.decode(), types)))
        return OK, len(self.kernels)

    def _cuFuncSetAttribute(self, function: int, attribute: str, value: int) -> int:
        if attribute != "MAX_DYNAMIC_SHARED_SIZE_BYTES" or value > self.shared_limit:
            return INVALID_VALUE
        self.kernels[function - 1].opted_in = value
        return OK

    def _cuMemsetD8Async(self, address: int, value: int, size: int, stream: int) -> int:
        return self._queue(stream, lambda: ctypes.memset(address, value, size))

    def _cuStreamSynchronize(self, stream: int) -> int:
        if self.capturing:
            return CAPTURE_UNSUPPORTED
        self.synchronize()
        return self.sticky

    def _cuLaunchKernelEx(self, config: Any, function: int, parameters: int, extra: int) -> int:
        assert config.numAttrs == len(config.attrs)
        self.attributes = config.attrs
        if not self.takes_overlaps and any("PROGRAMMATIC" in a.id for a in config.attrs):
            return CUresult(INVALID_VALUE)
        grid = config.gridDimX, config.gridDimY, config.gridDimZ
        block = config.blockDimX, config.blockDimY, config.blockDimZ
        return self.called(
            "cuLaunchKernel", function, *grid, *block, config.sharedMemBytes, config.hStream,
            parameters, extra,
        )[0]  # fmt: skip

    def _cuLaunchKernel(
        self, function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int,
        stream: int, parameters: int, extra: int,
    ) -> int:  # fmt: skip
        kernel = self.kernels[function - 1]
        if bool(parameters) == bool(extra) or (gy, gz) != (1, 1):
            return INVALID_VALUE
        if not gx or shared > max(kernel.opted_in, STATIC_SHARED_LIMIT) or bx * by * bz > 1024:
            return INVALID_VALUE
        values = kernel.read(parameters) if parameters else self._buffered(kernel, extra)
        if values is None:
            return OUT_OF_RESOURCES  # what cuda.h says of arguments of the wrong size
        return self._queue(stream, lambda: self._run(kernel, values, gx, bx, shared))

    def _buffered(self, kernel: Kernel, extra: int) -> list[int | bytes] | None:
        entries = (c_void_p * 5).from_address(extra)
        assert (entries[0], entries[2], entries[4]) == (1, 2, None)
        size = c_size_t.from_address(entries[3] or 0).value
        return kernel.unpack(ctypes.string_at(entries[1] or 0, size))

    def _run(self, kernel: Kernel, values: list[int | bytes], *shape: int) -> None:
        try:
            if kernel.host.name == self.broken:
                raise LaunchError
            kernel.host.launch(values, *shape, threads=1)
        except LaunchError:
            self.sticky = ILLEGAL_ADDRESS

    def _cuTensorMapEncodeTiled(
        self, element: str, rank: int, address: int, extents: Any, strides: Any, box: Any,
        steps: Any, interleave: str, swizzle: str, promotion: str, fill: str,
    ) -> tuple[int, Any]:  # fmt: skip
        size = _ELEMENT_BYTES[element]
        assert all(isinstance(n, Number) for n in (*extents, *strides, *box, *steps))
        assert (interleave, promotion, fill) == ("NONE", "L2_128B", "NONE")
        if address % 16 or any(steps[d] != 1 for d in range(rank)):
            return INVALID_VALUE, None
        form = encode_tensor_map(
            address, extents[:rank], [size, *strides[: rank - 1]], box[:rank], size,
            _SWIZZLE_BYTES[swizzle],
        )  # fmt: skip
        return OK, SimpleNamespace(opaque=struct.unpack("<16Q", form))

    # Streams

    def _queue(self, stream: int, work: Callable[[], object]) -> int:
        if not self.contexts or self.sticky:
            return self.sticky or INVALID_CONTEXT
        if stream not in self.streams:
            return INVALID_HANDLE
        if self.capturing and stream != self.capturing:
            return CAPTURE_UNSUPPORTED
        self.push(stream, work)
        return OK

    def push(self, stream: int, work: Callable[[], object]) -> None:
        self.streams[stream].append(work)

    def new_stream(self) -> int:
        self.streams[0x5000 + len(self.streams)] = deque()
        return max(self.streams)

    def synchronize(self) -> None:
        """Does all work, stream by stream."""
        assert not self.capturing
        for stream in sorted(self.streams, reverse=self.newest_first):
            queue = self.streams[stream]
            with _disable_current_modes():  # this is the GPU
                while queue:
                    queue.popleft()()
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
        return bool(self.gpu.capturing) and self.gpu.current == self.gpu.capturing

    def capture(self, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        gpu = self.gpu
        gpu.synchronize()
        with self.stream(gpu.new_stream()) as origin:
            gpu.capturing = origin
            try:
                result = run()
            finally:
                gpu.capturing = 0
        nodes = list(gpu.streams[origin])
        gpu.streams[origin].clear()
        held = list(gpu.alive)

        def replay() -> None:
            """In the order of the current stream, which does nothing else here."""
            assert held is not None
            gpu.synchronize()
            gpu.streams[origin].extend(nodes)
            gpu.synchronize()

        return replay, result

    def keep_until_done(self, tensor: torch.Tensor) -> None:
        self.gpu.alive.append(tensor)

    @contextmanager
    def stream(self, handle: int) -> Iterator[int]:
        before, self.gpu.current = self.gpu.current, handle
        try:
            yield handle
        finally:
            self.gpu.current = before


def pycuda(gpu: FakeGpu) -> Any:
    """The module pycuda.driver, as far as launching needs it."""

    class Error(Exception):
        pass

    def call(name: str, *arguments: Any) -> Any:
        status, *given = gpu.called(name, *arguments)
        if status:
            _, text = gpu.called("cuGetErrorString", status)
            raise Error(f"{name} failed: {text.decode()}")
        return given[0] if given else None

    class Context:
        def detach(self) -> None:
            pass

        def push(self) -> None:
            call("cuCtxPushCurrent", 0xC0)

        def pop(self) -> None:
            call("cuCtxPopCurrent")

    class Device:
        def __init__(self, ordinal: int) -> None:
            self.ordinal = ordinal

        def retain_primary_context(self) -> Context:
            return Context()

    class Function:
        def __init__(self, handle: int) -> None:
            self.handle = handle

        def set_attribute(self, attribute: str, value: int) -> None:
            call("cuFuncSetAttribute", self.handle, attribute, value)

        def _launch_kernel(
            self, grid: tuple[int, ...], block: tuple[int, int, int], arguments: bytes,
            shared: int, stream: None,
        ) -> None:  # fmt: skip
            assert stream is None, "nobody has made a stream of PyCUDA's"
            buffer = ctypes.create_string_buffer(arguments)
            size = c_size_t(len(buffer) - 1)
            extra = (c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
            call(
                "cuLaunchKernel", self.handle, *grid, *[1] * (3 - len(grid)), *block, shared, 0, 0,
                ctypes.addressof(extra),
            )  # fmt: skip

    class Module:
        def __init__(self, path: str) -> None:
            self.handle = call("cuModuleLoad", path.encode())

        def get_function(self, name: str) -> Function:
            return Function(call("cuModuleGetFunction", self.handle, name.encode()))

    return SimpleNamespace(
        Error=Error,
        Device=Device,
        init=lambda: call("cuInit", 0),
        module_from_file=Module,
        function_attribute=SimpleNamespace(
            MAX_DYNAMIC_SHARED_SIZE_BYTES="MAX_DYNAMIC_SHARED_SIZE_BYTES"
        ),
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


DRIVERS = ("cuda-bindings", "pycuda")


def fake_backend(gpu: FakeGpu, driver: str, folder: Path, monkeypatch: Any, **options: Any) -> Any:
    """The backend `cuda` on a GPU that is none."""
    monkeypatch.setattr(runtime, "compile_cubins", text_cubins(folder))
    if driver == "cuda-bindings":
        made = BindingsDriver(0, gpu.cuda)
    else:
        made = PyCudaDriver(0, gpu.cuda, pycuda(gpu))
    return CudaBackend(torch_device=FakeDevice(gpu), driver=made, **options)

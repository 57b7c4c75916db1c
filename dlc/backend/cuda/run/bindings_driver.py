"""The CUDA driver through NVIDIA's cuda-bindings, which launches on any stream."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

from dlc.backend.cuda.run.bindings import call, check, load_bindings
from dlc.backend.cuda.run.driver import (
    NOT_TAKEN,
    OVERLAP_IN_GRAPHS,
    DriverError,
    Launch,
    LaunchShape,
)
from dlc.log import get_logger


class BindingsDriver:
    """
    `cuda` is the module cuda.bindings.driver, loaded by default. Kernels are never unloaded: a
    graph that somebody captured may still hold them.
    """

    name = "cuda-bindings"

    def __init__(self, device: int, cuda: Any = None) -> None:
        self.cuda = cuda or load_bindings()
        self._call("cuInit", 0)
        self._device = self._call("cuDeviceGet", device)
        self._context = self._call("cuDevicePrimaryCtxRetain", self._device)

    def _call(self, name: str, *arguments: object) -> Any:
        return call(self.cuda, name, *arguments)

    def push(self) -> None:
        self._call("cuCtxPushCurrent", self._context)

    def pop(self) -> None:
        self._call("cuCtxPopCurrent")

    def shared_limit(self) -> int:
        attributes = self.cuda.CUdevice_attribute
        opt_in = attributes.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        return self._call("cuDeviceGetAttribute", opt_in, self._device)

    def load(self, cubin: str, shape: LaunchShape) -> Launch:
        module = self._call("cuModuleLoad", os.fsencode(cubin))
        function = self._call("cuModuleGetFunction", module, shape.name.encode())
        if shape.dynamic_bytes:
            attributes = self.cuda.CUfunction_attribute
            limit = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call("cuFuncSetAttribute", function, limit, shape.dynamic_bytes)
        if shape.overlaps and self._version < OVERLAP_IN_GRAPHS:
            version = f"{self._version // 1000}.{self._version % 1000 // 10}"
            return self._in_turn(function, shape, f"the driver is of CUDA {version}")
        launch = _launch(self.cuda, function, shape)
        return self._or_in_turn(function, shape, launch) if shape.overlaps else launch

    def _or_in_turn(self, function: Any, shape: LaunchShape, launch: Launch) -> Launch:
        """Such a launch; in its turn from the first time on that the driver does not take it."""

        def overlapping(stream: int, arguments: bytes) -> None:
            nonlocal launch
            try:
                launch(stream, arguments)
            except DriverError as error:
                if error.code not in NOT_TAKEN:
                    raise
                launch = self._in_turn(function, shape, str(error))
                launch(stream, arguments)

        return overlapping

    def _in_turn(self, function: Any, shape: LaunchShape, reason: str) -> Launch:
        """A launch that begins when the one ahead has ended: what waits for it does not wait."""
        get_logger("kernels").warning(
            "'%s' begins when the kernel ahead of it has ended: %s", shape.name, reason
        )
        return _launch(self.cuda, function, replace(shape, overlaps=False))

    @cached_property
    def _version(self) -> int:
        return self._call("cuDriverGetVersion")

    def zero(self, stream: int, address: int, size: int) -> None:
        self._call("cuMemsetD8Async", address, 0, size, stream)

    def synchronize(self, stream: int) -> None:
        self._call("cuStreamSynchronize", stream)


def _launch(cuda: Any, function: Any, shape: LaunchShape) -> Launch:
    """An extended launch, prepared but for its stream and arguments; it is for one thread."""
    memory = ctypes.create_string_buffer(sum(shape.parameters))
    begins = accumulate(shape.parameters, initial=ctypes.addressof(memory))
    places = (ctypes.c_void_p * (len(shape.parameters) + 1))(*begins)
    kept = memory, places  # the driver is given addresses only
    address, config = ctypes.addressof(places), _config(cuda, shape)
    launch_kernel, success = cuda.cuLaunchKernelEx, cuda.CUresult.CUDA_SUCCESS
    stream_of = lru_cache(16)(cuda.CUstream)

    def launch(stream: int, arguments: bytes) -> None:
        kept[0].raw = arguments
        config.hStream = stream_of(stream)
        (status,) = launch_kernel(config, function, address, 0)
        if status is not success:
            check(cuda, "cuLaunchKernelEx", status)

    return launch


def _config(cuda: Any, shape: LaunchShape) -> Any:
    config = cuda.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = shape.grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = shape.block, 1, 1
    config.sharedMemBytes = shape.dynamic_bytes
    attributes = list(_attributes(cuda, shape))
    config.attrs, config.numAttrs = attributes, len(attributes)
    return config


def _attributes(cuda: Any, shape: LaunchShape) -> Iterator[Any]:
    """The attributes of a launch beyond its sizes."""
    kinds = cuda.CUlaunchAttributeID
    if shape.cluster > 1:
        cluster = cuda.CUlaunchAttribute()
        cluster.id = kinds.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dims = cluster.value.clusterDim
        dims.x, dims.y, dims.z = shape.cluster, 1, 1
        yield cluster
    if shape.overlaps:
        overlap = cuda.CUlaunchAttribute()
        overlap.id = kinds.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        overlap.value.programmaticStreamSerializationAllowed = 1
        yield overlap

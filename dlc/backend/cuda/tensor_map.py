"""Tensor maps as the CUDA driver encodes them, through the driver's own library."""

from __future__ import annotations

import ctypes
from typing import Any

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
)
from xdsl.ir import Attribute

from dlc.analysis.tensor_maps import TensorMap
from dlc.backend import BackendError, LaunchError

MAP_BYTES = 128
"""Size of a CUtensorMap."""
_CACHED = 4096
"""Maps that are kept; a program's tensors mostly lie where they lay before."""
_L2_PROMOTION_128 = 2

# The values of cuda.h's enumerations.
_INTEGERS = {1: 0, 8: 0, 16: 1, 32: 3, 64: 5}  # of CUtensorMapDataType, by bits
_FLOATS = {Float16Type: 6, Float32Type: 7, Float64Type: 8, BFloat16Type: 9}
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}


class TensorMaps:
    """
    Encodes tensor maps with cuTensorMapEncodeTiled and keeps them by address, shape and strides.
    `library` is the driver as ctypes loads it; by default it is loaded at the first map.
    """

    def __init__(self, library: Any = None) -> None:
        self._library = library
        self._encoded: dict[tuple[TensorMap, int], bytes] = {}

    def encode(self, map: TensorMap, address: int) -> bytes:
        """The bytes of a CUtensorMap for a memref at `address`. LaunchError if it is refused."""
        key = map, address
        if key not in self._encoded:
            if len(self._encoded) >= _CACHED:
                self._encoded.clear()
            self._encoded[key] = self._encode(map, address + map.offset)
        return self._encoded[key]

    def _encode(self, map: TensorMap, address: int) -> bytes:
        self._library = self._library or _load_driver()
        rank = len(map.extents)
        memory = ctypes.create_string_buffer(2 * MAP_BYTES)
        start = -ctypes.addressof(memory) % MAP_BYTES  # CUtensorMap is aligned to its size
        status = self._library.cuTensorMapEncodeTiled(
            ctypes.c_void_p(ctypes.addressof(memory) + start),
            ctypes.c_int(_data_type(map.element)),
            ctypes.c_uint32(rank),
            ctypes.c_void_p(address),
            (ctypes.c_uint64 * rank)(*map.extents),
            (ctypes.c_uint64 * rank)(*map.strides[1:]),  # without the innermost
            (ctypes.c_uint32 * rank)(*map.box),
            (ctypes.c_uint32 * rank)(*[1] * rank),  # every element is copied
            ctypes.c_int(0),  # not interleaved
            ctypes.c_int(_SWIZZLES[map.swizzle_bytes]),
            ctypes.c_int(_L2_PROMOTION_128),
            ctypes.c_int(0),  # zeros outside
        )
        if status:
            raise LaunchError(
                f"the CUDA driver refuses a tensor map (error {status}) with extents "
                f"{map.extents}, strides {map.strides} in bytes, box {map.box} and swizzle "
                f"{map.swizzle_bytes}, innermost dimension first, at address {address:#x}"
            )
        return memory.raw[start : start + MAP_BYTES]


def _data_type(element: Attribute) -> int:
    """The value of CUtensorMapDataType; booleans are bytes."""
    if isinstance(element, IntegerType):
        return _INTEGERS[element.bitwidth]
    return _FLOATS[type(element)]  # pyright: ignore[reportArgumentType]


def _load_driver() -> Any:
    try:
        library = ctypes.CDLL("libcuda.so.1")
        getattr(library, "cuTensorMapEncodeTiled")
    except (OSError, AttributeError) as error:
        raise BackendError(
            f"the CUDA driver has no cuTensorMapEncodeTiled ({error}); it needs CUDA 12 or newer"
        ) from None
    return library

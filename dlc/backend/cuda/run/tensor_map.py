"""Tensor maps as the CUDA driver encodes them, through the driver's own library."""

from __future__ import annotations

import ctypes
from typing import Any

from dlc.analysis.kernel.tensor_maps import TensorMap
from dlc.backend import BackendError, LaunchError
from dlc.ir.elements import element

MAP_BYTES = 128
"""Size of a CUtensorMap."""
_L2_PROMOTION_128 = 2

# The values of cuda.h's enumerations.
_DATA_TYPES = (
    "UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32", "FLOAT64",
    "BFLOAT16",
)  # fmt: skip
"""CUtensorMapDataType, in the order of its values."""
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}


def encode_tensor_map(library: Any, map: TensorMap, address: int) -> bytes:
    """
    The bytes of a CUtensorMap for a memref at `address`, as cuTensorMapEncodeTiled of libcuda
    makes them. BackendError if the driver is older than tensor maps, LaunchError if it refuses.
    """
    rank = len(map.extents)
    memory = ctypes.create_string_buffer(2 * MAP_BYTES)
    start = -ctypes.addressof(memory) % MAP_BYTES  # CUtensorMap is aligned to its size
    try:
        encode = library.cuTensorMapEncodeTiled
    except AttributeError as error:
        raise BackendError(
            f"the CUDA driver has no cuTensorMapEncodeTiled ({error}): update it to one of CUDA "
            "12 or newer, or compile for sm_89, which makes no use of it"
        ) from None
    status = encode(
        ctypes.c_void_p(ctypes.addressof(memory) + start),
        ctypes.c_int(_DATA_TYPES.index(element(map.element).tensor_map)),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(address + map.offset),
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
            f"{map.swizzle_bytes}, innermost dimension first, at address {address + map.offset:#x}"
        )
    return memory.raw[start : start + MAP_BYTES]

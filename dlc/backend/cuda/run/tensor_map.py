"""Tensor maps as the CUDA driver encodes them."""

from __future__ import annotations

import struct
from typing import Any

from dlc.analysis.kernel.tensor_maps import TensorMap
from dlc.backend import BackendError, LaunchError
from dlc.ir.elements import element

MAP_BYTES = 128
"""Size of a CUtensorMap."""


def encode_tensor_map(cuda: Any, map: TensorMap, address: int) -> bytes:
    """
    The bytes of a CUtensorMap for a memref at `address`, as cuTensorMapEncodeTiled of `cuda`, the
    module cuda.bindings.driver, makes them. BackendError if the driver is older than tensor maps,
    LaunchError if it refuses.
    """
    rank = len(map.extents)
    long, short = cuda.cuuint64_t, cuda.cuuint32_t
    types, swizzles = cuda.CUtensorMapDataType, cuda.CUtensorMapSwizzle
    swizzle = f"{map.swizzle_bytes}B" if map.swizzle_bytes else "NONE"
    try:
        status, made = cuda.cuTensorMapEncodeTiled(
            getattr(types, f"CU_TENSOR_MAP_DATA_TYPE_{element(map.element).tensor_map}"),
            rank,
            address + map.offset,
            [long(n) for n in map.extents],
            [long(n) for n in (*map.strides[1:], 0)],  # the innermost is left out
            [short(n) for n in map.box],
            [short(1)] * rank,  # every element is copied
            cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(swizzles, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
            cuda.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,  # zeros outside
        )
    except RuntimeError as error:
        raise BackendError(
            f"the CUDA driver has no cuTensorMapEncodeTiled ({error}): update it to one of CUDA "
            "12 or newer, or compile for sm_89, which makes no use of it"
        ) from None
    if status:
        raise LaunchError(
            f"the CUDA driver refuses a tensor map (error {int(status)}) with extents "
            f"{map.extents}, strides {map.strides} in bytes, box {map.box} and swizzle "
            f"{map.swizzle_bytes}, innermost dimension first, at address {address + map.offset:#x}"
        )
    return struct.pack("<16Q", *(int(word) for word in made.opaque))

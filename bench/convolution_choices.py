"""Schedules of convolutions between which the group `choices` of bench/measured.py decides."""

from __future__ import annotations

_TILES = (
    "tileify,chunk-matmul-k{{bk=16 vector=4}},{}blockify-launch{{block={} thread={}}},"
    "stage-inputs{{budget={}}},register-tile{{extents={}}},permute-register-tile,"
    "double-buffer{{depth={}}},async-copy,pad-smem,pipeline-k-outer,mark-unroll{{limit=4}}"
)
_IN_TWO = (
    'split-matmul-k{splits=2 then="tileify,blockify-launch{block=32,32 thread=32,8},'
    'register-tile{extents=4},mark-unroll{limit=32}"},'
)

CONVOLUTIONS: dict[str, dict[str, dict[str, str]]] = {
    "convolution/conv2d.16x64x64x112": {
        "8x8": {"conv2d": _TILES.format("", "64,8,16", "8,8,2", 12288, "8,8", 3)},
        "16x8.of.64": {"conv2d": _TILES.format("", "64,8,16", "8,2,4", 12288, "8,4,4", 3)},
    },
    "convolution/conv2d_strided.16x64x128x56x3x2x1": {
        "kernel": {"conv2d": _TILES.format(_IN_TWO, "128,8,32", "16,2,8", 24576, "8,4,4", 3)},
        "one-warp": {"conv2d": _TILES.format(_IN_TWO, "128,1,32", "8,1,4", 10240, "16,8", 2)},
    },
    "convolution/conv3d.16x16x32x32": {},
    "convolution-chain/hardswish_max_pool.16x3x64x224": {},
    "convolution-chain/hardswish_max_pool.16x64x64x112": {},
    "convolution-chain/hardswish_max_pool.32x64x128x56": {},
    "linear-chain/max_pool.128x1024x4096": {},
}
"""Schedules of kernels of programs of the table, by what they are called beside the default one."""

"""
The chips that kernels are scheduled for, a row each.

Sources: NVIDIA's CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
(limits), and its architecture whitepapers and data sheets of T4, A100 SXM 80 GB, GeForce RTX 3090,
GeForce RTX 4090, H100 SXM, B200 and GeForce RTX 5090 (SMs, boost clocks, memory rates, L2 sizes),
one product for each compute capability.

Tensor cores: dense products of f16 and bf16 with sums in f32, from the same whitepapers (TFLOP/s:
T4 65, A100 312, RTX 3090 71, RTX 4090 165, H100 989, B200 2250, RTX 5090 210; tf32 half of that but
on T4, which has none), over SMs and boost clock. `mma` reaches these rates but on sm_90, where
`wgmma` does: 63 % of it (Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU
Architecture via Microbenchmarking", IPDPS 2024), and on sm_100, where `tcgen05` does: there the
rate of an SM of A100 is assumed, a quarter.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from dataclasses import dataclass

from dlc import plugins
from dlc.diagnostics import did_you_mean, with_hint
from dlc.plugins import DLC
from dlc.target.chip import Target
from dlc.target.limits import KIB, MIB


@dataclass(frozen=True)
class Core:
    """More than any CPU's core does per second, in operations and in bytes of its cache."""

    flops: float
    cache_bandwidth: float


CPU_CORE = Core(64 * 6e9, 128 * 6e9)
"""Two multiply-adds and two loads of 64 bytes each in a clock, at 6 GHz."""

_ROWS = (
    Target("sm_75", 40, 1.59e9, 0.32e12, 4 * MIB, 64 * KIB, 64 * KIB, 1024, 16,
           reserved_shared=0, fp32_lanes=64, tensor_lanes=512, tf32_lanes=0),
    Target("sm_80", 108, 1.41e9, 2.04e12, 40 * MIB, 163 * KIB, 164 * KIB, 2048, 32,
           fp32_lanes=64, tensor_lanes=1024, tf32_lanes=512, int8=2),
    Target("sm_86", 82, 1.70e9, 0.936e12, 6 * MIB, 99 * KIB, 100 * KIB, 1536, 16),
    Target("sm_89", 128, 2.52e9, 1.01e12, 72 * MIB, 99 * KIB, 100 * KIB, 1536, 24),
    Target("sm_90", 132, 1.98e9, 3.35e12, 50 * MIB, 227 * KIB, 228 * KIB, 2048, 32,
           tensor_lanes=2048, tf32_lanes=1024, mma_share=0.63, apart_mma=0.62, mma_float8=1,
           int8=2, gpcs=(18, 18, 18, 16, 16, 16, 16, 14),
           fitting_clusters=(66, 39, 30, 22, 17, 15, 15), l2_bytes_per_clock=27),
    Target("sm_100", 148, 1.96e9, 8.0e12, 126 * MIB, 227 * KIB, 228 * KIB, 2048, 32,
           tensor_lanes=4096, tf32_lanes=2048, mma_share=0.25, apart_mma=0.62, mma_float8=1,
           int8=2, lacks=("wgmma",), gpcs=(20, 20, 18, 18, 18, 18, 18, 18)),
    Target("sm_120", 170, 2.41e9, 1.79e12, 96 * MIB, 99 * KIB, 100 * KIB, 1536, 24,
           lacks=("multicast", "wgmma"), gpcs=(16, 16, 16, 16, 16, 15, 15, 15, 15, 15, 15)),
)  # fmt: skip
for _row in _ROWS:
    DLC.target(_row)

TARGETS: MutableMapping[str, Target] = plugins.CHIPS
"""By name, those of plug-ins included."""

OLDEST_CAPABILITY = divmod(min(row.instructions for row in _ROWS), 10)
"""Of the GPUs that kernels run on."""


def get_target(name: str) -> Target:
    """The target of a name such as `sm_90`; ValueError if the table has none."""
    if not isinstance(name, str) or name not in TARGETS:
        raise with_hint(ValueError(f"unknown target '{name}'"), target_hint(str(name)))
    return TARGETS[name]


def target_hint(name: str) -> str:
    """What to write for an unknown target; an older chip's name is no misspelling of another's."""
    chip = re.fullmatch(r"sm_(\d+)", name)
    if chip and divmod(int(chip[1]), 10) < OLDEST_CAPABILITY:
        return f"it is older than all that dlc knows: {', '.join(TARGETS)}"
    known = f"the targets are {', '.join(TARGETS)}"
    close = did_you_mean(f"sm_{name}" if name.isdigit() else name, TARGETS)
    return f"{close} {known}" if close else known

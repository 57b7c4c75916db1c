"""What a device reaches at best here and now: a copy, and PyTorch's own matrix product in fp32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from dlc_bench.contender import Contender
from dlc_bench.device import Device
from dlc_bench.measure import Plan, measure
from dlc_bench.subject import Subject
from dlc_bench.work import Work

COPY_BYTES = {"cuda": 1 << 30, "host": 64 << 20}
"""Of one of the two tensors of a copy."""
GEMM_EXTENT = {"cuda": 8192, "host": 1024}


@dataclass(frozen=True)
class Ceilings:
    """Measured rates per second."""

    copy_bandwidth: float
    """Bytes read and bytes written."""
    gemm_flops: float
    gemm_extent: int


def measure_ceilings(device: Device, plan: Plan | None = None) -> Ceilings:
    """Times a copy between two tensors that no cache holds, and a square product."""
    elements = COPY_BYTES[device.backend] // 4
    source = torch.randn(elements, device=device.torch)
    target = torch.empty_like(source)
    size = float(COPY_BYTES[device.backend])
    copying = _seconds(
        lambda tensors: target.copy_(tensors[0]), [source], Work(elements, size, size), device, plan
    )
    n = GEMM_EXTENT[device.backend]
    factors = [torch.randn(n, n, device=device.torch) for _ in range(2)]
    work = Work(2.0 * n**3, 8.0 * n * n, 4.0 * n * n)
    product = _seconds(lambda tensors: tensors[0] @ tensors[1], factors, work, device, plan)
    return Ceilings(2 * size / copying, work.flops / product, n)


def _seconds(
    call: Callable[..., object],
    tensors: list[torch.Tensor],
    work: Work,
    device: Device,
    plan: Plan | None,
) -> float:
    subject = Subject(call, tensors, list, work)
    result = measure(subject, [Contender("ceiling", lambda s, r: s.call)], device, plan)["ceiling"]
    if result.best is None:
        raise RuntimeError(f"the ceilings of {device.name} cannot be measured: {result.error}")
    return result.best.median

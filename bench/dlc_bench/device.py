"""The device that is measured on: what it is, and what nothing on it can do faster."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from dlc.backend import BackendError
from dlc.backend.cuda.run.bindings import call, load_bindings
from dlc.backend.cuda.run.driver import DriverError
from dlc.backend.executor import default_target
from dlc.target import CPU_CORE, get_target
from dlc_bench.work import Work

ROTATED_CACHES = 4
"""How many times the cache the tensors fill that are gone through to find it cold."""


@dataclass(frozen=True)
class Rates:
    """Operations and bytes per second."""

    flops: float
    bandwidth: float
    """Of memory."""
    cache_bandwidth: float
    cache_bytes: int
    tensor_flops: float = 0.0
    """Of tensor cores; 0 where there are none."""

    def operations(self, work: Work) -> float:
        """Seconds that the operations of work take."""
        return work.flops / (self.tensor_flops * work.on_tensor_cores or self.flops)

    def roofline(self, work: Work) -> float:
        """Seconds of work whose bytes all come from memory or go there."""
        return max(self.operations(work), work.bytes / self.bandwidth)

    def floor(self, work: Work, cold: bool) -> float:
        """
        Seconds that nothing can fall below. Results may stay in the cache. Where it was made cold,
        by tensors in places that take `ROTATED_CACHES` caches together, no more of what is read can
        be in it than its share of them; else all that it holds need not come from memory.
        """
        held = self.cache_bytes / max(ROTATED_CACHES * self.cache_bytes, work.read, 1.0)
        from_memory = work.read * (1 - held)
        if not cold:
            from_memory = max(0.0, work.bytes - self.cache_bytes)
        needed = replace(work, flops=work.flops - work.avoidable)
        return max(
            self.operations(needed),
            from_memory / self.bandwidth,
            work.bytes / self.cache_bandwidth,
        )


@dataclass(frozen=True)
class Device:
    """Where contenders run."""

    name: str
    backend: str
    """`cuda` or `host`."""
    torch: torch.device
    limits: Rates
    """What nothing exceeds: a time below their floor is an error of the harness."""
    roof: Rates
    """What percentages are of: the limits on a GPU, on the host what was measured."""

    def measured(self, flops: float, bandwidth: float) -> Device:
        """With the roof of the host raised to what was measured; a GPU as it is."""
        if self.backend == "cuda":
            return self
        roof = replace(self.limits, flops=flops, bandwidth=bandwidth)
        return replace(self, roof=roof)


def find_device(backend: str) -> Device:
    """The CPU for `host`, torch's current GPU for `cuda`."""
    if backend == "cuda":
        index = torch.cuda.current_device()
        rates = _gpu_rates(index)
        where = torch.device("cuda", index)
        return Device(torch.cuda.get_device_name(index), "cuda", where, rates, rates)
    rates = _host_rates()
    return Device(_cpu_name(), "host", torch.device("cpu"), rates, rates)


def _host_rates() -> Rates:
    cores = os.cpu_count() or 1
    flops, cache = CPU_CORE.flops * cores, CPU_CORE.cache_bandwidth * cores
    return Rates(flops, cache, cache, 0)


def _gpu_rates(index: int) -> Rates:
    """Of the GPU itself where the driver says, else of the target that stands for its kind."""
    target = get_target(default_target())
    clock = _attribute(index, "CLOCK_RATE") * 1e3 or target.clock
    sms = _attribute(index, "MULTIPROCESSOR_COUNT") or target.sms
    bus_bytes = _attribute(index, "GLOBAL_MEMORY_BUS_WIDTH") / 8
    memory = 2 * _attribute(index, "MEMORY_CLOCK_RATE") * 1e3 * bus_bytes  # double data rate
    own = replace(target, clock=clock, sms=sms)
    return Rates(
        own.flops,
        memory or target.memory_bandwidth,
        own.most_l2_bandwidth,
        _attribute(index, "L2_CACHE_SIZE") or target.l2_bytes,
        own.tensor_flops,
    )


def _attribute(index: int, attribute: str) -> int:
    """
    What the driver says of a GPU by a name in CUdevice_attribute (CUDA driver API), clocks in kHz,
    widths in bits; 0 where it does not.
    """
    try:
        cuda = load_bindings()
        call(cuda, "cuInit", 0)
        kinds = cuda.CUdevice_attribute
        kind = getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{attribute}")
        return call(cuda, "cuDeviceGetAttribute", kind, call(cuda, "cuDeviceGet", index))
    except (BackendError, DriverError):
        return 0


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

"""What was measured, as text for people."""

from __future__ import annotations

from collections.abc import Mapping

from dlc.text import table
from dlc_bench.ceilings import Ceilings
from dlc_bench.device import Device
from dlc_bench.measure import Result, Spread
from dlc_bench.work import Work

HEADER = ("contender", "us", "p20", "p80", "cold us", "p20", "p80", "GB/s", "TFLOP/s", "roofline",
          "launches", "error vs fp64")  # fmt: skip


def results_table(results: Mapping[str, Result], work: Work, device: Device) -> str:
    """One row a contender; rates are of the cold time, or of the warm one where there is none."""
    rows: list[list[str]] = []
    for name, result in results.items():
        best = result.best
        rows.append(
            [
                name,
                *_spread(result.warm),
                *_spread(result.cold),
                *_rates(best, work, device),
                "-" if result.launches is None else str(result.launches),
                "-" if result.accuracy is None else f"{result.accuracy.error:.2e}",
            ]
        )
    header = list(HEADER)
    if not any(result.cold for result in results.values()):
        del header[4:7]
        rows = [row[:4] + row[7:] for row in rows]
    return table(header, rows)


def _spread(spread: Spread | None) -> list[str]:
    if spread is None:
        return ["-"] * 3
    return [f"{value * 1e6:.4g}" for value in (spread.median, spread.p20, spread.p80)]


def _rates(spread: Spread | None, work: Work, device: Device) -> list[str]:
    if spread is None or not work.bytes:
        return ["-"] * 3
    return [
        f"{work.bytes / spread.median / 1e9:.4g}",
        f"{work.flops / spread.median / 1e12:.3g}",
        f"{device.roof.roofline(work) / spread.median:.1%}",
    ]


def device_lines(device: Device, ceilings: Ceilings, method: str, tf32: bool) -> str:
    """Where and how it was measured, and what is reached there at best."""
    reached = (
        f"a copy reaches {ceilings.copy_bandwidth / 1e9:.4g} GB/s, PyTorch's fp32 product of "
        f"{ceilings.gemm_extent} x {ceilings.gemm_extent} matrices "
        f"{ceilings.gemm_flops / 1e12:.3g} TFLOP/s"
    )
    if device.backend == "cuda":
        peaks = device.limits
        reached += f"; peaks {peaks.bandwidth / 1e9:.4g} GB/s, {peaks.flops / 1e12:.3g} TFLOP/s"
    return f"{device.name}, {method}, TF32 {'ON' if tf32 else 'off'}\n{reached}"

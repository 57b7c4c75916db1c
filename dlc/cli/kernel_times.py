"""
Measured times of kernels as a file: `dlc run --times FILE.json` writes it, and `dlc trace --times`
reads it, or what `ncu --csv --page raw` prints:

    {"how": "dlc run on host", "kernels": {"softmax": {"seconds": 0.0771, "launches": 1}}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from dlc.backend.cuda.print.c_text import kernel_name
from dlc.backend.kernel_image import KernelImage
from dlc.diagnostics import UsageError, with_hint
from dlc.trace.model import Measured, Measurement, as_json
from dlc_bench import ncu


def measurement(backend: str, times: Mapping[KernelImage, Sequence[float]]) -> Measurement:
    """Of the seconds of all launches of each kernel."""
    kernels = {f.name_: Measured(mean(all_), len(all_), {}) for f, all_ in times.items() if all_}
    return Measurement(f"dlc run on {backend}", kernels)


def write_times(path: str, found: Measurement) -> None:
    Path(path).write_text(json.dumps(as_json(found), indent=1) + "\n", encoding="utf-8")


def read_times(path: str) -> Measurement:
    """The kernels by their names in CUDA. UsageError for a file that holds no times."""
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    if counted := ncu.parse(text):
        return Measurement(f"Nsight Compute, {Path(path).name}", _counted(counted))
    try:
        found = json.loads(text)
        kernels = {kernel_name(n): _measured(k) for n, k in found["kernels"].items()}
        return Measurement(f"{found['how']}, {Path(path).name}", kernels)
    except (ValueError, KeyError, TypeError, AttributeError):
        error = UsageError(f"expected times of kernels in {path}, found something else")
        hint = "dlc run --times FILE.json writes them, and ncu --csv --page raw prints them"
        raise with_hint(error, hint) from None


def _measured(row: Any) -> Measured:
    seconds, launches = float(row["seconds"]), int(row["launches"])
    if not (0 <= seconds < float("inf") and launches > 0):
        raise ValueError(row)
    return Measured(seconds, launches, dict(row.get("counters", {})))


def _counted(rows: Sequence[ncu.Counters]) -> dict[str, Measured]:
    """The mean of all launches of a kernel, with the counters of its first."""
    found: dict[str, Measured] = {}
    for name in dict.fromkeys(row.kernel for row in rows):
        own = [row for row in rows if row.kernel == name and row.microseconds is not None]
        if own:
            seconds = mean(row.microseconds or 0.0 for row in own) / 1e6
            found[name] = Measured(seconds, len(own), _figures(own[0]))
    return found


def _figures(row: ncu.Counters) -> dict[str, float | str]:
    """What was counted of a launch, by names that the page shows."""
    found: dict[str, float | None] = {
        "bytes_a_second_of_memory": row.dram_bandwidth,
        "percent_of_issue_slots": None if row.issue_share is None else 100 * row.issue_share,
        "ways_of_shared_memory": row.conflict_ways,
        **{f"warps_that_wait_for_{why}": warps for why, warps in list(row.stalls.items())[:3]},
    }
    return {name: value for name, value in found.items() if value is not None}

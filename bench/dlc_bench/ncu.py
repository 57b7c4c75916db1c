"""
Hardware counters of dlc's kernels, by Nsight Compute in a process of its own.

Counters are asked for by section, which every chip has under the same names; the GPU's clocks are
left as they are. Metric names are those of the Nsight Compute documentation ("Metrics Reference").
"""

from __future__ import annotations

import csv
import io
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlc.backend.cuda.run.tools import find_tool
from dlc_bench import profiled

SECTIONS = (
    "SpeedOfLight", "LaunchStats", "Occupancy", "SchedulerStats", "WarpStateStats",
    "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables",
)  # fmt: skip
SECONDS = 300
"""What ncu may take: every kernel is run some forty times."""

_DURATION = ("gpu__time_duration.sum", "gpu__time_duration_measured_user.sum")
_DRAM_RATE = ("dram__bytes.sum.per_second",)
_ISSUE = (
    "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
)
_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
_NANOSECONDS = {"ns": 1, "nsecond": 1, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6,
                "s": 1e9, "second": 1e9}  # fmt: skip
_NO_STALLS = ("selected", "not_selected")
"""A warp that issues, and one that could while another does."""


class NoCounters(Exception):
    """Nsight Compute is not there, or may not read counters; the reason."""


@dataclass(frozen=True)
class Counters:
    """What was counted of one launch; None where the chip does not say."""

    kernel: str
    microseconds: float | None
    dram_bandwidth: float | None
    """Bytes per second."""
    issue_share: float | None
    """Of the issue slots."""
    stalls: Mapping[str, float]
    """Warps that wait for each reason while one is issued, most first."""
    conflict_ways: float | None
    """Passes over shared memory for each that an access without conflicts takes."""


def count(kernel_ir: str) -> list[Counters]:
    """
    The counters of each launch of a module of Kernel IR, in order, on random inputs.
    NoCounters with the reason where there are none.
    """
    tool = find_ncu()
    with tempfile.TemporaryDirectory(prefix="dlc-ncu-") as folder:
        path = Path(folder) / "kernels.mlir"
        path.write_text(kernel_ir)
        try:
            done = subprocess.run(
                command(tool, path), capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            raise NoCounters(f"{tool} took more than {SECONDS} s") from None
    found = parse(done.stdout)
    if not found:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [line for line in lines if "ERR" in line.upper()] or lines[-1:]
        raise NoCounters(f"{tool} counts nothing: {errors[0].strip() if errors else 'no output'}")
    return found


def find_ncu() -> Path:
    """From PATH or a toolkit. NoCounters if there is none."""
    if found := find_tool("ncu"):
        return found
    raise NoCounters("ncu (Nsight Compute) was not found on PATH or in $CUDA_HOME")


def command(tool: Path, module: Path) -> list[str]:
    """What is run: clocks stay, caches are flushed before each kernel."""
    sections = [part for section in SECTIONS for part in ("--section", section)]
    return [
        str(tool), "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
        "--cache-control", "all", "--profile-from-start", "off",
        "--target-processes", "application-only", *sections,
        *profiled.command("cuda", [module]),
    ]  # fmt: skip


def parse(text: str) -> list[Counters]:
    """Of ncu's raw page as CSV: a line of names, a line of units, a line for each launch."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[start:]))))
    units = next((row for row in rows if not row.get("ID")), {})
    return [_counters(row, units) for row in rows if (row.get("ID") or "").strip().isdigit()]


def _counters(row: Mapping[str, str], units: Mapping[str, str]) -> Counters:
    duration = _first(row, _DURATION)
    unit = next((_NANOSECONDS.get(units.get(name, ""), 1) for name in _DURATION if name in row), 1)
    stalls = {
        found[1]: value
        for name in row
        if (found := _STALL.fullmatch(name)) and (value := _number(row[name])) is not None
        if found[1] not in _NO_STALLS and not found[1].endswith("_not_issued")
    }
    return Counters(
        kernel=re.sub(r"\(.*", "", row.get("Kernel Name", "")).strip(),
        microseconds=None if duration is None else duration * unit / 1e3,
        dram_bandwidth=_first(row, _DRAM_RATE),
        issue_share=_percent(_first(row, _ISSUE)),
        stalls=dict(sorted(stalls.items(), key=lambda item: -item[1])),
        conflict_ways=_ways(row),
    )


def _ways(row: Mapping[str, str]) -> float | None:
    conflicts, wavefronts = (_loads_and_stores(row, name) for name in (_CONFLICTS, _WAVEFRONTS))
    if conflicts is None or not wavefronts or conflicts >= wavefronts:
        return None
    return wavefronts / (wavefronts - conflicts)


def _loads_and_stores(row: Mapping[str, str], metric: str) -> float | None:
    """Of both together, or their sum where they are counted apart."""
    apart = [_first(row, [f"{metric}_op_{kind}.sum"]) for kind in ("ld", "st")]
    known = [value for value in apart if value is not None]
    return sum(known) if known else _first(row, [f"{metric}.sum"])


def _first(row: Mapping[str, str], names: Sequence[str]) -> float | None:
    found = (_number(row[name]) for name in names if name in row)
    return next((value for value in found if value is not None), None)


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def _percent(value: float | None) -> float | None:
    return None if value is None else value / 100

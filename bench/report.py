"""The Markdown of bench/suite.py: how it was measured, means against bars, every case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bars import bars
from ratios import (
    DLC,
    best_peer,
    geometric_mean,
    microseconds,
    peers,
    ratios,
    worst_first,
)

from dlc_bench.records import markdown_table

Row = dict[str, Any]
WORST = 5
NO_PART = "takes no part"
LEGEND = """\
Times are medians, cold where that was measured; of dlc also the spread, and the time with tensors
in the cache. Launches and errors are in the order of the times.\
"""


def markdown(data: Row) -> str:
    """A record as text, worst cases first."""
    rows = data["rows"]
    used = sorted({row["run"] for row in rows.values()})
    lines = ["# dlc beside PyTorch", ""]
    for number in used:
        lines += [
            _run_line(data["runs"][number], sum(r["run"] == number for r in rows.values())),
            "",
        ]
    lines += [*_summary(rows), ""]
    if found := bars({n: r for n, r in rows.items() if _on_gpu(r, data["runs"])}, data["runs"]):
        lines += ["## Bars", "", *found, ""]
    if failed := _failures(rows):
        lines += ["## Not timed", "", *failed, ""]
    lines += ["## Cases, worst first", "", *_table(rows, data["runs"])]
    return "\n".join(lines) + "\n"


def _on_gpu(row: Row, runs: list[Row]) -> bool:
    return runs[row["run"]]["backend"] == "cuda"


def _run_line(run: Row, count: int) -> str:
    ceilings = run["ceilings"]
    clocks = ", ".join(f"{name} {value}" for name, value in run["clocks"].items())
    versions = [f"PyTorch {run['torch']}"]
    named = (("CUDA", "cuda"), ("cuBLAS", "cublas"), ("driver", "driver"))
    versions += [f"{name} {run[key]}" for name, key in named if run[key]]
    where = (
        "CUDA graphs on all sides" if run["backend"] == "cuda" else "**on the host**, wall clock"
    )
    return (
        f"{count} cases, {run['date'][:10]}, {run['device']} ({run['machine']}), {where}; "
        f"{', '.join(versions)}; TF32 {'ON' if run['tf32'] else 'off'}; commit "
        f"{run['commit'][:12]}{'-dirty' if run['commit'].endswith('-dirty') else ''}. "
        f"Reached in the same run: a copy {ceilings['copy_bandwidth'] / 1e9:.4g} GB/s, PyTorch's "
        f"fp32 product of {ceilings['gemm_extent']} x {ceilings['gemm_extent']} matrices "
        f"{ceilings['gemm_flops'] / 1e12:.3g} TFLOP/s." + (f" Clocks: {clocks}." if clocks else "")
    )


def _summary(rows: Mapping[str, Row]) -> list[str]:
    means: list[list[str]] = []
    for peer in peers(rows):
        if found := ratios(rows, peer):
            worst = min(found, key=lambda name: found[name])
            mean, won = geometric_mean(found.values()), sum(r > 1 for r in found.values())
            row = [peer, len(found), f"{mean:.3f}", won, f"{found[worst]:.2f} ({worst})"]
            means.append([*map(str, row)])
    header = ["peer", "cases", "geomean of peer / dlc", "dlc is faster", "worst"]
    lines = markdown_table(header, means)
    best = {name: b for name, row in rows.items() if (b := best_peer(row)) is not None}
    if best:
        order = sorted(best, key=lambda name: best[name][1])[:WORST]
        lines += ["", f"The worst {len(order)} against the best peer: " + ", ".join(
            f"{name} {best[name][1]:.2f} ({best[name][0]})" for name in order) + "."]  # fmt: skip
    return lines


def _failures(rows: Mapping[str, Row]) -> list[str]:
    return [
        f"- {name}, {contender}: {' '.join(result['error'].split())[:400]}"
        for name, row in rows.items()
        for contender, result in row["contenders"].items()
        if result["error"] is not None and NO_PART not in result["error"]
    ]


def _table(rows: Mapping[str, Row], runs: list[Row]) -> list[str]:
    names = [DLC, *peers(rows)]
    header = ["case", *(f"{n} us" for n in names), "p20-p80", "warm us", "best peer / dlc", "GB/s",
              "TFLOP/s", "roofline", "launches", "error vs fp64"]  # fmt: skip
    cells = (_cells(name, rows[name], names, runs) for name in worst_first(rows))
    return [*markdown_table(header, cells), "", LEGEND]


def _cells(name: str, row: Row, names: list[str], runs: list[Row]) -> list[str]:
    times = [microseconds(row, contender) for contender in names]
    own = times[0]
    result = row["contenders"].get(DLC, {})
    spread = result.get("cold_us") or result.get("warm_us")
    best = best_peer(row)
    others = [row["contenders"].get(contender, {}) for contender in names]
    accuracies = [r.get("accuracy") for r in others]
    return [
        name,
        *("-" if t is None else f"{t:.4g}" for t in times),
        "-" if own is None else f"{spread[1]:.4g}-{spread[2]:.4g}",
        "-" if own is None else f"{result['warm_us'][0]:.4g}",
        "-" if best is None else f"{best[1]:.2f}",
        "-" if own is None else f"{row['bytes'] / own / 1e3:.4g}",
        "-" if own is None else f"{row['flops'] / own / 1e6:.3g}",
        "-" if own is None else f"{_roofline_us(row, runs[row['run']]) / own:.0%}",
        ", ".join("-" if r.get("launches") is None else str(r["launches"]) for r in others),
        ", ".join("-" if a is None else f"{a['error']:.1e}" for a in accuracies),
    ]


def _roofline_us(row: Row, run: Row) -> float:
    """Of a GPU's peaks; of the host's measured ceilings."""
    flops, bandwidth = run["peak_flops"], run["peak_bandwidth"]
    if run["backend"] == "host":
        flops, bandwidth = run["ceilings"]["gemm_flops"], run["ceilings"]["copy_bandwidth"]
    return max(row["flops"] / flops, row["bytes"] / bandwidth) * 1e6

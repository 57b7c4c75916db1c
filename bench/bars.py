"""What dlc is to reach beside PyTorch on a GPU, and how far each record is from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ratios import DLC, best_peer, geometric_mean, microseconds, ratio, ratios

from dlc_bench.records import markdown_table

Row = dict[str, Any]
SUITE, SQUARE = "suite", "square"
EAGER, COMPILE, AUTOTUNE = "eager", "torch.compile", "max-autotune"
EAGER_MEAN, COMPILE_MEAN, LEAST_RATIO, GEMM_RATIO, COPY_SHARE = 1.3, 1.2, 0.9, 0.95, 0.9
SQUARES = ("gemm.2048", "gemm.4096", "gemm.8192")
STREAMING = ("rmsnorm.", "softmax.", "silu_mul.")


def bars(rows: Mapping[str, Row], runs: list[Row]) -> list[str]:
    """A table of what was to be reached and what was; nothing where nothing of it was timed."""
    found = list(_found(rows, runs))
    return markdown_table(["what", "bar", "found"], found) if found else []


def _found(rows: Mapping[str, Row], runs: list[Row]) -> Iterator[tuple[str, str, str]]:
    suite = {name: row for name, row in rows.items() if row["group"] == SUITE}
    for peer, bar in ((EAGER, EAGER_MEAN), (COMPILE, COMPILE_MEAN), (AUTOTUNE, COMPILE_MEAN)):
        if found := ratios(suite, peer):
            mean = geometric_mean(found.values())
            yield f"geomean of {peer} / dlc, {len(found)} cases", f"{bar:g}", _told(mean, bar)
    if best := {name: b[1] for name, row in suite.items() if (b := best_peer(row))}:
        worst = min(best, key=lambda name: best[name])
        yield "worst case of best peer / dlc", f"{LEAST_RATIO:g}", _told(best[worst], LEAST_RATIO)
    for name in SQUARES:
        if name in rows and (found := ratio(rows[name], EAGER)) is not None:
            yield f"{name}, eager / dlc", f"{GEMM_RATIO:g}", _told(found, GEMM_RATIO)
    yield from _shares(suite, runs)
    attention = {n: r for n, r in ratios(suite, EAGER).items() if n.startswith("sdpa.")}
    if attention:
        yield "sdpa, worst case of eager / dlc", "1", _told(min(attention.values()), 1.0)


def _shares(suite: Mapping[str, Row], runs: list[Row]) -> Iterator[tuple[str, str, str]]:
    """Of the bandwidth of a copy in the same run, by the largest case of each kind."""
    for kind in STREAMING:
        timed = {n: r for n, r in suite.items() if n.startswith(kind) and microseconds(r, DLC)}
        if not timed:
            continue
        name, row = max(timed.items(), key=lambda item: item[1]["bytes"])
        seconds = (microseconds(row, DLC) or 0.0) / 1e6
        share = row["bytes"] / seconds / runs[row["run"]]["ceilings"]["copy_bandwidth"]
        yield f"{name}, share of copy bandwidth", f"{COPY_SHARE:g}", _told(share, COPY_SHARE)


def _told(value: float, bar: float) -> str:
    return f"{value:.3g}" + ("" if value >= bar else f", {1 - value / bar:.0%} short")

"""The Markdown of bench/roofline.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import geometric_mean
from typing import Any

from dlc_bench.records import markdown_table

Row = dict[str, Any]
MOST = 2.0
"""Times the roofline that a program should not be over."""
HEADER = ("program", "÷ roofline", "estimate", "roofline", "bytes ÷ compulsory", "launches",
          "kernels", "compiled in")  # fmt: skip
SASS = ("instructions", "in the loop", "registers", "spills")


def markdown(data: Row) -> str:
    """Geometric means by family and target, and then a table for each target, worst first."""
    rows: Mapping[str, dict[str, Row]] = data["rows"]
    lines = [
        "# Operators and fused programs at benchmark sizes",
        "",
        f"`python bench/roofline.py`, {data['date']} on {data['machine']}: estimate ÷ roofline, "
        "geometric means. Times are µs.",
        "",
        *_means(rows),
    ]
    for target, programs in rows.items():
        lines += ["", f"## {target}", "", *_programs(programs)]
    return "\n".join(lines) + "\n"


def _means(rows: Mapping[str, dict[str, Row]]) -> list[str]:
    families = dict.fromkeys(row["family"] for each in rows.values() for row in each.values())
    header = ("family", *(f"{t} ({len(_done(each))} programs)" for t, each in rows.items()))
    lines = [
        (family, *(_mean([r for r in _done(each) if r["family"] == family])
                   for each in rows.values()))
        for family in sorted(families)
    ]  # fmt: skip
    lines.append(("all", *(_mean(_done(each)) for each in rows.values())))
    over = (str(sum(r["times_roofline"] > MOST for r in _done(each))) for each in rows.values())
    lines.append((f"programs over {MOST:g}", *over))
    return markdown_table(header, lines)


def _done(rows: Mapping[str, Row]) -> list[Row]:
    return [row for row in rows.values() if "error" not in row]


def _mean(rows: list[Row]) -> str:
    return f"{geometric_mean(row['times_roofline'] for row in rows):.2f}" if rows else "-"


def _programs(rows: Mapping[str, Row]) -> Iterator[str]:
    done = {name: row for name, row in rows.items() if "error" not in row}
    worst = sorted(done, key=lambda name: -done[name]["times_roofline"])
    counted = any("sass" in row for row in done.values())
    header = (*HEADER, *(SASS if counted else ()))
    yield from markdown_table(header, (_cells(name, done[name], counted) for name in worst))
    if failed := {name: row["error"] for name, row in rows.items() if "error" in row}:
        yield from ("", "Without an estimate:", "")
        for name, error in failed.items():
            yield f"- `{name}`: {error.splitlines()[0]}"


def _cells(name: str, row: Row, counted: bool) -> list[str]:
    cells = [
        name,
        f"{row['times_roofline']:.2f}",
        f"{row['estimate_us']:.1f}",
        f"{row['roofline_us']:.1f}",
        f"{row['times_bytes']:.2f}",
        str(row["launches"]),
        str(len(row["kernels"])),
        f"{row['compile_seconds']:.1f} s",
    ]
    return cells + _sass(row.get("sass", [])) if counted else cells


def _sass(kernels: list[Row]) -> list[str]:
    """Of each launch, in their order."""
    loops = (k["loop"]["instructions"] if k["loop"] else "-" for k in kernels)
    columns = (
        (k["instructions"] for k in kernels),
        loops,
        (k["registers"] for k in kernels),
        (k["spill_bytes"] for k in kernels),
    )
    return [", ".join(map(str, column)) for column in columns]

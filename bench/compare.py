"""
What changed between two records of bench/suite.py.

    python bench/compare.py OLD.json NEW.json [--contender dlc]

Prints the geometric mean of old / new, how many cases became faster and slower by more than the
rounds' own spread, and the cases, worst first. Exits with 1 if a case became slower.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ratios import DLC, geometric_mean, microseconds
from record import load

Row = dict[str, Any]
SAME = 0.03
"""A change of less than this share is none, whatever the spreads."""


def change(old: Row, new: Row, contender: str) -> float | None:
    """Old time over new time of a case; None where one of them is missing."""
    before, after = microseconds(old, contender), microseconds(new, contender)
    return None if before is None or after is None else before / after


def differs(old: Row, new: Row, contender: str) -> bool:
    """Whether the middle parts of the rounds do not overlap, and the medians are apart."""
    spreads = [
        r["cold_us"] or r["warm_us"] for r in (row["contenders"][contender] for row in (old, new))
    ]
    (a, a20, a80), (b, b20, b80) = spreads
    return abs(a / b - 1) > SAME and (a20 > b80 or b20 > a80)


def compare(old: Row, new: Row, contender: str = DLC) -> tuple[str, bool]:
    """The text, and whether a case became slower."""
    both = [name for name in new["rows"] if name in old["rows"]]
    changes = {
        name: found
        for name in both
        if (found := change(old["rows"][name], new["rows"][name], contender)) is not None
    }
    lost = [
        name
        for name in both
        if microseconds(old["rows"][name], contender) is not None and name not in changes
    ]
    clear = {n for n in changes if differs(old["rows"][n], new["rows"][n], contender)}
    slower = sorted((n for n in clear if changes[n] < 1), key=lambda n: changes[n])
    faster = [n for n in clear if changes[n] > 1]
    lines = [
        *_differences(old, new),
        f"{contender}: {len(changes)} cases in both, geomean of old / new "
        f"{geometric_mean(changes.values()):.3f}; {len(faster)} faster, {len(slower)} slower, "
        f"{len(changes) - len(clear)} the same",
        *(f"  no time any more: {name}" for name in lost),
        "",
        f"{'case':40} {'old us':>10} {'new us':>10} {'old/new':>8}",
    ]
    for name in sorted(changes, key=lambda n: changes[n]):
        before, after = (microseconds(d["rows"][name], contender) for d in (old, new))
        mark = {True: " slower", False: ""}[name in slower] or (" faster" if name in faster else "")
        lines.append(f"{name:40} {before:10.4g} {after:10.4g} {changes[name]:8.3f}{mark}")
    return "\n".join(lines), bool(slower or lost)


def _differences(old: Row, new: Row) -> list[str]:
    """What makes two records unlike: another device, PyTorch, TF32."""
    lines: list[str] = []
    for key in ("device", "backend", "torch", "cuda", "driver", "tf32"):
        values = [sorted({str(run[key]) for run in data["runs"]}) for data in (old, new)]
        if values[0] != values[1]:
            lines.append(f"note: {key} differs: {', '.join(values[0])} / {', '.join(values[1])}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--contender", default=DLC)
    options = parser.parse_args()
    try:
        text, worse = compare(load(options.old), load(options.new), options.contender)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print(text)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())

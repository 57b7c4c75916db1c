"""
The JSON of bench/suite.py: what is in it, checked, merged and resumed.

```
{"schema": 1,
 "runs": [{"device", "backend", "driver", "clocks", "torch", "cuda", "cublas", "python", "machine",
           "tf32", "commit", "sources", "date", "peak_flops", "peak_bandwidth",
           "ceilings": {"copy_bandwidth", "gemm_flops", "gemm_extent"}}],
 "rows": {CASE: {"run", "group", "text", "flops", "bytes", "floor_us", "timed",
                 "contenders": {NAME: {"error", "warm_us", "cold_us", "rounds", "launches",
                                       "make_seconds", "accuracy"}}}}}
```

Times are [median, p20, p80] in microseconds, rates per second. `run` is the number of the run in
which all of a row was measured, side by side. `sources` differs whenever dlc does. `error` says why
a contender was not timed, or why its times do not count. `timed` is false where a case was only
checked; then its times mean nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERSION = 1
NUMBER = (int, float)
OPTIONAL_TEXT = (str, type(None))
SPREAD = (list, type(None))

RUN: dict[str, Any] = {
    "device": str, "backend": str, "driver": OPTIONAL_TEXT, "clocks": dict, "torch": str,
    "cuda": OPTIONAL_TEXT, "cublas": OPTIONAL_TEXT, "python": str, "machine": str, "tf32": bool,
    "commit": str, "sources": str, "date": str, "peak_flops": NUMBER, "peak_bandwidth": NUMBER,
    "ceilings": dict,
}  # fmt: skip
CEILINGS: dict[str, Any] = {
    "copy_bandwidth": NUMBER, "gemm_flops": NUMBER, "gemm_extent": int,
}  # fmt: skip
ROW: dict[str, Any] = {
    "run": int, "group": str, "text": str, "flops": NUMBER, "bytes": NUMBER, "floor_us": NUMBER,
    "timed": bool, "contenders": dict,
}  # fmt: skip
CONTENDER: dict[str, Any] = {
    "error": OPTIONAL_TEXT, "warm_us": SPREAD, "cold_us": SPREAD, "rounds": int,
    "launches": (int, type(None)), "make_seconds": NUMBER, "accuracy": (dict, type(None)),
}  # fmt: skip
ACCURACY: dict[str, Any] = {
    "error": NUMBER, "eager_error": NUMBER, "bound": NUMBER, "ok": bool,
}  # fmt: skip

SAME = ("sources", "torch", "device", "backend")
"""Of runs whose rows need not be measured again."""

Row = dict[str, Any]


def write(path: Path, data: Row) -> None:
    """Writes a record in one step, so that a run that is cut off leaves a whole file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(data, indent=1) + "\n")
    os.replace(part, path)


@dataclass(frozen=True)
class Wanted:
    """What a row must have for its case to be done."""

    contenders: Sequence[str]
    run: Row
    timed: bool
    without_error: bool
    """Else what failed is done as well: it would fail again."""


def problems(data: Any) -> list[str]:
    """What is wrong with a record, as sentences; none if nothing is."""
    if not isinstance(data, dict) or data.get("schema") != VERSION:
        return [f"expected a record with schema {VERSION}"]
    found = _fields("the record", data, {"schema": int, "runs": list, "rows": dict})
    if found:
        return found
    for number, run in enumerate(data["runs"]):
        found += _fields(f"run {number}", run, RUN)
        found += _fields(f"run {number}'s ceilings", run.get("ceilings"), CEILINGS)
    for name, row in data["rows"].items():
        found += _row_problems(name, row, len(data["runs"]))
    return found


def _row_problems(name: str, row: Any, runs: int) -> list[str]:
    if found := _fields(name, row, ROW):
        return found
    if not 0 <= row["run"] < runs:
        found.append(f"{name}: expected one of {runs} runs, found {row['run']}")
    for contender, result in row["contenders"].items():
        who = f"{name}, {contender}"
        if wrong := _fields(who, result, CONTENDER):
            found += wrong
            continue
        for column in ("warm_us", "cold_us"):
            spread = result[column]
            if spread is not None and not _is_spread(spread):
                found.append(f"{who}: expected [median, p20, p80] in order, found {spread}")
        if result["accuracy"] is not None:
            found += _fields(f"{who}, accuracy", result["accuracy"], ACCURACY)
    return found


def _fields(what: str, value: Any, expected: Mapping[str, Any]) -> list[str]:
    if not isinstance(value, dict):
        return [f"{what}: expected an object, found {value!r}"]
    found = [f"{what}: '{key}' is missing" for key in expected if key not in value]
    found += [f"{what}: '{key}' is unknown" for key in value if key not in expected]
    return found + [
        f"{what}: '{key}' has the wrong type: {value[key]!r}"
        for key, kind in expected.items()
        if key in value and (not isinstance(value[key], kind) or _is_stray_bool(value[key], kind))
    ]


def _is_stray_bool(value: object, kind: object) -> bool:
    return isinstance(value, bool) and kind is not bool


def _is_spread(spread: Sequence[Any]) -> bool:
    if len(spread) != 3 or not all(isinstance(v, NUMBER) for v in spread):
        return False
    median, low, high = spread
    return 0 <= low <= median <= high


class Record:
    """A record in a file; rows are saved as they come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        empty = {"schema": VERSION, "runs": [], "rows": {}}
        self.data: Row = load(path) if path.exists() else empty

    @property
    def rows(self) -> dict[str, Row]:
        return self.data["rows"]

    def begin(self, run: Row) -> int:
        """The number of a run that is added."""
        self.data["runs"].append(run)
        return len(self.data["runs"]) - 1

    def has(self, case: str, wanted: Wanted) -> bool:
        """Whether a case has all that is wanted, from the same dlc, PyTorch and device."""
        row = self.rows.get(case)
        if row is None or (wanted.timed and not row["timed"]):
            return False
        found = [row["contenders"].get(name) for name in wanted.contenders]
        if None in found or (wanted.without_error and any(r and r["error"] for r in found)):
            return False
        before = self.data["runs"][row["run"]]
        return all(before[key] == wanted.run[key] for key in SAME)

    def put(self, case: str, row: Row) -> None:
        self.rows[case] = row
        self.save()

    def save(self) -> None:
        write(self.path, self.data)

    def merge(self, other: Row) -> None:
        """
        Adds the rows of another record. Of a case that both have, the row with more contenders
        stays, of as many the later one.
        """
        first = len(self.data["runs"])
        self.data["runs"] += other["runs"]
        for case, row in other["rows"].items():
            moved = row | {"run": row["run"] + first}
            mine = self.rows.get(case)
            if mine is None or self._rank(moved) > self._rank(mine):
                self.rows[case] = moved

    def _rank(self, row: Row) -> tuple[bool, int, str]:
        return row["timed"], len(row["contenders"]), self.data["runs"][row["run"]]["date"]


def load(path: Path) -> Row:
    """A record from a file. ValueError with all that is wrong with it."""
    try:
        data = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    if wrong := problems(data):
        shown = "\n".join(f"  {line}" for line in wrong[:10])
        raise ValueError(f"{path} is not as bench/record.py says:\n{shown}")
    return data

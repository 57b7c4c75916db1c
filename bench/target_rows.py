"""Rows of programs by target, which processes make side by side and a file keeps."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, as_completed
from pathlib import Path
from typing import Any

from record import write

from dlc.cli.status_line import bar, progress
from dlc_bench.records import where_and_when

Row = dict[str, Any]
SAVE_SECONDS = 5.0
"""Between two writes of a file."""


class Record:
    """The JSON file: rows by target and program, saved as they come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data: Row = json.loads(path.read_text()) if path.exists() else {}
        self.data |= where_and_when()
        self.rows: dict[str, dict[str, Row]] = self.data.setdefault("rows", {})
        self._saved = time.monotonic()

    def has(self, target: str, name: str, key: str) -> bool:
        """True if there is a row that was made of the same; what failed is tried again."""
        row = self.rows.get(target, {}).get(name, {})
        return row.get("key") == key and "error" not in row

    def put(self, target: str, name: str, row: Row) -> None:
        self.rows.setdefault(target, {})[name] = row
        if time.monotonic() - self._saved > SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        write(self.path, self.data)
        self._saved = time.monotonic()


def run_all(
    pool: Executor, what: str, calls: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]]
) -> Iterable[tuple[str, Any]]:
    """The results of named calls as they come."""
    futures: dict[Future[Any], str] = {pool.submit(f, *a): name for name, (f, a) in calls.items()}
    with progress(f"{what} …") as show:
        for done, future in enumerate(as_completed(futures), 1):
            name = futures[future]
            show(f"{bar(done / len(calls))} {done} of {len(calls)} {what}: {name}")
            try:
                yield name, future.result()
            except Exception as error:  # a process that died takes nothing else with it
                yield name, {"error": f"{type(error).__name__}: {error}"}

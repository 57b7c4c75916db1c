"""Tables of what can be told without a GPU, of which the rows that are asked for are made anew."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernel_rows import Maker, Row, start_worker
from static import lower

from dlc.cli.status_line import progress
from dlc_bench.records import where_and_when, write_record

RESULTS = Path(__file__).parent / "results"


def lowered(text: str, chip: str) -> list[Row]:
    """The kernels of a program in the order of their launches; RuntimeError where it has none."""
    return compiled(text, chip)["kernels"]


def compiled(given: str | Maker, chip: str) -> Row:
    """`static.lower`; RuntimeError where it has an error."""
    found = lower(given, chip)
    if "error" in found:
        raise RuntimeError(found["error"])
    return found


def update(
    name: str,
    doc: str | None,
    rows: Mapping[str, Callable[[], Any]],
    markdown: Callable[[Row], str],
    key: str = "",
) -> None:
    """
    A script's main: makes the rows that --only matches, keeps others, and writes results/NAME; the
    rows alone, or a record with a date that has them under a key.
    """
    parser = argparse.ArgumentParser(description=(doc or "").strip().partition("\n")[0])
    parser.add_argument("--only", default="", help="a regular expression for names of rows")
    only = re.compile(parser.parse_args().only)
    start_worker()
    path = RESULTS / f"{name}.json"
    data: Row = json.loads(path.read_text()) if path.exists() else {}
    known = data.get(key, {}) if key else data
    with progress(f"{name} …") as show:
        for row, make in rows.items():
            if only.search(row):
                show(row)
                known[row] = make()
    made = {row: known[row] for row in rows if row in known}
    if key:
        record = {**where_and_when(), key: made}
        write_record(path, record, markdown(record))
        return
    path.write_text(json.dumps(made, indent=1) + "\n")
    path.with_suffix(".md").write_text(markdown(made))

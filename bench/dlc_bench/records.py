"""How scripts that measure say where they did, and write down what they found."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any


def machine() -> str:
    """Processor, cores and Python."""
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def where_and_when() -> dict[str, str]:
    """What a record of today on this machine begins with."""
    return {"date": date.today().isoformat(), "machine": machine()}


def run_dlc(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the installed command; a failure ends the script with its message."""
    command = [Path(sys.executable).with_name("dlc"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr or done.stdout)
    return done


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    first, *others = [f"| {' | '.join(cells)} |" for cells in (header, *rows)]
    return [first, "|" + "---|" * len(header), *others]


def write_record(path: Path, record: dict[str, Any], text: str, *, quiet: bool = False) -> None:
    """
    Writes a record as JSON and as text, in files beside each other; the text is printed unless
    `quiet`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(record, indent=2) + "\n")
    path.with_suffix(".md").write_text(text)
    if not quiet:
        print(text, end="")

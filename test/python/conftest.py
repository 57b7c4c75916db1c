"""What tests share, and what a run of them says at its end."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import dlc
from dlc.backend.export import export_program
from dlc.garbage import YOUNG
from dlc.plugins import TABLES
from dlc.stages import Stages

# What tests and the commands that they start import is compiled once, whatever the environment says
# of bytecode: to compile dlc is a quarter of what a command takes.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

Stages.keeps = False  # what tests compile, passes make


def pytest_collection_finish() -> None:
    """Tests collect garbage as a compilation does, and not in what all of them import."""
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The part of exported programs for the host that is the same for all, compiled once."""
    directory = tmp_path_factory.mktemp("scheduler")
    program = dlc.compile(torch.relu, (torch.ones(3),), backend="host")
    export_program(program.variants[0].module("kernel"), directory)
    command = ["make", "HOST=1", "-C", str(directory), "host/scheduler.o"]
    subprocess.run(command, capture_output=True, check=True)
    return directory / "host" / "scheduler.o"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The kill rate of mutants, and what survived, as Markdown (see `test_mutants`)."""
    found = [
        value
        for status in ("passed", "failed")
        for report in terminalreporter.getreports(status)
        for name, value in report.user_properties
        if name == "mutants"
    ]
    if not found:
        return
    by = Counter(kind for _, verdicts, _ in found for kind in verdicts)
    total, alive = sum(by.values()), [(name, *row) for name, _, rows in found for row in rows]
    excused = sum(bool(why) for *_, why in alive)
    killed = total - len(alive)
    rate = 100 * killed / max(total - excused, 1)
    write = terminalreporter.write_line
    terminalreporter.section("mutants")
    write(
        f"{total} mutants of {len(found)} programs: {killed} killed, {excused} equivalent; kill "
        f"rate {rate:.4g} %"
    )
    write("Killed by " + ", ".join(f"{kind} {n}" for kind, n in by.most_common() if kind))
    if alive:
        write("\n| program | survivor | operation | why it is equivalent |\n|---|---|---|---|")
    for name, kind, line, why in sorted(alive):
        write(f"| {name} | {kind} | `{line[:100]}` | {why or 'UNEXPLAINED'} |")


@pytest.fixture(autouse=True)
def _tables_of_files() -> Iterator[None]:
    """What a test registers, replaces or removes does not keep later ones from being kept."""
    before = [table.is_in_files for table in TABLES]
    yield
    for table, was in zip(TABLES, before, strict=True):
        table.is_in_files = was

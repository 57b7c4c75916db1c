"""The measurement of generation, in small, on the host; and its processes, which take turns."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import generation
import pytest
from fake_turns import a_job
from generation_cases import Case, How
from generation_peers import equal_prefix
from generation_steps import measure_case
from turns import Job, Row, run


class Alone:
    """A turn without other jobs."""

    def __init__(self, known: Row) -> None:
        self.known, self.rows = known, list[Row]()

    def wait(self) -> Row:
        return self.known

    def send(self, row: Row) -> None:
        self.rows.append(dict(row))


def measured(peers: tuple[str, ...], case: Case, **known: Any) -> list[Row]:
    turn: Any = Alone(known)
    measure_case(turn, case, How("host", peers, logits=True))
    return turn.rows


def test_a_case_is_measured_checked_and_told_step_by_step() -> None:
    config = generation.TINY | {"num_hidden_layers": 1}
    case = Case("tiny", config, 2, 64, prompt=8, new=3, steps=1)
    rows = measured(("eager", "dynamic"), case, copy_bandwidth=1e10)
    row = rows[-1]
    assert "step_us" not in rows[0]
    assert row["compile_seconds"] > 0
    assert row["programs"] == 3  # of a chunk, a token, and logits
    assert row["step_us"] > 0
    assert row["text_us"] > 0
    assert row["logits"]["ok"]
    assert row["repeats"]
    assert row["choices"]["tokens"] == 6
    assert row["choices"]["wrong"] == 0
    for peer in ("eager", "dynamic"):
        assert row["peers"][peer]["equal_tokens"]["least"] == 3
        assert row["peers"][peer]["step_us"] > 0
    shown = dict(zip(generation.HEADER, generation.cells(case.name, row), strict=True))
    assert shown["likeliest by fp32"].endswith("of 6, 0 wrong")
    assert shown["equal tokens"] == "3, 3"


def test_prefixes_are_counted() -> None:
    assert equal_prefix([1, 2, 3], [1, 2, 4]) == 2
    assert equal_prefix([1, 2], [1, 2]) == 2


def test_cases_by_importance_and_by_layers() -> None:
    options = generation.make_parser().parse_args(["--layers", "2", "--only", "TinyLlama"])
    found = list(generation.cases(options))
    assert [case.name for case in found] == ["TinyLlama b1", "TinyLlama b64", "TinyLlama b8"]
    assert all(case.config["num_hidden_layers"] == 2 for case in found)


def test_peers_that_do_not_exist_are_refused() -> None:
    options = generation.make_parser().parse_args(["--peers", "eager,nothing"])
    with pytest.raises(SystemExit, match="found nothing"):
        generation.jobs_of(options)


def test_jobs_take_turns_and_their_ends_are_rows() -> None:
    rows: dict[str, Row] = {}

    def on_row(name: str, row: Row) -> None:
        rows[name] = rows.get(name, {}) | row

    run([Job(name, a_job, (name,)) for name in ("fails", "dies")], time.monotonic() + 30, on_row)
    run([Job("hangs", a_job, ("hangs",))], time.monotonic() + 5, on_row)
    assert rows["fails"]["error"] == "ValueError: as it is told"
    assert rows["dies"]["error"] == "its process ended with code 3"
    assert rows["hangs"]["error"] == "the budget is spent"
    first, then = sorted(("fails", "dies"), key=lambda name: rows[name]["begin"])
    assert [rows[name]["known"] for name in (first, then)] == [{}, {"seen": first}]


def test_a_run_writes_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"step_us": 2000.0, "share": 0.5, "launches": 9, "estimate_us": 3.0, "host_us": 5.0,
             "compile_seconds": 1.0, "machine_code_seconds": 2.0,
             "peers": {"eager": {"error": "RuntimeError: none"}}}  # fmt: skip

    def done(jobs: list[Job], deadline: float, on_row: Any) -> None:
        on_row(jobs[0].name, found)

    monkeypatch.setattr(generation, "run", done)
    generation.main(["--rehearse", "--output", str(tmp_path / "found")])
    assert json.loads((tmp_path / "found.json").read_text())["rows"]["tiny b2"] == found
    assert "| tiny b2 | 9 | 3 us | 2.00 ms | 50% | 5 us |" in (tmp_path / "found.md").read_text()
    assert "-, -: RuntimeError: none" in (tmp_path / "found.md").read_text()

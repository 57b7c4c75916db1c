"""Programs that are measured on a GPU, beside their estimates: here on the host, in small."""

from __future__ import annotations

import json
from pathlib import Path

import measured
import measured_programs
import pytest

SMALL = r"^halves/tl\.kv_proj\.s1$|^attention/float32\.64\.128\.causal$"


def test_names_are_unique_and_found() -> None:
    programs = measured_programs.select()
    names = [program.name for program in programs]
    assert len(set(names)) == len(names) > 300
    for program in programs[:: len(programs) // 20]:
        assert measured_programs.find(program.name).options == program.options
    assert {p.group for p in programs} == set(measured_programs.GROUPS)


def test_programs_are_checked_timed_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "measured"
    arguments = ["--backend", "host", "--target", "sm_90", "--jobs", "1", "--only", SMALL]
    assert measured.main([*arguments, "--output", str(output), "--patience", "10"]) == 0
    rows = json.loads(output.with_suffix(".json").read_text())["rows"]
    assert len(rows) == 2
    for row in rows.values():
        assert not measured.errors(row)
        assert row["estimate_us"] > 0
        assert measured.microseconds(row, "dlc")
        assert measured.microseconds(row, "eager")
    text = output.with_suffix(".md").read_text()
    assert "1 of 1 programs timed" in text
    assert "kv_proj.s1" in text
    capsys.readouterr()
    assert measured.main([*arguments, "--output", str(output)]) == 0  # all of it is there
    assert "us;" not in capsys.readouterr().out


def test_what_fails_is_the_row_of_its_program() -> None:
    row = {"error": "dlc: killed after 60 s during its kernels"}
    assert "killed" in measured.told(row)
    text = measured.markdown({}, {"halves/x": row})
    assert "- halves/x: dlc: killed" in text

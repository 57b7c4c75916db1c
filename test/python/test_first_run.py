"""The first run on a GPU: its stages, what it calls, and that none of them stops the others."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import first_run
import generation
import jobs
import measured
import measured_programs
import pytest
import sanitize
import suite
from record import CONTENDER, ROW

from dlc.cli.dlc_cli import make_parser


@pytest.fixture
def made(tmp_path: Path) -> Any:
    def make(*arguments: str) -> first_run.Run:
        options = first_run.make_parser().parse_args(
            ["--output", str(tmp_path / "out"), "--wheels", str(tmp_path), *arguments]
        )
        return first_run.Run(options)

    return make


def test_a_stage_that_fails_does_not_stop_the_next(made: Any) -> None:
    run = made()
    python = [sys.executable, "-c"]
    assert run.stage("good", 20, *python, "print('hello')").verdict == "done"
    assert run.stage("bad", 20, *python, "exit(3)").verdict == "failed with code 3"
    assert run.stage("missing", 20, "/no/such/tool").verdict.startswith("cannot be started")
    hanging = run.stage(
        "hanging", 1.5, *python, "import time; print(1, flush=True); time.sleep(99)"
    )
    assert hanging.verdict == "ended after 2 s"
    assert run.stages[0].last == ["hello"]
    text = (run.output / "stages.md").read_text()
    assert "| bad | failed with code 3 |" in text
    assert "hello" in (run.output / "log.txt").read_text()
    run.deadline = 0
    assert run.stage("late", 20, "true").verdict == "not begun: the budget is spent"


def test_the_log_can_be_carried_away(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_run, "MOST_LOG_BYTES", 100)
    run = made()
    run.log.write_text("x" * 1000 + "the end")
    run.finish()
    assert run.log.stat().st_size < 200
    assert run.log.read_text().endswith("the end")
    assert not run.work.exists()


@pytest.mark.parametrize("arguments", [(), ("--rehearse",)])
def test_what_is_called_exists(
    arguments: tuple[str, ...], made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command of ours parses, and all of the time is dealt out."""
    run = made(*arguments)
    called: dict[str, list[str]] = {}
    seconds: dict[str, float] = {}

    def stage(name: str, limit: float, *command: str) -> None:
        called[name] = list(command)
        seconds[name] = limit

    monkeypatch.setattr(run, "stage", stage)
    first_run.measure(run)
    options = suite.make_parser().parse_args(called["times"][2:])
    assert options.output == run.output / "results"
    assert len(suite.choose(options)) == (2 if arguments else 84)
    assert options.budget < seconds["times"]
    options = measured.make_parser().parse_args(called["measured"][2:])
    chosen = measured_programs.select(options.group, options.only)
    assert len(chosen) == 1 if arguments else len(chosen) > 80
    assert options.budget < seconds["measured"]
    assert generation.make_parser().parse_args(called["tokens"][2:]).budget < seconds["tokens"]
    assert make_parser().parse_args(called["counters"][3:]).profile
    for name in ("sanitizer", "launches", "measured", "tokens"):
        assert (first_run.ROOT / called[name][1]).exists()
    assert (first_run.ROOT / called["tests"][-1]).exists()
    if not arguments:
        assert seconds["times"] > 200
        assert sum(seconds[n] for n in ("times", "launches", "sanitizer", "counters")) < 570


def test_there_may_be_no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/no/such/folder")
    assert first_run.commit() == "unknown"


def test_the_toolkit_of_an_nvcc_that_calls_another(tmp_path: Path) -> None:
    true = tmp_path / "cuda-13.0" / "bin" / "nvcc"
    true.parent.mkdir(parents=True)
    script = tmp_path / "bin" / "nvcc"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\necho '#$ TOP={true.parent}/..' >&2\n")
    script.chmod(0o755)
    assert first_run.toolkit(str(script)) == tmp_path / "cuda-13.0"
    assert first_run.toolkit(str(true)) == tmp_path / "cuda-13.0"  # says nothing


def test_wheels_are_installed_beside(made: Any, tmp_path: Path) -> None:
    run = made("--rehearse")
    first_run.install(run)
    first_run.build_pycuda(run)
    assert run.stages == []  # there are none
    (tmp_path / "broken-1.0-py3-none-any.whl").write_text("no wheel")
    first_run.install(run)
    assert [s.name for s in run.stages] == ["install"]
    assert run.stages[0].verdict.startswith("failed")


def test_what_was_tuned_beside_others_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    for name in ("ab/chosen.best_config", "ab/kernel.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    jobs.forget_tuning()
    assert [p.name for p in (tmp_path / "ab").iterdir()] == ["kernel.py"]


def test_sanitizers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are made for every case; what the tool says is the verdict."""
    tool = tmp_path / "compute-sanitizer"
    tool.write_text('#!/bin/sh\ntest "$2" = memcheck || exit 9\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(sanitize, "CASES", sanitize.CASES[-2:])
    assert sanitize.main(["--tool", "memcheck"]) == 0
    assert sanitize.main([]) == 1
    host = sanitize.command("memcheck", "host", [tmp_path])
    assert "compute-sanitizer" not in " ".join(host)
    assert sanitize.command("racecheck", "cuda", [tmp_path])[:3] == [
        str(tool), "--tool", "racecheck",
    ]  # fmt: skip


# The jobs themselves, with PyTorch, in this process


def test_a_row(tmp_path: Path) -> None:
    plugged = tmp_path / "mine.py"
    plugged.write_text(
        "def mine(case):\n    return case.function\n"
        "def off(case):\n    return lambda *t: case.function(*t) * 1.01\n"
        "def absent(case):\n    return None\n"
    )
    steps: list[tuple[str, str, float]] = []
    job = {"backend": "host", "target": None, "case": "rmsnorm.tl.s32"}
    places = {name: f"{plugged}:{name}" for name in ("mine", "off", "absent")}
    names = ["dlc", "eager", *places]
    jobs.handle(job | {"kind": "build", "contenders": ["dlc"]}, lambda *step: None)
    row = jobs.handle(
        job | {"kind": "measure", "contenders": names, "seconds": 0.0, "plugged": places},
        lambda *step: steps.append(step),
    )
    assert (row | {"run": 0}).keys() == ROW.keys()
    found = row["contenders"]
    assert all(result.keys() == CONTENDER.keys() for result in found.values())
    errors = {name: result["error"] for name, result in found.items()}
    assert errors.pop("off").startswith("wrong results")
    assert errors.pop("absent") == "TakesNoPart: takes no part"
    assert errors == {"dlc": None, "eager": None, "mine": None}
    assert found["dlc"]["warm_us"][0] > 0
    told = [step for name, step, _ in steps if name == "dlc"]
    assert any(step.startswith("kernel ") and step.endswith(", 1 of 1") for step in told)
    checked = jobs.handle(
        job | {"kind": "measure", "contenders": ["eager"], "check_only": True}, lambda *step: None
    )
    assert not checked["timed"]

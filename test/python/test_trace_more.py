"""What a trace shows on request: results between passes, and views of products of tensor cores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import browser
import pytest
from test_trace import HALVES, TEXT, data_of, traced

from dlc.cli.dlc_cli import main
from dlc.cli.kernel_times import read_times
from dlc.judge.validation import WrongResult
from dlc.trace.model import Candidates, Measured, Measurement, Trace, Tried
from dlc.trace.page import page
from dlc.trace.verdicts import NO_CHANGE, NOT_COMPARED, SAME, Verdicts

SMALL = "torch.randn(3) + 1"
WRONG_PASS = 5


class Judge:
    """A validation that finds every second pass to change the program, and one its result."""

    def __init__(self, wrong: int | None) -> None:
        self.wrong, self.checked, self.passes = wrong, 0, 0

    def start(self, module: object, steps: object) -> None:
        pass

    def passed(self, *_: object) -> None:
        self.passes += 1
        self.checked += self.passes % 2
        if self.passes == self.wrong:
            raise WrongResult("the result changes: 3 is not 4")

    def __str__(self) -> str:
        return f"{self.passes} passes ran"


def judged(wrong: int | None) -> Trace:
    judge: Any = Judge(wrong)
    return traced(TEXT, verdicts=Verdicts(judge))[0]


def test_passes_have_verdicts() -> None:
    trace = judged(None)
    assert [done.verdict for done in trace.passes[:3]] == [SAME, NO_CHANGE, SAME]
    assert trace.validated == f"{len(trace.passes)} passes ran"


def test_a_wrong_pass_is_shown_and_what_follows_is_not_compared() -> None:
    trace = judged(WRONG_PASS)
    said = [done.verdict for done in trace.passes]
    wrong = said[WRONG_PASS - 1]
    assert wrong is not None
    assert (wrong.wrong, wrong.text) == (True, "the result changes: 3 is not 4")
    assert set(said[WRONG_PASS:]) == {NOT_COMPARED}
    assert trace.validated == wrong.text
    assert trace.panes[-1].ir == "cuda"


def test_validation_stands_in_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.html"
    assert main(["trace", "-c", SMALL, "--target", "sm_90", "--validate", "-o", str(file)]) == 0
    said = capsys.readouterr().err
    data = data_of(file.read_text())
    assert data["validated"]
    assert data["validated"] in said
    verdicts = [done["verdict"]["text"] for done in data["passes"]]
    changed = [bool(done["edits"]) for done in data["passes"]]
    assert verdicts == ["same results" if edits else "no change" for edits in changed]


def test_a_wrong_result_is_an_error_after_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dlc.cli.commands._validation", lambda *_: Judge(WRONG_PASS))
    file = tmp_path / "page.html"
    for command in (["trace", "-o"], ["compile", "--validate", "--trace"]):
        given = [command[0], "-c", SMALL, "--target", "sm_90", "--validate", command[-1], str(file)]
        assert main(given) == 1
        assert "error: the result changes: 3 is not 4" in capsys.readouterr().err
        assert data_of(file.read_text())["validated"] == "the result changes: 3 is not 4"
        file.unlink()


def test_a_seed_is_for_a_validation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "-c", SMALL, "--seed", "1"]) == 2
    assert "--seed needs --validate" in capsys.readouterr().err


def test_candidates_that_lost_are_those_of_the_explanation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (kernel,) = traced(HALVES)[0].kernels
    found = kernel.candidates
    assert found is not None
    assert main(["compile", "-c", HALVES, "--target", "sm_90", "--explain"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert found.lost
    assert all(" ".join(text.split()) in said for text in (found.chosen, *found.lost))


def test_times_of_a_run_stand_beside_the_estimate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times, file = tmp_path / "times.json", tmp_path / "page.html"
    program = ["-c", SMALL, "--target", "sm_90"]
    here = ["--backend", "host", "--times", str(times), "--trace", str(file)]
    assert main(["run", *program, *here]) == 0
    (told,) = json.loads(times.read_text())["kernels"].items()
    data = data_of(file.read_text())
    (kernel,) = data["kernels"]
    assert data["measured"] == "dlc run on host"
    assert (kernel["name"], kernel["measured"]["seconds"]) == (told[0], told[1]["seconds"])
    assert kernel["measured"]["seconds"] > 0
    assert kernel["measured"]["launches"] == 1

    assert main(["trace", *program, "--times", str(times), "-o", str(file)]) == 0
    again = data_of(file.read_text())
    assert again["kernels"][0]["measured"] == kernel["measured"]
    assert again["measured"] == "dlc run on host, times.json"
    capsys.readouterr()
    assert main(["trace", "-c", HALVES, "--times", str(times), "-o", str(file)]) == 1
    said = capsys.readouterr().err
    assert f"are of {told[0]}, not of matmul" in said


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"how": "x", "kernels": {"a": 3}}',
        '{"how": "x", "kernels": {"a": {"seconds": -1, "launches": 1}}}',
        '{"how": "x", "kernels": {"a": {"seconds": 1, "launches": 0}}}',
        '{"kernels": {}}',
    ],
)
def test_other_files_hold_no_times(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "times"
    file.write_text(text)
    assert main(["trace", "-c", SMALL, "--times", str(file)]) == 2
    said = capsys.readouterr().err
    assert f"expected times of kernels in {file}, found something else" in said
    assert "dlc run --times FILE.json writes them" in said


NCU = """==PROF== Connected to process 1
"ID","Kernel Name","gpu__time_duration.sum","sm__inst_issued.avg.pct_of_peak_sustained_active"
"","","ns","%"
"0","add(float *)","2000","50"
"1","add(float *)","4000","70"
"""


def test_times_of_nsight_compute(tmp_path: Path) -> None:
    file = tmp_path / "ncu.csv"
    file.write_text(NCU)
    found = read_times(str(file))
    (kernel,) = traced("torch.randn(3) + 1", measured=found)[0].kernels
    assert kernel.measured is not None
    assert kernel.measured.seconds == pytest.approx(3e-6)
    assert kernel.measured.launches == 2
    assert kernel.measured.counters == {"percent_of_issue_slots": 50}


def test_a_tuning_shows_what_it_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, best = tmp_path / "page.html", tmp_path / "best.mlir"
    text = "torch.randn(64, 512).sum(1)"
    given = ["--objective", "estimate", "--budget", "12", "--db", str(tmp_path / "db")]
    files = ["--trace", str(file), "-o", str(best)]
    assert main(["tune", "-c", text, "--target", "sm_90", *given, *files]) == 0
    said = capsys.readouterr().out
    data = data_of(file.read_text())
    (kernel,) = data["kernels"]
    tried = kernel["candidates"]["tried"]
    assert sorted(one["number"] for one in tried) == [*range(12)]
    judged = [one["seconds"] for one in tried if one["seconds"] >= 0]
    assert judged == sorted(judged)
    assert kernel["candidates"]["objective"] in said
    assert kernel["candidates"]["chosen"] in said
    assert kernel["schedule"] in best.read_text()
    assert {pane["ir"] for pane in data["panes"]} >= {"python", "torch", "cuda"}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Browser]:
    if reason := browser.missing():
        pytest.skip(f"{reason}: apt-get install chromium chromium-driver")
    folder = tmp_path_factory.mktemp("browser")
    judge: Any = Judge(WRONG_PASS)
    times = Measurement("dlc run on host", {"matmul": Measured(1e-3, 2, {})})
    tried = [Tried(1, "x", 2e-6, 1e-6, False, ""), Tried(0, "", 1e-6, 2e-6, False, "")]
    tuned = {
        "matmul": Candidates("1 us", ["2 us"], "by x", [*tried, replace(tried[0], seconds=-1)])
    }
    trace = traced(HALVES, verdicts=Verdicts(judge), measured=times, tuned=tuned)[0]
    file = folder / "page.html"
    file.write_text(page(replace(trace, title="halves")))
    with browser.Browser(folder / "profile", 1280, 800) as window:
        window.open(file)
        yield window


def test_lanes_are_coloured(shown: browser.Browser) -> None:
    shown.press("3")
    of_lane = "return document.querySelectorAll('rect[data-lane=\"' + arguments[0] + '\"]').length"
    assert [shown.run(of_lane, lane) for lane in (0, 31)] == [16, 16]  # 8 of A, 4 of B, 4 of C
    shown.run("document.querySelector('.lanes input').focus()")
    shown.press("right")
    held = "return [...document.querySelectorAll('rect.held')].map(r => r.dataset.lane)"
    assert shown.run(held) == ["1"] * 16
    assert "1 holds 8 elements of A" in shown.run(
        "return document.querySelector('.lanes').textContent"
    )
    assert shown.errors() == []


def test_lines_have_their_costs(shown: browser.Browser) -> None:
    shown.press("3")
    rows = "return [...document.querySelectorAll('table.lines td:last-child')]" + (
        ".map(cell => cell.textContent)"
    )
    assert any("kernel.mma" in row for row in shown.run(rows))
    shown.run("document.querySelector('table.lines button').click()")
    assert "issue slots of a thread" in shown.run(
        "return document.getElementById('status').textContent"
    )
    assert shown.errors() == []


def test_candidates_and_times_are_shown(shown: browser.Browser) -> None:
    shown.press("3")
    text = shown.run("return document.getElementById('kernels').textContent")
    for part in ("Candidates", "rather than", "3 candidates tried, by x: 1 refused", "us measured"):
        assert part in text
    assert "1000 us measured" in shown.run("return document.getElementById('facts').textContent")
    assert shown.run("return document.querySelectorAll('#costs circle').length") == 3
    assert shown.errors() == []


def test_verdicts_stand_at_their_passes(shown: browser.Browser) -> None:
    shown.press("2")
    marks = "return [...document.querySelectorAll('#steps .verdict')].map(v => v.textContent)"
    said = shown.run(marks)
    assert said[0] == "✓ same results"
    assert said[WRONG_PASS - 1] == "✗ the result changes: 3 is not 4"
    assert shown.errors() == []


def test_nothing_scrolls_sideways(shown: browser.Browser) -> None:
    for view in "123":
        shown.press(view)
        wide = "return [...document.querySelectorAll('html, #kernels, #costs, #steps')]" + (
            ".every(box => box.scrollWidth <= box.clientWidth)"
        )
        assert shown.run(wide), view

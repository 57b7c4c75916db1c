"""What a trace shows on request: results between passes, and views of products of tensor cores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import browser
import pytest
from test_trace import HALVES, TEXT, data_of, traced

from dlc.cli.dlc_cli import main
from dlc.judge.validation import WrongResult
from dlc.trace.model import Trace
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


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Browser]:
    if reason := browser.missing():
        pytest.skip(f"{reason}: apt-get install chromium chromium-driver")
    folder = tmp_path_factory.mktemp("browser")
    judge: Any = Judge(WRONG_PASS)
    trace = traced(HALVES, verdicts=Verdicts(judge))[0]
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

"""What a notebook shows of a compiled program."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest
import torch
from test_trace import data_of

import dlc
from dlc import notebook
from dlc.passes import PRINTED

VOID = {"br", "hr", "img", "meta"}


class Elements(HTMLParser):
    """The texts of elements by their names; AssertionError where tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        assert tag not in (*VOID, "script", "link")
        self.open.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts[self.open[-1]][-1] += data


def test_a_notebook_shows_kernels_schedules_and_all_irs() -> None:
    x = torch.randn(4, 40)
    f = dlc.compile(lambda x: torch.softmax(x, -1) < 0.5, (x,), target="sm_90", backend="host")
    found = Elements(f._repr_html_()).texts
    (kernel,) = f.kernels
    told = kernel.name, kernel.grid, kernel.block, kernel.shared_bytes, kernel.schedule
    assert found["td"] == list(map(str, told))
    assert found["code"] == [repr(f), '.trace("trace.html")']
    assert found["summary"] == list(PRINTED)
    assert found["pre"] == [f.ir(stage) for stage in PRINTED]
    assert any("<" in text for text in found["pre"])


def test_a_notebook_leads_to_the_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, mine = torch.randn(64, 48), "tileify,blockify-launch{block=16,16 thread=4,4}"
    f = dlc.compile(
        torch.nn.Linear(48, 32), (x,), "sm_90", "host", schedules={"linear": mine}, tuned=True
    )
    page = tmp_path / "a page.html"
    f.trace(page)
    shown = f._repr_html_()
    assert str(page) in Elements(shown).texts["a"]
    assert f'href="{quote(str(page))}"' in shown
    data = data_of(page.read_text())
    assert data["title"] == "Linear"
    (kernel,) = data["kernels"]
    assert kernel["schedule"] == mine
    texts = {pane["ir"]: [*pane["lines"], ""] for pane in data["panes"]}
    for stage in PRINTED:
        assert texts[stage] == f.ir(stage).split("\n")


class FakeDisplay:
    """What IPython's display module does for a notebook."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def HTML(self, text: str) -> str:
        return text

    def display(self, text: str, display_id: bool) -> FakeDisplay:
        assert display_id
        self.shown.append(text)
        return self

    def update(self, text: str) -> None:
        self.shown.append(text)


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> FakeDisplay:
    """A notebook's display, where there is none else."""
    assert notebook.progress() == []  # there is no IPython, or no notebook
    display = FakeDisplay()
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return display


def test_progress_of_a_tuning_is_shown_in_notebooks(display: FakeDisplay) -> None:
    x = torch.randn(8, 64)
    dlc.tune(lambda x: x.sum(-1), (x,), "sm_90", objective="estimate", budget=4, database=False)
    assert any(re.search(r"sum: 3, best \d+\.\d\d us", text) for text in display.shown)
    assert display.shown[-1] == ""


def test_progress_is_shown_in_notebooks(display: FakeDisplay) -> None:
    dlc.compile(torch.relu, (torch.randn(4),), target="sm_90", backend="host")
    assert any("lift-to-loops …" in text for text in display.shown)
    assert display.shown[-1] == ""  # gone when it is done


def test_a_program_that_is_not_compiled_yet_says_so() -> None:
    from dlc.compiler import CompiledProgram, get_backend

    f = CompiledProgram(torch.relu, "sm_90", get_backend("host"))
    found = Elements(f._repr_html_()).texts
    assert "not compiled yet" in found["code"][0]
    assert set(found) == {"div", "code"}

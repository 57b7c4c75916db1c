"""What a notebook shows of a compiled program."""

from __future__ import annotations

from html.parser import HTMLParser

import torch

import dlc
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
    assert found["code"] == [repr(f)]
    assert found["summary"] == list(PRINTED)
    assert found["pre"] == [f.ir(stage) for stage in PRINTED]
    assert any("<" in text for text in found["pre"])


def test_a_program_that_is_not_compiled_yet_says_so() -> None:
    from dlc.compiler import CompiledProgram, get_backend

    f = CompiledProgram(torch.relu, "sm_90", get_backend("host"))
    found = Elements(f._repr_html_()).texts
    assert "not compiled yet" in found["code"][0]
    assert set(found) == {"div", "code"}

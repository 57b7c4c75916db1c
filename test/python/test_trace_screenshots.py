"""Screenshots of the trace page, light and dark: what is drawn stands where the page says."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest
from matplotlib.image import imread
from numpy.typing import NDArray
from test_trace import TEXT, click_line, traced

from dlc.trace.page import page

Pixels = NDArray[np.int64]
WIDTH = 1280
BOXES = """
return [...document.querySelectorAll(arguments[0])].map(e => {
  const own = e.getBoundingClientRect();
  const around = e.closest(arguments[1]).getBoundingClientRect();
  return [Math.max(own.left, around.left), Math.max(own.top, around.top),
    Math.min(own.right, around.right), Math.min(own.bottom, around.bottom)];
}).filter(([left, top, right, bottom]) => left < right && top < bottom)
"""
"""What is seen of elements inside of others around them: left, top, right, bottom."""
COLOUR = (
    "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]].match(/[0-9]+/g)"
)


@pytest.fixture(scope="module", params=[False, True], ids=["light", "dark"])
def shown(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[browser.Browser]:
    if reason := browser.missing():
        pytest.skip(f"{reason}: apt-get install chromium chromium-driver")
    folder = tmp_path_factory.mktemp("browser")
    file = folder / "page.html"
    file.write_text(page(traced(TEXT)[0]))
    with browser.Browser(folder / "profile", WIDTH, 800, dark=request.param) as window:
        window.open(file)
        dark = window.run("return matchMedia('(prefers-color-scheme: dark)').matches")
        assert dark == request.param
        yield window


def screenshot(window: browser.Browser, folder: Path) -> Pixels:
    """The colours of a window's pixels, by row and column."""
    window.picture(folder / "shown.png")
    return np.rint(imread(folder / "shown.png")[..., :3] * 255).astype(np.int64)


def boxes(window: browser.Browser, selector: str, around: str) -> list[list[float]]:
    return window.run(BOXES, selector, around)


def colour(window: browser.Browser, selector: str, name: str = "backgroundColor") -> Any:
    return np.array([int(part) for part in window.run(COLOUR, selector, name)[:3]])


def inside(picture: Pixels, box: list[float]) -> Pixels:
    left, top, right, bottom = (round(edge) for edge in box)
    return picture[top:bottom, left:right]


def share(pixels: Pixels, wanted: Any) -> float:
    """The share of pixels that have a colour."""
    return float((pixels == wanted).all(axis=-1).mean())


def test_the_panes_stand_side_by_side(shown: browser.Browser, tmp_path: Path) -> None:
    shown.press("1")
    shown.press("escape")
    picture, paper = screenshot(shown, tmp_path), colour(shown, "body")
    panes = boxes(shown, ".pane:not([style*=none])", "#panes")
    assert len(panes) == 6  # the source is opened by its button
    assert (panes[0][0], panes[-1][2]) == (0, WIDTH)
    for one, two in pairwise(panes):
        assert (one[1], one[2], one[3]) == pytest.approx((two[1], two[0], two[3]))
    for pane in panes:
        assert 0.5 < share(inside(picture, pane), paper) < 0.99  # text on paper
    for part in ("header", "footer"):
        (box,) = boxes(shown, part, "body")
        assert (box[0], box[2]) == (0, WIDTH)
        assert share(inside(picture, box), colour(shown, part)) > 0.5
    assert np.abs(paper - colour(shown, "body", "color")).max() > 150  # ink


def test_lines_that_are_lit_are_those_of_the_selection(
    shown: browser.Browser, tmp_path: Path
) -> None:
    shown.press("1")
    click_line(shown, "tile", "arith.maximumf")
    picture = screenshot(shown, tmp_path)
    for kind in ("lit", "at"):
        wanted, left = colour(shown, f"#panes .line.{kind}"), picture.copy()
        found = boxes(shown, f"#panes .line.{kind}", ".code")
        assert found
        for box in found:
            assert share(inside(picture, box), wanted) > 0.5
            inside(left, box)[:] = -1
        panes = boxes(shown, ".code", "#panes")
        assert not any(share(inside(left, pane), wanted) for pane in panes)


def test_changes_of_a_pass_are_coloured(shown: browser.Browser, tmp_path: Path) -> None:
    shown.press("2")
    shown.run(
        "[...document.querySelectorAll('#steps li')]"
        ".find(step => step.textContent.includes('t:007_stage_inputs')).click()"
    )
    picture = screenshot(shown, tmp_path)
    (steps,), (diff,) = boxes(shown, "#steps", "body"), boxes(shown, "#diff", "body")
    assert steps[2] <= diff[0] < diff[2] == WIDTH
    for kind in ("new", "old"):
        for box in boxes(shown, f"#diff .{kind}", "#diff"):
            assert share(inside(picture, box), colour(shown, f"#diff .{kind}")) > 0.3
    (chosen,) = boxes(shown, "#steps .at", "#steps")
    assert share(inside(picture, chosen), colour(shown, "#steps .at")) > 0.5


def test_what_a_thread_owns_stands_out(shown: browser.Browser, tmp_path: Path) -> None:
    shown.press("3")
    shown.run("document.querySelector('[data-thread]').scrollIntoView({behavior: 'instant'})")
    picture = screenshot(shown, tmp_path)
    wanted = colour(shown, "[data-thread].own", "fill")
    own = boxes(shown, "[data-thread].own", "#kernels")
    others = boxes(shown, "[data-thread]:not(.own)", "#kernels")
    assert (len(own), len(others)) == (1, 63)
    assert all(share(inside(picture, box), wanted) > 0.4 for box in own)
    inner = [[left + 2, top + 2, right - 2, bottom - 2] for left, top, right, bottom in others]
    assert not any(share(inside(picture, box), wanted) for box in inner)
    wide = "return [document.documentElement.scrollWidth, window.innerWidth]"
    assert shown.run(wide) == [WIDTH, WIDTH]
    assert shown.errors() == []

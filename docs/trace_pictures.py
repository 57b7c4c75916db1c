"""
The pictures of the trace page in README.md: python docs/trace_pictures.py

Needs chromium and chromedriver on PATH.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from browser import Browser, missing

from dlc.cli.dlc_cli import main

PROGRAM = "torch.relu(torch.randn(300,640) @ torch.randn(640,520) + torch.randn(520))"
FOLDER = Path(__file__).parent
WIDTH, HEIGHT = 1000, 560
SELECT = """
const lines = [...document.querySelectorAll('.pane[data-ir=tile] .line')];
lines.find(line => /tile.(stage|ring)/.test(line.textContent)).click();
"""
STEP = """
const steps = [...document.querySelectorAll('#steps li')];
steps.find(step => step.textContent.includes(arguments[0])).click();
"""
SCROLL = """
const title = [...document.querySelectorAll('h3')].find(h => h.textContent == arguments[0]);
title.scrollIntoView({behavior: 'instant'});
"""


def pictures(page: Path, profile: Path) -> None:
    """Writes `trace-irs.png`, `trace-passes.png`, `trace-kernels.png` and `trace-rings.png`."""
    with Browser(profile, WIDTH, HEIGHT) as window:
        window.open(page)
        window.run(SELECT)
        window.picture(FOLDER / "trace-irs.png")
        window.press("2")
        window.run(STEP, "t:007_stage_inputs")
        window.picture(FOLDER / "trace-passes.png")
        window.press("3")
        window.run(SCROLL, "Who stores what")
        window.picture(FOLDER / "trace-kernels.png")
        window.run(SCROLL, "Rings through time")
        time.sleep(0.5)  # until it is painted
        window.picture(FOLDER / "trace-rings.png")


if __name__ == "__main__":
    if reason := missing():
        sys.exit(f"{reason}: apt-get install chromium chromium-driver")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        main(["trace", "-c", PROGRAM, "--target", "sm_90", "-o", str(file)])
        pictures(file, Path(folder) / "profile")

"""
Trace pages, and the pictures of one of them in README.md: python docs/trace_pictures.py

The pages of an RMSNorm, a product, attention and a layer of TinyLlama are written to build/trace.
With names of pages it writes nothing: it says how large they are, and in what time they open.

Needs chromium and chromedriver on PATH.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from browser import Browser, missing

from dlc.cli.dlc_cli import main

DOCS = Path(__file__).resolve().parent
PAGES = DOCS.parent / "build" / "trace"
HEADS = "torch.randn(1, 8, 1024, 64, dtype=torch.bfloat16)"
PROGRAMS: Mapping[str, Sequence[str]] = {
    "rms-norm": ("-c", "torch.nn.RMSNorm(2048)(torch.randn(1, 32, 2048))", "--check"),
    "product": ("-c", "torch.relu(torch.randn(300,640) @ torch.randn(640,520) + torch.randn(520))"),
    "attention": ("-c", f"F.scaled_dot_product_attention(*[{HEADS} for _ in range(3)])"),
    "tiny-llama": ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "--layer", "0"),
}
"""What `dlc trace` is given for each page."""
DRAWN = "product"
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
OPENED = "const [at] = performance.getEntriesByType('navigation'); return at.loadEventEnd"


def write_page(name: str, folder: Path = PAGES) -> Path:
    """Writes the page of a program, and returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.html"
    if main(["trace", *PROGRAMS[name], "--target", "sm_90", "-o", str(file)]):
        sys.exit(f"{name} cannot be traced")
    return file


def opening(window: Browser, page: Path) -> str:
    """How large a page is, and in what time it opens."""
    window.open(page)
    seconds = window.run(OPENED) / 1e3
    return f"{page}: {page.stat().st_size / 1e6:.2f} MB, opens in {seconds:.1f} s"


def pictures(window: Browser, page: Path) -> None:
    """Writes `trace-irs.png`, `trace-passes.png`, `trace-kernels.png` and `trace-rings.png`."""
    window.open(page)
    window.run(SELECT)
    window.picture(DOCS / "trace-irs.png")
    window.press("2")
    window.run(STEP, "t:007_stage_inputs")
    window.picture(DOCS / "trace-passes.png")
    window.press("3")
    window.run(SCROLL, "Who stores what")
    window.picture(DOCS / "trace-kernels.png")
    window.run(SCROLL, "Rings through time")
    time.sleep(0.5)  # until it is painted
    window.picture(DOCS / "trace-rings.png")


if __name__ == "__main__":
    if reason := missing():
        sys.exit(f"{reason}: apt-get install chromium chromium-driver")
    given = [Path(name) for name in sys.argv[1:]]
    made = given or [write_page(name) for name in PROGRAMS]
    with tempfile.TemporaryDirectory() as profile, Browser(Path(profile), WIDTH, HEIGHT) as shown:
        for file in made:
            print(opening(shown, file))
        if not given:
            pictures(shown, PAGES / f"{DRAWN}.html")

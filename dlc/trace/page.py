"""The page of a trace: one HTML file with its style, its script and its data in it."""

from __future__ import annotations

from pathlib import Path

from dlc.escapes import html_json, html_text
from dlc.trace.model import Trace, as_json

FOLDER = Path(__file__).parent
SCRIPTS = tuple(
    f"{name}.js"
    for name in (
        "data",
        "panes",
        "passes",
        "pictures",
        "tiles",
        "pipelines",
        "fragments",
        "candidates",
        "memory",
        "kernels",
        "page",
    )
)
"""One script in parts: the last one sets the page up."""


def page(trace: Trace) -> str:
    """The text of the file."""
    filled = {
        "TITLE": html_text(trace.title),
        "STYLE": _read("page.css"),
        "DATA": html_json(as_json(trace)),
        "SCRIPT": "\n".join(map(_read, SCRIPTS)),
    }
    pieces = _read("page.html").split("@@")  # a name stands between two of these
    pieces[1::2] = [filled[name] for name in pieces[1::2]]
    return "".join(pieces)


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")

"""Compiled programs as notebooks show them, and progress: HTML that needs no network."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any
from urllib.parse import quote

COLUMNS = "name", "grid", "block", "shared_bytes", "schedule"
"""What is told of a kernel (`dlc.Kernel`)."""
KERNEL = "ZMQInteractiveShell"
"""IPython's shell behind a notebook; others have a terminal."""


def program_html(
    title: str, kernels: Iterable[Any], texts: Mapping[str, str], page: str = ""
) -> str:
    """
    What a program is, a row for each kernel, and its texts, each folded below its name; `page` is
    the path of its trace.
    """
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in COLUMNS)
    rows = [[str(getattr(kernel, name)) for name in COLUMNS] for kernel in kernels]
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    folded = (
        f"<details><summary>{escape(name)}</summary><pre>{escape(text)}</pre></details>"
        for name, text in texts.items()
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    return "".join([f"<div><code>{escape(title)}</code></div>", table, *folded, _link(page, rows)])


def _link(page: str, rows: Sequence[object]) -> str:
    if page:
        link = f'<a href="{escape(quote(page))}" target="_blank">{escape(page)}</a>'
        return f"<div>its trace: {link}</div>"
    hint = "<code>.trace(&quot;trace.html&quot;)</code> writes a page of its IRs side by side"
    return f"<div>{hint}</div>" if rows else ""


def _cell(text: str) -> str:
    return f'<td style="text-align: left">{escape(text)}</td>'


def progress() -> list[Any]:
    """In a notebook an observer of the pipeline that shows how far it is; none elsewhere."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return [_Progress()] if type(shell).__name__ == KERNEL else []


class _Progress:
    """The pass that runs, below the cell, until there is none."""

    def __init__(self) -> None:
        self.steps: Sequence[Any] = ()
        self.done = 0
        self.shown: Any = None

    def start(self, module: object, steps: Sequence[Any]) -> None:
        self.steps, self.done = steps, 0
        self._show()

    def passed(self, step: Any, module: object, remarks: object, seconds: float) -> None:
        self.done += 1
        self._show()

    def _show(self) -> None:
        display = import_module("IPython.display")  # it is there: see `progress`
        left = self.steps[self.done :]
        text = f"{self.done} of {len(self.steps)} {escape(left[0].pass_name)} …" if left else ""
        bar = f'<progress value="{self.done}" max="{len(self.steps)}"></progress> {text}'
        shown = display.HTML(bar if left else "")
        if self.shown is None:
            self.shown = display.display(shown, display_id=True)
        else:
            self.shown.update(shown)

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
    return [_Progress()] if is_notebook() else []


def is_notebook() -> bool:
    """True if what runs is a cell of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == KERNEL


class Bar:
    """A bar below the cell, and a text beside it."""

    def __init__(self) -> None:
        self.shown: Any = None

    def show(self, share: float, text: str) -> None:
        """The part that is done, from 0 to 1, and what is being done."""
        self._put(f'<progress value="{share:.3f}" max="1"></progress> {escape(text)}')

    def clear(self) -> None:
        self._put("")

    def _put(self, text: str) -> None:
        display = import_module("IPython.display")  # it is there: see `is_notebook`
        if self.shown is None:
            self.shown = display.display(display.HTML(text), display_id=True)
        else:
            self.shown.update(display.HTML(text))


class _Progress:
    """The pass that runs, below the cell, until there is none."""

    is_clock = True

    def __init__(self) -> None:
        self.bar = Bar()
        self.steps: Sequence[Any] = ()
        self.done = 0

    def start(self, module: object, steps: Sequence[Any]) -> None:
        self.steps, self.done = steps, 0
        self._show()

    def passed(self, step: Any, module: object, remarks: object, seconds: float) -> None:
        self.done += 1
        self._show()

    def _show(self) -> None:
        if left := self.steps[self.done :]:
            text = f"{self.done} of {len(self.steps)} {left[0].pass_name} …"
            self.bar.show(self.done / len(self.steps), text)
        else:
            self.bar.clear()

"""Compiled programs as notebooks show them: HTML that needs no script and no network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

COLUMNS = "name", "grid", "block", "shared_bytes", "schedule"
"""What is told of a kernel (`dlc.Kernel`)."""


def program_html(title: str, kernels: Iterable[Any], texts: Mapping[str, str]) -> str:
    """What a program is, a row for each kernel, and its texts, each folded below its name."""
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in COLUMNS)
    rows = [[str(getattr(kernel, name)) for name in COLUMNS] for kernel in kernels]
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    folded = (
        f"<details><summary>{escape(name)}</summary><pre>{escape(text)}</pre></details>"
        for name, text in texts.items()
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    return "".join([f"<div><code>{escape(title)}</code></div>", table, *folded])


def _cell(text: str) -> str:
    return f'<td style="text-align: left">{escape(text)}</td>'

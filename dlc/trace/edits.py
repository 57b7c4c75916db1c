"""What a pass changed, as edits of lines: a page holds a text once, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from dlc.trace.model import Edit


def edits(before: Sequence[str], after: Sequence[str]) -> list[Edit]:
    """What makes the lines `after` of the lines `before`, from the first line to the last."""
    matcher = SequenceMatcher(None, before, after)
    return [
        Edit(i, j, list(after[k:m])) for tag, i, j, k, m in matcher.get_opcodes() if tag != "equal"
    ]


def applied(before: Sequence[str], changes: Sequence[Edit]) -> list[str]:
    """The lines after edits of them."""
    lines = list(before)
    for edit in reversed(changes):
        lines[edit.begin : edit.end] = edit.lines
    return lines


def section_edits(
    before: Mapping[str, Sequence[str]], after: Mapping[str, Sequence[str]]
) -> dict[str, list[Edit]]:
    """The edits of each section that changed; one that is new was empty."""
    found: dict[str, list[Edit]] = {}
    for name in dict.fromkeys([*before, *after]):
        was, is_now = before.get(name, ()), after.get(name, ())
        if list(was) != list(is_now):
            found[name] = edits(was, is_now)
    return found

"""What becomes of a program that is judged in a table."""

from __future__ import annotations

import re
from dataclasses import dataclass

WRONG, REFUSED, LESS_ACCURATE, RIGHT = "wrong", "refused", "less accurate", "right"

ENLARGED = "right where errors grow"
"""By how far disturbed programs move, not by the rule for others."""


@dataclass(frozen=True)
class Verdict:
    kind: str
    why: str = ""


def reason(message: str) -> str:
    """A refusal in some words: its first sentence, or that of the first of several, no places."""
    lines = message.splitlines()
    said = [n for n, line in enumerate(lines) if "error: " in line or "supported" in line] or [0]
    begin = said[-1]
    if lines[begin].endswith(":") and begin + 1 < len(lines):
        begin += 1
    text = re.sub(r"^\S+:\d+:\d+: ", "", lines[begin].rpartition("error: ")[2])
    text = re.sub(r"\d+ operations? (is|are) not supported: ", "", text)
    text = re.sub(r" \([^()]*\.py:\d+(: )?", lambda m: " (" if m[1] else " (unknown", text)
    text = text.replace(" (unknown)", "").replace("|", "/")
    return text.split("; ")[0].split("), ")[0].strip("( )").replace(" (", ": ")

"""
Errors that say what was expected of what, for `dlc/error_report.py` to print as sentences.

What a raiser knows beyond its message it adds with `with_hint` and `with_context`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, TypeVar

from xdsl.utils.exceptions import PassFailedException

if TYPE_CHECKING:
    from xdsl.ir import Operation

HINT = "hint: "
CONTEXT = "context: "

E = TypeVar("E", bound=BaseException)


class UsageError(Exception):
    """The command line, or a file named there, is not what was expected."""


class OpError(PassFailedException):
    """A pass, a target or a frontend cannot go on because of `op`."""

    def __init__(self, op: Operation, message: str) -> None:
        super().__init__(message)
        self.op = op


class TextError(OpError):
    """
    A text about `op`, such as a schedule or a step that is applied to it, is wrong at `place`.
    `part` is the part of it that may stand in the text of `op`; an empty one does not.
    """

    def __init__(
        self,
        op: Operation,
        message: str,
        text: str,
        place: tuple[int, int],
        part: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__(op, message)
        self.text, self.part = text, part
        self.start = place[0]
        self.width = place[1] - place[0]


def fail(op: Operation, message: str, hint: str | None = None) -> NoReturn:
    """Raise `OpError`: what was expected of `op`, what was found, and in `hint` what to do."""
    raise with_hint(OpError(op, message), hint)


def with_hint(error: E, hint: str | None) -> E:
    """`error`, printed with a line that says what to do; None adds none."""
    if hint:
        error.add_note(HINT + hint)
    return error


def with_only_hint(error: E, hint: str | None) -> E:
    """The same in the place of other hints; None leaves them."""
    if hint:
        notes: list[str] = getattr(error, "__notes__", [])
        error.__notes__ = [note for note in notes if not note.startswith(HINT)]
    return with_hint(error, hint)


def with_context(error: E, context: str) -> E:
    """`error`, its message preceded by `context`, such as `after pass tileify`."""
    error.add_note(CONTEXT + context)
    return error


@contextmanager
def hints_in_text() -> Iterator[None]:
    """Errors that are raised have their hints in their text."""
    try:
        yield
    except Exception as error:
        notes: list[str] = getattr(error, "__notes__", [])
        if hints := [note for note in notes if note.startswith(HINT)]:
            error.args = ("\n".join([str(error), *hints]),)
            error.__notes__ = [note for note in notes if note not in hints]
        raise


def failed_pass(error: BaseException) -> str | None:
    """The pass of the pipeline in or after which `error` was raised, by what it was given."""
    notes: list[str] = getattr(error, "__notes__", [])
    found = (re.match(rf"{CONTEXT}(?:after )?pass ([\w-]+)$", note) for note in notes)
    return next((match[1] for match in found if match), None)


def closest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate closest to `word`, if one is close."""
    close = difflib.get_close_matches(word, sorted(set(candidates)), n=1, cutoff=0.6)
    return close[0] if close else None


def did_you_mean(word: str, candidates: Iterable[str], prefix: str = "") -> str | None:
    """A hint that names the candidate closest to `word`, if one is close."""
    close = closest(word, candidates)
    return f"did you mean {prefix}{close}?" if close else None

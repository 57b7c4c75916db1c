"""Whether a script's text prints where it runs: it does not in a program that is traced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

SHOWS = "_shows"
"""The name by which a script's text asks whether it prints."""

_traced = [0]


@contextmanager
def nothing_shown() -> Iterator[None]:
    """A program that runs within is traced: it has no numbers to show."""
    _traced[0] += 1
    try:
        yield
    finally:
        _traced[0] -= 1


def shows() -> bool:
    """True where a script's text prints."""
    return _traced[0] == 0

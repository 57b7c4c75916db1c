"""Whether a script's text prints where it runs: it does not in a program that is traced."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from dlc.frontend.scripts.caught import is_caught, is_logged, own_streams
from dlc.frontend.scripts.parts import place_of_frame
from dlc.frontend.source import ImportFailure

SHOWS = "_shows"
"""The name by which a script's text asks whether it prints."""
LOGGED = (
    "what the program logs is kept here by a handler or a filter of the script, which its kernels "
    "do not call; log it before the program, or keep the values themselves"
)

_traced = [0]


@contextmanager
def nothing_shown() -> Iterator[None]:
    """A program that runs within is traced: it has no numbers to show."""
    _traced[0] += 1
    try:
        with own_streams():
            yield
    finally:
        _traced[0] -= 1


def shows(called: Any = None, kept_by: Collection[str] = ()) -> bool:
    """
    True where a script's text calls what shows something: always, but in a program that is traced
    only where it is caught (`dlc.frontend.scripts.caught`). ImportFailure where a logger's handler
    does.
    """
    if _traced[0] == 0:
        return True
    if not kept_by or not is_caught(called, kept_by):
        return False
    if is_logged(called):
        raise ImportFailure(LOGGED, place_of_frame(sys._getframe(1)))
    return True

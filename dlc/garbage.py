"""Collections of garbage while much is made that is garbage soon, or that stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

YOUNG = 1_000_000
"""Objects that are made, and not freed, from one collection to the next. The operations of an IR
refer to each other in circles: fewer would be looked at over and over by 700, Python's default.
Of a large program a tenth of the time was theirs by 200,000; memory grows by a tenth."""

_lock = Lock()
_found: list[tuple[int, int, int]] = []
"""The thresholds that each of those found that are within now, of all threads."""


@contextmanager
def rarely_collected() -> Iterator[None]:
    """
    Garbage is looked for when there is much of it: for the passes of a compilation. The last that
    leaves, of several threads, sets the thresholds that the first has found.
    """
    with _lock:
        _found.append(gc.get_threshold())
        young, *older = _found[0]
        gc.set_threshold(max(young, YOUNG) if young else 0, *older)
    try:
        yield
    finally:
        with _lock:
            last = _found.pop()
            if not _found:
                gc.set_threshold(*last)


@contextmanager
def uncollected() -> Iterator[None]:
    """
    No garbage is looked for within, and not later in what was made by then: for what makes many
    objects that stay, as imports do. A collection that looks at PyTorch's takes 0.15 s.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()

"""
Ctrl-C as a wish that is looked at between candidates.

    with interruptible():
        while not interrupted():
            …

Where Python raises KeyboardInterrupt, at any place, one that arrives in a finalizer or a callback
of C is printed and lost. Here the signal is kept until `check` raises it, or `interrupted` tells
of it. The second one is raised at once.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType


class _Wish:
    """Whether Ctrl-C was pressed, inside the outermost `interruptible`."""

    def __init__(self) -> None:
        self.heard = self.listening = False

    def hear(self, number: int, frame: FrameType | None) -> None:
        if self.heard:
            raise KeyboardInterrupt
        self.heard = True


_WISH = _Wish()


@contextmanager
def interruptible() -> Iterator[None]:
    """
    Keeps Ctrl-C until somebody looks, and restores what was done about it before. Nothing changes
    inside another one, outside the main thread, and where the signal is ignored.
    """
    before = signal.getsignal(signal.SIGINT)
    there = current_thread() is main_thread() and before not in (signal.SIG_IGN, None)
    if _WISH.listening or not there:
        yield
        return
    _WISH.heard, _WISH.listening = False, True
    signal.signal(signal.SIGINT, _WISH.hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _WISH.heard = _WISH.listening = False


def interrupted() -> bool:
    """True if Ctrl-C was pressed."""
    return _WISH.heard


def check() -> None:
    """KeyboardInterrupt if Ctrl-C was pressed."""
    if _WISH.heard:
        raise KeyboardInterrupt

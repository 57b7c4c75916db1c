"""Ctrl-C while modules are imported, which their own code may take for a module that is missing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

CODE = 130
"""What a command that Ctrl-C ends exits with."""
IMPORTS = "<frozen importlib"
"""The first words of the names of files with Python's own code of imports."""


@contextmanager
def ctrl_c_ends_imports() -> Iterator[None]:
    """
    Ctrl-C in an import ends the process at once: there is nothing to clean up, and PyTorch's C++
    aborts at a KeyboardInterrupt, or goes on without NumPy. Elsewhere it is raised as ever.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or current_thread() is not main_thread():
        yield
        return
    signal.signal(signal.SIGINT, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def hear(number: int, frame: FrameType | None) -> None:
    """What is done about the signal: KeyboardInterrupt, unless a frame is of an import."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(IMPORTS):
            os._exit(CODE)
        frame = frame.f_back
    raise KeyboardInterrupt

"""A job for test_generation_bench.py, in a module that its process can import."""

from __future__ import annotations

import os
import time

from turns import Turn


def a_job(turn: Turn, what: str) -> None:
    """Sends what it is told, and then ends as `what` says."""
    known = turn.wait()
    turn.send({"known": known, "begin": time.monotonic()})
    turn.share({"seen": what})
    if what == "fails":
        raise ValueError("as it is told")
    if what == "dies":
        os._exit(3)
    if what == "hangs":
        time.sleep(60)

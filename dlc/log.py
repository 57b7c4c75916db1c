"""
Logs, by Python's `logging`: `dlc.compile`, `dlc.kernels` and `dlc.graphs` below the logger `dlc`.

`DLC_LOG=compile,graphs` shows those on stderr. Warnings are shown without it. `DLC_DUMP=DIRECTORY`
names a place for the texts of all programs that are compiled.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from functools import cache
from itertools import count
from pathlib import Path

from dlc.diagnostics import UsageError, did_you_mean, with_hint

TOPICS: Mapping[str, str] = {
    "compile": "each program that is compiled, what for, and the time that it took",
    "kernels": "each kernel of these programs, its schedule and launch",
    "graphs": "each graph that torch.compile passes, and what of it PyTorch runs",
}
VARIABLE = "DLC_LOG"
DUMP = "DLC_DUMP"
_numbers = count()


def get_logger(topic: str) -> logging.Logger:
    """The logger of one of TOPICS."""
    assert topic in TOPICS
    _show()
    return logging.getLogger(f"dlc.{topic}")


def dump_directory(name: str) -> Path | None:
    """
    A new directory for the texts of a program of that name, below DLC_DUMP; None if unset.
    UsageError where none can be made.
    """
    if not (root := os.environ.get(DUMP)):
        return None
    plain = re.sub(r"\W+", "_", name).strip("_") or "program"
    path = Path(root) / f"{os.getpid()}-{next(_numbers):03}-{plain}"
    try:
        path.mkdir(parents=True)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"{DUMP} names '{root}', where no directory can be made: {why}") from None
    return path


@cache
def _show() -> None:
    """Shows on stderr what the environment asks for, once. UsageError for an unknown topic."""
    asked = [topic.strip() for topic in os.environ.get(VARIABLE, "").split(",") if topic.strip()]
    for topic in asked:
        if topic not in (*TOPICS, "all"):
            error = UsageError(f"{VARIABLE} names '{topic}'; there are {', '.join(TOPICS)} and all")
            raise with_hint(error, did_you_mean(topic, TOPICS))
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    for topic in TOPICS:
        if topic in asked or "all" in asked:
            logger = logging.getLogger(f"dlc.{topic}")
            logger.setLevel(logging.INFO)
            logger.addHandler(handler)
            logger.propagate = False

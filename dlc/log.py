"""
Logs, by Python's `logging`: `dlc.compile`, `dlc.kernels` and `dlc.graphs` below the logger `dlc`.

`DLC_LOG=compile,graphs` shows those on stderr. Warnings are shown without it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import cache

from dlc.diagnostics import UsageError, did_you_mean, with_hint

TOPICS: Mapping[str, str] = {
    "compile": "each program that is compiled, what for, and the time that it took",
    "kernels": "each kernel of these programs, its schedule and launch",
    "graphs": "each graph that torch.compile passes, and what of it PyTorch runs",
}
VARIABLE = "DLC_LOG"


def get_logger(topic: str) -> logging.Logger:
    """The logger of one of TOPICS."""
    assert topic in TOPICS
    _show()
    return logging.getLogger(f"dlc.{topic}")


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

"""Jobs for the tests of bench/supervisor.py and bench/suite.py, without PyTorch."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

RUN = {
    "device": "pretended", "backend": "host", "driver": None, "clocks": {}, "torch": "2.0",
    "cuda": None, "cublas": None, "python": "3", "machine": "m", "tf32": False, "commit": "c",
    "sources": "s", "date": "2026-01-01T00:00:00+00:00", "peak_flops": 1.0, "peak_bandwidth": 1.0,
    "ceilings": {"copy_bandwidth": 1e9, "gemm_flops": 1e9, "gemm_extent": 64},
}  # fmt: skip


def result(median: float = 10.0, **changed: Any) -> dict[str, Any]:
    accuracy = {"error": 1e-7, "eager_error": 1e-7, "bound": 4e-7, "ok": True}
    return {
        "error": None, "warm_us": [median, median * 0.99, median * 1.01], "cold_us": None,
        "rounds": 9, "launches": 1, "make_seconds": 0.1, "accuracy": accuracy, **changed,
    }  # fmt: skip


def row(**contenders: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": 0, "group": "suite", "text": "x", "flops": 10.0, "bytes": 20, "floor_us": 1.0,
        "timed": True, "contenders": contenders,
    }  # fmt: skip


def handle(job: dict[str, Any], announce: Callable[[str, str, float], None]) -> Any:
    """Does what the job says: `act`, or for a contender called `hang`, `crash`, … that."""
    if job.get("kind") == "ceilings":
        return RUN
    if job.get("kind") == "build":
        return None
    for name in job.get("contenders", [job.get("act", "fine")]):
        announce(name, "kernel k, 1 of 2", 0.3)
        if name == "hang":
            time.sleep(1000)
        elif name == "crash":
            print("CUDA error: an illegal memory access", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGSEGV)
        elif name == "exit":
            os._exit(3)
        elif name == "raise":
            raise RuntimeError("the GPU's context is broken")
        elif name == "child":
            os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "987654")
            time.sleep(1000)
    times = {"dlc": 10.0, "eager": 20.0, "torch.compile": 5.0}
    made = row(**{name: result(times.get(name, 7.0)) for name in job.get("contenders", [])})
    return made if "contenders" in job else os.getpid()

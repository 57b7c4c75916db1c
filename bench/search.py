"""
How soon searches over schedules find the best one, in spaces that are small enough to enumerate.

    python bench/search.py [--seeds 20] [--most 5000] [--only REGEX]

Every schedule of a kernel is judged by the estimate, once. Then each search starts from a poor
schedule, one point a thread, and is told what its proposals take; no prior helps it. What is
printed is how much more than the best of all schedules the best of the first 1, 2, 5 and 10 % take,
the mean over seeds.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Callable
from itertools import islice
from math import inf

import torch

from dlc.backend.kernel_program import isolated
from dlc.cli.status_line import progress
from dlc.compiler import compile
from dlc.text import table
from dlc.tuning.candidate_program import Subject
from dlc.tuning.objectives import by_estimate
from dlc.tuning.space import Space
from dlc.tuning.tuner import SEARCHES

POOR = "tileify,blockify-launch{block=1 thread=1}"
SHARES = (0.01, 0.02, 0.05, 0.1)


def _silu_mul(g: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(g) * u


def _row_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1)


PROGRAMS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "silu_mul 32768": (_silu_mul, (torch.randn(32768), torch.randn(32768))),
    "silu_mul 128x512": (_silu_mul, (torch.randn(128, 512), torch.randn(128, 512))),
    "sum of rows 32x64": (_row_sum, (torch.randn(32, 64),)),
}


def regrets(subject: Subject, times: dict[str, float], kind: str, seed: int) -> list[float]:
    """How many times the best of all takes the best of each share of the schedules."""
    best = min(times.values())
    search = SEARCHES[kind](Space(subject.module, subject.name, POOR), seed, None)
    found, history = inf, list[float]()
    for _ in range(max(1, int(len(times) * SHARES[-1]))):
        schedule = search.propose()
        if schedule is None:
            break
        seconds = times.get(schedule)
        search.observe(schedule, seconds)
        found = min(found, inf if seconds is None else seconds)
        history.append(found)
    ends = [min(len(history), max(1, int(len(times) * share))) for share in SHARES]
    return [history[end - 1] / best for end in ends]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--most", type=int, default=5000, help="schedules of a kernel [5000]")
    parser.add_argument("--only", default="", metavar="REGEX", help="of names of kernels")
    options = parser.parse_args()
    rows: list[list[str]] = []
    for name, (f, args) in PROGRAMS.items():
        if not re.search(options.only, name):
            continue
        module = compile(f, args, "sm_90", "host").variants[0].module("loop")
        ((kernel, alone),) = isolated(module)
        subject = Subject(alone, kernel)
        every = islice(Space(alone, kernel, POOR).schedules(), options.most)
        with progress(f"{name}: all schedules …"):
            times = {s: by_estimate(subject, s, []).seconds for s in every}
            for kind in SEARCHES:
                found = [regrets(subject, times, kind, seed) for seed in range(options.seeds)]
                means = [statistics.mean(column) for column in zip(*found, strict=True)]
                rows.append([name, str(len(times)), kind, *(f"{mean:.3f}" for mean in means)])
    print(table(("kernel", "schedules", "search", *(f"{s:.0%}" for s in SHARES)), rows))


if __name__ == "__main__":
    main()

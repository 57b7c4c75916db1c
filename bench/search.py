"""
How soon searches over schedules find the best one, in spaces that are small enough to enumerate.

    python bench/search.py [--seeds 20] [--most 5000] [--only REGEX] [-o bench/results/search]

Of a kernel with too many schedules, only some steps are open; each other one is taken as close as
can be to a poor schedule, such as one point a thread. Every schedule of that space is judged by the
estimate, once. Then each search starts from the poor schedule and is told what its proposals take;
no prior helps it. What is written is how many times the best of all schedules the best of the first
1, 2, 5 and 10 % take, the mean over seeds: a table, and a plot of all proposals until then.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from math import inf
from pathlib import Path
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp

from dlc.backend.kernel_program import isolated
from dlc.cli.status_line import progress
from dlc.compiler import compile
from dlc.tuning.candidate_program import Subject
from dlc.tuning.objectives import by_estimate
from dlc.tuning.space import Choice, Refused, Space, State
from dlc.tuning.tuner import SEARCHES
from dlc_bench.records import markdown_table, where_and_when, write_record

SHARES = (0.01, 0.02, 0.05, 0.1)
RESULTS = Path(__file__).parent / "results" / "search"


@dataclass(frozen=True)
class Program:
    """One kernel, and which of its schedules make a space."""

    f: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    steps: tuple[str, ...] = ()
    """Those that are open; all if there are none."""
    poor: str = "tileify,blockify-launch{block=1 thread=1}"
    """The schedule to start from."""


def _exp(x: torch.Tensor) -> torch.Tensor:
    return x.exp()


def _sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1)


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1)


def _pooled(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.max_pool2d(x, 2)


PROGRAMS: dict[str, Program] = {
    "exp 65536x8": Program(_exp, ((65536, 8),)),
    "row sum 256x64": Program(_sum, ((256, 64),), ("cooperative-reduce", "blockify-launch")),
    "softmax 4096x1024": Program(_softmax, ((4096, 1024),), ("cooperative-reduce", "mark-unroll")),
    "GEMM 64x64x64": Program(
        torch.matmul,
        ((64, 64), (64, 64)),
        ("blockify-launch", "register-tile"),
        "tileify,chunk-matmul-k{bk=8},blockify-launch{block=1,1 thread=1,1},"
        "stage-inputs{budget=4096}",
    ),
    "GEMM 256x256x256": Program(
        torch.matmul,
        ((256, 256), (256, 256)),
        ("chunk-matmul-k", "stage-inputs", "register-tile", "double-buffer"),
        "tileify,blockify-launch{block=16,16 thread=16,16}",
    ),
    "split GEMM 16x64x4096": Program(
        torch.matmul,
        ((16, 4096), (4096, 64)),
        ("split-matmul-k", "chunk-matmul-k", "register-tile"),
        "tileify,blockify-launch{block=16,16 thread=8,8}",
    ),
    "max_pool2d 1024x1024": Program(_pooled, ((1, 1024, 1024),), ("blockify-launch",)),
}


class KnownSpace(Space):
    """
    The space of a program, of which every step is done once, and what comes of it kept without its
    IR.
    """

    def __init__(self, subject: Subject, program: Program) -> None:
        super().__init__(subject.module, subject.name, program.poor)
        self.steps = program.steps
        self.known: dict[object, State | Refused] = {}
        self.complete = False

    def choices(self, state: State) -> list[Choice]:
        found = super().choices(state)
        step = self.classes[state.number].name if found else ""
        return found[:1] if self.steps and step not in self.steps else found

    def take(self, state: State, choice: Choice) -> State:
        at = state.key, type(choice), choice
        if self.complete:
            found = self.known[at]
            if isinstance(found, Refused):
                raise found
            return found
        try:
            following = super().take(state, choice)
        except Refused as reason:
            self.known[at] = reason
            raise
        self.known[at] = replace(following, module=_NOTHING)
        return following


_NOTHING = ModuleOp([])


def history(space: Space, times: dict[str, float], kind: str, seed: int) -> list[float]:
    """How many times the best of all takes the best of the first 1, 2, … proposals."""
    best, found = min(times.values()), list[float]()
    search = SEARCHES[kind](space, seed, None)
    for _ in range(max(1, int(len(times) * SHARES[-1]))):
        if (schedule := search.propose()) is None:
            break
        search.observe(schedule, times.get(schedule))
        found.append(times.get(schedule, inf) / best)
    count = max(1, int(len(times) * SHARES[-1]))
    curve = list(accumulate(found, min))
    return curve + curve[-1:] * (count - len(curve))


def enumerated(
    subject: Subject, program: Program, most: int
) -> tuple[KnownSpace, dict[str, float]] | None:
    """All schedules of a program, and the seconds of each; None if there are more than `most`."""
    space = KnownSpace(subject, program)
    every = list(islice(space.schedules(), most + 1))
    if len(every) > most:
        return None
    assert space.default in every
    space.complete = True
    return space, {schedule: by_estimate(subject, schedule, []).seconds for schedule in every}


def curves(space: KnownSpace, times: dict[str, float], seeds: int) -> dict[str, Any]:
    """Of a space the number of its schedules and the mean curve of each search."""
    first = times[space.default] / min(times.values())
    found: dict[str, Any] = {"schedules": len(times), "first": first}
    for kind in SEARCHES:
        of_seeds = [history(space, times, kind, seed) for seed in range(seeds)]
        found[kind] = [statistics.mean(column) for column in zip(*of_seeds, strict=True)]
    return found


def text(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    rows: list[list[str]] = []
    for name, found in record["kernels"].items():
        for kind in SEARCHES:
            curve = found[kind]
            ends = [max(1, int(found["schedules"] * share)) for share in SHARES]
            at = [f"{curve[end - 1]:.3f}" for end in ends]
            rows.append([name, str(found["schedules"]), kind, f"{found['first']:.1f}", *at])
    header = ("kernel", "schedules", "search", "first", *(f"{share:.0%}" for share in SHARES))
    lines = [
        "# Searches where the best schedule is known",
        "",
        f"`python bench/search.py --seeds {record['seeds']}`, {record['date']}, sm_90: how many "
        "times the best of all schedules, by the estimate, the best takes that a search has "
        "proposed after a share of them; the mean over seeds.",
        "",
        *markdown_table(header, rows),
        "",
        "![The best so far over the proposals](search.svg)",
    ]
    return "\n".join(lines) + "\n"


def draw(record: dict[str, Any], path: Path) -> None:
    """The curves of all kernels beside each other."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "dlc"  # the same record gives the same bytes
    from matplotlib import pyplot

    kernels = record["kernels"]
    size = (3.6 * len(kernels), 3.4)
    figure, grid = pyplot.subplots(
        1, len(kernels), figsize=size, layout="constrained", squeeze=False
    )
    row = grid[0]
    for axes, (name, found) in zip(row, kernels.items(), strict=True):
        for kind in SEARCHES:
            shares = [100 * (n + 1) / found["schedules"] for n in range(len(found[kind]))]
            axes.step(shares, found[kind], where="post", label=kind)
        axes.axhline(1.03, color="black", linewidth=0.6, linestyle=":")
        axes.set_yscale("log")
        axes.set_xlabel("% of the schedules")
        axes.set_title(f"{name}: {found['schedules']}", fontsize=9)
    row[0].set_ylabel("times the best of all")
    row[0].legend(fontsize=7)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--most", type=int, default=5000, help="schedules of a kernel [5000]")
    parser.add_argument("--only", default="", metavar="REGEX", help="of names of kernels")
    parser.add_argument("-o", type=Path, default=RESULTS, help="where to, without a suffix")
    options = parser.parse_args()
    record: dict[str, Any] = {**where_and_when(), "seeds": options.seeds, "kernels": {}}
    for name, program in PROGRAMS.items():
        if not re.search(options.only, name):
            continue
        args = [torch.empty(shape) for shape in program.shapes]
        module = compile(program.f, args, "sm_90", "host").variants[0].module("loop")
        ((kernel, alone),) = isolated(module)
        with progress(f"{name}: all schedules …"):
            space = enumerated(Subject(alone, kernel), program, options.most)
        if space is None:
            print(f"{name}: more than {options.most} schedules")
            continue
        record["kernels"][name] = curves(*space, options.seeds)
        write_record(options.o, record, text(record))
        draw(record, options.o.with_suffix(".svg"))


if __name__ == "__main__":
    main()

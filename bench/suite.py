"""
Measures dlc beside PyTorch, in one command that fits in a time budget.

    python bench/suite.py [--group suite] [--only REGEX] [--slice 1/4] [--budget 9m] [--autotune]
                          [--contender FILE.py:FUNCTION] [--backend host|cuda] [--output PREFIX]

First everything is built in parallel: dlc's kernels, and what torch.compile makes. Then the cases
are checked and timed one after the other, all contenders of a case interleaved in one process. A
contender that hangs or crashes is ended with its process, which is its result, and the others of
the case go on in a new one. Writes PREFIX.json (bench/record.py says what is in it), PREFIX.md and
PREFIX.png. A run that was cut off goes on where it was; slices, and runs with other contenders,
merge in the same file. `--build-only --target sm_90` fills the cache of kernels without a GPU.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from bars import AUTOTUNE
from cases import CASES, Case, select
from ratios import DLC, best_peer, geometric_mean, microseconds, peers, ratios
from record import Record, Wanted, load
from report import markdown
from supervisor import Failure, Overdue, Worker

ROOT = Path(__file__).resolve().parent.parent
GROUPS = tuple(dict.fromkeys(case.group for case in CASES))
BUILD_SHARE = 0.4
"""Of the budget; what is not built then is built when it is measured."""
MOST_DEATHS = 3
"""Processes that a contender other than dlc may end before the rest of the cases go without it."""
HANDLER = "jobs:handle"
Row = dict[str, Any]


def parse_budget(text: str) -> float:
    """Seconds of `9m`, `90s`, `1h` or `540`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h)?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"expected a time such as 9m or 90s, found {text}")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600, None: 1}[found[2]]


def parse_slice(text: str) -> tuple[int, int]:
    """The number of a slice, from 1, and how many there are."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"expected a slice from 1/n to n/n, found {text}")
    return int(found[1]), int(found[2])


def choose(options: argparse.Namespace) -> list[Case]:
    """The cases of a group, of a pattern, of a slice."""
    groups = options.group or (list(GROUPS) if options.only else ["suite"])
    chosen = [case for case in select(options.only) if case.group in groups]
    if options.most_gflop is not None:
        chosen = [case for case in chosen if case.flops <= options.most_gflop * 1e9]
    number, count = options.slice
    return chosen[number - 1 :: count]


class Suite:
    """One run over cases."""

    def __init__(self, options: argparse.Namespace, record: Record, log: Path) -> None:
        self.options, self.record, self.log = options, record, log
        self.deadline = time.monotonic() + options.budget
        peers = [*filter(None, options.peers.split(",")), *[AUTOTUNE] * options.autotune]
        self.plugged = {name_of(place): place for place in options.contender}
        self.contenders = [DLC, *peers, *self.plugged]
        self.deaths: Counter[str] = Counter()
        threads = os.cpu_count() or 1 if options.autotune else 1
        environment = {"TORCHINDUCTOR_COMPILE_THREADS": str(threads)}
        self.worker = Worker(HANDLER, log, environment, options.patience)

    def job(self, kind: str, **more: Any) -> Row:
        options = self.options
        where = {"backend": options.backend, "target": options.target, "plugged": self.plugged}
        return {"kind": kind, **where, **more}

    def run(self, cases: Sequence[Case]) -> int:
        """How many of the cases could not be measured in time."""
        options = self.options
        with self.worker:
            run = self.worker.run(self.job("ceilings"), self.deadline)
            say(f"{run['device']} ({run['backend']}), PyTorch {run['torch']}, "
                f"TF32 {'ON' if run['tf32'] else 'off'}, commit {run['commit']}")  # fmt: skip
            wanted = Wanted(self.contenders, run, not options.check_only, options.retry)
            todo = [case for case in cases if not self.record.has(case.name, wanted)]
            if len(todo) < len(cases):
                say(f"{len(cases) - len(todo)} of {len(cases)} cases are in {self.record.path}")
            if not todo:
                return 0
            if options.jobs:
                self.build(todo)
            number = self.record.begin(run)
            for done, case in enumerate(todo):
                if time.monotonic() >= self.deadline:
                    say(f"the budget is spent: {len(todo) - done} cases are left")
                    return len(todo) - done
                try:
                    row = self.measure(case) | {"run": number}
                except Overdue:
                    continue
                self.record.put(case.name, row)
                say(f"[{done + 1}/{len(todo)}] {case.name:32} {one_line(row)}")
        return 0

    def build(self, cases: Sequence[Case]) -> None:
        """Fills the caches with several processes; what fails is told when it is measured."""
        begin = time.monotonic()
        share = BUILD_SHARE * (self.deadline - begin)
        queue: SimpleQueue[Case] = SimpleQueue()
        for case in {case.text: case for case in cases}.values():
            queue.put(case)
        failed: list[str] = []

        def work() -> None:
            environment = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
            with Worker(HANDLER, self.log, environment, self.options.patience) as worker:
                while True:
                    try:
                        case = queue.get_nowait()
                        job = self.job("build", case=case.name, contenders=self.contenders)
                        worker.run(job, begin + share)
                    except Empty:
                        return
                    except Failure as failure:
                        failed.append(f"{case.name}: {failure}")
                        if time.monotonic() >= begin + share:
                            return

        threads = [threading.Thread(target=work) for _ in range(min(self.options.jobs, len(cases)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        say(f"built in {time.monotonic() - begin:.0f} s with {len(threads)} processes")
        for line in failed[:10]:
            say(f"  not built: {line}")

    def measure(self, case: Case) -> Row:
        """The row of a case, however many of its contenders do not survive it."""
        failed = {
            name: f"left out: it ended {times} processes before"
            for name, times in self.deaths.items()
            if times >= MOST_DEATHS and name != DLC
        }
        while True:
            left = [name for name in self.contenders if name not in failed]
            if not left:
                return row_of(case) | {"contenders": {n: no_result(e) for n, e in failed.items()}}
            job = self.job(
                "measure",
                case=case.name,
                contenders=left,
                seconds=self.options.seconds,
                check_only=self.options.check_only,
            )
            try:
                row = self.worker.run(job, self.deadline)
            except Overdue:
                raise
            except Failure as failure:
                blamed = [failure.contender] if failure.contender in left else left
                failed |= dict.fromkeys(blamed, str(failure))
                self.deaths.update(blamed)
                continue
            row["contenders"] |= {name: no_result(error) for name, error in failed.items()}
            return row


def name_of(place: str) -> str:
    """How a contender that is plugged in is called: `file.function`."""
    path, _, function = place.rpartition(":")
    return f"{Path(path).stem}.{function}"


def row_of(case: Case) -> Row:
    """A row of a case of which nothing is known but what it is."""
    return {
        "group": case.group,
        "text": case.text,
        "flops": case.flops,
        "bytes": case.bytes,
        "floor_us": 0.0,
        "timed": True,
    }


def no_result(error: str) -> Row:
    """A contender's part of a row where there is nothing but an error."""
    return {"error": error, "warm_us": None, "cold_us": None, "rounds": 0, "launches": None,
            "make_seconds": 0.0, "accuracy": None}  # fmt: skip


def one_line(row: Row) -> str:
    """A row as it is told when it comes."""
    parts: list[str] = []
    for name, result in row["contenders"].items():
        if result["error"] is not None:
            parts.append(f"{name}: {' '.join(result['error'].split())[:160]}")
        elif not row["timed"]:
            accuracy = result["accuracy"]
            parts.append(f"{name} " + ("unchecked" if accuracy is None else "right"))
        elif (time_us := microseconds(row, name)) is not None:
            parts.append(f"{name} {time_us:.4g} us")
    found = best_peer(row)
    return ", ".join(parts) + (f"; {found[1]:.2f}x" if found else "")


def say(text: str) -> None:
    print(text, flush=True)


def write_report(record: Record, output: Path) -> None:
    """Markdown and a plot of all that the record has."""
    if not record.rows:
        return
    output.with_suffix(".md").write_text(markdown(record.data))
    try:
        from plot import plot

        plot(record.data, output.with_suffix(".png"))
    except ImportError:
        say("no plot: matplotlib is missing; pip install 'dlc[bench]'")


def summary(record: Record, cases: Sequence[Case]) -> str:
    """The last lines: means over the chosen cases."""
    rows = {case.name: record.rows[case.name] for case in cases if case.name in record.rows}
    lines: list[str] = []
    for peer in peers(rows):
        if not (found := ratios(rows, peer)):
            continue
        lines.append(
            f"{peer} / dlc: geomean {geometric_mean(found.values()):.3f} over {len(found)} cases, "
            f"dlc is faster in {sum(r > 1 for r in found.values())}"
        )
    bad = sum(row["contenders"].get(DLC, {}).get("error") is not None for row in rows.values())
    return "\n".join([*lines, f"{len(rows)} of {len(cases)} cases, {bad} without a result of dlc"])


def default_jobs() -> int:
    """Processes that build: as many as there are cores, less one for each few of their children."""
    return max(1, (os.cpu_count() or 1) * 3 // 4)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument(
        "--group", action="append", choices=GROUPS, help="[suite, or all of --only]"
    )
    parser.add_argument("--only", metavar="REGEX", help="of group/name, such as ^suite/matmul")
    parser.add_argument("--slice", type=parse_slice, default=(1, 1), metavar="I/N")
    parser.add_argument("--most-gflop", type=float, metavar="N", help="leave larger cases out")
    parser.add_argument("--budget", type=parse_budget, default=parse_budget("9m"), metavar="9m")
    parser.add_argument("--seconds", type=float, default=0.6, help="of timing a case [0.6]")
    parser.add_argument("--peers", default="eager,torch.compile", help="[eager,torch.compile]")
    parser.add_argument("--autotune", action="store_true", help="time max-autotune as well")
    parser.add_argument("--contender", action="append", default=[], metavar="FILE.py:FUNCTION")
    parser.add_argument("--backend", choices=("host", "cuda"), help="[cuda, or host without a GPU]")
    parser.add_argument("--target", metavar="CHIP", help="of dlc's schedules [the GPU at hand]")
    parser.add_argument("--jobs", type=int, default=default_jobs(), help="processes that build")
    parser.add_argument("--check-only", action="store_true", help="check the results, time nothing")
    parser.add_argument("--retry", action="store_true", help="measure again what failed before")
    parser.add_argument(
        "--build-only", action="store_true", help="compile kernels, measure nothing"
    )
    parser.add_argument("--patience", type=float, default=1.0, help="times as long as usual")
    parser.add_argument("--merge", type=Path, nargs="+", default=[], metavar="JSON")
    parser.add_argument("--log", type=Path, help="what the processes print")
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "results" / "suite")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser()
    options = parser.parse_args(argv)
    cases = choose(options)
    if not cases:
        parser.error("no case is chosen; python bench/cases.py lists them")
    if options.backend is None:
        options.backend = "cuda" if shutil.which("nvidia-smi") else "host"
    try:
        record = Record(options.output.with_suffix(".json"))
        for path in options.merge:
            record.merge(load(path))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    log = options.log or Path(tempfile.mkstemp(prefix="dlc-suite-", suffix=".log")[1])
    suite = Suite(options, record, log)
    if options.build_only:
        suite.build(cases)
        return 0
    left = len(cases)
    try:
        left = suite.run(cases)
    except Failure as failure:
        say(f"cannot measure: {failure}; see {log}")
    finally:
        record.save()
        write_report(record, options.output)
    say(summary(record, cases))
    failed = any(
        record.rows.get(case.name, {}).get("contenders", {}).get(DLC, {}).get("error")
        for case in cases
    )
    return 1 if left or failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""
What programs take on a GPU, beside their estimate and PyTorch.

    python bench/measured.py [--group ladder] [--only REGEX] [--budget 4m] [--jobs 12]
                             [--peers eager] [--backend cuda|host] [--output PREFIX]

Several processes compile programs, check their results against fp64 and then wait in turn to be
timed alone: a lock is shared by those that check and held by the one that times. Rows are written
as they come, to PREFIX.json and PREFIX.md. What fails, hangs or crashes is the row of its program.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import json
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from statistics import geometric_mean
from typing import IO, Any

from suite import default_jobs, parse_budget
from supervisor import Failure, Overdue, Worker

from dlc.text import table

ROOT = Path(__file__).resolve().parent.parent
Row = dict[str, Any]
COMPILE_SECONDS, CHECK_SECONDS, TIMED_SECONDS = 120.0, 60.0, 200.0
TIMING = {"cuda": 0.12, "host": 0.01}
"""Seconds of rounds of a program."""
PROFILED_CALLS = 5
LARGE_BYTES = 1 << 30
"""Of tensors, whose fp64 forms and copies several processes together have no memory for."""
DLC = "dlc"


# What happens in the processes


def handle(job: Row, announce: Any) -> Row:
    """A row of the results: one program compiled, checked and timed."""
    import torch

    try:
        return _measured(job, announce)
    finally:
        torch._dynamo.reset()
        gc.collect()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()


def _measured(job: Row, announce: Any) -> Row:
    import torch
    from jobs import as_json
    from measured_programs import find

    import dlc
    from dlc.backend.executor import Executor
    from dlc.frontend.export.fx import import_program
    from dlc.pipeline import apply_pass
    from dlc.stages import compiler_context
    from dlc.target import set_target
    from dlc_bench.contender import PEERS, dlc_module
    from dlc_bench.device import find_device
    from dlc_bench.environment import settle_tf32
    from dlc_bench.measure import Plan, measure
    from dlc_bench.program import program_subject

    program = find(job["name"])
    announce(DLC, "compilation", COMPILE_SECONDS)
    settle_tf32(program.tf32)
    device = find_device(job["backend"])
    torch.manual_seed(0)
    with torch.device(device.torch):
        function, arguments = program.make()
    options: dict[str, Any] = {"precision": "f32"} | program.options
    begin = time.perf_counter()
    compiled = dlc.compile(function, arguments, job["target"], device.backend, **options)
    variant = compiled.variants[0]
    executor = variant.executor
    if program.passes:
        changed = variant.module("kernel").clone()
        apply_pass(compiler_context(), changed, program.passes)
        executor = Executor(changed, variant.backend)
    executor.prepare()
    row: Row = {"compile_seconds": time.perf_counter() - begin} | _estimates(variant)
    if job["build_only"]:
        return row
    torch_ir = import_program(function, arguments).module
    set_target(torch_ir, compiled.target, variant.precision)
    bound = [t.detach() for t in variant.program.bind(arguments, {})]
    subject = program_subject(variant.program, torch_ir, bound)
    announce("harness", "a turn to check", TIMED_SECONDS)
    with open(job["lock"], "wb") as lock:
        is_large = subject.rotated_bytes > LARGE_BYTES
        fcntl.flock(lock, fcntl.LOCK_EX if is_large else fcntl.LOCK_SH)
        found = measure(
            subject,
            [dlc_module(executor, variant.finish), *(PEERS[name]() for name in job["peers"])],
            device,
            Plan(warm_up_seconds=0.02, seconds=TIMING[device.backend], least_rounds=3),
            announce,
            variant.longest_reduction,
            variant.precision,
            _alone(device, lock, announce),
        )
        if job["kernels"] and device.backend == "cuda":
            announce(DLC, "its kernels", CHECK_SECONDS)
            row["kernels_us"] = _kernel_times(executor, bound)
    row["contenders"] = {name: as_json(result) for name, result in found.items()}
    floor = device.limits.floor(subject.work, cold=device.backend == "cuda")
    return row | {"floor_us": floor * 1e6, "flops": subject.work.flops, "bytes": subject.work.bytes}


def _alone(device: Any, lock: IO[bytes], announce: Any) -> Any:
    """The device's timer, whose first round waits until no other process uses the device."""
    from dlc_bench.measure import make_timer

    timer = make_timer(device)
    own = timer.round

    def alone(staged: Sequence[Any], waiting: Any) -> list[Any]:
        timer.round = own
        announce("harness", "a turn to be timed", TIMED_SECONDS)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return own(staged, waiting)

    timer.round = alone
    return timer


def _kernel_times(executor: Any, bound: list[Any]) -> dict[str, float]:
    """Microseconds of each kernel as CUPTI sees it, a mean of some calls, by its name in CUDA."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        for _ in range(PROFILED_CALLS):
            executor(bound)
        torch.cuda.synchronize()
    return {event.key: event.device_time for event in found.key_averages() if event.device_time}


def _estimates(variant: Any) -> Row:
    """In microseconds: by which schedules are chosen, and what the Kernel IR that came of it counts
    to; with the kernels' names and schedules."""
    from kernel_rows import loop_kernels

    from dlc.dialects.kernel import FuncOp
    from dlc.schedule.scheduled_time import scheduled_seconds
    from dlc.target import target_of

    kernels = loop_kernels(variant.module("loop"))
    module = variant.module("kernel")
    counted = {
        op.name_: scheduled_seconds(op, target_of(module)) * 1e6
        for op in module.walk()
        if isinstance(op, FuncOp)
    }
    return {
        "estimate_us": sum(kernel["estimate_us"] for kernel in kernels),
        "counted_us": counted,
        "schedules": {kernel["name"]: kernel["schedule"] for kernel in kernels},
    }


# What happens here


class Run:
    """Programs dealt to processes, their rows in a file."""

    def __init__(self, options: argparse.Namespace, lock: Path, log: Path) -> None:
        self.options, self.lock, self.log = options, lock, log
        self.deadline = time.monotonic() + options.budget
        self.rows: dict[str, Row] = {}
        self.run: Row = {}
        self.path: Path = options.output.with_suffix(".json")
        self.writing = threading.Lock()
        if self.path.exists():
            kept = json.loads(self.path.read_text())
            self.rows, self.run = kept["rows"], kept["run"]

    def measure(self, names: Sequence[str]) -> None:
        """All of them, or as many as the budget allows."""
        queue: SimpleQueue[str] = SimpleQueue()
        for name in names:
            queue.put(name)
        jobs = range(min(self.options.jobs, len(names)))
        threads = [threading.Thread(target=self._work, args=(queue,)) for _ in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self, queue: SimpleQueue[str]) -> None:
        environment = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with Worker("measured:handle", self.log, environment, self.options.patience) as worker:
            while time.monotonic() < self.deadline:
                try:
                    name = queue.get_nowait()
                except Empty:
                    return
                job = {"name": name, "lock": str(self.lock), "peers": self.options.peers} | {
                    of: getattr(self.options, of)
                    for of in ("backend", "target", "build_only", "kernels")
                }
                try:
                    row = worker.run(job, self.deadline)
                except Overdue:
                    return
                except Failure as failure:
                    row = {"error": f"{failure.contender}: {failure}"}
                self._put(name, row)

    def _put(self, name: str, row: Row) -> None:
        with self.writing:
            self.rows[name] = row
            print(f"{name:48} {told(row)}", flush=True)
            self.write()

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({"run": self.run, "rows": self.rows}, indent=1) + "\n")


def microseconds(row: Row, name: str) -> float | None:
    """Of a contender: with tensors that no cache holds, where that was measured."""
    result = row.get("contenders", {}).get(name)
    if result is None or result["error"] is not None:
        return None
    spread = result["cold_us"] or result["warm_us"]
    return spread[0] if spread else None


def errors(row: Row) -> str:
    """What went wrong in a row, in a line; empty where nothing did."""
    found = [row["error"]] if "error" in row else []
    found += [f"{n}: {r['error']}" for n, r in row.get("contenders", {}).items() if r["error"]]
    return " ".join("; ".join(found).split())[:300]


def told(row: Row) -> str:
    """A row as it is told when it comes."""
    times = [(name, microseconds(row, name)) for name in row.get("contenders", {})]
    parts = [f"{name} {time_us:.4g} us" for name, time_us in times if time_us is not None]
    if "estimate_us" in row:
        parts.append(f"estimate {row['estimate_us']:.4g} us")
    return "; ".join([*parts, *filter(None, [errors(row)])])


HEADER = ("program", "us", "warm us", "estimate", "us ÷ it", "counted", "us ÷ it", "floor",
          "eager", "eager ÷ us", "launches")  # fmt: skip


def markdown(run: Row, rows: dict[str, Row]) -> str:
    """Means by group, what failed, and a table for each group."""
    groups: dict[str, dict[str, Row]] = {}
    for name, row in rows.items():
        groups.setdefault(name.partition("/")[0], {})[name] = row
    failed = [f"- {name}: {wrong}" for name, row in rows.items() if (wrong := errors(row))]
    lines = ["# Measured on a GPU", "", "Made by `python bench/measured.py`: microseconds with "
             "tensors that no cache holds, each program in CUDA graphs.", "",
             ", ".join(f"{k} {run[k]}" for k in ("device", "torch", "cuda", "date") if run.get(k)),
             "", *_means(groups), "", *failed]  # fmt: skip
    for group, own in groups.items():
        lines += ["", f"## {group}", "", "```", table(HEADER, list(_cells(own))), "```"]
    return "\n".join(lines) + "\n"


def _means(groups: dict[str, dict[str, Row]]) -> Iterator[str]:
    """For each group the geometric means of two ratios."""
    for group, rows in groups.items():
        timed = {n: t for n, row in rows.items() if (t := microseconds(row, DLC))}
        if not timed:
            continue
        estimates = [t / rows[n]["estimate_us"] for n, t in timed.items() if rows[n]["estimate_us"]]
        peers = [e / t for n, t in timed.items() if (e := microseconds(rows[n], "eager"))]
        told = [f"- {group}: {len(timed)} of {len(rows)} programs timed"]
        if estimates:
            told.append(f"{geometric_mean(estimates):.2f} times the estimate")
        if peers:
            faster = sum(peer > 1 for peer in peers)
            told.append(f"eager ÷ dlc {geometric_mean(peers):.2f}, dlc is faster in {faster}")
        yield ", ".join(told)


def _cells(rows: dict[str, Row]) -> Iterator[list[str]]:
    for name, row in rows.items():
        time_us, eager = microseconds(row, DLC), microseconds(row, "eager")
        if time_us is None:
            continue
        own = row["contenders"][DLC]
        warm = own["warm_us"][0] if own["warm_us"] else time_us
        estimate, counted = row["estimate_us"], sum(row["counted_us"].values())
        yield [
            name.partition("/")[2],
            *(f"{time_us:.2f}", f"{warm:.2f}", f"{estimate:.2f}", _ratio(time_us, estimate)),
            *(f"{counted:.2f}", _ratio(time_us, counted), f"{row['floor_us']:.2f}"),
            *(f"{eager:.2f}" if eager else "-", _ratio(eager or 0, time_us)),
            str(own["launches"] or "-"),
        ]


def _ratio(one: float, other: float) -> str:
    return f"{one / other:.2f}" if one and other else "-"


@contextmanager
def scratch(log: Path | None) -> Iterator[tuple[Path, Path]]:
    """A lock and a log."""
    with tempfile.TemporaryDirectory(prefix="dlc-measured-") as folder:
        lock = Path(folder) / "lock"
        lock.touch()
        yield lock, log or Path(folder) / "log.txt"


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--group", action="append", default=[], help="[all]")
    parser.add_argument("--only", default="", metavar="REGEX", help="of group/name")
    parser.add_argument("--skip", metavar="REGEX", help="of group/name")
    parser.add_argument("--budget", type=parse_budget, default=parse_budget("8m"), metavar="8m")
    parser.add_argument("--peers", type=lambda text: text.split(",") if text else [],
                        default=["eager"])  # fmt: skip
    parser.add_argument("--backend", choices=("host", "cuda"), default="cuda")
    parser.add_argument("--target", metavar="CHIP", help="of dlc's schedules [the GPU at hand]")
    parser.add_argument("--jobs", type=int, default=default_jobs(), help="processes")
    parser.add_argument("--patience", type=float, default=1.0, help="times as long for a step")
    parser.add_argument("--build-only", action="store_true", help="compile, measure nothing")
    parser.add_argument("--kernels", action="store_true", help="time each kernel, too")
    parser.add_argument("--log", type=Path, help="what the processes print")
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "results" / "measured")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    options = make_parser().parse_args(argv)
    from measured_programs import select

    from dlc_bench.device import find_device
    from dlc_bench.environment import environment

    names = [program.name for program in select(options.group, options.only)]
    if options.skip:
        names = [name for name in names if not re.search(options.skip, name)]
    with scratch(options.log) as (lock, log):
        run = Run(options, lock, log)
        names = [name for name in names if name not in run.rows]
        run.run = environment(find_device(options.backend)) if not options.build_only else {}
        run.measure(names)
        run.write()
    text = markdown(run.run, run.rows)
    options.output.with_suffix(".md").write_text(text)
    print(text.partition("\n## ")[0])
    left = [name for name in names if name not in run.rows]
    if left:
        print(f"the budget is spent: {len(left)} of {len(names)} programs are left")
    return 1 if left or any(errors(row) for row in run.rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

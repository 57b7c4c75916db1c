"""
What a call costs the CPU: dlc's programs outside graphs and within, beside eager PyTorch's.

    python bench/launch.py [--output launch.json] [--backend cuda|host] [--repeat 20]

The kernels are tiny, so that submitting them takes longest; a time is that of a call, submitted
again and again without waiting, in µs: the median of `repeat` rounds, in which contenders take
turns, with the 20th and 80th percentile. Per launch, it is what one kernel more costs, from
programs of 1 and of 9 kernels. `--backend host` is a rehearsal without a GPU: it runs kernels on
the CPU, within the call, so its figures say nothing of launches, and the JSON says so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch

import dlc
from dlc.backend import BackendError
from dlc.backend.executor import Backend, default_backend, get_backend
from dlc_bench.environment import commit

COUNTS = (1, 9)
"""Kernels of the programs."""
EXTENT = 64
CALLS = 50
"""Between two looks at the clock; few enough for the GPU's queue of launches."""


def chain(x: torch.Tensor, w: torch.Tensor, count: int) -> torch.Tensor:
    """Products of EXTENT x EXTENT, each a kernel: fusion merges smaller ones."""
    for _ in range(count):
        x = x @ w
    return x


def contenders(count: int, backends: dict[str, Backend]) -> dict[str, Callable[[], object]]:
    """What is timed, by name; all of it has been called once, and its results agree."""
    device = next(iter(backends.values())).device
    x, w = (torch.randn(EXTENT, EXTENT, device=device) for _ in range(2))
    w /= EXTENT**0.5
    made: dict[str, Callable[[], object]] = {"eager": lambda: chain(x, w, count)}
    expected = chain(x.double(), w.double(), count).float()
    for name, backend in backends.items():
        program = dlc.compile(lambda x, w: chain(x, w, count), (x, w), backend=backend)
        launches = len(program.variants[0].executor.launches)
        if launches != count:
            raise RuntimeError(f"expected {count} kernels, found {launches}")
        torch.testing.assert_close(program(x, w), expected, rtol=1e-3, atol=1e-4)
        made[name] = lambda program=program: program(x, w)
        if hasattr(backend, "capture"):
            graph = program.graph(x, w)
            torch.testing.assert_close(graph(x, w), expected, rtol=1e-3, atol=1e-4)
            made[f"{name}, graph"] = graph.replay
    if device.type == "cuda":
        made["eager, graph"] = eager_graph(lambda: chain(x, w, count))
    return made


def eager_graph(run: Callable[[], object]) -> Callable[[], object]:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def measure(made: dict[str, Callable[[], object]], repeat: int) -> dict[str, list[float]]:
    """Microseconds of a call, of each round."""
    times: dict[str, list[float]] = {name: [] for name in made}
    for turn in range(repeat + 2):
        for name, run in made.items():
            synchronize()
            begin = time.perf_counter()
            for _ in range(CALLS):
                run()
            taken = time.perf_counter() - begin
            if turn >= 2:  # the first rounds warm up
                times[name].append(taken / CALLS * 1e6)
    synchronize()
    return times


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def summary(times: list[float]) -> dict[str, float]:
    p20, *_, p80 = statistics.quantiles(times, n=5)
    return {"median": statistics.median(times), "p20": p20, "p80": p80}


def make_backends(name: str) -> dict[str, Backend]:
    """The backend, on a GPU by each driver at hand."""
    if name == "host":
        return {"dlc (host)": get_backend("host")}
    first = get_backend("cuda")
    from dlc.backend.cuda.run.bindings_driver import BindingsDriver
    from dlc.backend.cuda.run.gpu_backend import CudaBackend
    from dlc.backend.cuda.run.open_driver import open_driver

    drivers = [open_driver(first.device.index)]
    if drivers[0].name == "pycuda":
        drivers.append(BindingsDriver(first.device.index))
    return {f"dlc ({driver.name})": CudaBackend(driver=driver) for driver in drivers}


def environment(backend: str) -> dict[str, Any]:
    gpu = torch.cuda.get_device_name() if backend == "cuda" else None
    return {
        "rehearsal": backend != "cuda",
        "gpu": gpu,
        "date": date.today().isoformat(),
        "commit": commit(),
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.strip().split("\n")[0])
    parser.add_argument("--output", type=Path, metavar="FILE", help="write JSON")
    parser.add_argument("--backend", choices=("cuda", "host"), default=default_backend())
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()
    try:
        backends = make_backends(options.backend)
    except BackendError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    with torch.no_grad():
        calls = {c: measure(contenders(c, backends), max(2, options.repeat)) for c in COUNTS}
    few, many = COUNTS
    rows = {
        name: {
            **{f"{count} kernels": summary(calls[count][name]) for count in COUNTS},
            "per launch": (
                statistics.median(calls[many][name]) - statistics.median(calls[few][name])
            )
            / (many - few),
        }
        for name in calls[few]
    }
    if options.backend == "host":
        print("A rehearsal on the CPU: these are no times of launches.")
    print(f"{'us':24} {few:>6} kernel {many:>5} kernels   per launch")
    for name, row in rows.items():
        one, nine = (row[f"{count} kernels"]["median"] for count in COUNTS)
        print(f"{name:24} {one:13.2f} {nine:13.2f} {row['per launch']:12.2f}")
    if options.output is not None:
        result = {"environment": environment(options.backend), "us": rows}
        options.output.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

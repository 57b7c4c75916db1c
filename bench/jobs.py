"""What is done in the processes of bench/suite.py: building a case, measuring it, ceilings."""

from __future__ import annotations

import gc
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from cases import CASES, Case

from dlc.backend.cuda.run.nvcc import compile_cubin
from dlc.backend.executor import default_target
from dlc.compiler import compile as dlc_compile
from dlc_bench.ceilings import measure_ceilings
from dlc_bench.contender import (
    COMPILE,
    DLC,
    PEERS,
    RUN_SECONDS,
    Contender,
    Report,
    TakesNoPart,
    dlc,
)
from dlc_bench.device import Device, find_device
from dlc_bench.environment import environment, forbid_tf32
from dlc_bench.measure import Plan, Result, Spread, measure
from dlc_bench.subject import Call, Subject
from dlc_bench.work import Work

Announce = Callable[[str, str, float], None]
CHECK_ONLY = Plan(warm_up_seconds=0, seconds=0, least_rounds=1, most_rounds=1)
CEILINGS = Plan(seconds=0.3)
COMPILE_SECONDS = 120.0


def handle(job: dict[str, Any], announce: Announce) -> Any:
    """Does a job by its kind."""
    announce("harness", "the imports", RUN_SECONDS)
    forbid_tf32()
    kinds = {"ceilings": ceilings, "build": build, "measure": measure_case}
    try:
        return kinds[job["kind"]](job, announce)
    finally:
        torch._dynamo.reset()
        gc.collect()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()


def ceilings(job: dict[str, Any], announce: Announce) -> dict[str, Any]:
    """The environment, and what the device reaches at best."""
    device = find_device(job["backend"])
    announce("harness", "copy and product for comparison", 2 * RUN_SECONDS)
    found = asdict(measure_ceilings(device, CEILINGS))
    return environment(device) | {"ceilings": found}


def build(job: dict[str, Any], announce: Announce) -> None:
    """Fills the caches: dlc's kernels, which needs no GPU, and what Inductor makes."""
    case = find_case(job["case"])
    if DLC in job["contenders"]:
        announce(DLC, "building", COMPILE_SECONDS)
        build_kernels(case, job["backend"], job["target"])
    compiled = [name for name in job["contenders"] if name == COMPILE]
    if compiled:
        device = find_device(job["backend"])
        subject = make_subject(case, device)
        for name in compiled:
            announce(name, "building", COMPILE_SECONDS)
            with torch.no_grad():
                PEERS[name]().make(subject, lambda step, seconds: None)
        forget_tuning()


def forget_tuning() -> None:
    """
    Removes what Inductor has chosen by timing: here other processes use the GPU at the same time.
    It chooses again, from kernels that are compiled, when the GPU is its own.
    """
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    for path in Path(cache_dir()).rglob("*.best_config"):
        path.unlink(missing_ok=True)


def build_kernels(case: Case, backend: str, target: str | None) -> None:
    """Compiles a case with dlc, and its kernels to machine code."""
    target = target or default_target()
    with torch.device("meta"):
        inputs = [torch.empty(shape) for shape in case.inputs.values()]
        arguments = [*inputs, *case.make_constants()]
    program = dlc_compile(case.function, arguments, target, "host")
    executor = program.variant(arguments).executor
    if backend == "host":
        executor.prepare()
        return
    for func in executor.funcs:
        if func.grid_size > 0:
            compile_cubin(func.source, target)


def measure_case(job: dict[str, Any], announce: Announce) -> dict[str, Any]:
    """A row of the results: a case, and what was found of each contender."""
    case = find_case(job["case"])
    device = find_device(job["backend"])
    announce("harness", "inputs", RUN_SECONDS)
    subject = make_subject(case, device)
    contenders = make_contenders(job, case)
    plan = CHECK_ONLY if job.get("check_only") else Plan(seconds=job["seconds"])
    longest = longest_reduction(case) if device.backend == "host" else 1
    results = measure(subject, contenders, device, plan, announce, longest)
    return {
        "group": case.group,
        "text": case.text,
        "flops": case.flops,
        "bytes": case.bytes,
        "floor_us": device.limits.floor(subject.work, cold=device.backend == "cuda") * 1e6,
        "timed": not job.get("check_only"),
        "contenders": {name: as_json(result) for name, result in results.items()},
    }


def find_case(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def make_subject(case: Case, device: Device) -> Subject:
    """A case on inputs that are drawn now."""
    function = case.function
    with torch.device(device.torch):
        drawn = [torch.randn(shape) for shape in case.inputs.values()]
        tensors = [*drawn, *case.make_constants()]
    written = 4.0 * torch.Size(case.output).numel()

    def call(tensors: Sequence[torch.Tensor]) -> Any:
        return function(*tensors)

    def exact() -> list[torch.Tensor]:
        return [function(*(t.double() for t in tensors))]

    return Subject(call, tensors, exact, Work(case.flops, case.bytes - written, written))


def longest_reduction(case: Case) -> int:
    """Terms of the longest sum of a case, by which results on the host are judged."""
    with torch.device("meta"):
        inputs = [torch.empty(shape) for shape in case.inputs.values()]
        arguments = [*inputs, *case.make_constants()]
    return (
        dlc_compile(case.function, arguments, backend="host").variant(arguments).longest_reduction
    )


def make_contenders(job: dict[str, Any], case: Case) -> list[Contender]:
    """By name; `plugged` has the places of those that are not ours."""
    found: list[Contender] = []
    for name in job["contenders"]:
        if name == DLC:
            found.append(dlc(job["target"], job["backend"]))
        elif name in PEERS:
            found.append(PEERS[name]())
        else:
            found.append(plug_in(name, job["plugged"][name], case))
    return found


def plug_in(name: str, place: str, case: Case) -> Contender:
    """
    The contender of a function in a file, `FILE.py:FUNCTION`: given the case, it returns what
    computes it of its tensors, or None where it does not take part.
    """
    path, _, function = place.rpartition(":")

    def make(subject: Subject, report: Report) -> Call:
        spec = importlib.util.spec_from_file_location(Path(path).stem, path)
        if spec is None or spec.loader is None:
            raise ValueError(f"expected a contender as FILE.py:FUNCTION, found {place}")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        made = getattr(module, function)(case)
        if made is None:
            raise TakesNoPart
        return lambda tensors: made(*tensors)

    return Contender(name, make)


def as_json(result: Result) -> dict[str, Any]:
    """A contender's part of a row; times are [median, p20, p80] in microseconds."""
    accuracy = result.accuracy
    return {
        "error": result.error,
        "warm_us": _microseconds(result.warm),
        "cold_us": _microseconds(result.cold),
        "rounds": result.rounds,
        "launches": result.launches,
        "make_seconds": result.make_seconds,
        "accuracy": None
        if accuracy is None
        else {
            "error": accuracy.error,
            "eager_error": accuracy.eager_error,
            "bound": accuracy.bound,
            "ok": accuracy.ok,
        },
    }


def _microseconds(spread: Spread | None) -> list[float] | None:
    if spread is None:
        return None
    return [value * 1e6 for value in (spread.median, spread.p20, spread.p80)]

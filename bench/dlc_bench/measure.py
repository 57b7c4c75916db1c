"""
Contenders on one subject: each made, checked, and then timed beside the others, round by round.

    results = measure(subject, [dlc(), eager(), torch_compile()], find_device("host"))

Nothing is timed whose results are wrong, and no time stays that is below what bytes and operations
take on the device: that would be an error of this harness.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

from dlc.judge.accuracy import Accuracy, compare
from dlc.precision import Precision
from dlc_bench.contender import RUN_SECONDS, Contender
from dlc_bench.device import Device
from dlc_bench.graphs import GraphTimer, check_alive
from dlc_bench.subject import Subject, results_of
from dlc_bench.timer import HostTimer, Staged, Timer, Times

Announce: TypeAlias = Callable[[str, str, float], None]
"""Is told what is done next: by whom, what, and how many seconds it may take."""


@dataclass(frozen=True)
class Plan:
    """How long a subject is timed."""

    warm_up_seconds: float = 0.2
    """Of steady state before the first round counts."""
    seconds: float = 0.6
    """Of all rounds together."""
    least_rounds: int = 7
    most_rounds: int = 200


@dataclass(frozen=True)
class Spread:
    """Seconds of a call over the rounds."""

    median: float
    p20: float
    p80: float

    @staticmethod
    def of(times: Sequence[float]) -> Spread:
        if len(times) == 1:
            return Spread(times[0], times[0], times[0])
        fifths = statistics.quantiles(times, n=5, method="inclusive")
        return Spread(statistics.median(times), fifths[0], fifths[3])


@dataclass
class Result:
    """What was found of a contender."""

    error: str | None = None
    """Why it was not timed, or why its time does not count."""
    accuracy: Accuracy | None = None
    """The worst of its results; None where nothing is known of what they must be."""
    launches: int | None = None
    warm: Spread | None = None
    cold: Spread | None = None
    rounds: int = 0
    make_seconds: float = 0.0

    @property
    def best(self) -> Spread | None:
        """The cold times, or where there are none the warm ones."""
        return self.cold or self.warm


@dataclass
class Reference:
    """What results are held against."""

    exact: list[torch.Tensor]
    eager: list[torch.Tensor] | list[None]
    longest_reduction: int
    precision: Precision = "f32"
    """What products of f32 may be computed in."""

    def judge(self, results: Sequence[torch.Tensor]) -> Accuracy:
        """The worst of a contender's results. ValueError if their number or shapes are wrong."""
        if len(results) != len(self.exact):
            raise ValueError(f"expected {len(self.exact)} results, found {len(results)}")
        judged = [
            compare(r, x, e, self.longest_reduction, self.precision)
            for r, x, e in zip(results, self.exact, self.eager, strict=True)
        ]
        return max(judged, key=lambda a: (not a.ok, a.error))


@dataclass
class _Entrant:
    contender: Contender
    staged: Staged
    times: list[Times] = field(default_factory=list)


def make_timer(device: Device) -> Timer:
    """The timer of a device."""
    return GraphTimer(device.limits) if device.backend == "cuda" else HostTimer()


def measure(
    subject: Subject,
    contenders: Sequence[Contender],
    device: Device,
    plan: Plan | None = None,
    announce: Announce | None = None,
    longest_reduction: int = 1,
    precision: Precision = "f32",
    timer: Timer | None = None,
) -> dict[str, Result]:
    """
    The results by contender. What a contender raises is its result; BackendError where it breaks
    the GPU's context, after which the process can measure nothing any more.
    """
    announce, plan = announce or (lambda *_: None), plan or Plan()
    timer = timer or make_timer(device)
    results: dict[str, Result] = {c.name: Result() for c in contenders}
    entrants: list[_Entrant] = []
    with torch.no_grad():
        announce("reference", "results in fp64 and eager", RUN_SECONDS)
        exact = subject.exact()
        eager = _eager(subject) if exact and subject.has_eager else [None] * len(exact)
        reference = Reference(exact, eager, longest_reduction, precision)
        for contender in contenders:
            result = results[contender.name]
            staged = _prepare(subject, contender, timer, reference, result, announce)
            if device.backend == "cuda":
                check_alive()
            if staged is not None:
                entrants.append(_Entrant(contender, staged))
        _run_rounds(entrants, timer, plan, announce)
    for entrant in entrants:
        _summarise(results[entrant.contender.name], entrant.times, subject, device)
    return results


def _eager(subject: Subject) -> list[torch.Tensor]:
    """What PyTorch makes of the tensors, which are then what they were before."""
    results = [t.clone() for t in results_of(subject.call(subject.tensors))]
    subject.restore()
    return results


def _prepare(
    subject: Subject,
    contender: Contender,
    timer: Timer,
    reference: Reference,
    result: Result,
    announce: Announce,
) -> Staged | None:
    """A contender made and checked; None, with the reason in its result, where it cannot be."""
    name = contender.name
    announce(name, "compilation", contender.seconds)
    begin = time.perf_counter()
    try:
        call = contender.make(subject, lambda step, seconds: announce(name, step, seconds))
        result.make_seconds = time.perf_counter() - begin
        subject.restore()
        announce(name, "capture", RUN_SECONDS)
        staged = timer.stage(call, subject)
        result.launches = contender.launches() if staged.launches is None else staged.launches
        announce(name, "check of results", RUN_SECONDS)
        if reference.exact:
            runs = staged.poisoned_runs(reference.exact)
            judged = [reference.judge(results) for results in runs]
            result.accuracy = max(judged, key=lambda a: (not a.ok, a.error))
            if not result.accuracy.ok:
                result.error = f"wrong results: {result.accuracy}"
                return None
    except Exception as error:
        result.error = f"{type(error).__name__}: {error}"
        return None
    return staged


def _run_rounds(
    entrants: list[_Entrant],
    timer: Timer,
    plan: Plan,
    announce: Announce,
) -> None:
    """Rounds in turn, each begun by another contender; those of the warm-up do not count."""
    if not entrants:
        return
    begin = time.perf_counter()
    spent = 0.0
    number = 0
    while True:
        order = entrants[number % len(entrants) :] + entrants[: number % len(entrants)]

        def waiting(which: int, order: list[_Entrant] = order) -> None:
            announce(order[which].contender.name, "timing", RUN_SECONDS)

        start = time.perf_counter()
        times = timer.round([e.staged for e in order], waiting)
        now = time.perf_counter()
        number += 1
        if start - begin < plan.warm_up_seconds:
            continue
        spent += now - start
        for entrant, found in zip(order, times, strict=True):
            entrant.times.append(found)
        count = len(entrants[0].times)
        if count >= plan.most_rounds or (spent >= plan.seconds and count >= plan.least_rounds):
            return


def _summarise(result: Result, times: list[Times], subject: Subject, device: Device) -> None:
    result.rounds = len(times)
    result.warm = Spread.of([t.warm for t in times])
    cold = [t.cold for t in times if t.cold is not None]
    result.cold = Spread.of(cold) if cold else None
    for spread, is_cold in ((result.warm, False), (result.cold, True)):
        work = subject.rotated_work if is_cold else subject.work
        floor = device.limits.floor(work, is_cold)
        if spread is not None and spread.median < floor:
            result.error = (
                f"rejected, an error of the harness: {spread.median * 1e6:.3g} us "
                f"{'cold' if is_cold else 'warm'} is below the {floor * 1e6:.3g} us that "
                f"{subject.work.flops:.3g} operations and {subject.work.bytes:.3g} bytes take on "
                f"{device.name}"
            )

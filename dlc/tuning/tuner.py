"""
Tuning of one kernel: a search proposes schedules, an objective judges them, all is kept.

    tuning = tune_kernel(subject, objective("static"), Budget.of("200"))
    tuning.best.schedule
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from typing import Any

import torch

from dlc.tuning.candidate_program import Subject
from dlc.tuning.interrupts import check, interruptible
from dlc.tuning.objectives import Objective, Score, by_estimate
from dlc.tuning.ray_workers import RayWorkers
from dlc.tuning.searches import GreedySearch, RandomSearch, Search
from dlc.tuning.space import Space
from dlc.tuning.tree_search import TreeSearch
from dlc.tuning.workers import Died, Limits, Pool, Workers, isolated_call, only_answer

SEARCHES = {"mcts": TreeSearch, "random": RandomSearch, "greedy": GreedySearch}
EXPECT_SECONDS = 1800
"""What the host may take for the results that all candidates have to have."""
AGAIN = 10
"""The best so many candidates and the default are measured again, side by side."""


@dataclass(frozen=True)
class Budget:
    """How long a kernel is tuned."""

    seconds: float = float("inf")
    candidates: float = float("inf")

    @staticmethod
    def of(text: str) -> Budget:
        """`60s` or a number of candidates; ValueError for another text."""
        if match := re.fullmatch(r"(\d+(?:\.\d+)?)s", text):
            return Budget(seconds=float(match[1]))
        if re.fullmatch(r"[1-9]\d*", text):
            return Budget(candidates=int(text))
        raise ValueError(f"expected a budget such as 60s, or 200 candidates, found '{text}'")

    def share(self, candidates: int, seconds: float) -> float:
        """The part of it that is spent, from 0 to 1."""
        return min(1.0, max(candidates / self.candidates, seconds / self.seconds))


@dataclass
class Trial:
    """A candidate, and what came of it."""

    schedule: str
    estimate: float
    """Seconds."""
    first: Score | None = None
    """When it was judged alone."""
    score: Score | None = None
    """When it was judged last, unless it failed then."""
    again: bool = False
    """True if it was judged beside others, at the end."""
    refusal: str = ""
    """Why it has no score."""

    @property
    def found(self) -> float | None:
        """Seconds by the objective when it was judged alone, as all others."""
        return None if self.first is None else self.first.seconds

    @property
    def seconds(self) -> float | None:
        """By the objective."""
        return None if self.score is None else self.score.seconds


@dataclass
class Tuning:
    """All that was found about a kernel."""

    subject: Subject
    objective: Objective
    trials: list[Trial] = field(default_factory=list)
    """In the order of the proposals, the default schedule first."""
    refusals: dict[str, str] = field(default_factory=dict)
    """What could not be completed, with the reasons."""
    interrupted: bool = False

    @property
    def default(self) -> Trial:
        return self.trials[0]

    @property
    def ranked(self) -> list[Trial]:
        """
        Those with a score, the fastest first, but those that were measured side by side before all
        others; of equals the first found.
        """
        scored = (t for t in self.trials if t.score is not None)
        return sorted(scored, key=lambda t: (not t.again, t.seconds))

    @property
    def best(self) -> Trial:
        """The fastest; the default where none is faster."""
        return next(iter(self.ranked), self.default)

    @property
    def gain(self) -> float:
        """How many times as fast as the default the best is."""
        own, best = self.default.seconds, self.best.seconds
        return own / best if own and best else 1.0

    @property
    def so_far(self) -> str:
        """How many candidates there are, and the time of the best."""
        best = self.best.seconds or 0.0
        return f"{self.subject.name}: {len(self.trials)}, best {best * 1e6:.2f} us"


OnTrial = Callable[[Tuning, Trial], None]


def tune_kernel(
    subject: Subject,
    judge: Objective,
    budget: Budget,
    *,
    seed: int = 0,
    jobs: int = 1,
    search: str = "mcts",
    limits: Limits | None = None,
    ray: str | None = None,
    on_trial: OnTrial | None = None,
) -> Tuning:
    """
    The search, until its budget is spent, all schedules are known, or Ctrl-C, which keeps what was
    found. Candidates are judged in processes here, or on the Ray cluster at the address `ray`;
    here those that would disturb each other are made ready `jobs` at a time, and judged alone.
    `on_trial` is told of each. `Died` if the default schedule cannot be judged.
    """
    limits = limits or _limits(judge)
    space = Space(subject.module, subject.name)
    tuning = Tuning(subject, judge)
    run = _Run(tuning, space, limits, jobs, on_trial, ray)
    prior = None if judge.name == "estimate" else run.estimated
    with interruptible():
        try:
            run.expect()
            found = SEARCHES[search](space, seed, prior)
            tuning.refusals = found.refusals
            run.go(found, budget)
            run.again()
        except KeyboardInterrupt:
            tuning.interrupted = True
    if not tuning.trials or (tuning.default.score is None and not tuning.interrupted):
        why = tuning.default.refusal if tuning.trials else "it was interrupted"
        raise Died(f"the default schedule of {subject.name} cannot be judged: {why}")
    return tuning


def _limits(judge: Objective) -> Limits:
    """
    What a candidate may take. No process that runs kernels is a fork of this one, whose threads of
    torch and CUDA it would lack.
    """
    if judge.side_by_side is None:
        return Limits()
    return Limits(bytes=None if judge.name == "gpu" else Limits.bytes, start="forkserver")


@dataclass
class _Run:
    """What a tuning has at hand while it goes on."""

    tuning: Tuning
    space: Space
    limits: Limits
    jobs: int
    on_trial: OnTrial | None
    ray: str | None
    expected: list[torch.Tensor] = field(default_factory=list)
    estimates: dict[str, float] = field(default_factory=dict)
    ready: list[Trial] = field(default_factory=list)
    """Candidates that are prepared and wait until they can be judged alone."""
    alone: Trial | None = None
    """The one that is judged alone."""

    def pool(self, limits: Limits) -> Pool[Any]:
        """Where candidates are judged."""
        if self.ray is None:
            return Workers[Any](limits)
        return RayWorkers[Any](limits, self.ray, self.tuning.objective.name)

    def expect(self) -> None:
        """Runs the default schedule for the results that all have to have, if that is asked."""
        if self.tuning.objective.side_by_side is not None:
            call = partial(self.tuning.subject.results, self.space.default)
            limits = replace(self.limits, seconds=max(self.limits.seconds, EXPECT_SECONDS))
            answer = isolated_call(call, limits)
            if isinstance(answer, Died):
                raise answer
            self.expected = answer

    def estimated(self, schedule: str) -> float:
        """The estimate in seconds; infinite for what cannot be lowered."""
        if schedule not in self.estimates:
            try:
                self.estimates[schedule] = by_estimate(self.tuning.subject, schedule, []).seconds
            except Exception:  # the objective says why
                self.estimates[schedule] = float("inf")
        return self.estimates[schedule]

    def go(self, search: Search, budget: Budget) -> None:
        """Judges what the search proposes, `jobs` at a time; the default schedule alone."""
        begin = time.monotonic()
        with self.pool(self.limits) as workers:
            while True:
                check()
                spent = time.monotonic() - begin > budget.seconds
                full = len(self.tuning.trials) >= budget.candidates
                schedule = None if spent or full else search.propose()
                if schedule is not None:
                    trial = Trial(schedule, self.estimated(schedule))
                    self.tuning.trials.append(trial)
                    self._begin(workers, trial, search)
                at_once = self.jobs if len(self.tuning.trials) > 1 and schedule is not None else 1
                while len(workers.running) + len(self.ready) >= at_once:
                    self._answered(workers, *workers.next_answer(), search)
                if schedule is None:
                    return

    def _begin(self, workers: Pool[Trial], trial: Trial, search: Search) -> None:
        """Prepares a candidate that is to be judged alone, or judges it."""
        judge = self.tuning.objective
        if judge.prepare is not None and self.ray is None:
            workers.start(trial, partial(judge.prepare, self.tuning.subject, trial.schedule))
        else:
            self._judge(workers, trial, search)

    def _answered(
        self, workers: Pool[Trial], trial: Trial, answer: Score | Died | None, search: Search
    ) -> None:
        """Notes what was found of a candidate, or that it is ready; the next one's turn comes."""
        if answer is None:
            self.ready.append(trial)
        else:
            self.alone = None if trial is self.alone else self.alone
            self._note(trial, answer, search)
        if self.alone is None and self.ready:
            self.alone = self.ready.pop(0)
            self._judge(workers, self.alone, search)

    def _judge(self, workers: Pool[Trial], trial: Trial, search: Search) -> None:
        judge = self.tuning.objective
        call = partial(judge.score, self.tuning.subject, trial.schedule, self.expected)
        if judge.isolated:
            workers.start(trial, call)
            return
        try:
            answer: Score | Died = call()
        except Exception as error:
            answer = Died(f"{type(error).__name__}: {error}")
        self._note(trial, answer, search)

    def _note(self, trial: Trial, answer: Score | Died, search: Search) -> None:
        if isinstance(answer, Score) and isfinite(answer.seconds):
            trial.first = trial.score = answer
        else:
            trial.refusal = str(answer) if isinstance(answer, Died) else "no block fits on an SM"
        search.observe(trial.schedule, trial.seconds)
        if self.on_trial is not None:
            self.on_trial(self.tuning, trial)

    def again(self) -> None:
        """Measures the best and the default again, side by side."""
        judge, subject = self.tuning.objective, self.tuning.subject
        best = [t for t in self.tuning.ranked[:AGAIN] if t is not self.tuning.default]
        if judge.side_by_side is None or not best:
            return
        trials = [self.tuning.default, *best]
        schedules = [trial.schedule for trial in trials]
        call = partial(judge.side_by_side, subject, schedules, self.expected)
        limits = replace(self.limits, seconds=self.limits.seconds * len(trials))
        answers = only_answer(self.pool(limits), call)
        if isinstance(answers, Died):  # by one of them: each for itself
            alone = (partial(judge.score, subject, s, self.expected) for s in schedules)
            answers = [only_answer(self.pool(self.limits), call) for call in alone]
        for trial, answer in zip(trials, answers, strict=True):
            trial.again = isinstance(answer, Score)
            trial.score = answer if isinstance(answer, Score) else None
            trial.refusal = "" if trial.again else str(answer)

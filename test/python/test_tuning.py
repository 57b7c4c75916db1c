"""Searches over schedules, what judges them, and the database that keeps them."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import loop_cases
import pytest
import torch
from harness import parse
from xdsl.dialects.builtin import StringAttr

import dlc
from dlc.backend import BackendError
from dlc.backend.kernel_program import isolated
from dlc.backend.schedule_database import Entry, ScheduleDatabase, kernel_key
from dlc.cli.dlc_cli import main
from dlc.dialects import loop
from dlc.schedule.estimate import estimate
from dlc.target import TARGET_ATTRIBUTE, get_target
from dlc.tuning.candidate_program import Subject
from dlc.tuning.objectives import Failure, Objective, Score, objective
from dlc.tuning.searches import GreedySearch, RandomSearch
from dlc.tuning.space import Refused, Space
from dlc.tuning.tree_search import TreeSearch
from dlc.tuning.tune_program import with_schedules
from dlc.tuning.tuner import SEARCHES, Budget, tune_kernel
from dlc.tuning.tuning_report import difference, report
from dlc.tuning.workers import Died, Limits, isolated_call

CASES = (
    loop_cases.gemm(40, 36, 50),
    loop_cases.softmax(5, 130),
    loop_cases.silu_mul(7, 96),
    loop_cases.total(1000),
)
by_name = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
ENTRY = Entry("k", "sm_90", "host", "mm", "tileify", 1e-6, 2e-6, "digest", "source")


def subject(case: loop_cases.Case) -> Subject:
    module = parse(case.text)
    module.attributes[TARGET_ATTRIBUTE] = StringAttr("sm_90")
    ((name, alone),) = isolated(module)
    return Subject(alone, name)


def fixed(score: Callable[[str], float]) -> Objective:
    """An objective that takes a number for a schedule."""
    return Objective("static", lambda _, schedule, __: Score(score(schedule)), True, "made up")


# The space.


@by_name
def test_the_first_choices_make_the_default_schedule(case: loop_cases.Case) -> None:
    of = subject(case)
    space = Space(of.module, of.name)
    state = space.start
    while choices := space.choices(state):
        state = space.take(state, choices[0])
    assert state.schedule == space.default


@by_name
def test_random_schedules_run_right_or_are_refused(case: loop_cases.Case) -> None:
    of = subject(case)
    expected = of.results(Space(of.module, of.name).default)
    search = RandomSearch(Space(of.module, of.name), seed=1)
    for _ in range(4):
        schedule = search.propose()
        assert schedule is not None
        assert of.complaint(of.results(schedule), expected) == "", schedule
    assert all(": " in reason for reason in search.refusals.values())


def test_refusals_say_why() -> None:
    of = subject(CASES[0])
    space = Space(of.module, of.name)
    state = space.start
    while space.classes[state.number].name != "double-buffer":
        state = space.take(state, space.choices(state)[0])
    with pytest.raises(Refused, match="double-buffer: depth must be at most 4, not 5"):
        space.take(state, 5)


# Searches.


def test_all_schedules_of_a_small_space_are_found() -> None:
    """And the search ends by itself when all are known."""
    of = subject(loop_cases.silu_mul(1, 8))
    every = set(Space(of.module, of.name).schedules())
    assert len(every) > 5
    search, proposed = TreeSearch(Space(of.module, of.name), seed=0), list[str]()
    while (schedule := search.propose()) is not None:
        proposed.append(schedule)
        search.observe(schedule, 1.0)
    assert len(set(proposed)) == len(proposed)
    assert len(every & set(proposed)) > 0.9 * len(every)


@pytest.mark.parametrize("kind", SEARCHES)
def test_searches_are_deterministic_and_begin_with_the_default(kind: str) -> None:
    of = subject(CASES[1])

    def proposals() -> list[str | None]:
        search = SEARCHES[kind](Space(of.module, of.name), 7, None)
        found: list[str | None] = []
        for number in range(6):
            schedule = search.propose()
            found.append(schedule)
            if schedule is not None:
                search.observe(schedule, 1.0 + len(schedule) % 5 - number / 100)
        return found

    first = proposals()
    assert first == proposals()
    assert first[0] == Space(of.module, of.name).default


def test_greedy_goes_from_the_best() -> None:
    """The shorter, the better: it ends at a schedule of which no neighbour is shorter."""
    of = subject(loop_cases.silu_mul(1, 64))
    search = GreedySearch(Space(of.module, of.name), seed=0)
    while (schedule := search.propose()) is not None:
        search.observe(schedule, len(schedule))
    assert search.best[0] == len("tileify")


# Tuning.


def test_the_best_is_never_slower_than_the_default() -> None:
    of = subject(CASES[0])
    tuning = tune_kernel(of, objective("estimate"), Budget(candidates=12))
    assert tuning.default.schedule == Space(of.module, of.name).default
    assert len(tuning.trials) == 12
    assert (tuning.best.seconds or 0) <= (tuning.default.seconds or 0)
    text = report(tuning)
    assert "(default)" in text
    assert text.splitlines()[0] == f"{of.name}: 12 candidates, predicted"


def test_candidates_that_crash_hang_or_want_memory_are_kept_with_the_reason() -> None:
    of = subject(CASES[2])
    default = Space(of.module, of.name).default
    faults = [
        lambda: os.kill(os.getpid(), signal.SIGKILL),
        lambda: time.sleep(60),
        lambda: bytearray(1 << 40),
        lambda: 1 / 0,
        lambda: float("inf"),
    ]

    def score(of: Subject, schedule: str, expected: list[torch.Tensor]) -> Score:
        if schedule == default:
            return Score(1.0)
        which = int.from_bytes(schedule.encode()[-3:]) + len(schedule)
        return Score(float(faults[which % len(faults)]()))  # pyright: ignore

    judge = Objective("static", score, True, "made up")
    tuning = tune_kernel(of, judge, Budget(candidates=12), limits=Limits(2, 8 << 30))
    assert tuning.best is tuning.default
    reasons = {trial.refusal for trial in tuning.trials[1:]}
    assert "" not in reasons
    assert reasons <= {
        "crashed with SIGKILL",
        "killed after 2 s",
        "wants more than 8 GiB of memory",
        "ZeroDivisionError: division by zero",
        "no block fits on an SM",
    }
    assert len(reasons) > 1


def _dies(schedule: str) -> float:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0.0


def test_a_default_that_cannot_be_judged_is_an_error() -> None:
    of = subject(CASES[2])
    with pytest.raises(Died, match=r"the default schedule of silu_mul cannot be judged: crashed"):
        tune_kernel(of, fixed(_dies), Budget(candidates=3))


def test_several_at_once() -> None:
    of = subject(CASES[2])
    tuning = tune_kernel(of, fixed(len), Budget(candidates=9), jobs=3)
    assert len(tuning.trials) == 9
    assert tuning.best.seconds == min(len(t.schedule) for t in tuning.trials)


def test_wrong_results_are_never_chosen() -> None:
    of = subject(CASES[1])
    expected = [t + 1 for t in of.results(Space(of.module, of.name).default)]
    call = partial(objective("host").score, of, Space(of.module, of.name).default, expected)
    answer = isolated_call(call, Limits())
    assert isinstance(answer, Died)
    assert "wrong results" in str(answer)


def test_interrupted_tunings_keep_what_was_found() -> None:
    of = subject(CASES[2])

    def stop(tuning: object, trial: object) -> None:
        if len(seen := getattr(tuning, "trials", [])) == 4:
            raise KeyboardInterrupt(len(seen))

    tuning = tune_kernel(of, fixed(len), Budget(candidates=50), on_trial=stop)
    assert tuning.interrupted
    assert len(tuning.trials) == 4
    assert "interrupted" in report(tuning)


def test_budgets() -> None:
    assert Budget.of("60s") == Budget(seconds=60)
    assert Budget.of("200") == Budget(candidates=200)
    for wrong in ("0", "-3", "1m", ""):
        with pytest.raises(ValueError, match="expected a budget such as 60s"):
            Budget.of(wrong)


def test_unknown_objectives_and_those_without_a_gpu() -> None:
    with pytest.raises(ValueError, match="expected an objective of estimate, static, host, gpu"):
        objective("speed")
    if not torch.cuda.is_available():
        with pytest.raises(BackendError, match="there is no GPU here to measure on"):
            objective("gpu")


def test_differences() -> None:
    text = difference("tileify,double-buffer{depth=3},async-copy", "tileify,double-buffer{depth=2}")
    assert text == "double-buffer{depth=2},-async-copy"


# The database.


def test_what_is_put_is_found(tmp_path: Path) -> None:
    database = ScheduleDatabase(tmp_path / "t.sqlite")
    assert database.find("k", "sm_90", ("host",)) is None
    database.put(ENTRY)
    assert database.find("k", "sm_90", ("gpu", "host")) == ENTRY
    assert database.find("k", "sm_80", ("host",)) is None
    other = ScheduleDatabase(tmp_path / "u.sqlite")
    assert other.read(database.text()) == 1
    assert other.entries() == [ENTRY]
    with pytest.raises(ValueError, match="line 2 is no tuned schedule"):
        other.read(database.text() + "{}")


def _put(path: Path, first: int) -> None:
    for number in range(first, first + 20):
        ScheduleDatabase(path).put(Entry(f"k{number}", *list(ENTRY.__dict__.values())[1:]))


def test_two_may_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    context = get_context("fork")
    processes = [context.Process(target=_put, args=(path, first)) for first in (0, 20)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert len(ScheduleDatabase(path).entries()) == 40


@pytest.mark.parametrize("fault", ["missing folder", "no database", "full"])
def test_a_database_that_cannot_be_written_is_a_sentence(fault: str, tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    if fault == "missing folder":
        path = tmp_path / "none" / "t.sqlite"
    elif fault == "no database":
        path.write_text("something else" * 100)
    else:
        path = Path("/dev/full")
    with pytest.raises(BackendError, match=r"cannot write to the database .*; name another"):
        ScheduleDatabase(path).put(ENTRY)


def test_keys_are_of_structure() -> None:
    def key(case: loop_cases.Case, name: str | None = None) -> str:
        (kernel,) = [op for op in parse(case.text).walk() if isinstance(op, loop.KernelOp)]
        kernel.schedule = StringAttr("tileify")
        if name is not None:
            kernel.sym_name = StringAttr(name)
        return kernel_key(kernel)

    assert key(CASES[0]) == key(CASES[0], "other")
    assert key(CASES[0]) != key(loop_cases.gemm(40, 36, 51))


def test_the_faster_of_two_entries_stays(tmp_path: Path) -> None:
    """Unless the faster one is known to be no good; another time of one schedule is believed."""
    database = ScheduleDatabase(tmp_path / "t.sqlite")
    slower = replace(ENTRY, schedule="other", seconds=2 * ENTRY.seconds)
    for entries in ((ENTRY, slower), (slower, ENTRY)):
        database.put(*entries)
        assert database.entries() == [ENTRY]
    database.put(slower, instead_of=ENTRY)
    assert database.entries() == [slower]
    again = replace(slower, seconds=3 * ENTRY.seconds)
    database.put(again)
    assert database.entries() == [again]


# Estimates.


@pytest.mark.parametrize("case", CASES[:3], ids=lambda c: c.name)
def test_the_default_schedule_takes_what_explain_says(case: loop_cases.Case) -> None:
    of = subject(case)
    found = objective("estimate").score(of, Space(of.module, of.name).default, [])
    assert found.seconds == pytest.approx(estimate(of.kernel, of.target).seconds, rel=1e-9)


def test_kernels_go_to_other_processes_as_text() -> None:
    """Those that run CUDA cannot be forks of this one."""
    of = subject(CASES[2])
    again = pickle.loads(pickle.dumps(of))
    default = Space(of.module, of.name).default
    assert again.correction == of.correction
    expected = of.results(default)
    call = partial(objective("host").score, of, default, expected)
    assert isolated_call(call, Limits(start="forkserver")).seconds > 0


def test_clocks_are_read_side_by_side() -> None:
    """Of several, one that is wrong is told apart."""
    of = subject(CASES[2])
    default = Space(of.module, of.name).default
    side_by_side = objective("host").side_by_side
    assert side_by_side is not None
    good, bad = side_by_side(of, [default, "tileify,async-kopy"], of.results(default))
    assert isinstance(good, Score)
    assert isinstance(bad, Failure)


@pytest.mark.parametrize("crash", [False, True])
def test_the_best_are_measured_again(crash: bool) -> None:
    """What is wrong then is not chosen; if all die together, each is measured alone."""
    of = subject(CASES[2])

    def together(of: Subject, schedules: Sequence[str], _: object) -> list[Score | Failure]:
        if crash:
            os.kill(os.getpid(), signal.SIGKILL)
        return [Failure("wrong") if "thread" not in s else Score(len(s)) for s in schedules]

    judge = Objective("host", lambda _, s, __: Score(float(len(s))), True, "made up", together)
    tuning = tune_kernel(of, judge, Budget(candidates=12))
    shortest = min((t.schedule for t in tuning.trials), key=len)
    assert sum(t.again for t in tuning.trials) >= 2
    assert tuning.best.again
    assert (tuning.best.schedule == shortest) == (crash or "thread" in shortest)


# Programs.


def program(x: torch.Tensor) -> torch.Tensor:
    return x.exp() * 2


def test_tuned_schedules_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path))
    args = (torch.randn(33, 70),)
    plain = dlc.compile(program, args, "sm_90", "host")
    ((name, alone),) = isolated(plain.variants[0].module("loop"))
    (kernel,) = [op for op in alone.walk() if isinstance(op, loop.KernelOp)]
    schedule = "tileify,blockify-launch{block=32 thread=8}"
    from dlc.version import source_key

    entry = Entry(kernel_key(kernel), "sm_90", "host", name, schedule, 1e-6, 2e-6, "", source_key())
    ScheduleDatabase().put(entry)
    tuned = dlc.compile(program, args, "sm_90", "host", tuned=True)
    assert tuned.kernels[0].schedule == schedule
    assert "because                 tuned by host: 1.00 us, the default 2.00 us" in tuned.explain()
    torch.testing.assert_close(tuned(*args), program(*args))
    assert dlc.compile(program, args, "sm_90", "host").kernels[0].schedule != schedule

    suspect = Entry(*[*list(entry.__dict__.values())[:-2], "other text", "another dlc"])
    ScheduleDatabase().put(suspect)
    again = dlc.compile(program, args, "sm_90", "host", tuned=True)
    assert again.kernels[0].schedule == plain.kernels[0].schedule


def test_tune_in_python(tmp_path: Path) -> None:
    args, path = (torch.randn(33, 70),), tmp_path / "t.sqlite"
    found = dlc.tune(program, args, "sm_90", objective="estimate", budget=5, database=path)
    assert len(found.tunings) == 1
    assert str(found).splitlines()[0].endswith("5 candidates, predicted")
    assert len(ScheduleDatabase(path).entries()) == 1
    faster = dlc.compile(program, args, "sm_90", "host", schedules=found.schedules)
    torch.testing.assert_close(faster(*args), program(*args))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, database, text = (str(tmp_path / n) for n in ("k.mlir", "t.sqlite", "t.json"))
    command = ["tune", "-c", "torch.randn(9, 64).softmax(-1)", "--target", "sm_90"]
    options = ["--objective", "estimate", "--budget", "6", "--db", database, "-o", file, "-v"]
    assert main([*command, *options]) == 0
    out, err = capsys.readouterr()
    assert "6 candidates, predicted" in out
    assert err.count(" us") == 6
    assert 'schedule "tileify' in Path(file).read_text()
    assert main(["tune", "--export", text, "--db", database]) == 0
    assert main(["tune", "--import", text, "--db", str(tmp_path / "u.sqlite")]) == 0
    assert "1 schedule added" in capsys.readouterr().out
    assert main([*command, "--budget", "soon"]) == 2
    assert "expected a budget such as 60s" in capsys.readouterr().err
    assert main([*command, "--objective", "estimate", "--kernel", "softmx"]) == 1
    assert "there is no kernel 'softmx' to tune" in capsys.readouterr().err


def test_schedules_are_written_on_kernels() -> None:
    of = subject(CASES[2])
    module = with_schedules(of.module, {of.name: "tileify"})
    (kernel,) = [op for op in module.walk() if isinstance(op, loop.KernelOp)]
    assert kernel.schedule == StringAttr("tileify")
    assert get_target("sm_90") == of.target

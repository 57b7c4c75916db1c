"""Searches over schedules, what judges them, and the database that keeps them."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen

import loop_cases
import pytest
import torch
from tuning_cases import fixed, subject
from xdsl.dialects.builtin import StringAttr

import dlc
from dlc.backend import BackendError
from dlc.backend.schedule_database import Entry, ScheduleDatabase
from dlc.cli.dlc_cli import main
from dlc.diagnostics import UsageError
from dlc.dialects import loop
from dlc.schedule.estimate import estimate
from dlc.target import get_target
from dlc.tuning.candidate_program import Subject
from dlc.tuning.interrupts import interrupted, interruptible
from dlc.tuning.objectives import Failure, Objective, Score, objective
from dlc.tuning.space import Refused, Space
from dlc.tuning.tune_program import tune_module, with_schedules
from dlc.tuning.tuner import Budget, Trial, Tuning, tune_kernel
from dlc.tuning.tuning_plot import plot
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


# The space.


@by_name
def test_the_first_choices_make_the_default_schedule(case: loop_cases.Case) -> None:
    of = subject(case)
    space = Space(of.module, of.name)
    state = space.start
    while choices := space.choices(state):
        state = space.take(state, choices[0])
    assert state.schedule == space.default


def test_refusals_say_why() -> None:
    of = subject(CASES[0])
    space = Space(of.module, of.name)
    state = space.start
    while space.classes[state.number].name != "double-buffer":
        state = space.take(state, space.choices(state)[0])
    with pytest.raises(Refused, match="double-buffer: depth must be 2 to 16, not 17"):
        space.take(state, 17)


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


class _PressesKey:
    """Ctrl-C while it is finalized, where Python cannot raise anything."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def heard() -> Iterator[None]:
    """Ctrl-C is heard, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("jobs", [1, 3])
def test_keys_are_heard_in_finalizers(jobs: int, heard: None) -> None:
    of = subject(CASES[2])

    def stop(tuning: Tuning, trial: Trial) -> None:
        if len(tuning.trials) == 4:
            _PressesKey()

    tuning = tune_kernel(of, fixed(len), Budget(candidates=50), jobs=jobs, on_trial=stop)
    assert tuning.interrupted
    assert len(tuning.trials) <= 4 + jobs


def test_a_key_ends_a_candidate_that_runs(heard: None) -> None:
    """It is looked at while one is waited for; of a program, later kernels are not begun."""
    module = dlc.compile(two_kernels, (torch.randn(9, 64),), "sm_90").variants[0].module("loop")

    def score(of: Subject, schedule: str, expected: object) -> Score:
        if parents:
            os.kill(parents.pop(), signal.SIGINT)
            time.sleep(60)
        return Score(1.0)

    def first(tuning: Tuning, trial: Trial) -> None:
        parents.append(os.getpid())

    parents: list[int] = []
    begin = time.monotonic()
    judge = Objective("static", score, True, "made up")
    found = tune_module(module, judge, Budget(candidates=9), on_trial=first)
    assert found.interrupted
    assert len(found.tunings) == 1
    assert time.monotonic() - begin < 30


def test_the_second_key_ends_all_at_once(heard: None) -> None:
    with interruptible():
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
        with interruptible(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert not interrupted()


def test_budgets() -> None:
    assert Budget.of("60s") == Budget(seconds=60)
    assert Budget.of("200") == Budget(candidates=200)
    assert Budget.of("60s").share(1000, 30) == 0.5
    assert Budget.of("200").share(50, 1e9) == 0.25
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


def test_kernels_run_where_torch_has_had_threads() -> None:
    """As after weights were drawn: a fork of a process with threads of OpenMP waits for them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.randn(400, 400).exp_()
    try:
        of = subject(loop_cases.softmax(64, 1024))  # of which torch gives threads parts
        tuning = tune_kernel(of, objective("host"), Budget(candidates=1))
    finally:
        torch.set_num_threads(threads)
    assert tuning.default.score is not None


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
    tuning = tune_kernel(of, judge, Budget(candidates=12), limits=Limits())
    shortest = min((t.schedule for t in tuning.trials), key=len)
    assert sum(t.again for t in tuning.trials) >= 2
    assert tuning.best.again
    assert (tuning.best.schedule == shortest) == (crash or "thread" in shortest)


# Programs.


def two_kernels(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.softmax(-1), x.cumsum(0)


def program(x: torch.Tensor) -> torch.Tensor:
    return x.exp() * 2


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


def test_interrupted_by_a_key_it_prints_what_was_found(tmp_path: Path) -> None:
    options = ["--objective", "estimate", "--budget", "100000", "--db", str(tmp_path / "t.sqlite")]
    program = ["-c", "torch.randn(9, 64).softmax(-1)", "--target", "sm_90", "-v"]
    heard = "signal.signal(signal.SIGINT, signal.default_int_handler)"  # also behind nohup
    code = f"import signal, sys; {heard}; from dlc.cli.dlc_cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "tune", *program, *options]
    with Popen(command, stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.strip().startswith("3 "):
                break
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in out.splitlines()[0]
    assert "0 (default)" in out
    assert len(ScheduleDatabase(tmp_path / "t.sqlite").entries()) == 1


def test_searches_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of, path = subject(CASES[2]), tmp_path / "p.svg"
    tuning = tune_kernel(of, fixed(len), Budget(candidates=5))
    plot([tuning, tuning], path)
    assert "candidates" in path.read_text()
    with pytest.raises(UsageError, match=r"cannot write .*nothing"):
        plot([tuning], tmp_path / "p.nothing")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="--plot needs matplotlib"):
        plot([tuning], path)


def test_schedules_are_written_on_kernels() -> None:
    of = subject(CASES[2])
    module = with_schedules(of.module, {of.name: "tileify"})
    (kernel,) = [op for op in module.walk() if isinstance(op, loop.KernelOp)]
    assert kernel.schedule == StringAttr("tileify")
    assert get_target("sm_90") == of.target

"""The database of tuned schedules: what it keeps, who may write, what is used of it."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import loop_cases
import pytest
import torch
from harness import parse
from tuning_cases import fixed, subject
from xdsl.dialects.builtin import StringAttr

import dlc
from dlc.backend import BackendError
from dlc.backend.kernel_program import isolated
from dlc.backend.schedule_database import Entry, ScheduleDatabase, kernel_key
from dlc.dialects import loop
from dlc.tuning.tune_program import tune_module
from dlc.tuning.tuner import Budget, Trial, Tuning
from dlc.version import source_key

ENTRY = Entry("k", "sm_90", "host", "mm", "tileify", 1e-6, 2e-6, "digest", "source")


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

    assert key(loop_cases.gemm(40, 36, 50)) == key(loop_cases.gemm(40, 36, 50), "other")
    assert key(loop_cases.gemm(40, 36, 50)) != key(loop_cases.gemm(40, 36, 51))


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


def program(x: torch.Tensor) -> torch.Tensor:
    return x.exp() * 2


def test_tuned_schedules_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path))
    args = (torch.randn(33, 70),)
    plain = dlc.compile(program, args, "sm_90", "host")
    ((name, alone),) = isolated(plain.variants[0].module("loop"))
    (kernel,) = [op for op in alone.walk() if isinstance(op, loop.KernelOp)]
    schedule = "tileify,blockify-launch{block=32 thread=8}"
    entry = Entry(kernel_key(kernel), "sm_90", "host", name, schedule, 1e-6, 2e-6, "", source_key())
    ScheduleDatabase().put(entry)
    tuned = dlc.compile(program, args, "sm_90", "host", tuned=True)
    assert tuned.kernels[0].schedule == schedule
    why = "tuned: by the host's clock (measured 1.00 us, default 2.00 us)"
    assert f"because                 {why}" in tuned.explain()
    torch.testing.assert_close(tuned(*args), program(*args))
    assert dlc.compile(program, args, "sm_90", "host").kernels[0].schedule != schedule

    suspect = Entry(*[*list(entry.__dict__.values())[:-2], "other text", "another dlc"])
    ScheduleDatabase().put(suspect)
    again = dlc.compile(program, args, "sm_90", "host", tuned=True)
    assert again.kernels[0].schedule == plain.kernels[0].schedule


# Faults.


def _code(child: Callable[[], object]) -> int | None:
    """How a process ends that does this."""
    process = get_context("fork").Process(target=child)
    process.start()
    process.join()
    return process.exitcode


def _says(path: Path, why: str) -> None:
    with pytest.raises(BackendError, match=rf"cannot write to the database .*{why}.*--db"):
        ScheduleDatabase(path).put(replace(ENTRY, schedule="x" * 100_000, seconds=1e-9))


def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    """What stood there before still does."""
    path = tmp_path / "t.sqlite"
    ScheduleDatabase(path).put(ENTRY)

    def on_full_disk() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        _says(path, "")

    assert _code(on_full_disk) == 0
    assert ScheduleDatabase(path).entries() == [ENTRY]


def test_a_read_only_database_is_a_sentence() -> None:
    """It is still read. Root may write all files, and is another user here."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.sqlite"
        ScheduleDatabase(path).put(ENTRY)
        path.chmod(0o444)
        path.parent.chmod(0o755)

        def as_reader() -> None:
            if os.getuid() == 0:
                os.setuid(65534)
            _says(path, "readonly")
            assert ScheduleDatabase(path).entries() == [ENTRY]

        assert _code(as_reader) == 0


def test_a_file_that_was_only_begun_has_no_entries(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    path.touch()
    assert ScheduleDatabase(path).entries() == []
    assert ScheduleDatabase(path).find("k", "sm_90", ("host",)) is None


def test_a_killed_tuner_has_kept_its_best(tmp_path: Path) -> None:
    of, path = subject(loop_cases.silu_mul(7, 96)), tmp_path / "t.sqlite"
    said = tmp_path / "said"

    def killed() -> None:
        def stop(tuning: Tuning, trial: Trial) -> None:
            said.write_text(tuning.best.schedule)
            if len(tuning.trials) == 6:
                os.kill(os.getpid(), signal.SIGKILL)

        tune_module(
            of.module, fixed(len), Budget(candidates=50), on_trial=stop,
            database=ScheduleDatabase(path),
        )  # fmt: skip

    assert _code(killed) == -signal.SIGKILL
    assert [entry.schedule for entry in ScheduleDatabase(path).entries()] == [said.read_text()]


def test_a_database_that_fails_later_ends_no_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that cannot be written at all does, before time is spent."""
    of, path = subject(loop_cases.silu_mul(7, 96)), tmp_path / "none" / "t.sqlite"
    judge, database = fixed(len), ScheduleDatabase(path)
    with pytest.raises(BackendError, match="cannot write to the database"):
        tune_module(of.module, judge, Budget(candidates=5), database=database)
    path.parent.mkdir()

    def gone(tuning: Tuning, trial: Trial) -> None:
        if len(tuning.trials) == 1:
            monkeypatch.setattr(database, "path", tmp_path / "gone" / "t.sqlite")

    found = tune_module(of.module, judge, Budget(candidates=9), database=database, on_trial=gone)
    assert len(found.tunings[0].trials) == 9
    assert "the search goes on without it" in caplog.text

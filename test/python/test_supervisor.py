"""The suite's harness: processes that hang and crash, budgets, resuming, merging, comparing."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import compare
import psutil
import pytest
import ratios
import record
import report
import suite
from fake_jobs import RUN, result, row
from supervisor import Failure, Overdue, Worker

HANDLER = "fake_jobs:handle"


@pytest.fixture
def worker(tmp_path: Path) -> Any:
    with Worker(HANDLER, tmp_path / "log.txt") as made:
        yield made


def test_a_process_is_used_again(worker: Worker) -> None:
    assert worker.run({}) == worker.run({})


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        ("hang", "killed after 0.3 s"),
        ("crash", "crashed with SIGSEGV: CUDA error: an illegal memory access"),
        ("exit", "ended with code 3"),
        ("raise", "RuntimeError: the GPU's context is broken"),
    ],
)
def test_the_blame_and_a_new_process(worker: Worker, act: str, reason: str) -> None:
    first = worker.run({})
    with pytest.raises(Failure) as failure:
        worker.run({"act": act})
    assert failure.value.contender == act
    assert str(failure.value) == f"{reason} during kernel k, 1 of 2"
    assert worker.run({}) != first


def test_a_deadline(worker: Worker) -> None:
    worker.run({})
    with pytest.raises(Overdue):
        worker.run({"act": "hang"}, time.monotonic() + 0.1)


def test_children_are_killed(worker: Worker) -> None:
    with pytest.raises(Failure):
        worker.run({"act": "child"})
    lines = [p.info["cmdline"] for p in psutil.process_iter(["cmdline", "status"])
             if p.info["status"] != psutil.STATUS_ZOMBIE]  # fmt: skip
    assert ["sleep", "987654"] not in lines


def test_no_process_outlives_the_one_that_started_it(tmp_path: Path) -> None:
    text = f"""
import pathlib
from supervisor import Worker
if __name__ == "__main__":
    worker = Worker({HANDLER!r}, pathlib.Path({str(tmp_path / "log.txt")!r}), patience=100)
    worker.run({{}})
    print(worker._process.pid, flush=True)
    worker.run({{"act": "hang"}})
"""
    (tmp_path / "parent.py").write_text(text)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "parent.py")], stdout=subprocess.PIPE, env=environment
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    time.sleep(1)  # it hangs by now, and does not listen
    parent.kill()
    parent.wait()
    parent.stdout.close()
    alive = psutil.wait_procs([child], timeout=10)[1]
    for process in alive:
        process.kill()
    assert alive == []


# The suite, with pretended jobs


@pytest.fixture
def run_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(suite, "HANDLER", HANDLER)

    def run(*arguments: str) -> dict[str, Any]:
        given = ["--backend", "host", "--jobs", "1", "--output", str(tmp_path / "suite"),
                 "--log", str(tmp_path / "log.txt"), *arguments]  # fmt: skip
        code = suite.main(given)
        return {"code": code} | json.loads((tmp_path / "suite.json").read_text())

    return run


CASES = r"suite/rmsnorm\.tl\.s(32|128)$"


def test_bad_contenders_do_not_stop_the_suite(
    run_suite: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "name_of", lambda place: place)
    monkeypatch.setattr(suite, "MOST_DEATHS", 1)
    found = run_suite("--only", CASES, "--contender", "hang", "--contender", "crash")
    assert found["code"] == 0
    assert record.problems({k: v for k, v in found.items() if k != "code"}) == []
    first, second = (
        {name: r["error"] for name, r in case["contenders"].items()}
        for case in found["rows"].values()
    )
    assert first["hang"] == "killed after 0.3 s during kernel k, 1 of 2"
    assert first["crash"].startswith("crashed with SIGSEGV: CUDA error")
    assert first["dlc"] is first["eager"] is None
    assert second["hang"] == second["crash"] == "left out: it ended 1 processes before"
    assert second["dlc"] is None
    text = (tmp_path / "suite.md").read_text()
    assert "| eager | 2 | 2.000 | 2 | 2.00 (rmsnorm.tl.s32) |" in text
    assert "- rmsnorm.tl.s32, hang: killed after 0.3 s" in text
    assert (tmp_path / "suite.png").stat().st_size > 1000


def test_a_suite_goes_on_where_it_was(
    run_suite: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_suite("--only", CASES, "--slice", "1/2")
    found = run_suite("--only", CASES, "--slice", "2/2")
    assert len(found["rows"]) == 2
    assert len(found["runs"]) == 2
    capsys.readouterr()
    assert len(run_suite("--only", CASES)["runs"]) == 2
    assert "2 of 2 cases are in" in capsys.readouterr().out
    again = run_suite("--only", CASES, "--slice", "1/2", "--autotune")  # another contender
    assert "max-autotune" in again["rows"]["rmsnorm.tl.s32"]["contenders"]
    assert "max-autotune" not in again["rows"]["rmsnorm.tl.s128"]["contenders"]


def test_the_budget_ends_a_suite(run_suite: Any) -> None:
    found = run_suite("--only", CASES, "--budget", "0.01s")
    assert found["code"] == 1
    assert found["rows"] == {}


def test_budgets_and_slices() -> None:
    assert [suite.parse_budget(t) for t in ("9m", "90s", "1h", "5")] == [540, 90, 3600, 5]
    whole = suite.choose(suite.make_parser().parse_args([]))
    assert len(whole) == 84
    parts = [suite.choose(suite.make_parser().parse_args(["--slice", f"{i}/4"]))
             for i in (1, 2, 3, 4)]  # fmt: skip
    assert sorted(c.name for part in parts for c in part) == sorted(c.name for c in whole)
    with pytest.raises(SystemExit):
        suite.make_parser().parse_args(["--slice", "0/4"])


# Records


def data(**rows: dict[str, Any]) -> dict[str, Any]:
    return {"schema": 1, "runs": [RUN], "rows": copy.deepcopy(rows)}


GOOD = {"a": row(dlc=result(10.0), eager=result(20.0)), "b": row(dlc=result(10.0))}


def test_a_good_record_has_no_problem() -> None:
    assert record.problems(data(**GOOD)) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d.update(schema=2), "expected a record with schema 1"),
        (lambda d: d.pop("rows"), "the record: 'rows' is missing"),
        (lambda d: d["runs"][0].pop("tf32"), "run 0: 'tf32' is missing"),
        (lambda d: d["runs"][0]["ceilings"].update(gemm_flops="x"), "wrong type: 'x'"),
        (lambda d: d["rows"]["a"].update(run=1), "a: expected one of 1 runs, found 1"),
        (lambda d: d["rows"]["a"].update(flops=True), "'flops' has the wrong type: True"),
        (lambda d: d["rows"]["a"].update(more=1), "a: 'more' is unknown"),
        (
            lambda d: d["rows"]["a"]["contenders"]["dlc"].update(warm_us=[1, 2, 3]),
            "a, dlc: expected [median, p20, p80] in order",
        ),
        (
            lambda d: d["rows"]["a"]["contenders"]["dlc"]["accuracy"].pop("ok"),
            "a, dlc, accuracy: 'ok' is missing",
        ),
    ],
)
def test_every_problem_is_found(change: Any, problem: str) -> None:
    bad = json.loads(json.dumps(data(**GOOD)))
    change(bad)
    [found] = record.problems(bad)
    assert problem in found


def test_merging(tmp_path: Path) -> None:
    mine = record.Record(tmp_path / "mine.json")
    mine.data = data(a=GOOD["a"])
    later = data(a=row(dlc=result(1.0)), b=GOOD["b"], c=row(dlc=result(3.0)))
    mine.merge(later)
    assert mine.rows["a"]["contenders"]["dlc"]["warm_us"][0] == 10.0  # it has more contenders
    assert mine.rows["c"]["run"] == 1
    assert record.problems(mine.data) == []
    newer = data(a=GOOD["a"] | {"text": "newer"})
    newer["runs"] = [RUN | {"date": "2027-01-01T00:00:00+00:00"}]
    mine.merge(newer)
    assert mine.rows["a"]["text"] == "newer"


def test_only_the_same_is_not_measured_again(tmp_path: Path) -> None:
    mine = record.Record(tmp_path / "mine.json")
    mine.data = data(a=GOOD["a"], b=row(dlc=result(error="no")))

    def has(case: str, names: list[str], without_error: bool = False, **changed: Any) -> bool:
        return mine.has(case, record.Wanted(names, RUN | changed, True, without_error))

    assert has("a", ["dlc", "eager"])
    assert not has("a", ["dlc", "torch.compile"])
    assert not has("a", ["dlc"], sources="other")
    assert not has("a", ["dlc"], device="other")
    assert has("b", ["dlc"])
    assert not has("b", ["dlc"], without_error=True)


# Figures


def test_ratios_and_order() -> None:
    rows = {
        "good": row(dlc=result(10.0), eager=result(20.0)),
        "bad": row(dlc=result(10.0), eager=result(5.0)),
        "none": row(dlc=result(error="wrong"), eager=result(5.0)),
    }
    assert ratios.ratios(rows, "eager") == {"good": 2.0, "bad": 0.5}
    assert ratios.geometric_mean([2.0, 0.5]) == pytest.approx(1.0)
    assert ratios.worst_first(rows) == ["none", "bad", "good"]
    cold = row(dlc=result(10.0, cold_us=[30.0, 29.0, 31.0]))
    assert ratios.microseconds(cold, "dlc") == 30.0
    text = report.markdown(data(**rows))
    assert "| eager | 2 | 1.000 | 1 | 0.50 (bad) |" in text
    widths = {line.count("|") for line in text.split("worst first")[1].splitlines() if "|" in line}
    assert len(widths) == 1


def test_bars() -> None:
    rows = {
        "sdpa.x": row(dlc=result(10.0), eager=result(20.0)),
        "rmsnorm.x": row(dlc=result(10.0), eager=result(8.0)) | {"bytes": 8000},
        "gemm.2048": row(dlc=result(10.0), eager=result(9.5)) | {"group": "square"},
    }
    given = data(**rows)
    assert "## Bars" not in report.markdown(given)  # they are a GPU's
    given["runs"][0] = RUN | {"backend": "cuda"}
    text = report.markdown(given)
    assert "| geomean of eager / dlc, 2 cases | 1.3 | 1.26, 3% short |" in text
    assert "| worst case of best peer / dlc | 0.9 | 0.8, 11% short |" in text
    assert "| gemm.2048, eager / dlc | 0.95 | 0.95 |" in text
    assert "| rmsnorm.x, share of copy bandwidth | 0.9 | 0.8, 11% short |" in text
    assert "| sdpa, worst case of eager / dlc | 1 | 2 |" in text


def test_comparing() -> None:
    old = data(**{n: row(dlc=result(10.0)) for n in "abcd"})
    new = data(a=row(dlc=result(5.0)), b=row(dlc=result(20.0)), c=row(dlc=result(10.1)),
               d=row(dlc=result(error="no")))  # fmt: skip
    text, worse = compare.compare(old, new)
    assert worse
    assert "3 cases in both, geomean of old / new 0.997; 1 faster, 1 slower, 1 the same" in text
    assert "no time any more: d" in text
    order = [line.split()[0] for line in text.split("old/new\n")[1].splitlines()]
    assert order == ["b", "c", "a"]
    assert not compare.compare(old, old)[1]
    other = data(a=row(dlc=result(5.0)))
    other["runs"] = [RUN | {"device": "another"}]
    assert "note: device differs: pretended / another" in compare.compare(old, other)[0]

"""
PyTorch's own operator tests give what `docs/op_db.md` says: some entries each time.

With DLC_PREFIX=1 all samples of all entries, in other dtypes too, on the host.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from op_db import DTYPES, Found, Run, Sample, all_judged, entries, in_tensor_ir, judged, samples
from op_db_record import Entry, Judged, Record, worst
from verdicts import REFUSED, RIGHT, WRONG

from dlc.version import source_key

WHOLE = bool(os.environ.get("DLC_PREFIX"))
ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "op_db.md"
REASONS = re.findall(
    r"^\| (.*?) \|",
    (TABLE.parent / "operators.md").read_text("utf-8").partition("## Refused")[2],
    re.MULTILINE,
)
"""What `docs/operators.md` says is refused, a row each."""
TOLD = {name for row in REASONS for name in re.findall(r"`([\w.]+)`", row)}
TABLED = dict(re.findall(r"^\| `(.+?)` \| (\w[\w ]*?) \|", TABLE.read_text("utf-8"), re.MULTILINE))


def drawn() -> list[str]:
    """One of 16 entries, by the seed DLC_SEED: others another day."""
    names = sorted(entries(torch.float32))
    return random.Random(int(os.environ.get("DLC_SEED", "0"))).sample(names, len(names) // 16)


@pytest.mark.filterwarnings("ignore")
def test_a_sample_of_some_entries_is_as_the_table_says() -> None:
    table = entries(torch.float32)
    wrong: list[str] = []
    for name in drawn():
        sample = next(samples(table[name], torch.float32), None)
        if sample is None:
            continue
        verdict = judged(name, sample)
        # An entry that is refused may have samples that are right.
        if verdict.kind not in (TABLED[name], RIGHT):
            wrong.append(f"{name}: {verdict.kind}, the table says {TABLED[name]}: {verdict.why}")
    assert not wrong, "\n".join(wrong)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    right = [Judged(number, RIGHT, "", "host", "a day") for number in (0, 1, 2, 5)]
    entry = Entry("float32", "abs", 7, right)
    entry.take([Judged(1, REFUSED, "because", "host", "a day"), Judged(3, RIGHT, "", "host", "")])
    record = Record(tmp_path / "record", "2.13")
    record.add(entry)
    record.write()
    found = Record.read(record.path)
    assert list(found) == [entry]
    assert [j.number for j in entry.judged] == [0, 1, 2, 3, 5]
    assert worst(entry).why == "1 of 5: because"


def test_samples_are_one_program_as_long_as_that_is_right() -> None:
    def sample(function: Callable[[torch.Tensor], torch.Tensor]) -> Sample:
        x = torch.arange(3.0)
        return Sample(function, (x,), [function(x)])

    given = [sample(f) for f in (torch.neg, torch.nonzero, torch.abs, torch.sin, torch.cos)]
    calls: list[int] = []

    def run(asked: Sample) -> Found:
        calls.append(len(asked.args))
        return in_tensor_ir(asked)

    def spoiled(asked: Sample) -> Found:
        *others, last = run(asked).results
        return Found([*others, last + 1], 1)

    def kinds(chosen: list[Sample], run: Run) -> list[str]:
        calls.clear()
        return [verdict.kind for verdict in all_judged("name", chosen, run)]

    assert kinds(given[2:], run) == [RIGHT] * 3
    assert calls == [3]
    assert kinds(given, run) == [RIGHT, REFUSED, RIGHT, RIGHT, RIGHT]
    assert calls == [5, 1, 2, 1, 1, 2]
    assert kinds(given[2:], spoiled) == [RIGHT, RIGHT, WRONG]
    assert calls == [3, 1]


def test_nothing_is_wrong() -> None:
    assert set(TABLED) == set(entries(torch.float32))
    assert WRONG not in TABLED.values()


def test_few_are_refused() -> None:
    """No more than 10 of 427, the share that was aimed at; the table says how many."""
    refused = list(TABLED.values()).count(REFUSED)
    assert refused / len(TABLED) <= 10 / 427
    assert f"So {refused / len(TABLED):.1%} of them are refused." in TABLE.read_text("utf-8")


def test_what_is_refused_is_told_with_its_reason() -> None:
    elsewhere = re.findall(r"`([\w.]+)` \(refused\)", TABLE.read_text("utf-8"))
    refused = {name for name, kind in TABLED.items() if kind == REFUSED}
    assert refused.union(elsewhere) <= TOLD
    # Nothing that is right is said to be refused, but for the cases that are told.
    mixed = {"bincount", "nn.functional.one_hot"}
    assert {name for name in TOLD if TABLED.get(name) == RIGHT} <= mixed


@pytest.mark.skipif(not WHOLE, reason="takes hours")
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_sample_is_wrong_on_the_host(dtype: str) -> None:
    # A run that was ended goes on, as long as it is the same dlc.
    results = ROOT / "build" / "op_db" / f"{source_key()[:12]}-{dtype}.jsonl"
    results.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "test/python/op_db_table.py", results, "--dtypes", dtype]
    places = {"PYTHONPATH": os.pathsep.join(["docs", "test/python"])}
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT, env=os.environ | places
    )
    found = [entry for entry in Record.read(results) if entry.dtype == dtype]
    assert all(len(entry.judged) == entry.count for entry in found)
    verdicts = {entry.name: worst(entry) for entry in found}
    wrong = [
        f"{name}: {verdict.kind}: {verdict.why}"
        for name, verdict in verdicts.items()
        if verdict.kind == WRONG or (verdict.kind == REFUSED and name not in TOLD)
    ]
    assert not wrong, "\n".join(wrong)

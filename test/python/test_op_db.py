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
from pathlib import Path

import pytest
import torch
from op_db import DTYPES, entries, judged, samples
from op_db_table import by_entry, counts, read, worst
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
    found = by_entry(read(results), dtype)
    assert all(len(some) == counts(dtype)[name] for name, some in found.items())
    verdicts = {name: worst(some) for name, some in found.items()}
    wrong = [
        f"{name}: {verdict.kind}: {verdict.why}"
        for name, verdict in verdicts.items()
        if verdict.kind == WRONG or (verdict.kind == REFUSED and name not in TOLD)
    ]
    assert not wrong, "\n".join(wrong)

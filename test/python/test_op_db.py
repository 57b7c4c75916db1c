"""
PyTorch's own operator tests give what `docs/op_db.md` says: some entries each time.

With DLC_PREFIX=1 all samples of all entries, in other dtypes too, on the host.
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest
import torch
from op_db import DTYPES, entries, judged, samples, worst
from verdicts import REFUSED, RIGHT, WRONG

WHOLE = bool(os.environ.get("DLC_PREFIX"))
TABLE = Path(__file__).parents[2] / "docs" / "op_db.md"
REASONS = re.findall(
    r"^\| (.*?) \|",
    (TABLE.parent / "operators.md").read_text("utf-8").partition("## Refused")[2],
    re.MULTILINE,
)
"""What `docs/operators.md` says is refused, a row each."""
TABLED = dict(re.findall(r"^\| `(.+?)` \| (\w[\w ]*?) \|", TABLE.read_text("utf-8"), re.MULTILINE))


def drawn() -> list[str]:
    """One of eight entries, by the seed DLC_SEED: others another day."""
    names = sorted(entries(torch.float32))
    return random.Random(int(os.environ.get("DLC_SEED", "0"))).sample(names, len(names) // 8)


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
    told = {name for row in REASONS for name in re.findall(r"`([\w.]+)`", row)}
    elsewhere = re.findall(r"`([\w.]+)` \(refused\)", TABLE.read_text("utf-8"))
    refused = {name for name, kind in TABLED.items() if kind == REFUSED}
    assert refused.union(elsewhere) <= told
    # Nothing that is right is said to be refused, but for the cases that are told.
    mixed = {"bincount", "nn.functional.one_hot"}
    assert {name for name in told if TABLED.get(name) == RIGHT} <= mixed


@pytest.mark.skipif(not WHOLE, reason="takes hours")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_sample_is_wrong_on_the_host(dtype: str) -> None:
    kind = getattr(torch, dtype)
    wrong: list[str] = []
    for name, op in entries(kind).items():
        verdicts = [judged(name, sample, host=True) for sample in samples(op, kind)]
        verdict = worst(verdicts)
        refused_too = dtype != "float32" or TABLED[name] == REFUSED
        if verdict.kind == WRONG or (verdict.kind == REFUSED and not refused_too):
            wrong.append(f"{name}: {verdict.kind}: {verdict.why}")
    assert not wrong, "\n".join(wrong)

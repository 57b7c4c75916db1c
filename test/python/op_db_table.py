"""
Every sample of PyTorch's own tests of its operators, judged on the host, and the table of them.

    PYTHONPATH=docs:test/python python test/python/op_db_table.py test/op_db.jsonl > docs/op_db.md

The file holds what was judged, a line for each entry (`op_db_record.py`), and that is not judged
again, so that a run that was ended goes on; a line that is deleted is. `--dtypes`, `--samples` and
`--names` choose what is judged before the table is made, some samples of every entry first, and
after `--seconds` no more is.
"""

from __future__ import annotations

import argparse
import gc
import re
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path

import torch
from op_db import DTYPES, Host, Sample, all_judged, entries, in_tensor_ir, samples
from op_db_record import HOST, TENSOR_IR, Entry, Judged, Record, torch_version, worst
from verdicts import ENLARGED, LESS_ACCURATE, REFUSED, RIGHT, WRONG, Verdict

from dlc.cli.status_line import STATUS, bar

NO_SAMPLES, NOT_JUDGED = "no samples", "not judged"
KINDS = (RIGHT, ENLARGED, LESS_ACCURATE, REFUSED, WRONG)
AT_ONCE = 16
"""Samples of an entry that are one program."""
TASKS = 100
"""So many tasks has a process, as what is loaded of machine code stays."""
ROUNDS = (3, 16, 64)
"""So many samples of each entry are judged before more of any."""
PATIENCE = 900
"""Seconds without an answer after which a process is taken to have crashed."""


@dataclass(frozen=True)
class Task:
    """Samples of an entry to judge."""

    dtype: str
    name: str
    numbers: tuple[int, ...]
    where: str

    def judged(self, day: str) -> Iterator[Judged]:
        """What becomes of each of them."""
        found = _samples(self.dtype, self.name)
        chosen = [found[number] for number in self.numbers]
        run = Host().run if self.where == HOST else in_tensor_ir
        for number, verdict in zip(self.numbers, all_judged(self.name, chosen, run), strict=True):
            yield Judged(number, verdict.kind, verdict.why, self.where, day)


@lru_cache(maxsize=1)
def _samples(dtype: str, name: str) -> list[Sample]:
    kind = getattr(torch, dtype)
    return list(samples(entries(kind)[name], kind))


def _answer(task: Task, day: str) -> tuple[Task, list[Judged]]:
    return task, list(task.judged(day))


def count_samples(record: Record, dtypes: Sequence[str]) -> None:
    """Lets a record tell how many samples each entry has."""
    for dtype in dtypes:
        if dtype not in record.dtypes:
            for name in entries(getattr(torch, dtype)):
                record.add(Entry(dtype, name, len(_samples(dtype, name)), []))
    record.write()


def missing(record: Record, dtypes: Sequence[str], most: int, names: str, where: str) -> list[Task]:
    """What is not judged yet of so many samples of an entry, evenly chosen, in small tasks."""
    tasks: list[Task] = []
    chosen = [e for e in record if e.dtype in dtypes and re.fullmatch(names, e.name)]
    chosen.sort(key=lambda e: (dtypes.index(e.dtype), e.count))
    have = {id(e): {j.number for j in e.judged if where in (j.where, TENSOR_IR)} for e in chosen}
    for size in (*(size for size in ROUNDS if size < most), most):
        for entry in chosen:
            few = entry.count <= size
            asked = (
                set(range(entry.count)) if few else {n * entry.count // size for n in range(size)}
            )
            left = sorted(asked - have[id(entry)])
            have[id(entry)].update(left)
            parts = (left[n : n + AT_ONCE] for n in range(0, len(left), AT_ONCE))
            tasks += [Task(entry.dtype, entry.name, tuple(part), where) for part in parts]
    return tasks


def judge_all(record: Record, tasks: Sequence[Task], processes: int, seconds: float) -> None:
    """Judges samples until all are, or the time is over, and writes each verdict down."""
    # What the import of PyTorch made is not looked for garbage again, here or in a process.
    gc.collect()
    gc.freeze()
    end, total = time.monotonic() + seconds, sum(len(task.numbers) for task in tasks)
    said = Counter[str]()
    # One who ends this process ends those that judge for it, too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    by_default = signal.SIGTERM, signal.SIG_DFL
    with get_context("fork").Pool(processes, signal.signal, by_default, TASKS) as pool:
        answers = pool.imap_unordered(partial(_answer, day=time.strftime("%Y-%m-%d")), tasks)
        for _ in tasks:
            task, found = answers.next(PATIENCE)
            record[task.dtype, task.name].take(found)
            record.write()
            said.update(one.kind for one in found)
            others = ", ".join(f"{said[kind]} {kind}" for kind in KINDS[1:])
            done = said.total()
            STATUS.show(f"{bar(done / total)} {done} of {total}, {others}: {task.name}")
            if time.monotonic() > end:
                break
        pool.terminate()
    STATUS.clear()


def by_dtype(record: Record) -> Iterator[str]:
    """The rows of the table by dtype, and what is not right in dtypes other than float32."""
    heads = "dtype", "entries", "judged", "samples", "judged", "in", *KINDS
    yield f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n"
    for dtype in DTYPES:
        found = [entry for entry in record if entry.dtype == dtype]
        judged = [j for entry in found for j in entry.judged]
        if judged:
            entries_judged = sum(bool(entry.judged) for entry in found)
            counts = len(found), entries_judged, sum(entry.count for entry in found), len(judged)
            places = ", ".join(sorted({j.where for j in judged}))
            kinds = Counter(j.kind for j in judged)
            row = [dtype, *counts, places, *(kinds[kind] for kind in KINDS)]
            yield f"| {' | '.join(map(str, row))} |\n"
    in_floats = {entry.name: worst(entry).kind for entry in record if entry.dtype == DTYPES[0]}
    for dtype in DTYPES[1:]:
        said = [(entry.name, worst(entry).kind) for entry in record if entry.dtype == dtype]
        others = [
            f"`{name}` ({kind})" for name, kind in said if kind not in (RIGHT, in_floats.get(name))
        ]
        if others:
            yield f"\n{dtype}, beside what is so in float32: {', '.join(others)}.\n"


def entry_rows(record: Record) -> Iterator[str]:
    """The rows of the table of entries for float32."""
    yield f"| entry | | samples | judged | {' | '.join(KINDS)} | why |\n|{'---|' * 10}\n"
    for entry in record:
        if entry.dtype == DTYPES[0]:
            verdict = _said(entry)
            kinds = Counter(j.kind for j in entry.judged)
            row = [verdict.kind, entry.count, len(entry.judged), *(kinds[kind] for kind in KINDS)]
            yield f"| `{entry.name}` | {' | '.join(map(str, row))} | {verdict.why} |\n"


def _said(entry: Entry) -> Verdict:
    if not entry.count:
        return Verdict(NO_SAMPLES)
    return worst(entry) if entry.judged else Verdict(NOT_JUDGED)


def table(record: Record) -> Iterator[str]:
    """The document, in Markdown."""
    found = [entry for entry in record if entry.dtype == DTYPES[0]]
    said = [_said(entry).kind for entry in found]
    samples_of = [j.kind for entry in found for j in entry.judged]
    partly = sum(0 < sum(j.kind == REFUSED for j in e.judged) < len(e.judged) for e in found)
    whole = [entry for entry in found if len(entry.judged) == entry.count]
    fewest = min((len(e.judged) for e in found if e not in whole), default=0)
    yield (
        "# PyTorch's operator tests\n\n"
        f"Made by `test/python/op_db_table.py` with PyTorch {record.torch}: {len(found)} entries\n"
        "of its database of operators for float32, each sample compiled, run on the host and\n"
        "judged; samples of an entry are one program as long as that is right. By the worst of\n"
        f"their samples, the entries are: {_counted(said)}.\n"
        f"So {said.count(REFUSED) / len(found):.1%} of them are refused. "
        f"Of {partly} some samples alone are.\n"
        f"Of {sum(entry.count for entry in found)} samples {len(samples_of)} were judged: "
        f"{_counted(samples_of)}.\n"
        f"These are all of {len(whole)} entries, and of each other {fewest} at least.\n"
        "The verdicts are kept in `test/op_db.jsonl`, from where the script goes on.\n\n"
        "Accuracy is that of `dlc/judge/accuracy.py`, whose fp64 is eager's, and mpmath's of J\n"
        "and Y; where a program enlarges rounding errors, that of `dlc/judge/conditioning.py`.\n"
        "Why an operation is refused is told in `docs/operators.md`.\n\n"
    )
    yield from by_dtype(record)
    yield "\n## float32\n\n"
    yield from entry_rows(record)


def _counted(kinds: Sequence[str]) -> str:
    return ", ".join(f"{n} {kind}" for kind, n in Counter(kinds).most_common())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("record", type=Path, help="the file of verdicts, a line for each entry")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--names", default=".*", help="a regular expression of entries")
    parser.add_argument("--samples", type=int, default=10**6, help="of an entry at most")
    parser.add_argument("--tensor-ir", action="store_true", help="there, not on the host")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # what is small is slower with more
    record = Record.read(options.record)
    if record.torch != torch_version():
        parser.error(f"{options.record} is of PyTorch {record.torch}; name another file")
    dtypes = options.dtypes.split(",")
    count_samples(record, dtypes)
    where = TENSOR_IR if options.tensor_ir else HOST
    tasks = missing(record, dtypes, options.samples, options.names, where)
    judge_all(record, tasks, options.processes, options.seconds)
    sys.stdout.writelines(table(record))


if __name__ == "__main__":
    main()

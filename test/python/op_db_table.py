"""
Every sample of PyTorch's own tests of its operators, judged on the host, and the table of them.

    PYTHONPATH=docs:test/python python test/python/op_db_table.py results.jsonl > docs/op_db.md

What stands in the file is not judged again, so that a run that was ended goes on; a line that is
deleted is. `--dtypes`, `--samples` and `--names` choose what is judged before the table is made,
entries of few samples first, and after `--seconds` no more is.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import subprocess
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cache, partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import torch
from op_db import DTYPES, Host, entries, in_tensor_ir, judged, samples
from verdicts import ENLARGED, LESS_ACCURATE, REFUSED, RIGHT, WRONG, Verdict

from dlc.cli.status_line import STATUS, bar

HOST, TENSOR_IR = "host", "Tensor IR"
NO_SAMPLES, NOT_JUDGED = "no samples", "not judged"
KINDS = (RIGHT, ENLARGED, LESS_ACCURATE, REFUSED, WRONG)
AT_ONCE = 8
"""Samples of an entry that a process judges before it writes down what it has."""
TASKS = 100
"""So many tasks has a process, as what is loaded of machine code stays."""
PATIENCE = 900
"""Seconds without an answer after which a process is taken to have crashed."""


@dataclass(frozen=True)
class Judged:
    """What became of a sample, by its number among those of its entry, when and in what time."""

    dtype: str
    name: str
    number: int
    kind: str
    why: str
    commit: str
    seconds: float
    where: str = HOST


@dataclass(frozen=True)
class Task:
    """Samples of an entry to judge."""

    dtype: str
    name: str
    numbers: tuple[int, ...]
    where: str

    def judgements(self, commit: str) -> Iterator[Judged]:
        """What becomes of each of them."""
        kind = getattr(torch, self.dtype)
        found = islice(samples(entries(kind)[self.name], kind), self.numbers[-1] + 1)
        for number, sample in enumerate(found):
            if number in self.numbers:
                begin = time.perf_counter()
                on_host = self.where == HOST
                run = _host(self.dtype, self.name).run if on_host else in_tensor_ir
                verdict = judged(self.name, sample, run)
                seconds = round(time.perf_counter() - begin, 2)
                given = verdict.kind, verdict.why, commit, seconds, self.where
                yield Judged(self.dtype, self.name, number, *given)


@cache
def _host(dtype: str, name: str) -> Host:
    """What runs the samples of an entry."""
    return Host()


def _answer(task: Task, commit: str) -> list[Judged]:
    return list(task.judgements(commit))


@cache
def counts(dtype: str) -> dict[str, int]:
    """How many samples each entry has."""
    kind = getattr(torch, dtype)
    return {name: sum(1 for _ in samples(op, kind)) for name, op in entries(kind).items()}


def read(path: Path) -> list[Judged]:
    """What was judged, each sample once."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else ()
    found = [Judged(*json.loads(line)) for line in lines]
    return list({(j.dtype, j.name, j.number): j for j in found}.values())


def missing(
    known: Iterable[Judged], dtypes: Sequence[str], most: int, names: str, where: str
) -> list[Task]:
    """What is not judged yet of so many samples of an entry, evenly chosen, in small tasks."""
    have = {(j.dtype, j.name, j.number) for j in known if where in (j.where, TENSOR_IR)}
    tasks: list[Task] = []
    for dtype in dtypes:
        for name, count in sorted(counts(dtype).items(), key=lambda item: item[1]):
            if not re.fullmatch(names, name):
                continue
            asked = range(count) if count <= most else {n * count // most for n in range(most)}
            left = sorted(n for n in asked if (dtype, name, n) not in have)
            tasks += [
                Task(dtype, name, tuple(left[n : n + AT_ONCE]), where)
                for n in range(0, len(left), AT_ONCE)
            ]
    return tasks


def judge_all(path: Path, tasks: Sequence[Task], processes: int, seconds: float) -> None:
    """Judges samples until all are, or the time is over, and writes each verdict to a file."""
    # What the import of PyTorch made is not looked for garbage again, here or in a process.
    gc.collect()
    gc.freeze()
    end, total = time.monotonic() + seconds, sum(len(task.numbers) for task in tasks)
    said = Counter[str]()
    with (
        get_context("fork").Pool(processes, maxtasksperchild=TASKS) as pool,
        path.open("a", encoding="utf-8") as file,
    ):
        answers = pool.imap_unordered(partial(_answer, commit=_commit()), tasks)
        for task in tasks:
            found = answers.next(PATIENCE)
            file.writelines(f"{json.dumps(astuple(line))}\n" for line in found)
            file.flush()
            said.update(line.kind for line in found)
            others = ", ".join(f"{said[kind]} {kind}" for kind in KINDS[1:])
            done = said.total()
            STATUS.show(f"{bar(done / total)} {done} of {total}, {others}: {task.name}")
            if time.monotonic() > end:
                break
        pool.terminate()
    STATUS.clear()


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    return found.stdout.strip()


def worst(found: Sequence[Judged]) -> Verdict:
    """What is said of an entry: the worst that becomes of a sample, and of how many."""
    for kind in (WRONG, REFUSED, LESS_ACCURATE, ENLARGED):
        some = [j for j in found if j.kind == kind]
        if some:
            part = f"{len(some)} of {len(found)}: " if len(some) < len(found) else ""
            return Verdict(kind, part + some[0].why)
    return Verdict(RIGHT) if found else Verdict(NOT_JUDGED)


Entries = dict[str, list[Judged]]
"""What was judged, by the names of entries."""


def by_entry(judgements: Iterable[Judged], dtype: str) -> Entries:
    """Those entries that have samples."""
    found: Entries = defaultdict(list)
    for j in judgements:
        if j.dtype == dtype:
            found[j.name].append(j)
    return {name: found[name] for name, count in sorted(counts(dtype).items()) if count}


def by_dtype(known: Sequence[Judged]) -> Iterator[str]:
    """The rows of the table by dtype, and what is not right in dtypes other than float32."""
    yield f"| dtype | entries | samples | judged | in | {' | '.join(KINDS)} |\n|{'---|' * 10}\n"
    for dtype in DTYPES:
        some = [j for j in known if j.dtype == dtype]
        kinds, places = Counter(j.kind for j in some), sorted({j.where for j in some})
        if not some:
            continue
        sizes = counts(dtype)
        cells = [len(sizes), sum(sizes.values()), len(some), ", ".join(places)]
        numbers = " | ".join(str(n) for n in (*cells, *(kinds[kind] for kind in KINDS)))
        yield f"| {dtype} | {numbers} |\n"
    in_floats = {name: worst(found).kind for name, found in by_entry(known, "float32").items()}
    for dtype in DTYPES[1:]:
        said = {name: worst(found).kind for name, found in by_entry(known, dtype).items()}
        others = [
            f"`{name}` ({kind})"
            for name, kind in said.items()
            if kind not in (RIGHT, NOT_JUDGED, in_floats.get(name))
        ]
        if others:
            yield f"\n{dtype}, beside what is so in float32: {', '.join(others)}.\n"


def entry_rows(known: Sequence[Judged]) -> Iterator[str]:
    """The rows of the table of entries for float32."""
    yield f"| entry | | samples | judged | {' | '.join(KINDS)} | why |\n|{'---|' * 10}\n"
    judgements = by_entry(known, "float32")
    for name, count in sorted(counts("float32").items()):
        found = judgements.get(name, [])
        verdict = worst(found) if count else Verdict(NO_SAMPLES)
        kinds = Counter(j.kind for j in found)
        cells = [count, len(found), *(kinds[kind] for kind in KINDS)]
        numbers = " | ".join(map(str, cells))
        yield f"| `{name}` | {verdict.kind} | {numbers} | {verdict.why} |\n"


def table(known: Sequence[Judged]) -> Iterator[str]:
    """The document, in Markdown."""
    sizes = counts("float32")
    said = [worst(found).kind for found in by_entry(known, "float32").values()]
    samples_of = [j.kind for j in known if j.dtype == "float32"]
    version = ".".join(torch.__version__.split(".")[:2])
    yield (
        "# PyTorch's operator tests\n\n"
        f"Made by `test/python/op_db_table.py` with PyTorch {version}: {len(sizes)} entries of\n"
        "its database of operators for float32, each sample compiled, run on the host and judged\n"
        "by itself. Of entries that have samples, by the worst of their samples:\n"
        f"{_counted(said)}. So {said.count(REFUSED) / len(sizes):.1%} of them are refused.\n"
        f"Of {sum(sizes.values())} samples {len(samples_of)} were judged: "
        f"{_counted(samples_of)}.\n\n"
        "Accuracy is that of `dlc/judge/accuracy.py`, whose fp64 is eager's, and mpmath's of J\n"
        "and Y; where a program enlarges rounding errors, that of `dlc/judge/conditioning.py`.\n"
        "Why an operation is refused is told in `docs/operators.md`.\n\n"
    )
    yield from by_dtype(known)
    yield "\n## float32\n\n"
    yield from entry_rows(known)


def _counted(kinds: Sequence[str]) -> str:
    return ", ".join(f"{n} {kind}" for kind, n in Counter(kinds).most_common())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="the file of verdicts, a line each")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--names", default=".*", help="a regular expression of entries")
    parser.add_argument("--samples", type=int, default=10**6, help="of an entry at most")
    parser.add_argument("--tensor-ir", action="store_true", help="there, not on the host")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # what is small is slower with more
    known = read(options.results)
    asked = options.dtypes.split(","), options.samples, options.names
    tasks = missing(known, *asked, TENSOR_IR if options.tensor_ir else HOST)
    judge_all(options.results, tasks, options.processes, options.seconds)
    sys.stdout.writelines(table(read(options.results)))


if __name__ == "__main__":
    main()

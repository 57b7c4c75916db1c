"""
What was judged of PyTorch's operator tests, as a file: a line for each dtype and entry.

A line has the count of the entry's samples, and for those that are alike their numbers, what
became of them and why, where and when: `["float32", "abs", 12, [["0-11", "right", "", "host",
"2026-11-26"]]]`. The first line is PyTorch's version.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path

import torch
from verdicts import ENLARGED, LESS_ACCURATE, REFUSED, RIGHT, WRONG, Verdict

HOST, TENSOR_IR = "host", "Tensor IR"


@dataclass(frozen=True)
class Judged:
    """What became of a sample, by its number among those of its entry, where and when."""

    number: int
    kind: str
    why: str
    where: str
    day: str


@dataclass
class Entry:
    """An entry of the database for a dtype, and what was judged of it."""

    dtype: str
    name: str
    count: int
    judged: list[Judged]

    def take(self, judged: Sequence[Judged]) -> None:
        """Adds what was judged, in place of what was said of the same samples."""
        found = {j.number: j for j in (*self.judged, *judged)}
        self.judged = [found[number] for number in sorted(found)]

    def line(self) -> str:
        groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for number, *rest in map(astuple, self.judged):
            groups[tuple(rest)].append(number)
        found = [[_ranges(numbers), *rest] for rest, numbers in groups.items()]
        return f"{json.dumps([self.dtype, self.name, self.count, found])}\n"

    @staticmethod
    def of_line(line: str) -> Entry:
        dtype, name, count, groups = json.loads(line)
        entry = Entry(dtype, name, count, [])
        entry.take([Judged(n, *rest) for numbers, *rest in groups for n in _numbers(numbers)])
        return entry


@dataclass
class Record:
    """The entries of a file, in its order."""

    path: Path
    torch: str
    found: dict[tuple[str, str], Entry] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> Record:
        """What a file has, and nothing if there is none."""
        if not path.exists():
            return Record(path, torch_version())
        version, *lines = path.read_text("utf-8").splitlines()
        record = Record(path, json.loads(version))
        for line in lines:
            record.add(Entry.of_line(line))
        return record

    @property
    def dtypes(self) -> set[str]:
        return {dtype for dtype, _ in self.found}

    def __iter__(self) -> Iterator[Entry]:
        return iter(sorted(self.found.values(), key=lambda e: (e.dtype, e.name)))

    def __getitem__(self, key: tuple[str, str]) -> Entry:
        return self.found[key]

    def add(self, entry: Entry) -> None:
        self.found[entry.dtype, entry.name] = entry

    def write(self) -> None:
        """Writes the file as a whole, so that one who is ended leaves no half of it."""
        part = self.path.with_suffix(".part")
        lines = [f"{json.dumps(self.torch)}\n", *(entry.line() for entry in self)]
        part.write_text("".join(lines), "utf-8")
        os.replace(part, self.path)


def torch_version() -> str:
    """The installed PyTorch's, such as 2.13."""
    return ".".join(torch.__version__.split(".")[:2])


def worst(entry: Entry) -> Verdict:
    """What is said of an entry: the worst that becomes of a sample, and of how many."""
    for kind in (WRONG, REFUSED, LESS_ACCURATE, ENLARGED):
        some = [j for j in entry.judged if j.kind == kind]
        if some:
            part = f"{len(some)} of {len(entry.judged)}: " if len(some) < len(entry.judged) else ""
            return Verdict(kind, part + some[0].why)
    return Verdict(RIGHT)


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as text: `0-3,7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _numbers(text: str) -> Iterator[int]:
    for run in text.split(","):
        first, _, last = run.partition("-")
        yield from range(int(first), int(last or first) + 1)

"""
Schedules that were found by tuning, in a SQLite file.

    database = ScheduleDatabase(path)          # default: beside the cache
    database.put(entry)
    entry = database.find(kernel_key(kernel), "sm_90", ("gpu", "static"))

An entry is of a kernel's structure (its text but for its name: shapes, types and alignments), a
target and an objective. It holds the digest of the CUDA text that the schedule made, and which dlc
made it: where that is another one, the text is to be compared before the entry is used. Several
processes may write; one that is killed loses what it was about to write.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields
from io import StringIO
from pathlib import Path

from xdsl.dialects.builtin import StringAttr
from xdsl.printer import Printer

from dlc.backend import BackendError
from dlc.backend.cache import cache_directory, content_key
from dlc.dialects import loop

FILE = "tuned.sqlite"
WAIT_SECONDS = 30
"""How long a writer waits for another."""


@dataclass(frozen=True)
class Entry:
    """A schedule, and what is known of it."""

    kernel: str
    """The key of its structure."""
    target: str
    """The label of the target: `sm_90`, or `sm_90 tf32` where products may be of tf32."""
    objective: str
    name: str
    """The kernel's name in the program where it was tuned."""
    schedule: str
    seconds: float
    default_seconds: float
    digest: str
    """Of its CUDA text."""
    source: str
    """Which dlc made that (`dlc.version.source_key`)."""

    def __str__(self) -> str:
        how, found = _HOW[self.objective]
        own, default = self.seconds * 1e6, self.default_seconds * 1e6
        return f"tuned: {how} ({found} {own:.2f} us, default {default:.2f} us)"


_HOW = {
    "gpu": ("by the GPU's clock", "measured"),
    "host": ("by the host's clock", "measured"),
    "static": ("by its machine code", "predicted"),
    "estimate": ("by the estimate", "predicted"),
}
"""How an objective judges, and what its seconds are."""
_COLUMNS = tuple(field.name for field in fields(Entry))
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS schedules ({', '.join(_COLUMNS)}, "
    "PRIMARY KEY (kernel, target, objective))"
)
_PUT = (
    f"INSERT INTO schedules VALUES ({', '.join('?' * len(_COLUMNS))}) "
    "ON CONFLICT (kernel, target, objective) DO UPDATE SET "
    f"{', '.join(f'{name} = excluded.{name}' for name in _COLUMNS)} "
    "WHERE excluded.seconds < schedules.seconds OR excluded.schedule = schedules.schedule"
)
_FORGET = "DELETE FROM schedules WHERE kernel = ? AND target = ? AND objective = ? AND schedule = ?"
_OF_KERNEL = "WHERE kernel = ? AND target = ?"
_TABLES = "SELECT name FROM sqlite_master WHERE name = 'schedules'"


def kernel_key(kernel: loop.KernelOp) -> str:
    """
    The key of a kernel's structure: its own name, its schedule and its place in the program aside;
    the names of what it reads are a part, as schedules may mention them.
    """
    copy = kernel.clone()
    copy.sym_name = StringAttr("kernel")
    copy.schedule = None
    copy.attributes.clear()
    stream = StringIO()
    Printer(stream).print_op(copy)
    return content_key(stream.getvalue())


class ScheduleDatabase:
    """See the module's text. BackendError with a sentence for a file that cannot be used."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_directory() / FILE

    @contextmanager
    def _open(self, *, writes: bool) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=WAIT_SECONDS)) as connection:
                if writes:
                    connection.execute(_CREATE)
                yield connection
                connection.commit()
        except sqlite3.Error as error:
            what = "write to" if writes else "read"
            raise BackendError(
                f"cannot {what} the database of schedules {self.path} ({error}); name another "
                "one with --db"
            ) from error

    def put(self, *entries: Entry, instead_of: Entry | None = None) -> None:
        """
        Adds entries, in the place of others of their kernel, target and objective that are slower
        or of the same schedule; a faster one stays, unless it is `instead_of`.
        """
        with self._open(writes=True) as connection:
            if instead_of is not None:
                old = (instead_of.kernel, instead_of.target, instead_of.objective)
                connection.execute(_FORGET, (*old, instead_of.schedule))
            connection.executemany(_PUT, [tuple(asdict(entry).values()) for entry in entries])

    def find(self, kernel: str, target: str, objectives: Sequence[str]) -> Entry | None:
        """The entry of a kernel by the first objective that there is one of."""
        found = {entry.objective: entry for entry in self._found(_OF_KERNEL, kernel, target)}
        return next((found[name] for name in objectives if name in found), None)

    def entries(self) -> list[Entry]:
        """All of them, in the order in which they came."""
        return self._found("")

    def _found(self, condition: str, *values: str) -> list[Entry]:
        """The entries of which a condition holds; none where nothing was ever written."""
        if not self.path.exists():
            return []
        with self._open(writes=False) as connection:
            if not connection.execute(_TABLES).fetchall():
                return []
            rows = connection.execute(f"SELECT * FROM schedules {condition}", values)
            return [Entry(*row) for row in rows]

    def text(self) -> str:
        """All entries as text, a line each, to be committed and read by `read`."""
        order = sorted(self.entries(), key=lambda e: (e.name, e.kernel, e.target, e.objective))
        return "".join(f"{json.dumps(asdict(entry))}\n" for entry in order)

    def read(self, text: str) -> int:
        """Adds the entries of a text; their number. ValueError with the line that is none."""
        found: list[Entry] = []
        for number, line in enumerate(text.splitlines(), 1):
            try:
                found.append(Entry(**json.loads(line)))
            except (ValueError, TypeError) as error:
                raise ValueError(f"line {number} is no tuned schedule: {error}") from None
        self.put(*found)
        return len(found)

"""Which dlc this is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache

from dlc import plugins

VERSION = "0.1.0"


def source_key() -> str:
    """
    Differs after any change of dlc's own files or of plug-ins, for other plug-ins, and for another
    release of xDSL.
    """
    own, others = _own_key(), plugins.key()
    return hashlib.sha256(f"{own} {others}".encode()).hexdigest() if others else own


@cache
def _own_key() -> str:
    import importlib.metadata  # PyTorch does, too, later than the command line is read

    root = os.path.dirname(__file__)
    digest = hashlib.sha256(f"{VERSION} {importlib.metadata.version('xdsl')}".encode())
    for path, state in sorted(_files(root)):
        place = path.removeprefix(root)
        digest.update(f"{place} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """The modules in a folder and those in it."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path, entry.stat()
            elif entry.is_dir():
                yield from _files(entry.path)

"""The modules of packages and beside files, and their state: what keys of code are of."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress


def state_of(*roots: str) -> str:
    """
    Differs after any change of files, and of modules in folders, as their sizes and times tell; it
    is the same where a root is elsewhere. What is not there is left out.
    """
    digest = hashlib.sha256()
    for root in roots:
        for path in sorted(_modules(root)) if os.path.isdir(root) else [root]:
            with suppress(OSError):
                state, place = os.stat(path), path.removeprefix(os.path.dirname(root))
                digest.update(f"{place} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def import_folder(path: str) -> str:
    """From where a file imports what is its own: its outermost package, or its folder."""
    folder = os.path.dirname(path)
    while os.path.exists(os.path.join(os.path.dirname(folder), "__init__.py")):
        folder = os.path.dirname(folder)
    return folder


def _modules(folder: str, inside: bool = False) -> Iterator[str]:
    """The modules in a folder; those in folders inside of it, as long as they hold any."""
    entries: list[os.DirEntry[str]] = []
    with suppress(OSError), os.scandir(folder) as found:
        entries = list(found)
    own = [entry.path for entry in entries if entry.name.endswith(".py")]
    yield from own
    for entry in entries if own or not inside else ():
        if entry.name.isidentifier() and entry.is_dir(follow_symlinks=False):
            yield from _modules(entry.path, inside=True)

"""
Compiled objects on disk, addressed by the content that they were made from.

An entry is a directory `<label>-<key>` with the object, whatever the build left beside it, and
`entry.json`: what the build reported, and the SHA-256 of that and of all files. Entries appear by
one atomic rename, so that processes can build the same one at once; an entry that does not match
its checksum is built anew. What nobody has looked up for UNUSED_DAYS is removed, by the first build
of another process.
"""

import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dlc.backend import BackendError
from dlc.log import get_logger

_INFO = "entry.json"
UNUSED_DAYS = 30
_DAY = 24 * 3600
_KEYS = "[0-9a-f]" * 32
"""Of names that `content_key` makes."""


class CacheError(BackendError):
    """The directory of the cache cannot be made or written to; the message says what to do."""


@dataclass(frozen=True)
class Entry:
    """An object in the cache, and what its build reported about it."""

    path: Path
    info: dict[str, int]


def cache_directory() -> Path:
    """
    `$DLC_CACHE_DIR`, else `$XDG_CACHE_HOME/dlc`, else `~/.cache/dlc`; made if missing. Where the
    home cannot be written to, the user's own one of the temporary directories, which a note says.
    CacheError where none can be made.
    """
    if own := os.environ.get("DLC_CACHE_DIR"):
        path = Path(own)
    else:
        home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        path = Path(home) / "dlc"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not own and not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        if not own:
            return _temporary(path, error.strerror)
        raise CacheError(
            f"cannot make the cache directory {path} ({error.strerror}); "
            "set DLC_CACHE_DIR to a directory that can be written"
        ) from error
    return path.resolve()


@cache
def _temporary(wanted: Path, reason: str) -> Path:
    """The cache in the place of one that cannot be made; CacheError if it is not one's own."""
    path = Path(tempfile.gettempdir()) / f"dlc-cache-{os.getuid()}"
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    state = path.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise CacheError(
            f"cannot make the cache directory {wanted} ({reason}), and {path} is not a directory "
            "of one's own; set DLC_CACHE_DIR to a directory that can be written"
        )
    get_logger("compile").warning(
        "cannot write to %s (%s): machine code is kept in %s; DLC_CACHE_DIR names another place",
        wanted,
        reason,
        path,
    )
    return path


def content_key(*parts: str) -> str:
    """A key that differs whenever any part, or the division into parts, differs."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()[:32]


def lookup(label: str, key: str, file: str) -> Entry | None:
    """
    The entry's `file`, or None if there is no entry or it is damaged. BackendError for an entry
    that somebody else could have written, as what is in it is run.
    """
    directory = cache_directory() / f"{label}-{key}"
    _check_owner(directory)
    with suppress(OSError):
        os.utime(directory)  # it is in use
    try:
        record = json.loads((directory / _INFO).read_text())
        whole = record["sha256"] == _checksum(directory, record["info"])
        return Entry(directory / file, record["info"]) if whole else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _check_owner(directory: Path) -> None:
    try:
        state = directory.stat()
    except OSError:
        return
    if state.st_uid != os.getuid() or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BackendError(
            f"the cache entry {directory} is another user's, or others may write to it: remove it, "
            "or set DLC_CACHE_DIR to a directory of your own"
        )


def _checksum(directory: Path, info: dict[str, int]) -> str:
    """SHA-256 of what an entry has, as hexadecimal digits; OSError, or for a wrong type others."""
    files = sorted(path for path in directory.iterdir() if path.name != _INFO)
    digest = hashlib.sha256(json.dumps([info, [path.name for path in files]]).encode())
    for path in files:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def lookup_or_build(
    label: str, key: str, file: str, build: Callable[[Path], dict[str, int]]
) -> Entry:
    """
    The entry's `file`; if it is not there, `build(directory)` writes it into an empty directory
    and returns what is to be known about it. If the build raises, its directory is kept, so that
    the error can name a file in it; but not if it cannot be written to, which is a CacheError.
    """
    if found := lookup(label, key, file):
        return found
    root = cache_directory()
    work = _new_directory(root, label)
    try:
        info = build(work)
        (work / _INFO).write_text(json.dumps({"sha256": _checksum(work, info), "info": info}))
    except OSError as error:
        shutil.rmtree(work, ignore_errors=True)
        raise CacheError(
            f"cannot write the cache entry {work} ({error.strerror}); make room there, or set "
            "DLC_CACHE_DIR to another directory"
        ) from error
    return _published(work, root / f"{label}-{key}", file, info)


def _new_directory(root: Path, label: str) -> Path:
    """An empty directory to build in."""
    _tidy(root)
    try:
        return Path(tempfile.mkdtemp(prefix=f"build-{label}-", dir=root))
    except OSError as error:
        raise CacheError(
            f"cannot write into the cache directory {root} ({error.strerror}); "
            "set DLC_CACHE_DIR to a directory that can be written"
        ) from error


@cache
def _tidy(root: Path) -> None:
    """Removes what failed builds left a day ago, and entries that nobody uses."""
    now = time.time()
    for pattern, days in (("build-*", 1), ("damaged-*", 1), (f"*-{_KEYS}", UNUSED_DAYS)):
        for left in root.glob(pattern):
            with suppress(OSError):  # another process may remove it, too
                if left.stat().st_mtime < now - days * _DAY:
                    _discard(left)


def _published(work: Path, directory: Path, file: str, info: dict[str, int]) -> Entry:
    """The finished entry `work` as `directory`, or what another process has put there."""
    reason = ""
    for _ in range(100):  # a process may damage or discard the entry between two of our steps
        try:
            os.rename(work, directory)
            return Entry(directory / file, info)
        except OSError as error:
            reason = error.strerror
        label, _, key = directory.name.rpartition("-")
        if found := lookup(label, key, file):  # another process was first
            shutil.rmtree(work, ignore_errors=True)
            return found
        _discard(directory)
    raise BackendError(f"cannot move the cache entry {work} to {directory} ({reason})")


def _discard(directory: Path) -> None:
    """Removes a damaged entry in one step, so that nobody sees half of it."""
    doomed = directory.with_name(f"damaged-{uuid.uuid4().hex}")
    try:
        os.rename(directory, doomed)
    except FileNotFoundError:
        return
    if doomed.is_dir():
        shutil.rmtree(doomed, ignore_errors=True)
    else:
        doomed.unlink()

"""A zip archive with a checksum over all that it holds."""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from dlc.backend import BackendError
from dlc.diagnostics import with_hint

CHECKSUM = "checksum"
_UNREADABLE = (
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,  # a compression that Python does not know
    RuntimeError,  # a password is needed
    UnicodeDecodeError,  # a name of a file
)


def write_archive(path: Path, files: Mapping[str, bytes]) -> None:
    """
    Writes files, by name, in one step: a reader sees all or nothing of it. BackendError where that
    cannot be written, of which nothing is left.
    """
    part = path.parent / f"{path.name}.{os.getpid()}.part"
    try:
        with zipfile.ZipFile(part, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
            archive.writestr(CHECKSUM, _checksum(files))
        os.replace(part, path)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BackendError(f"cannot save the program as '{path}': {why}") from None
    finally:
        with suppress(OSError):
            part.unlink()


def read_archive(path: Path) -> dict[str, bytes]:
    """The files; BackendError if that is no such archive, or it is not as it was written."""
    failed = f"cannot load the program '{path}'"
    try:
        if path.is_file() and not zipfile.is_zipfile(path):
            error = BackendError(f"{failed}: it is no file that save() wrote, or is cut off")
            raise with_hint(error, "dlc.load reads IR" if path.suffix == ".mlir" else None)
        with zipfile.ZipFile(path) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
    except _UNREADABLE as error:
        why = getattr(error, "strerror", None)
        raise BackendError(f"{failed}: {why.lower() if why else error}") from None
    stated = files.pop(CHECKSUM, b"")
    if stated.decode(errors="replace") != _checksum(files):
        raise BackendError(f"{failed}: its checksum is wrong, so it is damaged or changed")
    return files


def _checksum(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{len(name)}:{name}{len(files[name])}:".encode())
        digest.update(files[name])
    return digest.hexdigest()

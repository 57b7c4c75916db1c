"""Whether a directory may be written to: what is in it, dlc wrote."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

from dlc.backend.export.manifest import FORMAT
from dlc.diagnostics import UsageError, with_hint

MANIFEST = "manifest.json"


def check_directory(path: str | Path) -> None:
    """
    UsageError for a directory that has files and is no exported program, which is replaced; OSError
    for one that cannot be made or written to.
    """
    directory = Path(path)
    if directory.is_dir() and any(directory.iterdir()) and not _is_exported(directory):
        error = UsageError(f"{path} has files of another kind, which are not overwritten")
        raise with_hint(error, "name a new directory, such as exported/")
    nearest = next(p for p in (directory, *directory.absolute().parents) if p.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(nearest))
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(nearest))


def _is_exported(directory: Path) -> bool:
    try:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT

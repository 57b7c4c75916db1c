"""
Caches of their own for tests and pages, with what kernels of all programs need on the host.

The scheduler and the header that is read ahead take 3 s to compile, and are found by what they are
made of: nothing else is in such a cache, and another one's are not used.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_HOME = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
SHARED = Path(os.environ.get("DLC_CACHE_DIR") or Path(_HOME) / "dlc")
"""The cache of the run, whatever a test says later."""


def own_cache(path: Path) -> Path:
    """Makes `path` a cache, with these two if the run has them already."""
    path.mkdir(mode=0o700)
    for label in ("host-header", "host-scheduler"):
        for entry in SHARED.glob(f"{label}-*"):
            shutil.copytree(entry, path / entry.name, copy_function=_linked)
    return path


def _linked(source: str, target: str) -> None:
    """The same file, or a copy where that cannot be."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)

"""Which names are those of directories."""

from __future__ import annotations

import os


def names_directory(path: str | None) -> bool:
    """True if `-o` asks for a directory: one that exists, or a name that ends in `/`."""
    return path is not None and (path.endswith(os.sep) or os.path.isdir(path))

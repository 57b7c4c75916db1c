"""Whose code is no user's: packages that bind their names once, and whose questions are theirs."""

from __future__ import annotations

import sys

FOREIGN = frozenset(("torch", "dlc", "numpy")) | sys.stdlib_module_names


def is_foreign(module: object) -> bool:
    """True for the name of a module of such a package; what `exec` made may have no name."""
    return isinstance(module, str) and module.partition(".")[0] in FOREIGN

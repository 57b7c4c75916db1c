"""Whose code is no user's: packages that bind their names once, and whose questions are theirs."""

from __future__ import annotations

import sys

FOREIGN = frozenset(("torch", "dlc", "numpy")) | sys.stdlib_module_names
INSTALLED = ("site-packages", "dist-packages")
"""Folders of packages that are installed, beside a user's own."""


def is_foreign(module: object) -> bool:
    """True for the name of a module of such a package; what `exec` made may have no name."""
    return isinstance(module, str) and module.partition(".")[0] in FOREIGN


def is_installed(module: object) -> bool:
    """True for the name of a module of any package that is installed, or of Python's."""
    file = getattr(sys.modules.get(module), "__file__", None) if isinstance(module, str) else None
    return is_foreign(module) or any(folder in (file or "") for folder in INSTALLED)


def is_own(module: object) -> bool:
    """True for the name of a script, or of a module that is imported and lies beside it."""
    if module == "__main__":
        return True
    if not isinstance(module, str) or is_foreign(module):
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return isinstance(file, str) and not any(folder in file for folder in INSTALLED)

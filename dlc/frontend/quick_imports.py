"""
Quicker imports of PyTorch's export and of transformers: no garbage is collected, and transformers
does not make the same searches again. PyTorch's own import is left as it is.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from dlc.garbage import uncollected

SEARCH = "transformers.utils.import_utils"
"""The module with the search for what transformers' models export."""


@contextmanager
def quick_imports() -> Iterator[None]:
    """No garbage is collected within, as what imports make stays; transformers' search is quick."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        with uncollected():
            yield
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Quickens transformers' search as soon as it is defined, before its first use."""

    def find_spec(
        self, fullname: str, path: Any, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != SEARCH or (spec := PathFinder.find_spec(fullname, path)) is None:
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _quicken(module)

        loader.exec_module = exec_module
        return spec


def _quicken(search: Any) -> None:
    """Each directory is searched once, and of each file only what begins with its exports."""
    names = ("create_import_structure_from_path", "fetch__all__")
    if any(not hasattr(search, name) for name in names):
        return
    structure, exports = (getattr(search, name) for name in names)
    # As bytes, since what is found is changed by who asked for it.
    known = cache(lambda path: pickle.dumps(structure(path)))

    def exports_of(content: str) -> list[str]:
        return exports(content[content.rfind("\n__all__") + 1 :])

    search.create_import_structure_from_path = lambda path: pickle.loads(known(path))
    search.fetch__all__ = exports_of

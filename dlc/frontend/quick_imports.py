"""
Quicker imports of PyTorch's export and of transformers: half of their time goes into modules that
no compilation calls, and into the same searches again.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from dlc.garbage import uncollected

NOT_CALLED = (
    "networkx",  # by torch._functorch.partitioners, which split forward from backward
    "scipy.optimize",  # by transformers' losses
)
"""Modules that are imported only to have their names at hand."""

SEARCH = "transformers.utils.import_utils"
"""The module with the search for what transformers' models export."""


@contextmanager
def quick_imports() -> Iterator[None]:
    """
    Modules that are imported within get the ones in `NOT_CALLED` when they first use them, after
    the context. No garbage is collected within, as what imports make stays.
    """
    deferred = {name: _Deferred(name) for name in NOT_CALLED if name not in sys.modules}
    finder = _Finder()
    sys.modules.update(deferred)
    sys.meta_path.insert(0, finder)
    try:
        with uncollected():
            yield
    finally:
        sys.meta_path.remove(finder)
        for name, module in deferred.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
            module._importing = False


class _Deferred(ModuleType):
    """A module whose names stand for themselves while others are imported, then for what is so
    called in the real one."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = None if "." in name else PathFinder.find_spec(name)
        self.__spec__ = self.__spec__ or ModuleSpec(name, None)
        self._importing = True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(self, name) if self._importing else getattr(import_module(self.__name__), name)


class _Name:
    """A name that was imported from a deferred module."""

    def __init__(self, module: _Deferred, name: str) -> None:
        self._module, self._name = module, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._real()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real(), name)

    def _real(self) -> Any:
        """The attribute of that name, or the module that nobody has imported from there yet."""
        module = import_module(self._module.__name__)
        if not hasattr(module, self._name):
            return import_module(f"{module.__name__}.{self._name}")
        return getattr(module, self._name)


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

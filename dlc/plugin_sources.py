"""Where a plug-in comes from, a file or an installed package: found before it is loaded."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from dlc.source_files import import_folder, state_of

Register = Callable[[Any], object]
"""The function of a plug-in that takes a `Registry`."""


class PluginError(ValueError):
    """What is wrong with a plug-in, a sentence that names it and the place."""


@dataclass(eq=False)
class Plugin:
    """Where a plug-in comes from; it is found before it is loaded."""

    name: str
    label: str
    """What has to be loaded or installed to have it: the name of a file or of a package."""
    files: tuple[str, ...]
    """Where its code stands: a file, or a folder."""
    load: Callable[[], Register] = field(repr=False)
    beside: tuple[str, ...] = ()
    """Folders from which it imports more."""
    entry: str = "register"
    """What of it is called."""
    refusal: str = ""
    """Why it is left out, if it is."""
    digest: str = field(init=False)
    """Differs when its content does; it is of the content when the plug-in was found."""

    def __post_init__(self) -> None:
        self.digest = self.state()

    def state(self) -> str:
        """The digest of its content as it is now."""
        return f"{self.entry}:{state_of(*self.files, *self.beside)}"

    def holds(self, file: str) -> bool:
        """True if it has a file of that name."""
        return any(file == own or file.startswith(own + os.sep) for own in self.files)


def of_file(path: str) -> Plugin:
    """The plug-in of a file, not read yet."""
    name = os.path.basename(path).removesuffix(".py")

    def load() -> Register:
        with open(path, "rb") as file:
            text = file.read()
        module = ModuleType(f"dlc_plugin_{name}_{hashlib.sha256(text).hexdigest()[:8]}")
        module.__file__ = path
        sys.modules[module.__name__] = module
        exec(compile(text, path, "exec"), module.__dict__)
        register = getattr(module, "register", None)
        if not callable(register):
            raise PluginError("it has no function register(registry)")
        return register

    return Plugin(name, os.path.basename(path), (path,), load, (import_folder(path),))


def of_package(name: str, value: str, load: Callable[[], Register]) -> Plugin:
    """The plug-in of an entry point, not imported yet."""
    from importlib.util import find_spec

    top = value.partition(":")[0].partition(".")[0]
    spec = find_spec(top)
    origin = () if spec is None or spec.origin is None else (spec.origin,)
    folders = tuple((spec and spec.submodule_search_locations) or ())
    return Plugin(name, top, folders or origin, load, entry=value)


def place_of(error: BaseException, plugin: Plugin) -> str:
    """The file and line of a plug-in where an error was raised; empty if none of its own."""
    if isinstance(error, SyntaxError) and error.filename and plugin.holds(error.filename):
        return f"{error.filename}:{error.lineno}"
    place, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if plugin.holds(file):
            place = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def said(error: BaseException) -> str:
    """An error in a line."""
    if isinstance(error, PluginError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {' '.join(text.split())}"

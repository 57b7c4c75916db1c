"""
What dlc and its plug-ins bring, by kind and name: one table for each kind, one way in.

A plug-in is a function `register(registry)`, called once, when a table is first looked at:

    def register(registry: Registry) -> None:
        registry.scheduling_step("order-blocks", OrderBlocksPass, after="mark-unroll")
        registry.target(Target("sm_87", ...))

It stands in a file that `--load FILE.py` or `DLC_LOAD` names, or in an installed package with an
entry point of the group `dlc.plugins`: `mine = "my_package:register"`. dlc registers its own by the
same calls, of the registry `DLC`.

A plug-in that cannot be loaded is left out as a whole, and a warning says which, where and why. One
of a plug-in's things may be named as `"module:Name"`, imported when it is first needed.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from functools import cached_property
from importlib import import_module
from threading import RLock
from types import FrameType, MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from dlc.plugin_sources import Plugin, PluginError, of_file, of_package, place_of, said

GROUP = "dlc.plugins"
"""Of entry points."""
_OWN = os.path.dirname(__file__) + os.sep
OPTION = "--load"
VARIABLE = "DLC_LOAD"
"""Names files of plug-ins, separated as those of PATH are."""

T = TypeVar("T")


class Named(Protocol):
    """A row of a table that has its own name."""

    @property
    def name(self) -> str: ...


class Placed(NamedTuple):
    """A pass, and where in the pipeline it runs; in no place it is for `dlc-opt` alone."""

    where: Any
    """The class, or `"module:Name"`."""
    after: str | None
    before: str | None
    is_step: bool
    """True for a step that schedules may name."""


class Entry(NamedTuple, Generic[T]):
    value: T
    plugin: Plugin | None
    place: str
    """The file and line that registered it."""

    @property
    def is_in_file(self) -> bool:
        """True if it is a plug-in's, or it and its code, if it is a function, stand in dlc."""
        code = getattr(self.value, "__code__", None)
        places = (self.place, self.place if code is None else code.co_filename)
        return self.plugin is not None or all(place.startswith(_OWN) for place in places)


class Table(MutableMapping[str, T]):
    """What there is of a kind, by name: dlc's and that of plug-ins, which a look at it loads."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.version = 0
        """How often something was registered."""
        self.is_in_files = True
        """False once something was written that stands in no file of dlc's or of a plug-in."""
        self._entries: dict[str, Entry[T]] = {}
        self._rows: dict[str, T] = {}
        self.rows: Mapping[str, T] = MappingProxyType(self._rows)
        """What was registered so far; a look at it loads nothing."""

    def add(self, name: str, entry: Entry[T]) -> None:
        """PluginError for a name that there is; what is dlc's evicts what is not."""
        if (known := self._entries.get(name)) is not None:
            what = f"it registers the {self.kind} '{name}', which"
            if entry.plugin is not None or known.plugin is None:
                owner = "dlc" if known.plugin is None else f"the plug-in {known.plugin.name}"
                raise PluginError(f"{what} {owner} registers, too")
            refuse(known.plugin, known.place, f"{what} dlc registers, too")
        self._write(name, entry)

    def _write(self, name: str, entry: Entry[T]) -> None:
        self.is_in_files &= entry.is_in_file
        self._entries[name] = entry
        self._rows[name] = entry.value
        self.version += 1

    def _forget(self, name: str) -> None:
        del self._entries[name], self._rows[name]
        self.version += 1

    def owner(self, name: str) -> Plugin | None:
        """The plug-in that brings a name; None if dlc does."""
        return self._entries[name].plugin if name in self._entries else None

    def place(self, name: str) -> str:
        """Where a name is registered."""
        return self._entries[name].place

    def entries(self) -> Iterable[Entry[T]]:
        """All that is registered, and by whom."""
        load_all()
        return self._entries.values()

    def foreign(self) -> list[str]:
        """The names that plug-ins bring, in the order in which they came."""
        load_all()
        return [name for name, entry in self._entries.items() if entry.plugin is not None]

    def drop(self, plugin: Plugin) -> None:
        """Forgets what a plug-in brought."""
        for name in [n for n, entry in self._entries.items() if entry.plugin is plugin]:
            self._forget(name)

    def __getitem__(self, name: str) -> T:
        load_all()
        return self._entries[name].value

    def __setitem__(self, name: str, value: T) -> None:
        self._write(name, Entry(value, None, _place(sys._getframe(1))))

    def __delitem__(self, name: str) -> None:
        self.is_in_files = False
        self._forget(name)

    def __iter__(self) -> Iterator[str]:
        load_all()
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        load_all()
        return len(self._entries)


DIALECTS: Table[Any] = Table("dialect")
PASSES: Table[Placed] = Table("pass")
DECOMPOSITIONS: Table[Any] = Table("decomposition")
SCALARS: Table[Any] = Table("scalar operation")
CHIPS: Table[Any] = Table("target")
PRINTERS: Table[Any] = Table("printer")
BACKENDS: Table[Any] = Table("backend")
TABLES = (DIALECTS, PASSES, DECOMPOSITIONS, SCALARS, CHIPS, PRINTERS, BACKENDS)


class Registry:
    """What a plug-in says that it brings. PluginError for a name that there is already."""

    def __init__(self, plugin: Plugin | None) -> None:
        self._plugin = plugin

    def dialect(self, name: str, where: Any) -> None:
        """An xDSL `Dialect`."""
        self._add(DIALECTS, name, where)

    def module_pass(
        self, name: str, where: Any, *, after: str | None = None, before: str | None = None
    ) -> None:
        """
        An xDSL `ModulePass`, in the standard pipeline next to another pass; in no place, for
        `dlc-opt` alone.
        """
        self._add(PASSES, name, Placed(where, after, before, is_step=False))

    def scheduling_step(
        self, name: str, where: Any, *, after: str | None = None, before: str | None = None
    ) -> None:
        """A `SchedulingPass`, next to another step; in no place, behind the last one."""
        last = None if after or before else "mark-unroll"
        self._add(PASSES, name, Placed(where, after or last, before, is_step=True))

    def decomposition(self, overload: str, function: Callable[[Any], Any]) -> None:
        """A function of a `Lowering`; a name without an overload stands for `.default`."""
        if not callable(function):
            raise PluginError(f"the decomposition of '{overload}' is no function")
        name = overload if "." in overload else f"{overload}.default"
        if self._plugin is not None:
            _check_overload(name)
        self._add(DECOMPOSITIONS, name, function)

    def scalar(self, name: str, row: Any) -> None:
        """
        An operation `math.NAME` of one float, a `ScalarOp` of `dlc/ir/scalar_ops.py` whose function
        is one of arrays; the ATen operations in the row become it.
        """
        if not name.startswith("math."):
            raise PluginError(f"the scalar operation '{name}' is not named math.{name}")
        if not (callable(row.function) and row.call):
            raise PluginError(f"the scalar operation '{name}' lacks a function of arrays, or of C")
        self._add(SCALARS, name, row)
        for overload in row.aten:
            self.decomposition(overload, lambda c: c.of_function(name))

    def target(self, row: Named) -> None:
        """A chip, a row such as those of `dlc/target/chip_table.py`."""
        self._add(CHIPS, row.name, row)

    def printer(self, name: str, where: Any) -> None:
        """An xDSL `Target`: what `dlc-opt -t NAME` prints."""
        self._add(PRINTERS, name, where)

    def backend(self, name: str, where: Any) -> None:
        """A function of `sync` that makes a `Backend` of `dlc.backend.program_run`."""
        self._add(BACKENDS, name, where)

    def _add(self, table: Table[T], name: str, value: T) -> None:
        table.add(name, Entry(value, self._plugin, _place(sys._getframe(2))))


def _place(caller: FrameType) -> str:
    """The file and line of who calls."""
    return f"{caller.f_code.co_filename}:{caller.f_lineno}"


def _check_overload(name: str) -> None:
    """PluginError for what PyTorch has no ATen overload of."""
    import torch

    from dlc.diagnostics import did_you_mean  # with xDSL

    packet = getattr(torch.ops.aten, name.partition(".")[0], None)
    if packet is None:
        names = {schema.name.removeprefix("aten::") for schema in torch._C._jit_get_all_schemas()}
        close = did_you_mean(name.partition(".")[0], names) or "its name is that in torch.ops.aten"
        raise PluginError(f"there is no ATen operation of '{name}': {close}")
    if name.partition(".")[2] not in packet.overloads():
        known = ", ".join(packet.overloads())
        raise PluginError(f"aten.{name} is no overload of that operation: it has {known}")


DLC = Registry(None)
"""By which dlc registers what is its own, where that stands."""

LOGGER = logging.getLogger("dlc.plugins")


class Loaded:
    """The plug-ins of this process."""

    def __init__(self) -> None:
        self.plugins: list[Plugin] = []
        self.lock = RLock()
        self.is_loading = False
        self.found: set[str] = set()
        """The files that were looked at."""
        self.done: set[Plugin] = set()
        self.seen: str | None = None
        """What the variable was when they were loaded."""

    @cached_property
    def installed(self) -> list[Plugin]:
        """The plug-ins of packages."""
        from importlib.metadata import entry_points

        return [of_package(e.name, e.value, e.load) for e in entry_points(group=GROUP)]

    def find(self) -> list[Plugin]:
        """All plug-ins, each once, not all of them loaded yet."""
        with self.lock:
            for path in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
                if (path := os.path.abspath(path)) not in self.found:
                    self.found.add(path)
                    self.plugins.append(of_file(path))
            return [*self.installed, *self.plugins]


LOADED = Loaded()


def load_all() -> None:
    """Loads the plug-ins that are installed, and those that the environment names, once each."""
    value = os.environ.get(VARIABLE, "")
    if value == LOADED.seen:
        return
    with LOADED.lock:
        if LOADED.is_loading:  # by this thread: a plug-in looks at a table
            return
        LOADED.is_loading = True
        try:
            for plugin in LOADED.find():
                if plugin not in LOADED.done:
                    LOADED.done.add(plugin)
                    _load(plugin)
            LOADED.seen = value
        finally:
            LOADED.is_loading = False


def load_plugin(path: str) -> None:
    """Loads the plug-in of a file, in this process and those that it starts. PluginError."""
    add_to_environment([path])
    load_all()
    path = os.path.abspath(path)
    for plugin in LOADED.plugins:
        if plugin.files == (path,) and plugin.refusal:
            raise PluginError(plugin.refusal)


def add_to_environment(paths: Iterable[str]) -> None:
    """Files of plug-ins to load here and in processes that are started."""
    known = list(filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)))
    more = map(os.path.abspath, paths)
    os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys([*known, *more]))


def key() -> str:
    """Differs for other plug-ins and other contents of them; empty without any. Loads none."""
    return " ".join(f"{plugin.name}={plugin.digest}" for plugin in LOADED.find())


def are_as_found() -> bool:
    """True if no plug-in has changed since it was found."""
    return all(plugin.digest == plugin.state() for plugin in LOADED.find())


def are_in_files() -> bool:
    """
    True if all that is registered so far stands in files of dlc or of plug-ins, which a key can be
    of, and nothing was written down or removed by a notebook or a script.
    """
    return all(table.is_in_files for table in TABLES)


def refuse(plugin: Plugin, place: str, why: str) -> None:
    """Leaves a plug-in out as a whole, and says so."""
    for table in TABLES:
        table.drop(plugin)
    plugin.refusal = f"{place}: the plug-in {plugin.name} is left out: {why}"
    LOGGER.warning("warning: %s", plugin.refusal)


def refusals() -> str:
    """What is wrong with the plug-ins that are left out."""
    return "; ".join(plugin.refusal for plugin in LOADED.find() if plugin.refusal)


def blamed(error: BaseException) -> str | None:
    """The plug-in that an error was raised in, with the place; None if in none."""
    found = ((plugin.name, place_of(error, plugin)) for plugin in LOADED.find())
    return next((f"the plug-in {name} ({place})" for name, place in found if place), None)


def options() -> str:
    """The options of a command line that load what is loaded here from files."""
    return " ".join(f"{OPTION} {shlex.quote(plugin.files[0])}" for plugin in LOADED.plugins)


def resolve(table: Table[Any], name: str) -> Any:
    """What a table names, imported if need be. PluginError where a plug-in's cannot be."""
    value = table[name]
    value = value.where if isinstance(value, Placed) else value
    if not isinstance(value, str):
        return value
    module, _, attribute = value.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:
        if (plugin := table.owner(name)) is None:
            raise
        raise PluginError(
            f"{place_of(error, plugin) or table.place(name)}: the {table.kind} '{name}' of the "
            f"plug-in {plugin.name} cannot be loaded: {said(error)}"
        ) from error


def _load(plugin: Plugin) -> None:
    """Has a plug-in register what it brings, or leaves it out."""
    place = plugin.files[0] if plugin.files else plugin.label
    try:
        register = plugin.load()
        code = getattr(register, "__code__", None)
        place = f"{code.co_filename}:{code.co_firstlineno}" if code else place
        register(Registry(plugin))
    except (Exception, SystemExit) as error:
        refuse(plugin, place_of(error, plugin) or place, said(error))

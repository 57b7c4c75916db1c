"""
Kernel IR on disk, found by the Torch IR that it was made from, its target and dlc's own source.

It lies beside the machine code (`dlc/backend/cache.py`), as text with locations, and with it what a
run goes by: the host program, and of each kernel its launch and its text (`stored_program.py`). The
IR itself is parsed when somebody asks for it. A cache that cannot be made or written to keeps and
finds nothing; nor does a dlc that a script has changed, or whose files have changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from dlc import plugins
from dlc.backend.bound_program import BoundProgram
from dlc.backend.cache import CacheError, Entry, content_key, lookup, lookup_or_build
from dlc.backend.stored_program import program_of_json, program_to_json
from dlc.ir.cached import cached
from dlc.log import get_logger
from dlc.version import is_as_imported, source_key

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from dlc.pipeline import Observer

LABEL, FILE, PROGRAM = "kernel-ir", "kernel.mlir", "program.json"
OVERLOADS = "overloads"


@dataclass(frozen=True)
class Lowered:
    """A program in Kernel IR."""

    program: BoundProgram
    longest_reduction: int | None
    """The points of the longest reduce in its Loop IR, if that is known."""
    read: Callable[[], ModuleOp] = field(repr=False)
    key: str | None = None
    """Where it is found again, by `find`."""

    @cached
    def module(self) -> ModuleOp:
        return self.read()

    @staticmethod
    def of(module: ModuleOp, longest_reduction: int | None = None) -> Lowered:
        """A module of Kernel IR. OpError as of `HostProgram.bind`."""
        from dlc.backend.host_program import HostProgram  # with the dialects of Kernel IR

        return Lowered(HostProgram.of(module).bind(), longest_reduction, lambda: module)


def lower(ctx: Context, module: ModuleOp, observers: Sequence[Observer] = ()) -> Lowered:
    """
    A module of Torch IR, which is left as it is, taken to Kernel IR, or what that gave before. The
    observers see the passes that run. Raises what `run_pipeline` does, and OpError for kernels that
    cannot be bound or printed.
    """
    key = key_of(module)
    if (found := find(key, lambda: ctx)) is not None:
        return found
    from dlc.analysis.loop.loops import longest_reduction  # with the dialect of Loop IR
    from dlc.pipeline import run_pipeline

    module = module.clone()
    run_pipeline(ctx, module, "loop", observers)
    longest = longest_reduction(module)
    run_pipeline(ctx, module, "kernel", observers)
    return keep(key, module, longest)


def key_of(module: ModuleOp, *how: str) -> str:
    """By what the Kernel IR of a module is found, if it is made in a way that has a name."""
    return content_key(_text(module), source_key(), *how)


def keep(key: str, module: ModuleOp, longest_reduction: int) -> Lowered:
    """
    Puts a module of Kernel IR there, whose longest reduce in Loop IR has so many points; but not
    what the dlc that the key is of did not make, nor where there is no room for it.
    """
    lowered = Lowered.of(module, longest_reduction)

    def build(directory: Path) -> dict[str, int]:
        (directory / FILE).write_text(_text(module))
        (directory / PROGRAM).write_text(program_to_json(lowered.program))
        return {"longest_reduction": longest_reduction}

    return replace(lowered, key=key) if _keep(LABEL, key, FILE, build) else lowered


def find(key: str, context: Callable[[], Context]) -> Lowered | None:
    """
    What an entry holds, whose Kernel IR was verified before it was written; None if there is no
    such entry, or a script has changed dlc. In the context the IR is parsed, when it is asked for.
    """
    if (entry := _find(LABEL, key, FILE)) is None:
        return None
    text, name = entry.path.read_text(), str(entry.path)

    def read() -> ModuleOp:
        from xdsl.parser import Parser

        return Parser(context(), text, name).parse_module()

    lowered: Lowered
    program = program_of_json(entry.path.with_name(PROGRAM).read_text(), lambda: lowered.module)
    lowered = Lowered(program, entry.info["longest_reduction"], read, key)
    return lowered


@cache
def lowered_overloads() -> frozenset[str]:
    """
    The ATen overloads that dlc lowers (`whole` of `import_program`), without the modules that do so
    where this dlc has been asked before.
    """
    key = content_key(source_key())
    if (entry := _find(OVERLOADS, key, OVERLOADS)) is not None:
        return frozenset(entry.path.read_text().split("\n"))
    from dlc.transforms.tensor.decompositions import DECOMPOSITIONS

    def build(directory: Path) -> dict[str, int]:
        (directory / OVERLOADS).write_text("\n".join(DECOMPOSITIONS))
        return {}

    _keep(OVERLOADS, key, OVERLOADS, build)
    return frozenset(DECOMPOSITIONS)


def _find(label: str, key: str, file: str) -> Entry | None:
    """An entry of this dlc; None if there is none, and where a script has changed dlc."""
    if not plugins.are_in_files():
        return None
    try:
        return lookup(label, key, file)
    except CacheError as error:
        get_logger("compile").info("what was compiled before is not looked for: %s", error)
        return None


def _keep(label: str, key: str, file: str, build: Callable[[Path], dict[str, int]]) -> bool:
    """Makes an entry, if the dlc that runs is the one of the key, and there is room."""
    if not is_as_imported():
        return False
    try:
        lookup_or_build(label, key, file, build)
    except CacheError as error:
        get_logger("compile").info("what was compiled is not kept: %s", error)
        return False
    return True


def _text(module: ModuleOp) -> str:
    from xdsl.printer import Printer

    stream = StringIO()
    Printer(stream, print_debuginfo=True).print_op(module)
    return stream.getvalue()

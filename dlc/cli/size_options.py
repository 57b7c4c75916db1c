"""`--dynamic`, which sizes of a program are symbols, and `--sizes`, which numbers they are."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from dlc.frontend.imported import ImportedProgram
    from dlc.frontend.sized_program import SizedProgram

SIZED = ("torch", "tensor")
"""The IRs of a program for all sizes."""


def add_size_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--dynamic",
        action="append",
        metavar="[NAME=]INPUT:DIM,…",
        help="sizes of inputs that may change: x:0,y:1 are two, s=x:0,y:1 is one, called s",
    )
    command.add_argument(
        "--sizes", metavar="NAME=N,…", help="numbers for such sizes [as they are in the program]"
    )


def shapes_of(marks: Sequence[str] | None) -> dict[str, dict[int, Any]] | None:
    """`dynamic_shapes` of `torch.export.export`; UsageError for text that says none."""
    from torch.export import Dim

    from dlc.diagnostics import UsageError, with_hint  # with xDSL

    shapes: dict[str, dict[int, Any]] = {}
    for text in marks or ():
        name, equals, places = text.rpartition("=")
        mark = Dim(name) if equals and name.isidentifier() else Dim.AUTO
        for place in places.split(","):
            argument, colon, dim = place.rpartition(":")
            if not colon or not dim.isdecimal() or bool(equals) != bool(name.isidentifier()):
                error = UsageError(f"--dynamic: expected [NAME=]INPUT:DIM,…, found '{text}'")
                raise with_hint(error, "such as --dynamic x:0 or --dynamic s=x:0,y:1")
            shapes.setdefault(argument, {})[int(dim)] = mark
    return shapes or None


def at_sizes(module: ModuleOp, sizes: str | None) -> None:
    """Binds the sizes of a module, in place. Errors as of the pass `specialize`."""
    if sizes is None:
        return
    from dlc.diagnostics import UsageError, with_hint
    from dlc.registry import OptionError
    from dlc.transforms.tensor.specialize import SpecializePass, specialize

    try:
        chosen = SpecializePass(sizes=sizes)
    except OptionError as error:
        raise with_hint(UsageError(f"--sizes: {error}"), error.hint) from None
    specialize(module, chosen.values)


def chosen_program(
    sized: SizedProgram, options: argparse.Namespace
) -> tuple[ModuleOp, ImportedProgram | None]:
    """
    What a command works on: the program for all sizes where it prints an IR that has sizes and is
    told none, else for those that it is told, or those that it was imported for.
    """
    if options.sizes is not None:
        at_sizes(sized.module, options.sizes)
        return sized.module, None
    if options.command == "compile" and options.ir in SIZED and not options.validate:
        return sized.module, None
    from dlc.importing import specialized

    hints = {name: symbol.likely for name, symbol in sized.symbols.items()}
    program = specialized(sized, hints)
    return program.module, program

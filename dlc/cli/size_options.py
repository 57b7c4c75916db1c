"""`--dynamic`, which sizes of a program are symbols, and `--sizes`, which numbers they are."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dlc.cli.directories import names_directory

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from dlc.frontend.export.imported import ImportedProgram
    from dlc.frontend.export.sized_program import SizedProgram

SIZED = ("torch", "tensor")
"""The IRs of a program for all sizes."""
FAR = 16
"""How many times smaller and larger than the likely sizes those are that `--explain` tells of."""


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
    What a command works on: the program for all sizes where it prints an IR, is told none, and the
    IR can be of all sizes, else for those that it is told, or those that it was imported for.
    """
    if options.sizes is not None:
        at_sizes(sized.module, options.sizes)
        return sized.module, None
    if options.command == "compile" and not options.validate:
        if options.ir in SIZED or _has_kernels_of_all_sizes(sized, options):
            return sized.module, None
    from dlc.importing import specialized

    hints = {name: symbol.likely for name, symbol in sized.symbols.items()}
    program = specialized(sized, hints)
    return program.module, program


def _others(sized: SizedProgram, likely: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Sizes up to `FAR` times smaller and larger than those that are likely, each 4 times apart."""
    for name, symbol in sized.symbols.items():
        low, high = symbol.bounds
        for n in (likely[name] * FAR >> shift for shift in range(0, 2 * FAR.bit_length(), 2)):
            sizes = {**likely, name: n}
            if low <= n <= high and all(fact.holds(sizes) for fact in sized.facts):
                yield sizes


def _has_kernels_of_all_sizes(sized: SizedProgram, options: argparse.Namespace) -> bool:
    """True if the program comes to kernels for all sizes; else the reason is printed to stderr."""
    from dlc.backend.executor import default_target
    from dlc.precision import default_precision
    from dlc.shared_kernels import SharedKernels
    from dlc.stages import Stages
    from dlc.target import set_target

    if options.cubin or options.reproduce is not None or names_directory(options.o):
        return False  # what is made besides texts is of numbers
    precision = str(options.precision or default_precision())

    def made(module: ModuleOp) -> Stages:
        set_target(module, options.target or default_target(), precision)
        return Stages(module)

    hints = {name: symbol.likely for name, symbol in sized.symbols.items()}
    shared = SharedKernels(multiples=False)
    if shared.stages(sized, hints, precision, made) is None:
        print(f"note: {shared.obstacle}", file=sys.stderr)
        return False
    if options.explain:
        likely = ", ".join(f"{name} = {n}" for name, n in hints.items())
        print(f"note: kernels are for all sizes; this is what is told of {likely}", file=sys.stderr)
        for sizes in _others(sized, hints):
            shared.stages(sized, sizes, precision, made)
        print(f"note: by the estimate\n{shared.explain()}", file=sys.stderr)
    return not options.explain

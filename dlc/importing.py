"""A program's imports: one for all sizes that its calls may have, or one for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.utils.exceptions import DiagnosticException

from dlc.frontend.export.dynamic_shapes import WrongMarks, requires
from dlc.frontend.export.fx import import_program, import_sized
from dlc.frontend.export.imported import ImportedProgram
from dlc.frontend.export.sized_program import SizedProgram, Sizes
from dlc.log import get_logger
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS
from dlc.transforms.tensor.specialize import specialize


class Imports:
    """
    Makes the program of a call. `dynamic_shapes` are the sizes that may be others at another call,
    as `torch.export.export` is told of them: of what was imported for these the program is made
    without another export.
    """

    def __init__(self, function: Callable[..., Any], dynamic_shapes: Any = None) -> None:
        self.function = function
        self.dynamic_shapes = dynamic_shapes
        self.sized: list[SizedProgram] = []
        """What was imported for many sizes."""
        self.count = 0
        """How often the function was exported."""

    @property
    def sizes(self) -> Sizes:
        """The sizes of calls that share the first import."""
        first = self.sized[0] if self.sized else None
        return Sizes({}, ()) if first is None else Sizes(dict(first.symbols), tuple(first.facts))

    def sized_call(
        self, args: Sequence[Any], kwargs: Mapping[str, Any] | None
    ) -> tuple[SizedProgram, dict[str, int]] | None:
        """The program for many sizes that such a call is one of, and its sizes; None for none."""
        for sized in self.sized:
            if (sizes := sized.sizes_of(args, kwargs)) is not None:
                return sized, sizes
        return None

    def program(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> ImportedProgram:
        """The program for calls like this one, of its sizes alone. Errors as of `import_sized`."""
        if (known := self.sized_call(args, kwargs)) is not None:
            return specialized(*known)
        program = self._imported(args, kwargs)
        if isinstance(program, ImportedProgram):
            return program
        sizes = program.sizes_of(args, kwargs)
        assert sizes is not None, "a program is for the call that it is imported for"
        self.sized.append(program)
        return specialized(program, sizes)

    def _imported(
        self, args: Sequence[Any], kwargs: Mapping[str, Any] | None
    ) -> ImportedProgram | SizedProgram:
        """
        The program for all sizes of such a call. For its own sizes where it cannot be so, which
        is an error if the user has said that these change and no program for others is known.
        """
        self.count += 1
        if self.dynamic_shapes is None:
            return import_program(self.function, args, kwargs, whole=DECOMPOSITIONS)
        try:
            return import_sized(self.function, args, kwargs, self.dynamic_shapes, DECOMPOSITIONS)
        except DiagnosticException as error:
            if isinstance(error, WrongMarks) and self.count == 1:
                raise
            if not self.sized and requires(self.dynamic_shapes):
                raise
            program = import_program(self.function, args, kwargs, whole=DECOMPOSITIONS)
            if not self.sized:
                self.dynamic_shapes = None
                get_logger("compile").warning(
                    "a program is imported for each size anew, as it cannot be for all: %s",
                    " ".join(str(error).split()),
                )
            return program


def specialized(program: SizedProgram, sizes: Mapping[str, int]) -> ImportedProgram:
    """A program for calls of such sizes alone."""
    module = program.module.clone()
    specialize(module, sizes)
    module.verify()
    return program.at(sizes, module)

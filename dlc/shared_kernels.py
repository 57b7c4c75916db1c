"""Kernels that serve all sizes of a program, and the sentence that says why there are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.utils.exceptions import VerifyException

from dlc.backend import BackendError
from dlc.backend.kernel_image import KernelImage
from dlc.diagnostics import OpError, failed_pass
from dlc.dialects.kernel import FuncOp
from dlc.dialects.kernel_tma import TensorMapOp
from dlc.dialects.layouts import shape_of
from dlc.dialects.size import SymbolOp
from dlc.dialects.size_index import SizeIndexOp
from dlc.error_report import file_line_col
from dlc.frontend.export.sized_program import SizedProgram
from dlc.ir.sizes import Size
from dlc.log import get_logger
from dlc.stages import Stages
from dlc.transforms.tensor.multiples.divide_sizes import divide_sizes, divided, divisors

APART = 3
"""
Kernels serve sizes up to so many times larger or smaller than those that they are scheduled for;
further from these another schedule is faster.
"""


@dataclass
class Made:
    """The kernels of a program that are scheduled for some sizes, or that there are none."""

    sizes: Mapping[str, int]
    by: Mapping[str, int]
    """What names are divided by in the program, for multiples alone."""
    stages: Stages | None

    def serves(self, sizes: Mapping[str, int], by: Mapping[str, int]) -> bool:
        """True for sizes that are alike, `by` what divides them."""
        pairs = [(n, self.sizes[name]) for name, n in sizes.items()]
        return by == self.by and all(max(pair) <= APART * max(min(pair), 1) for pair in pairs)

    def given(self, sizes: Mapping[str, int]) -> tuple[Stages, dict[str, int]] | None:
        """The kernels, and the sizes as these take them."""
        if self.stages is None:
            return None
        return self.stages, {
            divided(name, self.by): n // self.by.get(name, 1) for name, n in sizes.items()
        }


@dataclass
class SharedKernels:
    """
    The kernels of programs that were imported for many sizes, by program and precision, each for
    the sizes that are alike to those that it was asked for first.
    """

    multiples: bool = True
    """False for one program for all, where it is shown and not run."""
    _made: dict[tuple[int, str], list[Made]] = field(default_factory=dict)
    obstacle: str = ""
    """Why the last program that has none is compiled for each size."""

    def stages(
        self,
        program: SizedProgram,
        sizes: Mapping[str, int],
        precision: str,
        make: Callable[[ModuleOp], Stages],
    ) -> tuple[Stages, dict[str, int]] | None:
        """
        What `make` makes of a copy of the program for all sizes, these likely, if that comes to
        Kernel IR and there is none for sizes like these, and what the kernels are told; else the
        program is compiled for each size, which is logged with the reason. Where rows are as long
        as a size, its multiples have kernels of their own, which access several neighbours at once.
        """
        known = self._made.setdefault((id(program), precision), [])
        by = divisors(program.module, sizes) if self.multiples else {}
        for made in known:
            if made.serves(sizes, by):
                return made.given(sizes)
        module = _likely(program.module.clone(), sizes)
        divide_sizes(module, by)
        stages = make(module)
        known.append(Made(dict(sizes), by, stages))
        try:
            _print(stages.module("kernel"))
        except Exception as error:  # kernels of one size may have none
            self.give_up(stages, error)
        return known[-1].given(sizes)

    def give_up(self, stages: Stages, error: Exception) -> None:
        """Kernels that cannot be compiled or run are made for each size, for this reason."""
        for made in (made for known in self._made.values() for made in known):
            if made.stages is stages:
                made.stages = None
        self.obstacle = f"kernels are compiled for each size: {_told(error)}"
        get_logger("compile").info("%s", self.obstacle)


def _likely(module: ModuleOp, sizes: Mapping[str, int]) -> ModuleOp:
    """A module that says of sizes that they are likely to be these."""
    for op in module.ops:
        if isinstance(op, SymbolOp):
            op.hint = IntegerAttr(sizes[op.sym_name.data], i64)
    return module


def are_made_for(kernels: ModuleOp, sizes: Mapping[str, int]) -> bool:
    """True if all kernels of a module take these sizes, which give tensor maps elements."""
    for op in kernels.walk():
        if isinstance(op, SizeIndexOp):
            low, high = op.symbol.bounds
            if not low <= sizes[op.size.data] <= high:
                return False
        if isinstance(op, TensorMapOp):
            if 0 in [Size.of(extent).evaluate(sizes) for extent in shape_of(op.type)]:
                return False
    return True


def _print(kernels: ModuleOp) -> None:
    """Prints the kernels of all sizes, as launches are going to have them."""
    for op in kernels.walk():
        if isinstance(op, FuncOp):
            _ = KernelImage.of_all_sizes(op).source


def _told(error: Exception) -> str:
    """`pass lift-to-loops: its loop nest needs a number for s (model.py:3)`."""
    from dlc.ir.sizes import NeedsNumber  # a program that is known needs none

    if isinstance(error, VerifyException | NeedsNumber | ValueError | BackendError):
        return str(error)
    if not isinstance(error, OpError):
        return f"internal error: {type(error).__name__}: {error}"
    place, name = file_line_col(error.op.location), failed_pass(error)
    where = f" ({place.filename.data}:{place.line.data})" if place is not None else ""
    return f"{f'pass {name}: ' if name else ''}{error.args[0]}{where}"

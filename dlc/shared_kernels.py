"""Kernels that serve all sizes of a program, and the sentence that says why there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, prod
from typing import TypeAlias

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.utils.exceptions import VerifyException

from dlc.backend import BackendError
from dlc.backend.kernel_image import KernelImage
from dlc.bound_kernels import seconds_at
from dlc.diagnostics import OpError, failed_pass
from dlc.dialects.kernel import FuncOp
from dlc.dialects.kernel_tma import TensorMapOp
from dlc.dialects.layouts import shape_of
from dlc.dialects.size import SymbolOp
from dlc.dialects.size_index import SizeIndexOp
from dlc.error_report import file_line_col
from dlc.frontend.export.sized_program import SizedProgram
from dlc.ir.sizes import Fact, Size
from dlc.log import get_logger
from dlc.schedule.size_ranges import MOST, Box, box_of, fastest, largest, part_of, parts_of, told
from dlc.stages import Stages
from dlc.transforms.tensor.multiples.divide_sizes import divide_sizes, divided, divisors

ABOUT = "dlc.sizes"
"""What the Kernel IR of a saved program says of the sizes that have these kernels."""


@dataclass
class Made:
    """The kernels of a program that are scheduled for some sizes, or that there are none."""

    sizes: Mapping[str, int]
    by: Mapping[str, int]
    """What names are divided by in the program, for multiples alone."""
    stages: Stages | None

    def given(self, sizes: Mapping[str, int]) -> tuple[Stages, dict[str, int]] | None:
        """The kernels, and the sizes as these take them."""
        if self.stages is None:
            return None
        return self.stages, {
            divided(name, self.by): n // self.by.get(name, 1) for name, n in sizes.items()
        }

    def seconds(self, sizes: Mapping[str, int]) -> float:
        """What the launches are predicted to take; infinite for sizes that they do not take."""
        if (given := self.given(sizes)) is None:
            return inf
        kernels = given[0].module("kernel")
        return seconds_at(kernels, given[1]) if are_made_for(kernels, given[1]) else inf


Alike: TypeAlias = "tuple[Box, tuple[tuple[str, int], ...]]"
"""Sizes that share kernels: their range, and what divides them."""


@dataclass
class _Known:
    """The kernels of a program in one precision, and which sizes have which."""

    made: list[Made] = field(default_factory=list)
    chosen: dict[Alike, Made] = field(default_factory=dict)
    first: dict[Alike, Mapping[str, int]] = field(default_factory=dict)
    """The sizes of the first call of each range."""
    parts: dict[Alike, Made] = field(default_factory=dict)
    """For the parts of ranges that were asked for, the fastest of those there were."""

    def fitting(self, by: Mapping[str, int]) -> list[Made]:
        """The kernels for sizes that are multiples of these."""
        return [m for m in self.made if m.stages is not None and m.by.items() <= by.items()]

    def owner(self, part: Box, box: Box, by: tuple[tuple[str, int], ...]) -> Made:
        """Whose kernels such a part of a range has, which is that of the whole range if unasked."""
        return self.parts.get((part, by)) or self.chosen[box, by]


@dataclass
class SharedKernels:
    """
    The kernels of programs that were imported for many sizes, by program and precision. The first
    sizes of a range are those that its kernels are scheduled for, or that show with its largest
    that others do; the first ones of its parts show whether the kernels of another range are faster
    there, or new ones.
    """

    multiples: bool = True
    """False for one program for all, where it is shown and not run."""
    _known: dict[tuple[int, str], _Known] = field(default_factory=dict)
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
        The kernels for such sizes, and what they are told: what `make` makes of a copy of the
        program for all sizes, these likely, where none that there are is predicted to be about as
        fast. None if that does not come to Kernel IR, which is logged with the reason: the program
        is compiled for each size. Where rows are as long as a size, its multiples may have kernels
        of their own, which access several neighbours at once.
        """
        known = self._known.setdefault((id(program), precision), _Known())
        by = divisors(program.module, sizes) if self.multiples else {}
        divided_by = tuple(by.items())
        alike, part = (box_of(sizes), divided_by), (part_of(sizes), divided_by)
        if alike not in known.chosen:
            known.chosen[alike] = known.parts[part] = self._chosen(known, program, sizes, by, make)
            known.first[alike] = sizes
        elif part not in known.parts and (chosen := known.chosen[alike]).stages is not None:
            there = [chosen, *(made for made in known.fitting(by) if made is not chosen)]
            best = min(there, key=lambda m: m.seconds(sizes)) if len(there) > 1 else chosen
            if _is_slower(chosen, best, known.first[alike], sizes):
                other = self._chosen(known, program, sizes, by, make)
                best = best if other.stages is None else other
            known.parts[part] = best
        return known.owner(part[0], *alike).given(sizes)

    def _chosen(
        self,
        known: _Known,
        program: SizedProgram,
        sizes: Mapping[str, int],
        by: Mapping[str, int],
        make: Callable[[ModuleOp], Stages],
    ) -> Made:
        """The kernels for sizes of a range, of which none is chosen yet."""
        there = [made for made in known.made if made.stages is not None]
        fit = known.fitting(by)
        times = [made.seconds(sizes) for made in fit]
        if len(there) >= MOST:
            number = fastest(inf, times)
            return Made(dict(sizes), dict(by), None) if number is None else fit[number]
        if len(there) == MOST - 1 and all(made.by for made in there):
            by = {}  # the last ones are for all sizes
        own = self._made(program, sizes, by, make)
        if fit and own.stages is not None:
            number = fastest(own.seconds(sizes), times)
            last = largest(sizes)
            if number is not None and not (program.takes(last) and _is_faster(own, fit, last)):
                return fit[number]
        known.made.append(own)
        return own

    def _made(
        self,
        program: SizedProgram,
        sizes: Mapping[str, int],
        by: Mapping[str, int],
        make: Callable[[ModuleOp], Stages],
    ) -> Made:
        """What is made for such sizes; without kernels where these cannot be for all sizes."""
        module = _likely(program.module.clone(), sizes)
        divide_sizes(module, by)
        stages = make(module)
        made = Made(dict(sizes), dict(by), stages)
        try:
            _print(stages.module("kernel"))
        except Exception as error:  # kernels of one size may have none
            made.stages = None
            self._tell(error)
        return made

    def explain(self) -> str:
        """Which sizes have which kernels: `about` all that there are."""
        return "\n".join(self.about(one.stages) for one in self._all if one.stages is not None)

    def about(self, stages: Stages) -> str:
        """
        `kernels for s from 33 to 128; with s mod 4 == 0 for s from 9 to 128; scheduled for s = 64`
        as far as sizes were asked for, and a line for each schedule. Empty for other kernels.
        """
        made = next((one for one in self._all if one.stages is stages), None)
        if made is None:
            return ""
        ranges: dict[tuple[tuple[str, int], ...], list[Box]] = {}
        for known in self._known.values():
            for box, by in known.chosen:
                for part in parts_of(box):
                    if known.owner(part, box, by) is made:
                        ranges.setdefault(by, []).append(part)
        texts = [f"{_with_multiples(by)}for {told(boxes)}" for by, boxes in sorted(ranges.items())]
        likely = ", ".join(f"{name} = {n}" for name, n in made.sizes.items())
        funcs = [op for op in stages.module("kernel").walk() if isinstance(op, FuncOp)]
        lines = [f"  {func.name_}: {KernelImage.of_all_sizes(func).schedule}" for func in funcs]
        return "\n".join([f"kernels {'; '.join(texts)}; scheduled for {likely}", *lines])

    @property
    def _all(self) -> list[Made]:
        return [made for known in self._known.values() for made in known.made]

    def give_up(self, stages: Stages, error: Exception) -> None:
        """Kernels that cannot be compiled or run are made for each size, for this reason."""
        for made in self._all:
            if made.stages is stages:
                made.stages = None
        for known in self._known.values():
            known.parts = {k: made for k, made in known.parts.items() if made.stages is not None}
        self._tell(error)

    def _tell(self, error: Exception) -> None:
        self.obstacle = f"kernels are compiled for each size: {_told(error)}"
        get_logger("compile").info("%s", self.obstacle)


def _likely(module: ModuleOp, sizes: Mapping[str, int]) -> ModuleOp:
    """A module that says of sizes that they are likely to be these."""
    for op in module.ops:
        if isinstance(op, SymbolOp):
            op.hint = IntegerAttr(sizes[op.sym_name.data], i64)
    return module


def _is_slower(
    first: Made, best: Made, first_sizes: Mapping[str, int], sizes: Mapping[str, int]
) -> bool:
    """
    Whether the fastest kernels for such sizes take longer for each element than what the first,
    smaller sizes of their range have: schedules for larger sizes take less for each, or as long.
    """
    elements, fewer = prod(sizes.values()), prod(first_sizes.values())
    if elements <= fewer:
        return False
    return best.seconds(sizes) * fewer > first.seconds(first_sizes) * elements


def _is_faster(own: Made, known: Sequence[Made], sizes: Mapping[str, int]) -> bool:
    """Whether kernels are worth to have beside those that are known for such sizes."""
    seconds = own.seconds(sizes)
    return seconds < inf and fastest(seconds, [made.seconds(sizes) for made in known]) is None


def _with_multiples(by: Iterable[tuple[str, int]]) -> str:
    """`with s mod 4 == 0 `; empty for all sizes."""
    facts = [str(Fact(Size.of(name) % n, "==", Size.of(0))) for name, n in by]
    return f"with {', '.join(facts)} " if facts else ""


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

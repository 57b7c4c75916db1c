"""The sizes of an exported call: their names, where a call has them, what holds of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import sympy
import torch
from torch.export import Dim
from torch.export.dynamic_shapes import _DerivedDim
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from dlc.frontend.export.dynamic_shapes import Mark, Marks, is_required
from dlc.frontend.export.fixed_sizes import Fixings
from dlc.frontend.export.size_names import SIZES, facts_of, range_of, size_of, sizes_of
from dlc.frontend.export.sized_guard import SizedGuard
from dlc.frontend.guard import Guard
from dlc.frontend.source import ImportFailure, place_of
from dlc.ir.sizes import FUNCTIONS, Fact, Size, Symbol

RESERVED = {*FUNCTIONS, "not"}
"""What no size may be called in the text of the IR."""


@dataclass(frozen=True)
class Place:
    """A number of a call: an extent or a stride of the tensor that is leaf `leaf`, or that leaf."""

    leaf: int
    of: Literal["extent", "stride", "number"]
    dim: int = 0

    def read(self, value: Any) -> int:
        """The number in such a leaf."""
        if self.of == "number":
            return value
        return (value.shape if self.of == "extent" else value.stride())[self.dim]


Found: TypeAlias = "tuple[Place, torch.SymInt, Mark | None]"


class SizedCall:
    """
    Names the symbols of an export. `values` are what it has seen the leaves of the call as,
    `leaves` what they are; `names` are what these are called, and `marks` what is marked of them.
    """

    def __init__(
        self,
        values: Sequence[Any],
        leaves: Sequence[Any],
        names: Sequence[str],
        marks: Sequence[Marks],
        fixings: Fixings,
        shown_as: Mapping[str, str],
    ) -> None:
        found = [f for leaf, v in enumerate(values) for f in numbers_of(leaf, v, marks[leaf])]
        self.env: ShapeEnv | None = found[0][1].node.shape_env if found else None
        self.places: dict[str, Place] = {}
        """Where a call has the number that each name stands for."""
        self.symbols: dict[str, Symbol] = {}
        if self.env is None:
            return
        self._sizes: dict[sympy.Symbol, Size] = {}
        SIZES[self.env] = self._sizes
        self.env.frozen = False  # what is asked from here on is a fact, too
        for place, number, mark in found:
            if mark is not None and is_required(mark):
                self._check_changes(number, mark, names[place.leaf], place, fixings, shown_as)
        # A Dim is named where it stands alone, what is derived from it after that.
        for derived in (False, True):
            for place, number, mark in found:
                if isinstance(mark, _DerivedDim) == derived:
                    self._name(place, number, mark, names[place.leaf], leaves[place.leaf])

    def _name(
        self, place: Place, number: torch.SymInt, mark: Mark | None, leaf: str, value: Any
    ) -> None:
        symbol = number.node.expr
        if not isinstance(symbol, sympy.Symbol) or symbol in self._sizes:
            return
        assert self.env is not None
        root = mark.root if isinstance(mark, _DerivedDim) else mark
        if mark is not root and (called := getattr(root, "__name__", "")) in self.symbols:
            first, second = mark.fn(0), mark.fn(1)  # type: ignore[union-attr]
            self._sizes[symbol] = Size.of(called) * (second - first) + first
            return
        called = mark.__name__ if isinstance(mark, Dim) and mark is root else _default(place, leaf)
        low, high = range_of(self.env, symbol)
        if isinstance(mark, Dim) and (known := self.symbols.get(called)) is not None:
            low = max(low, known.least)
            high = min((n for n in (high, known.most) if n is not None), default=None)
            self.symbols[called] = Symbol(called, low, high, known.hint)
        else:
            called = _fresh(called, self.symbols)
            self.symbols[called] = Symbol(called, low, high, place.read(value))
            self.places[called] = place
        self._sizes[symbol] = Size.of(called)

    def _check_changes(
        self,
        number: torch.SymInt,
        mark: Mark,
        leaf: str,
        place: Place,
        fixings: Fixings,
        shown_as: Mapping[str, str],
    ) -> None:
        """ImportFailure for a size that changes by what the user says, and is fixed."""
        fixed = number.node.expr
        if not isinstance(fixed, sympy.Integer):
            return
        what = f"'{leaf}'" if place.of == "number" else f"dimension {place.dim} of '{leaf}'"
        if isinstance(mark, Dim):
            what = f"`{mark.__name__}`, {what},"
        symbols = number.node._expr.free_symbols
        stack = next((fixings[symbol] for symbol in symbols if symbol in fixings), None)
        raise ImportFailure(
            f"{what} is {fixed} for what the program does here, expected any size; give "
            "Dim.AUTO for it, leave it out of dynamic_shapes, or write what holds for all sizes",
            place_of(stack, shown_as),
        )

    def guard(self, example: Guard, seen: torch.Tensor) -> Guard:
        """The guard of a tensor of the call, which the export has seen so."""
        extents, steps = (
            tuple(map(Size.of, sizes_of(numbers))) for numbers in (seen.shape, seen.stride())
        )
        if all(size.number is not None for size in (*extents, *steps)):
            return example
        return SizedGuard(**vars(example), extents=extents, steps=steps)

    def number(self, seen: torch.SymInt) -> Size:
        """A number of the call, which the export has seen so."""
        return Size.of(size_of(seen))

    @property
    def facts(self) -> list[Fact]:
        """What holds of the sizes beside their ranges; NoSize for what has no form here."""
        if self.env is None:
            return []
        bounds = {name: symbol.bounds for name, symbol in self.symbols.items()}
        example = {name: symbol.likely for name, symbol in self.symbols.items()}
        return facts_of(self.env, bounds, example)


def numbers_of(leaf: int, value: Any, marks: Marks) -> Iterator[Found]:
    """The symbolic numbers that an export has seen in a leaf: extents, strides, or itself."""
    if isinstance(value, torch.SymInt):
        yield Place(leaf, "number"), value, marks.get(None)
    if not isinstance(value, torch.Tensor):
        return
    for dim, extent in enumerate(value.shape):
        if isinstance(extent, torch.SymInt):
            yield Place(leaf, "extent", dim), extent, marks.get(dim)
    for dim, stride in enumerate(value.stride()):
        if isinstance(stride, torch.SymInt):
            yield Place(leaf, "stride", dim), stride, None


def _default(place: Place, leaf: str) -> str:
    """A name for a size that the user gives none: `x_0` for the first dimension of `x`."""
    name = re.sub(r"\W+", "_", leaf).strip("_") or "arg"
    name = name if not name[0].isdigit() else f"arg_{name}"
    match place.of:
        case "extent":
            return f"{name}_{place.dim}"
        case "stride":
            return f"{name}_stride_{place.dim}"
        case _:
            return name


def _fresh(name: str, known: Collection[str]) -> str:
    while name in known or name in RESERVED:
        name += "_"
    return name

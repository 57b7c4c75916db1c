"""A program that is imported once for calls of many sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dlc.frontend.export.imported import ImportedProgram
from dlc.frontend.export.sized_call import Place
from dlc.frontend.export.sized_guard import SizedGuard
from dlc.ir.sizes import Fact, Size, Symbol

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


@dataclass(frozen=True)
class Sizes:
    """The sizes of a program by name, and what holds of them beside their ranges."""

    symbols: Mapping[str, Symbol]
    facts: tuple[Fact, ...]

    def __str__(self) -> str:
        """`s from 2 to 4096, b from 2; s mod 16 == 0`."""
        texts = (map(str, self.symbols.values()), map(str, self.facts))
        return "; ".join(filter(None, map(", ".join, texts))) or "none"


@dataclass(frozen=True, eq=False)
class SizedProgram:
    """
    A program whose module has sizes. `places` is where a call has the number that each name stands
    for; `numbers` are the leaves of the call that are numbers and change with the sizes.
    """

    general: ImportedProgram
    """Its arguments have the guards of tensors of any size."""
    symbols: Mapping[str, Symbol]
    facts: Sequence[Fact]
    places: Mapping[str, Place]
    numbers: Mapping[int, Size]

    @property
    def module(self) -> ModuleOp:
        return self.general.module

    def takes(self, sizes: Mapping[str, int]) -> bool:
        """Whether such sizes are in their ranges, and what holds of sizes holds of these."""
        for name, symbol in self.symbols.items():
            low, high = symbol.bounds
            if not low <= sizes[name] <= high:
                return False
        return all(fact.holds(sizes) for fact in self.facts)

    def sizes_of(
        self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
    ) -> dict[str, int] | None:
        """The sizes of a call; None if the program is for no call like this one."""
        if self.general.tensors_of(args, kwargs) is None:
            return None
        leaves, _ = self.general.calls.flatten(args, kwargs)
        if not all(type(leaves[leaf]) is int for leaf in self.numbers):
            return None
        sizes = {name: place.read(leaves[place.leaf]) for name, place in self.places.items()}
        if not self.takes(sizes):
            return None
        if any(leaves[leaf] != size.evaluate(sizes) for leaf, size in self.numbers.items()):
            return None
        for argument in self.general.arguments:
            guard = argument.guard
            if isinstance(guard, SizedGuard) and argument.leaf is not None:
                if not guard.at(sizes).holds(leaves[argument.leaf]):
                    return None
        return sizes

    def at(self, sizes: Mapping[str, int], module: ModuleOp) -> ImportedProgram:
        """The program for calls of such sizes, given its module for them."""
        arguments = [
            replace(a, guard=a.guard.at(sizes)) if isinstance(a.guard, SizedGuard) else a
            for a in self.general.arguments
        ]
        numbers = {leaf: size.evaluate(sizes) for leaf, size in self.numbers.items()}
        return replace(
            self.general,
            module=module,
            arguments=arguments,
            outputs=[leaf.at(sizes) for leaf in self.general.outputs],
            constants={**self.general.constants, **numbers},
        )

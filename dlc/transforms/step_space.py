"""
What options of scheduling steps may be: bounds, which hold in any kernel, and values worth a try.

Each step declares a `Domain` for each of its options. The bounds are checked when a step is made,
the values are what the fuzzer of schedules draws from, and what a search tries: of these, the ones
that are legal for a kernel as scheduled so far, with the options that are chosen already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute

from dlc.dialects import tile
from dlc.dialects.kernel_memory import element_bytes, memref_of
from dlc.dialects.mma_layouts import FACTORS
from dlc.registry import OptionError
from dlc.target import Target

Value = int | bool | str | tuple[int, ...] | tuple[str, ...] | None
"""The value of an option; None for one that the step decides by itself."""


@dataclass(frozen=True)
class Situation:
    """A step that is about to act on a kernel as scheduled so far."""

    kernel: tile.KernelOp
    target: Target
    given: Mapping[str, Value]
    """The options of the step that are chosen, in their order."""

    @property
    def halves(self) -> list[str]:
        """The types of inputs that are floats of two bytes."""
        return [str(t) for t in self._floats if element_bytes(t) == 2]

    @property
    def narrow(self) -> list[str]:
        """The types of inputs that are floats of one or two bytes, or integers of 8 bits."""
        return [str(t) for t in self._types if element_bytes(t) <= 2 and t in FACTORS]

    @property
    def multiplies_f32(self) -> bool:
        """True if an input is f32, whose products tensor cores may compute."""
        asked = self.target.precision != "f32" and self.target.has("tf32")
        return asked and "f32" in map(str, self._floats)

    @property
    def _floats(self) -> list[AnyFloat]:
        return [t for t in self._types if isinstance(t, AnyFloat)]

    @property
    def _types(self) -> list[Attribute]:
        types = dict.fromkeys(memref_of(ref).element_type for ref in self.kernel.input_refs)
        return list(types)


@dataclass(frozen=True)
class Domain:
    """The values of an option; those of one with a value for each axis or buffer hold for each."""

    values: tuple[Value, ...]
    """Worth a try in some kernel."""
    least: int | None = None
    most: int | None = None
    narrowed: Callable[[Situation], Iterable[Value]] | None = None
    """Those worth a try in a situation; may raise as steps do where there is nothing to do."""

    def legal(self, situation: Situation) -> list[Value]:
        """The values to try in a situation, each once."""
        found = self.values if self.narrowed is None else self.narrowed(situation)
        return list(dict.fromkeys(found))

    def check(self, option: str, value: object) -> None:
        """OptionError for a value out of bounds; None is no value."""
        for number in value if isinstance(value, tuple) else (value,):
            if not isinstance(number, int) or self.least is None:
                continue
            if number < self.least or (self.most is not None and number > self.most):
                bounds = f"at least {self.least}" if self.most is None else self.bounds
                raise OptionError(option, f"{option} must be {bounds}, not {number}")

    @property
    def bounds(self) -> str:
        """The bounds as text, such as `2 to 4`; empty if there are none."""
        if self.least is None:
            return ""
        return f"from {self.least}" if self.most is None else f"{self.least} to {self.most}"

    @property
    def numbers(self) -> list[int]:
        """Those of the values that are numbers."""
        return [v for v in self.values if isinstance(v, int) and not isinstance(v, bool)]


def powers(most: float, least: int = 1) -> Iterator[int]:
    """Powers of two from `least` to the first that is no less than `most`."""
    number = least
    while True:
        yield number
        if number >= most:
            return
        number *= 2


def divisors_of(number: int) -> list[int]:
    """What divides a number."""
    return [n for n in range(1, number + 1) if number % n == 0]


def combinations(sizes: Sequence[Iterable[int]], most: int = 1 << 30) -> Iterator[tuple[int, ...]]:
    """A size for each axis, in all ways whose product is at most `most`."""
    if not sizes:
        yield ()
        return
    *outer, last = sizes
    own = list(last)
    for rest in combinations(outer, most):
        yield from ((*rest, n) for n in own if prod(rest) * n <= most)

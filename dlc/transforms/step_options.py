"""What options of scheduling steps have in common: sizes of axes, names of buffers, divisors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from dlc.registry import OptionError
from dlc.transforms.step import Decline

T = TypeVar("T")


def by_name(
    found: Sequence[tuple[str, T]],
    what: str,
    names: Sequence[str],
    values: Sequence[int],
    options: tuple[str, str],
) -> dict[T, int]:
    """
    Those of `found` that names stand for, all if there are none, each with its value, or all with
    one. A name that several share stands for the first of them, the next time for the second; once
    more, for the last again, whose value is the last one: slabs of two places of a tensor are one
    slab at sizes at which the places are one. `options` are those that give the names and values.
    """
    left = list(found)
    chosen: list[T] = []
    for name in names or [name for name, _ in found]:
        match = next((pair for pair in left if pair[0] == name), None)
        if match is None:
            match = next((pair for pair in reversed(found) if pair[0] == name), None)
        if match is None:
            known = ", ".join(dict.fromkeys(name for name, _ in found))
            hint = f"its {what} names are {known}" if known else None
            raise OptionError(options[0], f"it has no {what} {name}", hint)
        left = [pair for pair in left if pair is not match]
        chosen.append(match[1])
    if len(values) not in (1, len(chosen)):
        message = f"expected a value for each {what}, found {len(values)} for {len(chosen)}"
        raise OptionError(options[1], message, "one value stands for all")
    return dict(zip(chosen, values if len(values) > 1 else [*values] * len(chosen), strict=True))


def aligned(sizes: Sequence[int], count: int) -> tuple[int, ...]:
    """Sizes for `count` axes or fewer, aligned from the right; axes further left get 1."""
    return (*[1] * (count - len(sizes)), *sizes[max(len(sizes) - count, 0) :])


def per_axis(option: str, sizes: Sequence[int], axes: Sequence[str]) -> tuple[int, ...]:
    """The sizes of axes, aligned from the right; OptionError for one of an axis that is none."""
    return one_of_each(option, sizes, len(axes), f"the axes are {', '.join(axes)}")


def one_of_each(option: str, sizes: Sequence[int], count: int, what: str) -> tuple[int, ...]:
    """The sizes of `count` things, which `what` tells, aligned from the right; none are left."""
    surplus = sizes[: max(len(sizes) - count, 0)]
    if any(size != 1 for size in surplus):
        given = ",".join(map(str, sizes))
        raise OptionError(
            option,
            f"{option}={given} has {len(sizes)} sizes, and {what}",
            "sizes are aligned from the right: leave out the first",
        )
    return aligned(sizes, count)


def divisors(number: int) -> str:
    """A hint: what divides a number."""
    found = [str(n) for n in range(1, number + 1) if number % n == 0]
    *rest, last = found
    return f"{', '.join(rest)} or {last} divides {number}" if rest else f"{last} divides {number}"


@contextmanager
def looking_for(names: Sequence[str], option: str) -> Iterator[None]:
    """Where a kernel has nothing of the kind that a step acts on, those that it names are wrong."""
    try:
        yield
    except Decline as reason:
        if names:
            raise OptionError(option, str(reason)) from None
        raise

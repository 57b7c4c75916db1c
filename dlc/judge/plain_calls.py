"""A program of Torch IR as a list of ATen calls that is stored as JSON and evaluated without IR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from dlc.judge.aten_calls import call, widened, without_onednn


@dataclass(frozen=True)
class Use:
    """The tensor with that number."""

    number: int


@dataclass(frozen=True)
class PlainCall:
    """An ATen overload, what it is given by name, and the numbers of its results."""

    overload: str
    given: dict[str, Any]
    results: tuple[int, ...]
    dtype: str
    """That of the first result."""

    def uses(self) -> set[int]:
        return {use.number for value in self.given.values() for use in _uses(value)}


@dataclass(frozen=True)
class PlainCalls:
    """Calls in order, on numbered tensors, of which the arguments come first."""

    calls: tuple[PlainCall, ...]
    returned: tuple[int, ...]

    def evaluate(
        self, arguments: Sequence[torch.Tensor], *, double: bool = False
    ) -> list[torch.Tensor]:
        """
        What `dlc.judge.reference.evaluate` gives for the module. Raises what PyTorch does where it
        refuses a call.
        """
        tensors = dict(enumerate(arguments))
        dtypes = {number: tensor.dtype for number, tensor in tensors.items()}

        def use(number: int) -> torch.Tensor:
            return widened(tensors[number]) if double else tensors[number]

        def resolved(value: Any) -> Any:
            if isinstance(value, Use):
                return use(value.number)
            return list(map(resolved, value)) if isinstance(value, list) else value

        with torch.no_grad(), without_onednn():
            for each, dropped in zip(self.calls, self._dropped, strict=True):
                given = {name: resolved(value) for name, value in each.given.items()}
                own, dtype = each.given.get("self"), getattr(torch, each.dtype)
                source = dtypes.get(own.number) if isinstance(own, Use) else None
                made = call(each.overload, given, dtype, double, source=source)
                dtypes[each.results[0]] = dtype
                tensors.update(zip(each.results, made, strict=True))
                for number in dropped:
                    del tensors[number]
            return [use(number) for number in self.returned]

    @cached_property
    def _dropped(self) -> list[set[int]]:
        """For each call the tensors that nothing uses any more."""
        needed = set(self.returned)
        dropped: list[set[int]] = []
        for each in reversed(self.calls):
            there = each.uses() | set(each.results)
            dropped.append(there - needed)
            needed |= each.uses()
        return dropped[::-1]

    def to_json(self) -> Any:
        calls = [
            [c.overload, {n: _encoded(v) for n, v in c.given.items()}, c.results, c.dtype]
            for c in self.calls
        ]
        return {"calls": calls, "returned": self.returned}

    @staticmethod
    def of_json(stored: Any) -> PlainCalls:
        calls = [
            PlainCall(overload, {n: _decoded(v) for n, v in given.items()}, tuple(results), dtype)
            for overload, given, results, dtype in stored["calls"]
        ]
        return PlainCalls(tuple(calls), tuple(stored["returned"]))


def _uses(value: Any) -> list[Use]:
    if isinstance(value, Use):
        return [value]
    return [u for item in value for u in _uses(item)] if isinstance(value, list) else []


def _encoded(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_encoded, value))
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    return {"use": value.number} if isinstance(value, Use) else value


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_decoded, value))
    if not isinstance(value, dict):
        return value
    return complex(*value["complex"]) if "complex" in value else Use(value["use"])

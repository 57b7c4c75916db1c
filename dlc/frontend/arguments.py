"""The arguments of `@main`, and the tensors that a call gives for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch

from dlc.frontend.guard import Guard
from dlc.frontend.pairs import is_lazy, resolved
from dlc.frontend.source import ImportFailure

Kind: TypeAlias = Literal["input", "parameter", "buffer", "constant", "random"]


@dataclass(frozen=True)
class Argument:
    """
    Argument `index` of `@main`. An input is leaf `leaf` of the flattened call; the others are
    tensors of the module, where `fetch` finds the present one by its qualified name. One that is
    `random`, always the last, holds seed and offset of random numbers: `fetch` draws it.
    """

    index: int
    name: str
    kind: Kind
    guard: Guard
    leaf: int | None = None
    fetch: Callable[[], torch.Tensor | None] | None = None

    @property
    def tensor(self) -> torch.Tensor | None:
        """The module's tensor, shared with it; None for an input."""
        return None if self.fetch is None else self.fetch()


def tensor_of(argument: Argument, leaves: Sequence[Any], written: Collection[int]) -> Any:
    """
    What a call with such leaves and the module have for an argument, as it is in memory.
    ImportFailure where it would be written to, and is not so in memory.
    """
    if argument.leaf is None:
        assert argument.fetch is not None
        return argument.fetch()
    leaf = leaves[argument.leaf]
    if not isinstance(leaf, torch.Tensor) or not is_lazy(leaf):
        return leaf
    if argument.index in written:
        raise ImportFailure(
            f"the program writes to '{argument.name}', whose memory holds its conjugates or "
            "negatives; pass x.resolve_conj().resolve_neg() of it"
        )
    return resolved(leaf)


def check_overlaps(
    arguments: Sequence[Argument], written: Collection[int], bound: Sequence[torch.Tensor]
) -> None:
    """ImportFailure if a tensor that is written to overlaps another."""
    if not written:
        return
    ranges = [_byte_range(tensor) for tensor in bound]
    if not _some_overlap(ranges, set(written)):
        return
    for mutated in written:
        begin, end = ranges[mutated]
        for i, (lo, hi) in enumerate(ranges):
            if i != mutated and lo < end and begin < hi:
                raise ImportFailure(
                    f"the program writes to '{arguments[mutated].name}', which shares memory "
                    f"with '{arguments[i].name}'; pass a clone of one of them"
                )


def _some_overlap(ranges: Sequence[tuple[int, int]], written: Collection[int]) -> bool:
    """Whether one of the ranges that are written to overlaps another; each is looked at once."""
    reach = written_reach = 0
    for (begin, end), i in sorted((r, i) for i, r in enumerate(ranges)):
        if begin == end:
            continue
        if begin < written_reach or (i in written and begin < reach):
            return True
        reach = max(reach, end)
        if i in written:
            written_reach = max(written_reach, end)
    return False


def _byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses [begin, end) between which a tensor's elements lie; empty for a meta tensor."""
    if tensor.numel() == 0 or tensor.device.type == "meta":
        return 0, 0
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()

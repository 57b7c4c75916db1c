"""What is measured: a function of tensors, with what its results must be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch.utils._pytree import tree_leaves

from dlc.ir.span import span
from dlc.target import WIDEST_ACCESS
from dlc_bench.work import Work

Call: TypeAlias = Callable[[Sequence[torch.Tensor]], Any]
"""An implementation: of the tensors, to any tree of tensors."""


@dataclass
class Subject:
    """A program on its tensors."""

    call: Call
    """As PyTorch runs it."""
    tensors: list[torch.Tensor]
    exact: Callable[[], list[torch.Tensor]]
    """Its results in fp64; none if nothing is known of them."""
    work: Work
    fixed: frozenset[int] = field(default_factory=frozenset)
    """Tensors, by number, that are part of the program and cannot lie elsewhere."""
    written: frozenset[int] = field(default_factory=frozenset)
    """Tensors, by number, that the program writes to."""
    has_eager: bool = True
    """False if PyTorch has no such program: of its results only `exact` is known."""

    def __post_init__(self) -> None:
        self._pristine = [(self.tensors[i], copy(self.tensors[i])) for i in sorted(self.written)]

    def restore(self) -> None:
        """Makes the tensors what they were before anything ran."""
        for tensor, kept in self._pristine:
            tensor.copy_(kept)

    @property
    def rotated_bytes(self) -> int:
        """Of one set of tensors."""
        moving = [t for i, t in enumerate(self.tensors) if i not in self.fixed]
        return sum(t.numel() * t.element_size() for t in moving)

    @property
    def rotated_work(self) -> Work:
        """Without the bytes of tensors that lie in one place, which a cache may keep."""
        stay = sum(self.tensors[i].numel() * self.tensors[i].element_size() for i in self.fixed)
        return replace(self.work, read=max(0.0, self.work.read - stay))

    def copies(self, count: int) -> list[list[torch.Tensor]]:
        """`count` sets of tensors in places of their own; the first one are the tensors."""
        made = [self.tensors]
        for _ in range(count - 1):
            made.append([t if i in self.fixed else copy(t) for i, t in enumerate(self.tensors)])
        return made


def copy(tensor: torch.Tensor) -> torch.Tensor:
    """A copy elsewhere with the same strides and the same alignment up to 16 bytes."""
    if not tensor.numel():
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
        )
    size = span(tensor.shape, tensor.stride())
    skip = tensor.data_ptr() % WIDEST_ACCESS // tensor.element_size()
    memory = torch.empty(size + skip, dtype=tensor.dtype, device=tensor.device)
    memory[skip:] = tensor.detach().as_strided((size,), (1,))
    return memory.as_strided(tensor.shape, tensor.stride(), skip)


def results_of(output: Any) -> list[torch.Tensor]:
    """The tensors in what a program returns, in order."""
    return [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]

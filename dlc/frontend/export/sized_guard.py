"""The properties of a tensor that code relies on which is made for many sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from dlc.frontend.guard import Guard, alignment
from dlc.ir.sizes import Size


@dataclass(frozen=True)
class SizedGuard(Guard):
    """
    The properties of a tensor some of whose extents and strides are sizes: `extents` and `steps`.
    `shape` and `strides` are those of the example.
    """

    extents: tuple[Size, ...] = ()
    steps: tuple[Size, ...] = ()

    def holds(self, tensor: torch.Tensor) -> bool:
        """As of a guard, of what does not depend on sizes."""
        return (
            tensor.dtype == self.dtype
            and tensor.dim() == len(self.extents)
            and self.requires_grad in (None, tensor.requires_grad)
            and self.device in (None, tensor.device)
            and tensor.layout is torch.strided
            and self.offset in (None, tensor.storage_offset())
            and alignment(tensor) >= self.align
        )

    def at(self, sizes: Mapping[str, int]) -> Guard:
        """The guard of a tensor where sizes are such numbers."""
        shape, strides = (
            tuple(size.evaluate(sizes) for size in numbers)
            for numbers in (self.extents, self.steps)
        )
        return Guard(
            shape, self.dtype, strides, self.align, self.requires_grad, self.device, self.offset
        )

"""The properties of a tensor that compiled code relies on."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dlc.target import WIDEST_ACCESS

WITH_MEMORY = (torch.Tensor, torch.nn.Parameter)
"""Types of tensors whose address is their elements'; that of a meta tensor is 0."""


@dataclass(frozen=True)
class Guard:
    """The properties of one tensor that code relies on; strides in elements, alignment in bytes."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    strides: tuple[int, ...]
    align: int
    requires_grad: bool | None = None
    """None where the program does not ask for it."""
    device: torch.device | None = None
    """None where the program does not ask where its tensors are."""
    offset: int | None = None
    """The number of its first element in its memory; None where the program does not ask."""

    @staticmethod
    def of(
        tensor: torch.Tensor,
        *,
        gradients: bool = False,
        devices: bool = False,
        offsets: bool = False,
    ) -> Guard:
        """What the program asks for of tensors is told."""
        require = tensor.requires_grad if gradients else None
        device = tensor.device if devices else None
        shape, strides = tuple(tensor.shape), tensor.stride()
        offset = int(tensor.storage_offset()) if offsets else None
        return Guard(shape, tensor.dtype, strides, alignment(tensor), require, device, offset)

    def __str__(self) -> str:
        """Such as `float32[6, 9]`; strides and alignment where they are not what is usual."""
        words = [f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)}"]
        if self.strides != torch.empty(self.shape, device="meta").stride():
            words.append(f"of strides {list(self.strides)}")
        if self.align < WIDEST_ACCESS:
            words.append(f"at multiples of {self.align} bytes")
        if self.device is not None:
            words.append(f"on {self.device}")
        if self.offset is not None:
            words.append(f"from element {self.offset} of its memory on")
        return " ".join(words)

    def holds(self, tensor: torch.Tensor) -> bool:
        """Shapes and dtypes are equal, strides where the extent exceeds 1, alignment suffices."""
        if tensor.dtype != self.dtype or tensor.shape != self.shape:
            return False
        if self.requires_grad is not None and tensor.requires_grad != self.requires_grad:
            return False
        if self.device is not None and tensor.device != self.device:
            return False
        if tensor.layout is not torch.strided:
            return False
        if self.offset is not None and tensor.storage_offset() != self.offset:
            return False
        strides = tensor.stride()
        if strides != self.strides and any(
            extent > 1 and here != there
            for extent, here, there in zip(self.shape, strides, self.strides, strict=True)
        ):
            return False
        if type(tensor) in WITH_MEMORY:
            return tensor.data_ptr() % self.align == 0
        return alignment(tensor) >= self.align


def alignment(tensor: torch.Tensor) -> int:
    """The largest power of two up to the widest access that divides the address."""
    if tensor.device.type == "meta" or isinstance(tensor, torch._subclasses.FakeTensor):
        return WIDEST_ACCESS
    address = tensor.data_ptr()
    return min(address & -address, WIDEST_ACCESS) if address else WIDEST_ACCESS

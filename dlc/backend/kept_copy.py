"""Constants that lie on the host, kept on the device of a backend."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch

from dlc.backend import LaunchError
from dlc.ir.span import span


@dataclass(frozen=True)
class KeptCopy:
    """
    A copy on a device, and the bytes that it is of. Memory on the host may change in ways that no
    version of a tensor tells (`t.data`), so bytes are compared, which costs less than a transfer.
    """

    copy: torch.Tensor
    bytes: bytes

    @staticmethod
    def of(tensor: torch.Tensor, device: torch.device) -> KeptCopy:
        """Of a tensor on the host."""
        return KeptCopy(to_device(tensor, device), bytes_of(tensor))

    def is_of(self, tensor: torch.Tensor) -> bool:
        """True if a tensor on the host has the elements that were copied."""
        return self.bytes == bytes_of(tensor)

    def of_now(self, tensor: torch.Tensor) -> KeptCopy:
        """The copy of a tensor on the host, in the same memory, which graphs may read."""
        if self.is_of(tensor):
            return self
        memory_of(self.copy).copy_(memory_of(tensor))
        return KeptCopy(self.copy, bytes_of(tensor))


def bytes_of(tensor: torch.Tensor) -> bytes:
    """What lies on the host from the first element of a tensor to the last."""
    return ctypes.string_at(
        tensor.data_ptr(), span(tensor.shape, tensor.stride()) * tensor.element_size()
    )


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """The elements from the first to the last, in the order of memory."""
    return tensor.detach().as_strided((span(tensor.shape, tensor.stride()),), (1,))


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """
    A tensor's elements on a device at the same strides; itself if it is there already. LaunchError
    for a tensor without elements.
    """
    if tensor.device == device:
        return tensor
    if tensor.device.type == "meta":
        raise LaunchError("a tensor on the device 'meta' has no elements to compute with")
    return memory_of(tensor).to(device).as_strided(tensor.shape, tensor.stride(), 0)

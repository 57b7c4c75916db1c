"""
Whether tensors have been changed in place: their versions tell, but those that were made under
`torch.inference_mode()` have none and are compared by their bytes.
"""

from __future__ import annotations

from collections.abc import Hashable
from hashlib import blake2b

import torch


def version_of(tensor: torch.Tensor) -> Hashable:
    """What is another one once a tensor has been changed, to be compared."""
    if not tensor.is_inference():
        return tensor._version
    if tensor.device.type == "meta":
        return None
    if tensor.layout == torch.sparse_coo:
        return version_of(tensor._indices()), version_of(tensor._values())
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    return blake2b(bytes_of(tensor)).digest()


def may_have_changed(tensor: torch.Tensor) -> bool:
    """False for a tensor that is as it was made; of one without a version nothing tells."""
    return tensor.is_inference() or tensor._version > 0


def refill(tensor: torch.Tensor, before: torch.Tensor) -> None:
    """Makes a tensor's numbers those that it had, unless its shape is another one."""
    if tensor.shape == before.shape and not torch.equal(tensor, before):
        # Tensors without a version may be changed in this mode only.
        with torch.no_grad(), torch.inference_mode(tensor.is_inference()):
            tensor.detach().copy_(before)


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The numbers of a strided tensor, in the order of its subscripts."""
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    flat = tensor.detach().contiguous().view(-1)
    return flat.view(torch.uint8).cpu().numpy().tobytes()

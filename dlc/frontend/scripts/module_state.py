"""What modules hold: it is put back after a run that is for its questions, and must not change."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from dlc.frontend.state.tensor_changes import bytes_of, refill, version_of

FEW = 1 << 12
"""Elements of a tensor up to which all are compared."""
SAMPLED = 64
"""Elements that are compared of a larger one, beside its version."""
TABLES = ("_parameters", "_buffers", "_modules")


@contextmanager
def kept_state(module: torch.nn.Module) -> Iterator[None]:
    """Buffers and attributes of a module and of those in it are afterwards what they were."""
    modules = list(module.modules())
    tables = [(table, dict(table)) for m in modules for table in _tables(m)]
    buffers = [(b, b.detach().clone()) for b in module.buffers()]
    try:
        yield
    finally:
        for table, before in tables:
            table.clear()
            table.update(before)
        for buffer, before in buffers:
            refill(buffer, before)


def _tables(module: torch.nn.Module) -> Iterator[dict[str, Any]]:
    yield vars(module)
    yield from (vars(module)[name] for name in TABLES)


def state_of(values: Iterable[Any]) -> dict[int, Hashable]:
    """For each of some modules and tensors, by identity, what it holds, to be compared."""
    return {id(value): _state(value) for value in values}


def _state(value: Any) -> Hashable:
    if isinstance(value, torch.Tensor):
        return _numbers(value)
    if isinstance(value, torch.nn.Module):
        return tuple(_own(module) for module in value.modules())
    return None


def _own(module: torch.nn.Module) -> Hashable:
    """The attributes of one module: plain values, and what its tensors are."""
    plain = (int, float, bool, str, type(None))
    own = vars(module)
    values = tuple((name, repr(v)) for name, v in own.items() if isinstance(v, plain))
    tensors = (*own["_parameters"].values(), *own["_buffers"].values())
    return values, tuple(_numbers(t) for t in tensors if t is not None)


def _numbers(tensor: torch.Tensor) -> Hashable:
    if tensor.layout != torch.strided or tensor.device.type == "meta":
        return version_of(tensor)
    flat = tensor.detach()
    if tensor.numel() <= FEW:
        return bytes_of(flat)
    step = tensor.numel() // SAMPLED
    at = torch.arange(0, tensor.numel(), step, device=tensor.device)
    places = torch.unravel_index(at, tensor.shape)
    return version_of(tensor), bytes_of(flat[places])

"""The tensors of a model: none at all, random ones, or those of a checkpoint."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from dlc.frontend.source import ImportFailure


@contextmanager
def parameters_on_meta() -> Iterator[None]:
    """Modules built within get parameters without memory, and buffers with their true values."""
    register = nn.Module.register_parameter

    def register_on_meta(self: nn.Module, name: str, param: nn.Parameter | None) -> None:
        if param is not None and param.device.type != "meta":
            param = nn.Parameter(param.detach().to("meta"), param.requires_grad)
        register(self, name, param)

    nn.Module.register_parameter = register_on_meta
    try:
        yield
    finally:
        nn.Module.register_parameter = register


def fill_random(module: nn.Module, seed: int, device: str = "cpu") -> None:
    """
    Gives every parameter random values in place of none, drawn and kept on `device`, each by its
    name and `seed` alone: a layer has the same weights with the model and without. Matrices keep
    the scale of what they are applied to (normal / sqrt of the inputs), one-dimensional weights are
    near 1, biases near 0.
    """
    shared: dict[int, nn.Parameter] = {}
    for name, old in list(module.named_parameters(remove_duplicate=False)):
        if id(old) not in shared:
            generator = torch.Generator(device).manual_seed(zlib.crc32(f"{seed}:{name}".encode()))
            shared[id(old)] = nn.Parameter(_random(name, old, generator), requires_grad=False)
        owner, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(owner), leaf, shared[id(old)])


def _random(name: str, like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    value = torch.empty(like.shape, dtype=like.dtype, device=generator.device)
    value.normal_(generator=generator)
    if like.dim() > 1:
        return value.mul_(like[0].numel() ** -0.5)
    return value.mul_(0.1).add_(0.0 if name.endswith("bias") else 1.0)


def bytes_of(module: nn.Module) -> int:
    """The bytes of a module's parameters, shared ones counted once."""
    return sum(p.numel() * p.element_size() for p in module.parameters())


def check_memory(module: nn.Module, name: str) -> None:
    """ImportFailure if the parameters do not fit into what memory is free."""
    wanted, free = bytes_of(module), available_bytes()
    if free is not None and wanted > free:
        dtype = str(next(module.parameters()).dtype).removeprefix("torch.")
        raise ImportFailure(
            f"the weights of {name} take {wanted / 2**30:.1f} GiB in "
            f"{dtype}, and {free / 2**30:.1f} GiB of memory are free; "
            "run one layer with --layer N, take --dtype bf16, or compile only"
        )


def available_bytes() -> int | None:
    """Memory that can be had without swapping; None where the system does not say."""
    try:
        with open("/proc/meminfo") as stream:
            for line in stream:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None

"""The host as a backend of the executor: printed kernels, compiled by the C++ compiler."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch

from dlc.backend.cuda.interface import (
    c_name,
    dynamic_shared_bytes,
    parameter_types,
    tensor_maps,
)
from dlc.backend.cuda.printer import print_kernel
from dlc.backend.host.runtime import (
    AsyncMode,
    HostKernel,
    Order,
    compile_all,
    encode_tensor_map,
)
from dlc.dialects.kernel import FuncOp


def host_arguments(func: FuncOp, addresses: Sequence[int]) -> list[int | bytes]:
    """A kernel's arguments on the host, given the addresses of its inputs and outputs."""
    maps = [
        encode_tensor_map(
            addresses[argument] + map.offset,
            map.extents,
            map.strides,
            map.box,
            map.element_bytes,
            map.swizzle_bytes,
        )
        for argument, map in tensor_maps(func)
    ]
    return [*maps, *addresses]


@dataclass
class HostBackend:
    """
    Runs kernels on the CPU. The options are those of `HostKernel.launch`: the order of threads
    between barriers, when asynchronous copies land, the seed of a random order, and the number of
    threads of the system.
    """

    order: Order = "forward"
    async_mode: AsyncMode = "late"
    seed: int = 0
    threads: int | None = None
    name: str = "host"
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    _kernels: dict[FuncOp, tuple[HostKernel, int]] = field(default_factory=dict)
    """What was prepared, and the dynamic shared memory of each in bytes."""

    def prepare(self, funcs: Sequence[FuncOp]) -> None:
        made = {
            func: HostKernel(print_kernel(func), c_name(func), parameter_types(func))
            for func in funcs
            if func not in self._kernels
        }
        compile_all(made.values())
        for func, kernel in made.items():
            nothing = [0] * len(kernel.parameter_types)
            kernel.launch(nothing, 0, func.block_size)  # no block runs: it is loaded
        self._kernels |= {f: (made[f], dynamic_shared_bytes(f)) for f in made}

    def running(self) -> AbstractContextManager[None]:
        return nullcontext()

    def zero(self, tensor: torch.Tensor) -> None:
        tensor.zero_()

    def keep(self, tensor: torch.Tensor) -> None:
        pass  # a launch ends before the next begins

    def launch(self, func: FuncOp, addresses: Sequence[int]) -> None:
        kernel, shared = self._kernels[func]
        kernel.launch(
            host_arguments(func, addresses),
            func.grid_size,
            func.block_size,
            shared,
            threads=self.threads,
            order=self.order,
            seed=self.seed,
            async_mode=self.async_mode,
        )

"""The host as a backend of the executor: printed kernels, compiled by the C++ compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from dlc.backend.cache import content_key
from dlc.backend.host.cxx import fingerprint
from dlc.backend.host.host_kernel import (
    AsyncMode,
    HostKernel,
    Order,
    compile_all,
    encode_tensor_map,
)
from dlc.backend.kernel_image import KernelImage
from dlc.backend.parallel import OnDone

if TYPE_CHECKING:
    from dlc.analysis.kernel.tensor_maps import TensorMap
    from dlc.dialects.kernel import FuncOp


def host_arguments(func: FuncOp, addresses: Sequence[int]) -> list[int | bytes]:
    """A kernel's arguments on the host, given the addresses of its inputs and outputs."""
    return _arguments(KernelImage.of(func).tensor_maps, addresses)


def _arguments(
    maps: Sequence[tuple[int, TensorMap]], addresses: Sequence[int]
) -> list[int | bytes]:
    encoded = [
        encode_tensor_map(
            addresses[argument] + map.offset,
            map.extents,
            map.strides,
            map.box,
            map.element_bytes,
            map.swizzle_bytes,
        )
        for argument, map in maps
    ]
    return [*encoded, *addresses]


@dataclass(frozen=True)
class _Prepared:
    """A kernel that is loaded, and all that a launch needs beside addresses."""

    kernel: HostKernel
    grid: int
    block: int
    shared: int
    """Dynamic shared memory in bytes."""
    maps: Sequence[tuple[int, TensorMap]]
    sizes: tuple[int, ...] = ()


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
    on_compiled: OnDone | None = None
    _kernels: dict[KernelImage, _Prepared] = field(default_factory=dict)

    @property
    def looks(self) -> bool:
        return True

    @property
    def captures(self) -> bool:
        return False

    def prepare(self, funcs: Sequence[KernelImage]) -> None:
        made = {
            func: HostKernel(func.source, func.c_name, func.parameter_types)
            for func in funcs
            if func not in self._kernels
        }
        compile_all(made.values(), on_done=self.on_compiled)
        for func, kernel in made.items():
            nothing = [0] * len(kernel.parameter_types)
            kernel.launch(nothing, 0, func.block_size)  # no block runs: it is loaded
        self._keep(made)

    @property
    def chip(self) -> str:
        """What machine code is for: the CPU's instruction sets, and the C++ compiler."""
        return f"this CPU and compiler ({content_key(fingerprint())[:12]})"

    def objects(self, funcs: Sequence[KernelImage]) -> list[Path]:
        """The shared objects of kernels, compiled if they are not yet."""
        self.prepare(funcs)
        return [self._kernels[func].kernel.compile() for func in funcs]

    def load(self, objects: Mapping[KernelImage, Path]) -> None:
        """Takes shared objects in place of compiling the kernels."""
        self._keep(
            {
                func: HostKernel("", func.c_name, func.parameter_types, path)
                for func, path in objects.items()
            }
        )

    def _keep(self, made: Mapping[KernelImage, HostKernel]) -> None:
        for func, kernel in made.items():
            self._kernels[func] = _Prepared(
                kernel,
                func.grid_size,
                func.block_size,
                func.dynamic_shared_bytes,
                func.tensor_maps,
                func.size_values,
            )

    def running(self) -> AbstractContextManager[None]:
        return nullcontext()

    def zero(self, tensor: torch.Tensor) -> None:
        tensor.zero_()

    def counts(self, size: int) -> torch.Tensor:
        return torch.zeros(size, dtype=torch.uint8)

    def launch(self, func: KernelImage, addresses: Sequence[int]) -> None:
        prepared = self._kernels[func]
        prepared.kernel.launch(
            [*_arguments(prepared.maps, addresses), *prepared.sizes],
            prepared.grid,
            prepared.block,
            prepared.shared,
            threads=self.threads,
            order=self.order,
            seed=self.seed,
            async_mode=self.async_mode,
        )

"""A call of a bound host program: its steps, one after the other, on real memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

import torch

from dlc.backend.bound_program import (
    Allocate,
    Carry,
    For,
    If,
    Launch,
    Select,
    Slice,
    Step,
    While,
    Zero,
)
from dlc.backend.kernel_image import KernelImage
from dlc.backend.parallel import OnDone


class Backend(Protocol):
    """A place where printed kernels run."""

    on_compiled: OnDone | None
    """Receives the number of kernels compiled so far, of those that are prepared."""

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> torch.device:
        """The device of its tensors."""
        ...

    @property
    def looks(self) -> bool:
        """True if each launch is waited for, so that the values of tensors may be looked at."""
        ...

    @property
    def captures(self) -> bool:
        """True while what is launched is put into a graph, which nothing can be copied for."""
        ...

    def prepare(self, funcs: Sequence[KernelImage]) -> None:
        """Compiles kernels. BackendError with the reason where that fails."""
        ...

    def running(self) -> AbstractContextManager[None]:
        """The context in which the launches of one program are made."""
        ...

    def zero(self, tensor: torch.Tensor) -> None:
        """Fills a tensor with zeros, after the launches before."""
        ...

    def counts(self, size: int) -> torch.Tensor:
        """So many bytes of zeros, in which launches count blocks, and which they leave so."""
        ...

    def launch(self, func: KernelImage, addresses: Sequence[int]) -> None:
        """Runs a prepared kernel on its inputs and outputs. LaunchError if it fails."""
        ...


OnLaunch: TypeAlias = Callable[[KernelImage, float], None]


class Run:
    """
    One call. Buffers have numbers, and at each number stand an address, and the tensor whose memory
    the buffer lies in; at that of a counter stands its value.
    """

    def __init__(self, backend: Backend, count: int, on_launch: OnLaunch | None) -> None:
        self._backend = backend
        self._on_launch = on_launch
        self._addresses = [0] * count
        self._memory: list[torch.Tensor | None] = [None] * count
        self._start = (
            _launch_in_range
            if torch.autograd.profiler._is_profiler_enabled
            else type(backend).launch
        )

    def hold(self, number: int, tensor: torch.Tensor) -> None:
        """Puts a tensor at a number."""
        self._memory[number] = tensor
        self._addresses[number] = tensor.data_ptr()

    def tensor(self, number: int) -> torch.Tensor:
        """The tensor in whose memory a buffer lies."""
        tensor = self._memory[number]
        assert tensor is not None
        return tensor

    def take(self, steps: Sequence[Step]) -> None:
        """Takes some steps."""
        addresses, memory = self._addresses, self._memory
        for step in steps:
            if isinstance(step, Launch):
                if step.grid:
                    self._launch(step)
            elif isinstance(step, Slice):
                addresses[step.number] = addresses[step.memory] + step.offset
                memory[step.number] = memory[step.memory]
            elif isinstance(step, Allocate):
                self.hold(step.number, step.layout.allocate(self._backend.device))
            elif isinstance(step, Select):
                here = addresses[step.whole] + addresses[step.index] * step.step
                addresses[step.number] = here
                memory[step.number] = memory[step.whole]
            elif isinstance(step, Zero) and step.counts:
                self.hold(step.number, self._backend.counts(step.size))
            elif isinstance(step, Zero):
                self._backend.zero(self._bytes(step.number, step.size))
            elif isinstance(step, For):
                self._for(step)
            elif isinstance(step, While):
                self._while(step)
            elif isinstance(step, If):
                self.take(step.then if self._says(step.flag) else step.otherwise)
            else:
                for number in step.numbers:
                    memory[number] = None

    def _launch(self, step: Launch) -> None:
        begin, backend = time.perf_counter(), self._backend
        addresses = self._addresses
        self._start(backend, step.func, [addresses[i] for i in step.inputs + step.outputs])
        if self._on_launch is not None:
            if backend.device.type == "cuda":
                torch.cuda.synchronize(backend.device)
            self._on_launch(step.func, time.perf_counter() - begin)

    def _for(self, step: For) -> None:
        current = step.carry.inits
        for turn in range(step.count):
            self._addresses[step.counter] = turn
            self._name(step.carry.names[0], current)
            self.take(step.body)
            current = step.carry.next
        self._name(step.carry.results, current)

    def _while(self, step: While) -> None:
        carry: Carry = step.carry
        current = carry.inits
        while True:
            self._name(carry.names[0], current)
            self.take(step.before)
            if not self._says(step.flag):
                break
            self._name(carry.names[1], carry.names[0])
            self.take(step.body)
            current = carry.next
        self._name(carry.results, carry.names[0])

    def _name(self, names: Sequence[int], buffers: Sequence[int]) -> None:
        """Gives buffers other numbers, all at once."""
        found = [(self._addresses[b], self._memory[b]) for b in buffers]
        for number, (address, tensor) in zip(names, found, strict=True):
            self._addresses[number], self._memory[number] = address, tensor

    def _says(self, flag: int) -> bool:
        """A condition, for which the host waits if another device computes it."""
        return bool(self._bytes(flag, 1).item())

    def _bytes(self, number: int, size: int) -> torch.Tensor:
        """Bytes of a buffer, from its first one."""
        storage = self.tensor(number).untyped_storage()
        offset = self._addresses[number] - storage.data_ptr()
        bytes = torch.empty(0, dtype=torch.uint8, device=storage.device)
        return bytes.set_(storage, offset, (size,))  # pyright: ignore[reportCallIssue]


def _launch_in_range(backend: Backend, func: KernelImage, addresses: Sequence[int]) -> None:
    """A launch that PyTorch's profiler shows by the kernel's name (`emit_nvtx`: NVTX, too)."""
    with torch.profiler.record_function(f"dlc::{func.name_}"):
        backend.launch(func, addresses)

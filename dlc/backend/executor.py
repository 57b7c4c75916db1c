"""
Runs `@main` of a Kernel IR module on torch tensors.

    executor = Executor(module, get_backend("host"))
    results = executor(tensors)

`@main`, bound, is a list of launches and of the memory that they use: see `host_program.py`. A
planned program asks torch for one workspace and for each of its results at a call; launches then
cost no more than looking up addresses. Where kernels run is behind the interface `Backend`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import torch

from dlc import plugins
from dlc.backend import BACKENDS, LaunchError, backend_hint
from dlc.backend.bound_program import BoundProgram, Launch, Layout
from dlc.backend.kept_copy import KeptCopy, to_device
from dlc.backend.kept_once import KeptOnce
from dlc.backend.program_run import Backend, OnLaunch, Run
from dlc.diagnostics import with_hint
from dlc.ir.home import home_of
from dlc.log import get_logger
from dlc.target import DEFAULT_TARGET, OLDEST_CAPABILITY, TARGETS
from dlc.text import counted

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

BackendLike: TypeAlias = "Backend | str | None"


def get_backend(backend: BackendLike = None, sync: bool = False) -> Backend:
    """
    The backend of a name, or the default one; ValueError if there is none of that name. With
    `sync` every launch is waited for, as the host's are anyway.
    """
    if backend is None:
        backend = default_backend()
    if not isinstance(backend, str) and hasattr(backend, "launch"):
        return backend
    if not isinstance(backend, str) or backend not in BACKENDS:
        raise with_hint(ValueError(f"unknown backend '{backend}'"), backend_hint(str(backend)))
    return plugins.resolve(plugins.BACKENDS, backend)(sync)


def host_backend(sync: bool) -> Backend:
    """The CPU, which is always waited for."""
    from dlc.backend.host.host_backend import HostBackend

    return HostBackend()


def cuda_backend(sync: bool) -> Backend:
    """The GPU."""
    from dlc.backend.cuda.run.gpu_backend import CudaBackend

    return CudaBackend(sync=sync)


@cache
def default_backend() -> str:
    """`cuda` where there is a GPU that can run dlc's kernels, else `host`."""
    if not torch.cuda.is_available():
        return "host"
    return "cuda" if torch.cuda.get_device_capability() >= OLDEST_CAPABILITY else "host"


@cache
def default_target() -> str:
    """The GPU at hand, or the newest known one that its features include; without one sm_90."""
    if not torch.cuda.is_available():
        return DEFAULT_TARGET
    major, minor = torch.cuda.get_device_capability()
    numbers = [int(name.removeprefix("sm_")) for name in TARGETS]
    usable = [n for n in numbers if n // 10 == major and n % 10 <= minor]
    return f"sm_{max(usable)}" if usable else DEFAULT_TARGET


class Executor:
    """A program that can be called."""

    def __init__(
        self,
        program: ModuleOp | BoundProgram,
        backend: Backend,
    ) -> None:
        """Of a module of Kernel IR, which is bound. OpError as of `HostProgram.bind`."""
        self.backend = backend
        if not isinstance(program, BoundProgram):
            program = _bound(program)
        self.program = program
        self.funcs = tuple(self.program.funcs)
        self._updated = self.program.updated
        self._kept: dict[int, KeptCopy] = {}
        """Copies of constants, by the numbers of their arguments."""
        self._once = KeptOnce(program)
        self._prepared = self._told = False

    @property
    def results(self) -> tuple[int, ...]:
        """The numbers of the buffers that `@main` returns."""
        return self.program.results

    @property
    def launches(self) -> list[Launch]:
        """In order."""
        return self.program.launches

    def prepare(self) -> None:
        """Compiles the kernels, once. BackendError with the reason where that fails."""
        if not self._prepared:
            launched = (launch.func for launch in self.launches if launch.grid > 0)
            self.backend.prepare(list(dict.fromkeys(launched)))
            self._prepared = True

    def __call__(
        self,
        tensors: Sequence[torch.Tensor],
        on_launch: OnLaunch | None = None,
        *,
        in_place: bool = False,
    ) -> list[torch.Tensor]:
        """
        The results of `@main`, some of which may lie in the memory of its arguments: with
        `in_place` in that of the tensors themselves, else in that of copies. A tensor on another
        device is copied to the backend's, a constant only where it has changed, and the results to
        the device of the first tensor that is no number on the CPU. `on_launch` is told the seconds
        of each kernel, one waiting for the other. LaunchError for tensors other than `@main`'s
        arguments, for one to be copied while a graph is captured, and on the host or with `sync`
        for indices out of range in arguments that hold them; an index that is computed, or on a GPU
        without `sync`, reads zero and writes nothing where it is out of range.
        """
        self.prepare()
        self._check(tensors)
        home = home_of(tensors) or self.backend.device
        run = Run(self.backend, self.program.count, on_launch)
        for number, tensor in enumerate(tensors):
            here = self._here(number, tensor)
            copied = here is tensor and not in_place and number in self._updated
            run.hold(number, here.clone() if copied else here)
        with self.backend.running():
            self._once.hold_in(run, tensors, self.backend)
            run.take(self._once.rest)
        return [to_device(run.tensor(i), home) for i in self.results]

    def tell_of_copies(self, tensors: Sequence[torch.Tensor]) -> None:
        """Says once that tensors of modules are copied at each call, which are, and how much."""
        if self._told:
            return
        self._told, device = True, self.backend.device
        moved = [n for n in self.program.held if tensors[n].device != device]
        if moved:
            get_logger("kernels").warning(
                "each call copies %s of modules from %s to %s, %.3g MB, the first of them %s: move "
                "the modules there, or compile for a backend that runs where they are",
                counted(len(moved), "tensor"),
                tensors[moved[0]].device,
                device,
                sum(tensors[n].nbytes for n in moved) / 1e6,
                self.program.argument(moved[0]),
            )

    def _here(self, number: int, tensor: torch.Tensor) -> torch.Tensor:
        """An argument on the backend's device."""
        device = self.backend.device
        if tensor.device == device:
            return tensor
        keeps = number in self.program.constants and tensor.device.type == "cpu"
        kept = self._kept.get(number) if keeps else None
        if kept is not None and kept.is_of(tensor):
            return kept.copy
        if self.backend.captures:
            raise LaunchError(
                f"{self.program.argument(number)} is on {tensor.device}, and a graph that is being "
                f"captured cannot copy it to {device}: move it there, or call the program once "
                "before if it is a constant"
            )
        if not keeps:
            return to_device(tensor, device)
        kept = KeptCopy.of(tensor, device) if kept is None else kept.of_now(tensor)
        self._kept[number] = kept
        return kept.copy

    def _check(self, tensors: Sequence[torch.Tensor]) -> None:
        expected = self.program.arguments
        if len(tensors) != len(expected):
            raise LaunchError(f"@main takes {len(expected)} tensors, found {len(tensors)}")
        for number, (tensor, layout) in enumerate(zip(tensors, expected, strict=True)):
            if layout is not None and not layout.fits(tensor):
                found = Layout(tuple(tensor.shape), tensor.stride(), tensor.dtype)
                raise LaunchError(f"argument {number} of @main: expected {layout}, found {found}")
        if self.backend.looks:
            for number, bounds in enumerate(self.program.bounds):
                if bounds is not None:
                    self._check_indices(number, tensors[number], *bounds)

    def _check_indices(
        self, number: int, tensor: torch.Tensor, low: int, high: int, *others: int
    ) -> None:
        outside = (tensor.long() < low) | (tensor.long() > high)
        for other in others:
            outside &= tensor != other
        if outside.any():
            place = outside.nonzero()[0].tolist()
            raise LaunchError(
                f"argument {number} of @main holds indices from {low} to {high}"
                f"{''.join(f' or {other}' for other in others)}, "
                f"found {tensor[tuple(place)].item()} at {place}"
            )


def _bound(module: ModuleOp) -> BoundProgram:
    from dlc.backend.host_program import HostProgram  # with the dialects of Kernel IR

    return HostProgram.of(module).bind()

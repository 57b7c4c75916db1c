"""
Runs `@main` of a Kernel IR module on torch tensors.

    executor = Executor(module, get_backend("host"))
    results = executor(tensors)

`@main` is a list of launches: the executor allocates what they write, fills with zeros what is to
be zeroed, launches them in order and drops a tensor after its last use. Where kernels run is behind
the interface `Backend`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Protocol, TypeAlias

import torch
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    MemRefType,
    ModuleOp,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue

from dlc.analysis.layout import strides_of
from dlc.backend import BackendError, LaunchError
from dlc.backend.parallel import OnDone
from dlc.diagnostics import did_you_mean, fail, with_hint
from dlc.dialects import kernel
from dlc.schedule.target import DEFAULT_TARGET, OLDEST_CAPABILITY, TARGETS

_INTEGERS = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}
BACKENDS = ("host", "cuda")


class Backend(Protocol):
    """A place where printed kernels run."""

    on_compiled: OnDone | None
    """Is told how many of the kernels that are prepared are compiled."""

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> torch.device:
        """Where its tensors live."""
        ...

    def prepare(self, funcs: Sequence[kernel.FuncOp]) -> None:
        """Compiles kernels. BackendError with the reason where that fails."""
        ...

    def running(self) -> AbstractContextManager[None]:
        """What is around the launches of one program."""
        ...

    def zero(self, tensor: torch.Tensor) -> None:
        """Fills a tensor with zeros, after the launches before."""
        ...

    def launch(self, func: kernel.FuncOp, tensors: Sequence[torch.Tensor]) -> None:
        """Runs a prepared kernel on its inputs and outputs. LaunchError if it fails."""
        ...


BackendLike: TypeAlias = "Backend | str | None"


def get_backend(backend: BackendLike = None, sync: bool = False) -> Backend:
    """
    The backend of a name, or the default one; ValueError if there is none of that name. With
    `sync` every launch is waited for, as the host's are anyway.
    """
    if backend is None:
        backend = default_backend()
    if backend == "host":
        from dlc.backend.host.launcher import HostBackend

        return HostBackend()
    if backend == "cuda":
        from dlc.backend.cuda.runtime import CudaBackend

        return CudaBackend(sync=sync)
    if isinstance(backend, str):
        hint = did_you_mean(backend, BACKENDS) or f"the backends are {' and '.join(BACKENDS)}"
        raise with_hint(ValueError(f"unknown backend '{backend}'"), hint)
    return backend


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


def torch_dtype(element: Attribute) -> torch.dtype:
    """The dtype whose memory holds such elements; BackendError if torch has none."""
    match element:
        case Float64Type():
            return torch.float64
        case Float32Type():
            return torch.float32
        case Float16Type():
            return torch.float16
        case BFloat16Type():
            return torch.bfloat16
        case IntegerType() if element.bitwidth == 1:
            return torch.bool
        case IntegerType() if (
            element.bitwidth == 8 and element.signedness.data == Signedness.UNSIGNED
        ):
            return torch.uint8
        case IntegerType() if element.bitwidth in _INTEGERS:
            return _INTEGERS[element.bitwidth]
        case _:
            raise BackendError(f"expected elements that torch can hold, found {element}")


@dataclass(frozen=True)
class Layout:
    """A tensor as kernels see it; strides in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    @staticmethod
    def of(memref: Attribute) -> Layout:
        assert isinstance(memref, MemRefType)
        shape = tuple(memref.get_shape())
        return Layout(shape, strides_of(memref), torch_dtype(memref.element_type))

    def allocate(self, device: torch.device) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=device)

    def fits(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor has this shape and these strides, and elements of this size."""
        return (
            tensor.shape == self.shape
            and tensor.element_size() == self.dtype.itemsize
            and (0 in self.shape or _agree(self.shape, self.strides, tensor.stride()))
        )

    def __str__(self) -> str:
        return f"{list(self.shape)} of {self.dtype} with strides {list(self.strides)}"


def _agree(shape: Sequence[int], a: Sequence[int], b: Sequence[int]) -> bool:
    return all(n == 1 or x == y for n, x, y in zip(shape, a, b, strict=True))


@dataclass(frozen=True)
class _Launch:
    """A launch of `@main`; values are numbers, arguments first."""

    func: kernel.FuncOp
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    layouts: tuple[Layout, ...]
    """Of the outputs."""
    zeroed: tuple[int, ...]
    """Outputs that hold zeros at the start."""
    dead: tuple[int, ...]
    """Values that nothing uses any more."""


OnLaunch: TypeAlias = Callable[[kernel.FuncOp, float], None]


class Executor:
    """
    A Kernel IR module that can be called. OpError for a module whose `@main` does anything but
    launch kernels.
    """

    def __init__(self, module: ModuleOp, backend: Backend) -> None:
        self.backend = backend
        main = main_of(module)
        self._numbers: dict[SSAValue, int] = {a: i for i, a in enumerate(main.body.block.args)}
        self.arguments: tuple[TensorType, ...] = tuple(
            a.type for a in main.body.block.args if isinstance(a.type, TensorType)
        )
        self._expected: dict[int, Layout] = {}
        self.launches: list[_Launch] = []
        self.results: tuple[int, ...] = ()
        self._plan(main)
        self.funcs = tuple(dict.fromkeys(launch.func for launch in self.launches))
        self._prepared = False

    def _plan(self, main: func.FuncOp) -> None:
        """Numbers the values of `@main` and finds the last use of each."""
        ops = list(main.body.block.ops)
        last_use = {v: op for op in ops for v in op.operands}
        kept = set(ops[-1].operands) if isinstance(ops[-1], func.ReturnOp) else set()
        for op in ops:
            if isinstance(op, func.ReturnOp):
                self.results = tuple(self._numbers[v] for v in op.operands)
            elif isinstance(op, kernel.LaunchOp):
                self._plan_launch(op, last_use, kept)
            else:
                fail(
                    op,
                    f"expected kernel.launch in @main, found '{op.name}'",
                    "take the module to Kernel IR first: dlc compile FILE --ir kernel",
                )

    def _plan_launch(
        self, op: kernel.LaunchOp, last_use: Mapping[SSAValue, object], kept: set[SSAValue]
    ) -> None:
        callee = op.callee
        assert callee is not None
        for value, ref in zip(op.inputs, callee.input_refs, strict=True):
            self._expected.setdefault(self._numbers[value], Layout.of(ref.type))
        for value in op.outputs:
            self._numbers[value] = len(self._numbers)
        unused = [v for v in op.outputs if v not in last_use]
        ended = [v for v in dict.fromkeys(op.inputs) if last_use[v] is op]
        self.launches.append(
            _Launch(
                callee,
                tuple(self._numbers[v] for v in op.inputs),
                tuple(self._numbers[v] for v in op.outputs),
                tuple(Layout.of(ref.type) for ref in callee.output_refs),
                tuple(
                    self._numbers[value]
                    for value, ref in zip(op.outputs, callee.output_refs, strict=True)
                    if ref in callee.zeroed_refs
                ),
                tuple(self._numbers[v] for v in (*ended, *unused) if v not in kept),
            )
        )

    def prepare(self) -> None:
        """Compiles the kernels, once. BackendError with the reason where that fails."""
        if not self._prepared:
            self.backend.prepare([f for f in self.funcs if f.grid_size > 0])
            self._prepared = True

    def __call__(
        self, tensors: Sequence[torch.Tensor], on_launch: OnLaunch | None = None
    ) -> list[torch.Tensor]:
        """
        The results of `@main`. A tensor on another device is copied to the backend's, and the
        results to the device of the first tensor. `on_launch` is told the seconds of each kernel,
        one waiting for the other. LaunchError for tensors other than `@main`'s arguments.
        """
        self.prepare()
        self._check(tensors)
        home = tensors[0].device if tensors else self.backend.device
        values = {i: to_device(t, self.backend.device) for i, t in enumerate(tensors)}
        with self.backend.running():
            for launch in self.launches:
                self._run(launch, values, on_launch)
        return [to_device(values[i], home) for i in self.results]

    def _run(
        self, launch: _Launch, values: dict[int, torch.Tensor], on_launch: OnLaunch | None
    ) -> None:
        outputs = [layout.allocate(self.backend.device) for layout in launch.layouts]
        values.update(zip(launch.outputs, outputs, strict=True))
        begin = time.perf_counter()
        for number in launch.zeroed:
            self.backend.zero(values[number])
        if launch.func.grid_size > 0:
            self.backend.launch(launch.func, [*(values[i] for i in launch.inputs), *outputs])
            if on_launch is not None:
                _synchronize(self.backend.device)
                on_launch(launch.func, time.perf_counter() - begin)
        for number in launch.dead:
            del values[number]

    def _check(self, tensors: Sequence[torch.Tensor]) -> None:
        if len(tensors) != len(self.arguments):
            raise LaunchError(f"@main takes {len(self.arguments)} tensors, found {len(tensors)}")
        for number, tensor in enumerate(tensors):
            layout = self._expected.get(number)
            if layout is not None and not layout.fits(tensor):
                found = Layout(tuple(tensor.shape), tensor.stride(), tensor.dtype)
                raise LaunchError(f"argument {number} of @main: expected {layout}, found {found}")


def main_of(module: ModuleOp) -> func.FuncOp:
    """The function `@main` of a module; OpError if there is none with a body."""
    for op in module.ops:
        if isinstance(op, func.FuncOp) and op.sym_name.data == "main" and op.body.blocks:
            return op
    fail(module, "expected a function @main, found none")


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor's elements on a device at the same strides; itself if it is there already."""
    if tensor.device == device:
        return tensor
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    memory = tensor.detach().as_strided((span if tensor.numel() else 0,), (1,)).to(device)
    return memory.as_strided(tensor.shape, tensor.stride(), 0)


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)

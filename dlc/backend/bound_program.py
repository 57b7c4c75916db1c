"""
A host program bound to sizes: the list of steps on numbered buffers that is executed, exported and
counted in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch

from dlc.backend.kernel_image import KernelImage
from dlc.ir.span import span


@dataclass(frozen=True)
class Layout:
    """A tensor as kernels see it; strides in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        """From the first element to the end of the last."""
        return span(self.shape, self.strides) * self.dtype.itemsize

    def allocate(self, device: torch.device) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=device)

    def fits(self, tensor: torch.Tensor) -> bool:
        """True if a tensor has this shape, these strides and elements of this size."""
        if tensor.shape != self.shape or tensor.element_size() != self.dtype.itemsize:
            return False
        strides = zip(self.shape, self.strides, tensor.stride(), strict=True)
        return 0 in self.shape or all(n == 1 or own == other for n, own, other in strides)

    def __str__(self) -> str:
        return f"{list(self.shape)} of {self.dtype} with strides {list(self.strides)}"


@dataclass(frozen=True)
class Allocate:
    """New memory for the buffer `number`."""

    number: int
    name: str
    layout: Layout


@dataclass(frozen=True)
class Slice:
    """The buffer `number` lies in the allocation `memory`, from the byte `offset` on."""

    number: int
    name: str
    memory: int
    offset: int
    layout: Layout


@dataclass(frozen=True)
class View(Slice):
    """A box of the buffer `memory`, with the strides of that."""


@dataclass(frozen=True)
class Zero:
    """Fills `size` bytes of a buffer with zeros: those of `memory` from the byte `offset` on."""

    number: int
    memory: int
    offset: int
    size: int
    counts: bool = False
    """True if the program leaves it full of zeros: an allocation in which blocks are counted."""


@dataclass(frozen=True)
class Launch:
    """Runs so many blocks of a kernel on buffers."""

    func: KernelImage
    grid: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    ops: tuple[str, ...]
    """The program's operations that it does part or all of, such as `3 add.Tensor`."""
    once: bool = False
    """True if its outputs are kept for the calls to come."""


@dataclass(frozen=True)
class Drop:
    """Nothing uses these buffers any more."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Select:
    """The buffer `number` is the element of `whole` that `index` says, `step` bytes each."""

    number: int
    name: str
    whole: int
    index: int
    step: int
    layout: Layout


@dataclass(frozen=True)
class Carry:
    """What loops carry: buffers under other numbers, inside and as results."""

    inits: tuple[int, ...]
    names: tuple[tuple[int, ...], ...]
    """The numbers in each body."""
    next: tuple[int, ...]
    """The buffers that the last body goes on with."""
    results: tuple[int, ...]


@dataclass(frozen=True)
class For:
    """Takes the steps of a body `count` times; the number `counter` is that of the turn."""

    count: int
    counter: int
    carry: Carry
    body: tuple[Step, ...]


@dataclass(frozen=True)
class While:
    """Takes the steps of `before`, and while the buffer `flag` then says so, those of the body."""

    carry: Carry
    before: tuple[Step, ...]
    flag: int
    body: tuple[Step, ...]


@dataclass(frozen=True)
class If:
    """Takes the steps of one of two bodies, as the buffer `flag` says."""

    flag: int
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]


Step: TypeAlias = Allocate | Slice | Select | Zero | Launch | Drop | For | While | If


def flat(steps: Sequence[Step]) -> Iterator[Step]:
    """Steps and those of bodies, in the order of the text."""
    for step in steps:
        yield step
        for body in bodies_of(step):
            yield from flat(body)


def bodies_of(step: Step) -> Sequence[Sequence[Step]]:
    match step:
        case For():
            return [step.body]
        case While():
            return [step.before, step.body]
        case If():
            return [step.then, step.otherwise]
        case _:
            return []


@dataclass(frozen=True)
class BoundProgram:
    """`@main` as steps on numbered buffers, arguments first; every size is a number."""

    arguments: tuple[Layout | None, ...]
    """The layout of each argument; None if no kernel reads it."""
    bounds: tuple[tuple[int, ...] | None, ...]
    """
    The least and the greatest element allowed in each argument that holds indices, and others that
    are allowed beside those.
    """
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    hints: tuple[str | None, ...]
    """What the IR calls each buffer, by number."""
    planned: bool
    """True if the program says where buffers lie, and not only launches that make tensors."""
    kinds: tuple[str, ...]
    """What each argument is to the user's program: an input, a parameter, a constant…"""

    @property
    def count(self) -> int:
        """The number of buffers."""
        return len(self.hints)

    @property
    def launches(self) -> list[Launch]:
        """In the order of the text, where each stands once."""
        return [step for step in flat(self.steps) if isinstance(step, Launch)]

    @property
    def updated(self) -> frozenset[int]:
        """The arguments that kernels write."""
        views = {step.number: step.memory for step in flat(self.steps) if isinstance(step, View)}
        written = {views.get(n, n) for launch in self.launches for n in launch.outputs}
        return frozenset(written.intersection(range(len(self.arguments))))

    def argument(self, number: int) -> str:
        """An argument in an error message."""
        hint = self.hints[number]
        return f"argument {number} of @main" + (f", %{hint}," if hint else "")

    @cached_property
    def made_once(self) -> frozenset[int]:
        """The buffers that are written at the first of all calls alone."""
        return frozenset(n for launch in self.launches if launch.once for n in launch.outputs)

    @cached_property
    def kept(self) -> frozenset[int]:
        """Those of them that each call reads."""
        read = {n for launch in self.launches if not launch.once for n in launch.inputs}
        return self.made_once & read

    @cached_property
    def constants(self) -> frozenset[int]:
        """The arguments that are constants of the user's program, and stay so."""
        kinds = enumerate(self.kinds)
        return frozenset(n for n, kind in kinds if kind == "constant") - self.updated

    @cached_property
    def held(self) -> tuple[int, ...]:
        """The arguments that are parameters and buffers."""
        return tuple(n for n, kind in enumerate(self.kinds) if kind in ("parameter", "buffer"))

    @property
    def branches_on_data(self) -> bool:
        """True if what is launched depends on what was computed, so that the host waits for it."""
        return any(isinstance(step, While | If) for step in flat(self.steps))

    @property
    def funcs(self) -> list[KernelImage]:
        """The kernels, in the order of their first launches."""
        return list(dict.fromkeys(launch.func for launch in self.launches))

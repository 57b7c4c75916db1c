"""A program's launches as a CUDA graph, which costs one launch however many they are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeGuard, TypeVar

import torch

from dlc.backend import BackendError
from dlc.backend.executor import Backend
from dlc.backend.kept_copy import KeptCopy
from dlc.frontend.arguments import Argument
from dlc.frontend.export.imported import ImportedProgram
from dlc.ir.leaves import as_complex

T = TypeVar("T")


class Capturing(Protocol):
    """A backend that can put launches into a graph."""

    def capture(self, run: Callable[[], T]) -> tuple[Callable[[], None], T]:
        """Captures the launches of `run`, not run: a call that replays them, and its result."""
        ...


def has_graphs(backend: object) -> TypeGuard[Capturing]:
    """True for a backend that can capture."""
    return hasattr(backend, "capture")


def check_capturing(backend: Backend) -> Capturing:
    """BackendError for a backend without graphs."""
    if not has_graphs(backend):
        raise BackendError(f"the backend '{backend.name}' has no CUDA graphs: leave out graph=True")
    return backend


class Graph:
    """
    The captured launches of `compute`, which `rehearse` does on copies of what it updates. The
    graph reads the module's tensors where they are, and inputs from tensors of its own; `results`
    are written by each replay. `constants` are the arguments that nothing writes: those on the host
    are copied when they have changed.
    BackendError for a tensor that is not on the backend's device, unless it is a number.
    """

    def __init__(
        self,
        backend: Backend,
        arguments: Sequence[Argument],
        constants: Collection[int],
        compute: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]],
        rehearse: Callable[[Sequence[torch.Tensor]], object],
        bound: Sequence[torch.Tensor],
    ) -> None:
        capturing = check_capturing(backend)
        self._kept: dict[int, KeptCopy] = {}
        """Of constants, by their numbers."""
        self._copied: list[int] = []
        """The arguments that are copied for each replay."""
        self.tensors: list[torch.Tensor] = []
        for argument, tensor in zip(arguments, bound, strict=True):
            number, here = argument.index, tensor
            if argument.index in constants and _is_moved(tensor, backend.device):
                self._kept[number] = KeptCopy.of(tensor, backend.device)
                here = self._kept[number].copy
            elif argument.kind in ("input", "random") or _is_moved(tensor, backend.device):
                here = _copy(argument, tensor, backend.device)
                self._copied.append(number)
            self.tensors.append(here)
        rehearse(self.tensors)  # compiles and loads the kernels, which a capture cannot do
        self.replay, self.results = capturing.capture(lambda: compute(self.tensors))

    def fits(self, bound: Sequence[torch.Tensor]) -> bool:
        """True if the module's parameters and buffers are where the graph reads them."""
        copied = self._kept.keys() | self._copied
        return all(bound[number].device.type == "cpu" for number in self._kept) and all(
            number in copied or tensor.data_ptr() == own.data_ptr()
            for number, (tensor, own) in enumerate(zip(bound, self.tensors, strict=True))
        )

    def run(self, bound: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The results for other inputs; the next run writes them anew."""
        with torch.no_grad():
            for number, kept in self._kept.items():
                self._kept[number] = kept.of_now(bound[number])
            for number in self._copied:
                tensor, own = bound[number], self.tensors[number]
                if tensor.data_ptr() != own.data_ptr():
                    _distinct(own).copy_(_distinct(tensor))
        self.replay()
        return self.results


class GraphedCall:
    """
    A captured call that is called as the program is, with tensors of the same shapes, dtypes and
    strides. The tensors of a result are overwritten by the next call. BackendError for another
    call, or where a parameter of the module has moved.
    """

    def __init__(
        self,
        program: ImportedProgram,
        graph: Graph,
        finish: Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], Any],
    ) -> None:
        self._program = program
        self._graph = graph
        self._finish = finish
        self.inputs: dict[str, torch.Tensor] = {
            a.name: as_complex(t) if a.guard.dtype.is_complex else t
            for a, t in zip(program.arguments, graph.tensors, strict=True)
            if a.kind == "input"
        }
        """The tensors that the graph reads. Passing these saves their copies."""
        self.replay = graph.replay
        """Computes on what `inputs` hold, and of the random numbers of the last call, the same."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._program.tensors_of(args, kwargs)
        if bound is None:
            raise BackendError(
                "the graph was captured for a call with other shapes, dtypes, strides, alignment, "
                "constants, attributes or modes: capture this one, too"
            )
        if not self._graph.fits(bound):
            raise BackendError(
                "a parameter or buffer of the module has moved since its graph was captured: "
                "capture it again"
            )
        self._program.check_overlaps(bound)
        return self._finish(self._graph.run(bound), bound)


def _is_moved(tensor: torch.Tensor, device: torch.device) -> bool:
    """True for what a backend on a GPU has on the host."""
    return tensor.device.type == "cpu" != device.type


def _copy(argument: Argument, tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of a graph's own, of what an argument is now."""
    if argument.kind == "random":
        return tensor.to(device, copy=True)
    if tensor.device != device and tensor.dim():
        raise BackendError(
            f"a graph reads tensors on {device}, and '{argument.name}' is on {tensor.device}: "
            "move it there"
        )
    own = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    with torch.no_grad():
        _distinct(own).copy_(_distinct(tensor))
    return own


def _distinct(tensor: torch.Tensor) -> torch.Tensor:
    """Each element in memory once, where dimensions of stride 0 repeat them."""
    for dimension, (extent, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if stride == 0 and extent > 1:
            tensor = tensor.narrow(dimension, 0, 1)
    return tensor

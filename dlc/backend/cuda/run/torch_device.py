"""A GPU as torch has it: its current stream, and capturing what is launched in a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import torch

from dlc.backend import BackendError

T = TypeVar("T")


class TorchDevice(Protocol):
    """The services of torch that launches need, memory aside. Streams are the driver's integers."""

    @property
    def device(self) -> torch.device: ...

    @property
    def name(self) -> str:
        """The product's."""
        ...

    @property
    def capability(self) -> tuple[int, int]: ...

    def current_stream(self) -> int: ...

    def capturing(self) -> bool:
        """True if the current stream's work is captured into a graph."""
        ...

    def capture(self, run: Callable[[], T]) -> tuple[Callable[[], None], T]:
        """
        Calls `run` with a stream other than the default one as the current stream, and puts its
        work into a graph instead of doing it: what replays the graph, and the result.
        """
        ...

    def keep_until_done(self, tensor: torch.Tensor) -> None:
        """
        Keeps the memory of a tensor, though nobody holds it any more, until the current stream has
        done what it has been asked for.
        """
        ...


class CudaDevice:
    """The current device of torch. BackendError with the reason where there is none."""

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise BackendError(f"the backend 'cuda' {_missing()}, or take the backend 'host'")
        self.device = torch.device("cuda", torch.cuda.current_device())
        torch.empty(1, device=self.device)  # torch makes the primary context, which we then share
        self.name = torch.cuda.get_device_name(self.device)
        self.capability = torch.cuda.get_device_capability(self.device)

    def current_stream(self) -> int:
        return torch.cuda.current_stream(self.device).cuda_stream

    def capturing(self) -> bool:
        with torch.cuda.device(self.device):
            return torch.cuda.is_current_stream_capturing()

    def capture(self, run: Callable[[], T]) -> tuple[Callable[[], None], T]:
        graph = torch.cuda.CUDAGraph()
        failure: Exception | None = None
        results: list[T] = []
        with torch.cuda.device(self.device):
            try:
                with torch.cuda.graph(graph):
                    try:
                        results.append(run())
                    except Exception as error:  # what ends the capture may fail because of it
                        failure = error
            except RuntimeError as error:
                raise failure or error from None
        if failure is not None:
            raise failure
        return graph.replay, results[0]

    def keep_until_done(self, tensor: torch.Tensor) -> None:
        tensor.record_stream(torch.cuda.current_stream(self.device))


def _missing() -> str:
    """The reason why torch has no GPU, and what to do."""
    if torch.version.cuda is None:
        return f"needs a PyTorch for CUDA, and {torch.__version__} is none: install another"
    try:
        torch.cuda.init()
    except RuntimeError as error:
        return f"needs a GPU that torch can use ({str(error).splitlines()[0].rstrip('.')})"
    return "needs a GPU, and torch finds none: check nvidia-smi and CUDA_VISIBLE_DEVICES"

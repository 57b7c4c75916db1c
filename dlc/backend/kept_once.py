"""What a program computes once, of tensors that are the same at all calls, kept for these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dlc.backend import LaunchError
from dlc.backend.bound_program import Allocate, BoundProgram, Launch, Step
from dlc.backend.program_run import Backend, Run


@dataclass(frozen=True, eq=False)
class _Made:
    """Buffers, by their numbers, and what they were computed of."""

    of: Sequence[torch.Tensor]
    """Other tensors of the same memory, which is held, so that no other comes to lie there."""
    versions: Sequence[int]
    buffers: Sequence[tuple[int, torch.Tensor]]

    def is_of(self, tensors: Sequence[torch.Tensor]) -> bool:
        """True if tensors lie where those did, and were not written to since by PyTorch."""
        same = (t.data_ptr() == own.data_ptr() for t, own in zip(tensors, self.of, strict=True))
        return all(same) and list(map(_version, tensors)) == self.versions


class KeptOnce:
    """The launches that are made once, what calls read of their results, and what else calls do."""

    def __init__(self, program: BoundProgram) -> None:
        once = [s for s in program.steps if isinstance(s, Launch) and s.once]
        count, made = len(program.arguments), program.made_once
        self._arguments = sorted({n for launch in once for n in launch.inputs if n < count})
        self._kept = sorted(program.kept)
        self._steps: list[Step] = []
        self.rest: list[Step] = []
        for step in program.steps:
            is_kept = isinstance(step, Allocate) and step.number in made
            first = is_kept or (isinstance(step, Launch) and step.once)
            (self._steps if first else self.rest).append(step)
        self._made: _Made | None = None
        self._captured: list[_Made] = []
        """What graphs read, which may be replayed when something else has taken its place."""

    def hold_in(self, run: Run, tensors: Sequence[torch.Tensor], backend: Backend) -> None:
        """
        Puts what is kept into a call on arguments, computed now if it is of others. LaunchError for
        what is to be computed while a graph is captured.
        """
        if not self._steps:
            return
        of = [tensors[number] for number in self._arguments]
        made = self._made
        if made is None or not made.is_of(of):
            if backend.captures:
                raise LaunchError(
                    "a graph that is being captured cannot compute what is kept for all calls: "
                    "call the program once before"
                )
            run.take(self._steps)
            if backend.device.type == "cuda":  # other streams read it
                torch.cuda.synchronize(backend.device)
            buffers = [(number, run.tensor(number)) for number in self._kept]
            self._made = _Made([t.detach() for t in of], list(map(_version, of)), buffers)
            return
        if backend.captures and made not in self._captured:
            self._captured.append(made)
        for number, tensor in made.buffers:
            run.hold(number, tensor)


def _version(tensor: torch.Tensor) -> int:
    """How often PyTorch has written to it, as far as it counts."""
    return 0 if tensor.is_inference() else tensor._version

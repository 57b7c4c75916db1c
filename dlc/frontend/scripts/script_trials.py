"""Programs of scripts that ask the computer for what differs by run, such as a clock."""

from __future__ import annotations

import logging
import sys
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from itertools import chain
from operator import setitem
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn.utils.stateless import _reparametrize_module
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from dlc.frontend.scripts.module_state import kept_state
from dlc.frontend.scripts.parts import place_in
from dlc.frontend.scripts.tensor_texts import texts_made_up
from dlc.frontend.source import ImportFailure, Place
from dlc.frontend.state.constants import SCALARS, key_of
from dlc.frontend.state.outside import domains_of

DIFFERS = (
    "what is given here is another number each time that the program runs, of a clock, a file or "
    "what else the computer is asked for: its kernels would keep that of their first run; compute "
    "it before the random tensors"
)
TEXT = (
    "the text of a tensor is made of its numbers, which a program that is compiled does not have; "
    "compute with the tensor itself, or print it"
)
_trying = [False]
Step = tuple[int, Hashable]
"""A line of the script, and what PyTorch is asked for there."""


def asks(function: FunctionType) -> bool:
    """True if a program, or what it calls of a user's own, names what may differ by run."""
    return bool(domains_of([function]))


@dataclass
class Trials:
    """What the runs of one program have asked PyTorch for, in the order of the text."""

    filename: str
    first: list[Step] | None = field(default=None)

    def run(self, forward: Any, args: tuple[Any, ...], texts: Sequence[Place | None]) -> Any:
        """
        Runs the program; ImportFailure if it asks for something else than the first time, maybe for
        the `texts` of tensors that it has made.
        """
        recorder = _Recorder(self.filename)
        with recorder:
            result = forward(*args)
        if self.first is None:
            self.first = recorder.steps
            return result
        steps = zip(self.first, recorder.steps, strict=False)
        line = next((other[0] for one, other in steps if one != other), None)
        if line is None and len(self.first) != len(recorder.steps):
            line = self.first[-1][0]
        if line is not None:
            if texts:
                raise ImportFailure(TEXT, texts[0])
            raise ImportFailure(DIFFERS, place_in(self.filename, max(line, 1), 1))
        return result


def run(forward: Any, args: tuple[Any, ...], trials: Trials | None) -> Any:
    """Runs a program that is traced, and compares what it asks for with its first run."""
    compared = trials is not None and trials.first is not None
    with texts_made_up(first=not compared) as texts:
        result = forward(*args) if trials is None else trials.run(forward, args, texts)
    if texts and not compared and not _trying[0]:
        raise ImportFailure(TEXT, texts[0])
    return result


class _Recorder(TorchFunctionMode):
    def __init__(self, filename: str) -> None:
        super().__init__()
        self.filename = filename
        self.steps: list[Step] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        # Python's arithmetic of numbers of tensors asks as often as it is traced.
        frame = None if name.startswith("sym_") else sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != self.filename:
            frame = frame.f_back
        if frame is not None:
            given = tuple(map(_key, tree_leaves((args, kwargs))))
            self.steps.append((frame.f_lineno, (name, given)))
        return func(*args, **(kwargs or {}))


def _key(value: Any) -> Hashable:
    match value:
        case torch.Tensor():
            return value.dtype, value.dim()
        case torch.SymInt() | torch.SymFloat() | torch.SymBool():
            return value.node.hint
        case np.ndarray():
            return value.dtype.str, value.shape, value.tobytes()
        case _ if isinstance(value, (*SCALARS, float, complex, np.generic)):
            item = value.item() if isinstance(value, np.generic) else value
            return item if isinstance(item, int) else key_of(item)
        case _:
            return type(value).__name__


@contextmanager
def failures_unlogged() -> Iterator[None]:
    """PyTorch does not log that an operation fails within, which a program may catch."""
    saved = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(saved)


@contextmanager
def without_data(module: torch.nn.Module, args: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """
    Within, a program that is called with what is given here runs without data, as in an export: it
    changes no tensor and shows nothing.
    """
    with ExitStack() as stack:
        stack.enter_context(kept_state(module))
        stack.enter_context(failures_unlogged())
        mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
        stack.enter_context(mode)
        stack.enter_context(tracing(TracingContext(mode)))
        stack.enter_context(redirect_stdout(StringIO()))
        stack.enter_context(torch.no_grad())
        of = partial(mode.from_tensor, static_shapes=True)
        held = chain(module.named_parameters(), module.named_buffers())
        made: dict[str, torch.Tensor] = {name: of(tensor) for name, tensor in held}
        stack.enter_context(_reparametrize_module(module, made, tie_weights=True))
        yield tree_map_only(torch.Tensor, of, args)


def tried(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
    """
    Runs a program without data, so that its first run is noted; functions of torch.compile as they
    are in eager, since what is compiled would read the data.
    """
    with ExitStack() as stack:
        stack.callback(setitem, _trying, 0, False)
        _trying[0] = True
        for flag in ("_is_compiling_flag", "_is_exporting_flag"):
            stack.callback(setattr, torch.compiler, flag, getattr(torch.compiler, flag))
        given = stack.enter_context(without_data(module, args))
        for flag in ("_is_compiling_flag", "_is_exporting_flag"):
            setattr(torch.compiler, flag, True)
        try:
            module(*given)
        except ImportFailure:
            raise
        except Exception:  # of what cannot be run without data, which an export says
            return

"""What may be meant where a program's text names what is not there, or asks for a GPU."""

from __future__ import annotations

import re
import traceback

import torch

from dlc.diagnostics import did_you_mean, with_hint
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.foreign import is_foreign

DEVICE = (
    "leave the device out: tensors are copied to where kernels run (--backend, backend=), whatever "
    "the GPU that they are compiled for (--target, target=)"
)

CHANGES = (
    'torch.compile(f, backend="dlc") changes it at each call, as PyTorch does; what a program only '
    "remembers, such as a table by size, is there after a call in PyTorch before it is compiled"
)


def changed(what: str, before: object, now: object) -> ImportFailure:
    """For a program that changes what it reads."""
    error = ImportFailure(
        f"the program changes {what}, which it reads, from {before!r} to {now!r}: its kernels "
        "would not; keep it in a buffer (register_buffer), or change it outside of the program"
    )
    return with_hint(error, CHANGES)


def device_hint(error: Exception) -> str | None:
    """What to do where a program asks for a GPU that is not there, or mixes devices."""
    asks = "not compiled with CUDA|not linked with support for cuda|No CUDA GPUs|on the same device"
    return DEVICE if re.search(asks, str(error)) else None


def closest_name(error: Exception) -> str | None:
    """
    The name that may be meant, where an object has no attribute of that name, or there is none
    such; else `device_hint`.
    """
    if (hint := device_hint(error)) is not None:
        return hint
    if isinstance(error, NameError) and isinstance(error.name, str):
        at_hand = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
        found = ((prefix, getattr(m, error.name, None)) for prefix, m in at_hand.items())
        having = (f"{prefix}.{error.name}" for prefix, value in found if callable(value))
        if (meant := next(having, None)) is not None:
            return f"did you mean {meant}?"
        scopes = [f.f_globals for f, _ in traceback.walk_tb(error.__traceback__)]
        known = [n for scope in scopes if not is_foreign(scope.get("__name__")) for n in scope]
        close = did_you_mean(error.name, known[-1000:])
        return close or "torch, nn, F and math are at hand, and a text may import others"
    if isinstance(error, AttributeError) and error.name is not None:
        public = [name for name in dir(error.obj) if not name.startswith("_")]
        return did_you_mean(error.name, public)
    return None

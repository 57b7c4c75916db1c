"""What a program says of an attribute that it lacks: what has it, or what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dlc.diagnostics import did_you_mean, with_hint
from dlc.passes import PRINTED

TEXTS = {"code": "cuda", "source": "cuda", "ptx": "cuda", "kernel": "kernel"}
"""Names that people give to the texts of a program, beside those of the IRs."""


class TellsOfMissing:
    """A program whose missing attributes are told by AttributeError with a hint."""

    if not TYPE_CHECKING:  # where every attribute would count as one

        def __getattr__(self, name: str) -> Any:
            if name in dir(type(self)):  # a property that failed: it says why
                return object.__getattribute__(self, name)
            error = AttributeError(f"a program of dlc has no attribute '{name}'")
            raise with_hint(error, None if name.startswith("_") else _hint(self, name))


def _hint(program: TellsOfMissing, name: str) -> str:
    if name == "forward":
        return "a call of it runs its kernels: f(x)"
    own = [known for known in dir(program) if not known.startswith("_")]
    hints = [did_you_mean(name, own)]
    if (stage := TEXTS.get(name, name)) in PRINTED:
        hints.append(f'f.ir("{stage}") is its text')
    module = vars(program).get("function")
    if isinstance(module, torch.nn.Module) and hasattr(module, name):
        hints.append(f"f.function is the module that was compiled, which has {name}")
    return " ".join(filter(None, hints)) or f"it has {', '.join(own)}"

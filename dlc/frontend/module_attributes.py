"""
The numbers, strings and flags of modules that a program is compiled for.

What the code of a program reads of its modules while it is exported (`self.eps`, `self.training`)
is a constant of the graph, so a call for which it has changed needs another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
from torch.fx import GraphModule

from dlc.frontend.source import ImportFailure

PLAIN = (bool, int, float, complex, str, type(None), Enum, torch.dtype, torch.device)
LONGEST = 16
"""Elements of a tuple or list that is compared."""
INTERNAL = (frozenset(vars(torch.nn.Module())) | frozenset(dir(torch.nn.Module))) - {"training"}
"""What every module has, and PyTorch itself reads."""


@dataclass
class ModuleAttributes:
    """Attributes by module and name, as they were read first."""

    read: dict[tuple[int, str], tuple[torch.nn.Module, str, object]] = field(default_factory=dict)

    def hold(self) -> bool:
        """True if all of them are as they were; cheap enough per call."""
        for module, name, value in self.read.values():
            found = getattr(module, name, None)
            if found is not value and (type(found) is not type(value) or found != value):
                return False
        return True

    def note(self, module: torch.nn.Module, name: str, value: object) -> None:
        """Remembers what was read, if it is such an attribute."""
        if name.startswith("__") or name in INTERNAL or issubclass(type(module), GraphModule):
            return
        if _is_plain(value):
            own = list(value) if isinstance(value, list) else value
            self.read.setdefault((id(module), name), (module, name, own))

    def check_write(self, module: torch.nn.Module, name: str, value: object) -> None:
        """ImportFailure for a change of what the program has read, which a graph does only once."""
        _, _, before = self.read.get((id(module), name), (None, None, value))
        if _is_plain(value) and value != before:
            raise ImportFailure(
                f"the program changes the attribute '{name}' of a {type(module).__name__}, which "
                f"it reads, from {before!r} to {value!r}: its kernels would not; keep it in a "
                "buffer (register_buffer), or change it outside of the program"
            )


@contextmanager
def recorded_attributes() -> Iterator[ModuleAttributes]:
    """Notes what the code of modules reads in here. ImportFailure where it changes any of that."""
    attributes = ModuleAttributes()
    write_attribute = torch.nn.Module.__setattr__

    def read(module: torch.nn.Module, name: str) -> Any:
        value = object.__getattribute__(module, name)
        attributes.note(module, name, value)
        return value

    def write(module: torch.nn.Module, name: str, value: Any) -> None:
        attributes.check_write(module, name, value)
        write_attribute(module, name, value)

    torch.nn.Module.__getattribute__ = read  # type: ignore[method-assign]
    torch.nn.Module.__setattr__ = write  # type: ignore[method-assign]
    try:
        yield attributes
    finally:
        del torch.nn.Module.__getattribute__
        torch.nn.Module.__setattr__ = write_attribute  # type: ignore[method-assign]


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return len(value) <= LONGEST and all(isinstance(item, PLAIN) for item in value)
    return isinstance(value, PLAIN)

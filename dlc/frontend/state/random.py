"""Finds the tensors of a script that hold random numbers."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

UNINITIALISED = frozenset(
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided".split()
)

CONVERSIONS = frozenset({"_to_copy", "clone"})
"""What random numbers that were just drawn may go through without something being computed."""
MAKING = CONVERSIONS | {"lift_fresh", "detach"}
"""The same of numbers that Python, NumPy or a file gives."""

NUMBERS = frozenset((int, bool, float, complex, str, bytes, type(None)))
"""Types of what is no tensor and has none in it."""
READINGS = ("tolist", "numpy")
"""Methods that give a tensor's numbers to Python without an operation."""
READS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
"""Of operations whose numbers, or sizes, are of data."""
TORCH = os.path.dirname(torch.__file__) + os.sep
BETWEEN = ("_dynamo", "_compile", "_tensor.py", "utils")
IN_BETWEEN = (*(TORCH + name for name in BETWEEN), __file__)
"""Code that stands between an operation and who asks for it."""
INITIAL = os.path.join(TORCH, "nn", "init.py")
LOADED = os.path.join(TORCH, "_utils.py")
"""Makes the tensors of a file, which hold its numbers."""


class RandomTensors(TorchDispatchMode):
    """
    Records which tensors hold random or uninitialised numbers, or are computed from such, and how
    often somebody else than PyTorch reads such numbers. With `whatever`, all numbers count as
    random ones, whatever they are; with `reads_compute`, numbers that are read are computed, too.
    """

    def __init__(self, whatever: bool = False, reads_compute: bool = False) -> None:
        super().__init__()
        self.whatever, self.reads_compute = whatever, reads_compute
        self.drawn: dict[int, torch.Tensor] = {}
        """Those that were drawn elsewhere than where a module is made."""
        self.found: dict[int, torch.Tensor] = {}
        """By storage; the tensors are kept, so that no other storage gets the same address."""
        self._computed: dict[int, int] = {}
        """The storages of those that are computed, numbered in the order of their computation."""
        self.reads = 0
        """How many times numbers were read."""

    def __enter__(self) -> Self:
        for name in READINGS:
            setattr(torch.Tensor, name, self._counted(getattr(torch._C.TensorBase, name)))
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for name in READINGS:
            delattr(torch.Tensor, name)

    def _counted(self, read: Callable[..., Any]) -> Callable[..., Any]:
        def counted(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            self.reads += self.holds(tensor)
            return read(tensor, *args, **kwargs)

        return counted

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]
        draws = torch.Tag.nondeterministic_seeded in func.tags or name in UNINITIALISED
        draws = draws and _asking() != LOADED
        given = self.holds((args, kwargs))
        if draws or given or self.whatever:
            conversions = MAKING if self.whatever else CONVERSIONS
            converts = name in conversions and not self.computed((args, kwargs))
            made = draws or converts or not given or _asking() in (INITIAL, LOADED)
            if draws and not given and not _in_module():
                self.drawn |= {k: t for t in tree_leaves(result) if (k := storage_key(t))}
            for leaf in tree_leaves(result):
                if (key := storage_key(leaf)) is not None:
                    if not made and (func._schema.is_mutable or key not in self.found):
                        self._computed.setdefault(key, len(self._computed))
                    self.found[key] = leaf
            if any(tag in func.tags for tag in READS) and not _asking().startswith(TORCH):
                self.reads += 1
        return result

    def forget(self, found: int, computed: int) -> None:
        """Forgets all but the first so many tensors: the others were not made after all."""
        for table, count in ((self.found, found), (self._computed, computed)):
            for key in [*table][count:]:
                del table[key]

    def holds(self, value: object) -> bool:
        """True if a tensor, or one in a container, holds random numbers."""
        found = (storage_key(tensor) for tensor in tensors_in(value))
        return any(key is not None and (self.whatever or key in self.found) for key in found)

    @property
    def is_of_modules(self) -> bool:
        """True if all random numbers are those of parameters."""
        objects = gc.get_objects() if self.drawn else ()
        parameters = (p for p in objects if issubclass(type(p), torch.nn.Parameter))
        return self.drawn.keys() <= {storage_key(p) for p in parameters}

    @property
    def count(self) -> int:
        """How many tensors were computed from random numbers so far."""
        return len(self._computed)

    def number(self, value: object) -> int | None:
        """Of a value's tensors that are computed from random numbers, the number of the first."""
        keys = filter(None, map(storage_key, tensors_in(value)))
        return min((self._computed[key] for key in keys if key in self._computed), default=None)

    def computed(self, value: object, since: int = 0) -> bool:
        """True if a tensor, or one in a container, is computed from random numbers `since` then."""
        keys = filter(None, map(storage_key, tensors_in(value)))
        return any(self._computed.get(key, -1) >= since for key in keys)


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """The tensors among the leaves of a value; a container of many numbers is quickly passed."""
    kind = type(value)
    if isinstance(value, torch.Tensor):
        yield value
    elif kind in (list, tuple, dict):
        items = value.values() if isinstance(value, dict) else value
        for item in items:  # pyright: ignore[reportGeneralTypeIssues]
            if type(item) not in NUMBERS:
                yield from tensors_in(item)
    elif kind not in NUMBERS:
        leaves = tree_leaves(value)
        yield from (leaf for leaf in leaves if isinstance(leaf, torch.Tensor))


def storage_key(value: object) -> int | None:
    """What tensors that share memory have in common; None for what is no such tensor."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return value.untyped_storage()._cdata


def _asking() -> str:
    """The file of the code that has asked for the operation at hand."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(IN_BETWEEN):
        frame = frame.f_back
    return "" if frame is None else frame.f_code.co_filename


def _in_module() -> bool:
    """True if a module is being made, or its parameters initialised."""
    frame = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if code.co_filename == INITIAL:
            return True
        if code.co_name == "__init__" and isinstance(frame.f_locals.get("self"), torch.nn.Module):
            return True
        frame = frame.f_back
    return False


@contextmanager
def kept_random_state() -> Iterator[None]:
    """What is drawn within is drawn again afterwards."""
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)

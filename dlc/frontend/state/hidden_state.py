"""
What values hold that is neither an attribute nor an item of theirs: the numbers of an array, the
place where an iterator or a stream stands, what a generator of random numbers draws next.
"""

from __future__ import annotations

import pickle
import random
import warnings
from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cache, partial
from io import BytesIO, IOBase, StringIO
from types import (
    FrameType,
    GeneratorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from dlc.frontend.state.constants import SCALARS, Identity, key_of
from dlc.frontend.state.tensor_changes import version_of

BUFFERS = (np.ndarray, bytearray, array)
"""Memory with numbers, that scripts write to by item."""
GENERATORS = (
    random.Random, np.random.RandomState, np.random.Generator, np.random.BitGenerator
)  # fmt: skip
"""What draws other random numbers than PyTorch's."""


UNNAMED_GENERATORS = (random.random.__self__, np.random.random.__self__)  # type: ignore[attr-defined]
"""Those that `random` and `numpy.random` draw from."""


class Kept(NamedTuple):
    """What a value's state is at any time, and what makes it what it was."""

    now: Callable[[], Hashable]
    undo: Callable[[], object] | None
    """None for what cannot be set back."""


def kept(value: Any) -> Kept | None:
    """The hidden state of a value that can be set back; None for what has none such."""
    match value:
        case np.ndarray():
            before, writes = value.copy(), value.flags.writeable
            undo = partial(value.__setitem__, ..., before) if writes else lambda: None
            return Kept(lambda: (value.shape, value.dtype, value.tobytes()), undo)
        case bytearray() | array():
            return Kept(lambda: bytes(value), partial(value.__setitem__, slice(None), value[:]))
        case StringIO() | BytesIO() if not value.closed:
            undo = partial(_write_again, value, value.getvalue(), value.tell())
            return Kept(partial(_written, value), undo)
        case random.Random() if not isinstance(value, random.SystemRandom):
            return Kept(value.getstate, partial(value.setstate, value.getstate()))
        case np.random.RandomState():
            undo = partial(value.set_state, value.get_state(legacy=False))
            return Kept(lambda: pickle.dumps(value.get_state(legacy=False)), undo)
        case np.random.Generator() | np.random.BitGenerator():
            bits: Any = value.bit_generator if isinstance(value, np.random.Generator) else value
            undo = partial(setattr, bits, "state", bits.state)
            return Kept(lambda: pickle.dumps(bits.state), undo)
        case torch.Generator():
            undo = partial(value.set_state, value.get_state())
            return Kept(partial(numbers_of, value.get_state), undo)
        case _:
            return None


def _written(stream: StringIO | BytesIO) -> tuple[str | bytes, int] | None:
    """What is in a stream and where it stands; None for one that is closed."""
    return None if stream.closed else (stream.getvalue(), stream.tell())


def _write_again(stream: Any, text: str | bytes, at: int) -> None:
    stream.seek(0)
    stream.truncate()
    stream.write(text)
    stream.seek(at)


def numbers_of(get_state: Callable[[], torch.Tensor]) -> bytes:
    """The state of one of PyTorch's generators, which a tracer has no part in."""
    with _disable_current_modes():
        return get_state().numpy().tobytes()


def drawn_from() -> dict[str, Kept]:
    """The generators that have no variable, by the modules that draw from them."""
    state = np.random.get_state(legacy=False)
    return {
        "random": Kept(random.getstate, partial(random.setstate, random.getstate())),
        "numpy.random": Kept(
            lambda: pickle.dumps(np.random.get_state(legacy=False)),
            partial(np.random.set_state, state),
        ),
    }


def places_of(values: Iterable[Any], beside: Iterable[Kept]) -> list[Callable[[], Hashable]]:
    """
    What tells whether something goes on: what there is `beside` variables, where the generators
    and iterators given stand, and what is in the containers and objects given.
    """
    found = [state.now for state in beside]
    for value in values:
        if isinstance(value, (*GENERATORS, torch.Generator)) and (state := kept(value)) is not None:
            found.append(state.now)
        elif is_iterator(value):
            found.append(partial(place_of, value))
        elif isinstance(value, torch.Tensor):
            found.append(partial(version_of, value))
        elif isinstance(value, (list, dict, set, deque)):
            found.append(partial(_items_of, value))
        elif hasattr(value, "__dict__") and not isinstance(value, (type, ModuleType)):
            found.append(partial(_items_of, value.__dict__))
    return found


def _items_of(value: Any) -> Hashable:
    items = (value.keys(), value.values()) if isinstance(value, dict) else (value,)
    return tuple(tuple(map(id, part)) for part in items)


def is_iterator(value: Any) -> bool:
    """
    True for an iterator whose place no attribute says: one of Python's own or of an extension, or
    a stream that is read.
    """
    if not isinstance(value, Iterator) or not _goes_on_by_itself(type(value)):
        return False
    try:
        return not isinstance(value, IOBase) or value.readable()
    except ValueError:  # closed
        return False


@cache
def _goes_on_by_itself(kind: type) -> bool:
    """True for a class of iterators that goes on by no code of Python's."""
    found = next(vars(k)["__next__"] for k in kind.__mro__ if "__next__" in vars(k))
    return isinstance(found, WrapperDescriptorType)


def made_of(iterator: Any) -> tuple[Any, ...]:
    """What an iterator goes on over, as a copy of it is made of; nothing where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of itertools, from Python 3.12 on
        try:
            return tuple(iterator.__reduce_ex__(4)[1:])
        except TypeError:
            return ()


def place_of(iterator: Any) -> Hashable:
    """What tells where an iterator stands from where it stood."""
    if isinstance(iterator, GeneratorType):
        frame: FrameType | None = iterator.gi_frame
        if frame is None:
            return None
        inner = iterator.gi_yieldfrom
        return frame.f_lasti, _key(tuple(frame.f_locals.values())), _key((inner,))
    made = made_of(iterator)
    return _key(made) if made else (_place_in_file(iterator), fields_of(iterator))


def _place_in_file(stream: Any) -> int | None:
    """The byte at which a stream stands; of one that gives lines, how far its buffer is."""
    for of in (stream, getattr(stream, "buffer", None)):
        try:
            if isinstance(of, IOBase):
                return of.tell()
        except (OSError, ValueError):
            continue
    return None


def fields_of(value: Any) -> tuple[tuple[str, Hashable], ...]:
    """What the fields of an extension's object say in numbers and strings, each with its name."""
    found: list[tuple[str, Hashable]] = []
    for name in _fields(type(value)):
        try:
            item = getattr(value, name)
        except Exception:  # whatever an extension raises
            continue
        if isinstance(item, (*SCALARS, float)):
            found.append((name, key_of(item)))
    return tuple(found)


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """The names of the fields of an extension's class."""
    fields = (GetSetDescriptorType, MemberDescriptorType)
    named = (name for of in kind.__mro__ for name, f in vars(of).items() if isinstance(f, fields))
    return tuple(name for name in named if not name.startswith("__"))


def _key(value: Any) -> Hashable:
    return key_of(value, lambda item: place_of(item) if is_iterator(item) else Identity(item))

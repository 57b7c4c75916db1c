"""What objects of a user's classes have, and what of their classes runs without being named."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import cache
from types import CodeType, MemberDescriptorType, ModuleType, SimpleNamespace
from typing import Any
from weakref import ProxyTypes

import torch

from dlc.frontend.state.binding import Binding, attribute
from dlc.frontend.state.constants import CONTAINERS, has_value
from dlc.frontend.state.foreign import is_foreign, is_installed
from dlc.frontend.state.module_attributes import CODE

NOT_ASKED = frozenset(
    "__init__ __new__ __post_init__ __repr__ __class__ __del__ __getstate__ __setstate__ "
    "__reduce__ __reduce_ex__".split()
)
"""What of an object's class runs before it is there, when it is gone or kept, or for a reader."""
PLAIN_OBJECTS = (SimpleNamespace, Namespace)
"""Classes of Python's own whose objects are what a user has put there."""


def is_users_object(value: Any) -> bool:
    """True for an object that has attributes of its own, and these by a user's code."""
    if isinstance(value, (torch.Tensor, ModuleType, *CODE, *CONTAINERS)) or has_value(value):
        return False
    return isinstance(value, PLAIN_OBJECTS) or not is_installed(type(value).__module__)


def is_dead(value: Any) -> bool:
    """True for a weak proxy of an object that is gone, which does not even tell a class."""
    try:
        return type(value) in ProxyTypes and value.__class__ is None
    except ReferenceError:
        return True


def own_of(value: Any) -> dict[str, Any] | None:
    """The attributes that an object has itself, whatever its class has for `__getattr__`."""
    return attribute(value, "__dict__", None)


def attributes_of(value: Any) -> Iterator[Binding]:
    """The attributes that an object has itself, those in slots, too."""
    own = own_of(value) or {}
    yield from (Binding(own, name) for name in own)
    yield from (Binding(value, name) for name in _slots(type(value)))


def attributes_named(
    value: Any, names: AbstractSet[str], replaced: AbstractSet[str]
) -> Iterator[Binding]:
    """The attributes with such names that an object has itself, or has not and may come to have."""
    own = own_of(value)
    if own is not None:
        yield from (Binding(own, name) for name in sorted((own.keys() & names) | replaced))
    yield from (Binding(value, name) for name in _slots(type(value)) if name in names)


def has_name(kind: type, name: str) -> bool:
    try:
        return hasattr(kind, name)
    except Exception:  # whatever a descriptor raises
        return True


def of_class(kind: type, name: str) -> Any:
    """What objects of a class have under a name in the place of one of their own, else None."""
    return next((vars(k)[name] for k in kind.__mro__ if name in vars(k)), None)


@cache
def operators_of(kind: type) -> tuple[str, ...]:
    """
    The names of methods that operators and statements call, as `__getitem__`; but none that a
    dataclass has from Python, which read all of its fields to compare them.
    """
    own = [name for k in kind.__mro__ if not is_foreign(k.__module__) for name in vars(k)]
    methods = [name for name in own if name.startswith("__") and name.endswith("__")]
    asked = [name for name in methods if name not in NOT_ASKED]
    found = [(name, getattr(kind, name)) for name in asked]
    return tuple(name for name, m in found if isinstance(m, CODE) and not _is_made(m))


def _is_made(method: Any) -> bool:
    """True for a method that the decorator of a dataclass has made."""
    code = getattr(method, "__code__", None)
    return isinstance(code, CodeType) and code.co_qualname.startswith("__create_fn__.")


@cache
def _slots(kind: type) -> tuple[str, ...]:
    """The names of what objects of a class have in slots."""
    members = [(name, of) for k in kind.__mro__ for name, of in vars(k).items()]
    return tuple(name for name, of in members if isinstance(of, MemberDescriptorType))

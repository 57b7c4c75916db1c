"""Caches of functions (`functools.lru_cache`), which keep nothing of what a trace has computed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from itertools import chain
from types import ModuleType
from typing import Any

from dlc.frontend.state.foreign import is_own

CACHE = type(lru_cache(len))


def emptied_again(values: Collection[Any]) -> list[Callable[[], object]]:
    """
    What empties the caches that have got more in them by then, among some values, and in classes
    and a user's modules among these: a tensor of a trace is nothing elsewhere.
    """
    held = [vars(v).values() for v in values if isinstance(v, type | ModuleType) and _is_users(v)]
    return [_emptied(v) for v in chain(values, *held) if isinstance(v, CACHE)]


def _emptied(cached: Any) -> Callable[[], object]:
    size = cached.cache_info().currsize
    return lambda: cached.cache_info().currsize > size and cached.cache_clear()


def _is_users(value: type | ModuleType) -> bool:
    return is_own(value.__module__ if isinstance(value, type) else value.__name__)

"""Lists, tables and sets among a program's arguments, which it must leave as they are."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from dlc.frontend.source import ImportFailure
from dlc.frontend.state.constants import CONTAINERS, copied, is_changeable


def unchanged_containers(
    root: torch.nn.Module, signature: inspect.Signature, args: Any, kwargs: Any
) -> AbstractContextManager[None]:
    """
    Within it a call of `root`, such as one with `args` and `kwargs`, raises ImportFailure where it
    changes a container that it is given: a kernel would not.
    """
    has_any = any(map(is_changeable, (*args, *kwargs.values())))
    return _watched(root, signature) if has_any else nullcontext()


@contextmanager
def _watched(root: torch.nn.Module, signature: inspect.Signature) -> Iterator[None]:
    given: dict[str, Any] = {}
    before: dict[str, Any] = {}

    def note(module: torch.nn.Module, args: Any, kwargs: Any = None) -> None:
        if module is root:
            arguments = signature.bind(*args, **kwargs).arguments
            given.update({n: v for n, v in arguments.items() if isinstance(v, CONTAINERS)})
            before.update({name: copied(value) for name, value in given.items()})

    def check(module: torch.nn.Module, args: Any, output: Any) -> None:
        if module is not root:
            return
        for name, value in given.items():
            if (path := _change(name, before[name], value)) is not None:
                raise ImportFailure(
                    f"the program changes {_named(path, name)}, a {type(value).__name__}: a "
                    "call of its kernels would not; let it return what it makes"
                )

    pre = register_module_forward_pre_hook(note)  # pyright: ignore[reportArgumentType]
    post = register_module_forward_hook(check)
    # Of hooks of all modules, those before a call get its keywords by an entry of the module's.
    root._forward_pre_hooks_with_kwargs[pre.id] = True
    try:
        yield
    finally:
        del root._forward_pre_hooks_with_kwargs[pre.id]
        pre.remove()
        post.remove()


def _named(path: str, name: str) -> str:
    """How a path is called that begins with the name of an argument."""
    return f"'{path}' of its argument '{name}'" if path != name else f"its argument '{name}'"


def _change(path: str, before: Any, now: Any) -> str | None:
    """Where a container is not what it was: the path of the first item that is another one."""
    if not isinstance(before, CONTAINERS):
        return None if before is now else path
    if type(before) is not type(now):
        return path
    if isinstance(before, set | frozenset):
        return None if before == now else path
    there = dict(_items(now))
    was = dict(_items(before))
    if [*was] != [*there]:
        return path
    found = (_change(path + key, was[key], there[key]) for key in was)
    return next((change for change in found if change is not None), None)


def _items(container: Any) -> Iterator[tuple[str, Any]]:
    match container:
        case dict():
            yield from ((f"[{key!r}]", item) for key, item in container.items())
        case slice():
            return
        case _:
            yield from ((f"[{i}]", item) for i, item in enumerate(container))

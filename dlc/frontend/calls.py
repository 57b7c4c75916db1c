"""Calls of a program: the same one, however its arguments are passed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten

from dlc.diagnostics import did_you_mean, with_hint
from dlc.frontend.guard import WITH_MEMORY
from dlc.frontend.source import ImportFailure

_LEAVES = frozenset((*WITH_MEMORY, int, float, bool, str, type(None)))
"""Types of arguments that have no structure."""


class Calls:
    """
    How calls of a program give the leaves of its arguments. What a signature makes of a call is
    found once for so many arguments by position and such names.
    """

    def __init__(self, signature: inspect.Signature) -> None:
        self.signature = signature
        self._forms: dict[Hashable, tuple[list[int | str], TreeSpec]] = {}

    def flatten(
        self, args: Sequence[Any], kwargs: Mapping[str, Any] | None
    ) -> tuple[list[Any], TreeSpec]:
        """The leaves of a call and its structure. ImportFailure as of `canonical_call`."""
        named = kwargs or {}
        if not (
            _LEAVES.issuperset(map(type, args)) and _LEAVES.issuperset(map(type, named.values()))
        ):
            return tree_flatten(canonical_call(self.signature, args, named))
        form = len(args), *named
        if form not in self._forms:
            places = canonical_call(
                self.signature, range(len(args)), {name: name for name in named}
            )
            self._forms[form] = tree_flatten(places)
        places, spec = self._forms[form]
        return [args[p] if isinstance(p, int) else named[p] for p in places], spec


def signature_of(program: torch.nn.Module | Callable[..., Any]) -> inspect.Signature:
    """The signature of a program; one written in C takes what it gets, by position or name."""
    function = program.forward if isinstance(program, torch.nn.Module) else program
    try:
        return inspect.signature(function)
    except ValueError:
        return inspect.signature(lambda *args, **kwargs: None)


def bound_call(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> inspect.BoundArguments:
    """The parameters and what a call gives for them; ImportFailure for one with others."""
    try:
        return signature.bind(*args, **(kwargs or {}))
    except TypeError as error:
        words, hint = str(error), None
        known = signature.parameters
        unknown = next((name for name in kwargs or {} if name not in known), None)
        if unknown is not None and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            words = f"it takes no '{unknown}'"
            hint = did_you_mean(unknown, known) or f"its arguments are {', '.join(known)}"
        failure = ImportFailure(f"the program was called with other arguments: {words}")
        raise with_hint(failure, hint) from None


def canonical_call(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Passes by position what can be passed so, and the rest in the order of the signature."""
    if not kwargs:
        return tuple(args), {}
    bound = bound_call(signature, args, kwargs)
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD and name in bound.arguments:
            bound.arguments[name] = dict(sorted(bound.arguments[name].items()))
    return bound.args, bound.kwargs

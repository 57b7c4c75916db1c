"""Calls that have run now, where they may be the program's: whether they can run again."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from dlc.frontend.scripts.caught import set_streams
from dlc.frontend.scripts.mementos import Memento
from dlc.frontend.scripts.parts import Part, names_in
from dlc.frontend.scripts.pieces_run import PiecesRun
from dlc.frontend.state.insides import CONTAINERS
from dlc.frontend.state.random import storage_key, tensors_in
from dlc.frontend.state.tensor_changes import may_have_changed


@dataclass
class CallsRun(PiecesRun):
    """Tells what calls may change, and makes code for the program of those that it runs again."""

    def _told(self, reached: Iterable[Any]) -> Memento | None:
        """What a call may add to or count, if it is the program's: streams, containers, buffers."""
        values = [self.scope[name] for name in self.changed_within if name in self.scope]
        found = [*set_streams(), *(v for v in values if isinstance(v, CONTAINERS))]
        modules = (v for v in reached if isinstance(v, torch.nn.Module))
        found += (module for module in modules if next(module.buffers(), None) is not None)
        return Memento(found, ()) if found else None

    def _reached(self, call: ast.Call) -> list[Any]:
        """What may go on in a call, and would go on again if it ran again."""
        named = (self.scope[name] for name in names_in(call) if name in self.scope)
        return self.functions.reached(named)

    def gives_any(self, value: Any, reached: Sequence[Any]) -> bool:
        """True if a value has a tensor in it that was changed in place and is held elsewhere."""
        held = [t for t in reached if isinstance(t, torch.Tensor) and may_have_changed(t)]
        keys = {key for t in held if (key := storage_key(t)) is not None}
        return any(storage_key(leaf) in keys for leaf in tensors_in(value))

    def _before_call(self, parts: Sequence[Part]) -> Memento | None:
        """What was before a call of what holds random numbers, or that is given such."""
        values = [p.value for p in parts]
        return self.memento(values) if any(map(self.is_data, values)) else None

    def computed_again(
        self, call: ast.Call, callee: object, state: torch.Tensor
    ) -> ast.expr | None:
        """
        A call's code for the program, if it computes something of tensors that it makes at random:
        the variable that holds what a function of the script returns, or the text itself of a
        lambda and of built-in functions. Tensors are drawn from `state`.
        """
        if self.inline is None:
            return None
        after = torch.get_rng_state()
        torch.set_rng_state(state)
        if (name := self.inline(call)) is not None:
            return name
        if self.is_repeatable(call, callee):
            return self.within_program(call)
        torch.set_rng_state(after)
        return None

    def is_repeatable(self, call: ast.Call, callee: object) -> bool:
        """True if a call draws the same again: no iterator goes on in it."""
        names = names_in(call)
        if isinstance(callee, FunctionType):
            if callee.__code__.co_filename != self.filename or callee.__name__ != "<lambda>":
                return False
            names |= {*callee.__code__.co_names}
        elif getattr(callee, "__module__", None) != "builtins":
            return False
        return not any(hasattr(self.scope.get(name), "__next__") for name in names)

    @contextmanager
    def whole_calls(self) -> Iterator[None]:
        """Calls within are not taken apart."""
        inline, self.inline = self.inline, None
        yield
        self.inline = inline

"""Pieces of a script's text that run now, and texts that are left to its program."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import torch

from dlc.diagnostics import with_hint
from dlc.frontend.scripts.caught import set_streams
from dlc.frontend.scripts.mementos import Memento
from dlc.frontend.scripts.parts import (
    Part,
    names_in,
    place_at,
    place_of_error,
    read_too_early,
    rename,
)
from dlc.frontend.scripts.program_values import ProgramValues, is_module, owner_of
from dlc.frontend.scripts.script_runs import ASSIGNED, EARLY
from dlc.frontend.scripts.script_state import StateChanged
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.hidden_state import places_of
from dlc.frontend.state.insides import CONTAINERS
from dlc.frontend.state.process_state import ProcessState


@dataclass
class PiecesRun(ProgramValues):
    """Runs expressions whose names are in `scope`, and says why one cannot run yet."""

    @cached_property
    def process(self) -> ProcessState:
        """What the text asks or changes of the process."""
        return ProcessState(self.tree)

    def memento(self, values: Iterable[Any]) -> Memento:
        """What is in some values and in the process now."""
        held = (*self.process.held(self.scope).values(), *set_streams())
        return Memento((*values, *held), self.process.states(self.scope).values())

    def places_of(self, values: Iterable[Any]) -> list[Callable[[], Hashable]]:
        """What tells whether something goes on in some values, or in the process."""
        held = self.process.held(self.scope).values()
        return places_of((*values, *held), self.process.states(self.scope).values())

    def evaluate(
        self, node: ast.expr, code: ast.expr, build: Callable[[], ast.expr] | None
    ) -> Part:
        """Computes `code`, whose names stand for known values, once; `node` is its source."""
        tree = ast.fix_missing_locations(ast.copy_location(ast.Expression(code), node))
        with self.runs.noting(node), self.early_hint(node):
            # A lambda looks at the script's variables as they are when it is called.
            local = {**self.values}
            value = eval(compile(tree, self.filename, "eval"), self.scope, local)
        self._check_assigned(local, node)
        fresh = self.random.holds(value) or self.random.holds(owner_of(value))
        if isinstance(node, ast.Constant):
            return Part(node, True, value)
        return Part(self.constant(value, node), True, value, fresh, build=build)

    def _check_assigned(self, local: Mapping[str, Any], node: ast.expr) -> None:
        """ImportFailure if text that `node` runs has assigned variables, which are in `local`."""
        own = {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
        for name, value in local.items():
            if name not in own and self.values.get(name, local) is not value:
                raise ImportFailure(ASSIGNED.format(name), place_at(self.filename, node))

    @contextmanager
    def early_hint(self, node: ast.AST) -> Iterator[None]:
        """
        Says why what the program computes, and what its functions keep, is not there yet, where a
        piece of text runs; StateChanged for a container that they may keep it in, or a function
        that reads it.
        """
        try:
            yield
        except NameError as error:
            if error.name is None or error.name not in self.assigned:
                raise
            place = place_of_error(self.filename, error)
            raise read_too_early(error.name, place) from error
        except (LookupError, AttributeError, TypeError) as error:
            if not (self.computed or self.inputs):
                raise
            place = place_of_error(self.filename, error)
            if place is not None and (name := self._kept_in(node)) is not None:
                raise StateChanged(((), f".{name}"), EARLY, place) from error
            of_a_module = isinstance(getattr(error, "obj", None), ModuleType)
            if not isinstance(error, TypeError) and not of_a_module:
                with_hint(error, EARLY)
            raise

    def _kept_in(self, node: ast.AST) -> str | None:
        """
        A variable in a piece of text that functions may assign, or in which they keep something; or
        else one that may lead to such.
        """
        found = {n: self.scope[n] for n in sorted(names_in(node)) if n in self.scope}
        for name, value in found.items():
            kept = isinstance(value, CONTAINERS) and name in self.changed_within
            if kept or name in self.assigned_within:
                return name
        for name, value in found.items():
            of_container = isinstance(owner_of(value), CONTAINERS)
            if of_container or is_module(value) or self.functions.is_own(value):
                return name
        return None

    def within_program(self, node: ast.expr) -> ast.expr:
        """The text of an expression within the program, whatever becomes of the variables in it."""
        self.sizes.check_text(node, node)
        names = sorted(names_in(node) - self.computed)
        for name, value in [(n, self.scope[n]) for n in names if n in self.scope]:
            if self.is_input(value):
                rename(node, name, self.input(value, name))
                continue
            if self.objects.is_own(value):
                self.objects.bring(value, node)
                continue
            if (defined := self.defined(value)) is not None:
                rename(node, name, defined.id)
                continue
            if isinstance(value, torch.nn.Module | torch.Tensor):
                self.hold(value, name)
            rename(node, name, self.constant(value, node).id)
        return node

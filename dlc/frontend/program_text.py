"""The statements of a script that are its program, and what they compute."""

from __future__ import annotations

import ast

from dlc.frontend.lift import Lifter
from dlc.frontend.outside import CLOCKS, domains_in


class ProgramText:
    """What the program is so far."""

    def __init__(self, lifter: Lifter) -> None:
        self.lifter = lifter
        self.begun = False
        """True once the program has a statement: what it uses must not change any more."""
        self.body: list[ast.stmt] = []
        """The program's statements so far."""
        self.results: list[ast.expr] = []
        """What the program computed, the last of it last."""
        self.is_doubtful = False
        """True if the last of it may be a number of the script's own."""
        self._domains: set[str] = set()
        """What the program asks or changes outside of its variables."""

    @property
    def result(self) -> ast.expr | None:
        """What the program computed last."""
        return self.results[-1] if self.results else None

    def has_computed(self, *results: ast.expr, is_doubtful: bool = False) -> None:
        self.results += results
        self.is_doubtful = is_doubtful

    def define(self, definition: ast.stmt) -> None:
        """Makes a function the program's."""
        self.begun = True
        self.body.append(definition)
        self._domains |= self._asked_in(definition)

    def keep(self, new: ast.stmt, node: ast.stmt) -> None:
        """Makes `new`, which stands for `node`, the program's next statement."""
        self.begun = True
        self.body.append(ast.copy_location(new, node))
        self._domains |= self._asked_in(new)

    def comes_before(self, node: ast.AST) -> bool:
        """
        True if a piece of text asks or changes what the program before it may have changed or asked
        outside of its variables: then it is for the program, too.
        """
        return bool(self._domains) and not self._domains.isdisjoint(self._asked_in(node))

    def _asked_in(self, node: ast.AST) -> frozenset[str]:
        return domains_in(node, {**self.lifter.scope, **self.lifter.values}) - CLOCKS

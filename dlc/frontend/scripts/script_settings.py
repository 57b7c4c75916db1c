"""What decides on dtypes while a script computes, and where it changes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from dlc.frontend.scripts.program_text import ProgramText
from dlc.frontend.scripts.program_variables import LATE
from dlc.frontend.state.ambient import Ambient


class ScriptSettings:
    """
    Has a program be of one such state: what changes behind its last computation is as it was when
    the program is exported, and what changes before another computation is refused.
    """

    def __init__(
        self, program: ProgramText, refuse: Callable[[str, ast.stmt | ast.expr], NoReturn]
    ) -> None:
        self.program, self.refuse = program, refuse
        self._changed: tuple[ast.stmt, Ambient] | None = None
        """The statement that changed it behind computations, and what it was before."""

    @contextmanager
    def of(self, statement: ast.stmt) -> Iterator[None]:
        """What runs within is one statement: ImportFailure if it comes too late."""
        program, changed = self.program, self._changed
        begun, before = program.begun, Ambient.now()
        length, count = len(program.body), len(program.results)
        yield
        if changed is not None and not changed[1].holds():
            if len(program.body) > length or not all(map(_is_there, program.results[count:])):
                self.refuse(LATE, changed[0])
        if self._changed is None and begun and not before.holds():
            self._changed = statement, before
        elif self._changed is not None and self._changed[1].holds():
            self._changed = None

    @contextmanager
    def within(self) -> Iterator[None]:
        """What runs within is in a context, which may put back what it finds where it ends."""
        changed = self._changed
        yield
        if self._changed is not None and self._changed is not changed:
            self.refuse(LATE, self._changed[0])

    def put_back(self) -> None:
        """It is again what it was when the program computed something last."""
        if self._changed is not None:
            self._changed[1].set()


def _is_there(result: ast.expr) -> bool:
    """True for variables alone, of which nothing is computed."""
    kinds = ast.Name | ast.Tuple | ast.List | ast.Starred | ast.expr_context
    return all(isinstance(node, kinds) for node in ast.walk(result))

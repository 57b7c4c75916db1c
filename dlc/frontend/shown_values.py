"""Calls by which a script shows or saves what it has computed: the program leaves them out."""

from __future__ import annotations

import ast
import json
import logging
import pickle
import pprint
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from dlc.frontend.dotted import value_of
from dlc.frontend.left_out import acting_if_shown
from dlc.frontend.lift import Lifter
from dlc.frontend.printed import described, is_description
from dlc.frontend.program_text import ProgramText
from dlc.frontend.program_variables import ProgramVariables
from dlc.frontend.random import kept_random_state
from dlc.frontend.script_calls import ScriptCalls
from dlc.frontend.script_now import RunsNow

SHOWING = (print, pprint.pprint, warnings.warn)
SAVING = (
    torch.save, np.save, np.savez, np.savez_compressed, np.savetxt, json.dump, pickle.dump
)  # fmt: skip
LOGGING = frozenset("debug info warning error critical exception log".split())
"""Functions of `logging`, and methods of loggers."""
WRITING = frozenset(("write", "writelines"))
"""Methods of files and streams."""
SAVED = "what is saved here is left out of the program, whose result can be saved where it is used"


class Outputs:
    """Tells them, and what of them is the program's result."""

    def __init__(
        self,
        lifter: Lifter,
        program: ProgramText,
        functions: ScriptCalls,
        variables: ProgramVariables,
        now: RunsNow,
    ) -> None:
        self.lifter, self.program, self.now = lifter, program, now
        self.functions, self.variables = functions, variables

    def given(self, value: ast.expr) -> Sequence[ast.expr] | None:
        """What such a call is given; None for another expression."""
        match value:
            case ast.Call(func=ast.Name(id="print"), args=args):
                if self.lifter.scope.get("print", print) is not print:
                    return None
            case ast.Call(args=args) if not _shows(called := self._called(value)):
                if not any(called is f for f in SAVING):
                    return None
            case ast.Call(args=args):
                pass
            case _:
                return None
        return [*args, *(k.value for k in value.keywords)]

    def note(self, value: ast.expr) -> None:
        """Has it said that something is not saved."""
        if isinstance(value, ast.Call) and not _shows(self._called(value)):
            if not (isinstance(value.func, ast.Name) and value.func.id == "print"):
                self.lifter.runs.left_out.append((SAVED, value))

    def acting(self, parts: Iterable[ast.expr]) -> Iterator[ast.expr]:
        """What goes on in parts of such a call, or of an assertion."""
        for part in parts:
            yield from acting_if_shown(part, self.functions)

    def shown(self, printed: Sequence[ast.expr]) -> list[ast.expr]:
        """What the program computes of what is printed at its end."""
        if self.program.result is None:
            return [e for p in printed for e in described(p) if self._adds(e)]
        return [e for e in printed if not is_description(e) and self._adds(e)]

    def _called(self, call: ast.Call) -> Any:
        match call.func:
            case ast.Attribute(value=ast.Call(func=made), attr=name) if name in LOGGING:
                if value_of(made, self.lifter.scope) is logging.getLogger:
                    return getattr(logging.root, name)
        return value_of(call.func, self.lifter.scope)

    def _adds(self, value: ast.expr) -> bool:
        """True if an expression computes something of an input, which may be made in it."""
        if self.variables.computes(value):
            return True
        if not any(isinstance(n, ast.Call) for n in ast.walk(value)):
            return False
        lifter, before = self.lifter, {*self.lifter.inputs}
        with kept_random_state(), lifter.whole_calls(), self.now.undone_if_constant() as undone:
            part = lifter.visit(value)
            undone.append(True)
            return not before.issuperset(lifter.inputs) or lifter.random.computed(part.value)


def _shows(called: Any) -> bool:
    """True for what prints, logs or writes to a stream of the process."""
    if any(called is f for f in SHOWING):
        return True
    owner, name = getattr(called, "__self__", None), getattr(called, "__name__", "")
    if isinstance(owner, logging.Logger) or getattr(called, "__module__", "") == "logging":
        return name in LOGGING
    return name in WRITING and (owner is sys.stdout or owner is sys.stderr)

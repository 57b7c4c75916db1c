"""Calls by which a script shows or saves what it has computed: the program leaves them out."""

from __future__ import annotations

import ast
import builtins
import json
import logging
import pickle
import pprint
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from io import IOBase
from typing import Any

import numpy as np
import torch

from dlc.frontend.scripts.caught import READ, WARNED, catches, is_caught, is_logged
from dlc.frontend.scripts.left_out import acting_if_shown
from dlc.frontend.scripts.lift import Lifter
from dlc.frontend.scripts.parts import names_in, place_at
from dlc.frontend.scripts.printed import described, looks, variables_told
from dlc.frontend.scripts.program_text import ProgramText
from dlc.frontend.scripts.program_variables import ProgramVariables
from dlc.frontend.scripts.quiet_traces import LOGGED
from dlc.frontend.scripts.script_calls import ScriptCalls
from dlc.frontend.scripts.script_now import RunsNow
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.dotted import value_of
from dlc.frontend.state.random import kept_random_state

PRINT = print
SHOWING = (PRINT, pprint.pprint, warnings.warn)
SAVING = (
    torch.save, np.save, np.savez, np.savez_compressed, np.savetxt, json.dump, pickle.dump
)  # fmt: skip
PICKLING = (torch.save, pickle.dump)
"""Those that need the numbers of tensors."""
LOGGING = frozenset("debug info warning error critical exception log".split())
"""Functions of `logging`, and methods of loggers."""
WRITING = frozenset(("write", "writelines"))
"""Methods of files and streams."""
READING = frozenset(
    "read readline readlines readinto load loads loadtxt fromfile tell seek truncate getvalue "
    "getbuffer listdir scandir walk glob iglob rglob iterdir exists is_file isfile stat getsize "
    "read_text read_bytes reader run check_output Popen".split()
)
"""Functions and methods that tell what is in files, or which there are."""
SAVED = "what is saved here is left out of the program, whose result can be saved where it is used"

OF_KERNELS = (
    "of the warnings that are kept here, the program has those that Python's code gives, its own "
    "and PyTorch's; what PyTorch's kernels warn of is not known where it is traced"
)

READ_AGAIN = (
    "what the program computes is saved here and files are read behind it, which kernels do not "
    "do; use the tensors themselves"
)

CAUGHT = (
    "what the program prints goes to what the script has put in place of its streams here, which "
    "its kernels do not fill; have it redirected by a 'with contextlib.redirect_stdout(...)'"
)


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
                called = self.lifter.scope.get("print", builtins.print)
                if called is not PRINT or self._is_kept(value):
                    return None
            case ast.Call(args=args) if not _shows(called := self._called(value)):
                if not _saves(called):
                    return None
                if self._is_read(value):
                    if called in PICKLING and self.variables.computes(value):
                        raise ImportFailure(READ_AGAIN, place_at(self.lifter.filename, value))
                    return None
            case ast.Call(args=args) if not self._is_kept(value):
                pass
            case _:
                return None
        return [*args, *(k.value for k in value.keywords)]

    def _is_kept(self, shown: ast.Call) -> bool:
        """True if something is printed to what the script may look at later: no file of its end."""
        for to in (k.value for k in shown.keywords if k.arg in ("file", "stream")):
            if isinstance(to, ast.Constant):
                continue
            stream = value_of(to, self.lifter.scope)
            if stream is not sys.stdout and stream is not sys.stderr:
                return not isinstance(stream, IOBase) or self._is_read(shown)
        return False

    def _is_read(self, value: ast.expr | ast.stmt, reads: Sequence[int] | None = None) -> bool:
        """True if what is saved may be read again: behind it, or by what may run again."""
        reads = self._reads if reads is None else reads
        return any(line > (value.end_lineno or value.lineno) for line in reads) or (
            bool(reads) and any(begin <= value.lineno <= end for begin, end in self._again)
        )

    @cached_property
    def _reads(self) -> list[int]:
        """The lines of the text that ask for files."""
        nodes = [n for n in ast.walk(self.lifter.tree) if isinstance(n, ast.Name | ast.Attribute)]
        return [n.lineno for n in nodes if _name_of(n) in READING]

    @cached_property
    def _used_reads(self) -> list[int]:
        """Those of them where more is done than to show it."""
        return [n.lineno for n in self.used if _name_of(n) in READING]

    @cached_property
    def _again(self) -> list[tuple[int, int]]:
        """The lines in which functions and loops of the text begin and end."""
        return [
            (node.lineno, node.end_lineno or node.lineno)
            for node in ast.walk(self.lifter.tree)
            if isinstance(node, ast.FunctionDef | ast.For | ast.While | ast.Lambda)
        ]

    def kept_by(self, value: ast.expr | ast.stmt) -> tuple[str, ...]:
        """By what of the script such a call may be caught, in the words of `is_caught`."""
        kept = sorted(self.functions.effects.changing)
        kept += [READ] if self._is_read(value, self._used_reads) else []
        return (*kept, *([WARNED] if self._keeps_warnings else []))

    def is_caught(self, value: ast.expr) -> bool:
        """True if the script may compute with what such a call shows, as things stand."""
        match value:
            case ast.Call(func=ast.Name(id="print")):
                return is_caught(print, self.kept_by(value))
            case ast.Call():
                called = self._called(value)
                caught = _shows(called) and is_caught(called, self.kept_by(value))
                if caught and is_logged(called) and self.variables.computes(value):
                    raise ImportFailure(LOGGED, place_at(self.lifter.filename, value))
                return caught
        return False

    def catches(self, context: Any, node: ast.With) -> bool:
        """True for a context in which the script may catch what is shown, to compute with it."""
        return catches(context, self.kept_by(node))

    def check_uncaught(self, node: ast.stmt) -> None:
        """ImportFailure if a statement of the program prints to what the script reads."""
        if is_caught(print, self.kept_by(node)):
            raise ImportFailure(CAUGHT, place_at(self.lifter.filename, node))

    @cached_property
    def _keeps_warnings(self) -> bool:
        """True for a text that keeps what it is warned of, or is stopped by it: with a note."""
        for node in ast.walk(self.lifter.tree):
            match node:
                case ast.withitem(
                    context_expr=ast.Call(keywords=[*_, ast.keyword(arg="record")]) as at,
                    optional_vars=ast.Name(id=name),
                ) if name in map(_name_of, self.used):
                    pass
                case ast.Attribute(attr="showwarning", ctx=ast.Store()) as at:
                    pass
                case (
                    ast.Call(
                        func=ast.Name(id=name) | ast.Attribute(attr=name),
                        args=[ast.Constant(value="error"), *_],
                    ) as at
                ) if name in ("simplefilter", "filterwarnings"):
                    pass
                case _:
                    continue
            self.lifter.runs.left_out.append((OF_KERNELS, at))
            return True
        return False

    @cached_property
    def used(self) -> list[ast.Name | ast.Attribute]:
        """What the text reads elsewhere than where it shows something."""

        def used(node: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                yield node
            if not isinstance(node, ast.Expr) or self.given(node.value) is None:
                for child in ast.iter_child_nodes(node):
                    yield from used(child)

        return [*used(self.lifter.tree)]

    def is_result(self, value: ast.expr) -> bool:
        """True if what such a call is given may be the program's result: not what is asserted."""
        return not (isinstance(value, ast.Call) and _asserts(self._called(value)))

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
        found = [e for e in printed if not self._is_look(e) and self._adds(e)]
        return found or self._told(printed)

    def _told(self, printed: Sequence[ast.expr]) -> list[ast.expr]:
        """
        The program's variables of which the end tells the elements, where what it computed last is
        one of several; else nothing.
        """
        own = self.lifter.computed - self.program.looked
        told = {v.id: v for p in printed for v in variables_told(p) if v.id in own}
        last = self.program.result
        several = isinstance(last, ast.Name) and last.id in told and len(told) > 1
        return [*told.values()] if several else []

    def _is_look(self, value: ast.expr) -> bool:
        """True for what is printed for a user's eyes alone, beside the results that there are."""
        computed = {n for n in names_in(value) if self.lifter.is_data(self.lifter.scope.get(n))}
        return looks(value, self.program.looked, computed | self.lifter.computed)

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


def _name_of(node: ast.AST) -> str:
    """The last name of an expression that is one."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _shows(called: Any) -> bool:
    """True for what prints, logs or writes to a stream of the process."""
    owner, name = getattr(called, "__self__", None), getattr(called, "__name__", "")
    module = getattr(called, "__module__", None) or ""
    if any(called is f for f in SHOWING) or _asserts(called):
        return True
    if module == "logging":
        return name in LOGGING
    return name in WRITING and (owner is sys.stdout or owner is sys.stderr)


def _asserts(called: Any) -> bool:
    """True for an assertion of PyTorch's or NumPy's."""
    module = (getattr(called, "__module__", None) or "").partition(".")[0]
    return module in ("torch", "numpy") and getattr(called, "__name__", "").startswith("assert_")


def _saves(called: Any) -> bool:
    """True for what writes to a file."""
    is_file = isinstance(getattr(called, "__self__", None), IOBase)
    writes = is_file and getattr(called, "__name__", "") in WRITING
    return writes or any(called is f for f in SAVING)

"""
The turns of loops in a script's text, counted where its program is traced: a loop that waits for
what no trace changes would turn for ever.
"""

from __future__ import annotations

import ast
import copy
import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Any

from dlc.frontend.scripts.parts import load, place_of_frame
from dlc.frontend.source import ImportFailure

TURN, TURNS = "_turn", "_turns"
"""The names by which a text counts the turns of a loop, and those of a loop over something."""
MANY = 100_000
"""Turns of all loops that end by a condition, in one trace, from which on they are taken to turn
for ever."""
ENDLESS = (
    f"the program turns in loops more than {MANY} times, and its kernels have no loop that ends by "
    "what Python knows; make it end, or compute what it waits for before the random tensors"
)


class _Counter:
    """Counts the turns of one run."""

    def __init__(self, check: Callable[[], object]) -> None:
        self.check = check
        self.turns = 0
        self.next = 100
        """The turns at which it is asked whether the program has changed what it must not."""

    def count(self) -> None:
        self.turns += 1
        if self.turns >= self.next:
            self.check()
            self.next *= 10
        if self.turns > MANY:
            frame = sys._getframe(1)
            while frame.f_back is not None and frame.f_code.co_filename == __file__:
                frame = frame.f_back
            raise ImportFailure(ENDLESS, place_of_frame(frame))


_counting: list[_Counter] = []


@contextmanager
def turns_counted(check: Callable[[], object]) -> Iterator[None]:
    """Turns within are counted; `check` is called now and then, and may raise."""
    _counting.append(_Counter(check))
    try:
        yield
    finally:
        _counting.pop()


def turn() -> None:
    """Counts one turn, if turns are counted."""
    if _counting:
        _counting[-1].count()


def turns(over: Iterable[Any]) -> Iterable[Any]:
    """What a loop goes over; of what has no length each turn is counted."""
    return over if isinstance(over, Sized) or not _counting else _counted(over)


def _counted(over: Iterable[Any]) -> Iterator[Any]:
    for item in over:
        turn()
        yield item


class _Counting(ast.NodeTransformer):
    def visit_While(self, node: ast.While) -> ast.While:
        self.generic_visit(node)
        call = ast.copy_location(ast.Expr(ast.Call(load(TURN), [], [])), node.test)
        node.body = [call, *node.body]
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        node.iter = ast.copy_location(ast.Call(load(TURNS), [node.iter], []), node.iter)
        return node


def counting(tree: ast.Module) -> ast.Module:
    """A text whose loops count their turns."""
    return ast.fix_missing_locations(_Counting().visit(copy.deepcopy(tree)))

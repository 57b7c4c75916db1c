"""What a script's program returns: of what it computes last, what holds tensors."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

import torch
from torch.utils._pytree import tree_leaves

from dlc.frontend.scripts.lift import Lifter
from dlc.frontend.scripts.program_module import Program, program_module
from dlc.frontend.scripts.script_trials import without_data
from dlc.frontend.scripts.statements import Statements
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.insides import attributes_of

COMPUTED = (torch.Tensor, torch.SymFloat, torch.SymInt, torch.SymBool)
"""What is computed of tensors, where a program runs without data."""


def program_of(lifter: Lifter, statements: Statements) -> Program:
    """
    The program of statements. It returns the last result; where that may be a number of the
    script's own, such as a time or a counter, the last one that holds a tensor, if there is one, or
    the attributes of the last object that has one.
    """
    text = statements.program
    assert text.result is not None

    def program_with(result: ast.expr) -> Program:
        body = text.without_looks(result, statements.seen)
        return program_module(lifter, body, copy.deepcopy(result))

    program = program_with(text.result)
    if not (text.is_doubtful or lifter.live.names) or _holds_tensors(program):
        return program
    earlier = [*_earlier(text.results)]
    parts = (_attributes(lifter, result) for result in (text.result, *earlier))
    for result in (*earlier, *parts):
        other = program_with(result)
        if _holds_tensors(other):
            return other
    return program


def _attributes(lifter: Lifter, result: ast.expr) -> ast.expr:
    """What computes the attributes of an object, as of one that adds up what it is given."""
    of = lifter.constant(attributes_of, result)
    return ast.copy_location(ast.Call(of, [copy.deepcopy(result)], []), result)


def _earlier(results: list[ast.expr]) -> Iterator[ast.expr]:
    """The results before the last, the last first, none twice."""
    seen = {ast.dump(results[-1])}
    for result in reversed(results[:-1]):
        if (text := ast.dump(result)) not in seen:
            seen.add(text)
            yield result


def _holds_tensors(program: Program) -> bool:
    """True if a program returns a tensor or a number of one, or cannot be run without data."""
    module, args = program
    try:
        with without_data(module, args) as given:
            return any(isinstance(leaf, COMPUTED) for leaf in tree_leaves(module(*given)))
    except ImportFailure:
        raise
    except Exception:
        return True

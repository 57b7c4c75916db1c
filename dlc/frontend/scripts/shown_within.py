"""Printing within loops and functions of a script, which is left out where a program is traced."""

from __future__ import annotations

import ast
import copy

from dlc.frontend.scripts.parts import load
from dlc.frontend.scripts.quiet_traces import SHOWS
from dlc.frontend.scripts.shown_values import Outputs


class ShownWithin(ast.NodeTransformer):
    """
    Makes `print(f(x))` of a text `if _shows(): print(f(x))`, with what goes on in `f(x)` for where
    it does not print.
    """

    def __init__(self, outputs: Outputs) -> None:
        self.outputs = outputs

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        given = self.outputs.given(node.value)
        if given is None:
            return node
        self.outputs.note(node.value)
        acts = (ast.Expr(inner) for inner in self.outputs.acting(given))
        others: list[ast.stmt] = [ast.copy_location(inner, node) for inner in acts]
        test = ast.copy_location(ast.Call(load(SHOWS), self._asked(node.value), []), node)
        return ast.fix_missing_locations(ast.copy_location(ast.If(test, [node], others), node))

    def _asked(self, value: ast.expr) -> list[ast.expr]:
        """What is called, and by what of the script it may be caught; nothing if by nothing."""
        kept_by = self.outputs.kept_by(value)
        if not kept_by or not isinstance(value, ast.Call):
            return []
        by: list[ast.expr] = [ast.Constant(name) for name in kept_by]
        return [copy.deepcopy(value.func), ast.Tuple(by, ast.Load())]

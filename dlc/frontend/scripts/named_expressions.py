"""Assignments within expressions, `(y := x + 1) * y`, as statements before."""

from __future__ import annotations

import ast
from typing import Any


def named_expressions(statement: ast.stmt) -> list[ast.stmt]:
    """
    The assignments in the expressions of a statement, in whose places there are the variables then.
    Those that may not happen, or happen for a lambda or a comprehension, stay.
    """
    taken = _Taken()
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.NamedExpr):
        statement.value.value = taken.visit(statement.value.value)
    elif not isinstance(statement, ast.While):
        for name, field in ast.iter_fields(statement):
            if isinstance(field, ast.expr):
                setattr(statement, name, taken.visit(field))
    return taken.found


class _Taken(ast.NodeTransformer):
    def __init__(self) -> None:
        self.found: list[ast.stmt] = []

    def visit(self, node: ast.AST) -> Any:
        match node:
            case ast.NamedExpr(target=target, value=value):
                assigned = ast.Assign([target], self.visit(value))
                self.found.append(ast.copy_location(assigned, node))
                return ast.copy_location(ast.Name(target.id, ast.Load()), node)
            case ast.IfExp(test=test):
                node.test = self.visit(test)
                return node
            case ast.BoolOp(values=values):
                values[0] = self.visit(values[0])
                return node
            case (
                ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp()
            ):
                return node
        return self.generic_visit(node)

"""The statements of a function that returns from within, with one return at the end."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator

from dlc.frontend.scripts.parts import assignment, load
from dlc.frontend.scripts.variables import SCOPES


class ReturnsWithin(Exception):
    """`args[0]` is a statement that may be left by a return while it is not done: a loop, a try."""


def with_one_exit(body: list[ast.stmt], result: str) -> list[ast.stmt]:
    """
    The statements of a function, where no return stands but as the last of them: what they return
    is assigned to the variable `result`. Statements behind a branch that returns move into the
    branches that do not. Raises ReturnsWithin for a return within a loop.
    """
    body = copy.deepcopy(body)
    returns = list(returns_in(body))
    if not returns or returns == body[-1:]:
        return body
    if all(r.value is None for r in returns):
        return _tail(body, None, body[-1])
    end = ast.copy_location(ast.Return(load(result)), body[-1])
    return [*_tail(body, result, body[-1]), ast.fix_missing_locations(end)]


def returns_in(body: Iterable[ast.AST]) -> Iterator[ast.Return]:
    """The returns of the function that statements belong to."""
    for node in body:
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(node, SCOPES):
            yield from returns_in(ast.iter_child_nodes(node))


def _tail(body: list[ast.stmt], result: str | None, at: ast.stmt) -> list[ast.stmt]:
    """
    Statements behind which the function ends, with assignments to `result` for its returns; where
    there is none, the assignment of None stands at the place of `at`.
    """
    for i, node in enumerate(body):
        if not any(returns_in([node])):
            continue
        before, after = body[:i], body[i + 1 :]
        match node:
            case ast.Return(value=value):
                return [*before, _assigned(result, value or ast.Constant(None), node)]
            case ast.If():
                node.body = _tail([*node.body, *copy.deepcopy(after)], result, node)
                node.orelse = _tail([*node.orelse, *after], result, node)
            case ast.With() if not after or _always_returns(node.body):
                node.body = _tail(node.body, result, node)
            case _:
                raise ReturnsWithin(next(returns_in([node])))
        return [*before, node]
    return [*body, _assigned(result, ast.Constant(None), at)]


def _assigned(result: str | None, value: ast.expr, node: ast.stmt) -> ast.stmt:
    new = ast.Pass() if result is None else assignment(result, value)
    return ast.fix_missing_locations(ast.copy_location(new, node))


def _always_returns(body: list[ast.stmt]) -> bool:
    match body[-1]:
        case ast.Return():
            return True
        case ast.If(body=then, orelse=other):
            return bool(other) and _always_returns(then) and _always_returns(other)
        case ast.With(body=inner):
            return _always_returns(inner)
    return False

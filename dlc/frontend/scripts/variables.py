"""The variables of a script's text: which it binds, reads and changes."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterator
from typing import TypeGuard

from dlc.frontend.scripts.parts import names_in

CHANGING = frozenset(
    "append extend insert pop remove clear sort reverse update setdefault popitem add appendleft "
    "popleft extendleft rotate discard __setitem__ __delitem__ __setattr__ __delattr__ __iadd__ "
    "__isub__ __imul__ __itruediv__ __ior__ __iand__".split()
)
"""Methods of containers that change them."""
OPERATORS = frozenset(
    "setitem delitem iadd iand iconcat ifloordiv ilshift imatmul imod imul ior ipow irshift isub "
    "itruediv ixor".split()
)
"""Functions of `operator` that change their first argument."""
REDIRECTING = frozenset(("redirect_stdout", "redirect_stderr"))
"""Contexts in which what is printed goes to the stream that they are given."""
FUNCTIONS = frozenset(("torch", "F", "nn", "np", "operator", "math"))
"""Modules, whose functions are no methods of an object."""
VIEWING = frozenset(
    "t transpose permute swapaxes swapdims movedim moveaxis view view_as reshape flatten ravel "
    "unflatten expand expand_as squeeze unsqueeze narrow select diagonal as_strided unfold detach "
    "chunk split unbind tensor_split contiguous".split()
)
"""Methods that may give a view of their tensor, which a change of the view changes."""
PASSING = frozenset("enumerate zip reversed list tuple iter sorted next islice chain".split())
"""Functions that give what is in what they are given."""
ITEMS = frozenset("values items keys get unbind split chunk".split())
"""Methods that give what is in an object."""


SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
"""Definitions, whose variables are their own."""
PATTERNS = ast.MatchAs | ast.MatchStar | ast.MatchMapping
"""What else binds a variable, but for the error of an `except`, which is gone behind it."""


def root_of(target: ast.AST) -> str | None:
    """The variable that an element, attribute or view by a method, however deep, belongs to."""
    while True:
        match target:
            case ast.Subscript(value=inner) | ast.Attribute(value=inner):
                target = inner
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in VIEWING:
                target = inner
            case ast.Name(id=name):
                return name
            case _:
                return None


def changed_at(node: ast.AST) -> ast.expr | None:
    """The item or attribute that a piece of text binds or deletes, or what its method changes."""
    match node:
        case (
            ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del())
        ):
            return node
        case ast.Call(keywords=[*_, ast.keyword(arg="out", value=out)]):
            return out
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[to]) if (
            name in REDIRECTING
        ):
            return to
        case ast.Call(func=made, args=[first, *_]) if (
            _is_in_place(node) or _is_in_place(made)
        ) and root_of(first) is not None:
            return first
        case ast.Call(
            func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="operator"), attr=name),
            args=[first, *_],
        ) if name in OPERATORS:
            return first
        case ast.Call(
            func=ast.Call(
                func=ast.Name(id="methodcaller") | ast.Attribute(attr="methodcaller"),
                args=[ast.Constant(value=str(name)), *_],
            ),
            args=[first],
        ) if name in CHANGING:
            return first
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in CHANGING or (
            name.endswith("_") and not name.endswith("__")
        ):
            functions = root_of(owner) in FUNCTIONS and name not in CHANGING
            return node.args[0] if functions and node.args else owner
        case ast.Call(func=function, args=args, keywords=keywords):
            called = (function, *args, *(k.value for k in keywords))
            return next(filter(None, map(_changed_if_called, called)), None)
    return None


def _changed_if_called(function: ast.expr) -> ast.expr | None:
    """What is changed where such an expression is called, as by `map(l.append, range(3))`."""
    match function:
        case (
            ast.Attribute(value=owner, attr=name)
            | ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(name)), *_])
        ) if name in CHANGING and root_of(owner) not in FUNCTIONS:
            return owner
        case ast.Lambda(body=body, args=given):
            own = {a.arg for a in ast.walk(given) if isinstance(a, ast.arg)}
            changed = (at for n in ast.walk(body) if (at := changed_at(n)) is not None)
            return next((at for at in changed if root_of(at) not in own), None)
        case ast.Call(func=ast.Name(id="partial") | ast.Attribute(attr="partial")):
            return changed_at(function)
    return None


def _is_in_place(call: ast.AST) -> bool:
    """True for a call with `inplace=True`."""
    options = call.keywords if isinstance(call, ast.Call) else []
    given = (getattr(k.value, "value", True) for k in options if k.arg == "inplace")
    return any(value is not False for value in given)


def changed_by(node: ast.AST) -> str | None:
    """The variable whose value a piece of text may change."""
    at = node.target if isinstance(node, ast.AugAssign) else changed_at(node)
    return None if at is None else root_of(at)


def changed_around(function: ast.AST) -> set[str]:
    """The variables around a function whose values it may change in place."""
    own = {n.id for n in ast.walk(function) if is_stored(n)}
    own |= {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}
    return {name for n in ast.walk(function) if (name := changed_by(n)) is not None} - own


def changes_inside(node: ast.AST) -> bool:
    """True if what a piece of text changes may be an item or an attribute of its variable."""
    at = node.target if isinstance(node, ast.AugAssign) else changed_at(node)
    if isinstance(at, ast.Subscript | ast.Attribute) and not isinstance(at.ctx, ast.Load):
        at = at.value
    return not isinstance(at, ast.Name)


def changed_in(statement: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, bool]]:
    """
    The variables whose values a statement may change, also by a variable that it binds to a view or
    an item of one; each with where it does, and whether it may be an item of it that changes.
    """
    sources: dict[str, set[str]] = {}
    for node in ast.walk(statement):
        match node:
            case (
                ast.For(target=target, iter=value)
                | ast.comprehension(target=target, iter=value)
                | ast.Assign(targets=[target], value=value)
                | ast.NamedExpr(target=target, value=value)
            ):
                for name in bound_by(target):
                    sources.setdefault(name, set()).update(viewed_in(value))
    for node in ast.walk(statement):
        if isinstance(node, ast.expr | ast.stmt) and (name := changed_by(node)) is not None:
            reached, pending = {name}, [name]
            while pending:
                more = sources.get(pending.pop(), set()) - reached
                reached |= more
                pending += more
            inside = changes_inside(node)
            yield from ((one, node, inside or one != name) for one in sorted(reached))


def viewed_in(value: ast.expr) -> set[str]:
    """The variables that a value may be, be a view of, or go on over."""
    match value:
        case ast.Call(func=ast.Name(id=name), args=args) if name in PASSING:
            return {name for arg in args for name in viewed_in(arg)}
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in ITEMS:
            return viewed_in(owner)
        case ast.Starred(value=inner):
            return viewed_in(inner)
        case ast.Tuple(elts=inner) | ast.List(elts=inner):
            return {name for one in inner for name in viewed_in(one)}
        case ast.IfExp(body=one, orelse=other):
            return viewed_in(one) | viewed_in(other)
    name = root_of(value)
    return set() if name is None else {name}


def free_in(function: ast.AST) -> set[str]:
    """The variables that a function reads and does not bind."""
    bound = {n.id for n in ast.walk(function) if is_stored(n)}
    bound |= {a.arg for a in ast.walk(function) if isinstance(a, ast.arg)}
    return names_in(function) - bound


def bound_by(node: ast.AST) -> set[str]:
    """
    The variables that a target, a statement or a definition binds where it stands, not those of
    comprehensions and functions in it.
    """
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            return {name}
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Lambda():
            return set()
        case ast.alias(name=name, asname=other):
            return {other or name.partition(".")[0]}
        case ast.comprehension(iter=over, ifs=tests):
            return set().union(*map(bound_by, (over, *tests)))
    own = getattr(node, "name", getattr(node, "rest", None))
    found = {own} if isinstance(node, PATTERNS) and isinstance(own, str) else set[str]()
    return found.union(*map(bound_by, ast.iter_child_nodes(node)))


def is_stored(node: ast.AST) -> TypeGuard[ast.Name]:
    """True where a variable is bound."""
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def one_by_one(node: ast.Assign, seen: Collection[str]) -> list[ast.stmt]:
    """
    The assignments that `x, y = a, b` stands for, where that makes no difference; else none.
    Functions, and whatever else there is, may look at the variables in `seen`.
    """
    match node:
        case ast.Assign(targets=[ast.Tuple(targets)], value=ast.Tuple(values)):
            starred = any(isinstance(e, ast.Starred) for e in (*targets, *values))
            bound = {name for target in targets for name in bound_by(target)}
            plain = all(isinstance(e, ast.Name | ast.Tuple) for e in targets)
            if plain and not starred and len(targets) == len(values):
                if bound.isdisjoint(names_in(node.value) | {*seen}):
                    both = zip(targets, values, strict=True)
                    return [ast.copy_location(ast.Assign([t], v), node) for t, v in both]
    return []


def loaded(target: ast.expr) -> ast.expr:
    """The value of a target after it was assigned to."""
    copied = copy.deepcopy(target)
    for node in ast.walk(copied):
        if isinstance(node, ast.Name | ast.Tuple | ast.List | ast.Starred):
            node.ctx = ast.Load()
    if isinstance(copied, ast.Subscript | ast.Attribute):
        return loaded(copied.value)
    return copied


def tuple_of(parts: list[ast.expr], at: ast.expr) -> ast.expr:
    """A tuple of parts, at the place of `at`."""
    return ast.copy_location(ast.Tuple(parts, ast.Load()), at)


def is_name(node: ast.expr, name: str) -> bool:
    """True for the variable of that name."""
    return isinstance(node, ast.Name) and node.id == name

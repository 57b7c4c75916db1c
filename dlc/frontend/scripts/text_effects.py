"""Which functions, methods and properties of a text change something when they run."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from typing import Any, TypeAlias

from dlc.frontend.scripts.script_objects import MAKING
from dlc.frontend.scripts.variables import CHANGING, bound_by, changed_at, is_stored, root_of
from dlc.frontend.state.dotted import is_users
from dlc.frontend.state.foreign import is_own

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Definition: TypeAlias = Function | ast.Assign
ITERATED: frozenset[str] = frozenset(("__iter__", "__next__", "__getitem__", "__len__"))
SHOWN: frozenset[str] = frozenset(("__format__", "__str__", "__repr__"))
OPERATIONS: dict[type[ast.AST], frozenset[str]] = {
    ast.Attribute: frozenset(("__getattr__", "__getattribute__", "__get__")),
    ast.Subscript: frozenset(("__getitem__", "__missing__", "__class_getitem__")),
    ast.UnaryOp: frozenset(("__neg__", "__pos__", "__invert__", "__bool__", "__len__")),
    ast.Compare: frozenset(
        ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", *ITERATED)
    ),
    ast.BinOp: frozenset(
        f"__{way}{name}__"
        for name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
        for way in ("", "r")
    )
    | SHOWN,  # by '%r' % value
    ast.FormattedValue: SHOWN,
    ast.Starred: ITERATED,
    ast.For: ITERATED,
    ast.comprehension: ITERATED,
    ast.With: frozenset(("__enter__", "__exit__")),
}
"""The methods that operations of Python's call."""
OF_ITEMS: dict[str, frozenset[str]] = dict.fromkeys(
    "list tuple set dict sum max min sorted any all enumerate zip map filter iter reversed "
    "frozenset deque Counter".split(),
    ITERATED,
)
CALLED: dict[str, frozenset[str]] = OF_ITEMS | {
    "len": frozenset(("__len__",)),
    "bool": frozenset(("__bool__", "__len__")),
    "float": frozenset(("__float__", "__index__")),
    "int": frozenset(("__int__", "__index__", "__trunc__")),
    "abs": frozenset(("__abs__",)),
    "round": frozenset(("__round__",)),
    "hash": frozenset(("__hash__",)),
    "str": SHOWN,
    "repr": SHOWN,
    "format": SHOWN,
    "print": SHOWN,
    "getattr": OPERATIONS[ast.Attribute],
    "hasattr": OPERATIONS[ast.Attribute],
}
"""Those that functions of Python's call."""
GOES_ON = frozenset(("next", "send", "throw", "setattr", "delattr", "exec", "eval"))
"""Functions and methods that change what they are given."""
LAZY = frozenset(
    "map filter zip enumerate reversed islice chain from_iterable cycle takewhile dropwhile "
    "starmap accumulate pairwise batched count repeat tee product".split()
)
"""Functions that give an iterator, which does nothing before something goes over it."""
MADE = (
    ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.Constant,
    ast.BinOp, ast.JoinedStr,
)  # fmt: skip
"""Expressions whose value nothing else has."""
MAKERS = frozenset("list dict set deque defaultdict Counter OrderedDict clone deepcopy zeros "
                   "ones empty full zeros_like ones_like empty_like full_like".split())  # fmt: skip
"""Functions and methods whose result nothing else has."""


class Effects:
    """Finds them by their names, as no text says of what class an object is."""

    def __init__(self, tree: ast.AST) -> None:
        self.tree = tree

    @cached_property
    def changing(self) -> frozenset[str]:
        """The names of those that change what they did not make, and of classes that do so."""
        return self._all(lambda d, found: _assigns_outside(d) or _changes(d, found))

    @cached_property
    def changing_given(self) -> frozenset[str]:
        """Those of them that do more than to assign variables outside of them."""
        return self._all(_changes)

    @cached_property
    def iterators(self) -> frozenset[str]:
        """
        The variables of a text that may be iterators, which go on where they are looked at, as its
        other places see.
        """
        makers = {*LAZY, "iter"} | {
            function.name
            for function in ast.walk(self.tree)
            if isinstance(function, Function)
            and any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(function))
        }
        found = set[str]()
        for node in ast.walk(self.tree):
            match node:
                case ast.Assign(targets=targets, value=value):
                    if is_lazy(value, makers):
                        found |= {name for target in targets for name in bound_by(target)}
                case ast.NamedExpr(target=target, value=value) if is_lazy(value, makers):
                    found.add(target.id)
        names = (n for n in ast.walk(self.tree) if isinstance(n, ast.Name))
        read = Counter(n.id for n in names if isinstance(n.ctx, ast.Load))
        return frozenset(name for name in found if read[name] > 1)

    def of_context(self, context: Any) -> bool:
        """True if entering or leaving a context of the text changes something."""
        if is_users(type(context)) and not self.changing.isdisjoint(
            OPERATIONS[ast.With] & {*dir(type(context))}
        ):
            return True
        made = getattr(context, "func", None)  # of a generator
        return getattr(made, "__name__", "") in self.changing and is_own(made.__module__)

    def _all(self, changes: Callable[[Definition, Collection[str]], bool]) -> frozenset[str]:
        left, found = [*_definitions(self.tree)], set[str]()
        while more := {name for name, d in left if name not in found and changes(d, found)}:
            found |= more
        return frozenset(found)

    def by(self, node: ast.AST) -> frozenset[str]:
        """The methods of the text that change something and that an operation may call."""
        return self.changing & methods_of(node)


def is_lazy(value: ast.expr, makers: Collection[str] = LAZY) -> bool:
    """True for what gives an iterator: a generator, or a call of one of `makers`."""
    match value:
        case ast.Call(
            func=ast.Name(id=name)
            | ast.Attribute(value=ast.Name(id="itertools" | "chain"), attr=name)
        ):
            return name in makers
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in makers and name not in LAZY  # `x.repeat(2)` is none
        case ast.IfExp(body=one, orelse=other):
            return is_lazy(one, makers) or is_lazy(other, makers)
    return isinstance(value, ast.GeneratorExp)


def methods_of(node: ast.AST) -> frozenset[str]:
    """The methods of objects that Python calls where an operation has no other name for them."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=args) if name in CALLED:
            passed = (CALLED[a.id] for a in args if isinstance(a, ast.Name) and a.id in CALLED)
            return CALLED[name].union(*passed)
        case ast.Call(func=ast.Attribute(attr="format" | "format_map")):
            return SHOWN | {"__call__"}
        case ast.Call(args=args):
            passed = (CALLED[a.id] for a in args if isinstance(a, ast.Name) and a.id in CALLED)
            return frozenset(("__call__",)).union(*passed)
    return OPERATIONS.get(type(node), frozenset())


def _definitions(tree: ast.AST) -> Iterator[tuple[str, Definition]]:
    """
    The functions in a text, and other names for them in classes; what makes objects is known by the
    name of the class.
    """
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if name not in MAKING:
                    yield name, node
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda()):
                yield name, node
            case ast.ClassDef(body=body, name=kind):
                for inner in body:
                    match inner:
                        case ast.FunctionDef(name=name) if name in MAKING:
                            yield kind, inner
                        case ast.Assign(targets=[ast.Name(id=name)]):
                            yield name, inner


def _assigns_outside(function: Definition) -> bool:
    return any(isinstance(node, ast.Global | ast.Nonlocal) for node in ast.walk(function))


def _changes(function: Definition, changing: Collection[str]) -> bool:
    """True if a function changes what it did not make, itself or by one that is `changing`."""
    own = {*_made_in(function)}
    if isinstance(function, Function) and function.name in MAKING and function.args.args:
        own.add(function.args.args[0].arg)
    for node in ast.walk(function):
        match node:
            case ast.AugAssign(target=target) if root_of(target) not in own:
                return True
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in changing:
                return True
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in GOES_ON:
                return True
            case ast.Attribute(attr=name) if name in CHANGING and root_of(node) not in own:
                return True
        if (at := changed_at(node)) is not None and root_of(at) not in own:
            return True
        if not methods_of(node).isdisjoint(changing):
            return True
    return False


def _made_in(function: Definition) -> Iterator[str]:
    """The variables of a function that only ever have what it made itself."""
    given: dict[str, bool] = {}
    bound = {name.id: 0 for name in ast.walk(function) if is_stored(name)}
    for name in (n for n in ast.walk(function) if is_stored(n)):
        bound[name.id] += 1
    for node in ast.walk(function):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                given[name] = given.get(name, True) and _is_made(value)
                bound[name] -= 1
            case ast.AugAssign(target=ast.Name(id=name)):
                bound[name] -= 1
    yield from (name for name, made in given.items() if made and not bound[name])


def _is_made(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in MAKERS
    return isinstance(value, MADE)

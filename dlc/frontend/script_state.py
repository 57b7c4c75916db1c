"""What a script has made before its program, which the program must leave as it is."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from operator import eq, is_
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

import torch

from dlc.frontend.hidden_state import fields_of, is_iterator, kept, numbers_of, place_of
from dlc.frontend.insides import CONTAINERS, LEAVES, WITHOUT, held_in, is_object, is_simple
from dlc.frontend.parts import place_at
from dlc.frontend.process_state import ProcessState
from dlc.frontend.script_objects import MAKING
from dlc.frontend.script_trials import Trials
from dlc.frontend.source import ImportFailure, Place
from dlc.frontend.tracers import is_traced
from dlc.frontend.variables import changed_at, is_stored

WITHIN = (ast.FunctionDef, ast.Lambda, ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp,
          ast.GeneratorExp)  # fmt: skip
"""What is in these may run when the program does."""
OF_MODULES = frozenset(vars(torch.nn.Module()))
"""Attributes that modules have by themselves: an import knows what becomes of them."""


Key: TypeAlias = "str | tuple[Any]"
"""How Python's text gets at an item, or its place in a list or a table."""
Path: TypeAlias = "tuple[()] | tuple[Path, Key]"
"""The keys on the way to a value, the last of them last."""


class _Numbered(dict[str, Any]):
    """What a value holds, by how Python's text gets at it."""


Held: TypeAlias = "_Numbered | list[Any] | tuple[Any, ...] | dict[Any, Any]"


class ScriptState:
    """
    What is in the variables of a script and in all that they hold, but for tensors' numbers and
    what is `known` otherwise, by identity; and what there is of the `process`.
    """

    def __init__(
        self,
        variables: Mapping[str, Any],
        known: Collection[int] = (),
        process: ProcessState | None = None,
    ) -> None:
        self._noted: list[tuple[Path, Any, Held]] = []
        self._states: list[tuple[Path, Callable[[], Hashable], Hashable]] = []
        """What is hidden in values: how it is read, and what it was."""
        states = {} if process is None else process.states(variables)
        self._beside = {name: (state.now, state.now()) for name, state in states.items()}
        self._seed = numbers_of(torch.get_rng_state)
        held = {} if process is None else process.held(variables)
        seen: set[int] = {*known}
        pending: list[tuple[Path, Any]] = [((), variables)]
        pending += [(((), f".{name}"), value) for name, value in held.items()]
        while pending:
            path, value = pending.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            inner = _held(value, variables)
            if _may_change(value):
                self._noted.append((path, value, inner))
            if (look := _state_of(value)) is not None:
                self._states.append((path, look, look()))
            pending += [((path, k), v) for k, v in _items(inner) if type(v) not in LEAVES]
        self._variables = variables

    def change(self) -> str | None:
        """Where something is not what it was, as Python's text gets at it: `a.t`, `l[0]`."""
        for path, value, before in self._noted:
            held = _held(value, self._variables)
            if _is_same(before, held):
                continue
            inner, now = dict(_items(before)), dict(_items(held))
            for key in [*inner, *now]:
                if key not in now or key not in inner or now[key] is not inner[key]:
                    if key in inner or not _is_cached(value, key):
                        return _text((path, key))
            if isinstance(value, dict) and [*inner] != [*now]:  # in another order
                return _text(path)
        changed = (path for path, look, before in self._states if look() != before)
        return next(map(_text, changed), None)

    def beside(self) -> str | None:
        """What is not what it was beside variables; of generators the module that draws."""
        if numbers_of(torch.get_rng_state) != self._seed:
            return "torch"
        changed = (name for name, (look, before) in self._beside.items() if look() != before)
        return next(changed, None)


def guarded(
    forward: Callable[..., Any],
    variables: Mapping[str, Any],
    filename: str,
    tree: ast.AST,
    trials: Trials | None = None,
) -> Callable[..., Any]:
    """
    The forward of a program. Where it is traced, ImportFailure if it changes what there was before
    it: its kernels would not, and what the script read of it then is not what it would read; or,
    with `trials`, if it does not do the same each time.
    """

    process = ProcessState(tree)

    @functools.wraps(forward)
    def checked(*args: Any) -> Any:
        compiled = torch.compiler.is_dynamo_compiling()  # whose graph a question would break
        if not torch.compiler.is_exporting() and (compiled or not is_traced(args, {})):
            return forward(*args)
        state = ScriptState(variables, process=process)
        result = forward(*args) if trials is None else trials.run(forward, args)
        if (path := state.change()) is not None:
            raise ImportFailure(
                f"the program changes '{path}', which is made before it: its kernels would not, "
                "and what was read of it is not what it is then; return the new value, or make it "
                "after the random tensors that it depends on",
                _place_of_change(path, filename, tree),
            )
        if (name := state.beside()) is not None:
            raise _beside_changed(name, variables, filename, tree)
        return result

    return checked


def _beside_changed(
    name: str, variables: Mapping[str, Any], filename: str, tree: ast.AST
) -> ImportFailure:
    """What is said where a program changes something that no variable of the script holds."""
    if name in ("random", "numpy.random"):
        return ImportFailure(
            f"the program changes what '{name}' draws next, as its kernels would not: they "
            "would have the numbers of its first run; draw them before it, or with torch.rand",
            _place_of_draw(name, variables, filename, tree),
        )
    if name == "torch":
        return ImportFailure(
            "the program seeds what 'torch' draws next, as its kernels would not; seed it before "
            "the random tensors",
            _place_of_name(tree, filename, "manual_seed", "seed", "set_rng_state"),
        )
    what = name.rpartition(".")[2].removesuffix("()")
    return ImportFailure(
        f"the program changes what '{name}' is, as its kernels would not, and what was read of it "
        "is not what it is then; change it before the random tensors",
        _place_of_name(tree, filename, what.replace("get_", "set_", 1), what)
        or _place_of_change(name, filename, tree),
    )


def _numbered(value: Any, variables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What a value holds; of a module only what is no module or tensor and not PyTorch's own."""
    if value is variables:
        yield from ((f".{k}", v) for k, v in variables.items() if not k.startswith("__"))
    elif isinstance(value, torch.nn.Module):
        own = vars(value) if type(value).__module__ == "__main__" else {}
        yield from ((f".{name}", item) for name, item in own.items() if name not in OF_MODULES)
        yield from ((f".{name}", module) for name, module in value.named_children())
    else:
        for number, (key, item) in enumerate(held_in(value)):
            yield key or f"({number})", item


def _held(value: Any, variables: Mapping[str, Any]) -> Held:
    """The same; of a list or a table what is in it, as a copy, whose places need no text yet."""
    if type(value) in (list, dict, tuple) and value is not variables:
        return value.copy() if type(value) is not tuple else value
    return _Numbered(_numbered(value, variables))


def _items(held: Held) -> Iterable[tuple[Key, Any]]:
    """What is held, each with a key of its own."""
    if isinstance(held, _Numbered):
        return held.items()
    table = held.items() if isinstance(held, dict) else enumerate(held)
    return (((key,), item) for key, item in table)


def _is_same(one: Held, other: Held) -> bool:
    """True if the very same is held, in the same order."""
    if len(one) != len(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        keys = map(eq, one, other) if isinstance(one, _Numbered) else map(is_, one, other)
        return all(keys) and all(map(is_, one.values(), other.values()))
    return all(map(is_, one, other))


def _text(path: Path) -> str:
    """How Python's text gets at what has such a path."""
    keys: list[Key] = []
    at: Any = path
    while at:
        at, key = at
        keys.append(key)
    texts = (key if isinstance(key, str) else f"[{key[0]!r}]" for key in reversed(keys))
    return "".join(texts).lstrip(".")


def _may_change(value: Any) -> bool:
    kinds = (*CONTAINERS, FunctionType, ModuleType, type, torch.nn.Module)
    return isinstance(value, kinds) or is_object(value)


def _state_of(value: Any) -> Callable[[], Hashable] | None:
    """How the state is read that is hidden in a value; PyTorch's generators are known to it."""
    if is_simple(type(value)):
        return None
    if isinstance(value, (*WITHOUT, *CONTAINERS, tuple, frozenset, type, ModuleType)):
        return None
    if is_iterator(value):
        return functools.partial(place_of, value)
    if (state := kept(value)) is not None:
        return state.now
    return functools.partial(fields_of, value) if fields_of(value) else None


def _is_cached(value: Any, key: Key) -> bool:
    """True for an attribute that an object gets when it is first asked for it."""
    if not isinstance(key, str) or not is_object(value):
        return False
    if type(value).__module__ != "__main__":
        return True
    return isinstance(getattr(type(value), key.lstrip("."), None), functools.cached_property)


def _place_of_change(path: str, filename: str, tree: ast.AST) -> Place | None:
    """The first place in a text that may have changed what is found by such a path."""
    name = path.split("[")[0].rpartition(".")[2]
    for node, outer in _with_functions(tree, frozenset()):
        at = _changed_at(node, outer)
        if at is not None and _name_of(at) == name:
            return place_at(filename, at)
    root = re.split(r"\W", path, maxsplit=1)[0]
    for wanted, among in ((name, _within(tree)), (root, _within(tree)), (root, _placed(tree))):
        for node in among:
            if isinstance(node, ast.Name | ast.Attribute) and _name_of(node) == wanted:
                return place_at(filename, node)
    return None


def _place_of_draw(
    module: str, variables: Mapping[str, Any], filename: str, tree: ast.AST
) -> Place | None:
    """The first place in what may run again where a function of a module is called."""
    for node in _within(tree):
        if isinstance(node, ast.Call):
            root = node.func
            while isinstance(root, ast.Attribute):
                root = root.value
            found = variables.get(root.id) if isinstance(root, ast.Name) else None
            of = getattr(found, "__module__", None) or type(found).__module__
            name = getattr(found, "__name__", "") if isinstance(found, ModuleType) else of
            if name.partition(".")[0] == module.partition(".")[0]:
                return place_at(filename, node)
    return None


def _place_of_name(tree: ast.AST, filename: str, *names: str) -> Place | None:
    """The first place of such a name, in what may run again if there is one."""
    found = [n for among in (_within(tree), _placed(tree)) for n in among if _name_of(n) in names]
    return place_at(filename, found[0]) if found else None


def _within(tree: ast.AST) -> Iterator[ast.expr]:
    """What is in loops and functions of a text, in no order but that of its lines."""
    yield from _placed(*(node for node in ast.walk(tree) if isinstance(node, WITHIN)))


def _placed(*pieces: ast.AST) -> Iterator[ast.expr]:
    """The expressions in pieces of a text, in the order of their places."""
    found = {n for piece in pieces for n in ast.walk(piece) if isinstance(n, ast.expr)}
    yield from sorted(found, key=lambda n: (n.lineno, n.col_offset))


def _with_functions(
    node: ast.AST, outer: frozenset[str]
) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """What is in a text but for what makes objects, and the variables of outer functions there."""
    yield node, outer
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            if child.name in MAKING:
                continue
            declared = (n for n in child.body if isinstance(n, ast.Global | ast.Nonlocal))
            outer = frozenset(name for n in declared for name in n.names)
        yield from _with_functions(child, outer)


def _changed_at(node: ast.AST, outer: frozenset[str]) -> ast.expr | None:
    """What a piece of text changes."""
    if is_stored(node):
        return node if node.id in outer else None
    return changed_at(node)


def _name_of(node: ast.expr) -> str | None:
    """The last name of an expression that leads to a value: `t` of `a.t[0]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None

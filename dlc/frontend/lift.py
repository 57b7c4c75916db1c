"""The last expression of a script, taken apart into a program and its inputs."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, count
from types import FunctionType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from dlc.frontend.random import RandomTensors
from dlc.frontend.source import ImportFailure, Place
from dlc.frontend.torch_export import free_values

PART_OF_CREATION = frozenset(
    "T mT H mH data t transpose permute swapaxes swapdims movedim view reshape flatten unflatten "
    "expand squeeze unsqueeze narrow select diagonal as_strided unfold contiguous clone detach to "
    "type float double half bfloat16 int long short bool cpu cuda requires_grad_".split()
)
"""Methods that, applied to the creation of a tensor, say how it is laid out and of what type."""

RANDOM_FROM_TENSORS = frozenset(
    "randn_like rand_like randint_like empty_like new_empty bernoulli normal multinomial".split()
)
"""Functions that create a random tensor and may be given tensors."""

OPAQUE = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)
"""Expressions that bind names: they are evaluated as a whole, or left as they are."""

SELF = "_program"


def place_in(filename: str, line: int, column: int) -> Place:
    return Place(filename, line, column, linecache.getline(filename, line).rstrip())


@contextmanager
def errors_in(filename: str) -> Iterator[None]:
    """Turns what the user's text raises into one sentence with its line and column."""
    try:
        yield
    except Exception as error:
        place = None
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == filename and frame.lineno is not None:
                place = place_in(filename, frame.lineno, (frame.colno or 0) + 1)
        first = (str(error).splitlines() or ["no message"])[0]
        if wanted := re.search(r"can't allocate memory: you tried to allocate (\d+) bytes", first):
            first = (
                f"a tensor of {int(wanted[1]) / 2**30:.1f} GiB does not fit into memory, in which "
                "the program's text runs once; make it smaller"
            )
        raise ImportFailure(f"{type(error).__name__}: {first}", place) from error


@dataclass
class Part:
    """
    A sub-expression. `code` computes it. Where its `value` is `known` before the program runs,
    `code` is a constant or a name for that very value, and `build` gives the code that computes it
    within the program. `fresh` says that the value was just created at random.
    """

    code: ast.expr
    known: bool = False
    value: Any = None
    fresh: bool = False
    name: str | None = None
    """The variable that holds the value, with the path to it: `mlp`, `mlp_gate`."""
    build: Callable[[], ast.expr] | None = None
    inside_module: bool = False
    """True if the value was found in a module, as an attribute or an item."""


Child = tuple[Callable[[ast.expr], Any], Part]
"""A part, and what wraps its code where it stands: `*` or the keyword of an argument."""


class CalledModule(torch.nn.Module):
    """
    A module called from the user's line, with the very tables of tensors of that module: its
    parameters have the same names in both, and a copy or conversion of one is that of the other.
    """

    def __init__(self, module: torch.nn.Module):
        super().__init__()
        self.called = (module,)  # in a tuple, so that it is no submodule
        self._parameters = module._parameters
        self._buffers = module._buffers
        self._modules = module._modules
        self._non_persistent_buffers_set = module._non_persistent_buffers_set
        self.training = module.training


@dataclass
class Lifter:
    """
    Makes a module of an expression whose names are in `scope`. Random tensors become inputs;
    modules, parameters and other tensors become attributes; what is known beforehand is computed
    once, now, and the rest is the module's forward, with the line numbers of the text.
    """

    filename: str
    scope: dict[str, Any]
    random: RandomTensors
    inputs: dict[str, Any] = field(default_factory=dict)
    held: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    """The known values that are neither, by the names that the code uses for them."""

    def program(self, expression: ast.expr) -> tuple[torch.nn.Module, tuple[Any, ...]]:
        """The module and its example inputs; ImportFailure if nothing is left to compute."""
        part = self.visit(expression, outermost=True)
        if part.known:
            self.refuse(expression, part)
        called = self.only_called(part.code)
        if called is not None:
            assert isinstance(part.code, ast.Call)
            tuple_of_it = _attribute(SELF, "called")
            part.code.func = ast.Subscript(tuple_of_it, ast.Constant(0), ast.Load())
        base = torch.nn.Module if called is None else CalledModule
        forward = self.forward(expression, part.code)
        program: Any = type("Program", (base,), {"forward": forward})
        inputs = tuple(self.inputs.values())
        if called is not None:
            return program(self.held[called]), inputs
        module = program()
        for name, value in self.held.items():
            setattr(module, name, value)
        return module, inputs

    def refuse(self, expression: ast.expr, part: Part) -> None:
        place = place_in(self.filename, expression.lineno, expression.col_offset + 1)
        if isinstance(part.value, torch.nn.Module):
            what = f"a module, {type(part.value).__name__}; call it with its inputs"
        elif _has_tensor(part.value):
            what = "only tensors that are made at random; apply an operation to them"
        else:
            what = f"a value of type {type(part.value).__name__}"
        raise ImportFailure(
            f"expected the last expression to compute tensors from tensors, found {what}", place
        )

    def only_called(self, code: ast.expr) -> str | None:
        """The attribute that `code` calls if it is one call of a module that holds all there is."""
        match code:
            case ast.Call(ast.Attribute(ast.Name(id=name), attr)) if name == SELF:
                uses = [n for n in ast.walk(code) if isinstance(n, ast.Name) and n.id == SELF]
                alone = len(uses) == 1 and list(self.held) == [attr]
                return attr if alone and _is_module(self.held[attr]) else None
        return None

    def forward(self, expression: ast.expr, code: ast.expr) -> Callable[..., Any]:
        """`def forward(self, <inputs>): return <code>`, at the place of the expression."""
        tree = ast.parse(f"def forward({', '.join((SELF, *self.inputs))}): return")
        (function,) = tree.body
        assert isinstance(function, ast.FunctionDef)
        for node in ast.walk(function):
            ast.copy_location(node, expression)
        function.body = [ast.copy_location(ast.Return(code), expression)]
        ast.fix_missing_locations(tree)
        scope = {**self.scope, **self.values}
        exec(compile(tree, self.filename, "exec"), scope)
        return scope["forward"]

    def visit(self, node: ast.expr, outermost: bool = False) -> Part:
        """`outermost` marks the whole expression, which is the program even if it is a view."""
        if isinstance(node, ast.Name):
            if node.id in self.scope:
                return Part(node, True, self.scope[node.id], name=node.id)
            return self.evaluate(node, node, None)
        if isinstance(node, OPAQUE):
            return self.visit_opaque(node)
        children = {name: self.visit_field(value) for name, value in ast.iter_fields(node)}
        parts = [part for child in children.values() for part in _parts(child)]
        if not all(part.known for part in parts) or not self.is_static(node, children, parts):
            return Part(self.rebuild(node, children, self.use))
        if outermost and (any(p.fresh for p in parts) or isinstance(node, ast.Starred)):
            return Part(self.rebuild(node, children, self.use))

        def build() -> ast.expr:
            return self.rebuild(node, children, self.use)

        part = self.evaluate(node, self.rebuild(node, children, lambda p: p.code), build)
        stays = part.fresh  # tensors that are computed deterministically are left to the program
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            _, base = children["value"]
            part.fresh = part.fresh and base.fresh
            part.inside_module = _is_module(base.value)
            layout = not isinstance(node, ast.Attribute) or node.attr in PART_OF_CREATION
            stays = (part.fresh and layout) or not isinstance(base.value, torch.Tensor)
        if _has_tensor(part.value) and not stays:
            return Part(build())
        part.name = self.path(node, children, part)
        return part

    def visit_field(self, value: Any) -> Any:
        if isinstance(value, ast.Starred):
            return (lambda code: ast.Starred(code, ast.Load())), self.visit(value.value)
        if isinstance(value, ast.keyword):
            return (lambda code: ast.keyword(value.arg, code)), self.visit(value.value)
        if isinstance(value, ast.expr):
            return (lambda code: code), self.visit(value)
        if isinstance(value, list):
            return [self.visit_field(item) for item in value]
        return value

    def is_static(self, node: ast.expr, children: dict[str, Any], parts: Sequence[Part]) -> bool:
        """True if `node`, all of whose parts are known, is evaluated now: it computes nothing."""
        tensors = [p for p in parts if _has_tensor(p.value)]
        match node:
            case ast.Attribute() | ast.Subscript():
                _, base = children["value"]
                if isinstance(node, ast.Subscript) and len(tensors) > _has_tensor(base.value):
                    return False
                if not isinstance(base.value, torch.Tensor):
                    return True
                return isinstance(node, ast.Attribute) or base.fresh
            case ast.Call():
                _, callee = children["func"]
                owner = _owner(callee.value)
                if isinstance(callee.value, torch.nn.Module):
                    return False
                name = getattr(callee.value, "__name__", "")
                if name in RANDOM_FROM_TENSORS:
                    return True
                if isinstance(owner, torch.Tensor):
                    return callee.fresh and name in PART_OF_CREATION and not tensors
                return not tensors
        return not tensors

    def path(self, node: ast.expr, children: dict[str, Any], part: Part) -> str | None:
        """A name for what a variable leads to: `mlp.gate` is `mlp_gate`, `m.eval()` is `m`."""
        match node:
            case ast.Attribute(attr=attr) if children["value"][1].name is not None:
                return f"{children['value'][1].name}_{attr}"
            case ast.Subscript() if children["value"][1].name is not None:
                index = re.sub(r"\W+", "_", str(children["slice"][1].value)).strip("_")
                return f"{children['value'][1].name}_{index}"
            case ast.Call() if isinstance(part.value, torch.nn.Module):
                return next((k for k, v in self.scope.items() if v is part.value), None)
        return None

    def visit_opaque(self, node: ast.expr) -> Part:
        """A lambda is a function; a comprehension over tensors or modules is for the program."""
        names = dict.fromkeys(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
        found = {n: self.scope[n] for n in names if n in self.scope}
        found = {n: v for n, v in found.items() if _is_module(v) or _has_tensor(v)}
        if isinstance(node, ast.Lambda) or not found:
            return self.evaluate(node, node, None)
        for name, value in found.items():
            if self.random.holds(value) and not isinstance(value, torch.nn.Parameter):
                self.inputs.setdefault(name, _without_grad(value))
            elif isinstance(value, (torch.nn.Module, torch.Tensor)):
                self.held.setdefault(name, value)
        return Part(node)

    def evaluate(
        self, node: ast.expr, code: ast.expr, build: Callable[[], ast.expr] | None
    ) -> Part:
        """Computes `code`, whose names stand for known values, once; `node` is its source."""
        tree = ast.fix_missing_locations(ast.copy_location(ast.Expression(code), node))
        with errors_in(self.filename), self.random:
            value = eval(compile(tree, self.filename, "eval"), {**self.scope, **self.values})
        fresh = self.random.holds(value) or self.random.holds(_owner(value))
        if isinstance(node, ast.Constant):
            return Part(node, True, value)
        name = f"_value_{len(self.values)}"
        self.values[name] = value
        return Part(ast.copy_location(_load(name), node), True, value, fresh, build=build)

    def rebuild(
        self, node: ast.expr, children: dict[str, Any], code: Callable[[Part], ast.expr]
    ) -> ast.expr:
        """`node` with its parts' code in their places."""
        wanted = iter(_parameter_names(children["func"][1]) if "func" in children else [])

        def fill(child: Any, is_argument: bool) -> Any:
            match child:
                case list():
                    return [fill(item, is_argument) for item in child]
                case (wrap, Part() as part):
                    if is_argument and part.known and part.name is None:
                        empty = wrap(_load(SELF))
                        keyword = empty.arg if isinstance(empty, ast.keyword) else None
                        part.name = keyword or next(wanted, None)
                    elif is_argument:
                        next(wanted, None)
                    return wrap(code(part))
            return child

        fields = {
            name: fill(child, isinstance(node, ast.Call) and name != "func")
            for name, child in children.items()
        }
        return ast.copy_location(type(node)(**fields), node)

    def use(self, part: Part) -> ast.expr:
        """The code of a part within the program: inputs by name, what is held as an attribute."""
        value = part.value
        if not part.known:
            return part.code
        if part.inside_module and part.build is not None:
            return part.build()
        if isinstance(value, FunctionType):
            for name, free in free_values(value).items():
                if isinstance(free, (torch.nn.Module, torch.Tensor)):
                    self.hold(free, name)
            return part.code
        if _is_module(value) or isinstance(value, torch.nn.Parameter):
            return _attribute(SELF, self.hold(value, part.name))
        if self.random.holds(value):
            return ast.copy_location(_load(self.input(value, part.name)), part.code)
        if isinstance(value, torch.Tensor):
            return _attribute(SELF, self.hold(value, part.name))
        if part.build is not None and isinstance(_owner(value), (torch.nn.Module, torch.Tensor)):
            return part.build()
        return part.code

    def hold(self, value: Any, name: str | None) -> str:
        """The attribute of the program that is `value`."""
        known = next((n for n, v in self.held.items() if v is value), None)
        if known is None:
            known = self.unused(name or type(value).__name__.lower())
            self.held[known] = value
        return known

    def input(self, value: Any, name: str | None) -> str:
        """The input of the program that `value` is the example of."""
        key = id(value)
        known = next((n for n, v in self.inputs.items() if id(v) == key), None)
        if known is None:
            known = self.unused(name) if name else self.unused(*"xyzuvwabc")
            self.inputs[known] = _without_grad(value)
        return known

    def unused(self, *names: str) -> str:
        taken = {*self.inputs, *self.held}
        numbered = (f"{names[0]}{i}" for i in count(2))
        return next(name for name in chain(names, numbered) if name not in taken)


def _parts(child: Any) -> list[Part]:
    match child:
        case list():
            return [part for item in child for part in _parts(item)]
        case (_, Part() as part):
            return [part]
    return []


def _has_tensor(value: object) -> bool:
    return any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(value))


def _is_module(value: object) -> bool:
    return isinstance(value, torch.nn.Module)


def _owner(value: object) -> object:
    """The object that a bound method belongs to, else None."""
    return getattr(value, "__self__", None) if callable(value) else None


def _without_grad(value: Any) -> Any:
    def detached(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach() if tensor.requires_grad else tensor

    return tree_map_only(torch.Tensor, detached, value)


def _parameter_names(callee: Part) -> list[str]:
    """The names of the positional parameters of a function or module written in Python."""
    function = callee.value
    if isinstance(function, torch.nn.Module):
        function = function.forward
    if not callee.known or not (inspect.isfunction(function) or inspect.ismethod(function)):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind in kinds]


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _attribute(owner: str, name: str) -> ast.Attribute:
    return ast.Attribute(_load(owner), name, ast.Load())

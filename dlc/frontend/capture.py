"""
A PyTorch program from text: its last expression, with random tensors as inputs.

The statements run once, as Python. The last expression is then taken apart: calls that make random
tensors and modules are made, and become inputs and submodules; what computes with them is the
program. `torch.relu(torch.randn(4) + 1)` is the program `torch.relu(x + 1)`.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import linecache
import math
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves

from dlc.frontend.fx import free_values
from dlc.frontend.source import ImportFailure, Place

SEED = 0

PART_OF_CREATION = frozenset(
    "T mT H mH data t transpose permute swapaxes swapdims movedim view reshape flatten unflatten "
    "expand squeeze unsqueeze narrow select diagonal as_strided unfold contiguous clone detach to "
    "type float double half bfloat16 int long short bool cpu cuda requires_grad_".split()
)
"""Methods that, applied to the creation of a tensor, say how it is laid out and of what type."""

UNINITIALISED = frozenset(("empty", "empty_like", "empty_strided", "new_empty", "empty_permuted"))
OPAQUE = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)
"""Expressions with names of their own: they are evaluated as a whole or left as they are."""


class RandomTensors(TorchDispatchMode):
    """Records which tensors hold random or uninitialised numbers, or are computed from such."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, torch.Tensor] = {}
        """By `id`; the tensors are kept, so that no other one gets their identity."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        draws = torch.Tag.nondeterministic_seeded in func.tags
        name = func._schema.name.partition("::")[2]
        if draws or name in UNINITIALISED or any(map(self.holds, tree_leaves((args, kwargs)))):
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor):
                    self.found[id(leaf)] = leaf
        return result

    def holds(self, value: object) -> bool:
        return id(value) in self.found


def capture_script(path: str | Path) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """`capture_text` of a file; ImportFailure if there is none that can be read."""
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ImportFailure(f"expected a Python script: cannot read '{path}': {error}") from None
    return capture_text(text, str(path))


def capture_text(
    text: str, filename: str = "<command>"
) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """
    The program that the last expression of `text` is, as a module and its example inputs.

    `torch`, `nn`, `F` and `math` are at hand, and the random seed is 0. Parameters have the names
    of the module when the expression is one call of a module (`weight`), else they begin with the
    variable that holds the module (`mlp.gate.weight`). Raises ImportFailure for text that does not
    parse, that fails while it runs, or whose last expression computes no tensor.
    """
    lines = text.splitlines(keepends=True)
    linecache.cache[filename] = (len(text), None, lines, filename)
    try:
        tree = ast.parse(text, filename)
    except SyntaxError as error:
        place = _place(filename, error.lineno or 1, error.offset or 1)
        raise ImportFailure(f"SyntaxError: {error.msg}", place) from None
    if not tree.body:
        raise ImportFailure("expected a program: an expression that computes tensors, found no text")
    last = tree.body.pop()
    if not isinstance(last, ast.Expr):
        raise ImportFailure(
            "expected an expression as the last statement, such as `model(torch.randn(4, 8))`; "
            f"found {_kind(last)}",
            _place(filename, last.lineno, last.col_offset + 1),
        )
    torch.manual_seed(SEED)
    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "math": math}
    scope: dict[str, Any] = {"__name__": "__main__", "__file__": filename, **names}
    random = RandomTensors()
    with _errors_in(filename), random:
        exec(compile(tree, filename, "exec"), scope)
    return _Lifter(filename, scope, random).program(last.value)


def _place(filename: str, line: int, column: int) -> Place:
    return Place(filename, line, column, linecache.getline(filename, line).rstrip())


def _kind(statement: ast.stmt) -> str:
    name = re.sub(r"(?<!^)([A-Z])", r" \1", type(statement).__name__).lower()
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name} statement"


@contextmanager
def _errors_in(filename: str) -> Iterator[None]:
    """Turns what the text raises into one sentence with its line and column."""
    try:
        yield
    except ImportFailure:
        raise
    except Exception as error:
        place = None
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == filename and frame.lineno is not None:
                place = _place(filename, frame.lineno, (frame.colno or 0) + 1)
        first = (str(error).splitlines() or ["no message"])[0]
        raise ImportFailure(f"{type(error).__name__}: {first}", place) from error


@dataclass
class _Part:
    """
    What is known of a sub-expression before the program runs.

    `code` computes it within the program. `value` is what it is, if it does not depend on what the
    program computes (`known`); `fresh` if that holds a tensor just created at random.
    """

    code: ast.expr
    known: bool = False
    value: Any = None
    fresh: bool = False
    name: str | None = None
    """The variable that holds the value, if it is one."""


class _CalledModule(torch.nn.Module):
    """A module called from the user's line, with the very tables of parameters of that module."""

    def __init__(self, module: torch.nn.Module):
        super().__init__()
        self._parameters = module._parameters
        self._buffers = module._buffers
        self._modules = module._modules
        self._non_persistent_buffers_set = module._non_persistent_buffers_set
        self.training = module.training


@dataclass
class _Lifter:
    """Takes the last expression apart."""

    filename: str
    scope: dict[str, Any]
    random: RandomTensors
    inputs: dict[str, Any] = field(default_factory=dict)
    """Example inputs by parameter name."""
    held: dict[str, Any] = field(default_factory=dict)
    """Submodules, parameters and constant tensors of the program by attribute name."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Other values that the program's code refers to."""

    def program(self, expression: ast.expr) -> tuple[torch.nn.Module, tuple[Any, ...]]:
        part = self.visit(expression, outermost=True)
        if part.known:
            self.refuse(expression, part.value)
        module: torch.nn.Module = torch.nn.Module()
        called = self.only_module(part.code)
        if called is not None:
            module = _CalledModule(self.held[called])
            self.extra[called] = self.held[called]
            part.code = _Unwrap(called).visit(part.code)
        else:
            for name, value in self.held.items():
                setattr(module, name, value)
            self.hold_free_modules(module)
        forward = self.function(part.code)
        module.__class__ = type("Program", (type(module),), {"forward": forward})
        return module, tuple(self.inputs.values())

    def refuse(self, expression: ast.expr, value: object) -> None:
        place = _place(self.filename, expression.lineno, expression.col_offset + 1)
        if isinstance(value, torch.nn.Module):
            what = (
                f"the module {type(value).__name__} itself; call it with an input, such as "
                "`(torch.randn(4, 8))`"
            )
        elif isinstance(value, torch.Tensor):
            what = "a tensor that is there already; apply an operation to it"
        else:
            what = f"a value of type {type(value).__name__} that depends on no tensor"
        raise ImportFailure(
            f"expected the last expression to compute a tensor from tensors, found {what}", place
        )

    def visit(self, node: ast.expr, outermost: bool = False) -> _Part:
        """`outermost`: the whole program, which is never just a creation."""
        match node:
            case ast.Name():
                return self.visit_name(node)
            case ast.Call():
                return self.visit_call(node, outermost)
            case ast.Attribute() | ast.Subscript() if not outermost:
                return self.visit_access(node)
            case ast.Starred():
                inner = self.visit(node.value)
                return _Part(ast.Starred(self.use(inner), ast.Load()), inner.known, inner.value)
        if isinstance(node, OPAQUE):
            return self.visit_opaque(node)
        children = {name: self.visit_field(value) for name, value in ast.iter_fields(node)}
        parts = [p for c in children.values() for p in (c if isinstance(c, list) else [c])]
        parts = [p for p in parts if isinstance(p, _Part)]
        if all(p.known and not _has_tensor(p.value) for p in parts) and not outermost:
            return self.evaluate(node, parts)
        return _Part(self.rebuild(node, children))

    def visit_field(self, value: Any) -> Any:
        """Sub-expressions become parts, in lists too; operators and names stay."""
        if isinstance(value, ast.expr):
            return self.visit(value)
        if isinstance(value, ast.keyword):
            return self.visit(value.value)
        if isinstance(value, list):
            return [self.visit_field(item) for item in value]
        return value

    def rebuild(self, node: ast.expr, children: dict[str, Any]) -> ast.expr:
        def used(child: Any) -> Any:
            if isinstance(child, _Part):
                return self.use(child)
            return [used(item) for item in child] if isinstance(child, list) else child

        new = type(node)(**{name: used(child) for name, child in children.items()})
        return ast.copy_location(new, node)

    def visit_name(self, node: ast.Name) -> _Part:
        if node.id not in self.scope:
            return self.evaluate(node, [])  # a builtin, or the NameError that this is
        return _Part(node, True, self.scope[node.id], name=node.id)

    def visit_access(self, node: ast.Attribute | ast.Subscript) -> _Part:
        """`cfg.width` and `layers[0]` are values; of a tensor only layouts and slices are."""
        base = self.visit(node.value)
        children: dict[str, Any] = {"value": base, "ctx": node.ctx}
        if isinstance(node, ast.Attribute):
            children["attr"] = node.attr
            keeps = node.attr in PART_OF_CREATION
            parts = [base]
        else:
            children["slice"] = self.visit(node.slice)
            keeps = children["slice"].known and not _has_tensor(children["slice"].value)
            parts = [base, children["slice"]]
        if all(p.known for p in parts) and (
            not isinstance(base.value, torch.Tensor) or (base.fresh and keeps)
        ):
            part = self.evaluate(node, parts)
            if isinstance(part.value, (torch.nn.Module, torch.Tensor)) and base.name is not None:
                part.name = re.sub(r"\W+", "_", ast.unparse(node)).strip("_")
            return part
        return _Part(self.rebuild(node, children))

    def visit_call(self, node: ast.Call, outermost: bool) -> _Part:
        if isinstance(node.func, ast.Attribute):
            receiver = self.visit(node.func.value)
            callee = self.bound_method(node.func, receiver)
        else:
            receiver = None
            callee = self.visit(node.func)
        args = [self.visit(arg) for arg in node.args]
        keywords = [self.visit(kw.value) for kw in node.keywords]
        parts = [*args, *keywords]
        if callee.known and all(p.known for p in parts) and not outermost:
            takes_tensors = any(_has_tensor(p.value) for p in parts)
            layout = receiver is not None and receiver.fresh and not takes_tensors
            creates = not isinstance(callee.value, torch.nn.Module) and (
                not takes_tensors or _is_random_creator(callee.value)
            )
            method_of_tensor = receiver is not None and isinstance(receiver.value, torch.Tensor)
            if (layout and _method(node) in PART_OF_CREATION) or (
                creates and (not method_of_tensor or _is_random_creator(callee.value))
            ):
                return self.evaluate(node, [callee, *parts])
        wanted = _parameter_names(callee.value if callee.known else None, node)
        if receiver is not None and not isinstance(callee.value, torch.nn.Module):
            func: ast.expr = ast.copy_location(
                ast.Attribute(self.use(receiver), _method(node), ast.Load()), node.func
            )
        else:
            func = self.use(callee)
        call = ast.Call(
            func,
            [self.use(p, wanted.get(i)) for i, p in enumerate(args)],
            [
                ast.keyword(kw.arg, self.use(p, kw.arg))
                for kw, p in zip(node.keywords, keywords, strict=True)
            ],
        )
        return _Part(ast.copy_location(call, node))

    def bound_method(self, node: ast.Attribute, receiver: _Part) -> _Part:
        """`receiver.name` for a call; no input is made of the receiver yet."""
        if not receiver.known:
            return _Part(node)
        part = self.evaluate(node, [receiver])
        part.fresh = False
        if isinstance(part.value, torch.nn.Module) and receiver.name is not None:
            part.name = f"{receiver.name}_{node.attr}"
        return part

    def visit_opaque(self, node: ast.expr) -> _Part:
        """
        A lambda is a function; a comprehension is evaluated now if it refers to no tensor or
        module, and else belongs to the program.
        """
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        values = [self.scope[name] for name in names if name in self.scope]
        if isinstance(node, ast.Lambda) or not any(
            isinstance(v, torch.nn.Module) or _has_tensor(v) for v in values
        ):
            return self.evaluate(node, [])
        for name in names:
            value = self.scope.get(name)
            if isinstance(value, (torch.nn.Module, torch.Tensor)):
                self.held.setdefault(name, value)
        return _Part(node)

    def evaluate(self, node: ast.expr, parts: Sequence[_Part]) -> _Part:
        """Runs a sub-expression whose parts are known, each of them just once."""
        local: dict[str, Any] = {}
        code = _Substitute(
            {id(n): p for n, p in _matching(node, parts)}, local
        ).visit(ast.parse(ast.unparse(node), mode="eval").body if False else node)
        compiled = self.compile_expression(code)
        with _errors_in(self.filename), self.random:
            value = eval(compiled, self.scope | local)
        fresh = any(map(self.random.holds, tree_leaves(value))) and not isinstance(
            value, torch.nn.Module
        )
        return _Part(node, True, value, fresh)

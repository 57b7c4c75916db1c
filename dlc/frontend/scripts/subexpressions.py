"""Sub-expressions of an expression of a script, and the expression with others in their places."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dlc.frontend.scripts.parts import Part, load
from dlc.frontend.scripts.program_values import SELF, has_tensor, owner_of

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


def is_static(node: ast.expr, children: dict[str, Any], parts: Sequence[Part]) -> bool:
    """True if `node`, all of whose parts are known, is evaluated now: it computes nothing."""
    tensors = [p for p in parts if has_tensor(p.value)]
    match node:
        case ast.Attribute() | ast.Subscript():
            _, base = children["value"]
            if isinstance(node, ast.Subscript) and len(tensors) > has_tensor(base.value):
                return False
            if not isinstance(base.value, torch.Tensor):
                return True
            return isinstance(node, ast.Attribute) or base.fresh
        case ast.Call():
            _, callee = children["func"]
            owner = owner_of(callee.value)
            if isinstance(callee.value, torch.nn.Module):
                return False
            name = getattr(callee.value, "__name__", "")
            if name in RANDOM_FROM_TENSORS or isinstance(callee.value, type):
                return True
            if isinstance(owner, torch.Tensor):
                return callee.fresh and name in PART_OF_CREATION and not tensors
            return not tensors
    return not tensors


def rebuild(node: ast.expr, children: dict[str, Any], code: Callable[[Part], ast.expr]) -> ast.expr:
    """`node` with its parts' code in their places."""
    wanted = iter(_parameter_names(children["func"][1]) if "func" in children else [])

    def fill(child: Any, is_argument: bool) -> Any:
        match child:
            case list():
                return [fill(item, is_argument) for item in child]
            case (wrap, Part() as part):
                if is_argument and part.known and part.name is None:
                    empty = wrap(load(SELF))
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


def parts_of(child: Any) -> list[Part]:
    match child:
        case list():
            return [part for item in child for part in parts_of(item)]
        case (_, Part() as part):
            return [part]
    return []


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


def code_now(part: Part) -> ast.expr:
    """The code that computes a constant part before the program runs."""
    return part.code if part.now is None else part.now

"""
The text of tensors in a program that is traced, which have no numbers: it is made up, of other
numbers each time, so that what depends on it differs from run to run.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType, FunctionType, ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from dlc.frontend.scripts.parts import place_of_frame
from dlc.frontend.scripts.quiet_traces import SHOWS
from dlc.frontend.source import Place
from dlc.frontend.state.foreign import is_foreign, is_own

KINDS = (torch.Tensor, torch.nn.Parameter, FakeTensor, FunctionalTensor, torch.SymFloat,
         torch.SymInt, torch.SymBool)  # fmt: skip
"""What may have no numbers where it is traced."""
MAKERS = (str, repr, format, ascii, print)
METHODS = ("__repr__", "__str__", "__format__")
NUMBERS = {"f": (1.0, -22.5e-5), "i": (1, -225), "b": (True, False)}
"""The numbers of which a text is made up in the first run and in others."""
NOT_FINITE = ("tensor([1.])", "tensor([[-nan, inf, 2.25e-05]], requires_grad=True)")


@contextmanager
def texts_made_up(first: bool) -> Iterator[list[Place | None]]:
    """
    Where code of the script, or of a module beside it, asks for such a text within; in the first
    `run`, of number 0, it is another one than in those after it.
    """
    asked: list[Place | None] = []
    number = 0 if first else 1
    before = [(k, name, vars(k)[name]) for k in KINDS for name in METHODS if name in vars(k)]
    for kind, name, method in before:
        setattr(kind, name, _made_up(method, name, number, asked))
    for kind in (torch.SymFloat, torch.SymInt, torch.SymBool):
        if "__format__" not in vars(kind):
            before.append((kind, "__format__", None))
            setattr(kind, "__format__", _made_up(_format, "__format__", number, asked))
    try:
        yield asked
    finally:
        for kind, name, method in before:
            if method is None:
                delattr(kind, name)
            else:
                setattr(kind, name, method)


def makes_text(tree: ast.AST, values: Mapping[str, Any]) -> bool:
    """
    True if a text may make texts of tensors elsewhere than where it shows or raises them; `values`
    are those of variables.
    """
    match tree:
        case ast.JoinedStr():
            return True
        case ast.Name(id=name):
            found = values.get(name, getattr(builtins, name, None))
            return any(found is maker for maker in MAKERS)
        case ast.Attribute(attr="format") | ast.BinOp(left=ast.Constant(value=str())):
            return True
        case ast.keyword(arg="file" | "stream"):
            return True
        case ast.If(test=ast.Call(func=ast.Name(id=name), args=args)) if name == SHOWS:
            return bool(args) or any(makes_text(node, values) for node in tree.orelse)
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"), keywords=[])) | ast.Raise():
            return False
        case ast.Assert(test=test):
            return makes_text(test, values)
        case ast.FunctionDef(name="__init__"):
            return False
    return any(makes_text(node, values) for node in ast.iter_child_nodes(tree))


def has_modules(variables: Mapping[str, Any]) -> bool:
    """True if something of a module beside the script is in its variables."""
    for value in variables.values():
        of = type(value) if isinstance(value, torch.nn.Module) else value
        name = of.__name__ if isinstance(of, ModuleType) else getattr(of, "__module__", None)
        if isinstance(of, FunctionType | type | ModuleType) and name != "__main__" and is_own(name):
            return True
    return False


def _format(value: Any, spec: str) -> str:
    return format(str(value), spec)


def _made_up(
    method: Callable[..., str], name: str, run: int, asked: list[Place | None]
) -> Callable[..., str]:
    def made_up(self: Any, *args: Any, **kwargs: Any) -> str:
        frame = _asking(sys._getframe(1))
        if frame is None or not _is_without_numbers(self):
            return method(self, *args, **kwargs)
        asked.append(place_of_frame(frame))
        number = _number(self, run)
        if name == "__format__":
            return format(NOT_FINITE[run] if number is None else number, *args)
        if isinstance(self, torch.Tensor):
            return NOT_FINITE[run] if number is None else f"tensor({number})"
        return str(number)

    return made_up


def _number(value: Any, run: int) -> Any:
    """A number for one of such a kind; None for a tensor of many."""
    if isinstance(value, torch.Tensor):
        if value.dim():
            return None
        kind = "b" if value.dtype == torch.bool else "if"[value.dtype.is_floating_point]
    else:
        kind = {torch.SymFloat: "f", torch.SymInt: "i"}.get(type(value), "b")
    return NUMBERS[kind][run]


def _is_without_numbers(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return isinstance(value, FakeTensor | FunctionalTensor)
    return not value.node.has_hint()


def _asking(frame: FrameType | None) -> FrameType | None:
    """The user's code that asks for a text, itself or by Python's own."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "__main__")
        if is_own(module):
            return frame
        if not isinstance(module, str) or not is_foreign(module) or module.startswith("torch"):
            return None
        frame = frame.f_back
    return None

"""
What a program asks of PyTorch's state and of tensors beside their elements: its flags, whether
there are gradients, and where tensors are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from operator import attrgetter
from types import TracebackType
from typing import Any, Self

import torch
from torch._subclasses.fake_tensor import FakeTensor

from dlc.frontend.source import ImportFailure
from dlc.frontend.state.ambient import FLAGS, GRADIENTS
from dlc.frontend.state.foreign import is_foreign

CALLS_CONSTANTS = "torch._dynamo.variables.functions"
"""The module of Dynamo that calls what is assumed to have a constant result."""
TABLES = (
    ("torch._dynamo.trace_rules", "get_torch_obj_rule_map"),
    ("torch._dynamo.variables.torch", "TorchInGraphFunctionVariable._get_handlers"),
)
"""Functions of Dynamo that make a table of functions when they are first called, and keep it."""
DEVICES = ("device", "get_device", "is_cpu", "is_cuda", "is_meta", "is_mps", "is_xpu")
"""Members of a tensor that tell where it is."""
REFUSED = ("is_leaf", "grad_fn", "grad")
"""Attributes of a tensor that tell how it was made, which a graph does not know."""


class Questions:
    """
    In this context `asked` holds the names in `FLAGS` that code of the user's asks for, and
    `for_devices` says whether it asks where a tensor is; `storages` are the placeholders of its
    graph whose memory it counts from the begin.
    """

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.for_devices = False
        self.storages: set[str] = set()
        self._stack = ExitStack()

    @property
    def for_gradients(self) -> bool:
        """True if it asks whether gradients are recorded or required."""
        return GRADIENTS in self.asked

    def __enter__(self) -> Self:
        self._stack.callback(_forget_tables, _tables())
        for name, flag in FLAGS.items():
            self._put(flag.owner, name, self._noting(name, flag.ask))
        required = vars(torch._C.TensorBase)["requires_grad"]
        noting = self._noting(GRADIENTS, required.__get__)
        self._put(torch.Tensor, "requires_grad", property(noting, required.__set__))
        for owner in (torch.Tensor, FakeTensor):  # which stands for a tensor while it is traced
            for name in DEVICES:
                if owner is torch.Tensor or name in vars(owner):
                    self._put(owner, name, self._locating(owner, name))
        for name in REFUSED:
            self._put(torch.Tensor, name, _refusing(name))
        self._put(torch.Tensor, "data", _unset_data())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _put(self, owner: Any, name: str, value: object) -> None:
        if name in vars(owner):
            self._stack.callback(setattr, owner, name, vars(owner)[name])
        else:
            self._stack.callback(delattr, owner, name)
        setattr(owner, name, value)

    def _noting(self, name: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*given: Any) -> Any:
            if _is_asked_by_user():
                self.asked.add(name)
            return ask(*given)

        return torch.compiler.assume_constant_result(noting)  # Dynamo, too, just calls it

    def _locating(self, owner: type[torch.Tensor], name: str) -> Any:
        """A member that tells where a tensor is, and that it was asked."""
        plain = vars(owner if name in vars(owner) else torch._C.TensorBase)[name]

        def tell(tensor: torch.Tensor, *given: Any) -> Any:
            if not self.for_devices and _is_asked_by_user():
                self.for_devices = True
            return plain(tensor, *given) if callable(plain) else plain.__get__(tensor)

        if callable(plain):
            return tell
        return property(tell, plain.__set__ if hasattr(plain, "__set__") else None)


def _tables() -> list[Any]:
    """Those of `TABLES` that are made."""
    modules = [(sys.modules.get(module), name) for module, name in TABLES]
    functions = [attrgetter(name)(module) for module, name in modules if module is not None]
    return [function for function in functions if function.cache_info().currsize]


def _forget_tables(before: list[Any]) -> None:
    """Makes Dynamo forget tables that hold what stood for the flags' functions meanwhile."""
    for function in _tables():
        if function not in before:
            function.cache_clear()


def _is_asked_by_user() -> bool:
    """
    True if what called the caller is no foreign code, or is Dynamo on behalf of the body of a loop,
    of which it does not say whose code it is.
    """
    name = sys._getframe(2).f_globals.get("__name__")
    return name == CALLS_CONSTANTS or not is_foreign(name)


def _refusing(name: str) -> property:
    """An attribute of tensors that only foreign code may read."""
    plain = vars(torch._C.TensorBase)[name]

    def refuse(tensor: torch.Tensor) -> Any:
        if _is_asked_by_user():
            raise ImportFailure(
                f"the program asks for the attribute '{name}' of a tensor, which tells how it was "
                "made and not what it is; ask for x.requires_grad, or do it outside of the program"
            )
        return plain.__get__(tensor)

    settable = hasattr(plain, "__set__")
    return property(refuse, plain.__set__ if settable else None, getattr(plain, "__delete__", None))


def _unset_data() -> property:
    """The attribute `data` of tensors, which only foreign code may set."""
    plain = vars(torch._C.TensorBase)["data"]

    def refuse(tensor: torch.Tensor, value: torch.Tensor) -> None:
        if _is_asked_by_user():
            raise ImportFailure(
                "the program sets the attribute 'data' of a tensor, which a graph does not know; "
                "write x.copy_(y) for other values in the same tensor"
            )
        plain.__set__(tensor, value)

    return property(plain.__get__, refuse)

"""Whatever binds a name that a program's code reads: calls after a change are as in eager."""

from __future__ import annotations

import argparse
import ast
import dis
import functools
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import dlc
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.ambient import FLAGS
from dlc.frontend.state.code_names import names_in_code
from dlc.frontend.state.free_variables import FreeVariables
from dlc.frontend.state.names_read import Bindings

X = torch.arange(6.0).view(2, 3) - 2
Program = Callable[..., torch.Tensor]
Change = Callable[[pytest.MonkeyPatch], Callable[[], None] | None]
"""Undone by the patch, or by what it gives."""

SCALE = 2.0
ACT: Any = torch.relu
ACTS: list[Any] = [torch.relu]
WEIGHT: Any = torch.ones(3)
WEIGHTS = [torch.ones(3)]
LAYERS: list[nn.Module] = [nn.ReLU()]
PARTIAL: Any = functools.partial(torch.mul, other=2.0)
FRACTION = Fraction(1, 2)
NAMES = ModuleType("names")
exec("FACTOR = 2.0\ndef scaled(x): return x * FACTOR", vars(NAMES))


class Times:
    factor = 2.0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor * SCALE

    @staticmethod
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * SCALE


class Fivefold(Times):
    factor = 5.0


TIMES: Any = Times()
FUNCTIONS: dict[str, Any] = {"a": lambda x: x + SCALE}
MIXED: list[Any] = [2.0, lambda x: x * SCALE]


def defaults(x: torch.Tensor, k: float = 2.0, *, m: float = 1.0, n: Any = (2.0,)) -> torch.Tensor:
    return x * k * m + n[0]


def later(x: torch.Tensor) -> torch.Tensor:
    try:
        return x * LATER  # type: ignore[name-defined]
    except NameError:
        return x


def of_function(x: torch.Tensor) -> torch.Tensor:
    return x * of_function.factor  # type: ignore[attr-defined]


of_function.factor = 2.0  # type: ignore[attr-defined]


def bound(name: str, value: object) -> Change:
    return lambda patch: patch.setitem(globals(), name, value)


def item(holder: Any, key: object, value: object) -> Change:
    def change(patch: pytest.MonkeyPatch) -> Callable[[], None]:
        was, holder[key] = holder[key], value
        return lambda: holder.__setitem__(key, was)

    return change


def attribute(holder: object, name: str, value: object) -> Change:
    return lambda patch: patch.setattr(holder, name, value, raising=False)


FUNCTION_CHANGES: dict[str, tuple[Program, Change]] = {
    "builtin": (lambda x: ACT(x), bound("ACT", torch.tanh)),
    "builtin in a list": (lambda x: ACTS[0](x), item(ACTS, 0, torch.tanh)),
    "function in a dict": (lambda x: FUNCTIONS["a"](x), item(FUNCTIONS, "a", torch.sin)),
    "its global": (lambda x: FUNCTIONS["a"](x), bound("SCALE", 3.0)),
    "number beside a function": (lambda x: MIXED[1](x) * MIXED[0], item(MIXED, 0, 7.0)),
    "its neighbour's global": (lambda x: MIXED[1](x) * MIXED[0], bound("SCALE", 3.0)),
    "tensor to none": (lambda x: x if WEIGHT is None else x + WEIGHT, bound("WEIGHT", None)),
    "tensor to number": (lambda x: x * WEIGHT, bound("WEIGHT", 4.0)),
    "tensor in a list": (lambda x: x * WEIGHTS[0], item(WEIGHTS, 0, torch.full((3,), 3.0))),
    "module in a list": (lambda x: LAYERS[0](x), item(LAYERS, 0, nn.Tanh())),
    "method of one in a list": (
        lambda x: LAYERS[0](x),
        attribute(LAYERS[0], "forward", torch.tanh),
    ),
    "partial": (lambda x: PARTIAL(x), bound("PARTIAL", functools.partial(torch.mul, other=5.0))),
    "fraction": (lambda x: x * float(FRACTION), bound("FRACTION", Fraction(3, 2))),
    "callable": (lambda x: TIMES(x), bound("TIMES", Fivefold())),
    "global of a callable": (lambda x: TIMES(x), bound("SCALE", 3.0)),
    "global of a static method": (lambda x: Times.scaled(x), bound("SCALE", 3.0)),
    "attribute of a class": (lambda x: x * Times.factor, attribute(Times, "factor", 3.0)),
    "method": (lambda x: Times.scaled(x), attribute(Times, "scaled", staticmethod(torch.sin))),
    "attribute of a function": (of_function, attribute(of_function, "factor", 3.0)),
    "function of a module": (lambda x: NAMES.scaled(x), attribute(NAMES, "scaled", torch.sin)),
    "global of that": (lambda x: NAMES.scaled(x), attribute(NAMES, "FACTOR", 3.0)),
    "defaults": (lambda x: defaults(x), attribute(defaults, "__defaults__", (9.0,))),
    "defaults by name": (lambda x: defaults(x), item(defaults.__kwdefaults__, "m", 9.0)),
    "own defaults": (defaults, attribute(defaults, "__defaults__", (9.0,))),
    "code": (lambda x: later(x), attribute(later, "__code__", (lambda x: x * 5).__code__)),
    "later": (later, bound("LATER", 3.0)),
    "built-in name": (lambda x: x * len((1, 2)), bound("len", lambda found: 5)),
}


@pytest.mark.parametrize("name", FUNCTION_CHANGES)
def test_what_a_function_reads_is_followed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, change = FUNCTION_CHANGES[name]
    undo: list[Callable[[], None]] = []
    check(
        program,
        lambda: undo.append(change(monkeypatch) or monkeypatch.undo),
        lambda: undo.pop()(),
    )


def check(program: Program, change: Callable[[], object], undo: Callable[[], object]) -> None:
    """A changed program is compiled once more, and not again when it is as it was."""
    compiled = dlc.compile(program, (X,), backend="host")
    before = program(X)
    torch.testing.assert_close(compiled(X), before)
    change()
    assert not torch.equal(program(X), before)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), program(X))
    undo()
    torch.testing.assert_close(compiled(X), before)
    assert len(compiled.variants) == 2


class Base(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * SCALE


class Derived(Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + 1


class Inherits(Base):
    pass


class Named(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self, "_par" + "t")(x)

    def _part(self, x: torch.Tensor) -> torch.Tensor:
        return x * SCALE


class Holding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.functions: Any = [lambda x: x * SCALE]
        self.times = Times()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.functions[0](self.times(x))


def scaled_result(module: nn.Module, given: Any, out: Any) -> Any:
    return out * SCALE


def hooked() -> nn.Module:
    module = nn.Linear(3, 3)
    module.register_forward_hook(scaled_result)
    return module


MODULE_CHANGES: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module], Change]]] = {
    "super": (Derived, lambda module: bound("SCALE", 3.0)),
    "getattr": (Named, lambda module: bound("SCALE", 3.0)),
    "attribute": (Holding, lambda module: bound("SCALE", 3.0)),
    "hook": (hooked, lambda module: bound("SCALE", 3.0)),
    "method by getattr": (Named, lambda module: attribute(Named, "_part", lambda self, x: x)),
    "method of an object": (Named, lambda module: attribute(module, "_part", lambda x: x * 7)),
    "forward": (Base, lambda module: attribute(Base, "forward", lambda self, x: x * 9)),
    "base": (Derived, lambda module: attribute(Base, "forward", lambda self, x: x * 9)),
    "heir": (Inherits, lambda module: attribute(Inherits, "forward", lambda self, x: x * 9)),
    "forward of an object": (Base, lambda module: attribute(module, "forward", lambda x: x * 9)),
    "of torch's": (nn.ReLU, lambda module: attribute(module, "forward", lambda x: x * 9)),
}


@pytest.mark.parametrize("name", MODULE_CHANGES)
def test_what_a_module_reads_is_followed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, change_of = MODULE_CHANGES[name]
    module = make()
    check(module, lambda: change_of(module)(monkeypatch), monkeypatch.undo)


def test_closures_of_one_code_are_two() -> None:
    def make(k: float) -> tuple[Program, Callable[[float], None]]:
        def times(x: torch.Tensor) -> torch.Tensor:
            return x * k

        def put(value: float) -> None:
            nonlocal k
            k = value

        return times, put

    (first, put_first), (second, put_second) = make(2.0), make(3.0)

    def program(x: torch.Tensor) -> torch.Tensor:
        return first(x) - second(x)

    compiled = dlc.compile(program, (X,), backend="host")
    for change in (lambda: put_first(10.0), lambda: put_second(20.0)):
        change()
        torch.testing.assert_close(compiled(X), program(X))


def test_a_decorator_s_variables_are_read() -> None:
    factors = [2.0]

    def scaled(function: Program) -> Program:
        @functools.wraps(function)
        def wrapper(x: torch.Tensor) -> torch.Tensor:
            return function(x) * factors[0]

        return wrapper

    @scaled
    def program(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    check(program, lambda: factors.__setitem__(0, 3.0), lambda: factors.__setitem__(0, 2.0))


def test_a_backward_has_the_methods_of_its_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Derived()
    weight = torch.ones(3)

    def program(x: torch.Tensor) -> torch.Tensor:
        return module(x) * (0 if weight is None else weight)

    compiled = dlc.compile(program, (X,), backend="host")
    x = X.clone().requires_grad_()
    result = compiled(x)
    monkeypatch.setattr(Base, "forward", lambda self, x: x * 9)
    monkeypatch.setattr(module, "forward", lambda x: x * 7)
    weight = None
    (gradient,) = torch.autograd.grad(result.sum(), x)
    torch.testing.assert_close(gradient, torch.full_like(X, SCALE))
    assert weight is None
    assert module(X).equal(X * 7)


def test_one_tensor_under_one_name_in_two_places() -> None:
    weight = torch.ones(3)

    def make(weight: torch.Tensor) -> tuple[Program, Callable[[torch.Tensor], None]]:
        def put(value: torch.Tensor) -> None:
            nonlocal weight
            weight = value

        return lambda x: x * weight, put

    (first, put), (second, _) = make(weight), make(weight)

    def program(x: torch.Tensor) -> torch.Tensor:
        return first(x) + second(x)

    check(program, lambda: put(torch.zeros(3)), lambda: put(weight))


def test_a_container_that_holds_itself() -> None:
    found: list[Any] = [2.0]
    found.append(found)
    compiled = dlc.compile(lambda x: x * found[1][0], (X,), backend="host")
    torch.testing.assert_close(compiled(X), X * 2)
    assert len(compiled.variants) == 1


def test_a_value_that_is_equal_is_looked_at_once() -> None:
    scale = 1000.5

    def program(x: torch.Tensor) -> torch.Tensor:
        return x * scale

    free = FreeVariables(program)
    scale = float("1000.5")
    assert free.hold()
    assert free._are_same is not None
    assert free._are_same()
    scale = 3.0
    assert not free.hold()


def test_foreign_code_is_not_walked() -> None:
    names = {binding.name for binding in Bindings().reach(lambda x: torch.nn.functional.relu(x))}
    assert names == {"torch", "__code__", "__defaults__", "__kwdefaults__"}


@pytest.mark.parametrize("name", ["is_leaf", "grad_fn", "grad"])
def test_how_a_tensor_was_made_is_no_question(name: str) -> None:
    with pytest.raises(ImportFailure, match=f"asks for the attribute '{name}' of a tensor"):
        dlc.compile(lambda x: x if getattr(x * 1, name) is None else x * 2, (X,), backend="host")
    assert name not in vars(torch.Tensor)


def test_other_memory_under_a_tensor_is_refused() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.data = y
        return x + 1

    with pytest.raises(ImportFailure, match="sets the attribute 'data' of a tensor"):
        dlc.compile(program, (X, X.clone()), backend="host")
    assert "data" not in vars(torch.Tensor)


@pytest.mark.parametrize("name", [name for name in FLAGS if name != "is_inference_mode_enabled"])
def test_flags_that_are_asked_for_are_followed(name: str) -> None:
    flag = FLAGS[name]
    ask = flag.ask

    def by_attribute(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if getattr(flag.owner, name)() else x * 3

    def by_name(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if ask() else x * 3

    was = ask()
    for program in (by_attribute, by_name):
        check(program, lambda: flag.set(not was), lambda: flag.set(was))


def test_inference_mode_is_followed() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch.is_inference_mode_enabled() else x * 3

    compiled = dlc.compile(program, (X,), backend="host")
    with torch.inference_mode():
        torch.testing.assert_close(compiled(X), X * 2)
    torch.testing.assert_close(compiled(X), X * 3)
    assert len(compiled.variants) == 2


def test_dynamo_learns_no_stand_ins() -> None:
    """Its tables of functions may be made while a loop is imported, and are asked afterwards."""
    script = """
import torch, dlc
from torch._higher_order_ops.scan import scan

def pad(x):
    return torch.nn.functional.pad(x, (1, 1), "reflect")

def step(c, x):
    return c + pad(x)[:, 1:-1], c * 1

x = torch.randn(3, 2, 4)
dlc.compile(lambda x: scan(step, x[0], x)[0], (x,), backend="host")(x)
print(torch.compile(pad, backend="eager", fullgraph=True)(x).shape)
"""
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout == "torch.Size([3, 2, 6])\n", ran.stderr[-2000:]


ASKING = ("getattr", "hasattr", "attrgetter", "vars", "__dict__")
"""What asks for attributes by texts."""


def names_by_dis(code: CodeType) -> tuple[set[str], set[str]]:
    """Globals and attributes that code reads, by Python's own disassembler."""
    globals: set[str] = set()
    attributes: set[str] = set()
    before: Any = None
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            globals.add(instruction.argval)
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            attributes.add(instruction.argval)
        elif instruction.opname == "MATCH_CLASS":
            attributes.update((*before.argval, "__match_args__"))
        before = instruction
    texts = [constant for constant in code.co_consts if isinstance(constant, str)]
    if not (globals | attributes).isdisjoint(ASKING):
        attributes.update(p for text in texts for p in text.split(".") if p.isidentifier())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            more = names_by_dis(constant)
            globals |= more[0]
            attributes |= more[1]
    return globals, attributes


@pytest.mark.parametrize("module", [argparse, ast, dis, functools, nn.functional])
def test_names_in_bytecode(module: ModuleType):
    assert module.__file__ is not None
    code = compile(Path(module.__file__).read_text(), module.__file__, "exec")
    globals, attributes, called = names_in_code(code)
    assert (set(globals), set(attributes)) == names_by_dis(code)
    assert called < set(attributes)

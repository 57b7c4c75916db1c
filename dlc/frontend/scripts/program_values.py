"""What a program has of a script's values: its inputs, what it holds, and the names of these."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, count
from types import FunctionType
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from dlc.frontend.aten.numbers_of_data import of_numbers
from dlc.frontend.scripts.parts import Part, attribute, load, names_in
from dlc.frontend.scripts.script_functions import ScriptFunctions
from dlc.frontend.scripts.script_live import Live
from dlc.frontend.scripts.script_objects import ScriptObjects
from dlc.frontend.scripts.script_runs import ScriptRuns
from dlc.frontend.scripts.script_sizes import ScriptSizes
from dlc.frontend.scripts.variables import changed_around
from dlc.frontend.state.binding import Binding
from dlc.frontend.state.function_module import held_by
from dlc.frontend.state.random import RandomTensors, tensors_in

SELF = "_program"
KEPT = "_input_"
"""What begins the name of an input's second variable, for when the program assigns its first."""


@dataclass
class ProgramValues:
    """
    The values of a script's variables, and which of them the program has so far: random tensors as
    inputs of a module; modules, parameters and other tensors as its attributes; others as constants
    that the code mentions.
    """

    filename: str
    tree: ast.Module
    scope: dict[str, Any]
    random: RandomTensors
    sizes: ScriptSizes
    inputs: dict[str, Any] = field(default_factory=dict)
    examples: dict[str, Any] = field(default_factory=dict)
    """What the text has of each input: the tensor that may require a gradient."""
    held: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    """The known values that are neither, by the names that the code uses for them."""
    computed: set[str] = field(default_factory=set)
    """The variables that the program has computed where the lifter stands."""
    assigned: set[str] = field(default_factory=set)
    """All variables that the program has assigned so far."""
    shared: dict[str, Any] = field(default_factory=dict)
    """Containers that the program reads and changes as they are: `SharedContainers`."""
    counted: dict[Hashable, Binding] = field(default_factory=dict)
    """Where functions count what nothing computes with."""
    inner: dict[str, Any] = field(default_factory=dict)
    """The variables of functions whose statements stand for their calls."""
    kept: set[str] = field(default_factory=set)
    """The inputs that are used after the program has assigned their variables."""
    inline: Callable[[ast.Call], ast.Name | None] | None = None
    """Makes the statements of a call the program's; gives the variable that has what it returns."""
    live: Live = field(default_factory=Live)
    """What was there before the program, which changes it and computes with it."""
    changes: bool = False
    """True for a text that may have such."""
    is_late: Callable[[ast.AST], bool] = field(init=False)
    """True for a piece of text that must not run before what the program has of statements."""
    acts: Callable[[ast.AST], bool] = field(init=False)
    """True for a piece of text in which something goes on or changes."""
    functions: ScriptFunctions = field(init=False)
    """Makes functions of the script that read its tensors the program's."""
    objects: ScriptObjects = field(init=False)
    """Makes objects of the script the program's."""

    def __post_init__(self) -> None:
        self.globals = self.scope
        """The variables that functions of the script see."""

    @cached_property
    def runs(self) -> ScriptRuns:
        """What the text computes and reads when pieces of it run."""
        return ScriptRuns(self.filename, self.random)

    @cached_property
    def reserved(self) -> set[str]:
        """The names in the text, which inputs without a name of their own do not get."""
        return names_in(self.tree)

    @cached_property
    def changed_within(self) -> set[str]:
        """The variables of the script whose values its functions may change in place."""
        functions = (n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef | ast.Lambda))
        return {name for function in functions for name in changed_around(function)}

    @cached_property
    def assigned_within(self) -> set[str]:
        """The variables of the script that its functions may assign."""
        declared = (n for n in ast.walk(self.tree) if isinstance(n, ast.Global | ast.Nonlocal))
        return {name for node in declared for name in node.names}

    def is_input(self, value: Any) -> bool:
        """True if a value holds random numbers and is no parameter."""
        return self.random.holds(value) and not isinstance(value, torch.nn.Parameter)

    def is_data(self, value: Any) -> bool:
        """True if a value holds random numbers, or is an object that does."""
        return self.is_input(value) or self.objects.holds_random(value)

    def is_constant(self, part: Part) -> bool:
        """True if neither random tensors nor modules go into a part."""
        if not part.known:
            return part.now is not None
        if part.sized:
            return False
        owner = owner_of(part.value)
        if self.functions.reads_data(part.value):
            return False
        held = any(is_module(v) or isinstance(v, torch.nn.Parameter) for v in (part.value, owner))
        random = part.fresh or self.is_data(part.value) or self.is_data(owner)
        return not held and not random

    def constant(self, value: Any, node: ast.expr) -> ast.Name:
        """A name for a value whatever becomes of the text's variables, in place of `node`."""
        value = of_numbers(value)
        name = next((n for n, v in self.values.items() if v is value), None)
        if name is None:
            name = f"_value_{len(self.values)}"
            self.values[name] = value
        return ast.copy_location(load(name), node)

    def use(self, part: Part) -> ast.expr:
        """The code of a part within the program: inputs by name, what is held as an attribute."""
        value = part.value
        if not part.known:
            return part.code
        if part.sized:
            return self.sizes.code(part)
        self.sizes.check_function(value, part.code)
        if part.inside_module and part.build is not None:
            return part.build()
        if self.objects.is_own(value):
            if part.build is not None and self.objects.is_own(part.base):
                return part.build()
            if (name := self.name_of(value)) is None or name not in self.computed:
                self.objects.bring(value, part.code)
                name = self.name_of(value)
            assert name is not None
            return ast.copy_location(load(name), part.code)
        if isinstance(value, FunctionType):
            if (defined := self.defined(value)) is not None:
                return ast.copy_location(defined, part.code)
            for name, (free, _) in held_by(value).items():
                self.hold(free, name)
            return part.code
        if is_module(value) or isinstance(value, torch.nn.Parameter):
            return attribute(SELF, self.hold(value, part.name))
        if self.random.holds(value):
            return ast.copy_location(load(self.input(value, part.name)), part.code)
        if isinstance(value, torch.Tensor):
            return attribute(SELF, self.hold(value, part.name))
        owner = owner_of(value)
        if part.build is not None and isinstance(owner, (torch.nn.Module, torch.Tensor)):
            return part.build()
        if isinstance(owner, torch.Tensor) and self.is_input(owner):
            made = attribute(self.input(owner, self.name_of(owner)), value.__name__)
            return ast.copy_location(made, part.code)
        if isinstance(value, partial) and self.is_input([value.args, value.keywords]):
            return self._partial(value, part.code)
        return part.code

    def _partial(self, value: partial[Any], at: ast.expr) -> ast.expr:
        """The code of a partial function of inputs."""

        def use(inner: Any) -> ast.expr:
            return self.use(Part(self.constant(inner, at), True, inner, name=self.name_of(inner)))

        args = [use(inner) for inner in (value.func, *value.args)]
        named = [ast.keyword(name, use(inner)) for name, inner in value.keywords.items()]
        return ast.copy_location(ast.Call(self.constant(partial, at), args, named), at)

    def defined(self, function: object) -> ast.Name | None:
        """A function's name in the program, if it is one that reads the script's tensors."""
        if self.inline is None or not isinstance(function, FunctionType):
            return None
        return self.functions.defined(function)

    def hold(self, value: Any, name: str | None) -> str:
        """The attribute of the program that is `value`."""
        known = next((n for n, v in self.held.items() if v is value), None)
        if known is None:
            known = self.unused(name or type(value).__name__.lower(), avoid=dir(torch.nn.Module))
            self.held[known] = value
        return known

    def input(self, value: Any, name: str | None) -> str:
        """The name in the program of the input that `value` is the example of."""
        known = next((n for n, v in self.examples.items() if v is value), None)
        if known is None:
            if name is not None:
                known = self.unused(name, avoid=self.assigned)
            else:
                known = self.unused(*"xyzuvwabc", avoid=self.reserved)
            self.examples[known] = value
            self.inputs[known] = _without_grad(value)
        if known in self.computed:
            self.kept.add(known)
            return KEPT + known
        return known

    def name_of(self, value: object) -> str | None:
        """The variable of the script that has a value."""
        return next((name for name, known in self.scope.items() if known is value), None)

    def unused(self, *names: str, avoid: Iterable[str] = ()) -> str:
        """The first of some names, or else the first one with a number, that is not in use."""
        taken = {*self.inputs, *self.held, *avoid}
        numbered = (n for i in count(2) if (n := f"{names[0]}{i}") not in self.reserved)
        return next(name for name in chain(names, numbered) if name not in taken)


def has_tensor(value: object) -> bool:
    """True if a value is a tensor, or a container with one."""
    return next(tensors_in(value), None) is not None


def is_module(value: object) -> bool:
    return isinstance(value, torch.nn.Module)


def owner_of(value: object) -> object:
    """The object that a bound method belongs to, else None."""
    return getattr(value, "__self__", None) if callable(value) else None


def _without_grad(value: Any) -> Any:
    def detached(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach() if tensor.requires_grad else tensor

    return tree_map_only(torch.Tensor, detached, value)

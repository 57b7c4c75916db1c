"""Expressions of a script, taken apart into a program and its inputs."""

from __future__ import annotations

import ast
import copy
import inspect
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any

import torch

from dlc.frontend.hidden_state import places_of
from dlc.frontend.mementos import Memento
from dlc.frontend.parts import (
    Part,
    load,
    names_in,
    place_at,
    rename,
)
from dlc.frontend.process_state import ProcessState
from dlc.frontend.program_values import SELF, ProgramValues, has_tensor, is_module, owner_of
from dlc.frontend.random import storage_key, tensors_in
from dlc.frontend.script_runs import UNSEEN
from dlc.frontend.source import ImportFailure

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

DISPLAYS = (ast.Tuple, ast.List, ast.Dict, ast.Set)


GIVEN = (
    "what this gives is changed in place when it is called again, and is not what it was then; "
    "return a copy"
)
KEPT_NUMBERS = (
    "a module keeps what is computed here of the program's inputs, whatever they are; compute it "
    "in its forward"
)


@dataclass
class Lifter(ProgramValues):
    """
    Takes expressions apart whose names are in `scope`: what is known beforehand is computed once,
    now, and the rest is code for the module's forward, with the line numbers of the text.
    """

    @cached_property
    def process(self) -> ProcessState:
        """What the text asks or changes of the process."""
        return ProcessState(self.tree)

    def memento(self, values: Iterable[Any]) -> Memento:
        """What is in some values, and in the process, now."""
        held = self.process.held(self.scope).values()
        return Memento((*values, *held), self.process.states(self.scope).values())

    def places_of(self, values: Iterable[Any]) -> list[Callable[[], Hashable]]:
        """What tells whether something goes on in some values, or in the process."""
        return places_of(values, self.process.states(self.scope).values())

    def refuse(self, expression: ast.expr, part: Part) -> None:
        place = place_at(self.filename, expression)
        if isinstance(part.value, torch.nn.Module):
            what = f"a module, {type(part.value).__name__}; call it with its inputs"
        elif (computed := self.runs.place_of_computed(part.value)) is not None:
            raise ImportFailure(UNSEEN, computed)
        elif has_tensor(part.value):
            what = "only tensors that are made at random; apply an operation to them"
        else:
            what = f"a value of type {type(part.value).__name__}"
        raise ImportFailure(
            f"expected the last expression to compute tensors from tensors, found {what}", place
        )

    @cached_property
    def _visited(self) -> dict[ast.expr, Part]:
        """Expressions that have been visited, whose outer ones are next."""
        return {}

    def visit(self, node: ast.expr, outermost: bool = False, assigned: bool = False) -> Part:
        """
        `outermost` marks the program's result, which it computes even if it is a view; `assigned`
        what a variable is given: a list of tensors that are there is there as well.
        """
        if node in self._visited:
            return self._visited.pop(node)
        if isinstance(node, ast.Name):
            if node.id in self.computed:
                return Part(node)
            if node.id in self.scope:
                value = self.scope[node.id]
                part = Part(self.constant(value, node), True, value, name=node.id)
                if node.id in self.sizes.builds:
                    part.sized, part.build = True, self.sizes.builds[node.id]
                return part
            return self.evaluate(node, node, None)
        if isinstance(node, OPAQUE):
            return self.visit_opaque(node)
        if isinstance(node, ast.IfExp | ast.BoolOp):
            return self.visit_choice(node, outermost)
        return self.visit_parts(node, outermost, assigned)

    def visit_choice(self, node: ast.IfExp | ast.BoolOp, outermost: bool) -> Part:
        """What is chosen by what is known; the rest is not evaluated."""
        first = node.test if isinstance(node, ast.IfExp) else node.values[0]
        part = self.visit(first)
        if not part.known or part.sized:
            self._visited[first] = part
            return self.visit_parts(node, outermost)
        if isinstance(node, ast.IfExp):
            return self.visit(node.body if part.value else node.orelse, outermost)
        if len(node.values) == 1 or bool(part.value) == isinstance(node.op, ast.Or):
            return part
        rest = ast.copy_location(ast.BoolOp(node.op, node.values[1:]), node)
        return self.visit(rest, outermost)

    def visit_parts(self, node: ast.expr, outermost: bool = False, assigned: bool = False) -> Part:
        """As `visit`, of an expression all of whose parts are evaluated."""
        listed = assigned and isinstance(node, DISPLAYS)
        reached = self._reached(node) if isinstance(node, ast.Call) else []
        places = self.places_of(reached)
        stood = [place() for place in places]
        children = {name: self.visit_field(field, listed) for name, field in ast.iter_fields(node)}
        parts = [part for child in children.values() for part in _parts(child)]
        static = all(part.known for part in parts)
        if not static or not (listed or self.is_static(node, children, parts)):
            constant = all(map(self.is_constant, parts))
            now = self.rebuild(node, children, _now) if constant else None
            return Part(self.rebuild(node, children, self.use), now=now)
        if outermost and (any(p.fresh for p in parts) or isinstance(node, ast.Starred)):
            return Part(self.rebuild(node, children, self.use))

        def build() -> ast.expr:
            return self.rebuild(node, children, self.use)

        state, count, reads = torch.get_rng_state(), self.random.count, len(self.runs.read_at)
        before = self._before_call(parts) if isinstance(node, ast.Call) else None
        part = self.evaluate(node, self.rebuild(node, children, lambda p: p.code), build)
        if self.random.count > count and isinstance(part.value, torch.nn.Module):
            if any(self.is_input(p.value) for p in parts):
                raise ImportFailure(KEPT_NUMBERS, place_at(self.filename, node))
        if before is not None and self.random.count > count and before.restore():
            del self.runs.read_at[reads:]
            return Part(build())
        stands = stood == [place() for place in places]
        if not stands and self.gives_any(part.value, reached):
            raise ImportFailure(GIVEN, place_at(self.filename, node))
        if isinstance(node, ast.Call) and self.random.computed(part.value) and stands:
            if (again := self.computed_again(node, children["func"][1].value, state)) is not None:
                del self.runs.read_at[reads:]
                return Part(again)
        # Tensors that are computed deterministically are left to the program.
        stays = part.fresh or not stands
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            _, base = children["value"]
            part.fresh = part.fresh and base.fresh
            part.inside_module, part.base = is_module(base.value), base.value
            of_input = isinstance(node, ast.Subscript) or self.is_input(base.value)
            self.sizes.note(node, part, parts, base.name if of_input else "")
            layout = not isinstance(node, ast.Attribute) or node.attr in PART_OF_CREATION
            stays = (part.fresh and layout) or not isinstance(base.value, torch.Tensor)
        else:
            self.sizes.note(node, part, parts, None)
        if has_tensor(part.value) and not stays:
            constant = all(map(self.is_constant, (*parts, part))) and not part.sized
            return Part(build(), now=part.code if constant else None)
        part.name = self.path(node, children, part)
        return part

    def _reached(self, call: ast.Call) -> list[Any]:
        """What may go on in a call, and would go on again if it ran again."""
        named = (self.scope[name] for name in names_in(call) if name in self.scope)
        return self.functions.reached(named)

    def gives_any(self, value: Any, reached: Sequence[Any]) -> bool:
        """True if a value has a tensor in it that was changed in place and is held elsewhere."""
        held = [t for t in reached if isinstance(t, torch.Tensor) and t._version]
        keys = {key for t in held if (key := storage_key(t)) is not None}
        return any(storage_key(leaf) in keys for leaf in tensors_in(value))

    def _before_call(self, parts: Sequence[Part]) -> Memento | None:
        """What was before a call of what holds random numbers, or that is given such."""
        values = [p.value for p in parts]
        return self.memento(values) if any(map(self.is_data, values)) else None

    def computed_again(
        self, call: ast.Call, callee: object, state: torch.Tensor
    ) -> ast.expr | None:
        """
        A call's code for the program, if it computes something of tensors that it makes at random:
        the variable that holds what a function of the script returns, or the text itself of a
        lambda and of built-in functions. Tensors are drawn from `state`.
        """
        if self.inline is None:
            return None
        after = torch.get_rng_state()
        torch.set_rng_state(state)
        if (name := self.inline(call)) is not None:
            return name
        if self.is_repeatable(call, callee):
            return self.within_program(call)
        torch.set_rng_state(after)
        return None

    def is_repeatable(self, call: ast.Call, callee: object) -> bool:
        """True if a call draws the same again: no iterator goes on in it."""
        names = names_in(call)
        if isinstance(callee, FunctionType):
            if callee.__code__.co_filename != self.filename or callee.__name__ != "<lambda>":
                return False
            names |= {*callee.__code__.co_names}
        elif getattr(callee, "__module__", None) != "builtins":
            return False
        return not any(hasattr(self.scope.get(name), "__next__") for name in names)

    @contextmanager
    def whole_calls(self) -> Iterator[None]:
        """Calls within are not taken apart."""
        inline, self.inline = self.inline, None
        yield
        self.inline = inline

    def visit_field(self, value: Any, assigned: bool = False) -> Any:
        if isinstance(value, ast.Starred):
            return (lambda code: ast.Starred(code, ast.Load())), self.visit(value.value)
        if isinstance(value, ast.keyword):
            return (lambda code: ast.keyword(value.arg, code)), self.visit(value.value)
        if isinstance(value, ast.expr):
            return (lambda code: code), self.visit(value, assigned=assigned)
        if isinstance(value, list):
            return [self.visit_field(item, assigned) for item in value]
        return value

    def is_static(self, node: ast.expr, children: dict[str, Any], parts: Sequence[Part]) -> bool:
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

    def path(self, node: ast.expr, children: dict[str, Any], part: Part) -> str | None:
        """A name for what a variable leads to: `mlp.gate` is `mlp_gate`, `m.eval()` is `m`."""
        match node:
            case ast.Attribute(attr=attr) if children["value"][1].name is not None:
                return f"{children['value'][1].name}_{attr}"
            case ast.Subscript() if children["value"][1].name is not None:
                index = re.sub(r"\W+", "_", str(children["slice"][1].value)).strip("_")
                return f"{children['value'][1].name}_{index}"
            case ast.Call() if isinstance(part.value, torch.nn.Module):
                return self.name_of(part.value)
        return None

    def visit_opaque(self, node: ast.expr) -> Part:
        """A lambda is a function; a comprehension over tensors or modules is for the program."""
        names = names_in(node)
        computed = names & self.computed
        known = {n: self.scope[n] for n in sorted(names - computed) if n in self.scope}
        is_own, is_changing = self.objects.is_own, self.objects.is_changing
        held = {n: v for n, v in known.items() if is_module(v) or has_tensor(v)}
        found = held | {n: v for n, v in known.items() if is_own(v)}
        # An iterator that the program does not have yet goes on here and now, as in a call.
        later = isinstance(node, ast.GeneratorExp) and bool(found)
        begins = later or bool(held) or any(map(is_changing, found.values()))
        if not computed and (isinstance(node, ast.Lambda) or not begins):
            places = [] if isinstance(node, ast.Lambda) else self.places_of(found.values())
            stood = [place() for place in places]
            state, count, reads = torch.get_rng_state(), self.random.count, len(self.runs.read_at)
            part = self.evaluate(node, node, None)
            if isinstance(node, ast.Lambda):
                self.functions.ran(node, part.value)
            if self.inline is None or not self.random.computed(part.value, count):
                return part
            if stood != [place() for place in places]:
                return part
            del self.runs.read_at[reads:]
            torch.set_rng_state(state)
        data = computed or any(self.random.holds(v) or is_own(v) for v in found.values())
        now = None if data else copy.deepcopy(node)
        return Part(self.within_program(node), now=now)

    def within_program(self, node: ast.expr) -> ast.expr:
        """The text of an expression within the program, whatever becomes of the variables in it."""
        self.sizes.check_text(node, node)
        names = sorted(names_in(node) - self.computed)
        for name, value in [(n, self.scope[n]) for n in names if n in self.scope]:
            if self.is_input(value):
                rename(node, name, self.input(value, name))
                continue
            if self.objects.is_own(value):
                self.objects.bring(value, node)
                continue
            if (defined := self.defined(value)) is not None:
                rename(node, name, defined.id)
                continue
            if isinstance(value, torch.nn.Module | torch.Tensor):
                self.hold(value, name)
            rename(node, name, self.constant(value, node).id)
        return node

    def evaluate(
        self, node: ast.expr, code: ast.expr, build: Callable[[], ast.expr] | None
    ) -> Part:
        """Computes `code`, whose names stand for known values, once; `node` is its source."""
        tree = ast.fix_missing_locations(ast.copy_location(ast.Expression(code), node))
        with self.runs.noting(node):
            # A lambda looks at the script's variables as they are when it is called.
            value = eval(compile(tree, self.filename, "eval"), self.scope, {**self.values})
        fresh = self.random.holds(value) or self.random.holds(owner_of(value))
        if isinstance(node, ast.Constant):
            return Part(node, True, value)
        return Part(self.constant(value, node), True, value, fresh, build=build)

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


def _parts(child: Any) -> list[Part]:
    match child:
        case list():
            return [part for item in child for part in _parts(item)]
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


def _now(part: Part) -> ast.expr:
    """The code that computes a constant part before the program runs."""
    return part.code if part.now is None else part.now

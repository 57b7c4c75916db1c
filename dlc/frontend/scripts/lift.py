"""Expressions of a script, taken apart into a program and its inputs."""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from dlc.frontend.scripts.calls_run import CallsRun
from dlc.frontend.scripts.parts import Part, names_in, place_at, replaced
from dlc.frontend.scripts.program_values import has_tensor, is_module
from dlc.frontend.scripts.script_runs import GIVEN, KEPT_NUMBERS, UNSEEN
from dlc.frontend.scripts.subexpressions import (
    PART_OF_CREATION,
    code_now,
    is_static,
    parts_of,
    rebuild,
)
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.dotted import value_of

OPAQUE = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)
"""Expressions that bind names: they are evaluated as a whole, or left as they are."""

DISPLAYS = (ast.Tuple, ast.List, ast.Dict, ast.Set)


@dataclass
class Lifter(CallsRun):
    """
    Takes expressions apart whose names are in `scope`: what is known beforehand is computed once,
    now, and the rest is code for the module's forward, with the line numbers of the text.
    """

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
        if self._makes_parameter(node):
            return self.evaluate(node, node, None)
        match node:
            case ast.IfExp(test=first) | ast.BoolOp(values=[first, *_]):
                return self.visit_choice(node, first, outermost)
            case ast.Compare(ops=[_, _, *_]):
                return self.visit_chain(node, outermost)
        return self.visit_parts(node, outermost, assigned)

    def _makes_parameter(self, node: ast.expr) -> bool:
        """True for a parameter of what is made in its call: its numbers are its own."""
        match node:
            case ast.Call(func=made) if value_of(made, self.scope) is torch.nn.Parameter:
                names = names_in(node)
                data = any(self.is_data(self.scope.get(name)) for name in names)
                return names.isdisjoint(self.computed) and not data and not self.is_late(node)
        return False

    def visit_choice(self, node: ast.IfExp | ast.BoolOp, first: ast.expr, outermost: bool) -> Part:
        """What is chosen by what is known; the rest is not evaluated."""
        part = self.visit(first)
        if not part.known or part.sized:
            return self._visit_undecided(node, {first: part}, outermost)
        if isinstance(node, ast.IfExp):
            return self.visit(node.body if part.value else node.orelse, outermost)
        if bool(part.value) == isinstance(node.op, ast.Or):
            return part
        _, *rest = node.values
        others = rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(node.op, rest), node)
        return self.visit(others, outermost)

    def visit_chain(self, node: ast.Compare, outermost: bool) -> Part:
        """`a < b < c`, which goes on to `c` only where `a < b`."""
        second = node.comparators[0]
        left, middle = self.visit(node.left), self.visit(second)
        visited = {node.left: left, second: middle}
        if not (left.known and middle.known) or left.sized or middle.sized:
            return self._visit_undecided(node, visited, outermost)
        self._visited |= visited
        begin = ast.copy_location(ast.Compare(node.left, node.ops[:1], [second]), node)
        part = self.visit(begin)
        if not part.known or part.sized:
            return self._visit_undecided(node, visited, outermost)
        if not part.value:
            return part
        self._visited[second] = middle
        rest = ast.Compare(second, node.ops[1:], node.comparators[1:])
        return self.visit(ast.copy_location(rest, node), outermost)

    def _visit_undecided(
        self, node: ast.expr, visited: dict[ast.expr, Part], outermost: bool
    ) -> Part:
        """
        A choice that is made when the program runs, some of whose parts have been visited; where
        something goes on in the rest, that is for the program, too.
        """
        rest = [n for n in ast.iter_child_nodes(node) if n not in visited]
        if any(map(self.acts, rest)):
            codes = {n: self.use(part) for n, part in visited.items()}
            return Part(self.within_program(replaced(node, codes)))
        self._visited |= visited
        return self.visit_parts(node, outermost)

    def visit_parts(self, node: ast.expr, outermost: bool = False, assigned: bool = False) -> Part:
        """As `visit`, of an expression all of whose parts are evaluated."""
        listed = assigned and isinstance(node, DISPLAYS)
        reached = self._reached(node) if isinstance(node, ast.Call) else []
        places = self.places_of(reached)
        stood = [place() for place in places]
        late = not isinstance(node, ast.Constant) and self.is_late(node)
        children = {name: self.visit_field(field, listed) for name, field in ast.iter_fields(node)}
        parts = [part for child in children.values() for part in parts_of(child)]
        static = all(part.known for part in parts)
        if not static or not (listed or is_static(node, children, parts)):
            constant = all(map(self.is_constant, parts))
            now = rebuild(node, children, code_now) if constant else None
            return Part(rebuild(node, children, self.use), now=now)
        if late and not isinstance(node, DISPLAYS):
            return Part(rebuild(node, children, self.use))
        if outermost and (any(p.fresh for p in parts) or isinstance(node, ast.Starred)):
            return Part(rebuild(node, children, self.use))

        def build() -> ast.expr:
            return rebuild(node, children, self.use)

        state, count, reads = torch.get_rng_state(), self.random.count, len(self.runs.read_at)
        before = self._before_call(parts) if isinstance(node, ast.Call) else None
        told = self._told(reached) if self.inline is not None and reached else None
        try:
            part = self.evaluate(node, rebuild(node, children, lambda p: p.code), build)
        except ImportFailure as error:
            if isinstance(node, ast.Call) and self.reads_shared(error):
                return Part(rebuild(node, children, self.use))
            raise
        if self.random.count > count and isinstance(part.value, torch.nn.Module):
            if any(self.is_input(p.value) for p in parts):
                raise ImportFailure(KEPT_NUMBERS, place_at(self.filename, node))
        if before is not None and self.random.count > count and before.restore():
            del self.runs.read_at[reads:]
            return Part(build())
        stands = stood == [place() for place in places]
        if not stands and self.gives_any(part.value, reached):
            raise ImportFailure(GIVEN, place_at(self.filename, node))
        computed = self.random.computed(part.value)
        if self.random.reads_compute and len(self.runs.read_at) > reads:
            computed = computed or self.random.count > count
        if isinstance(node, ast.Call) and computed and stands:
            if told is not None and not told.restore():
                return part
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

    def reads_shared(self, error: ImportFailure) -> bool:
        """True if what was called has read what the program changes, which is not there yet."""
        why = error.__cause__
        return isinstance(why, NameError) and why.name in self.shared

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
        is_lambda = isinstance(node, ast.Lambda)
        if not computed and (is_lambda or not (begins or self.is_late(node))):
            places = [] if is_lambda else self.places_of(found.values())
            stood = [place() for place in places]
            state, count, reads = torch.get_rng_state(), self.random.count, len(self.runs.read_at)
            part = self.evaluate(node, node, None)
            if is_lambda:
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

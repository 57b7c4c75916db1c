"""The variables of a script that are the program's: what it computes, and what it may change."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Collection, Iterator
from typing import Any, NoReturn

import torch
from torch.utils._pytree import tree_leaves

from dlc.frontend.lift import Lifter
from dlc.frontend.parts import assignment, load, names_in, place_in
from dlc.frontend.source import ImportFailure
from dlc.frontend.variables import is_name

CONTAINERS = (list, dict, set)


class ProgramVariables:
    """Tells them from the script's own, and makes what was there a variable of the program."""

    def __init__(
        self,
        lifter: Lifter,
        keep: Callable[[ast.stmt, ast.stmt], None],
        seen: Collection[str],
    ) -> None:
        """
        `keep` makes a statement, which stands for another one, the program's next; functions of
        the script look at the variables in `seen`.
        """
        self.lifter = lifter
        self.keep = keep
        self.seen = seen

    def add(self, names: set[str]) -> None:
        self.lifter.computed |= names
        self.lifter.assigned |= names

    def computes(self, node: ast.AST) -> bool:
        """True if a piece of text mentions an input or what the program computed."""
        scope, names = self.lifter.scope, names_in(node)
        if names & self.lifter.computed:
            return True
        return any(self.lifter.is_input(scope.get(n)) for n in names)

    def is_changeable(self, name: str | None) -> bool:
        value = self.lifter.scope.get(name) if name is not None else None
        return isinstance(value, (torch.Tensor, *CONTAINERS))

    def bring(self, name: str, node: ast.stmt | ast.expr) -> None:
        """
        Makes a value that was there a variable of the program, which may change it: an input
        itself, of others a copy. Its other names go with it; ImportFailure where it shares memory
        with something else.
        """
        if name in self.lifter.computed:
            return
        if name in self.seen:
            self._refuse(
                f"{name}, at which a function of the script looks; give it {name} as an argument",
                node,
            )
        part = self.lifter.visit(ast.copy_location(load(name), node))
        code = self.lifter.use(part)
        names = list(self._other_names(name, part.value, node))
        if isinstance(part.value, torch.Tensor) and not self.lifter.is_input(part.value):
            code = ast.Call(ast.Attribute(code, "clone", ast.Load()), [], [])
        elif isinstance(part.value, CONTAINERS):
            code = ast.Call(self.lifter.constant(copy.copy, code), [code], [])
        if not is_name(code, name):
            self._keep(assignment(name, code), node)
        self.add({name})
        for other in names:
            self._keep(assignment(other, load(name)), node)
        self.add({*names})

    def _keep(self, new: ast.stmt, node: ast.stmt | ast.expr) -> None:
        ast.copy_location(new, node)
        self.keep(new, new)

    def _other_names(self, name: str, value: Any, node: ast.stmt | ast.expr) -> Iterator[str]:
        """The script's other variables for a value."""
        memory = _memory(value) if isinstance(value, torch.Tensor) else set[int]()
        for other, there in self.lifter.scope.items():
            if other == name or other in self.lifter.computed:
                continue
            if there is value:
                yield other
            elif not memory.isdisjoint(_memory(there)):
                advice = f"make {name} a copy, by clone()"
                self._refuse(f"{name}, which shares memory with {other}; {advice}", node)

    def _refuse(self, what: str, node: ast.stmt | ast.expr) -> NoReturn:
        place = place_in(self.lifter.filename, node.lineno, node.col_offset + 1)
        raise ImportFailure(f"a statement changes {what}", place)


def _memory(value: object) -> set[int]:
    """The storages of the tensors that a value is, or has in it."""
    if isinstance(value, torch.nn.Module):
        leaves: list[Any] = [*value.parameters(), *value.buffers()]
    else:
        leaves = tree_leaves(value) if isinstance(value, (torch.Tensor, tuple, *CONTAINERS)) else []
    strided = (t for t in leaves if isinstance(t, torch.Tensor) and t.layout is torch.strided)
    return {t.untyped_storage()._cdata for t in strided}

"""PyTorch's symbolic integers as sizes: each of an export's symbols stands for a size of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from math import inf
from weakref import WeakKeyDictionary

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy import functions

from dlc.ir.sizes import FOLDED, Bounds, Fact, Size

SIZES: WeakKeyDictionary[ShapeEnv, dict[sympy.Symbol, Size]] = WeakKeyDictionary()
"""What the symbols of an export are called."""

CALLS: dict[type[sympy.Basic], str] = {
    functions.FloorDiv: "floordiv",
    functions.CleanDiv: "floordiv",
    functions.PythonMod: "mod",
    functions.Mod: "mod",
    functions.Max: "max",
    functions.Min: "min",
    sympy.Max: "max",
    sympy.Min: "min",
}
RELATIONS: dict[type[sympy.Basic], str] = {
    sympy.Eq: "==",
    sympy.Ne: "!=",
    sympy.Lt: "<",
    sympy.Le: "<=",
    sympy.Gt: ">",
    sympy.Ge: ">=",
}
LEAST = 2
"""The smallest size that an export stands for others of."""
SYMBOLIC = (torch.SymInt, torch.SymBool, torch.SymFloat)


class NoSize(Exception):
    """Says what a number is that is no size: it depends on data, or is no integer."""


def size_of(number: int | torch.SymInt) -> Size | int:
    """An integer, which is a size where it depends on those of a call; NoSize for another."""
    if isinstance(number, int):
        return number
    env = number.node.shape_env
    names = SIZES.get(env, {})
    size = as_size(number.node.expr, names)
    if number.node.expr.has(sympy.Max, sympy.Min, functions.Max, functions.Min):
        size = size.settled(_bounds(env, names))
    return size if size.number is None else size.number


def _bounds(env: ShapeEnv, names: Mapping[sympy.Symbol, Size]) -> dict[str, Bounds]:
    """What is known of names by an export."""
    found: dict[str, Bounds] = {}
    for symbol, size in names.items():
        if size.name is not None:
            low, high = range_of(env, symbol)
            found[size.name] = low, inf if high is None else high
    return found


def sizes_of(numbers: Iterable[int | torch.SymInt]) -> tuple[Size | int, ...]:
    """`size_of` each."""
    return tuple(map(size_of, numbers))


def names_of(number: torch.SymFloat) -> str:
    """What the sizes are called that a number is computed from: `the size n`."""
    named = SIZES.get(number.node.shape_env, {})
    found = sorted(str(named[s]) for s in number.node.expr.free_symbols if s in named)
    return f"the size {' and '.join(found)}" if found else "sizes or data"


def is_of_sizes(value: object) -> bool:
    """True for a number, a truth value among them, that depends on sizes and nothing else."""
    if not isinstance(value, SYMBOLIC):
        return False
    names = SIZES.get(value.node.shape_env, {})
    return all(symbol in names for symbol in value.node.expr.free_symbols)


def as_size(expr: sympy.Basic, names: dict[sympy.Symbol, Size]) -> Size:
    """What an expression of symbols is; NoSize for one of other symbols or functions."""
    match expr:
        case sympy.Integer():
            return Size.of(int(expr))
        case sympy.Symbol() if expr in names:
            return names[expr]
        case sympy.Add():
            return _folded(Size.__add__, expr.args, names)
        case sympy.Mul():
            return _folded(Size.__mul__, expr.args, names)
        case sympy.Pow(args=(base, sympy.Integer() as power)) if power > 0:
            return _folded(Size.__mul__, [base] * int(power), names)
        case _ if (function := CALLS.get(type(expr))) is not None:
            return _folded(FOLDED[function], expr.args, names)
        case _:
            raise NoSize(f"{expr} is no integer that is made of sizes")


def _folded(
    function: Callable[[Size, Size], Size],
    operands: Sequence[sympy.Basic],
    names: dict[sympy.Symbol, Size],
) -> Size:
    return reduce(function, (as_size(operand, names) for operand in operands))


def facts_of(env: ShapeEnv, bounds: Mapping[str, Bounds], example: Mapping[str, int]) -> list[Fact]:
    """
    What an export has asked of its symbols, and found, as far as bounds do not imply it. Of what
    holds because one or the other does, it is the one that holds of the example. NoSize for what
    has no form here.
    """
    facts: dict[Fact, None] = {}
    for guard in env.guards:
        for fact in _facts(env.replace(guard.expr), SIZES[env], example):
            if not fact.is_implied(bounds):
                facts[fact] = None
    return list(facts)


def _facts(
    expr: sympy.Basic, names: dict[sympy.Symbol, Size], example: Mapping[str, int]
) -> list[Fact]:
    match expr:
        case sympy.And():
            return [fact for part in expr.args for fact in _facts(part, names, example)]
        case sympy.Or():
            ways = [_facts(part, names, example) for part in expr.args]
            return next(way for way in ways if all(fact.holds(example) for fact in way))
        case _ if expr is sympy.true:
            return []
        case _ if (relation := RELATIONS.get(type(expr))) is not None:
            left, right = (as_size(side, names) for side in expr.args)
            return [Fact(left - left.constant, relation, right - left.constant)]
        case _:
            raise NoSize(f"{expr} is no comparison of sizes")


def range_of(env: ShapeEnv, symbol: sympy.Symbol) -> tuple[int, int | None]:
    """The least and the largest size, of `LEAST` and more, that an export takes a symbol to be."""
    found = env.var_to_range[symbol]
    low, high = (
        int(n) if isinstance(n, sympy.Integer) else None for n in (found.lower, found.upper)
    )
    return max(LEAST, LEAST if low is None else low), high

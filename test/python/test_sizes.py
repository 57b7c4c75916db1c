"""Sizes that are known at a call: their algebra against numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from math import inf

import pytest
from xdsl.parser import Parser

from dlc.dialects.size_syntax import parse_fact, parse_size
from dlc.ir.sizes import FOLDED, FUNCTIONS, RELATIONS, Fact, Size
from dlc.stages import compiler_context

NAMES: tuple[str, ...] = ("s", "b")
POINTS: list[dict[str, int]] = [
    dict(zip(NAMES, point, strict=True)) for point in product((2, 3, 4, 7, 16), (1, 2, 5))
]
BOUNDS = {"s": (2.0, 16.0), "b": (1.0, 5.0)}

Drawn = tuple[Size, Callable[[dict[str, int]], int]]


def drawn(draw: random.Random, depth: int) -> Drawn:
    """A random size, and what it is by Python's own integers."""
    if depth == 0 or draw.random() < 0.2:
        if draw.random() < 0.3:
            number = draw.randint(-5, 70)
            return Size.of(number), lambda _: number
        name = draw.choice(NAMES)
        return Size.of(name), lambda values: values[name]
    (left, a), (right, b) = drawn(draw, depth - 1), drawn(draw, depth - 1)
    match draw.choice(["add", "sub", "mul", *FUNCTIONS]):
        case "add":
            return left + right, lambda values: a(values) + b(values)
        case "sub":
            return left - right, lambda values: a(values) - b(values)
        case "mul":
            return left * right, lambda values: a(values) * b(values)
        case name if name in ("floordiv", "mod"):
            # Divisors of programs are numbers and products of extents.
            name_of = draw.choice(NAMES)
            number = draw.randint(1, 9)
            divisor, f = Size.of(number), FUNCTIONS[name]
            if draw.random() < 0.5:
                return FOLDED[name](left, divisor * Size.of(name_of)), (
                    lambda values: f(a(values), values[name_of] * number)
                )
            return FOLDED[name](left, divisor), lambda values: f(a(values), number)
        case name:
            f = FUNCTIONS[name]
            return FOLDED[name](left, right), lambda values: f(a(values), b(values))


@pytest.mark.parametrize("seed", range(0, 400, 40))
def test_sizes_are_what_integers_are(seed: int) -> None:
    for number in range(seed, seed + 40):
        check_size(*drawn(random.Random(number), 4))


def check_size(size: Size, number: Callable[[dict[str, int]], int]) -> None:
    low, high = size.bounds(BOUNDS)
    for values in POINTS:
        assert size.evaluate(values) == number(values), f"{size} at {values}"
        assert low <= number(values) <= high, f"{size} at {values}"
        assert size.bind(values) == Size.of(number(values))
        partly = size.bind({"s": values["s"]})
        assert partly.evaluate(values) == number(values), f"{size}, then {partly}"
        assert "s" not in partly.names
    assert parse_size(Parser(compiler_context(), str(size))) == size


@pytest.mark.parametrize("seed", range(0, 200, 40))
def test_what_bounds_imply_is_so(seed: int) -> None:
    for number in range(seed, seed + 40):
        check_facts(random.Random(number))


def check_facts(draw: random.Random) -> None:
    (left, a), (right, b) = drawn(draw, 2), drawn(draw, 2)
    for relation, holds in RELATIONS.items():
        fact = Fact(left, relation, right)
        assert parse_fact(Parser(compiler_context(), str(fact))) == fact
        for values in POINTS:
            assert fact.holds(values) == holds(a(values), b(values))
            assert fact.holds(values) or not fact.is_implied(BOUNDS)


def test_facts_that_bounds_imply() -> None:
    s, b = Size.of("s"), Size.of("b")
    known = {"s": (2.0, inf), "b": (2.0, 8.0)}
    implied = (Fact(s * b, ">=", Size.of(4)), Fact(s // 2, "!=", Size.of(0)), Fact(b, "<=", b))
    implied += (Fact(s * b, "!=", s), Fact(s % (s * b), "!=", Size.of(0)))
    open_ones = (Fact(s * b, ">", Size.of(4)), Fact(s // 2, "!=", Size.of(1)), Fact(s, ">", b))
    assert all(fact.is_implied(known) for fact in implied)
    assert not any(fact.is_implied(known) for fact in open_ones)
    assert not Fact(b // (s - 2), "==", b).holds({"s": 2, "b": 4})

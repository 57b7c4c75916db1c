"""Programs that change several tensors, each of which the new version of another is made of."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import dlc

CALLS = 3


def two(a: Tensor, b: Tensor) -> Tensor:
    new = a + b, b - a
    a.copy_(new[0])
    b.copy_(new[1])
    return new[0].sum()


def two_products(a: Tensor, b: Tensor) -> Tensor:
    new = a @ b, b @ a
    a.copy_(new[0] / 4)
    b.copy_(new[1] / 4)
    return a + b


def three(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    new = a + b, b + c, c + a
    read = (b * 2).sum(0), (a * 3).sum(0), (c * c).sum(0)
    for old, made in zip((a, b, c), new, strict=True):
        old.copy_(made)
    return read


def three_sums(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    new = a + b.sum(0), b + c.sum(0), c + a.sum(0)
    for old, made in zip((a, b, c), new, strict=True):
        old.copy_(made / 4)
    return a.sum()


def integrator(x: Tensor, v: Tensor) -> Tensor:
    force, energy = -torch.sin(x), (v * v).sum() + (x * x).sum()
    x.add_(v, alpha=0.1)
    v.add_(force, alpha=0.1)
    return energy


def chains(a: Tensor, b: Tensor) -> Tensor:
    a.add_(b)
    b.add_(a)
    a.mul_(b)
    return a + b


def crossed_chains(a: Tensor, b: Tensor) -> Tensor:
    y = b * a.sum()
    b.add_(a)
    z = (b * a).sum()
    a.add_(y)
    w = b.sum()
    b.mul_(2)
    return z + w


def counted(place: Tensor, cache: Tensor, x: Tensor) -> Tensor:
    here = torch.arange(cache.shape[0]) == place
    place.add_(1)
    cache.copy_(torch.where(here.unsqueeze(1), x[:1], cache))
    return cache * 2


def counted_last(cache: Tensor, place: Tensor, x: Tensor) -> Tensor:
    return counted(place, cache, x)


STATES = [two, two_products, three, three_sums, integrator, chains, crossed_chains]
COUNTED = [counted, counted_last]


def check(f: Callable[..., object], states: list[Tensor]) -> None:
    ours, eager = [s.clone() for s in states], [s.clone() for s in states]
    eager = [s.double() if s.is_floating_point() else s for s in eager]
    compiled = dlc.compile(f, tuple(s.clone() for s in states), backend="host")
    for _ in range(CALLS):
        found, expected = compiled(*ours), f(*eager)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4, check_dtype=False)
        torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-4, check_dtype=False)


CASES = [(f, 5) for f in STATES] + [(two, 1), (three, 1)]


@pytest.mark.parametrize(("f", "size"), CASES, ids=lambda case: getattr(case, "__name__", case))
def test_states_are_made_of_each_other(f: Callable[..., object], size: int) -> None:
    torch.manual_seed(0)
    check(f, [torch.randn(size, size) for _ in range(f.__code__.co_argcount)])


@pytest.mark.parametrize("f", COUNTED, ids=lambda f: f.__name__)
def test_a_row_is_put_where_the_counter_was(f: Callable[..., object]) -> None:
    torch.manual_seed(0)
    cache, place, x = torch.randn(8, 4), torch.tensor([3]), torch.randn(2, 4)
    check(f, [cache, place, x] if f is counted_last else [place, cache, x])

"""Items at integers in tensors without dimensions, as caches of keys are written and read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dlc
from dlc.frontend.source import UnsupportedError

CACHE, ROW = torch.arange(40.0).reshape(2, 5, 4), torch.tensor([[-1.0, 2, 3, 4], [5, 6, 7, 8]])
Tensors = tuple[torch.Tensor, ...]


def written(k: torch.Tensor, x: torch.Tensor, n: torch.Tensor) -> Tensors:
    k[:, n] = x
    k[:, n, n - 1] = 7
    return k * 2, k.sum(1)


def beside_numbers(k: torch.Tensor, x: torch.Tensor, n: torch.Tensor) -> Tensors:
    k[0, n] = x[0]
    k[1:, n, 2:] = x[:1, :2]
    k[..., n, :][0] = 3
    return (k,)


def beside_tensors(k: torch.Tensor, x: torch.Tensor, n: torch.Tensor) -> Tensors:
    k[:, n, [0, 2]] = x[:, :2]
    k[n - n, k[0] > 30] = 5.0
    return (k[:, n, torch.tensor([1, 3])],)


def through_views(k: torch.Tensor, x: torch.Tensor, n: torch.Tensor) -> Tensors:
    row = k[:, n][..., 1:]
    k.mul_(2)
    row += x[:, 1:]
    k[:, n] += 1
    return row * 2, k + 1


def as_numbers(k: torch.Tensor, x: torch.Tensor, n: torch.Tensor) -> Tensors:
    k.select(1, n.item()).copy_(x)  # pyright: ignore[reportArgumentType]
    return k[:, 1], x


def read(k: torch.Tensor, x: torch.Tensor, n: torch.Tensor) -> Tensors:
    return k[0, n], k[:, n].t(), x[n // 8] + 1, k[1:, n, n - 1]


PROGRAMS = [written, beside_numbers, beside_tensors, through_views, as_numbers, read]


def compare(compiled: Callable[..., Any], program: Callable[..., Any], n: torch.Tensor) -> None:
    ours, eager = CACHE.clone(), CACHE.clone()
    for got, wanted in zip(compiled(ours, ROW, n), program(eager, ROW, n), strict=True):
        assert torch.equal(got, wanted)
    assert torch.equal(ours, eager)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("program", PROGRAMS)
def test_items_are_read_and_written(program: Callable[..., Any], dtype: torch.dtype) -> None:
    args = CACHE.clone(), ROW, torch.tensor(1, dtype=dtype)
    compiled = dlc.compile(program, args, backend="host")
    for at in (1, 4, -2):
        compare(compiled, program, torch.tensor(at, dtype=dtype))
    assert len(compiled.variants) == 1


@pytest.mark.parametrize("program", [written, beside_numbers, beside_tensors, through_views, read])
def test_under_torch_compile(program: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(program, backend="dlc")
    for at in (1, -2):
        compare(compiled, program, torch.tensor(at))


def test_a_cache_is_written_in_place() -> None:
    def step(k: torch.Tensor, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        k[0, n] = x[0]
        return k.sum()

    compiled = dlc.compile(step, (CACHE.clone(), ROW, torch.tensor(1)), backend="host")
    ours, eager = CACHE.clone(), CACHE.clone()
    assert torch.equal(compiled(ours, ROW, torch.tensor(3)), step(eager, ROW, torch.tensor(3)))
    assert torch.equal(ours, eager)
    assert " updates %k" in compiled.ir("loop")


@pytest.mark.parametrize(
    "place", [lambda n: n.to(torch.int8), lambda n: n.max(), lambda n: n.reshape(1).item()]
)
def test_places_of_other_kinds(place: Callable[[torch.Tensor], Any]) -> None:
    n = torch.tensor(3)
    compiled = dlc.compile(lambda k, n: k[0, place(n)], (CACHE, n), backend="host")
    assert torch.equal(compiled(CACHE, n), CACHE[0, 3])


def test_other_numbers_from_tensors_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="a SymInt computed from data"):
        dlc.compile(lambda k, n: k[: n.item()], (CACHE, torch.tensor(1)), backend="host")

"""Few rows are reduced before products read them: each point of the products does that again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import dlc
from dlc.judge.accuracy import compare
from dlc.tuning.space import Space

REPEATS = "tileify{repeat=true}"
Program = Callable[[Tensor, Tensor, Tensor], Tensor]


def norm(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    return F.linear(F.rms_norm(x, x.shape[-1:], g), w)


def layer_norm(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    return F.linear(F.layer_norm(x, x.shape[-1:], g), w)


def gate(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    n = F.rms_norm(x, x.shape[-1:], g)
    return F.silu(F.linear(n, w)) * F.linear(n, w.flip(0))


def weighted(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    return torch.softmax(x * g, -1) @ w.t()


every_program = pytest.mark.parametrize(
    "program", [norm, layer_norm, gate, weighted], ids=lambda program: program.__name__
)


def arguments(
    rows: int, columns: int, length: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    drawn = torch.Generator().manual_seed(0)
    shapes = (rows, length), (length,), (columns, length)
    return tuple(torch.randn(shape, generator=drawn).to(dtype) for shape in shapes)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("program", [norm, layer_norm, gate])
def test_of_one_row_all_is_one_kernel(program: Program, target: str) -> None:
    given = arguments(1, 1536, 1024, torch.bfloat16)
    (kernel,) = dlc.compile(program, given, target=target, backend="host").kernels
    assert kernel.schedule is not None  # warps ask for weights before they know the norm
    assert kernel.schedule.startswith(f"{REPEATS},cooperative-reduce{{threads=32 rows=4 ")


def test_long_rows_are_no_warps_whatever_it_asks_for_ahead() -> None:
    """The weights of a row are few, but what is known before them is a sum of 8192 points."""

    def scaled(x: Tensor, w: Tensor) -> Tensor:
        return torch.sin(w * torch.rsqrt(x.square().sum(-1, keepdim=True))).sum(-1)

    with torch.device("meta"):
        given = torch.empty(1024, 8192), torch.empty(1024, 64)
    (kernel,) = dlc.compile(scaled, given, target="sm_90", backend="host").kernels
    assert "cooperative-reduce{threads=1024 rows=1 " in (kernel.schedule or "")


def test_of_many_rows_norms_stay_apart() -> None:
    kernels = dlc.compile(norm, arguments(512, 1024, 1024), target="sm_90", backend="host").kernels
    assert len(kernels) > 1
    assert not any(REPEATS in (kernel.schedule or "") for kernel in kernels)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("rows", "columns", "length"), [(1, 300, 129), (1, 7, 1), (1, 97, 1000), (2, 130, 7)]
)
@every_program
def test_numbers(
    program: Program, rows: int, columns: int, length: int, dtype: torch.dtype
) -> None:
    given = arguments(rows, columns, length, dtype)
    eager, exact = program(*given), program(*(t.double() for t in given))
    compiled = dlc.compile(program, given, target="sm_90", backend="host")
    accuracy = compare(compiled(*given), exact, eager)
    assert accuracy.ok, accuracy


@pytest.mark.parametrize(
    "schedule",
    [
        REPEATS,
        f"{REPEATS},cooperative-reduce{{threads=32 rows=4 vector=2}}",
        f"{REPEATS},cooperative-reduce{{threads=8 rows=32 vector=1 order=rows}},pad-smem",
        f"{REPEATS},blockify-launch{{block=32 thread=8}},register-tile{{extents=4}}",
    ],
)
def test_by_hand(schedule: str) -> None:
    given = arguments(1, 67, 100)
    whole = dlc.compile(norm, given, target="sm_90", backend="host")
    (kernel,) = whole.kernels
    compiled = whole.with_schedule({kernel.name: schedule})
    exact = norm(*(t.double() for t in given))
    accuracy = compare(compiled(*given), exact, norm(*given), 100)
    assert accuracy.ok, accuracy
    assert all(not verdict.hazards and not verdict.unknown for verdict in compiled.check())


def test_what_is_updated_in_place_is_reduced_before() -> None:
    def program(x: Tensor, w: Tensor) -> Tensor:
        x.copy_((x - x.mean()) @ w)
        return x

    x, w = torch.randn(1, 96), torch.randn(96, 96)
    expected = (x.double() - x.double().mean()) @ w.double()
    dlc.compile(program, (x.clone(), w), target="sm_90", backend="host")(x, w)
    torch.testing.assert_close(x.double(), expected, rtol=1e-4, atol=1e-4)


def test_a_search_tries_both() -> None:
    program = dlc.compile(norm, arguments(1, 96, 64), target="sm_90", backend="host")
    (kernel,) = program.kernels
    space = Space(program.variants[0].module("loop"), kernel.name)
    assert space.choices(space.start) == [True, False]
    assert space.default.startswith(REPEATS)
    taken = space.take(space.start, False)
    assert taken.schedule == "tileify"
    assert space.choices(taken)


def test_products_that_update_what_no_reduce_reads_repeat_them() -> None:
    """As those of values do, which are stored in a cache; NaN stays where it is."""

    def store(cache: Tensor, at: Tensor, x: Tensor, g: Tensor, w: Tensor) -> None:
        cache.index_copy_(0, at, norm(x, g, w))

    x, g, w = arguments(1, 256, 1024)
    given = (torch.zeros(5, 256), torch.tensor([3]), x, g, w)
    program = dlc.compile(store, given, target="sm_90", backend="host")
    (kernel,) = program.kernels
    assert kernel.schedule is not None
    assert kernel.schedule.startswith(REPEATS)
    w[7, 3] = float("nan")
    program(*given)
    expected = torch.zeros(5, 256, dtype=torch.float64)
    expected[3] = norm(x.double(), g.double(), w.double())
    torch.testing.assert_close(given[0].double(), expected, rtol=1e-5, atol=1e-5, equal_nan=True)

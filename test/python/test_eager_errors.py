"""What eager PyTorch refuses for want of elements, or for a zero, is refused when compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import dlc
from dlc.frontend.source import ImportFailure

NOTHING, COLUMNS, FOUR = torch.zeros(0), torch.zeros(3, 0), torch.arange(4)
REFUSED: dict[str, tuple[Callable[[torch.Tensor], Any], torch.Tensor]] = {
    "max": (lambda x: x.max(), NOTHING),
    "min of integers": (lambda x: x.min(), NOTHING.long()),
    "max.dim": (lambda x: x.max(1)[0], COLUMNS),
    "min.dim": (lambda x: x.min(dim=-1, keepdim=True), COLUMNS),
    "kthvalue": (lambda x: x.kthvalue(1, 1), COLUMNS),
    "computed": (lambda x: (x.float() + 1)[:0].max(), FOUR),
    "floor_divide": (lambda x: x // 0, FOUR),
    "floor_divide, a number that wraps": (lambda x: x // 2**31, FOUR.char()),
    "remainder": (lambda x: x % 0, FOUR),
    "fmod": (lambda x: torch.fmod(x, 0), FOUR),
    "div": (lambda x: torch.div(x, 0, rounding_mode="trunc"), FOUR),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_raises_as_eager_does(name: str) -> None:
    program, x = REFUSED[name]
    with pytest.raises((IndexError, RuntimeError)) as eager:
        program(x)
    with pytest.raises(
        eager.type, match=r"reduction dim|divided by other than 0|out of range"
    ) as ours:
        dlc.compile(program, (x,), backend="host")
    assert isinstance(ours.value, ImportFailure)
    assert ours.value.place is not None
    assert ours.value.place.file == __file__
    if str(eager.value) == "ZeroDivisionError":
        assert isinstance(ours.value, ZeroDivisionError)


LARGE: dict[str, Callable[[torch.Tensor], Any]] = {
    "full": lambda x: torch.full((4,), 300, dtype=torch.uint8) + x,
    "an integer's infinity": lambda x: x.long().fill_(math.inf),
    "masked_fill": lambda x: x.masked_fill(x > 0, -1e9),
    "index_fill": lambda x: x.index_fill(0, FOUR[:1], 1e5),
    "scatter": lambda x: x.scatter(0, FOUR[:1], 70000),
    "clamp": lambda x: x.clamp(max=1e5),
    "pad": lambda x: functional.pad(x, (1, 0), value=1e5),
    "threshold": lambda x: functional.threshold(x.int(), 1, 2**40),
    "alpha": lambda x: torch.add(x.char(), x.char(), alpha=200),
    "linspace": lambda x: torch.linspace(0, 1e5, 4, dtype=torch.float16) + x,
}


@pytest.mark.parametrize("name", LARGE)
def test_numbers_that_a_dtype_does_not_hold_are_refused(name: str) -> None:
    x = torch.ones(4, dtype=torch.float16)
    for call in (LARGE[name], lambda x: dlc.compile(LARGE[name], (x,), backend="host")):
        with pytest.raises(RuntimeError, match="without overflow") as raised:
            call(x)
    assert isinstance(raised.value, ImportFailure)
    assert raised.value.place is not None
    assert raised.value.place.file == __file__


TWO, COLUMN = torch.ones(2, 4, dtype=torch.float64), torch.ones(4, 3)
MIXED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "linear": (torch.nn.Linear(4, 3), (TWO,)),
    "matmul": (torch.matmul, (TWO, COLUMN)),
    "mv": (torch.mv, (TWO, COLUMN[:, 0])),
    "addmm": (torch.addmm, (torch.ones(3), TWO, COLUMN)),
    "halves": (torch.matmul, (TWO.half(), COLUMN.bfloat16())),
    "large": (torch.matmul, (torch.ones(128, 256), torch.ones(256, 128, dtype=torch.float64))),
    "bytes": (torch.matmul, (TWO.to(torch.int8), COLUMN.to(torch.int32))),
    "a float index": (lambda x, i: x.index_select(0, i), (TWO, TWO[0, :1] - 1)),
    "a float index of its type": (lambda x, i: x.index_add(0, i, x), (TWO, TWO[:, 0] - 1)),
    "integers and floats": (lambda x, i: i.index_add(0, i, x[:, 0]), (TWO, torch.arange(2))),
    "layer norm": (torch.nn.LayerNorm(4), (TWO,)),
    "batch norm": (torch.nn.BatchNorm1d(4).eval(), (TWO,)),
    "transposed": (torch.nn.ConvTranspose1d(2, 3, 1), (TWO,)),
    "attention": (torch.nn.MultiheadAttention(4, 2).eval(), (TWO, TWO, TWO)),
    "cdist": (torch.cdist, (TWO, COLUMN.T)),
    "grid_sample": (
        lambda x, grid: functional.grid_sample(x, grid, align_corners=False),
        (TWO.view(1, 1, 2, 4), torch.zeros(1, 2, 2, 2)),
    ),
    "cross_entropy": (functional.cross_entropy, (TWO, FOUR[:2].int())),
    "nll_loss": (functional.nll_loss, (TWO.float(), FOUR[:2].int())),
    "binary_cross_entropy": (functional.binary_cross_entropy, (TWO, TWO.float())),
    "index_add": (lambda x, y: x.index_add(0, FOUR[:2], y[:2, :1].expand(2, 4)), (TWO, COLUMN)),
    "index_put": (lambda x, y: x.index_put((FOUR[:1],), y), (TWO, COLUMN[:, 0])),
}


@pytest.mark.parametrize("name", MIXED)
def test_dtypes_that_eager_refuses_together_are_refused(name: str) -> None:
    program, args = MIXED[name]
    with torch.no_grad():
        with pytest.raises(RuntimeError):
            program(*args)
        with pytest.raises(
            RuntimeError, match=r"(?s)^(?!.*error: error).*(dtype|scalar type)"
        ) as ours:
            dlc.compile(program, args, backend="host")
    assert isinstance(ours.value, ImportFailure)
    assert ours.value.place is not None
    assert ours.value.place.file == __file__


@pytest.mark.parametrize(
    "program",
    [
        lambda b: b.topk(2),
        lambda b: 1 - b,
        lambda b: b - 1,
        lambda b: torch.rsub(b, 1.5),
        lambda b: torch.sub(b, b),
    ],
)
def test_what_takes_no_booleans_is_refused(program: Callable[[torch.Tensor], Any]) -> None:
    mask = COLUMN > 0
    for call in (program, lambda x: dlc.compile(program, (x,), backend="host")):
        with pytest.raises(RuntimeError, match="bool") as raised:
            call(mask)
    assert isinstance(raised.value, ImportFailure)
    assert raised.value.place is not None
    assert raised.value.place.file == __file__


def test_a_large_tensor_is_not_made_to_try_its_numbers() -> None:
    x = torch.ones((), dtype=torch.float16).expand(1 << 20, 1 << 24)
    with pytest.raises(RuntimeError, match="without overflow"):
        dlc.compile(lambda x: functional.pad(x, (1, 0), value=1e5), (x,), backend="host")


def test_trying_draws_no_random_numbers() -> None:
    state = torch.get_rng_state()
    dlc.compile(lambda b: torch.rand_like(b, dtype=torch.float32), (COLUMN > 0,), backend="host")
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("program", "args"),
    [
        (lambda x, y: torch.cat([x, y.T[:2]]), (TWO, COLUMN)),
        (lambda x, y: torch.where(y.T[:2] > 0, x, y.T[:2]) + x * y.T[:2], (TWO, COLUMN)),
        (torch.nn.functional.rms_norm, (TWO.bfloat16(), (4,), COLUMN[:, 0])),
        (torch.nn.functional.embedding, (FOUR.int(), COLUMN)),
        (torch.nn.LayerNorm(4), (TWO.bfloat16(),)),
        (functional.cross_entropy, (TWO, FOUR[:2])),
        (functional.mse_loss, (TWO, TWO.float())),
        (functional.huber_loss, (TWO, TWO.float() + 1)),
        (lambda x: x.to(device=x.device, dtype=torch.float32), (TWO > 0,)),
    ],
)
def test_dtypes_that_eager_takes_together_are_taken(
    program: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    with torch.no_grad():
        expected = program(*args)
        result = dlc.compile(program, args, backend="host")(*args)
    torch.testing.assert_close(result, expected)


def test_autocast_makes_dtypes_go_together() -> None:
    program, args = MIXED["matmul"][0], (TWO.float(), COLUMN.bfloat16())

    def cast(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return program(x, y)

    assert dlc.compile(cast, args, backend="host")(*args).dtype == torch.bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert dlc.compile(program, args, backend="host")(*args).dtype == torch.bfloat16


@pytest.mark.parametrize("name", ["argmax", "argmin", "amax", "amin", "aminmax"])
def test_export_refuses_the_others(name: str) -> None:
    for dim in ((), (0,)) if name != "aminmax" else ((),):
        with pytest.raises((IndexError, RuntimeError)) as eager:
            getattr(NOTHING, name)(*dim)
        with pytest.raises(ImportFailure, match=r"[zZ]ero.size|to be specified") as raised:
            dlc.compile(lambda x, d=dim: getattr(x, name)(*d), (NOTHING,), backend="host")
        assert isinstance(raised.value, type(eager.value))


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.sum(),
        lambda x: x.prod(0),
        lambda x: x.logsumexp(0),
        lambda x: x.sort()[0],
        lambda x: x.view(0, 3).max(1)[0],
        lambda x: x.long() // 0,
        lambda x: (x.sum() + torch.ones(2)) // 0,
        lambda x: x.median(),
        lambda x: x.long().median(),
        lambda x: x.int().nanmedian(),
        lambda x: x.to(torch.uint8).median(),
        lambda x: x.sum().byte() == 300,
    ],
)
def test_what_eager_computes_of_nothing_is_computed(program: Callable[..., torch.Tensor]) -> None:
    found = dlc.compile(program, (NOTHING,), backend="host")(NOTHING)
    torch.testing.assert_close(found, program(NOTHING), equal_nan=True)


def integers(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.int64)


TABLE, VECTOR = torch.rand(3, 4), torch.rand(4)
UNCHECKED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    "cov of 3 dimensions": (torch.cov, (torch.rand(2, 3, 4),), "two or fewer dimensions"),
    "cov of booleans": (torch.cov, (TABLE > 0,), "bool dtype is not supported"),
    "cov's fweights, shape": (
        lambda x, w: x.cov(fweights=w), (TABLE, integers(3)), "same numel as there are observ"),
    "cov's fweights, dimensions": (
        lambda x, w: x.cov(fweights=w), (TABLE, integers(1, 4)), "one or fewer dimensions"),
    "cov's fweights, dtype": (
        lambda x, w: x.cov(fweights=w), (TABLE, VECTOR), "fweights to have integral dtype"),
    "cov's aweights, shape": (
        lambda x, w: torch.cov(x, aweights=w), (TABLE, VECTOR[:3]), "same numel as there are obs"),
    "cov's aweights, dtype": (
        lambda x, w: torch.cov(x, aweights=w), (TABLE, integers(4)), "floating point dtype"),
    "cov's correction": (
        lambda x: torch.cov(x, correction=0.5), (TABLE,), "'correction' must be int"),  # pyright: ignore
    "corrcoef of 3 dimensions": (torch.corrcoef, (torch.rand(2, 3, 4),), "two or fewer dimensions"),
    "corrcoef of booleans": (torch.corrcoef, (TABLE > 0,), "bool dtype is not supported"),
    "narrow's dimension": (lambda x, i: x.narrow(2, i, 1), (TABLE, integers()), "out of range"),
    "narrow's length": (
        lambda x, i: x.narrow(1, i, 5), (TABLE, integers()), "exceeds dimension size"),
    "narrow's sign": (
        lambda x, i: x.narrow(1, i, -1), (TABLE, integers()), "must be non-negative"),
    "narrow's start, shape": (
        lambda x, i: torch.narrow(x, 1, i, 1), (TABLE, integers(1)), "0-dim integral Tensor"),
    "narrow's start, dtype": (
        lambda x, i: torch.narrow(x, 1, i, 1), (TABLE, VECTOR[0]), "0-dim integral Tensor"),
    "narrow of 0 dimensions": (
        lambda x, i: x.narrow(0, i, 0), (VECTOR[0], integers()), "to a 0-dim tensor"),
    "gaussian_nll_loss's reduction": (
        lambda x, v: functional.gaussian_nll_loss(x, x, v, reduction="avg"),
        (TABLE, TABLE), "avg is not valid"),
    "gaussian_nll_loss's variance, shape": (
        lambda x, v: functional.gaussian_nll_loss(x, x, v), (TABLE, TABLE[:2]), "incorrect size"),
    "gaussian_nll_loss's variance, sign": (
        lambda x: functional.gaussian_nll_loss(x, x, -1.0), (TABLE,), "var has negative entry"),
    "gaussian_nll_loss's target": (
        functional.gaussian_nll_loss, (TABLE, TABLE[:, :3], TABLE), "must match the size"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNCHECKED)
def test_only_checks_of_values_are_left_out(name: str) -> None:
    program, args, words = UNCHECKED[name]
    with pytest.raises((IndexError, RuntimeError, TypeError, ValueError), match=words):
        program(*args)
    with pytest.raises(ImportFailure, match=words) as ours:
        dlc.compile(program, args, backend="host")
    assert ours.value.place is None or "unchecked" not in ours.value.place.file


def test_a_variance_that_is_a_number_is_no_integer() -> None:
    args = torch.arange(4), torch.arange(4) + 1

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.gaussian_nll_loss(x, y, 0.25)

    expected = math.log(0.25) / 2 + 2
    assert dlc.compile(program, args, backend="host")(*args).item() == pytest.approx(expected)


def test_devices_are_arguments_that_may_be_asked_for() -> None:
    """`to` with a device has no other form: a mask of booleans is tried with it."""

    def program(mask: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        same = mask.to(device=x.device, dtype=torch.bool)
        return same, mask.to(x.device, torch.float32), torch.zeros_like(mask, device=x.device)

    args = torch.tensor([True, False]), torch.randn(3)
    found = dlc.compile(program, args, backend="host")(*args)
    for ours, eager in zip(found, program(*args), strict=True):
        torch.testing.assert_close(ours, eager, rtol=0, atol=0)

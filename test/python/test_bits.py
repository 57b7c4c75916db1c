"""Elements seen as other types: every bit is eager's, in Tensor IR, on the host, checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_operators import interpreted

import dlc
from dlc.cli import dlc_cli
from dlc.frontend.export.fx import import_program
from dlc.judge.plain_program import plain_calls
from dlc.judge.reference import evaluate
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS

KINDS = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8,
)  # fmt: skip
GENERATOR = torch.Generator().manual_seed(0)


def numbers(kind: torch.dtype) -> torch.Tensor:
    """Any bits, NaN and infinities among them, but for a NaN that is changed when it is moved."""
    bits = torch.randint(0, 256, (3, 16), generator=GENERATOR).byte().view(kind)
    return bits.nan_to_num(1.0, None, None) if kind.is_floating_point else bits


def seen(x: torch.Tensor) -> list[torch.Tensor]:
    return [x.view(kind) for kind in KINDS]


PROGRAMS: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    **{str(kind).removeprefix("torch."): (seen, numbers(kind)) for kind in KINDS},
    "a boolean": (lambda x: [x.view(torch.int8), x.view(torch.uint8)], numbers(torch.int8) > 0),
    "rounded first": (
        lambda x: [
            (x.half() * 3).view(torch.int16),
            (x.bfloat16() + 1).view(torch.int32),
            x.half().view(torch.int16).view(torch.float16) * 2,
        ],
        torch.randn(3, 8, generator=GENERATOR),
    ),
    "few": (
        lambda x: [x[0, 0].view(torch.int32), x[:0].view(torch.int64), x.view(torch.float32)],
        torch.randn(2, 4, generator=GENERATOR),
    ),
    "by strides": (
        lambda x: [x.t().view(torch.int32), x[:, ::2].contiguous().view(torch.int64),
                   torch.empty_strided((2, 3), (1, 2)).zero_(),
                   x.new_empty_strided((2, 3), (3, 1)).fill_(2)],
        torch.randn(2, 4, generator=GENERATOR),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_are_those_of_eager(name: str) -> None:
    program, x = PROGRAMS[name]
    expected = program(x)
    compiled = dlc.compile(program, (x,), backend="host")
    for ours in interpreted(program, [x])[0]:  # which has bf16 in f32, and NaN as one number
        for found, wanted in zip(ours, expected, strict=True):
            signless = found.view(wanted.dtype) if wanted.dtype is torch.uint8 else found
            torch.testing.assert_close(signless, wanted, rtol=0, atol=0, equal_nan=True)
    for found, wanted in zip(compiled(x), expected, strict=True):
        assert (found.dtype, found.stride()) == (wanted.dtype, wanted.stride())
        assert _bytes(found) == _bytes(wanted)
    assert {verdict.answer for verdict in compiled.check()} <= {"clean"}


def _bytes(tensor: torch.Tensor) -> list[int]:
    return tensor.contiguous().flatten().view(torch.uint8).tolist()


def alike(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Equal, signs of zeros included, or both NaN."""
    same = (found == wanted) & (found.signbit() == wanted.signbit())
    return bool((same | (found.isnan() & wanted.isnan())).all())


def test_digits_of_f64() -> None:
    least, most = 5e-324, torch.finfo(torch.float64).max
    unusual = [0.0, -0.0, 1, -1, 3, torch.inf, -torch.inf, torch.nan, least, -least, 1e-310, most]
    x = torch.tensor(unusual, dtype=torch.float64)
    powers = torch.exp2(torch.arange(-1074.0, 1024, dtype=torch.float64))
    every = torch.cat([x, powers, -powers])
    found = dlc.compile(torch.frexp, (every,), backend="host")(every)
    assert all(alike(f, w) for f, w in zip(found, torch.frexp(every), strict=True))
    sides = x[:, None], x
    assert alike(
        dlc.compile(torch.nextafter, sides, backend="host")(*sides), torch.nextafter(*sides)
    )


def test_the_reference_has_the_bits_of_the_program() -> None:
    """Not those of fp64, in which it computes."""

    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.to(torch.float8_e5m2)
        return x.view(torch.int32), y.view(torch.uint8), (x * 2).view(torch.int16).view(torch.half)

    x = numbers(torch.float32)
    module = import_program(program, (x,), whole=DECOMPOSITIONS).module
    calls = plain_calls(module)
    assert calls is not None
    for found in (evaluate(module, [x], double=True), calls.evaluate([x], double=True)):
        for ours, wanted in zip(found, program(x), strict=True):
            wide = wanted.double() if wanted.is_floating_point() else wanted
            torch.testing.assert_close(ours, wide, rtol=0, atol=0, equal_nan=True)
    assert dlc_cli.main(["run", "-c", "torch.randn(4).view(torch.int32)", "--backend=host"]) == 0


@pytest.mark.parametrize("kind", [k for k in KINDS if not k.is_floating_point])
def test_shifts_by_more_than_there_are_bits(kind: torch.dtype) -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x << n, x >> n, x >> 8, x << 7, 200 >> n

    x = torch.tensor([-1, 100, 3, 127]).to(kind)[:, None]
    n = torch.tensor([0, 1, 6, 7, 8, 9, 31, 63, 64, 127, -1, -8]).to(kind)
    for ours, wanted in zip(
        dlc.compile(program, (x, n), backend="host")(x, n), program(x, n), strict=True
    ):
        torch.testing.assert_close(ours, wanted, rtol=0, atol=0)

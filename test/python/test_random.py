"""Random numbers: Philox itself, what is made of it, and who draws which."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, exp, log, pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_operators import interpreted
from torch import nn
from torch.nn import functional as F

import dlc
from dlc.frontend.source import ImportFailure
from dlc.ir.scalar_functions import philox, philox4x32
from dlc.judge.known_results import Known
from dlc.judge.reference import evaluate

KNOWN_ANSWERS = (
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
)  # fmt: skip
"""Counter, key and result of philox4x32-10 (`kat_vectors` of Random123, by its authors)."""


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(counter: str, key: str, result: str) -> None:
    words = [[np.uint64(int(word, 16)) for word in text.split()] for text in (counter, key)]
    assert [f"{int(word):08x}" for word in philox4x32(*words)] == result.split()


def words(program: Callable[..., Any], seed: int, offset: int) -> torch.Tensor:
    """What the kernels of a program without inputs give for a state."""
    return drawn(dlc.compile(program, (), backend="host"), seed, offset)


def drawn(compiled: dlc.CompiledProgram, seed: int, offset: int) -> torch.Tensor:
    variant = compiled.variants[0]
    *constants, _ = variant.program.bind(())
    (result,) = variant.compute([*constants, torch.tensor([seed, offset])])
    return result


def test_kernels_draw_philox() -> None:
    """Both words, by the range that leaves them as they are, in counters that carry."""

    def all_bits() -> torch.Tensor:
        return torch.randint(-(2**63), 2**63 - 1, (9,)) - -(2**63)

    compiled = dlc.compile(all_bits, (), backend="host")
    for seed in (0, 1, 2**63 - 1, -1, -(2**63), 0x299F31D0A4093822):
        for offset in (0, 2**31 - 3, 2**32 - 3, 2**63 - 3, -3):
            with np.errstate(over="ignore"):
                places = np.int64(offset) + np.arange(9)
            expected = philox(np.int64(seed), places).view(np.uint64) % np.uint64(2**64 - 1)
            found = drawn(compiled, seed, offset).numpy().view(np.uint64)
            assert found.tolist() == expected.tolist(), (seed, offset)


def test_the_first_words_are_the_published_ones() -> None:
    first = words(lambda: torch.randint(0, 2**32 - 1, (1,)), 0, 0)
    assert first.item() == 0x6627E8D5
    half = words(lambda: torch.rand(1), 0, 0)
    assert half.item() == (0x6627E8D5 >> 8) * 2.0**-24
    double = words(lambda: torch.rand(1, dtype=torch.float64), 0, 0)
    assert double.item() == (0xE169C58D6627E8D5 >> 11) * 2.0**-53


x, chances = torch.linspace(-3, 3, 35).view(7, 5), torch.linspace(0, 1, 35).view(7, 5)
DRAWS: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "rand": (lambda x: [torch.rand(3, 5, dtype=d) for d in FLOATS] + [torch.rand(()) * x[0]], x),
    "randn": (lambda x: [torch.randn(33, 5, dtype=d) for d in FLOATS] + [torch.randn(0, 3)], x),
    "randint": (
        lambda x: [torch.randint(-7, 10, (4, 9), dtype=d) for d in (torch.int32, torch.float32)]
        + [torch.randint(256, (9,), dtype=torch.uint8), torch.randint(-(2**62), 2**62, (4, 4))],
        x,
    ),
    "like": (
        lambda x: (torch.rand_like(x), torch.randn_like(x), torch.randint_like(x, 9),
                   torch.randint_like(x, 2, 9), torch.rand_like(x.t(), dtype=torch.float64)),
        x,
    ),
    "bernoulli": (
        lambda p: (torch.bernoulli(p), torch.bernoulli(p, 0.3), p.new_empty(9).bernoulli_(0.7),
                   torch.empty_like(p).bernoulli_(p), torch.bernoulli(p.half())),
        chances,
    ),
    "filled": (
        lambda x: (x.clone().uniform_(-1, 3), x.clone().normal_(1, 3), x.clone().log_normal_(),
                   x.clone().exponential_(2.0), x.clone().geometric_(0.2), x.clone().cauchy_()),
        x,
    ),
    "filled with integers": (
        lambda x: (x.clone().random_(), x.long().random_(7), x.long().random_(), x.bool().random_(),
                   x.byte().random_(), x.half().random_(), x.int().random_()),
        x,
    ),
    "normal": (
        lambda x: (torch.normal(x), torch.normal(x, x.abs()), torch.normal(2.0, x.abs()),
                   torch.normal(2.0, 3.0, (4, 4)), torch.normal(x[0], x[:, :1].abs())),
        x,
    ),
    "dropout": (
        lambda x: (F.dropout(x, 0.3), F.dropout(x, 1.0), F.dropout(x, 0.0), F.dropout1d(x, 0.3),
                   F.dropout2d(x[None, None]), F.dropout3d(x[None, :, :, None, None]),
                   F.dropout(x.half(), 0.3), F.dropout(x, 0.3, training=False)),
        x,
    ),
    "alpha dropout": (
        lambda x: (F.alpha_dropout(x, 0.3, True), F.feature_alpha_dropout(x[None], 0.3, True)), x
    ),
    "rrelu": (lambda x: (F.rrelu(x, training=True), F.rrelu(x), F.rrelu(x, 0.1, 0.2, True)), x),
    "attention": (lambda x: F.scaled_dot_product_attention(*[x[None]] * 3, dropout_p=0.3), x),
    "gumbel": (lambda x: (F.gumbel_softmax(x), F.gumbel_softmax(x, hard=True)), x),
    "randperm": (lambda x: (torch.randperm(20), torch.randperm(0), x[torch.randperm(7)]), x),
    "multinomial": (
        lambda p: (torch.multinomial(p, 3), torch.multinomial(p, 9, True),
                   torch.multinomial(p[1], 9, True), torch.multinomial(p[:, 2].double(), 7)),
        chances + 0.1,
    ),
}  # fmt: skip
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@pytest.mark.parametrize("name", DRAWS)
def test_kernels_give_what_the_reference_draws(name: str) -> None:
    """Against NumPy's Philox, by the rule; in eager's shapes, dtypes and strides."""
    program, arg = DRAWS[name]
    compiled = dlc.compile(program, (arg,), backend="host")
    variant = compiled.variants[0]
    bound = variant.program.bind((arg,))
    torch_ir = variant.module("torch")
    exact, eager = evaluate(torch_ir, bound, double=True), evaluate(torch_ir, bound)
    known = Known(exact, eager, variant.longest_reduction)
    assert (said := known.complaint(variant.compute(bound))) is None, said
    for ours, eagers in zip(_leaves(compiled(arg)), _leaves(program(arg)), strict=True):
        assert (ours.shape, ours.dtype, ours.stride()) == (
            eagers.shape, eagers.dtype, eagers.stride(),
        )  # fmt: skip


def test_tensor_ir_draws_the_same() -> None:
    compiled = dlc.compile(several, (x,), backend="host")
    torch.manual_seed(3)
    expected = compiled(x)
    torch.manual_seed(3)
    found, _ = interpreted(several, [x])
    for ours in found:
        torch.testing.assert_close(ours, expected)


def _leaves(results: Any) -> list[torch.Tensor]:
    return [results] if isinstance(results, torch.Tensor) else list(results)


COUNT = 40_000


def kolmogorov(sample: torch.Tensor, distribution: Callable[[float], float]) -> float:
    """The largest distance of a sample's distribution from another, in units of 1 / sqrt(n)."""
    numbers = sample.double().sort().values.tolist()
    n = len(numbers)
    return sqrt(n) * max(
        max((i + 1) / n - p, p - i / n) for i, p in enumerate(map(distribution, numbers))
    )


DISTRIBUTIONS: dict[str, tuple[Callable[[], torch.Tensor], Callable[[float], float]]] = {
    "uniform": (lambda: torch.rand(COUNT), lambda t: t),
    "uniform, f64": (lambda: torch.rand(COUNT, dtype=torch.float64), lambda t: t),
    "normal": (lambda: torch.randn(COUNT), lambda t: (1 + erf(t / sqrt(2))) / 2),
    "normal, f64": (
        lambda: torch.randn(COUNT, dtype=torch.float64), lambda t: (1 + erf(t / sqrt(2))) / 2,
    ),
    "exponential": (lambda: torch.empty(COUNT).exponential_(2.0), lambda t: 1 - exp(-2 * t)),
    "cauchy": (
        lambda: torch.empty(COUNT).cauchy_(1.0, 2.0),
        lambda t: 0.5 + float(np.arctan((t - 1) / 2)) / pi,
    ),
    "log_normal": (
        lambda: torch.empty(COUNT).log_normal_(0.5, 2.0),
        lambda t: (1 + erf((log(t) - 0.5) / 2 / sqrt(2))) / 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(name: str) -> None:
    """By Kolmogorov and Smirnov: 1.95 is passed by one sample of a thousand."""
    program, distribution = DISTRIBUTIONS[name]
    assert kolmogorov(words(program, 2026, 0), distribution) < 1.95


def test_moments_and_neighbours_of_normal_numbers() -> None:
    numbers = words(lambda: torch.randn(COUNT), 1, 10**12).double()
    off = 4 / sqrt(COUNT)
    assert abs(numbers.mean()) < off
    assert abs(numbers.var() - 1) < sqrt(2) * off
    assert abs((numbers**3).mean()) < sqrt(15) * off
    assert abs((numbers**4).mean() - 3) < sqrt(96) * off
    for lag in (1, 2, 4, 32):
        assert abs((numbers[lag:] * numbers[:-lag]).mean()) < off


COUNTED: dict[str, tuple[Callable[[], torch.Tensor], list[float]]] = {
    "randint": (lambda: torch.randint(0, 5, (COUNT,)), [0.2] * 5),
    "bernoulli": (lambda: torch.bernoulli(torch.full((COUNT,), 0.3)).long(), [0.7, 0.3]),
    "dropout": (lambda: F.dropout(torch.ones(COUNT), 0.75).long() // 4, [0.75, 0.25]),
    "geometric": (
        lambda: torch.empty(COUNT).geometric_(0.4).long().clamp(max=5) - 1,
        [0.4, 0.24, 0.144, 0.0864, 0.1296],
    ),
    "multinomial": (
        lambda: torch.multinomial(torch.tensor([1.0, 0, 3, 6]), COUNT, True), [0.1, 0, 0.3, 0.6]
    ),
    "the first of two": (
        lambda: torch.multinomial(torch.tensor([[1.0, 0, 3, 6]]).expand(COUNT, 4), 2)[:, 0],
        [0.1, 0, 0.3, 0.6],
    ),
    "the second of two": (
        lambda: torch.multinomial(torch.tensor([[1.0, 0, 3, 6]]).expand(COUNT, 4), 2)[:, 1],
        [0.3 * 0.1 / 0.7 + 0.6 * 0.1 / 0.4, 0, 0.1 * 0.3 / 0.9 + 0.6 * 0.3 / 0.4,
         0.1 * 0.6 / 0.9 + 0.3 * 0.6 / 0.7],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_frequencies(name: str) -> None:
    program, chances = COUNTED[name]
    check_frequencies(words(program, 7, 0), chances)


def test_frequencies_of_permutations() -> None:
    """Of three in a program, from each of many places of the sequence of random words."""
    first = dlc.compile(
        lambda: torch.stack([torch.randperm(3)[0] for _ in range(3)]), (), backend="host"
    )
    check_frequencies(torch.cat([drawn(first, 7, 64 * n) for n in range(200)]), [1 / 3] * 3)


def check_frequencies(numbers: torch.Tensor, chances: list[float]) -> None:
    """Within four standard deviations of what is expected."""
    found = torch.bincount(numbers, minlength=len(chances)) / len(numbers)
    for frequency, chance in zip(found.tolist(), chances, strict=True):
        assert abs(frequency - chance) <= 4 * sqrt(chance * (1 - chance) / len(numbers))


def several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = F.dropout(x, 0.4) + torch.randn(x.shape)
    return y, torch.rand_like(y).sum(-1), (y @ torch.rand(5, 6)).relu()


def test_the_same_seed_repeats_and_calls_differ() -> None:
    compiled = dlc.compile(several, (x,), backend="host")
    torch.manual_seed(5)
    first, second = compiled(x), compiled(x)
    torch.manual_seed(5)
    torch.testing.assert_close(compiled(x), first, rtol=0, atol=0)
    torch.testing.assert_close(compiled(x), second, rtol=0, atol=0)
    assert not any(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_compiling_draws_nothing() -> None:
    torch.manual_seed(5)
    compiled = dlc.compile(several, (x,), backend="host")
    first = compiled(x)
    torch.manual_seed(5)
    torch.testing.assert_close(compiled(x), first, rtol=0, atol=0)


SCHEDULES = (
    "tileify",
    "tileify,blockify-launch{block=3,2 thread=3,2},mark-unroll{limit=8}",
    "tileify,blockify-launch{block=4,4 thread=2,1},register-tile{extents=2,4}",
)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_schedule_changes_no_number(schedule: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.4) + torch.rand(7, 5)

    compiled = dlc.compile(program, (x,), backend="host")
    state = torch.tensor([11, 5])
    (expected,) = compiled.variants[0].compute([x, state])
    (kernel,) = compiled.kernels
    other = compiled.with_schedule({kernel.name: schedule})
    (found,) = other.variants[0].compute([x, state])
    assert torch.equal(found, expected)
    (verdict,) = other.check()
    assert verdict.answer == "clean"


def test_what_is_computed_twice_is_drawn_once() -> None:
    """The numbers are needed by a sum and by what is divided by it."""

    def shares() -> torch.Tensor:
        numbers = torch.rand(6, 300)
        return numbers / numbers.sum(-1, keepdim=True)

    total = words(shares, 1, 1).double().sum(-1)
    torch.testing.assert_close(total, torch.ones(6).double(), rtol=1e-5, atol=0)


def test_gradients_see_the_mask_of_the_forward() -> None:
    """Under torch.compile the forward draws, and the backward has what it drew."""
    compiled = torch.compile(lambda x: F.dropout(x, 0.5) * 2, backend="dlc", fullgraph=True)
    given = torch.ones(200, requires_grad=True)
    result = compiled(given)
    (gradient,) = torch.autograd.grad(result.sum(), given)
    assert torch.equal(gradient, result)
    assert 0.3 < float((gradient != 0).double().mean()) < 0.7


def test_gradients_of_a_program_that_draws_are_refused() -> None:
    compiled = dlc.compile(lambda x: F.dropout(x, 0.5), (x,), backend="host")
    given = x.clone().requires_grad_()
    with pytest.raises(ImportFailure, match="draws random numbers, and gradients"):
        compiled(given)
    with torch.no_grad():
        compiled(given)


def test_under_torch_compile_the_seed_repeats() -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(), nn.Linear(8, 3))
    compiled = torch.compile(model, backend="dlc", fullgraph=True, options={"fallback": False})
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            compiled(x)
            torch.manual_seed(1)
            first, second = compiled(x), compiled(x)
            torch.manual_seed(1)
            assert torch.equal(compiled(x), first)
            assert not torch.equal(first, second)


def test_a_saved_program_draws_anew(tmp_path: Path) -> None:
    compiled = dlc.compile(several, (x,), backend="host")
    compiled.save(tmp_path / "p.dlc")
    loaded = dlc.load_program(tmp_path / "p.dlc")
    torch.manual_seed(2)
    expected = compiled(x), compiled(x)
    torch.manual_seed(2)
    torch.testing.assert_close((loaded(x), loaded(x)), expected, rtol=0, atol=0)


def test_a_generator_of_its_own_is_refused() -> None:
    own = torch.Generator()
    for program in (
        lambda: torch.rand(3, generator=own),
        lambda: torch.empty(3).bernoulli_(0.5, generator=own),
    ):
        with pytest.raises(ImportFailure, match="a generator of its own"):
            dlc.compile(program, ())

"""
Operations that draw random numbers, in terms of the three that Torch IR has for that.

Those are `rand`, `randn` and `randint.low`. Torch IR has them with a generator, which is a tensor
of two numbers, seed and offset, that `@main` takes last, and with an `offset` of their own, which
is fixed at import: see `dlc/transforms/tensor/decompositions/random_numbers.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OperatorBase
from torch._prims_common import compute_elementwise_output_logical_to_physical_perm

aten = torch.ops.aten

GENERATED: Mapping[object, str] = {
    aten.rand.default: "rand.generator",
    aten.randn.default: "randn.generator",
    aten.randint.low: "randint.low_generator",
}
"""The overloads with a generator, of those that draw."""

STATE = "rng"
"""The name of the argument that holds seed and offset."""


DRAWS_ELSEWHERE = (
    "draws random numbers of a generator of its own, expected PyTorch's default one; draw them "
    "outside and pass them as an argument"
)
"""What is wrong with a program, or an operation, that is given a generator."""


class OwnGenerator(Exception):
    """Says that an operation is given a generator."""


def of_default(function: Callable[..., object]) -> Callable[..., object]:
    """The function where an operation is given no generator; OwnGenerator where it is."""

    def call(*args: Any, **kwargs: Any) -> object:
        if any(isinstance(given, torch.Generator) for given in (*args, *kwargs.values())):
            raise OwnGenerator(f"the program {DRAWS_ELSEWHERE}")
        kwargs.pop("generator", None)
        return function(*args, **kwargs)

    return call


def draws(operation: object, result: Tensor) -> int | torch.SymInt:
    """How many places of the generator an operation of `GENERATED` takes: f64 normals take two."""
    two = operation is aten.randn.default and result.dtype == torch.float64
    return (2 if two else 1) * result.numel()


def random_state(seed: int) -> Tensor:
    """Seed and offset of a program that draws random numbers."""
    return torch.tensor([seed, 0])


def fresh_state() -> Tensor:
    """Seed and offset for one call: the next number of PyTorch's default generator, and 0."""
    return torch.cat([torch.empty(1, dtype=torch.int64).random_(), torch.zeros(1).long()])


def _like(value: Tensor, draw: Callable[..., Tensor], dtype: torch.dtype | None = None) -> Tensor:
    """What `draw` gives for a tensor's shape, of its or another type, lying as it does."""
    order, _ = compute_elementwise_output_logical_to_physical_perm(value)
    size = [value.shape[axis] for axis in order]
    drawn = draw(size=size, dtype=dtype or value.dtype, device=value.device)
    if order == list(range(value.dim())):
        return drawn
    return drawn.permute([order.index(axis) for axis in range(value.dim())])


def _uniform(value: Tensor) -> Tensor:
    """A number for each element, in f32, or in f64 for what is in f64."""
    wide = torch.float64 if value.dtype == torch.float64 else torch.float32
    return _like(value, torch.rand, wide)


def _positive(value: Tensor) -> Tensor:
    """The same, but in (0, 1]: its logarithm is finite."""
    return 1 - _uniform(value)


def _normal(value: Tensor) -> Tensor:
    return _like(value, torch.randn)


def rand_like(value: Tensor, *, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
    return _like(value, torch.rand, dtype)


def randn_like(value: Tensor, *, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
    return _like(value, torch.randn, dtype)


def randint(high: int, size: Sequence[int], **options: Any) -> Tensor:
    return torch.randint(0, high, size, **options)


def randint_like(value: Tensor, high: int, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return randint_like_from(value, 0, high, dtype=dtype)


def randint_like_from(
    value: Tensor, low: int, high: int, *, dtype: torch.dtype | None = None, **options: Any
) -> Tensor:
    return _like(value, partial(torch.randint, low, high), dtype)


def random_to(value: Tensor, to: int) -> Tensor:
    return randint_like_from(value, 0, to)


def random_from(value: Tensor, first: int, to: int | None = None) -> Tensor:
    return randint_like_from(value, first, _beyond(value.dtype) if to is None else to)


def random(value: Tensor) -> Tensor:
    return randint_like_from(value, 0, _beyond(value.dtype))


def _beyond(dtype: torch.dtype) -> int:
    """The number after the largest that `random_` draws, as PyTorch has it for a type."""
    if dtype.is_floating_point:
        return 2 ** {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24}.get(dtype, 53) + 1
    # The argument is an i64: what PyTorch adds one to would not be, for these.
    return 2 if dtype == torch.bool else min(torch.iinfo(dtype).max, 2**63 - 2) + 1


def bernoulli(value: Tensor) -> Tensor:
    return (_uniform(value) < value).to(value.dtype)


def bernoulli_p(value: Tensor, p: float = 0.5) -> Tensor:
    return (_uniform(value) < p).to(value.dtype)


def bernoulli_tensor(value: Tensor, p: Tensor) -> Tensor:
    return (_uniform(value) < p).to(value.dtype)


def dropout(value: Tensor, p: float, train: bool | None = True) -> tuple[Tensor, Tensor]:
    if not train:
        return value, torch.ones_like(value, dtype=torch.bool)
    mask = _uniform(value) >= p
    return value * mask * (0.0 if p == 1 else 1.0 / (1.0 - p)), mask


def uniform(value: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
    return (_uniform(value) * (high - low) + low).to(value.dtype)


def normal(value: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    return _normal(value) * std + mean


def normal_of_mean(mean: Tensor, std: float = 1.0) -> Tensor:
    return _normal(mean) * std + mean


def normal_of_std(mean: float, std: Tensor) -> Tensor:
    return _normal(std) * std + mean


def normal_of_both(mean: Tensor, std: Tensor) -> Tensor:
    return _normal(mean + std) * std + mean


def normal_of_size(mean: float, std: float, size: Sequence[int], **options: Any) -> Tensor:
    return torch.randn(size, **options) * std + mean


def log_normal(value: Tensor, mean: float = 1.0, std: float = 2.0) -> Tensor:
    return normal(value, mean, std).exp()


def exponential(value: Tensor, lambd: float = 1.0) -> Tensor:
    return (-_positive(value).log() / lambd).to(value.dtype)


def geometric(value: Tensor, p: float) -> Tensor:
    """How often one tries until an event of probability p occurs: 1, 2, …."""
    tries = _positive(value).log() / math.log1p(-p) if p < 1 else torch.zeros_like(_uniform(value))
    return tries.ceil().clamp(min=1).to(value.dtype)


def cauchy(value: Tensor, median: float = 0.0, sigma: float = 1.0) -> Tensor:
    return (median + sigma * torch.tan(math.pi * (_uniform(value) - 0.5))).to(value.dtype)


def rrelu(
    value: Tensor,
    noise: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
) -> tuple[Tensor, Tensor]:
    if not training:
        return torch.where(value >= 0, value, value * ((lower + upper) / 2)), noise
    slope = uniform(value, lower, upper)
    left = value <= 0
    return torch.where(left, value * slope, value), torch.where(left, slope, 1).to(noise.dtype)


def rrelu_alone(value: Tensor, noise: Tensor, *options: Any, **named: Any) -> Tensor:
    return rrelu(value, noise, *options, **named)[0]


def randperm(n: int, **options: Any) -> Tensor:
    """The order of as many random numbers; of two that are equal the first comes first."""
    kind = options.get("dtype") or torch.int64
    keys = torch.rand(n, dtype=torch.float64, device=options.get("device"))
    return torch.argsort(keys, stable=True).to(kind)


def multinomial(weights: Tensor, num_samples: int, replacement: bool = False) -> Tensor:
    """
    Without replacement, the winners of a race: times of exponential distributions with the weights
    as their rates. With it, where a uniform number falls among the partial sums.
    """
    wide = torch.float64 if weights.dtype == torch.float64 else torch.float32
    rates = weights.to(wide)
    if not replacement:
        return torch.topk(rates / -_positive(rates).log(), num_samples).indices
    sums = rates.cumsum(-1)
    size = [*weights.shape[:-1], num_samples]
    drawn = torch.rand(size, dtype=wide, device=weights.device) * sums[..., -1:]
    # The last one of any weight, should a product round up to the sum.
    last = (sums < sums[..., -1:]).sum(-1, keepdim=True)
    return torch.minimum(torch.searchsorted(sums, drawn, right=True), last)


_FUNCTIONS: Mapping[OperatorBase, Callable[..., object]] = {
    aten.rand_like.default: rand_like,
    aten.randn_like.default: randn_like,
    aten.randint.default: randint,
    aten.randint_like.default: randint_like,
    aten.randint_like.low_dtype: randint_like_from,
    aten.random.default: random,
    aten.random.to: random_to,
    getattr(aten.random, "from"): random_from,
    aten.bernoulli.default: bernoulli,
    aten.bernoulli.p: bernoulli_p,
    aten.bernoulli.Tensor: bernoulli_tensor,
    aten.native_dropout.default: dropout,
    aten.uniform.default: uniform,
    aten.normal_functional.default: normal,
    aten.normal.Tensor_float: normal_of_mean,
    aten.normal.float_Tensor: normal_of_std,
    aten.normal.Tensor_Tensor: normal_of_both,
    aten.normal.float_float: normal_of_size,
    aten.log_normal.default: log_normal,
    aten.exponential.default: exponential,
    aten.geometric.default: geometric,
    aten.cauchy.default: cauchy,
    aten.rrelu_with_noise.default: rrelu_alone,
    aten.rrelu_with_noise_functional.default: rrelu,
    aten.randperm.default: randperm,
    aten.multinomial.default: multinomial,
    aten.rand.generator: torch.rand,
    aten.randn.generator: torch.randn,
    aten.randint.generator: randint,
    aten.randint.low_generator: torch.randint,
    aten.randperm.generator: randperm,
}
DRAWS: Mapping[OperatorBase, Callable[..., object]] = {
    op: of_default(function) for op, function in _FUNCTIONS.items()
}

"""
Every family of operators, a line per operator, for tests against eager PyTorch and fp64.

They are called at odd shapes, at extents of 0 and 1, with strides, NaN and infinities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

GENERATOR = torch.Generator().manual_seed(0)
SPECIAL = torch.tensor(
    [nan, inf, -inf, 0.0, -0.0, 1.0, -1.5, 2.5, 3.5, -2.5, 1e30, -1e-30, 88.9, -104.0, 0.5, 7.0]
)
LEFT, RIGHT = SPECIAL.repeat(16), SPECIAL.repeat_interleave(16)
DIVISIBLE = ~((LEFT / RIGHT).isinf() & LEFT.isfinite() & (RIGHT != 0))
"""Where fp32 holds a quotient, or there is none: eager's remainder of a larger one is NaN where it
takes several elements at once, and right where it takes one."""


@dataclass(frozen=True)
class Case:
    family: str
    name: str
    function: Callable[..., Any]
    args: tuple[torch.Tensor, ...]


FAMILIES: dict[str, list[Case]] = {}
"""The operators by family; `FAMILY` is the one that lines below it belong to."""
FAMILY = ""


def family(name: str) -> None:
    global FAMILY
    FAMILY = name
    FAMILIES[name] = []


def op(name: str, function: Callable[..., Any], *args: torch.Tensor) -> None:
    FAMILIES[FAMILY].append(Case(FAMILY, name, function, args))


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=GENERATOR)


def integers(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=GENERATOR, dtype=dtype)


def mask(*shape: int) -> torch.Tensor:
    return normal(*shape) > 0


class Program(nn.Module):
    """All cases of a family at once; each takes its part of the arguments."""

    def __init__(self, cases: list[Case]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, *args: torch.Tensor) -> list[Any]:
        results, at = [], 0
        for case in self.cases:
            results.append(case.function(*args[at : at + len(case.args)]))
            at += len(case.args)
        return results


def arguments(cases: list[Case]) -> list[torch.Tensor]:
    return [tensor for case in cases for tensor in case.args]


# Functions of one element.

USUAL = torch.cat([SPECIAL.clamp(-100, 100), normal(13)])[:, None]

family("unary")
for _name in (
    "abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad erf erfc exp exp2 expm1 floor "
    "frac isfinite isinf isnan isneginf isposinf lgamma log log10 log1p log2 logical_not "
    "nan_to_num neg rad2deg reciprocal relu round rsqrt sgn sigmoid sign signbit sin sinc sinh "
    "sqrt square tan tanh trunc"
).split():
    op(_name, getattr(torch, _name), USUAL)
for _name in (
    "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 "
    "rrelu selu silu softplus softshrink softsign tanhshrink"
).split():
    op(_name, getattr(F, _name), USUAL)
op("gelu by tanh", lambda x: F.gelu(x, approximate="tanh"), normal(7))
op("logit", lambda x: (x.logit(), x.logit(0.2)), normal(7).sigmoid())
op("glu", lambda x: (F.glu(x), F.glu(x, 0)), normal(4, 6))
op("prelu", F.prelu, normal(2, 3, 5), normal(3))
op("limits", lambda x: (x.clamp(-1, 2), x.clamp(min=0.5), x.clip(max=1), F.threshold(x, 0.1, 20)),
   SPECIAL)  # fmt: skip
op("powers", lambda x: [x**p for p in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.7)] + [2**x], SPECIAL)
op("rounding", lambda x: (x.round(decimals=2), x.round(decimals=-1)), normal(7) * 100)
op("nothing", lambda x: (x.exp(), F.gelu(x), x.isnan()), normal(0, 3))
op("strided", lambda x, y: (x.exp(), F.silu(y), x.t().sin()), normal(5, 3).t(), normal(9)[1::2])
op("integers", lambda x: (x.abs(), -x, x.sign(), x.float().exp(), x.exp(), x.relu(), ~x),
   integers(-9, 9, 7))  # fmt: skip

# Functions with names of their own.

family("special")
for _name in "digamma erfcx erfinv i0 i0e i1 i1e log_ndtr ndtr ndtri spherical_bessel_j0".split():
    op(_name, getattr(torch.special, _name), torch.cat([USUAL, USUAL.sigmoid()]))
for _order in "01":
    for _name in ("modified_bessel_k", "scaled_modified_bessel_k", "bessel_j", "bessel_y"):
        op(_name + _order, getattr(torch.special, _name + _order), USUAL.abs())
op("airy_ai", torch.special.airy_ai, normal(29).abs() + 2)
op("polygamma", lambda x: [torch.polygamma(n, x) for n in range(4)], normal(29) * 3)
op("zeta", torch.special.zeta, torch.tensor([[2.0, 3.0, 1.0, 0.5, 2.5]]), normal(29, 1) * 3)
for _name in "tuvw":
    op(f"Chebyshev {_name}", lambda x, n, f=f"chebyshev_polynomial_{_name}": (
        getattr(torch.special, f)(x, n), getattr(torch.special, f"shifted_{f}")(x, n)),
       torch.tensor([[-1.0, 1.0, 0.0, 0.3, -0.7, 1.2, -1.4]]),
       torch.arange(-1.0, 9.0)[:, None])  # fmt: skip
for _name in (
    "hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p"
).split():
    op(_name, lambda x, n, f=getattr(torch.special, _name): (
        [f(x, n) for n in (-1, 0, 1, 2, 3.7, 12)], f(x[:, None], n)),
       torch.cat([t[~t.isnan()] for t in (USUAL, SPECIAL, torch.tensor([-1.0, 1.0]))]),
       torch.tensor([-2.0, 0.0, 1.0, 2.0, 3.7, 12.0]))  # fmt: skip
    op(f"{_name} of 0.3", lambda n, f=getattr(torch.special, _name): f(0.3, n),
       torch.arange(-1.5, 9.0))  # fmt: skip
op("incomplete gamma", lambda a, x: (torch.igamma(a, x), torch.igammac(a, x), torch.igamma(x, a)),
   torch.cat([SPECIAL, torch.tensor([1e-5, 0.3, 9.5, 77.0, 3e3, 2e6])])[:, None],
   torch.cat([SPECIAL, torch.tensor([1e-5, 0.4, 11.0, 70.0, 3.1e3, 2e6 + 900])]))  # fmt: skip

# Functions of several.

family("binary")
for _name in (
    "add sub mul div maximum minimum fmax fmin atan2 copysign hypot logaddexp logaddexp2 eq ne lt "
    "le gt ge logical_and logical_or logical_xor fmod remainder floor_divide heaviside xlogy pow"
).split():
    _left, _right = (t[DIVISIBLE] if _name in ("fmod", "remainder") else t for t in (LEFT, RIGHT))
    op(_name, getattr(torch, _name), _left.clamp(-90, 90) if _name == "pow" else _left, _right)
op("broadcasting", lambda x, y, z: (x + y, x * y * z, z - x, torch.maximum(z, y), x**z, y > z),
   normal(2, 1, 5), normal(3, 1), normal())  # fmt: skip
op("fmod of large quotients", lambda x, y: (torch.fmod(x, y), x % y, x // y),
   normal(99) * torch.logspace(0, 15, 99), normal(99).abs() + 0.01)  # fmt: skip
op("fmod of quotients beyond all floats", lambda x, y: (torch.fmod(x, y), x % y, x // y, x % 0.5),
   torch.tensor([3e38, -3e38, 2e-45, inf, 7, -4, 1e30]).double() ** 8,
   torch.tensor([7, 1e-37, 3e-45, 3, inf, 2, 0.3]).double())  # fmt: skip
op("signs of remainders that are 0", lambda x: [
    1 / rest for rest in (torch.fmod(x, 2), x % 2, x % -2, x % 3, x // 2, x // -5)
   ], torch.tensor([-4, -0.0, 0, 4, -3, 3]))  # fmt: skip
op("numbers", lambda x: (x + 1, 2 - x, x * 3, 1 / x, x % 0.7, x // 0.3, x.fmod(-0.7), x > 0.5,
                         torch.remainder(5, x), torch.xlogy(0.1, x.abs()), torch.xlogy(x, 7),
                         torch.special.xlog1py(x, 0.1)), normal(3, 5))  # fmt: skip
op("quotients", lambda x, y: [torch.div(x, y, rounding_mode=m) for m in (None, "floor", "trunc")],
   LEFT, RIGHT)  # fmt: skip
op("where", lambda m, x, y: (torch.where(m, x, y), x.masked_fill(m, -inf), torch.where(m, x, 2)),
   mask(5, 7), normal(7), normal(5, 1))  # fmt: skip
op("fused", lambda x, y, z: (torch.addcmul(x, y, z, value=0.5), torch.addcdiv(x, y, z.exp()),
                             torch.lerp(x, y, z), torch.lerp(x, y, 0.3)),
   normal(5, 3), normal(3), normal(5, 1))  # fmt: skip
op("clamp", lambda x, y: (x.clamp(y, y + 1), x.clamp_min(y), x.clamp(max=y)), normal(5), normal(5))
op("integers", lambda x, y: (x + y, x // y, x % y, x.fmod(y), x / y, x & y, x | y, x ^ y, x**2,
                             x << 2, x >> 1, torch.maximum(x, y), x == y, x << y.abs(),
                             x >> y.abs()),
   integers(-99, 99, 3, 8), torch.tensor([1, -1, 3, -4, 2, 5, -2, 70]))  # fmt: skip
op("numbers first", lambda x, m: (torch.bitwise_and(5, x), torch.bitwise_or(5, x), 5 ^ x,
                                  torch.bitwise_left_shift(3, x), torch.bitwise_right_shift(-99, x),
                                  torch.bitwise_xor(True, m), torch.bitwise_or(2, m)),
   integers(-9, 70, 5, 3), integers(0, 2, 5, 3).bool())  # fmt: skip
for _first, _second in (("int32", "int64"), ("uint8", "int8"), ("int64", "float32"),
                        ("bool", "int32"), ("uint8", "uint8"), ("bool", "bool")):  # fmt: skip
    op(f"{_first} with {_second}",
       lambda x, y: (x + y, x * y, x > y, torch.where(x > y, x, y), x / (y + 1), x.logical_or(y)),
       integers(0, 2, 3, 4).to(getattr(torch, _first)),
       integers(0, 2, 4).to(getattr(torch, _second)))  # fmt: skip
op("bytes", lambda u: (u > 200, u == 200, u != -56, u < 129, u.ge(-3), u.clamp(-1, 130), -u,
                       u.fmod(-3), u % 130, u.masked_fill(u > 3, 130), 5 - u, u * 200, u // -2),
   torch.tensor([0, 1, 44, 127, 128, 200, 255], dtype=torch.uint8))  # fmt: skip
op("isin", torch.isin, integers(0, 9, 5), integers(0, 9, 3))
op("divisors", lambda x, y: (torch.gcd(x, y), torch.lcm(x, y), torch.gcd(x, y[:1])),
   integers(-999, 999, 3, 9), integers(-30, 30, 9))  # fmt: skip
op("powers of integers",
   lambda x, y, u: (x**y, x.long() ** y, 3**y, x.to(torch.int8) ** y.to(torch.int8),
                    u ** (u - 7), 2**u, (1 << u) | (1000 >> y.abs())),
   torch.arange(-5, 6, dtype=torch.int32)[:, None],
   torch.tensor([-3, -2, -1, 0, 1, 2, 3, 7, 19, 31, 62, 100], dtype=torch.int32),
   torch.tensor([0, 1, 2, 3, 7, 8, 9, 127, 128, 200, 254, 255], dtype=torch.uint8))  # fmt: skip
op("digits", lambda x, y: (torch.frexp(x), torch.nextafter(x, y)),
   torch.cat([SPECIAL, torch.exp2(torch.arange(-149.0, 128))])[:, None], SPECIAL)  # fmt: skip
op("casts", lambda x: (x.int(), x.long(), x.bool(), x.double(), x.to(torch.uint8), x.short()),
   normal(9) .abs() * 9)  # fmt: skip

# Reductions.

NANS = torch.where(normal(4, 3, 5) > 1.2, nan, normal(4, 3, 5))
INFINITE = torch.where(normal(4, 3, 5) > 1, inf, normal(4, 3, 5))
TIES = integers(0, 3, 4, 3, 5).float()
KINDS = torch.cat([normal(4, 3, 5), NANS, INFINITE, -INFINITE, TIES])

family("reductions")
for _name in "sum mean amax amin any all argmax argmin std var logsumexp".split():
    _f = getattr(torch, _name)
    op(_name, lambda x, f=_f: (f(x, 1), f(x, -1, keepdim=True)), KINDS)
    if not _name.startswith("arg"):
        op(
            f"{_name} of axes",
            lambda x, f=_f: (f(x, (1, 2), keepdim=True), f(x[:4], (0, -1))),
            KINDS,
        )
for _name in "sum mean prod max min any all argmax argmin std var count_nonzero norm".split():
    op(f"{_name} of all", getattr(torch, _name), normal(3, 7))
op("prod", lambda x: (x.prod(1), x.prod(0, keepdim=True)), normal(3, 5))
op("max and min", lambda x: (x.max(1), x.min(-1, keepdim=True)), NANS)
op("aminmax", lambda x: (torch.aminmax(x), torch.aminmax(x, dim=1)), normal(3, 5))
op("moments", lambda x: (x.var((0, 2), correction=0), torch.var_mean(x, 1), torch.std_mean(x, -1)),
   normal(3, 4, 5))  # fmt: skip
op("norms", lambda x: [torch.linalg.vector_norm(x, p, dim=1) for p in (0, 1, 2, 3, inf, -inf)],
   normal(3, 5))  # fmt: skip
op("of nothing", lambda x: (x.sum(1), x.mean(1), x.prod(1), x.any(1), x.all(1), x.sum(0),
                            x.logsumexp(1)), normal(3, 0))  # fmt: skip
op("of one", lambda x: (x.sum(0), x.amax(1), x.argmax(1), x.var(0, correction=0)), normal(1, 1))
op("of a scalar", lambda x: (x.sum(), x.amax(0), x.argmax(), x.mean(0)), normal())
op("of integers", lambda x: (x.sum(), x.prod(0), x.amax(1), x.argmin(), x.any(0), x.max(0)),
   integers(-5, 5, 3, 4, dtype=torch.int32))  # fmt: skip
op("of booleans", lambda x: (x.sum(0), x.all(1), x.float().mean(), x.any((0, 1))), mask(3, 4))
op("strided", lambda x: (x.sum(0), x.amax(1), x.argmax(0)), normal(7, 6)[:, ::2].t())
op("covariances", lambda x, w, v: (
    torch.cov(x), torch.corrcoef(x), x[0].cov(), torch.cov(x, correction=0, fweights=w),
    torch.cov(x, aweights=v.exp()), torch.corrcoef(x[0])),
   normal(3, 7), integers(1, 4, 7), normal(7))  # fmt: skip
op("checked losses", lambda x, y, v: (
    F.gaussian_nll_loss(x, y, v.exp()), F.gaussian_nll_loss(x, y, v[:, :1].exp(), True),
    F.gaussian_nll_loss(x, y, 0.5, reduction="none")),
   normal(3, 5), normal(3, 5), normal(3, 5))  # fmt: skip
op("nansum", lambda x: (x.nansum(1), x.nanmean(0)), NANS)
op("losses", lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y),
                           F.huber_loss(x, y), F.kl_div(x, y.exp()), F.binary_cross_entropy(
                               x.sigmoid(), y.sigmoid()), F.cosine_similarity(x, y)),
   normal(3, 5), normal(3, 5))  # fmt: skip
op("cross entropy", lambda x, y: (F.cross_entropy(x, y), F.cross_entropy(x, y, ignore_index=2),
                                  F.cross_entropy(x, y, label_smoothing=0.1), F.nll_loss(x, y)),
   normal(5, 4), integers(0, 4, 5))  # fmt: skip

# Running sums, sorting.

family("order")
op("cumsum", lambda x: (x.cumsum(0), x.cumsum(-1), x.cumsum(1)), normal(3, 7, 5))
op("cumsum of a long axis", lambda x: (x.cumsum(0), x.cumsum(1)), normal(2, 2111))
op("cumsum of special numbers", lambda x: x.cumsum(0), SPECIAL.flip(0).repeat(9))
op(
    "cumsum of integers",
    lambda x, m: (x.cumsum(0), m.cumsum(0), x.int().cumsum(0, dtype=torch.int32)),
    integers(-9, 9, 130),
    mask(70),
)
op("cumprod", lambda x: (x.cumprod(0), x[:3].cumprod(0)), normal(100))
op("running extremes", lambda x, y, z: [f(v, d) for f in (torch.cummax, torch.cummin)
                                         for v, d in ((x, 0), (y, 1), (z, 0), (x[0], 0))],
   KINDS, integers(-5, 5, 2, 150), mask(70))  # fmt: skip
op("logcumsumexp", lambda x, y, z: (x.logcumsumexp(0), y.logcumsumexp(-1), z.logcumsumexp(0)),
   KINDS, normal(2, 150) * 9, SPECIAL[1:].repeat(9))  # fmt: skip
op("cumsum of little", lambda x: (x.cumsum(0), x[:, :0].cumsum(1), x[0, 0].cumsum(0)), normal(1, 3))
op("sort", lambda x: (x.sort(1), x.sort(0, descending=True), x.argsort(stable=True)),
   TIES[0])  # fmt: skip
op("sort of special numbers", lambda x: torch.sort(x, stable=True)[0], SPECIAL)
op("topk", lambda x: (x.topk(3), x.topk(2, 0, largest=False), x.topk(0)), normal(4, 33))
op("places", lambda x, s, o: (
    torch.searchsorted(s, x), torch.searchsorted(s, x, right=True, out_int32=True),
    torch.searchsorted(o, x, sorter=o.argsort(-1), side="right"), torch.bucketize(x, s[0]),
    torch.searchsorted(s[0], 0.3), torch.bucketize(0.5, s[1], right=True)),
   normal(2, 7), normal(2, 5).sort(-1)[0], normal(2, 6))  # fmt: skip
op("members", lambda x, y: (torch.isin(x, y), torch.isin(x, y, invert=True), torch.isin(x, 3),
                            torch.isin(y, x[:0])),
   integers(0, 9, 5, 2), integers(0, 9, 3))  # fmt: skip
op("medians", lambda x, y: (x.median(), x.nanmedian(), x.median(0), x.nanmedian(-1, True),
                            x[0, 0].median(), y.median(), y.median(1)),
   NANS, integers(-9, 9, 3, 4))  # fmt: skip
op("kthvalue", lambda x: (x.kthvalue(2), x.kthvalue(3, 0, True)), normal(4, 33))
op("mode", lambda x: (x.mode(), x.mode(0, True), x[0].mode()), integers(0, 4, 3, 13))
op("histc", lambda x: (x.histc(7), x.histc(5, -1, 2), x[:1].histc(3)), normal(99))
op("routing", lambda x: F.one_hot(x.softmax(-1).topk(2)[1], 8).sum(1), normal(5, 8))


# Counts, and what is chosen by counts.

family("counts")
op("nonzero_static", lambda x: [torch.nonzero_static(x, size=n) for n in (0, 1, 7, 50)] + [
    torch.nonzero_static(x[0, 0], size=2, fill_value=9), torch.nonzero_static(x[:0], size=3)],
   torch.relu(normal(3, 4)))  # fmt: skip
op("repeat_interleave", lambda x, n: (torch.repeat_interleave(n, output_size=9),
                                      x.repeat_interleave(n, 0, output_size=9)),
   normal(4, 3), torch.tensor([2, 0, 4, 3]))  # fmt: skip
op(
    "histc_large",
    lambda x: (x.histc(7000), x.histc(9000, -1, 2)),
    torch.cat([torch.arange(2), (torch.arange(1007) * 6 + 0.5) / 7000]),
)  # far from ends of bins
op(
    "index_add_integers",
    lambda x, i, j: (
        torch.zeros(4001, dtype=torch.int64).index_add(0, i, torch.ones_like(i)),
        torch.ones(3, 4001, dtype=torch.int32).index_add(1, i, x),
        torch.ones(4001, 3, dtype=torch.int32).scatter_add(0, j, x.t()),
        torch.ones(4001, 3, dtype=torch.int16).index_put((i, i % 3), x[0].short(), accumulate=True),
    ),
    torch.arange(5997).reshape(3, 1999).int() % 19 - 9,
    torch.arange(1999) * 7919 % 4001,
    (torch.arange(3998) * 7919 % 401).reshape(1999, 2),
)
op("histogram", lambda x, w, ends: (
    x.histogram(7), x.histogram(4, range=(-1, 2)), x.histogram(5, weight=w, density=True),
    x.histogram(ends), x.histogram(ends, weight=w), x[:0].histogram(3), x[:1].histogram(3)),
   torch.cat([normal(90), torch.tensor([-1.0, 2.0, 0.5])]), normal(93).abs(),
   torch.tensor([-1.0, 0.0, 0.5, 2.0]))  # fmt: skip
op("histogramdd", lambda x, w: (
    torch.histogramdd(x, [3, 2]), torch.histogramdd(x, [3, 4], range=(-1, 1, -2, 1), weight=w),
    torch.histogramdd(x, [torch.tensor([-1.0, 0, 2]).to(x), torch.tensor([-2, 0.5]).to(x)],
                      density=True)),
   normal(50, 2), normal(50).abs())  # fmt: skip
op("fractional_max_pool", lambda x, u: (
    F.fractional_max_pool2d(x, (2, 3), (4, 3), return_indices=True, _random_samples=u[..., :2]),
    F.fractional_max_pool2d(x[0], 2, output_ratio=(0.7, 0.7), _random_samples=u[:1, :, :2]),
    F.fractional_max_pool2d(x, 9, (1, 1), return_indices=True, _random_samples=u[..., :2]),
    F.fractional_max_pool3d(x, (1, 2, 3), (2, 4, 3), return_indices=True,
                            _random_samples=u[:1, :2])),
   normal(2, 3, 9, 9), normal(2, 3, 3).sigmoid())  # fmt: skip
op("combinations", lambda x: [torch.combinations(x[:n], r, again)
                              for n in (0, 1, 5) for r in (1, 2, 3) for again in (False, True)],
   normal(5))  # fmt: skip
op("ctc_loss", lambda x, y, n, m: (
    F.ctc_loss(x.log_softmax(-1), y, n, m, reduction="none"),
    F.ctc_loss(x.log_softmax(-1), y[:, :3], (5, 3, 4), (1, 3, 0), blank=2),  # pyright: ignore
    F.ctc_loss(x.log_softmax(-1), y.flatten()[:9], n, m, blank=4, reduction="sum"),
    F.ctc_loss(x[:, 0].log_softmax(-1), y[0, :2], n[0], m[0]),
    F.ctc_loss(x[:2].log_softmax(-1), y, (2, 2, 2), (1, 4, 2), zero_infinity=True)),  # pyright: ignore
   normal(5, 3, 5), torch.tensor([[1, 1, 3, 3], [3, 1, 1, 3], [1, 3, 3, 1]]),
   torch.tensor([5, 5, 4]), torch.tensor([2, 4, 3]))  # fmt: skip
op("resize", lambda x: (x.clone().resize_(2, 3), x.clone().resize_as_(x[0])), normal(5, 3))
op(
    "resize to a scalar",
    lambda x: (x[0, 0].clone().resize_(()), x.clone().resize_(()), x.as_strided((), ())),
    normal(5, 3),
)


# Normalization and softmax.

family("normalization")
op("softmax", lambda x: (x.softmax(-1), x.softmax(0), x.log_softmax(1), F.softmin(x, 1)),
   normal(3, 5, 7))  # fmt: skip
op("softmax of infinities", lambda x: (x.softmax(-1), x.log_softmax(1)), INFINITE)
op("softmax of masked rows", lambda x: (x.softmax(-1), x.log_softmax(-1)),
   normal(4, 5).masked_fill(mask(4, 5) | torch.eye(4, 1).bool(), -inf))  # fmt: skip
op("gradients of softmax",
   lambda g, y: [torch.ops.aten._softmax_backward_data(g, y, dim, y.dtype) for dim in (0, -1)],
   normal(5, 6) * 9, normal(5, 6) * 9)  # fmt: skip
op("layer norm", lambda x, w, b: (F.layer_norm(x, (7,), w, b), F.layer_norm(x, (5, 7))),
   normal(3, 5, 7), normal(7), normal(7))  # fmt: skip
op("rms norm", lambda x, w: (F.rms_norm(x, (7,), w), F.rms_norm(x, (5, 7), eps=1e-3)),
   normal(3, 5, 7), normal(7))  # fmt: skip
op("group norm", lambda x, w, b: (F.group_norm(x, 3, w, b), F.group_norm(x[..., 0], 2)),
   normal(2, 6, 5, 3), normal(6), normal(6))  # fmt: skip
op("batch norm", lambda x, m, v, w, b: (F.batch_norm(x, m, v, w, b), F.batch_norm(x[..., 0], m, v)),
   normal(2, 6, 5, 3), normal(6), normal(6).abs(), normal(6), normal(6))  # fmt: skip
op("instance norm", lambda x: (F.instance_norm(x), F.normalize(x, dim=1)), normal(2, 3, 5))
op("of nothing", lambda x: (x.softmax(0), F.rms_norm(x, (4,)), x.log_softmax(1)), normal(0, 4))
op("local response norm", lambda x: F.local_response_norm(x, 3), normal(1, 5, 3, 3))
op("dropout", lambda x: (F.dropout(x, 0.5, False), F.alpha_dropout(x, 0.5, False)), normal(5))

# Normalization that keeps statistics; what is looked up, sampled and rounded beside models.


def trained(
    normalize: Callable[..., torch.Tensor], x: torch.Tensor, m: torch.Tensor, v: torch.Tensor
) -> list[torch.Tensor]:
    mean, variance = m.clone(), v.clone()
    return [normalize(x, mean, variance, None, None, True, 0.3), mean, variance]


family("training")
op(
    "batch norm",
    lambda x, m, v: (
        trained(F.batch_norm, x, m, v),
        F.batch_norm(x, None, None, training=True),
        F.batch_norm(x, m, v),
    ),
    normal(3, 4, 5),
    normal(4),
    normal(4).abs(),
)
op("instance norm", lambda x, m, v: trained(F.instance_norm, x, m, v), normal(3, 4, 5), normal(4),
   normal(4).abs())  # fmt: skip
op("bags", lambda w, i, o, s: ([F.embedding_bag(i, w, o, mode=k) for k in ("sum", "mean", "max")],
                               F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s),
                               F.embedding_bag(i, w, o, padding_idx=2, include_last_offset=True)),
   normal(10, 3), integers(0, 10, 9), torch.tensor([0, 3, 3, 9]), normal(9))  # fmt: skip
op("segments", lambda x, n: [torch.segment_reduce(x, r, lengths=n, unsafe=True, initial=i)
                             for r in "sum mean max min prod".split() for i in (None, 1.5)],
   normal(7, 2), torch.tensor([2, 0, 4, 1]))  # fmt: skip
op("volumes", lambda x, g: [F.grid_sample(x, g, m, p, a) for m, p, a in (
    ("bilinear", "zeros", False), ("bilinear", "reflection", True), ("nearest", "border", False))],
   normal(2, 2, 3, 4, 5), normal(2, 2, 3, 2, 3))  # fmt: skip
op("antialiased", lambda x: [F.interpolate(x, size, mode=m, antialias=True)
                             for size in ((3, 5), (9, 4)) for m in ("bilinear", "bicubic")],
   normal(1, 2, 7, 11))  # fmt: skip
op("antialiased bytes", lambda x: F.interpolate(x, (3, 9), mode="bilinear", antialias=True),
   integers(0, 255, 1, 2, 7, 5).to(torch.uint8))  # fmt: skip
op("margins", lambda x, y, s: [F.margin_ranking_loss(x, y, s.sign(), 0.5, reduction=r)
                              for r in ("none", "mean", "sum")],
   normal(3, 4), normal(3, 4), normal(3, 4))  # fmt: skip
op("margins of some classes", lambda x, y, w: (
    [F.multilabel_margin_loss(x, y, reduction=r) for r in ("none", "mean", "sum")],
    F.multilabel_margin_loss(x[3], y[3]), F.multi_margin_loss(x, y[:, 0].relu(), 2, 0.5, w),
    F.multi_margin_loss(x[0], y[0, :1], reduction="none")),
   normal(4, 5), torch.tensor(
       [[3, 1, -1, 1, 0], [0, 1, 2, 3, 4], [-1, 0, 2, 1, 1], [2, 2, -1, -1, 4]]),
   normal(5).abs())  # fmt: skip
op("resized bytes", lambda x: [(F.interpolate(x, (3, 9), mode=m, align_corners=True),
                                F.interpolate(x, scale_factor=(1.7, 0.6), mode=m),
                                F.interpolate(x, scale_factor=(1.1, 1.4), mode=m))
                               for m in ("bilinear", "bicubic")],
   integers(0, 255, 1, 3, 7, 5).to(torch.uint8))  # fmt: skip
op("indices of pools", lambda x, g: torch.ops.aten.max_pool2d_with_indices_backward(
    g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, F.max_pool2d(x, 2, return_indices=True)[1]),
   normal(1, 2, 4, 6), normal(1, 2, 2, 3))  # fmt: skip
op("rounded to a scale", lambda x, s, z: (
    torch.fake_quantize_per_tensor_affine(x, 0.125, 10, 0, 255),
    torch.fake_quantize_per_channel_affine(x.float(), s.float(), z, 1, -128, 127)),
   normal(3, 5), normal(5).exp(), integers(-5, 5, 5, dtype=torch.int32))  # fmt: skip
op("bytes multiplied", torch._int_mm, integers(-128, 127, 32, 64, dtype=torch.int8),  # pyright: ignore
   integers(-128, 127, 64, 16, dtype=torch.int8))  # fmt: skip
op("chunked loss", lambda x, w, y: F.linear_cross_entropy(x, w, y), normal(6, 5), normal(4, 5),
   integers(0, 4, 6))  # fmt: skip
op("distances", lambda x, y: [(torch.cdist(x, y, p), torch.pdist(x, p))
                              for p in (0, 1, 1.5, 2, inf)],
   normal(5, 3), normal(4, 3))  # fmt: skip
op("bilinear", lambda x, y, w, b: F.bilinear(x, y, w, b), normal(3, 4), normal(3, 5),
   normal(2, 4, 5), normal(2))  # fmt: skip
op("bilinear of integers", F.bilinear, integers(-9, 9, 3, 4), integers(-9, 9, 3, 5),
   integers(-9, 9, 2, 4, 5), integers(-9, 9, 2))  # fmt: skip
op("angle", torch.angle, SPECIAL)

# Products.

family("products")
op("matmul", lambda a, b, v: (a @ b, a @ v, a[0] @ b, v @ v, torch.mm(a, b), torch.mv(a, v)),
   normal(7, 13), normal(13, 5), normal(13))  # fmt: skip
op("batches", lambda a, b: (a @ b[:, None], torch.bmm(a[0], b), a @ b[0]),
   normal(3, 3, 2, 5), normal(3, 5, 4))  # fmt: skip
op("linear", lambda x, w, b: (F.linear(x, w, b), F.linear(x[0, 0], w), F.linear(x, w[0])),
   normal(3, 1, 5), normal(4, 5), normal(4))  # fmt: skip
op(
    "sums",
    lambda x, a, b: (
        torch.addmm(x, a, b, beta=0.5, alpha=2),
        torch.addmv(x[:, 0], a, b[:, 0]),
        torch.addmm(x * nan, a, b, beta=0),
        torch.addr(x, a[:, 0], b[0]),
    ),
    normal(7, 5),
    normal(7, 3),
    normal(3, 5),
)
op("batched sums", lambda x, a, b: (torch.baddbmm(x, a, b, beta=2), torch.addbmm(x[0], a, b)),
   normal(2, 7, 5), normal(2, 7, 3), normal(2, 3, 5))  # fmt: skip
op("einsum", lambda a, b: [torch.einsum(e, a, b) for e in (
    "bij,bjk->bik", "bij,bjk->k", "bij,cjk->bcik", "...ij,...jk->...ik", "bij,bjk")],
   normal(3, 7, 4), normal(3, 4, 5))  # fmt: skip
op("einsum of one", lambda a: (torch.einsum("bii->bi", a), torch.einsum("bij->j", a)),
   normal(2, 3, 3))  # fmt: skip
op("outer", lambda a, b: (torch.outer(a, b), torch.kron(a, b), torch.inner(a, a)),
   normal(3), normal(4))  # fmt: skip
op("others", lambda a, b: (torch.tensordot(a, b, 1), a.trace(), torch.kron(a, b), torch.cdist(a, a),
                           torch.chain_matmul(a, b, b), torch.linalg.multi_dot([a, b, b])),
   normal(3, 3), normal(3, 3))  # fmt: skip
op("nothing", lambda a, b: (a @ b, F.linear(a[:0], b.t())), normal(3, 0), normal(0, 5))
op("integers", lambda a, b: a @ b, integers(-9, 9, 5, 7), integers(-9, 9, 7, 3))

# Convolutions.

family("convolutions")
op("conv1d", lambda x, w, b: (F.conv1d(x, w, b), F.conv1d(x, w, None, 2, 3), F.conv1d(x[0], w),
                              F.conv1d(x, w, b, 1, 4, 2), F.conv1d(x, w, padding="same")),
   normal(2, 3, 11), normal(5, 3, 3), normal(5))  # fmt: skip
op("conv2d", lambda x, w, b: (F.conv2d(x, w, b, 2, 1), F.conv2d(x, w, None, (1, 2), (2, 0), (2, 1)),
                              F.conv2d(x, w, b, padding="valid")),
   normal(2, 3, 7, 8), normal(4, 3, 3, 2), normal(4))  # fmt: skip
op("conv3d", lambda x, w: F.conv3d(x, w, None, 1, 1), normal(1, 2, 3, 4, 5), normal(3, 2, 2, 3, 1))
op("groups", lambda x, w, d: (F.conv2d(x, w, groups=2, padding=1), F.conv2d(x, d, groups=4)),
   normal(2, 4, 5, 5), normal(6, 2, 3, 3), normal(8, 1, 3, 3))  # fmt: skip
op("patches", lambda x, w: F.conv2d(x, w, stride=4).flatten(2).transpose(1, 2), normal(1, 3, 8, 12),
   normal(5, 3, 4, 4))  # fmt: skip
op("transposed", lambda x, w, b: (F.conv_transpose2d(x, w, b, 2, 1, 1), F.conv_transpose2d(x, w),
                                  F.conv_transpose1d(x[:, :, 0], w[:, :, 0], None, 3, 0, 2, 1, 2)),
   normal(2, 3, 4, 5), normal(3, 4, 3, 2), normal(4))  # fmt: skip
op("transposed groups", lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 0, 2),
   normal(1, 4, 3, 3), normal(4, 3, 3, 3))  # fmt: skip
op("transposed in classes", lambda x, w, v: (
    F.conv_transpose1d(x, w, None, 2, 1, 1, 1, 2), F.conv_transpose1d(x, w, None, 6, 0, 3, 1, 4),
    F.conv_transpose1d(x, w, None, 4, 1, 2), F.conv_transpose1d(x, w[..., :1], None, 3, 0, 1, 1, 9),
    F.conv_transpose3d(v, w[:, :, :, None, None].expand(-1, -1, -1, 2, 1), None, 2, 1, 1)),
   normal(2, 3, 9), normal(3, 4, 3), normal(1, 3, 3, 2, 4))  # fmt: skip
op("no batch", lambda x, w: F.conv2d(x, w), normal(0, 3, 5, 5), normal(4, 3, 3, 3))
op("strided", lambda x, w: F.conv2d(x, w, padding=1), normal(2, 6, 5, 3).permute(0, 3, 1, 2),
   normal(2, 3, 3, 3))  # fmt: skip
op("unfold", lambda x: F.unfold(x, 3, padding=1, stride=2), normal(1, 2, 5, 6))

# Pooling and resampling.

family("pooling")
NAN_IMAGE = normal(2, 3, 7, 9)
NAN_IMAGE[0, 0, 2, 3] = nan
op(
    "max",
    lambda x: (
        F.max_pool2d(x, 2),
        F.max_pool2d(x, 3, 2, 1),
        F.max_pool2d(x, 2, ceil_mode=True),
        F.max_pool2d(x, (2, 3), (1, 2), (1, 1), 2),
        F.max_pool1d(x[0], 3, 2, 1),
    ),
    NAN_IMAGE,
)
op(
    "max with indices",
    lambda x: (
        F.max_pool2d(x, 3, 2, 1, return_indices=True),
        F.max_pool1d(x[0], 2, return_indices=True),
    ),
    normal(2, 3, 7, 9),
)
op("max in space", lambda x: F.max_pool3d(x, 2, 1, 1), normal(1, 2, 3, 4, 5))
op(
    "average",
    lambda x: (
        F.avg_pool2d(x, 2),
        F.avg_pool2d(x, 3, 2, 1),
        F.avg_pool1d(x[0], 4, 3),
        F.avg_pool2d(x, 3, 2, 1, True),
        F.avg_pool2d(x, 3, 2, 1, True, False),
        F.avg_pool2d(x, 2, divisor_override=3),
        F.avg_pool2d(x, (3, 2), 1, (1, 0), False, False),
    ),
    normal(2, 3, 7, 8),
)
op("average in space", lambda x: F.avg_pool3d(x, 2, 2, 1), normal(1, 2, 3, 4, 5))
op(
    "adaptive",
    lambda x: (
        F.adaptive_avg_pool2d(x, 1),
        F.adaptive_avg_pool2d(x, (3, 2)),
        F.adaptive_avg_pool2d(x, (None, 5)),
        F.adaptive_avg_pool1d(x[0], 4),
        F.adaptive_avg_pool2d(x[0], (7, 11)),
    ),
    normal(2, 3, 7, 9),
)
op("adaptive max", lambda x: (F.adaptive_max_pool2d(x, (3, 4)), F.adaptive_max_pool1d(x[0], 2)),
   normal(2, 3, 7, 9))  # fmt: skip
op("nearest", lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 11)),
                         F.interpolate(x[0], scale_factor=1.7), F.interpolate(x, size=(2, 2)),
                         F.interpolate(x, size=(4, 9), mode="nearest-exact")),
   normal(2, 3, 4, 5))  # fmt: skip
op("linear", lambda x: (F.interpolate(x, scale_factor=2, mode="bilinear"),
                        F.interpolate(x, size=(3, 9), mode="bilinear", align_corners=True),
                        F.interpolate(x[0], size=7, mode="linear"),
                        F.interpolate(x, size=(3, 9), mode="bicubic")),
   normal(2, 3, 4, 5))  # fmt: skip
op("sizes kept by a factor", lambda x: (
    [F.interpolate(x, scale_factor=f, mode=m) for f in ((1.1, 2.3), (2.3, 1.1))
     for m in ("nearest", "nearest-exact", "bilinear", "bicubic")],
    [F.interpolate(x[0], scale_factor=1.1, mode=m) for m in ("nearest", "linear")],
    F.interpolate(x[None], scale_factor=(1.1, 1.3, 1.1), mode="trilinear"),
    F.interpolate(x, scale_factor=(1.1, 1.3), mode="bilinear", antialias=True)),
   normal(2, 3, 4, 5))  # fmt: skip
op("shuffle", lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 2)),
   normal(1, 8, 4, 6))  # fmt: skip

# Moves.

family("moves")
op(
    "views",
    lambda x: (
        x.view(4, 18),
        x.reshape(-1),
        x.flatten(1),
        x.unflatten(2, (2, 3)),
        x[None],
        x.squeeze(),
        x.unsqueeze(-1),
        x.expand(2, 4, 3, 6),
        torch.atleast_3d(x[0, 0]),
    ),
    normal(4, 3, 6),
)
op("places in memory", lambda x: (
    x.as_strided((3, 2), (1, 5), 2),
    torch.as_strided_scatter(x, x[0, :2].clone(), (2, 6), (18, 1), 1)),
   normal(4, 3, 6))  # fmt: skip
op("orders", lambda x: (x.permute(2, 0, 1), x.transpose(-1, 0), x.mT, x.movedim(0, 2), x[0].T,
                        x.swapaxes(0, 1)), normal(4, 3, 6))  # fmt: skip
op("slices", lambda x: (x[1:], x[:, ::2], x[..., 1:-1], x[5:], x[-1], x[:, None], x.narrow(1, 1, 2),
                        x.select(1, -1), x[2:2]), normal(4, 3, 6))  # fmt: skip
op(
    "joins",
    lambda x, y: (
        torch.cat([x, y, x[:0]]),
        torch.cat([x, x, x, x], -1),
        torch.stack([x, x]),
        torch.hstack([x, x]),
        torch.vstack([x, y]),
        torch.dstack([x, x]),
        torch.cat([x, y.int()]),
    ),
    normal(3, 4),
    normal(2, 4),
)
op(
    "parts",
    lambda x: (
        x.split(4, 1),
        x.split([1, 2, 4], 1),
        x.chunk(3, -1),
        x.unbind(1),
        x.tensor_split(4, 1),
        x.tensor_split((2, 3), 1),
        x.hsplit((3,)),
    ),
    normal(3, 7),
)
op(
    "turns",
    lambda x: (
        x.flip(0),
        x.flip(0, 1),
        x.roll(2, 1),
        x.roll((1, -2), (0, 1)),
        x.roll(5),
        torch.rot90(x),
        torch.fliplr(x),
        torch.flipud(x),
    ),
    normal(3, 5),
)
op("repeats", lambda x: (x.repeat(2, 1, 3), x.tile(2), x.repeat_interleave(3, 1), x.expand(3, 3, 5),
                         x.repeat_interleave(2)), normal(3, 5))  # fmt: skip
op("pads", lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0), value=3.0), F.pad(x, (-1, 2)),
                      F.pad(x[0], (2, 1), mode="reflect"), F.pad(x, (2, 1, 1, 0), mode="replicate"),
                      F.pad(x[0], (2, 5), mode="circular"),
                      F.pad(x[0], (-1, 2), mode="circular"), F.pad(x[0], (3, -2), mode="circular"),
                      F.pad(x, (1, 2, 2, 1), mode="reflect")),
   normal(2, 3, 4, 6))  # fmt: skip
op(
    "triangles",
    lambda x: (
        x.tril(),
        x.triu(1),
        x.tril(-1),
        x.diagonal(),
        torch.diag_embed(x, 1),
        torch.diag(x),
        torch.diag(x[0]),
        x.triu() > 0,
    ),
    normal(4, 5),
)
op("windows", lambda x: (x.unfold(1, 3, 2), x.unfold(0, 2, 1)), normal(4, 7))
op("writes", lambda x: (torch.slice_scatter(x, x[:, :2] * 2, 1, 0, 5, 3),
                        torch.select_scatter(x, x[0], 0, 1),
                        torch.diagonal_scatter(x, x[0, :4])), normal(4, 5))  # fmt: skip
op("little", lambda x: (x.flip(0), x.roll(1, 0), x.tril(), torch.cat([x, x]), x.repeat(2, 2),
                        F.pad(x, (1, 1)), x.flatten()), normal(0, 3))  # fmt: skip
op(
    "meshes",
    lambda x, y: (
        torch.meshgrid(x, y, indexing="ij"),
        torch.meshgrid(x, y, indexing="xy"),
        torch.cartesian_prod(x, y),
        torch.block_diag(x, y),
    ),
    normal(3),
    normal(2),
)
op("linalg", lambda x, y: (torch.linalg.cross(x, y), torch.cross(x, y, 1), x.norm(dim=1)),
   normal(2, 3), normal(2, 3))  # fmt: skip

family("creation")
op(
    "full",
    lambda x: (
        torch.full((2, 3), 2.5),
        torch.full_like(x, 7),
        x.new_full((2,), 3),
        torch.zeros(3),
        torch.ones_like(x),
        x.new_zeros(2),
        torch.eye(3, 4),
    ),
    normal(3),
)
op("ranges", lambda x: (torch.arange(5), torch.arange(2, 9, 3), torch.arange(0, 1, 0.3) + 0 * x[0],
                        torch.linspace(0, 1, 7), torch.linspace(2, -2, 1), torch.logspace(0, 1, 5)),
   normal(3))  # fmt: skip
op("indices", lambda x: (torch.tril_indices(3, 4), torch.triu_indices(3, 3, 1), x.triu().ne(0)),
   normal(3, 3))  # fmt: skip
op("one hot", lambda i: (F.one_hot(i, 4), F.one_hot(i[None], 5)), integers(0, 4, 6))

# Reading and writing at indices.

family("indices")
op("embedding", lambda i, w: (F.embedding(i, w), w[i], F.embedding(i[:0], w)),
   integers(0, 11, 3, 5), normal(11, 7))  # fmt: skip
op("gather", lambda x, i, j: (x.gather(1, i), x.take_along_dim(i, 1), x[j], x[:, j], x[j, j],
                              x[j - 3], x[j[:, None], j], x.index_select(1, j), x.take(i)),
   normal(5, 7), integers(0, 5, 5, 4), integers(0, 5, 3))  # fmt: skip
op("gather of other ranks", lambda x, i: (x.gather(0, i), x.gather(0, i[()][None][:0]),
                                          x.gather(0, i.new_zeros(2, 0)), x[0].gather(0, i[None])),
   normal(7), torch.tensor(0))  # fmt: skip
op("index", lambda x, i, j: (x[:, i], x[i, :, j], x[:, i, j], x[None, i, 1:], x[..., j], x[i[:0]],
                             x[i[:, None], j]),
   normal(4, 3, 5), torch.tensor([0, -1, 2]), torch.tensor([[1], [-5]]).squeeze(1)[:1])  # fmt: skip


def put(x: torch.Tensor, v: torch.Tensor, *index: Any, accumulate: bool = False) -> torch.Tensor:
    return torch.ops.aten.index_put(x, index, v, accumulate)


PLACES, COLUMN = torch.tensor([0, -1, 2, 0]), torch.tensor([[1], [3]])
op("index_put", lambda x, v, i: (put(x, v, i[1:]), put(x, v[:, :1], i[1:]), put(x, v[0, 0], i, i)),
   normal(4, 6), normal(3, 6), PLACES)  # fmt: skip
op("accumulated", lambda x, v, i: (put(x, v, i, accumulate=True),
                                   put(x, v[0, 0], i, i, accumulate=True)),
   normal(4, 6), normal(4, 6), PLACES)  # fmt: skip
op(
    "index_put of two",
    lambda x, v, i, j: (put(x, v, i[1:], j), put(x, v, i[1:], j, accumulate=True)),
    normal(4, 5, 2),
    normal(2, 3, 2),
    PLACES,
    COLUMN,
)
op(
    "index_put apart",
    lambda x, v, i: (put(x, v, i[1:], None, i[1:]), put(x, v[:, :2], None, i[1:, None], i[1:3])),
    normal(4, 5, 4),
    normal(3, 5),
    PLACES,
)
op(
    "masked put",
    lambda x, m, v: (put(x, v, m), put(x, v[0], m), put(x, v, None, m[0], accumulate=True)),
    normal(3, 4, 5),
    mask(3, 4),
    normal(5),
)
op(
    "masked put of halves",
    lambda x, m, v: put(x, v, m, accumulate=True),
    normal(3, 4, 5).bfloat16(),
    mask(3, 4),
    normal(5).bfloat16(),
)
op(
    "scattered numbers",
    lambda x, i, v: (
        x.scatter_add(0, i[:1], v[0]),
        x.scatter(0, i[0], v[0]),
        x.scatter(0, i[0], 2.0),
    ),
    normal(5),
    PLACES,
    normal(5),
)
op("no updates", lambda x, v, i: (put(x, v[:0], i[:0]), x.index_add(0, i[:0], v[:0])),
   normal(4, 5), normal(4, 5), PLACES)  # fmt: skip
op("assigned", lambda x, v: assigned(x, v), normal(5, 7), normal(7))
op(
    "index_add",
    lambda x, i, v: (
        x.index_add(0, i, v, alpha=2),
        x.index_copy(0, i[1:], v[1:]),
        x.index_fill(1, i[1:], 3.0),
    ),
    normal(4, 5),
    PLACES % 4,
    normal(4, 5),
)
op("scatter", lambda x, i, v: (x.scatter(1, i, v), x.scatter(0, i, 2.5), x.scatter_add(1, i, v),
                               x.scatter(1, i, v, reduce="multiply"), x.scatter(1, i[:2, :2], v)),
   normal(4, 5), torch.stack([torch.randperm(4, generator=GENERATOR) for _ in range(3)]),
   normal(3, 6))  # fmt: skip
op("scatter_reduce", lambda x, i, v: [x.scatter_reduce(1, i, v, r, include_self=s) for s in
                                      (True, False) for r in "sum prod mean amax amin".split()],
   normal(4, 5), integers(0, 5, 4, 6), normal(4, 6))  # fmt: skip
op("take and put", lambda x, i, v: (
    x.take(i), x.put(i, v), x.put(i, v, accumulate=True), x.put(i[:, :0], v[:, :0])),
   normal(4, 5), integers(-20, 20, 2, 3), normal(2, 3))  # fmt: skip
op("index_reduce", lambda x, i, v: [x.index_reduce(1, i, v, r, include_self=s) for s in
                                    (True, False) for r in "prod mean amax amin".split()],
   normal(4, 5), integers(0, 5, 7), normal(4, 7))  # fmt: skip
op("scatter to a scalar", lambda x, i, v: [
    x.scatter_add(0, i, v), x.scatter(0, i[0], v[0]), x.scatter_reduce(0, i, v, "amax"),
    x.scatter_reduce(0, i, v, "mean", include_self=False), x.scatter(0, i[0], 2, reduce="add")],
   normal(), integers(0, 1, 1), normal(1))  # fmt: skip
op("scatter of integers", lambda x, i, v: [x.scatter_reduce(1, i, v, r) for r in
                                           "sum prod mean amax amin".split()],
   integers(-9, 9, 4, 5), integers(0, 5, 4, 6), integers(-9, 9, 4, 6))  # fmt: skip
op("masked_scatter", lambda x, m, v: x.masked_scatter(m, v), normal(9, 11), mask(9, 11), normal(99))


def assigned(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 1:3] = x[:, :2] * 2
    y[..., 0] += 1
    y[0] = v
    y[y > 1] = 0.5
    y.add_(1).clamp_(max=2)
    return y


# Attention.

family("attention")
sdpa = F.scaled_dot_product_attention
for _length, _keys in ((4, 4), (3, 7), (7, 3), (1, 5), (3, 0)):
    _qkv = normal(2, 4, _length, 5), normal(2, 4, _keys, 5), normal(2, 4, _keys, 3)
    _allowed = mask(_length, _keys)
    _allowed[0] = False
    op(
        f"{_length} to {_keys}",
        lambda q, k, v: (
            sdpa(q, k, v),
            sdpa(q, k, v, is_causal=True),
            sdpa(q[0], k[0], v[0], scale=0.3),
        ),
        *_qkv,
    )
    op(f"{_length} to {_keys}, masked", lambda q, k, v, m, b: (
        sdpa(q, k, v, m), sdpa(q, k, v, b), sdpa(q, k[:, :2], v[:, :2], m, enable_gqa=True)),
       *_qkv, _allowed, normal(2, 1, _length, _keys).masked_fill(~_allowed, -inf))  # fmt: skip


# On the host: what no other test runs there.

family("on the host")
op("scalars", lambda x, y: torch.stack([
    x.acos(), x.acosh(), x.asin(), x.asinh(), x.atan(), x.atanh(), x.cosh(), x.sinh(), x.erfc(),
    x.atan2(y), x.copysign(y), x.hypot(y), x.fmod(y), x.remainder(y), x // y, x.fmax(y),
    torch.logaddexp(x, y), x.signbit() + 0.0]), LEFT.clamp(-80, 80), RIGHT)  # fmt: skip
op("powers of integers", lambda x, y: x**y, torch.arange(-5, 6)[:, None],
   torch.tensor([-3, -2, -1, 0, 1, 2, 7, 62, 100]))  # fmt: skip
op("running sums", lambda x: x.cumsum(1), normal(2, 2111))
op("routing", lambda x: x.softmax(-1).topk(2), normal(5, 8))
op("convolution", lambda x, w, b: F.max_pool2d(F.relu(F.conv2d(x, w, b, 2, 1)), 3, 2, 1),
   normal(2, 3, 15, 17), normal(4, 3, 3, 2), normal(4))  # fmt: skip
op("depthwise", lambda x, w: F.adaptive_avg_pool2d(F.conv2d(x, w, groups=4), (3, 2)),
   normal(2, 4, 9, 9), normal(8, 1, 3, 3))  # fmt: skip
op("transposed", lambda x, w: F.avg_pool2d(F.conv_transpose2d(x, w, None, 2, 1, 0, 2), 3, 2, 1),
   normal(1, 4, 3, 3), normal(4, 3, 3, 3))  # fmt: skip
op("resampling", lambda x: F.interpolate(x, size=(5, 9), mode="bilinear"), normal(1, 2, 3, 4))
op("index_put", lambda x, v, i: put(x, v, i[1:]), normal(4, 6), normal(3, 6), PLACES)
op("scatter", lambda x, v, i: x.scatter_add(0, i, v), normal(4, 5), normal(2, 5),
   integers(0, 4, 2, 5))  # fmt: skip

"""Special functions against mpmath, to the last digits of f32 and f64: PyTorch's own have fewer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import pytest
import torch
from test_operators import interpreted

import dlc

special = torch.special
ALL = (-40.0, 40.0)
POSITIVE = (1e-6, 60.0)


def erfcx(x: Any) -> Any:
    """`exp(x * x) * erfc(x)`, of which the first factor needs more digits."""
    with mpmath.workdps(40):
        return mpmath.exp(x * x) * mpmath.erfc(x)


def gamma_part(a: float, upper: bool = False) -> Callable[[Any], Any]:
    """P(a, x), or Q(a, x), of x."""
    ends = (lambda x: (x, mpmath.inf)) if upper else (lambda x: (0, x))
    return lambda x: mpmath.gammainc(a, *ends(x), regularized=True)


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[float, float]]] = {
    "digamma": (torch.digamma, mpmath.digamma, (-9.77, 40)),
    "erfcx": (special.erfcx, erfcx, (-4, 60)),
    "erfinv": (torch.erfinv, mpmath.erfinv, (-0.999999, 0.999999)),
    "ndtri": (special.ndtri, lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1), (1e-7, 0.999999)),
    "i0": (torch.i0, lambda x: mpmath.besseli(0, x), ALL),
    "i0e": (special.i0e, lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), ALL),
    "i1": (special.i1, lambda x: mpmath.besseli(1, x), ALL),
    "i1e": (special.i1e, lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), ALL),
    "j0": (special.bessel_j0, lambda x: mpmath.besselj(0, x), ALL),
    "j1": (special.bessel_j1, lambda x: mpmath.besselj(1, x), ALL),
    "y0": (special.bessel_y0, lambda x: mpmath.bessely(0, x), POSITIVE),
    "y1": (special.bessel_y1, lambda x: mpmath.bessely(1, x), (0.3, 60)),
    "k0": (special.modified_bessel_k0, lambda x: mpmath.besselk(0, x), POSITIVE),
    "k1": (special.modified_bessel_k1, lambda x: mpmath.besselk(1, x), (0.3, 60)),
    "k0e": (
        special.scaled_modified_bessel_k0,
        lambda x: mpmath.besselk(0, x) * mpmath.exp(x),
        POSITIVE,
    ),
    "airy": (special.airy_ai, mpmath.airyai, (-30, 12)),
    "trigamma": (lambda x: torch.polygamma(1, x), lambda x: mpmath.polygamma(1, x), (-5.77, 20)),
    "psi of 3": (lambda x: torch.polygamma(3, x), lambda x: mpmath.polygamma(3, x), (-5.77, 20)),
    "P of 3/8": (lambda x: torch.igamma(torch.full_like(x, 0.375), x), gamma_part(0.375), (0, 9)),
    "Q of 5": (lambda x: torch.igammac(torch.full_like(x, 5), x), gamma_part(5, True), (0, 29)),
    "Q of 30": (lambda x: torch.igammac(torch.full_like(x, 30), x), gamma_part(30, True), (0, 60)),
    "zeta": (lambda x: special.zeta(2.5, x), lambda x: mpmath.zeta(2.5, x), (0.3, 60)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_functions_have_all_digits(name: str, dtype: torch.dtype) -> None:
    function, exact, (low, high) = FUNCTIONS[name]
    if name == "airy" and dtype is torch.float64:
        pytest.skip("refused")
    x = torch.linspace(low, high, 203, dtype=dtype)
    x = x[(x - x.round()).abs() > 0.1]  # next to a pole the argument has too few digits
    found = interpreted(function, [x])[0][-1]
    expected = torch.tensor([float(exact(mpmath.mpf(v))) for v in x.tolist()], dtype=torch.float64)
    error = (found.double() - expected).abs()
    # Of functions that grow or fall fast no point hides behind the largest one; zeros have digits
    # enough if they have those of the other points.
    size = expected.abs().clamp_min(expected.abs().median())
    assert (error / size).max() <= 50 * torch.finfo(dtype).eps
    assert error.max() <= 4 * torch.finfo(dtype).eps * expected.abs().max()


@pytest.mark.parametrize("a", [1200.0, 80000.0, 9e6])
def test_incomplete_gamma_of_large_numbers(a: float) -> None:
    """Against the integral, which is next to nothing 10 deviations below the mean."""
    deviation = a**0.5
    x = (a + deviation * torch.linspace(-4, 4, 9, dtype=torch.float64)).round()

    def density(t: Any) -> Any:
        return mpmath.exp((a - 1) * mpmath.log(t) - t - mpmath.loggamma(a))

    def exact(end: float) -> float:
        ends = [a - (10 - n) * deviation for n in range(20) if a - (10 - n) * deviation < end]
        found: Any = mpmath.quad(density, [*ends, end])
        return float(found)

    lower, upper = interpreted(
        lambda x: (torch.igamma(torch.full_like(x, a), x), torch.igammac(torch.full_like(x, a), x)),
        [x],
    )[0][-1]
    with mpmath.workdps(30):
        expected = torch.tensor([exact(v) for v in x.tolist()], dtype=torch.float64)
    torch.testing.assert_close(lower, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(upper, 1 - expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", "tuvw")
@pytest.mark.parametrize("shifted", ["", "shifted_"])
def test_polynomials_of_what_is_no_number(kind: str, shifted: str) -> None:
    polynomial = getattr(torch.special, f"{shifted}chebyshev_polynomial_{kind}")
    x = torch.tensor([[torch.nan], [torch.inf], [-torch.inf]])
    compiled = dlc.compile(polynomial, (x, torch.arange(4.0)), backend="host")
    nan, inf = torch.nan, torch.inf
    expected = torch.tensor([[1, nan, nan, nan], [1, inf, inf, inf], [1, -inf, inf, -inf]])
    torch.testing.assert_close(compiled(x, torch.arange(4.0)), expected, equal_nan=True)


@pytest.mark.parametrize("name", ["hermite_h", "hermite_he", "laguerre_l", "legendre_p"])
def test_degrees_are_truncated_on_the_host_as_by_pytorch(name: str) -> None:
    family, _, last = name.partition("_")
    function = getattr(special, f"{family}_polynomial_{last}")
    x = torch.tensor([-0.7, 0.0, 0.3, 1.0, 2.5])[:, None]
    degrees = torch.tensor([-2.0, -1.0, -0.98, -0.0, 0.98, 1.0, 1.02, 5.99])
    found = dlc.compile(function, (x, degrees), backend="host")(x, degrees)
    expected = function(x.double(), degrees.double())
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)

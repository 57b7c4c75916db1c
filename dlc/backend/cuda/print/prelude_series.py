"""The functions of `dlc/ir/special_functions.py` in C: loops as long as their arguments say."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi

from dlc.backend.cuda.print.prelude_function import Function
from dlc.ir.gamma_series import EPSILON, LARGE, STIRLING, TEMME, TEMME_NEXT

_RECURRENCES = {
    "hermite_h": ("x + x", "(x + x) * last - 2.0 * k * before"),
    "hermite_he": ("x", "x * last - k * before"),
    "laguerre_l": ("1 - x", "((2.0 * k + (1 - x)) * last - k * before) / (k + 1.0)"),
    "legendre_p": ("x", "((2.0 * k + 1) * x * last - k * before) / (k + 1.0)"),
}
"""What is of degree 1, and what is of degree k + 1."""


def _polynomial(first: str, following: str) -> str:
    return f"""\
if (!(degree > -1 && degree < 9223372036854775808.0)) return 0;
const long long n = (long long)degree;
double before = 1, last = {first};
for (long long k = 1; k < n && !isnan(last); ++k) {{
  const double next = {following};
  before = last;
  last = next;
}}
return n == 0 ? 1 : last;"""


def _sum(name: str, variable: str, coefficients: Sequence[float]) -> str:
    """A polynomial in powers of a variable."""
    first, *rest = reversed(coefficients)
    steps = "".join(f"{name} = {name} * {variable} + {c!r};\n" for c in rest)
    return f"double {name} = {first!r};\n{steps}"


_DISTANCE = f"""\
if (fabs(mu) >= 0.01) return mu - log1p(mu);
{_sum("total", "mu", [(-1) ** k / k for k in range(2, 10)])}return total * mu * mu;"""

_OF_LARGE = f"""\
const double root = copysign(sqrt(a * distance), mu);
const double eta = fmax(-1.0, fmin(1.0, root * sqrt(2 / a)));
{_sum("first", "eta", TEMME)}{_sum("second", "eta", TEMME_NEXT)}\
const double rest = exp(-a * distance) / sqrt({2 * pi!r} * a) * (first + second / a);
return sign * rest + erfc(sign * root) / 2;"""

_SCALE = f"""\
if (a < 10) return x > 800 ? 0 : pow(x, a) * exp(-x) / tgamma(a + 1);
const double square = 1 / (a * a);
{_sum("correction", "square", STIRLING)}\
return exp(-a * distance - correction / a) / sqrt({2 * pi!r} * a);"""

_SERIES = f"""\
double total = 1, term = 1;
for (double k = 1; term > {EPSILON!r} * total; ++k) {{
  term *= x / (a + k);
  total += term;
}}
return total;"""

_FRACTION = f"""\
double b = x + 1 - a, c = 1 / 0.0, d = 1 / b, result = d, change = 0;
for (double k = 1; fabs(change - 1) > {4 * EPSILON!r}; ++k) {{
  const double factor = k * (a - k);
  b += 2;
  d = 1 / (factor * d + b);
  c = factor / c + b;
  change = c * d;
  result *= change;
}}
return result;"""

_INCOMPLETE = f"""\
if (a < 0 || x < 0 || (a == 0 && !(x > 0)) || (isinf(a) && isinf(x))) return nan("");
if (a == 0) return !upper;
if (x == 0 || isinf(a)) return upper;
if (isinf(x)) return !upper;
const double mu = (x - a) / a, distance = gamma_distance(mu);
if (a > {LARGE!r}) return gamma_of_large(a, mu, distance, upper ? 1 : -1);
const double scale = gamma_scale(a, x, distance);
if (x < a + 1) {{
  const double lower = scale * gamma_series(a, x);
  return upper ? 1 - lower : lower;
}}
const double tail = scale * a * gamma_fraction(a, x);
return upper ? tail : 1 - tail;"""

_GAMMA: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "gamma_distance": ("mu - log(1 + mu).", "double mu", _DISTANCE, ()),
    "gamma_of_large": (
        "P(a, x), of sign -1, or Q(a, x) of a large a (DLMF 8.12.3 and 8.12.4).",
        "double a, double mu, double distance, double sign",
        _OF_LARGE,
        (),
    ),
    "gamma_scale": (
        "The integrand of the incomplete gamma function, over Gamma(a + 1).",
        "double a, double x, double distance",
        _SCALE,
        (),
    ),
    "gamma_series": (
        "The sum of x**k / ((a + 1) ... (a + k)) (DLMF 8.7.1).",
        "double a, double x",
        _SERIES,
        (),
    ),
    "gamma_fraction": (
        "The continued fraction of DLMF 8.9.2, by the method of Lentz.",
        "double a, double x",
        _FRACTION,
        (),
    ),
    "gamma_part": (
        "The regularized incomplete gamma function Q(a, x), or P(a, x).",
        "double a, double x, bool upper",
        _INCOMPLETE,
        ("gamma_distance", "gamma_of_large", "gamma_scale", "gamma_series", "gamma_fraction"),
    ),
    **{
        name: (what, "double a, double x", f"return gamma_part(a, x, {upper});", ("gamma_part",))
        for name, what, upper in (("igamma", "P(a, x).", "false"), ("igammac", "Q(a, x).", "true"))
    },
}
"""Summary, parameters, body, and what it calls of each."""


def _series(
    name: str, summary: str, parameters: str, body: str, needs: tuple[str, ...] = ()
) -> Function:
    """A function that is not inlined everywhere."""
    return Function(
        name, summary, f"__device__ inline double {name}({parameters})", body, "", needs
    )


SERIES_FUNCTIONS = [
    *(
        _series(
            name, "A polynomial by its recurrence.", "double x, double degree", _polynomial(*steps)
        )
        for name, steps in _RECURRENCES.items()
    ),
    *(_series(name, *row) for name, row in _GAMMA.items()),
]

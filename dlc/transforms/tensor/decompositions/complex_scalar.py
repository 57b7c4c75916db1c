"""Complex scalars of an elementwise body: two reals, with PyTorch's arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from dlc.transforms.tensor.decompositions import scalar as s
from dlc.transforms.tensor.decompositions.builder import refuse
from dlc.transforms.tensor.decompositions.pointwise import hypot
from dlc.transforms.tensor.decompositions.scalar import Scalar

sinh, cosh = s.function("sinh"), s.function("cosh")


@dataclass(frozen=True)
class Complex:
    """`re + i im`. Products are the sums of four products that eager has, of infinities too."""

    re: Scalar
    im: Scalar

    def __add__(self, other: Complex) -> Complex:
        return Complex(self.re + other.re, self.im + other.im)

    def __sub__(self, other: Complex) -> Complex:
        return Complex(self.re - other.re, self.im - other.im)

    def __neg__(self) -> Complex:
        return Complex(-self.re, -self.im)

    def __mul__(self, other: Complex) -> Complex:
        return Complex(
            self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re
        )

    def times(self, number: complex) -> Complex:
        """The product with a number of the program; that with 1 is the scalar itself."""
        if number == 1:
            return self
        return self * Complex(self.re.of(number.real), self.im.of(number.imag))

    def __truediv__(self, other: Complex) -> Complex:
        """Smith's method: what is divided by is scaled by its larger part, so nothing overflows."""
        c, d = other.re, other.im
        flat = c.abs() >= d.abs()
        large, small = flat.select(c, d), flat.select(d, c)
        zero = large.eq(0)
        ratio = zero.select(0.0, small / large)
        scale = zero.select(1.0 / large.abs(), 1.0 / (large + small * ratio))
        a, b = self.re, self.im
        re = flat.select(a + b * ratio, a * ratio + b)
        im = flat.select(b - a * ratio, b * ratio - a)
        return Complex(zero.select(a, re) * scale, zero.select(b, im) * scale)

    @property
    def conjugate(self) -> Complex:
        return Complex(self.re, -self.im)

    @property
    def abs(self) -> Scalar:
        return hypot(self.re, self.im)

    @property
    def angle(self) -> Scalar:
        return self.im.atan2(self.re)

    def eq(self, other: Complex) -> Scalar:
        return self.re.eq(other.re) & self.im.eq(other.im)

    def ne(self, other: Complex) -> Scalar:
        return self.re.ne(other.re) | self.im.ne(other.im)


def reciprocal(z: Complex) -> Complex:
    return Complex(z.re.of(1.0), z.im.of(0.0)) / z


def square(z: Complex) -> Complex:
    return z * z


def sgn(z: Complex) -> Complex:
    """`z / |z|`, and 0 of 0."""
    size = z.abs
    zero = size.eq(0)
    return Complex(zero.select(0.0, z.re / size), zero.select(0.0, z.im / size))


def exp(z: Complex) -> Complex:
    """In two factors, as a large exponential may meet a small cosine; exact for real numbers."""
    half = s.exp(z.re * 0.5)
    vanishes = z.re.eq(-inf)
    re = vanishes.select(0.0, half * s.cos(z.im) * half)
    im = vanishes.select(0.0, half * s.sin(z.im) * half)
    real = z.im.eq(0)
    return Complex(real.select(half * half, re), real.select(z.im, im))


def log(z: Complex) -> Complex:
    """Near the unit circle from `|z|^2 - 1`, whose terms are exact where they cancel."""
    x, y = z.re.abs(), z.im.abs()
    long, short = x.maximum(y), x.minimum(y)
    size = hypot(x, y)
    near = (size > 0.5) & (size < 2.0)
    beyond = (long - 1.0) * (long + 1.0) + short * short
    return Complex(near.select(s.log1p(beyond) * 0.5, s.log(size)), z.angle)


def sqrt(z: Complex) -> Complex:
    """The root with a real part that is not negative, by `|re| + |z|` over 2, scaled."""
    x, y = z.re.abs() * 0.125, z.im.abs() * 0.125
    root = s.sqrt(x + hypot(x, y)) * 2.0
    other = root.eq(0).select(z.im.abs(), z.im.abs() / (root + root))
    infinite = z.im.abs().eq(inf)
    right = z.re >= 0
    re, im = right.select(root, other), right.select(other, root)
    return Complex(infinite.select(inf, re), infinite.select(inf, im).copysign(z.im))


def sin(z: Complex) -> Complex:
    return Complex(s.sin(z.re) * cosh(z.im), s.cos(z.re) * sinh(z.im))


def cos(z: Complex) -> Complex:
    return Complex(s.cos(z.re) * cosh(z.im), -(s.sin(z.re) * sinh(z.im)))


def sinh_(z: Complex) -> Complex:
    return Complex(sinh(z.re) * s.cos(z.im), cosh(z.re) * s.sin(z.im))


def cosh_(z: Complex) -> Complex:
    return Complex(cosh(z.re) * s.cos(z.im), sinh(z.re) * s.sin(z.im))


def power(z: Complex, exponent: complex) -> Complex:
    """By products and roots for small exponents, as eager does, else by the logarithm."""
    if exponent == 0:
        return Complex(z.re.of(1.0), z.im.of(0.0))
    if exponent == 1:
        return z
    if exponent == 2:
        return z * z
    if exponent == 3:
        return z * z * z
    if exponent == 0.5:
        return sqrt(z)
    if exponent == -1:
        return reciprocal(z)
    if exponent == -2:
        return reciprocal(z * z)
    refuse(
        f"complex numbers are raised to -2, -1, 0, 0.5, 1, 2 and 3, not to "
        f"{exponent.real if exponent.imag == 0 else exponent}"
    )

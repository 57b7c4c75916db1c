"""
Random numbers: Philox 4x32-10 at the places of a counter.

The operations take a state, a tensor of two numbers, the seed and an offset. Element i of an
operation whose own offset is k is made of the four words of Philox with the seed as its key and
`(offset + k + i, 0, 0, 0)` as its counter, low words first; of f64 normals element i has the two
places from `offset + k + 2 i` on. So it is the same wherever and how often it is computed.

- `rand` has the upper bits of the first word, as many as its type has digits, and those of the
  first two in f64: a multiple of 2^-24 in f32, below 1 in every type.
- `randn` is Box and Muller's `sqrt(-2 log u) sin(v)`, with u in (0, 1] and v in (0, 2 pi] of the
  first two words, or of two places in f64, scaled as cuRAND does.
- `randint` is the remainder of the first word, or of the first two where the range needs more.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, prod

from xdsl.dialects.builtin import f32, f64, i32

from dlc.ir.elements import element
from dlc.transforms.tensor.decompositions import scalar as s
from dlc.transforms.tensor.decompositions.builder import fixed, refuse
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.scalar import Scalar

WORD = 2**32


def drawn(c: Lowering, function: Callable[[Scalar, Scalar], Scalar], places: int = 1) -> Lowered:
    """`function` of the seed and of the first of the places of each element."""
    state = c.tensor("generator")
    seed, base = (c.move(state, [fixed(part)], ()) for part in range(2))
    index = c.reshape(c.iota(0, [prod(c.shape)]), c.shape)
    offset = c.integer("offset", 0)

    def at(key: Scalar, base: Scalar, index: Scalar) -> Scalar:
        index = index if places == 1 else index * places
        return function(key, base + (index + offset if offset else index))

    return c.elementwise(at, seed, base, index, element=c.element)


@lower("rand.generator")
def rand(c: Lowering) -> Lowered:
    digits = element(c.element).digits

    def number(seed: Scalar, place: Scalar) -> Scalar:
        bits = seed.philox(place)
        if digits > 32:
            upper = (bits >> (64 - digits)) & (2**digits - 1)
            return upper.to(f64) * 2.0**-digits
        upper = (bits.to(i32) >> (32 - digits)) & (2**digits - 1)
        return upper.to(f32) * 2.0**-digits

    return drawn(c, number)


@lower("randn.generator")
def randn(c: Lowering) -> Lowered:
    def single(seed: Scalar, place: Scalar) -> Scalar:
        bits = seed.philox(place)
        first, second = ((word & (WORD - 1)).to(f32) for word in (bits, bits >> 32))
        return normal(first, second, 32)

    def double(seed: Scalar, place: Scalar) -> Scalar:
        first, second = (
            ((seed.philox(at) >> 11) & (2**53 - 1)).to(f64) for at in (place, place + 1)
        )
        return normal(first, second, 53)

    return drawn(c, double, 2) if c.element == f64 else drawn(c, single)


def normal(first: Scalar, second: Scalar, bits: int) -> Scalar:
    """A normally distributed number of two integers of so many bits, converted to floats."""
    unit = 2.0**-bits
    radius = s.sqrt(s.log(first * unit + unit / 2) * -2.0)
    return radius * s.sin(second * (2 * pi * unit) + pi * unit)


@lower("randint.low_generator")
def randint(c: Lowering) -> Lowered:
    low = c.integer("low")
    count = c.integer("high") - low
    if count <= 0:
        refuse(f"expected numbers from {low} up to less than high, found high {low + count}")

    def number(seed: Scalar, place: Scalar) -> Scalar:
        bits = seed.philox(place)
        if count < WORD:
            bits = bits & (WORD - 1)
        rest = bits.unsigned_remainder(count)
        return rest + low if low else rest

    return drawn(c, number)

"""The tables of scalar operations and of element types against PyTorch and the IR itself."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest
import torch
from xdsl.context import Context
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, f32, f64, i32
from xdsl.parser import Parser

import dlc
from dlc.ir.elements import ELEMENTS, element
from dlc.ir.evaluate import evaluate, scalar
from dlc.ir.scalar_ops import COMPARISONS, SCALARS, compare_floats
from dlc.registry import dialect_factories, register

NUMBERS = np.array([nan, inf, -inf, 0.0, -0.0, 1.0, -1.5, 2.5, 3.5, -2.5, 0.25, 88.9, -104.0, 7.0])
ATEN = {name: row for row in SCALARS.values() for name in row.aten}


def test_rows_are_operations_of_the_ir() -> None:
    known = {op.name for name in ("arith", "math") for op in dialect_factories()[name]().operations}
    assert not SCALARS.keys() - known


@pytest.mark.parametrize("aten", ATEN)
def test_functions_are_those_of_pytorch(aten: str) -> None:
    expected = getattr(torch.ops.aten, aten)(torch.from_numpy(NUMBERS))
    with np.errstate(all="ignore"):
        found = torch.from_numpy(np.asarray(ATEN[aten].numpy(NUMBERS)))
    torch.testing.assert_close(found, expected, equal_nan=True, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", [n for n, row in SCALARS.items() if row.in_f64 and row.aten])
def test_functions_fold_to_what_they_compute(name: str) -> None:
    """A function of a constant prints, parses, and is its value, rounded; poles stay."""
    text = f'%c = arith.constant 2.500000e-01 : f32 %y = "{name}"(%c) : (f32) -> f32'
    module = Parser(register(Context()), text).parse_module()
    module.verify()
    constant, op = module.body.block.ops
    assert isinstance(constant, arith.ConstantOp)
    with np.errstate(all="ignore"):
        value = SCALARS[name].numpy(np.float64(0.25))
    folded = evaluate(op, [FloatAttr(0.25, f32)])
    assert folded == (scalar(value, f32) if np.isfinite(value) else None)


@pytest.mark.parametrize("row", [row for row in ELEMENTS if row.digits], ids=lambda row: row.name)
def test_floats_are_rounded_as_pytorch_rounds(row: object) -> None:
    kind = next(r for r in ELEMENTS if r is row)
    dtype = getattr(torch, kind.torch)
    info = torch.finfo(dtype)
    assert (kind.epsilon, kind.bytes) == (info.eps, info.bits // 8)
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(300, generator=generator, dtype=torch.float64)
    scales = [1.0, info.tiny, info.tiny * info.eps, info.max, info.eps]
    edges = [info.max, info.max * (1 + info.eps / 4), info.tiny * info.eps / 2, -info.tiny, -0.0]
    for value in [*(numbers[:, None] * torch.tensor(scales)).flatten().tolist(), *edges]:
        assert isinstance(kind.type, AnyFloat)
        expected = torch.tensor(value, dtype=torch.float64).to(dtype).item()
        found = scalar(value, kind.type).value.data
        assert (found, np.signbit(found)) == (expected, np.signbit(expected)), value


def test_integers_of_the_table_wrap_as_pytorch_wraps() -> None:
    for row in ELEMENTS:
        if row.name in ("i8", "i16", "i32", "i64"):
            for value in (0, -1, 127, 128, 2**15, 2**31, -(2**31) - 1, 2**63 - 1):
                expected = torch.tensor(value).to(getattr(torch, row.torch)).item()
                assert scalar(value, row.type) == IntegerAttr(expected, row.type)


def test_an_unknown_element_is_named() -> None:
    with pytest.raises(ValueError, match=r"one of the types f64, f32, f16, .*, found index"):
        element(IndexType())


@pytest.mark.parametrize("relation", COMPARISONS)
def test_comparisons_know_nan(relation: str) -> None:
    a, b = np.meshgrid(NUMBERS, NUMBERS)
    expected = getattr(torch, relation)(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    with_nan = np.isnan(a) | np.isnan(b)
    np.testing.assert_array_equal(compare_floats(f"o{relation}")(a, b), expected & ~with_nan)
    np.testing.assert_array_equal(compare_floats(f"u{relation}")(a, b), expected | with_nan)
    row = COMPARISONS[relation]
    numbers = ~with_nan
    negated, mirrored = COMPARISONS[row.negation].numpy, COMPARISONS[row.mirror].numpy
    np.testing.assert_array_equal(negated(a, b)[numbers], ~row.numpy(a, b)[numbers])
    np.testing.assert_array_equal(mirrored(b, a), row.numpy(a, b))


def test_powers_of_integers_wrap() -> None:
    for base in (-3, -2, -1, 0, 1, 2, 3, 10):
        for exponent in (-2, -1, 0, 1, 2, 31, 40):
            a, b = IntegerAttr(base, 32), IntegerAttr(exponent, 32)
            power = Fraction(base) ** exponent if base or exponent >= 0 else 0
            op = math.IPowIOp(arith.ConstantOp(a), arith.ConstantOp(b))
            assert evaluate(op, [a, b]) == scalar(int(power), i32)


def test_divisions_by_zero_do_not_fold() -> None:
    one, zero = IntegerAttr(1, 32), IntegerAttr(0, 32)
    lhs, rhs = arith.ConstantOp(one), arith.ConstantOp(zero)
    assert evaluate(arith.DivSIOp(lhs, rhs), [one, zero]) is None
    assert evaluate(arith.RemSIOp(lhs, rhs), [one, zero]) is None
    folded = evaluate(arith.DivSIOp(lhs, lhs), [IntegerAttr(-7, 32), IntegerAttr(2, 32)])
    assert folded == IntegerAttr(-3, 32)
    third = evaluate(
        arith.DivfOp(arith.ConstantOp(FloatAttr(1.0, f64)), arith.ConstantOp(FloatAttr(0.0, f64))),
        [FloatAttr(1.0, f64), FloatAttr(0.0, f64)],
    )
    assert third == FloatAttr(inf, f64)


@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_a_step_rounds_reciprocals_of_sums_of_a_sigmoid(beside: int) -> None:
    """
    Of each sum of 24 bits from 1 to 2 and each reciprocal within an ulp, in whole numbers: what
    the prelude's `logistic` computes of `rcp.approx` is the float that is nearest to the quotient,
    but for 1/2 of the last sum below 2, which is off by half an ulp and 2^-25 of one.
    """
    sums = np.arange(2**23, 2**24, dtype=np.int64)  # of 2^-23; 2 itself has an exact reciprocal
    nearest = (2**48 // sums + 1) // 2  # of 2^-24; no quotient lies halfway
    near = nearest + beside
    rest = 2**47 - sums * near  # of 2^-47, as fmaf has it
    within = np.abs(rest) <= sums
    assert within.sum() > 4_000_000
    assert (np.abs(rest[within]) <= 2**24).all()  # a float
    step = (near * rest + 2**46) >> 47
    halfway = within & ((near * rest) & (2**47 - 1) == 2**46)
    assert sums[halfway].tolist() == [2**24 - 1] * (beside < 0)
    assert (near + step == nearest)[within & ~halfway].all()


def test_sigmoids_are_exact_where_powers_are_none() -> None:
    """Far out, e^-x is beyond f32 where the sigmoid is not 0; NaN and infinities come through."""
    x = torch.tensor([-inf, -103.0, -90.0, -88.0, -1.0, -0.0, 0.0, 1.0, 17.0, 200.0, inf, nan])
    found = dlc.compile(torch.sigmoid, (x,), backend="host")(x)
    torch.testing.assert_close(found, torch.sigmoid(x.double()).float(), equal_nan=True)
    silu = dlc.compile(torch.nn.functional.silu, (x,), backend="host")(x)
    torch.testing.assert_close(
        silu, (x.double() / (1 + (-x.double()).exp())).float(), equal_nan=True
    )

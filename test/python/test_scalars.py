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

"""`vectorize-accesses`: the proof that a condition is constant over a strip, and random copies."""

import random
from itertools import product

import numpy as np
import pytest
import torch
from test_printer import aligned, kernel_of, on_host, parse
from torch.nn import functional as F
from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, VectorType
from xdsl.ir import Block, BlockArgument, Region, SSAValue

import dlc
from dlc.analysis.kernel.layout import known_divisor, linear_offset
from dlc.dialects import kernel
from dlc.dialects.layouts import span
from dlc.ir.expr import Expr
from dlc.remarks import collect
from dlc.transforms.kernel.vectorize_accesses import VectorizeAccessesPass, holds_alike


def index(extent: int, loops: list[scf.ForOp]) -> BlockArgument:
    """An index value from 0 up to `extent`."""
    ends = [arith.ConstantOp(IntegerAttr(n, IndexType())).result for n in (0, extent, 1)]
    body = Block(arg_types=[IndexType()])
    loops.append(scf.ForOp(ends[0], ends[1], ends[2], [], Region(body)))
    return body.args[0]


@pytest.mark.parametrize("width", [2, 4])
def test_holds_alike_is_sound(width: int) -> None:
    loops: list[scf.ForOp] = []
    lane, i, j = index(width, loops), index(6, loops), index(5, loops)
    rng = random.Random(width)
    alike = 0
    for _ in range(600):
        scale = rng.choice([1, 2, 4, 8])
        step = rng.choice([-2, -1, -1, 1, 1, 2])
        parts = [(i, rng.choice([-3, 1, 2]) * scale), (j, rng.choice([-1, 1, 5]) * scale)]
        rest = Expr(tuple(parts), rng.randint(-12, 12))
        if rng.random() < 0.3:
            rest = rest // rng.choice([2, 4]) * scale
        condition = rest + Expr(((lane, step),))
        proved = holds_alike(condition, lane, width)
        alike += proved
        same = all(
            len({condition.evaluate({lane: v, i: a, j: b}) >= 0 for v in range(width)}) == 1
            for a in range(6)
            for b in range(5)
        )
        assert same or not proved
    assert alike > 50
    strip = Expr(((i, width), (lane, 1)))
    assert holds_alike(strip - 2 * width, lane, width)
    assert holds_alike(Expr((), 24 * width - 1) - strip, lane, width)
    assert not holds_alike(strip - (2 * width + 1), lane, width)
    assert not holds_alike(Expr((), 2 * width) - strip, lane, width)


@pytest.mark.parametrize("extent", [2, 4])
def test_quotients_along_runs_are_taken_apart(extent: int) -> None:
    """`(8 t + lane) mod 64` is `8 (t mod 8) + lane`: no quotient tells neighbours apart."""
    loops: list[scf.ForOp] = []
    lane, i, j = index(extent, loops), index(6, loops), index(5, loops)
    rng = random.Random(extent)
    apart = 0
    for _ in range(300):
        scales = [rng.choice([-8, 1, 2, 4, 8, 12]) for _ in range(2)]
        base = Expr(((lane, rng.choice([-1, 1, 1, 2])), (i, scales[0]), (j, scales[1])))
        base += rng.choice([0, 0, 4, 1])
        divisor = rng.choice([2, 4, 8, 12, 64])
        quotient, rest = base // divisor, base % divisor
        apart += rest.coefficient(lane) == base.coefficient(lane)
        for v, a, b in product(range(extent), range(6), range(5)):
            at: dict[SSAValue, int] = {lane: v, i: a, j: b}
            assert (quotient.evaluate(at), rest.evaluate(at)) == divmod(base.evaluate(at), divisor)
    assert apart > 20


def test_what_heads_give_is_read_as_a_row() -> None:
    def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.linear(x.transpose(1, 2).reshape(1, 256), w)

    f = dlc.compile(linear, (torch.randn(1, 4, 1, 64), torch.randn(32, 256)), "sm_90", "host")
    assert "load4(&x[" in f.ir("cuda")
    f.check()


def test_layout() -> None:
    loops: list[scf.ForOp] = []
    i, j = index(6, loops), index(5, loops)
    func = kernel_of(
        parse(
            "kernel.func @k(%x: memref<6x5xf32, strided<[8, 1], offset: 3>>) -> (%y: memref<0xf32>)"
            " grid 1 block 1 {}"
        )
    )
    strided, empty = (ref.type for ref in func.refs)
    assert linear_offset(strided, [Expr.of(i), Expr.of(j)]) == Expr(((i, 8), (j, 1)), 3)  # pyright: ignore
    assert (span(strided), span(empty)) == (3 + 5 * 8 + 5, 0)  # pyright: ignore
    assert known_divisor(Expr(((i, 8),), 4) + (Expr(((j, 8),)) // 3) * 2) == 2
    assert known_divisor(Expr(((i, 12),)) % 8) == 4
    assert known_divisor(Expr()) == 0


def copy_kernel(rng: random.Random) -> tuple[str, int]:
    """A kernel that copies through a local array, and how many elements a thread copies."""
    trips = rng.choice([2, 4, 6, 8, 12])
    columns = rng.choice([96, 100, 98, 97])
    stride = rng.choice([trips, 4, 1])
    shift = rng.choice([0, 0, 4, 2, 1])
    bound = rng.choice([columns, 80, 82, 77])
    align = rng.choice(["", "", " align 8", " align 4"])
    subscript = f"%t * {stride} + %v + {shift}"
    where = f"where (%b * 3 + %t * {stride} + %v < {bound - shift}, {subscript} < {columns})"
    if rng.random() < 0.3:
        subscript = f"%v floordiv 4 * 16 + %t * 4 + %v mod 4 + {shift}"
        where = f"where ({subscript} < {columns})"
    text = f"""
    kernel.func @k(%x: memref<3x{columns}xf32>{align}) -> (%y: memref<3x8x{trips}xf32>)
        grid 3 block 8 {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = arith.constant {trips} : index
      %fill = arith.constant 7.0 : f32
      %b = kernel.block_id
      %t = kernel.thread_id
      %a = kernel.alloc_local : memref<2x{trips}xf32, #kernel.local>
      scf.for %v = %c0 to %n step %c1 {{
        %e = kernel.load %x[%b, {subscript}] {where} else %fill : memref<3x{columns}xf32>
        kernel.store %e, %a[1, %v] : memref<2x{trips}xf32, #kernel.local>
      }} {{unroll}}
      scf.for %v = %c0 to %n step %c1 {{
        %e = kernel.load %a[1, %v] : memref<2x{trips}xf32, #kernel.local>
        kernel.store %e, %y[%b, %t, %v] : memref<3x8x{trips}xf32>
      }} {{unroll}}
    }}
    """
    return text, trips


def test_random_copies_compute_the_same() -> None:
    """Scalar and vector form agree; inputs are aligned no better than they say."""
    rng = random.Random(5)
    widths = {2: 0, 4: 0}
    for _ in range(9):
        text, trips = copy_kernel(rng)
        scalar, vector = kernel_of(parse(text)), kernel_of(parse(text))
        with collect() as remarks:
            module = vector.parent_op()
            VectorizeAccessesPass().apply(Context(), module)  # pyright: ignore[reportArgumentType]
        assert len(remarks) == 2, [str(r) for r in remarks]
        vector.verify()
        for op in vector.walk():
            if isinstance(op, kernel.LoadOp) and isinstance(op.result.type, VectorType):
                widths[op.result.type.get_shape()[0]] += 1
        shape = vector.refs[0].type.get_shape()  # pyright: ignore[reportAttributeAccessIssue]
        skip = vector.alignment(vector.refs[0]) // 4 % 4
        x = aligned((3 * shape[1] + skip,))[skip:].reshape(shape)
        x[:] = np.random.default_rng(6).standard_normal(shape)
        results = [aligned((3, 8, trips)), aligned((3, 8, trips))]
        on_host(scalar, [x, results[0]])
        on_host(vector, [x, results[1]])
        np.testing.assert_array_equal(results[0], results[1])
    assert min(widths.values()) > 0

"""Tensor IR -> Loop IR -> normal form -> fused, executed after each step on random graphs."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from verified import verify
from xdsl.context import Context
from xdsl.dialects import arith, func, math
from xdsl.dialects.builtin import (
    FloatAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.parser import Parser

sys.path.insert(0, str(Path(__file__).parent))
import loop_interpreter
import tensor_ir_interpreter

from dlc.dialects import loop, tensor_ir
from dlc.registry import parse_pipeline, register

D = AffineExpr.dimension  # (of xDSL, `n - D(0)` means `D(0) - n`)
Shape = tuple[int, ...]

NORMALIZE = "canonicalize-loops,hoist-invariants,join-reduces,nest-loops,sink-epilogues"


def parse(text: str) -> ModuleOp:
    module = Parser(register(Context()), text).parse_module()
    module.verify()
    return module


def apply(module: ModuleOp, pipeline: str) -> None:
    ctx = register(Context())
    for step in parse_pipeline(pipeline):
        step.apply(ctx, module)
        verify(module)
        text = str(module)
        assert str(parse(text)) == text


def compare(module: ModuleOp, inputs: Sequence[torch.Tensor], want: Sequence[torch.Tensor]) -> None:
    got = loop_interpreter.run(module, [t.numpy() for t in inputs])
    for w, g in zip(want, got, strict=True):
        np.testing.assert_allclose(g, w.numpy(), rtol=1e-9, atol=1e-12, err_msg=str(module))


class Graph:
    """Builds a function of Tensor IR."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self.block = Block(arg_types=[TensorType(f64, s) for s in shapes])
        self.values: list[SSAValue] = list(self.block.args)

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        self.values.append(op.results[0])
        return op.results[0]

    def pointwise(self, kind: type[Operation], *inputs: SSAValue) -> SSAValue:
        body = tensor_ir.ElementwiseOp.new_body(inputs)
        op = kind(*body.args)
        body.add_ops([op, tensor_ir.YieldOp(op.results[0])])
        assert isinstance(inputs[0].type, TensorType)
        return self.add(tensor_ir.ElementwiseOp(inputs, inputs[0].type, Region(body)))

    def module(self, results: Sequence[SSAValue]) -> ModuleOp:
        self.block.add_op(func.ReturnOp(*results))
        types = FunctionType.from_lists(self.block.arg_types, [r.type for r in results])
        return ModuleOp([func.FuncOp("main", types, Region(self.block))])


def shape_of(value: SSAValue) -> Shape:
    assert isinstance(value.type, TensorType)
    return tuple(value.type.get_shape())


def random_map(g: Graph, x: SSAValue, r: random.Random) -> SSAValue:
    """Broadcasts, transposes, flips, slices, pads, concatenates or flattens `x`."""
    shape = shape_of(x)
    rank = len(shape)
    kind = r.choice(["broadcast", "transpose", "flip", "slice", "pad", "cat", "reshape"])
    if kind == "broadcast" or rank == 0:
        at = r.randint(0, rank)
        new = (*shape[:at], r.choice([1, 2, 3]), *shape[at:])
        map = AffineMap(rank + 1, 0, tuple(D(d + (d >= at)) for d in range(rank)))
        return g.add(tensor_ir.IndexMapOp([x], [map], new))
    axis = r.randrange(rank)
    n = shape[axis]

    def one(expr: AffineExpr) -> AffineMap:
        return AffineMap(rank, 0, tuple(expr if d == axis else D(d) for d in range(rank)))

    def resized(extent: int) -> Shape:
        return (*shape[:axis], extent, *shape[axis + 1 :])

    match kind:
        case "transpose":
            order = r.sample(range(rank), rank)
            map = AffineMap(rank, 0, tuple(D(order.index(d)) for d in range(rank)))
            return g.add(tensor_ir.IndexMapOp([x], [map], [shape[o] for o in order]))
        case "flip":
            return g.add(tensor_ir.IndexMapOp([x], [one(D(axis) * -1 + (n - 1))], shape))
        case "slice":
            return g.add(tensor_ir.IndexMapOp([x], [one(D(axis) * 2)], resized((n + 1) // 2)))
        case "pad":
            where = AffineMap(rank, 0, (D(axis) - 1, D(axis) * -1 + n))
            fill = FloatAttr(r.choice([0.0, 2.5]), f64)
            op = tensor_ir.IndexMapOp([x], [one(D(axis) - 1)], resized(n + 2), [where], fill)
            return g.add(op)
        case "cat":
            others = [v for v in g.values if v.type == x.type]
            y = r.choice(others)
            where = AffineMap(rank, 0, (D(axis) * -1 + (n - 1),))
            always = AffineMap(rank, 0, ())
            maps = [one(D(axis) + 0), one(D(axis) - n)]
            return g.add(tensor_ir.IndexMapOp([x, y], maps, resized(2 * n), [where, always]))
        case _:
            total = int(np.prod(shape))
            exprs: list[AffineExpr] = []
            inner = total
            for extent in shape:
                inner = inner // extent if extent else 0
                exprs.append((D(0) // max(inner, 1)) % max(extent, 1))
            map = AffineMap(1, 0, tuple(exprs))
            return g.add(tensor_ir.IndexMapOp([x], [map], [total]))


def random_graph(seed: int) -> tuple[ModuleOp, list[torch.Tensor]]:
    r = random.Random(seed)
    extents = [0, 1, 2, 3] if seed % 7 == 0 else [1, 2, 3, 4]
    base = tuple(r.choice(extents) for _ in range(r.randint(0, 3)))
    shapes = [base, base, tuple(r.choice(extents) for _ in range(r.randint(1, 2)))]
    g = Graph(shapes)
    for _ in range(r.randint(2, 9)):
        x = r.choice([v for v in g.values if v.type.element_type == f64][-6:])  # pyright: ignore
        if int(np.prod(shape_of(x))) > 300:
            continue
        match r.choice(["map", "map", "unary", "binary", "binary", "reduce", "gather", "leaf"]):
            case "map":
                random_map(g, x, r)
            case "unary":
                g.pointwise(r.choice([math.AbsFOp, math.FloorOp, arith.NegfOp]), x)
            case "binary":
                y = r.choice([v for v in g.values if v.type == x.type])
                g.pointwise(r.choice([arith.AddfOp, arith.MulfOp, arith.MaximumfOp]), x, y)
            case "reduce" if shape_of(x):
                axes = r.sample(range(len(shape_of(x))), r.randint(1, len(shape_of(x))))
                g.add(tensor_ir.ReduceOp(r.choice(["add", "max", "min"]), axes, [x]))
            case "gather" if shape_of(x) and shape_of(x)[0]:
                n = shape_of(x)[0]
                index = g.add(tensor_ir.IotaOp(0, [n]))
                flipped = AffineMap(1, 0, (D(0) * -1 + (n - 1),))
                index = g.add(tensor_ir.IndexMapOp([index], [flipped], [n]))
                rest = shape_of(x)[1:]
                over = AffineMap(len(rest) + 1, 0, (D(0),))
                index = g.add(tensor_ir.IndexMapOp([index], [over], [n, *rest]))
                rank = len(rest) + 1
                map = AffineMap(rank + 1, 0, (D(rank), *(D(d + 1) for d in range(rank - 1))))
                g.add(tensor_ir.GatherOp(x, [index], map, [n, *rest]))
            case _:
                g.add(tensor_ir.ConstantOp(FloatAttr(0.75, f64), shape_of(x)))
    floats = [v for v in g.values if v.type.element_type == f64]  # pyright: ignore
    results = [floats[-1], *r.sample(floats, 1 if seed % 3 else 0)]
    module = g.module(results)
    torch.manual_seed(seed)
    inputs = [torch.randn(s, dtype=torch.float64) for s in shapes]
    if seed % 5 == 0 and inputs[0].numel():
        inputs[0].view(-1)[0] = [float("nan"), float("inf"), -float("inf")][seed % 3]
    return module, inputs


@pytest.mark.parametrize("block", range(4))
def test_random_graphs_keep_their_values(block: int) -> None:
    for seed in range(block * 15, block * 15 + 15):
        module, inputs = random_graph(seed)
        module.verify()
        module = parse(str(module))
        want = tensor_ir_interpreter.run(module, inputs)
        apply(module, "lift-to-loops")
        compare(module, inputs, want)
        apply(module, NORMALIZE)
        compare(module, inputs, want)
        once = str(module)
        apply(module, NORMALIZE)
        assert str(module) == once
        by_cost = module.clone()
        apply(by_cost, "fuse-loops")
        compare(by_cost, inputs, want)
        for kernel in module.walk():
            if isinstance(kernel, loop.KernelOp):
                kernel.attributes["fuse"] = StringAttr("always")
        apply(module, f"fuse-loops,{NORMALIZE}")
        compare(module, inputs, want)


def test_fill_default_and_order_of_sources() -> None:
    module = parse(
        """
      func.func @main(%x: tensor<4x3xf64>, %w: tensor<4x2xf64>) -> tensor<4x6xf64> {
        %m = tensor_ir.index_map (d0, d1) -> %x[d0, d1] where (d1 < 3),
          %w[d0, d1 - 2] where (d1 < 4) else 7.0 : f64
          : tensor<4x3xf64>, tensor<4x2xf64> -> tensor<4x6xf64>
        func.return %m : tensor<4x6xf64>
      }""".replace("\n          ", " ")
    )
    x, w = torch.randn(4, 3, dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64)
    want = torch.cat([x, w[:, 1:], torch.full((4, 2), 7.0, dtype=torch.float64)], 1)
    for pipeline in ("lift-to-loops", NORMALIZE, "fuse-loops"):
        apply(module, pipeline)
        compare(module, [x, w], [want])


def test_argmax_and_its_index() -> None:
    module = parse("""
      func.func @main(%x: tensor<3x5xf64>) -> (tensor<3xf64>, tensor<3xi64>) {
        %i = tensor_ir.iota along 1 -> tensor<3x5xi64>
        %v, %n = tensor_ir.reduce argmax over [1] (%x, %i)
          : tensor<3x5xf64>, tensor<3x5xi64> -> (tensor<3xf64>, tensor<3xi64>)
        func.return %v, %n : tensor<3xf64>, tensor<3xi64>
      }""")
    x = torch.tensor([[1, 5, 5, 2, 0], [3, float("nan"), 9, float("nan"), 1], [-9, -8, -7, -7, -9]])
    x = x.double()
    for pipeline in ("lift-to-loops", NORMALIZE, "fuse-loops"):
        apply(module, pipeline)
        value, index = loop_interpreter.run(module, [x.numpy()])
        np.testing.assert_array_equal(value, x.max(-1).values.numpy())
        assert index.tolist() == [1, 1, 2]


def test_layouts_and_alignments_reach_the_memrefs() -> None:
    module = parse("""
      func.func @main(%x: tensor<4x8xf32> {dlc.strides = array<i64: 1, 4>},
                      %y: tensor<4x8xf32> {dlc.align = 4 : i64})
          -> (tensor<4x8xf32> {dlc.strides = array<i64: 1, 4>}, tensor<4x8xf32>) {
        %s = tensor_ir.elementwise (%a = %x, %b = %y)
            : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32> {
          %0 = arith.addf %a, %b : f32
          tensor_ir.yield %0 : f32
        }
        func.return %s, %x : tensor<4x8xf32>, tensor<4x8xf32>
      }""")
    apply(module, "lift-to-loops")
    strided = "memref<4x8xf32, strided<[1, 4]>>"
    add, copy = [op for op in module.walk() if isinstance(op, loop.KernelOp)]
    assert [str(r.type) for r in add.refs] == [strided, "memref<4x8xf32>", strided]
    assert add.alignments.get_values() == (16, 4)
    # Returned in another layout than it came, so it is copied.
    assert [str(r.type) for r in copy.refs] == [strided, "memref<4x8xf32>"]


def test_results_that_nothing_computes() -> None:
    g = Graph([(2, 3)])
    transposed = AffineMap(2, 0, (D(1), D(0)))
    t = g.add(tensor_ir.IndexMapOp([g.values[0]], [transposed], [3, 2]))
    c = g.add(tensor_ir.ConstantOp(FloatAttr(1.5, f64), []))
    i = g.add(tensor_ir.IotaOp(0, [4], i64))
    module = parse(str(g.module([t, c, i, g.values[0]])))
    apply(module, f"lift-to-loops,{NORMALIZE},fuse-loops")
    x = torch.randn(2, 3, dtype=torch.float64)
    got = loop_interpreter.run(module, [x.numpy()])
    np.testing.assert_array_equal(got[0], x.t().numpy())
    assert float(got[1]) == 1.5
    assert got[2].tolist() == [0, 1, 2, 3]
    # Every result has memory of its own, a returned argument too.
    assert sum(isinstance(op, loop.KernelOp) for op in module.walk()) == 4

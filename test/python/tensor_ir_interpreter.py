"""
Runs functions of Tensor IR on NumPy arrays, for tests: one operation at a time, as its docstring
says. An array of bf16 is one of float32 whose values are rounded to bf16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from xdsl.dialects import arith, func, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from dlc.dialects import flow, tensor_ir
from dlc.dialects.layouts import element_of
from dlc.ir.elements import ELEMENTS
from dlc.ir.math_operations import operation
from dlc.ir.scalar_functions import fma, philox
from dlc.ir.scalar_ops import SCALARS

Array = np.ndarray
Values = dict[SSAValue, Array]

DTYPES = {str(row.type): row.numpy for row in ELEMENTS}


def run(module: ModuleOp, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The results of `@main`; unsigned bytes come as int8."""
    main = next(op for op in module.walk() if isinstance(op, func.FuncOp))
    block = main.body.block
    values: Values = {a: to_array(t) for a, t in zip(block.args, inputs, strict=True)}
    with np.errstate(all="ignore"):
        results = run_block(block, values)
    return [to_tensor(array, v.type) for array, v in zip(results, results_of(block), strict=True)]


def run_block(block: Block, values: Values) -> list[Array]:
    """What a block gives, of what was computed before it."""
    for op in block.ops:
        if isinstance(op, func.ReturnOp | flow.YieldOp):
            return [values[v] for v in op.operands]
        results = TENSOR_OPS[type(op)](op, values)
        for value, array in zip(op.results, results, strict=True):
            assert isinstance(value.type, TensorType)
            expected = dtype(value.type.element_type)
            assert array.shape == value.type.get_shape(), (op, array.shape)
            assert array.dtype == expected, (str(op), array.dtype)
            values[value] = array
    raise AssertionError("expected a block to return or to yield")


HELD = {r.type: getattr(torch, r.torch) for r in ELEMENTS if r.numpy != r.torch}
"""The dtypes of the types that NumPy lacks, whose numbers are held in f32."""


def results_of(block: Block) -> Sequence[SSAValue]:
    assert block.last_op is not None
    return block.last_op.operands


def to_array(tensor: torch.Tensor) -> Array:
    tensor = tensor.detach()
    if tensor.dtype in HELD.values():
        return tensor.float().numpy()
    return tensor.view(torch.int8).numpy() if tensor.dtype is torch.uint8 else tensor.numpy()


def to_tensor(array: Array, type: Attribute) -> torch.Tensor:
    assert isinstance(type, TensorType)
    tensor = torch.from_numpy(np.array(array))
    return tensor.to(HELD.get(type.element_type, tensor.dtype))


def dtype(element: Attribute) -> Any:
    return np.dtype(DTYPES[str(element)])


def scalar(attribute: Attribute) -> Array:
    assert isinstance(attribute, FloatAttr | IntegerAttr)
    value: float = attribute.value.data
    return np.array(bool(value) if str(attribute.type) == "i1" else value).astype(
        dtype(attribute.type)
    )


def shape_of(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.get_shape()


def constant(op: tensor_ir.ConstantOp, values: Values) -> list[Array]:
    return [np.full(shape_of(op.result), scalar(op.value))]


def iota(op: tensor_ir.IotaOp, values: Values) -> list[Array]:
    shape = shape_of(op.result)
    index = np.indices(shape)[op.axis.value.data] if shape else np.zeros(shape)
    return [index.astype(dtype(op.result.type.element_type))]


def loop(op: flow.ForOp, values: Values) -> list[Array]:
    carried = [values[v] for v in op.inits]
    stacks = [np.empty(shape_of(v), dtype(element_of(v))) for v in op.stacked]
    for turn in range(op.trips):
        values |= zip(op.carried, carried, strict=True)
        values |= {p: values[v][turn] for p, v in zip(op.pieces, op.scanned, strict=True)}
        given = run_block(op.body.block, values)
        carried = given[: len(carried)]
        for stack, array in zip(stacks, given[len(carried) :], strict=True):
            stack[turn] = array
    return [*carried, *stacks]


def loop_while(op: flow.WhileOp, values: Values) -> list[Array]:
    carried = [values[v] for v in op.inits]
    while True:
        values |= zip(op.before.block.args, carried, strict=True)
        if not run_block(op.before.block, values)[0]:
            return carried
        values |= zip(op.body.block.args, carried, strict=True)
        carried = run_block(op.body.block, values)


def elementwise(op: tensor_ir.ElementwiseOp, values: Values) -> list[Array]:
    body = op.body.block
    scalars: Values = {a: values[v] for a, v in zip(body.args, op.inputs, strict=True)}
    for inner in body.ops:
        if isinstance(inner, tensor_ir.YieldOp):
            return [np.broadcast_to(scalars[inner.value], shape_of(op.result))]
        result = scalar_op(inner, [scalars[v] for v in inner.operands])
        element = inner.results[0].type
        if element in HELD:
            result = round_to(HELD[element], result)
        assert result.dtype == dtype(element), (str(inner), result.dtype)
        scalars[inner.results[0]] = result
    raise AssertionError("expected a body to yield")


def round_to(dtype: torch.dtype, array: Array) -> Array:
    """By PyTorch; before 2.13 it made NaN of what is beyond all numbers of e4m3fn."""
    limit = 448.0 if dtype == torch.float8_e4m3fn else np.inf
    floats = torch.from_numpy(np.array(array, np.float32)).clamp(-limit, limit)
    return floats.to(dtype).float().numpy()


def with_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Array], Array]:
    """In fp64, rounded once: vectors of fp32 overflow early in some functions of PyTorch's."""
    return lambda x: function(torch.from_numpy(np.array(x, np.float64))).numpy().astype(x.dtype)


def truncated(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Integer division or remainder towards zero, by numbers other than 0."""

    def of_objects(x: Array, y: Array) -> Array:
        return np.asarray(function(x.astype(object), y.astype(object))).astype(x.dtype)

    return of_objects


def _int_div(x: Any, y: Any) -> Any:
    return np.frompyfunc(lambda a, b: int(abs(a) // abs(b)) * (1 if a * b >= 0 else -1), 2, 1)(x, y)


def _int_rem(x: Any, y: Any) -> Any:
    return np.frompyfunc(lambda a, b: (abs(a) % abs(b)) * (1 if a >= 0 else -1), 2, 1)(x, y)


SCALAR_OPS: dict[type[Operation], Callable[..., Array]] = {
    **{
        operation(name): with_torch(getattr(torch.ops.aten, row.aten[0]))
        for name, row in SCALARS.items()
        if row.in_f64 and row.aten
    },
    arith.AddfOp: np.add,
    arith.AddiOp: np.add,
    arith.SubfOp: np.subtract,
    arith.SubiOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.MuliOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.DivSIOp: truncated(_int_div),
    arith.RemSIOp: truncated(_int_rem),
    arith.RemUIOp: lambda x, y: x.view(np.uint64) % y.view(np.uint64),
    arith.NegfOp: np.negative,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
    arith.AndIOp: np.bitwise_and,
    arith.OrIOp: np.bitwise_or,
    arith.XOrIOp: np.bitwise_xor,
    arith.ShLIOp: np.left_shift,
    arith.ShRSIOp: np.right_shift,
    arith.SelectOp: np.where,
    math.AbsFOp: np.abs,
    math.AbsIOp: np.abs,
    math.Atan2Op: np.arctan2,
    math.CopySignOp: np.copysign,
    math.FmaOp: fma,
    math.CeilOp: np.ceil,
    math.FloorOp: np.floor,
    math.PowFOp: lambda x, y: np.power(*np.broadcast_arrays(x, y)),
    math.RoundEvenOp: np.rint,
    math.RsqrtOp: lambda x: np.reciprocal(np.sqrt(x)),
    math.SqrtOp: np.sqrt,
    math.TruncOp: np.trunc,
    operation("math.gcd"): np.gcd,
    operation("math.fmod"): np.fmod,
    math.IPowIOp: SCALARS["math.ipowi"].numpy,
    operation("math.philox"): philox,
    **{
        operation(f"math.{name}"): SCALARS[f"math.{name}"].numpy
        for name in "hermite_h hermite_he laguerre_l legendre_p igamma igammac".split()
    },
}

CONVERSIONS = (
    arith.ExtFOp,
    arith.TruncFOp,
    arith.SIToFPOp,
    arith.FPToSIOp,
    arith.ExtSIOp,
    arith.TruncIOp,
)

COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def scalar_op(op: Operation, operands: list[Array]) -> Array:
    if isinstance(op, arith.ConstantOp):
        return scalar(op.value)
    if isinstance(op, arith.CmpfOp):
        name = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
        if name == "uno":
            return np.isnan(operands[0]) | np.isnan(operands[1])
        assert name[0] == ("u" if name == "une" else "o")
        return COMPARISONS[name[1:]](*operands)
    if isinstance(op, arith.CmpiOp):
        name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        return COMPARISONS[name if len(name) == 2 else name[1:]](*operands)
    target = dtype(op.results[0].type)
    if isinstance(op, arith.ExtUIOp | arith.UIToFPOp):
        (x,) = operands
        unsigned = x if x.dtype == np.bool_ else x.view(f"u{x.dtype.itemsize}")
        return unsigned.astype(target)
    if isinstance(op, arith.BitcastOp):
        return bits_as(operands[0], op.operands[0].type, op.results[0].type)
    if isinstance(op, CONVERSIONS):
        return operands[0].astype(target)
    return np.asarray(SCALAR_OPS[type(op)](*operands), target)


def bits_as(x: Array, source: Attribute, target: Attribute) -> Array:
    """By PyTorch, which has all types; NumPy's array of what it lacks is one of f32."""
    held = torch.from_numpy(np.array(x))
    held = held.to(HELD.get(source, held.dtype))
    if target in HELD:
        return held.view(HELD[target]).float().numpy()
    return held.view(torch.from_numpy(np.zeros(0, dtype(target))).dtype).numpy()


def evaluate(expressions: Sequence[Any], index: Sequence[Array]) -> list[Array]:
    return [np.asarray(e.eval(list(index), [])) for e in expressions]


def index_map(op: tensor_ir.IndexMapOp, values: Values) -> list[Array]:
    shape = shape_of(op.result)
    element = dtype(op.result.type.element_type)
    index = np.indices(shape)
    result = np.zeros(shape, element) if op.fill is None else np.full(shape, scalar(op.fill))
    open_places = np.ones(shape, bool)
    for source, map, where in zip(op.sources, op.maps, op.conditions, strict=True):
        chosen = open_places.copy()
        for condition in evaluate(where.data.results, index):
            chosen &= condition >= 0
        subscripts = [np.broadcast_to(e, shape)[chosen] for e in evaluate(map.data.results, index)]
        for subscript, extent in zip(subscripts, shape_of(source), strict=True):
            assert ((subscript >= 0) & (subscript < extent)).all(), f"out of range: {op}"
        result[chosen] = values[source][tuple(subscripts)]
        open_places &= ~chosen
    assert op.fill is not None or not open_places.any()
    return [result]


def gather(op: tensor_ir.GatherOp, values: Values) -> list[Array]:
    shape = shape_of(op.result)
    index = [*np.indices(shape), *(values[v] for v in op.indices)]
    subscripts = [np.broadcast_to(e, shape) for e in evaluate(op.map.data.results, index)]
    for subscript, extent in zip(subscripts, shape_of(op.source), strict=True):
        assert ((subscript >= 0) & (subscript < extent)).all(), f"out of range: {op}"
    return [np.broadcast_to(values[op.source][tuple(subscripts)], shape)]


def scatter_add(op: tensor_ir.ScatterAddOp, values: Values) -> list[Array]:
    source, indices = values[op.source], [values[v] for v in op.indices]
    result = np.zeros(shape_of(op.result), source.dtype)
    there = np.all([i >= 0 for i in indices], axis=0) if indices else np.ones(source.shape, bool)
    index = [*np.indices(source.shape), *indices]
    at = [np.broadcast_to(e, source.shape)[there] for e in evaluate(op.map.data.results, index)]
    for subscript, extent in zip(at, result.shape, strict=True):
        assert ((subscript >= 0) & (subscript < extent)).all(), f"out of range: {op}"
    np.add.at(result, tuple(at), source[there])
    return [result]


def fold_runs(op: tensor_ir.FoldOp, values: Values) -> list[Array]:
    """Folds the run of each element of the result on its own."""
    source, shape = values[op.source], shape_of(op.result)
    first, last = (np.clip(values[end], 0, source.shape[op.axis]) for end in op.ends)
    result = np.empty(shape, source.dtype)
    for point in np.ndindex(*shape):
        places = np.arange(first[point], last[point])
        at = evaluate(op.map.data.results, [*(np.asarray(n) for n in point), places])
        run = source[tuple(np.broadcast_to(e, places.shape) for e in at)]
        (result[point],) = fold(op.monoid.data, (0,), [run])
    return [result]


FOLDS: dict[str, Callable[..., Array]] = {
    "add": np.add.reduce,
    "mul": np.multiply.reduce,
    "and": np.logical_and.reduce,
    "or": np.logical_or.reduce,
    "logaddexp": np.logaddexp.reduce,
}


def scan(op: tensor_ir.ScanOp, values: Values) -> list[Array]:
    """Folds each prefix of the axis on its own."""
    axis = op.axis.value.data
    whole = [values[v] for v in op.inputs]
    if not whole[0].size:
        return whole
    prefixes = [
        fold(op.monoid.data, (axis,), [np.take(v, range(n), axis) for v in whole])
        for n in range(1, whole[0].shape[axis] + 1)
    ]
    return [np.stack(arrays, axis) for arrays in zip(*prefixes, strict=True)]


def sort(op: tensor_ir.SortOp, values: Values) -> list[Array]:
    axis, whole = op.axis.value.data, [values[v] for v in op.inputs]
    if op.bitonic is not None:
        check_bitonic(whole, axis)
    order = np.lexsort(whole[::-1], axis)
    first = np.take(order, range(op.count.value.data), axis)
    return [np.take_along_axis(v, first, axis) for v in whole]


def check_bitonic(arrays: list[Array], axis: int) -> None:
    """AssertionError unless what arrays have along an axis rises, then falls."""
    ranks = np.argsort(np.lexsort(arrays[::-1], axis), axis)
    falls = np.diff(np.moveaxis(ranks, axis, -1)) < 0
    assert (np.diff(falls.astype(int)) >= 0).all()


def reduce(op: tensor_ir.ReduceOp, values: Values) -> list[Array]:
    axes = tuple(int(a) for a in op.axes.get_values())
    return fold(op.monoid.data, axes, [values[v] for v in op.inputs])


def fold(monoid: str, axes: tuple[int, ...], arrays: list[Array]) -> list[Array]:
    first = arrays[0]
    if monoid in FOLDS:
        return [np.asarray(FOLDS[monoid](first, axis=axes, dtype=first.dtype))]
    latest = monoid.endswith("_last")
    sign = 1 if monoid.removesuffix("_last").endswith("max") else -1
    kind = first.dtype.kind
    worst: Any = (
        -np.inf * sign
        if kind == "f"
        else (np.iinfo(first.dtype).min if sign == 1 else np.iinfo(first.dtype).max)
    )
    if monoid in ("max", "min"):
        fold = np.maximum.reduce if sign == 1 else np.minimum.reduce
        return [np.asarray(fold(first, axis=axes, initial=worst))]
    kept = tuple(d for d in range(first.ndim) if d not in axes)
    if len(axes) > 1:  # as one axis, the last one
        shape = [*(first.shape[d] for d in kept), -1]
        arrays = [array.transpose(*kept, *axes).reshape(shape) for array in arrays]
        axes = (len(kept),)
    (axis,) = axes
    value, index = arrays
    best = (np.max if sign == 1 else np.min)(value, axis=axis, keepdims=True)  # NaN if one is
    candidates = (value == best) | ((value != value) & (best != best))
    far = np.iinfo(index.dtype).min if latest else np.iinfo(index.dtype).max
    nearest = np.argmax if latest else np.argmin
    places = nearest(np.where(candidates, index, far), axis=axis, keepdims=True)
    return [np.take_along_axis(array, places, axis).squeeze(axis) for array in arrays]


TENSOR_OPS: dict[type[Operation], Callable[[Any, Values], list[Array]]] = {
    flow.ForOp: loop,
    flow.WhileOp: loop_while,
    tensor_ir.ConstantOp: constant,
    tensor_ir.IotaOp: iota,
    tensor_ir.ElementwiseOp: elementwise,
    tensor_ir.IndexMapOp: index_map,
    tensor_ir.GatherOp: gather,
    tensor_ir.FoldOp: fold_runs,
    tensor_ir.ScatterAddOp: scatter_add,
    tensor_ir.ReduceOp: reduce,
    tensor_ir.ScanOp: scan,
    tensor_ir.SortOp: sort,
}

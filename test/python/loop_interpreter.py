"""
Runs functions of Loop IR on NumPy arrays, for tests: slow, strict, every point at once.

Every value is an array over all axes of the loops around it: the axis at nesting depth d is
dimension d of an array of rank `RANK`, so values broadcast against each other. A load out of its
memref's bounds where its conditions hold is an error, and so is a point that no store writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tensor_ir_interpreter import DTYPES, scalar, scalar_op
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from dlc.dialects import loop
from dlc.ir.expr import Expr, FloorDiv

Array = np.ndarray
RANK = 16


def run(module: ModuleOp, inputs: Sequence[Array]) -> list[Array]:
    """The results of `@main`."""
    main = next(op for op in module.walk() if isinstance(op, func.FuncOp))
    values: dict[SSAValue, Array] = dict(zip(main.body.block.args, inputs, strict=True))
    for op in main.body.block.ops:
        if isinstance(op, func.ReturnOp):
            return [values[v] for v in op.arguments]
        assert isinstance(op, loop.KernelOp), f"expected kernels only, found {op.name}"
        for result, array in zip(op.results, run_kernel(op, [values[v] for v in op.inputs])):
            values[result] = array
    raise AssertionError("expected @main to return")


def dtype(element: Attribute) -> Any:
    return np.dtype(np.int64 if str(element) == "index" else DTYPES[str(element)])


def run_kernel(kernel: loop.KernelOp, inputs: Sequence[Array]) -> list[Array]:
    machine = Machine()
    for ref, array in zip(kernel.input_refs, inputs, strict=True):
        assert isinstance(ref.type, MemRefType)
        assert array.shape == ref.type.get_shape()
        assert array.dtype == dtype(ref.type.element_type), (array.dtype, ref.type)
        machine.memory[ref] = array
    for ref in kernel.output_refs:
        assert isinstance(ref.type, MemRefType)
        shape = ref.type.get_shape()
        if (updated := kernel.updated_refs.get(ref)) is not None:
            machine.memory[ref] = machine.memory[updated].copy()
            machine.written[ref] = np.ones(shape, bool)
            continue
        machine.memory[ref] = np.zeros(shape, dtype(ref.type.element_type))
        machine.written[ref] = np.full(shape, ref in kernel.zeroed_refs)
    with np.errstate(all="ignore"):
        machine.block(kernel.body.block)
    for ref in kernel.output_refs:
        assert machine.written[ref].all(), f"not all of %{ref.name_hint} was stored"
    return [machine.memory[ref] for ref in kernel.output_refs]


@dataclass
class Machine:
    memory: dict[SSAValue, Array] = field(default_factory=dict)
    written: dict[SSAValue, Array] = field(default_factory=dict)
    values: dict[SSAValue, Array] = field(default_factory=dict)
    extents: list[int] = field(default_factory=list)
    """The extent of the axis at each depth."""

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        match op:
            case loop.ForOp() | loop.ReduceOp():
                if 0 in op.all_extents:
                    if isinstance(op, loop.ReduceOp):
                        identity = op.monoid.identity([r.type for r in op.results])
                        self.values.update(zip(op.results, map(_constant, identity), strict=True))
                    return
                depth = len(self.extents)
                for axis in op.axes:
                    n = op.extent(axis)
                    self.values[axis] = np.arange(n).reshape(_at(len(self.extents), n))
                    self.extents.append(n)
                self.block(op.body.block)
                if isinstance(op, loop.ReduceOp):
                    self.reduce(op, depth)
                del self.extents[depth:]
            case loop.LoadOp():
                self.values[op.result] = self.load(op)
            case loop.StoreOp():
                self.store(op)
            case loop.AtomicAddOp():
                self.add(op)
            case loop.IndexOp():
                self.values[op.result] = self.expr(op.subscripts[0])
            case loop.SelectOp():
                where = self.all(op.where)
                chosen = np.where(where, self.values[op.value], self.values[op.default])
                self.values[op.result] = chosen
            case loop.ScanOp():
                self.scan(op)
            case loop.SortOp():
                self.sort(op)
            case loop.YieldOp():
                pass
            case arith.IndexCastOp():
                self.values[op.result] = self.values[op.input].astype(dtype(op.result.type))
            case _:
                operands = [self.values[v] for v in op.operands]
                result = scalar_op(op, operands)
                self.values[op.results[0]] = np.asarray(result).reshape(
                    np.shape(result) or (1,) * RANK
                )

    def expr(self, expr: Expr) -> Array:
        total = np.full((1,) * RANK, expr.constant)
        for atom, coefficient in expr.terms:
            if isinstance(atom, SSAValue):
                part = self.values[atom]
            elif isinstance(atom, FloorDiv):
                part = self.expr(atom.base) // atom.divisor
            else:
                part = self.expr(atom.base) % atom.divisor
            total = total + coefficient * part
        return total

    def all(self, where: Sequence[Expr]) -> Array:
        result = np.ones((1,) * RANK, bool)
        for condition in where:
            result = result & (self.expr(condition) >= 0)
        return result

    def load(self, op: loop.LoadOp) -> Array:
        memory = self.memory[op.ref]
        where = self.all(op.where)
        index = [self.expr(e) for e in op.subscripts]
        where, *index = np.broadcast_arrays(where, *index)
        for subscript, extent in zip(index, memory.shape, strict=True):
            outside = where & ((subscript < 0) | (subscript >= extent))
            assert not outside.any(), f"out of bounds: {op}"
        if memory.size:
            clipped = [np.clip(i, 0, n - 1) for i, n in zip(index, memory.shape, strict=True)]
            found = memory[tuple(clipped)]
        else:
            found = np.zeros(where.shape, memory.dtype)
        # Where a load has no default and reads nothing, no result may depend on what it gives.
        garbage = np.array(77, memory.dtype)
        default = garbage if op.default is None else self.values[op.default]
        return np.where(where, found, default)

    def store(self, op: loop.StoreOp) -> None:
        shape = [*self.extents, *[1] * (RANK - len(self.extents))]
        value = np.broadcast_to(self.values[op.value], shape)
        where = np.broadcast_to(self.all(op.where), shape)
        index = [np.broadcast_to(self.expr(e), shape)[where] for e in op.subscripts]
        if not op.subscripts:
            if where.any():
                self.memory[op.ref][()] = value[where][-1]
                self.written[op.ref][()] = True
            return
        self.memory[op.ref][tuple(index)] = value[where]
        self.written[op.ref][tuple(index)] = True

    def add(self, op: loop.AtomicAddOp) -> None:
        shape = [*self.extents, *[1] * (RANK - len(self.extents))]
        where = np.broadcast_to(self.all(op.where), shape)
        value = np.broadcast_to(self.values[op.value], shape)[where]
        index = [np.broadcast_to(self.expr(e), shape)[where] for e in op.subscripts]
        for subscript, extent in zip(index, self.memory[op.ref].shape, strict=True):
            assert ((subscript >= 0) & (subscript < extent)).all(), f"out of bounds: {op}"
        np.add.at(self.memory[op.ref], tuple(index) or (), value if index else value.sum())

    def reduce(self, op: loop.ReduceOp, depth: int) -> None:
        end = depth + len(op.axes)
        axes = tuple(range(depth, end))
        where = self.all(op.yielded.where)
        identity = [scalar(a) for a in op.monoid.identity([r.type for r in op.results])]
        folded: list[Array] = []
        for value, neutral in zip(op.yielded.values, identity, strict=True):
            array = np.where(where, self.values[value], neutral)
            shape = list(np.broadcast_shapes(array.shape, where.shape))
            shape[depth:end] = self.extents[depth:end]
            folded.append(np.broadcast_to(array, shape))
        for result, array in zip(
            op.results, _fold(op.monoid_name.data, folded, axes, identity), strict=True
        ):
            self.values[result] = array

    def scan(self, op: loop.ScanOp) -> None:
        """Folds each prefix of the axis, which is that of the innermost loop, on its own."""
        axis, whole = self._along(op)
        identity = [scalar(a) for a in op.monoid.identity([r.type for r in op.results])]
        prefixes = [
            _fold(
                op.monoid_name.data, [np.take(v, range(n), axis) for v in whole], (axis,), identity
            )
            for n in range(1, self.extents[axis] + 1)
        ]
        for result, arrays in zip(op.results, zip(*prefixes, strict=True), strict=True):
            self.values[result] = np.concatenate(arrays, axis)

    def sort(self, op: loop.SortOp) -> None:
        axis, whole = self._along(op)
        arrays = np.broadcast_arrays(*whole)
        order = np.lexsort(arrays[::-1], axis)
        for result, array in zip(op.results, arrays, strict=True):
            self.values[result] = np.take_along_axis(array, order, axis)

    def _along(self, op: loop.ScanOp | loop.SortOp) -> tuple[int, list[Array]]:
        """The axis of the innermost loop, and what values are at all of its points."""
        axis = len(self.extents) - 1
        n = self.extents[axis]
        values = [self.values[value] for value in op.values]
        shapes = [[*v.shape[:axis], n, *v.shape[axis + 1 :]] for v in values]
        return axis, [np.broadcast_to(v, s) for v, s in zip(values, shapes, strict=True)]


def _constant(value: Attribute) -> Array:
    return scalar(value).reshape((1,) * RANK)


def _at(depth: int, extent: int) -> tuple[int, ...]:
    return (1,) * depth + (extent,) + (1,) * (RANK - depth - 1)


_FOLDS: dict[str, Callable[..., Array]] = {
    "add": np.add.reduce,
    "mul": np.multiply.reduce,
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "logaddexp": np.logaddexp.reduce,
}


def _fold(
    monoid: str, arrays: Sequence[Array], axes: tuple[int, ...], identity: Sequence[Array]
) -> list[Array]:
    if monoid in _FOLDS:
        fold = _FOLDS[monoid]
        return [
            fold(array, axis=axes, keepdims=True, initial=initial[()], dtype=array.dtype)
            for array, initial in zip(arrays, identity, strict=True)
        ]
    if monoid == "expsum":
        exponents, *weights = arrays
        largest = np.max(exponents, axis=axes, keepdims=True, initial=-np.inf)
        with np.errstate(invalid="ignore"):
            powers = np.where(exponents == largest, 1, np.exp(exponents - largest))
            sums = [np.sum(w * powers, axis=axes, keepdims=True, dtype=w.dtype) for w in weights]
        return [largest, *sums]
    if monoid == "moments":
        counts, means, spreads, *others = arrays
        n = np.sum(counts, axis=axes, keepdims=True)
        mean = np.sum(counts * means, axis=axes, keepdims=True) / np.maximum(n, 1)
        spread = spreads + counts * (means - mean) ** 2
        return [n, mean, *(np.sum(v, axis=axes, keepdims=True) for v in (spread, *others))]
    value, index = arrays
    latest = monoid.endswith("_last")
    sign = 1 if monoid.startswith("argmax") else -1
    top = (np.max if sign == 1 else np.min)(value, axis=axes, keepdims=True)
    chosen = np.where(np.isnan(top), np.isnan(value), value == top)
    far = np.iinfo(index.dtype).min if latest else np.iinfo(index.dtype).max
    nearest = np.max if latest else np.min
    return [top, nearest(np.where(chosen, index, far), axis=axes, keepdims=True)]

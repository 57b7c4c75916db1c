"""Sums of sums of products, which several kernels compute one after the other."""

from __future__ import annotations

from collections.abc import Iterable, KeysView
from dataclasses import dataclass
from itertools import chain
from math import isfinite, prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, Float64Type, FloatAttr
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.traits import ConstantLike

from dlc.dialects import loop
from dlc.dialects.axes import AxesOp
from dlc.dialects.fusion_plan import FUSE, GROUPS
from dlc.dialects.main_function import is_parameter
from dlc.transforms.loop.fusion.canonical_form import canonicalize_kernel
from dlc.transforms.loop.fusion.inline import inlinable, inline_producer
from dlc.transforms.loop.reordering.joined_taps import join_taps

_PRODUCT = (loop.LoadOp, loop.LoadOp, arith.MulfOp, loop.YieldOp)
_PRODUCTS = (loop.KernelOp, loop.ForOp, *_PRODUCT[:3], loop.StoreOp, loop.YieldOp)
"""The operations of a product in a sum, and in a kernel of its own."""
MOST_BETWEEN = 2
"""Kernels between two sums that go point by point, such as one that adds a bias."""


@dataclass(frozen=True)
class Chain:
    """Kernels each of which is all that reads the one before: products, their sums, what goes on
    point by point, and sums of that."""

    products: loop.KernelOp
    sums: loop.KernelOp
    between: tuple[loop.KernelOp, ...]
    """The first to be computed first."""
    total: loop.KernelOp

    @property
    def kernels(self) -> tuple[loop.KernelOp, ...]:
        return self.products, self.sums, *self.between, self.total


@dataclass(frozen=True)
class NestedSum:
    """A sum over some axes of a sum of products, and of a summand that is loaded, if there is one,
    times constants, in one kernel."""

    kernel: loop.KernelOp
    total: loop.ReduceOp
    inner: loop.ReduceOp
    """The sum of products, in the body of `total`."""
    loads: tuple[loop.LoadOp, ...]
    """The factors, then the summand."""
    repeats: int
    """How often one element of the summand is added."""

    def summed(self, load: loop.LoadOp) -> list[BlockArgument]:
        """The axes of `total` along which a load varies."""
        used = values_of(load)
        return [axis for axis in self.total.axes if axis in used]


def values_of(load: loop.LoadOp) -> KeysView[SSAValue]:
    """The axes by which a load goes, in the order of its text."""
    return dict.fromkeys(v for e in chain(load.subscripts, load.where) for v in e.values()).keys()


def chain_to(total: loop.KernelOp) -> Chain | None:
    """The chain of kernels that ends with one, if there is one."""
    if not _is_sum(total):
        return None
    between: list[loop.KernelOp] = []
    kernel = _read_alone(total)
    while kernel is not None and not _reduces(kernel) and len(between) < MOST_BETWEEN:
        between.insert(0, kernel)
        kernel = _read_alone(kernel)
    if kernel is None or not _is_sum(kernel) or (products := _read_alone(kernel)) is None:
        return None
    found = tuple(type(op) for op in products.walk() if not isinstance(op, arith.ConstantOp))
    if found != _PRODUCTS:
        return None
    return Chain(products, kernel, tuple(between), total)


def merged(kernels: Iterable[loop.KernelOp]) -> loop.KernelOp:
    """The last of some kernels as it is when it computes the others' results itself, not inserted
    anywhere."""
    *producers, last = kernels
    kernel = last.clone()
    for producer in reversed(producers):
        inline_producer(producer, kernel)
        canonicalize_kernel(kernel)
    return kernel


def nested_sum(kernel: loop.KernelOp) -> NestedSum | str:
    """What a merged kernel computes as a nested sum, or why it is none that can be reordered."""
    reduces = [op for op in kernel.walk() if isinstance(op, loop.ReduceOp)]
    if len(reduces) != 2 or reduces[1].parent_op() is not reduces[0]:
        return "what is summed is not the sum alone"
    total, inner = reduces
    if total.yielded.where:
        return "it is summed where conditions hold"
    loads = _summands(total, inner)
    if isinstance(loads, str):
        return loads
    factors = [op for op in inner.body.block.ops if isinstance(op, loop.LoadOp)]
    if tuple(type(op) for op in inner.body.block.ops) != _PRODUCT:
        return "its products are not of two elements"
    used = {v for load in loads for v in values_of(load)}
    repeats = prod(total.extent(axis) for axis in total.axes if axis not in used)
    found = NestedSum(kernel, total, inner, (*factors, *loads), repeats)
    if inner.yielded.where or {*found.summed(factors[0])} & {*found.summed(factors[1])}:
        join_taps(total, inner)
    if inner.yielded.where:
        return "its products are summed where conditions hold"
    return _obstacle(found) or found


def _summands(total: loop.ReduceOp, inner: loop.ReduceOp) -> list[loop.LoadOp] | str:
    """What is loaded and added to the sum of products, at most one element, where all that `total`
    sums is that sum, and this, times constants; else why it is something else."""
    value, loads, added = inner.results[0], list[loop.LoadOp](), list[SSAValue]()
    for op in total.body.block.ops:
        match op:
            case loop.LoadOp():
                loads.append(op)
            case arith.AddfOp() if value in op.operands and not added:
                added = [operand for operand in op.operands if operand is not value]
                value = op.result
            case arith.MulfOp() | arith.DivfOp() if _is_scaled(op, value):
                value = op.result
            case arith.ConstantOp() | loop.ReduceOp() | loop.YieldOp():
                pass
            case _:
                return "what is summed is not the sum alone, or with what is loaded"
    if value is not total.yielded.values[0]:
        return "what is summed is not the sum alone"
    if added != [load.result for load in loads]:
        return "what is summed is not the sum and what is loaded"
    return loads


def _is_scaled(op: arith.MulfOp | arith.DivfOp, value: SSAValue) -> bool:
    """True if a value is multiplied with a finite constant, or divided by one that is not zero."""
    divides = isinstance(op, arith.DivfOp)
    if op.lhs is not value and (divides or op.rhs is not value):
        return False
    other = ConstantLike.get_constant_value(op.rhs if op.lhs is value else op.lhs)
    if not isinstance(other, FloatAttr):
        return False
    number = other.value.data
    return isfinite(number) and not (divides and number == 0)


def _obstacle(found: NestedSum) -> str:
    """Why a nested sum cannot be reordered; nothing if it can."""
    factors = [found.summed(load) for load in found.loads[:2]]
    own = {*found.kernel.input_refs}
    if not all(load.ref in own and load.ref.has_one_use() for load in found.loads):
        return "an operand is read elsewhere, too"
    axes = {axis for op in found.kernel.walk() if isinstance(op, AxesOp) for axis in op.axes}
    if not all(values_of(load) <= axes for load in found.loads):
        return "an operand is read at places that the program computes"
    if not all(map(found.total.extent, found.total.axes)):
        return "there is nothing to be summed, which is 0 even where a factor is NaN"
    if {*factors[0]} & {*factors[1]}:
        return "both factors vary along what is summed over"
    if {*factors[0], *factors[1]} != {*found.total.axes}:
        return "no factor varies along what is summed over"
    for load, summed in zip(found.loads[:2], reversed(factors), strict=True):
        kernel = found.kernel
        if summed and not is_parameter(kernel.inputs[kernel.input_refs.index(load.ref)]):
            name = load.ref.name_hint or "a factor"
            return f"%{name} is no parameter, and may be infinite where it meets sums"
    if not isinstance(found.total.results[0].type, Float32Type | Float64Type):
        return "sums of its type are rounded to fewer bits"
    return ""


def _is_sum(kernel: loop.KernelOp) -> bool:
    """True if a kernel sums what it loads, and nothing else."""
    reduces = [op for op in kernel.walk() if isinstance(op, loop.ReduceOp)]
    if len(reduces) != 1 or not reduces[0].adds_floats:
        return False
    kinds = [type(op) for op in reduces[0].body.block.ops]
    return kinds == [loop.LoadOp, loop.YieldOp] and not _has_sizes(kernel)


def _reduces(kernel: loop.KernelOp) -> bool:
    return any(isinstance(op, loop.ReduceOp) for op in kernel.walk())


def _has_sizes(kernel: loop.KernelOp) -> bool:
    loops = [op for op in kernel.walk() if isinstance(op, AxesOp)]
    return any(op.is_size(axis) for op in loops for axis in op.axes)


def _read_alone(kernel: loop.KernelOp) -> loop.KernelOp | None:
    """The only kernel whose result one reads that nothing else reads, and that may be merged."""
    makers = [tensor.owner for tensor in kernel.inputs if tensor.has_one_use()]
    found = [op for op in makers if _can_merge(op, kernel)]
    if len(found) != 1 or kernel.updates is not None or kernel.schedule is not None:
        return None
    (maker,) = found
    return maker if isinstance(maker, loop.KernelOp) else None


def _can_merge(maker: Operation | object, reader: loop.KernelOp) -> bool:
    return (
        isinstance(maker, loop.KernelOp)
        and maker.parent is reader.parent
        and maker.schedule is None
        and not {FUSE, GROUPS} & maker.attributes.keys()
        and inlinable(maker) is None
    )

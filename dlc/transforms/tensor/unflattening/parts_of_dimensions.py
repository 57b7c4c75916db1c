"""The parts of a program's dimensions: those of which a reshape has joined them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from dlc.dialects import tensor_ir
from dlc.dialects.layouts import shape_of
from dlc.dialects.size import ReshapeOp
from dlc.ir.sizes import Size

Extents: TypeAlias = "tuple[int, ...]"
"""Sizes among them, as those of `shape_of`."""
Dimension: TypeAlias = tuple[SSAValue, int]
NATIVE = (
    tensor_ir.ConstantOp,
    tensor_ir.IotaOp,
    tensor_ir.ElementwiseOp,
    tensor_ir.ReduceOp,
    tensor_ir.ScanOp,
    tensor_ir.SortOp,
    tensor_ir.IndexMapOp,
    tensor_ir.GatherOp,
)
"""What computes of tensors whose dimensions are taken apart what it computes of others."""


def common_parts(
    source: Sequence[int], target: Sequence[int]
) -> tuple[list[Extents], list[Extents]] | None:
    """
    Of which parts the dimensions of two shapes of as many elements are, which have the same parts
    in the same order; None where a part of one begins within a part of the other.
    """
    found: list[list[list[int]]] = [[[] for _ in source], [[] for _ in target]]
    places, left = [len(source) - 1, len(target) - 1], [Size.of(1), Size.of(1)]
    shapes = (source, target)
    while True:
        for side in (0, 1):
            while left[side].number == 1 and places[side] >= 0:
                left[side] = Size.of(shapes[side][places[side]])
                if left[side].number == 1:
                    places[side] -= 1
        if left[0].number == 1 or left[1].number == 1:
            break
        part = next((n for n, other in (left, left[::-1]) if divides(n, other)), None)
        if part is None:
            return None
        for side in (0, 1):
            found[side][places[side]].insert(0, _extent(part))
            left[side] //= part
            if left[side].number == 1:
                places[side] -= 1
    own, other = ([tuple(parts) for parts in side] for side in found)
    return own, other


def _extent(size: Size) -> int:
    return size if size.number is None else size.number  # pyright: ignore[reportReturnType]


def divides(by: Size, count: Size) -> bool:
    """True if a size is a multiple of another one, as far as their terms tell."""
    return by.number != 0 and (count % by).number == 0


class PartsOfDimensions:
    """
    The parts of each dimension that is taken apart. Dimensions over which an operation runs alike
    are taken apart alike; which those are, a reshape says that joins or takes apart sizes.
    """

    def __init__(self, ops: Sequence[Operation]) -> None:
        self._same: dict[Dimension, Dimension] = {}
        self._parts: dict[Dimension, Extents] = {}
        for op in ops:
            for group in alike(op):
                for other in group[1:]:
                    self._join(group[0], other)
        for op in ops:
            if isinstance(op, ReshapeOp):
                self._note(op)

    def of(self, value: SSAValue, dimension: int) -> Extents | None:
        """The parts of a dimension; None for one that stays."""
        return self._parts.get(self._first((value, dimension)))

    def shape(self, value: SSAValue) -> Extents:
        """The extents of a tensor whose dimensions are taken apart."""
        parts = (self.of(value, d) or (n,) for d, n in enumerate(shape_of(value)))
        return tuple(extent for part in parts for extent in part)

    def places(self, value: SSAValue) -> list[list[int]]:
        """For each dimension of a tensor those that it is taken apart into."""
        found: list[list[int]] = []
        first = 0
        for d in range(len(shape_of(value))):
            count = len(self.of(value, d) or (1,))
            found.append([*range(first, first + count)])
            first += count
        return found

    def _note(self, op: ReshapeOp) -> None:
        """Takes apart what a reshape joins or takes apart itself, if sizes are among that."""
        shapes = shape_of(op.source), shape_of(op.result)
        found = common_parts(*shapes)
        if found is None:
            return
        for value, all_parts in zip((op.source, op.result), found, strict=True):
            for d, parts in enumerate(all_parts):
                if len(parts) > 1 and any(isinstance(part, Size) for part in parts):
                    self._parts.setdefault(self._first((value, d)), parts)

    def _first(self, dimension: Dimension) -> Dimension:
        while (other := self._same.get(dimension)) is not None:
            dimension = other
        return dimension

    def _join(self, one: Dimension, other: Dimension) -> None:
        one, other = self._first(one), self._first(other)
        if one != other:
            self._same[other] = one


def alike(op: Operation) -> list[list[Dimension]]:
    """The dimensions of what an operation takes and gives that it runs over alike."""
    match op:
        case tensor_ir.ElementwiseOp():
            values = [*op.inputs, op.result]
            return [[(v, d) for v in values] for d in range(len(shape_of(op.result)))]
        case tensor_ir.ReduceOp():
            axes = [int(a) for a in op.axes.get_values()]
            kept = [d for d in range(len(shape_of(op.inputs[0]))) if d not in axes]
            folded = [[(v, d) for v in op.inputs] for d in axes]
            pairs = enumerate(kept)
            return [
                [*((v, d) for v in op.inputs), *((r, n) for r in op.results)] for n, d in pairs
            ] + folded
        case tensor_ir.ScanOp() | tensor_ir.SortOp():
            values = [*op.inputs, *op.results]
            rank = len(shape_of(op.inputs[0]))
            return [[(v, d) for v in values] for d in range(rank) if d != op.axis.value.data]
        case tensor_ir.IndexMapOp():
            return _alike_in_maps(op.result, [*zip(op.sources, _maps(op), strict=True)])
        case tensor_ir.GatherOp():
            groups = _alike_in_maps(op.result, [(op.source, op.map.data)])
            every = (
                [(v, d) for v in (op.result, *op.indices)] for d in range(len(shape_of(op.result)))
            )
            return [*groups, *every]
        case ReshapeOp():
            return _kept(op)
        case _:
            return []


def _maps(op: tensor_ir.IndexMapOp) -> list[AffineMap]:
    return [map.data for map in op.maps]


def _alike_in_maps(
    result: SSAValue, pairs: Sequence[tuple[SSAValue, AffineMap]]
) -> list[list[Dimension]]:
    """Dimensions of sources that are read at one of the result, all along both."""
    groups: list[list[Dimension]] = []
    for source, map in pairs:
        for place, expr in enumerate(map.results):
            if _is_along(source, place, expr, result):
                assert isinstance(expr, AffineDimExpr)
                groups.append([(result, expr.position), (source, place)])
    return groups


def _is_along(source: SSAValue, place: int, expr: AffineExpr, result: SSAValue) -> bool:
    shape = shape_of(result)
    return (
        isinstance(expr, AffineDimExpr)
        and expr.position < len(shape)
        and shape_of(source)[place] == shape[expr.position]
    )


def _kept(op: ReshapeOp) -> list[list[Dimension]]:
    """Dimensions that a reshape leaves as they are."""
    found = common_parts(shape_of(op.source), shape_of(op.result))
    if found is None:
        return []
    begins: list[dict[int, tuple[int, int]]] = []
    for parts in found:
        first, own = 0, {}
        for d, part in enumerate(parts):
            if part:
                own[first] = (d, len(part))
            first += len(part)
        begins.append(own)
    both = begins[0].keys() & begins[1].keys()
    pairs = ((begins[0][at], begins[1][at]) for at in sorted(both))
    return [[(op.source, a), (op.result, b)] for (a, n), (b, m) in pairs if n == m]


def whole_dimensions(op: Operation) -> list[Dimension]:
    """The dimensions that an operation of `NATIVE` needs the numbers of."""
    match op:
        case tensor_ir.IotaOp():
            return [(op.result, op.axis.value.data)]
        case tensor_ir.ScanOp() | tensor_ir.SortOp():
            return [(v, op.axis.value.data) for v in (*op.inputs, *op.results)]
        case tensor_ir.IndexMapOp():
            pairs = [*zip(op.sources, _maps(op), strict=True)]
            used = [e for where in op.conditions for e in where.data.results]
            return _whole_in_maps(op.result, pairs, used)
        case tensor_ir.GatherOp():
            return _whole_in_maps(op.result, [(op.source, op.map.data)], [])
        case _:
            return []


def _whole_in_maps(
    result: SSAValue, pairs: Sequence[tuple[SSAValue, AffineMap]], used: Sequence[AffineExpr]
) -> list[Dimension]:
    """Those that maps compute with, or read at a place of their own."""
    found: list[Dimension] = []
    computed = [*used]
    for source, map in pairs:
        for place, expr in enumerate(map.results):
            if not _is_along(source, place, expr, result):
                found.append((source, place))
                computed.append(expr)
    rank = len(shape_of(result))
    positions = {p for expr in computed for p in expr.used_dims() if p < rank}
    return found + [(result, p) for p in sorted(positions)]

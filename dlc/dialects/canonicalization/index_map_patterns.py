"""Patterns of index maps and gathers: what they read through index maps, they read themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects.axes import new_body
from dlc.dialects.flow import is_before_loop
from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.loop import ForOp
from dlc.dialects.size import symbols_around
from dlc.dialects.size_index import SizeIndexOp, size_expr, sizes_in
from dlc.dialects.tensor_ir import ConstantOp, GatherOp, IndexMapOp
from dlc.ir.affine_forms import from_affine, to_map
from dlc.ir.bounds import never, sure
from dlc.ir.evaluate import scalar
from dlc.ir.expr import Expr
from dlc.ir.provenance import inherit, ops_of, set_ops
from dlc.ir.sizes import NeedsNumber, Size, Symbol

UNBOUNDED = 1 << 62
"""More points than any dimension has."""


@dataclass
class ComposeIndexMap(RewritePattern):
    """
    An index map of index maps reads their sources itself; what is sure from extents is dropped. One
    that changes nothing is its source, and one of a constant is a constant. In a loop, one that is
    joined of several tensors before it stays: each turn would choose among them anew.
    """

    spaces: dict[tuple[Symbol, ...], IndexSpaces] = field(default_factory=dict)

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: IndexMapOp, rewriter: PatternRewriter, /) -> None:
        symbols = tuple(symbols_around(op).values())
        if symbols not in self.spaces:
            self.spaces[symbols] = IndexSpaces(symbols)
        composed = Pieces.of(op, self.spaces[symbols])
        composed.merge_equal()
        if (value := composed.whole(op)) is not None:
            rewriter.replace(op, [], [value])
        elif not composed.equals(op):
            new = composed.build(op)
            new.location = op.location
            inherit(new, op, *composed.composed)
            rewriter.replace(op, new)


class ComposeGather(RewritePattern):
    """A gather of an index map of one tensor reads that tensor."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GatherOp, rewriter: PatternRewriter, /) -> None:
        inner = op.source.owner
        while isinstance(inner, IndexMapOp) and not (
            inner.conditions.data[0].data.results or inner.named_sizes
        ):
            axes = IndexSpace(shape_of(op.result)).axes
            indices = Block(arg_types=[IndexType()] * len(op.indices))
            operands = [*axes, *indices.args]
            outer = [from_affine(e, operands) for e in op.map.data.results]
            space = IndexSpace(shape_of(inner.result))
            subscripts = space.exprs_at(outer, inner.maps.data[0].data)
            op.map = AffineMapAttr(to_map(subscripts, operands))
            op.operands[0] = inner.sources[0]
            inherit(op, op, inner)
            rewriter.notify_op_modified(op)
            inner = op.source.owner


class IndexSpaces:
    """The spaces of shapes in a program with such sizes, each of which is one index value."""

    def __init__(self, symbols: Sequence[Symbol]) -> None:
        ops = {symbol.name: SizeIndexOp(symbol) for symbol in symbols}
        self.block = Block(ops.values())
        self.sizes: dict[str, SSAValue] = {name: op.result for name, op in ops.items()}
        self._made: dict[tuple[int, ...], IndexSpace] = {}

    def of(self, shape: tuple[int, ...]) -> IndexSpace:
        if shape not in self._made:
            self._made[shape] = IndexSpace(shape, self)
        return self._made[shape]


class IndexSpace:
    """
    The points of a shape: an index value per dimension, whose range is known. Along a dimension
    that is a product of sizes nothing is known but that there is a first point.
    """

    def __init__(self, shape: Sequence[int], spaces: IndexSpaces | None = None) -> None:
        self.spaces = IndexSpaces(()) if spaces is None else spaces
        extents = [self._extent(n) for n in shape]
        self.loop = ForOp(extents, new_body(len(shape)))
        if any(isinstance(n, Size) for n in extents):
            self.spaces.block.add_op(self.loop)
        self.axes: list[SSAValue] = list(self.loop.axes)

    def _extent(self, extent: Size | int) -> int:
        last = self.spaces.block.last_op
        if not isinstance(extent, Size):
            return extent
        try:
            _ = size_expr(extent, last) if last else None
        except NeedsNumber:
            return UNBOUNDED
        return extent if last else UNBOUNDED  # pyright: ignore[reportReturnType]

    def exprs(self, map: AffineMap, sizes: Sequence[str] = ()) -> list[Expr]:
        operands = [*self.axes, *(self.spaces.sizes[name] for name in sizes)]
        return [from_affine(e, operands) for e in map.results]

    def exprs_at(
        self, point: Sequence[Expr], map: AffineMap, sizes: Sequence[str] = ()
    ) -> list[Expr]:
        """The results of a map over this shape at a point that is given by expressions."""
        values = dict(zip(self.axes, point, strict=True))
        return [e.substitute(values.get) for e in self.exprs(map, sizes)]

    def map(self, exprs: Sequence[Expr], sizes: Sequence[str] = ()) -> AffineMap:
        return to_map(exprs, [*self.axes, *(self.spaces.sizes[name] for name in sizes)])


@dataclass(frozen=True)
class Piece:
    """The elements of `source` at `subscripts`, at the points where each of `where` is >= 0."""

    source: SSAValue
    subscripts: tuple[Expr, ...]
    where: tuple[Expr, ...]


@dataclass
class Pieces:
    """A tensor as the first piece that holds at a point, or a final scalar."""

    space: IndexSpace
    pieces: list[Piece]
    fill: Attribute | None
    composed: list[Operation] = field(default_factory=list)
    """The operations that the pieces stand for, beside the index map itself."""

    @staticmethod
    def of(op: IndexMapOp, spaces: IndexSpaces) -> Pieces:
        """The pieces of an index map, with the index maps that it reads composed into it."""
        space, names = spaces.of(shape_of(op.result)), op.named_sizes
        result = Pieces(space, [], op.fill)
        for source, map, where in zip(op.sources, op.maps, op.conditions, strict=True):
            subscripts = tuple(space.exprs(map.data, names))
            conditions = result.simplified(space.exprs(where.data, names))
            if conditions is None:
                continue
            piece = Piece(source, subscripts, conditions)
            inner = source.owner
            if (
                isinstance(inner, IndexMapOp)
                and len(inner.sources) > 1
                and is_before_loop(inner, op)
            ):
                result.keep(piece)
            else:
                result.add(piece)
            if not conditions:
                break
        return result

    def simplified(self, conditions: Sequence[Expr]) -> tuple[Expr, ...] | None:
        """The conditions that are not sure; None if they cannot all hold."""
        needed: list[Expr] = []
        for condition in conditions:
            if never(condition):
                return None
            if not sure(condition, needed):
                needed = [c for c in needed if not sure(c, [condition])]
                needed.append(condition)
        return tuple(needed)

    def keep(self, piece: Piece) -> None:
        """Appends a piece as it is."""
        if not piece.where:
            self.fill = None
        self.pieces.append(piece)

    def add(self, piece: Piece) -> None:
        """Appends a piece, or the pieces that its source is made of."""
        owner = piece.source.owner
        if not piece.where:
            self.fill = None
        if isinstance(owner, ConstantOp | IndexMapOp):
            self.composed.append(owner)
        if isinstance(owner, ConstantOp):
            if piece.where:
                self.pieces.append(Piece(scalar_of(owner), (), piece.where))
            else:
                self.fill = owner.value
        elif isinstance(owner, IndexMapOp):
            self._add_pieces_of(owner, piece)
        else:
            self.pieces.append(piece)

    def _add_pieces_of(self, inner: IndexMapOp, outer: Piece) -> None:
        space, names = self.space.spaces.of(shape_of(inner.result)), inner.named_sizes
        for source, map, where in zip(inner.sources, inner.maps, inner.conditions, strict=True):
            further = space.exprs_at(outer.subscripts, where.data, names)
            conditions = self.simplified([*outer.where, *further])
            if conditions is None:
                continue
            subscripts = space.exprs_at(outer.subscripts, map.data, names)
            self.add(Piece(source, tuple(subscripts), conditions))
            if conditions == outer.where:
                return
        if inner.fill is None:
            return
        if outer.where:
            # What comes after the inner scalar may still be another source of the outer map.
            self.pieces.append(Piece(constant_before(inner, inner.fill), (), outer.where))
        else:
            self.fill = inner.fill

    def merge_equal(self) -> None:
        """Drops the last pieces that are the same scalar as the rest: nothing is to choose."""
        while self.pieces and self.fill is not None:
            last = self.pieces[-1].source.owner
            if not isinstance(last, ConstantOp) or last.value != self.fill:
                break
            self.pieces.pop()

    def whole(self, op: IndexMapOp) -> SSAValue | None:
        """The tensor that `op` only repeats, if it does."""
        if not self.pieces or 0 in shape_of(op.result):
            return None
        first = self.pieces[0]
        identity = list(first.subscripts) == [Expr.of(a) for a in self.space.axes]
        same = identity and not first.where and first.source.type == op.result.type
        return first.source if same else None

    def equals(self, op: IndexMapOp) -> bool:
        """True if `op` is what `build` would give."""
        return (
            bool(self.pieces)
            and 0 not in shape_of(op.result)
            and [p.source for p in self.pieces] == [*op.sources]
            and op.fill == self.fill
            and op.named_sizes == (names := self.sizes)
            and op.maps == _maps(self.space.map(p.subscripts, names) for p in self.pieces)
            and op.conditions == _maps(self.space.map(p.where, names) for p in self.pieces)
        )

    @property
    def sizes(self) -> list[str]:
        """The sizes that subscripts and conditions mention, in their order there."""
        return sizes_in(e for p in self.pieces for e in (*p.subscripts, *p.where))

    def build(self, op: IndexMapOp) -> IndexMapOp | ConstantOp:
        """An operation that gives what `op` gives."""
        shape, fill = shape_of(op.result), self.fill
        if not self.pieces or 0 in shape:
            # A tensor without elements may have any value.
            value = scalar(0, element_of(op.result)) if fill is None else fill
            assert isinstance(value, FloatAttr | IntegerAttr)
            return ConstantOp(value, shape)
        assert fill is None or isinstance(fill, FloatAttr | IntegerAttr)
        names = self.sizes
        return IndexMapOp(
            [p.source for p in self.pieces],
            [self.space.map(p.subscripts, names) for p in self.pieces],
            shape,
            [self.space.map(p.where, names) for p in self.pieces],
            fill,
            names,
        )


def _maps(maps: Iterable[AffineMap]) -> ArrayAttr[AffineMapAttr]:
    return ArrayAttr([AffineMapAttr(map) for map in maps])


def scalar_of(constant: ConstantOp) -> SSAValue:
    """A constant of rank 0 with the value of `constant`."""
    if not shape_of(constant.result):
        return constant.result
    return constant_before(constant, constant.value)


def constant_before(op: Operation, value: Attribute) -> SSAValue:
    assert isinstance(value, FloatAttr | IntegerAttr)
    constant = ConstantOp(value, ())
    constant.location = op.location
    set_ops(constant, ops_of(op))
    constant.result.name_hint = "constant"
    Rewriter.insert_op(constant, InsertPoint.before(op))
    return constant.result

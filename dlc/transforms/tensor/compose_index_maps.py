"""The pass `compose-index-maps`: index maps of index maps become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, FloatAttr, IndexType, IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import dce

from dlc.dialects.axes import new_body
from dlc.dialects.layouts import shape_of
from dlc.dialects.loop import ForOp
from dlc.dialects.tensor_ir import ConstantOp, GatherOp, IndexMapOp, element_of
from dlc.ir.evaluate import scalar
from dlc.ir.expr import Expr, from_affine, implied, to_map
from dlc.ir.provenance import inherit, ops_of, set_ops


@dataclass(frozen=True)
class ComposeIndexMapsPass(ModulePass):
    """
    An index map of index maps reads their sources itself; what is sure from extents is dropped.

    ```
    %a = tensor_ir.index_map (d0, d1) -> %x[d0 * 4 + d1] : tensor<12xf32> -> tensor<3x4xf32>
    %b = tensor_ir.index_map (d0) -> %a[d0 floordiv 4, d0 mod 4] : tensor<3x4xf32> -> tensor<12xf32>
    %c = tensor_ir.index_map (d0) -> %b[d0 + 2] : tensor<12xf32> -> tensor<5xf32>
    ```
    becomes
    ```
    %c = tensor_ir.index_map (d0) -> %x[d0 + 2] : tensor<12xf32> -> tensor<5xf32>
    ```

    Maps, conditions and final scalars compose; an index map that changes nothing is its source,
    and one of a constant is a constant.
    """

    name = "compose-index-maps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        spaces: dict[tuple[int, ...], IndexSpace] = {}
        for inner in list(op.walk()):
            if isinstance(inner, IndexMapOp):
                shape = shape_of(inner.result)
                if shape not in spaces:
                    spaces[shape] = IndexSpace(shape)
                replace(inner, Pieces.of(inner, spaces[shape]))
            elif isinstance(inner, GatherOp):
                compose_gather(inner)
        dce(op)


class IndexSpace:
    """The points of a shape: an index value per dimension, whose range is known."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.loop = ForOp(shape, new_body(len(shape)))
        self.axes: list[SSAValue] = list(self.loop.axes)

    def exprs(self, map: AffineMap) -> list[Expr]:
        return [from_affine(e, self.axes) for e in map.results]

    def exprs_at(self, point: Sequence[Expr], map: AffineMap) -> list[Expr]:
        """The results of a map over this shape at a point that is given by expressions."""
        values = dict(zip(self.axes, point, strict=True))
        return [e.substitute(values.get) for e in self.exprs(map)]

    def map(self, exprs: Sequence[Expr]) -> AffineMap:
        return to_map(exprs, list(self.axes))


@dataclass(frozen=True)
class Piece:
    """Where `where` holds (each `>= 0`), the elements of `source` at `subscripts`."""

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
    def of(op: IndexMapOp, space: IndexSpace) -> Pieces:
        """What an index map means, with the index maps that it reads composed into it."""
        result = Pieces(space, [], op.fill)
        for source, map, where in zip(op.sources, op.maps, op.conditions, strict=True):
            subscripts = tuple(space.exprs(map.data))
            conditions = result.simplified(space.exprs(where.data))
            if conditions is None:
                continue
            result.add(Piece(source, subscripts, conditions))
            if not conditions:
                break
        return result

    def simplified(self, conditions: Sequence[Expr]) -> tuple[Expr, ...] | None:
        """The conditions that are not sure; None if they cannot all hold."""
        needed: list[Expr] = []
        for condition in conditions:
            if condition.range[1] < 0:
                return None
            if not implied(condition, needed):
                needed = [c for c in needed if not implied(c, [condition])]
                needed.append(condition)
        return tuple(needed)

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
        space = IndexSpace(shape_of(inner.result))
        for source, map, where in zip(inner.sources, inner.maps, inner.conditions, strict=True):
            further = space.exprs_at(outer.subscripts, where.data)
            conditions = self.simplified([*outer.where, *further])
            if conditions is None:
                continue
            self.add(Piece(source, tuple(space.exprs_at(outer.subscripts, map.data)), conditions))
            if conditions == outer.where:
                return
        if inner.fill is None:
            return
        if outer.where:
            # What comes after the inner scalar may still be another source of the outer map.
            self.pieces.append(Piece(constant_before(inner, inner.fill), (), outer.where))
        else:
            self.fill = inner.fill


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


def replace(op: IndexMapOp, composed: Pieces) -> None:
    """Puts what was composed in the place of `op`."""
    pieces, fill, space = composed.pieces, composed.fill, composed.space
    # Where all pieces are the same scalar as the rest, there is nothing to choose.
    while pieces and fill is not None:
        last = pieces[-1].source.owner
        if not isinstance(last, ConstantOp) or last.value != fill:
            break
        pieces.pop()
    if not pieces or 0 in shape_of(op.result):
        # A tensor without elements may have any value.
        value = scalar(0, element_of(op.result)) if fill is None else fill
        assert isinstance(value, FloatAttr | IntegerAttr)
        new = ConstantOp(value, shape_of(op.result))
    else:
        first = pieces[0]
        identity = list(first.subscripts) == [Expr.of(a) for a in space.axes]
        if identity and not first.where and first.source.type == op.result.type:
            substitute(op, first.source)
            return
        assert fill is None or isinstance(fill, FloatAttr | IntegerAttr)
        new = IndexMapOp(
            [p.source for p in pieces],
            [space.map(p.subscripts) for p in pieces],
            shape_of(op.result),
            [space.map(p.where) for p in pieces],
            fill,
        )
    new.location = op.location
    inherit(new, op, *composed.composed)
    new.result.name_hint = op.result.name_hint
    Rewriter.insert_op(new, InsertPoint.before(op))
    substitute(op, new.result)


def substitute(op: IndexMapOp, value: SSAValue) -> None:
    op.result.replace_all_uses_with(value)
    op.detach()
    op.erase()


def compose_gather(op: GatherOp) -> None:
    """Lets a gather of an index map of one tensor read that tensor."""
    inner = op.source.owner
    while isinstance(inner, IndexMapOp) and not inner.conditions.data[0].data.results:
        axes = IndexSpace(shape_of(op.result)).axes
        indices = Block(arg_types=[IndexType()] * len(op.indices))
        operands = [*axes, *indices.args]
        outer = [from_affine(e, operands) for e in op.map.data.results]
        space = IndexSpace(shape_of(inner.result))
        subscripts = space.exprs_at(outer, inner.maps.data[0].data)
        op.map = AffineMapAttr(to_map(subscripts, operands))
        op.operands[0] = inner.sources[0]
        inherit(op, op, inner)
        inner = op.source.owner

"""Patterns of operations with subscripts and conditions, for all dialects that have them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, MemRefType
from xdsl.ir import BlockArgument, Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from dlc.dialects.access import LoadOpBase, SelectOpBase, StoreOpBase
from dlc.dialects.indexed_op import IndexedOp, simplify_where
from dlc.dialects.kernel_memory import memref_of
from dlc.dialects.layouts import strides_of
from dlc.dialects.size_index import extents_at
from dlc.ir.bounds import never, sure, within
from dlc.ir.expr import Expr
from dlc.ir.rounding import unrounded


class FoldAccess(RewritePattern):
    """A load or a select is the value that it is known to be."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: LoadOpBase | SelectOpBase, rewriter: PatternRewriter, /
    ) -> None:
        if (values := op.fold()) is not None:
            rewriter.replace(op, [], values)


class SimplifyIndex(RewritePattern):
    """
    Subscripts and conditions take their simplest form; conditions that are sure go, but for those
    of a test, which is folded where all are.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: IndexedOp, rewriter: PatternRewriter, /) -> None:
        if not op.indices and op.conditions is None:
            return
        subscripts, where = op.subscripts, simplify_where(op.where)
        if op.IS_TEST and not where:
            return
        indices, maps = op.index_properties(subscripts, where)
        if indices != [*op.indices] or any(op.properties.get(n) != m for n, m in maps.items()):
            op.set_index(subscripts, where)
            rewriter.notify_op_modified(op)


class FlattenIndex(RewritePattern):
    """A subscript along a dimension of stride 0 is 0: all its elements are one."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: LoadOpBase | StoreOpBase, rewriter: PatternRewriter, /) -> None:
        pairs = zip(op.subscripts, strides_of(memref_of(op.ref)), strict=True)
        subscripts = [subscript if stride else Expr() for subscript, stride in pairs]
        if subscripts != [*op.subscripts]:
            op.set_index(subscripts, op.where)
            rewriter.notify_op_modified(op)


class DropSureDefault(RewritePattern):
    """`load %x[i] where (i < 8) else %d` is `load %x[i]` where `i` is always below 8."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: LoadOpBase, rewriter: PatternRewriter, /) -> None:
        if op.default is not None and all(map(sure, op.where)):
            new = type(op)(op.ref, op.subscripts, result_type=op.result.type)
            new.location = op.location
            rewriter.replace(op, new)


class DropUnreachableLoad(RewritePattern):
    """`load %x[i] where (i < 0)`, whose condition never holds, is 0: nobody asks for it."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: LoadOpBase, rewriter: PatternRewriter, /) -> None:
        type = op.result.type
        if op.default is not None or not any(map(never, op.where)):
            return
        if isinstance(type, AnyFloat):
            rewriter.replace(op, arith.ConstantOp(FloatAttr(0.0, type)))
        elif isinstance(type, IntegerType):
            rewriter.replace(op, arith.ConstantOp(IntegerAttr(0, type)))


class SelectOfLoad(RewritePattern):
    """
    A select of a load whose conditions its own imply is a load with the other side as default:
    `select (load %x[i] where (c)) where (c, d) else %e` is `load %x[i] where (c, d) else %e`, if
    nothing can have been written in between, as to an input.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SelectOpBase, rewriter: PatternRewriter, /) -> None:
        load, where = op.value.owner, op.where
        if not isinstance(load, LoadOpBase) or not op.value.has_one_use() or not load.where:
            return
        if load.result.type != op.default.type or set(load.where) - set(where):
            return
        if not isinstance(load.ref, BlockArgument):
            return
        if not all(isinstance(use.operation, LoadOpBase) for use in load.ref.uses):
            return
        new = type(load)(load.ref, load.subscripts, where, op.default)
        new.location = load.location
        new.result.name_hint = load.result.name_hint
        rewriter.replace(op, new)


@dataclass(frozen=True)
class FreeLoad(RewritePattern):
    """
    A load that stays in bounds whether its conditions hold or not is free of them, so that vectors
    can be loaded, and a select of it and its default follows. So is one without a default whose
    conditions are of axes that it does not walk along: it leaves their loops.
    """

    select: type[SelectOpBase]

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: LoadOpBase, rewriter: PatternRewriter, /) -> None:
        if not op.where or (op.default is None and not self._leaves(op)):
            return
        assert isinstance(op.ref.type, MemRefType)
        bounds = zip(op.subscripts, extents_at(op.ref, op), strict=True)
        if any(within(subscript, extent) for subscript, extent in bounds):
            return
        load = type(op)(op.ref, op.subscripts)
        load.location = op.location
        load.result.name_hint = op.result.name_hint
        if op.default is None:
            rewriter.replace(op, load)
            return
        select = self.select(load.result, op.where, op.default)
        select.location = op.location
        rewriter.replace(op, [load, select])

    @staticmethod
    def _leaves(op: LoadOpBase) -> bool:
        """True if the conditions of a load are of other values than its subscripts."""
        own = {v for subscript in op.subscripts for v in subscript.values()}
        return all(own.isdisjoint(condition.values()) for condition in op.where)


class DropUnreachableStore(RewritePattern):
    """A store whose conditions never hold has no effect."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: StoreOpBase, rewriter: PatternRewriter, /) -> None:
        if any(map(never, op.where)):
            rewriter.erase(op)


class DropRounding(RewritePattern):
    """A value that memory does not lie between is not rounded (`dlc.ir.rounding`)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.ExtFOp, rewriter: PatternRewriter, /) -> None:
        if (exact := unrounded(op)) is not None:
            rewriter.replace(op, [], [exact])


class DropRoundings(RewritePattern):
    """`DropRounding` for what a kernel holds: the casts are operations of another dialect."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        for inner in [o for o in op.walk() if isinstance(o, arith.ExtFOp)]:
            DropRounding().match_and_rewrite(inner, rewriter)

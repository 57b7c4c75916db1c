"""How reduces become loops that fold into accumulators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math, scf
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import kernel, tile
from dlc.dialects.axes import FRAGMENT, REGISTER, SERIAL
from dlc.dialects.indexed_op import simplify_where
from dlc.ir.expr import Expr
from dlc.ir.monoid import MONOIDS
from dlc.remarks import remark
from dlc.transforms.kernel.lowering.loop_ends import loop_end
from dlc.transforms.kernel.lowering.mma_lowering import MmaLowering
from dlc.transforms.kernel.lowering.reduce_lowering import (
    ReduceLowering,
    Totals,
    registers_around,
)
from dlc.transforms.kernel.lowering.rising import fold_rising, sums_in_place
from dlc.transforms.kernel.lowering.wgmma_lowering import Products

_REQUESTS = kernel.CommitOp | kernel.WaitOp
"""What stands in a loop for the copies that it requests and waits for."""


@dataclass(frozen=True)
class Yielded:
    """What the yield of a reduce said, which is gone."""

    values: list[SSAValue]
    where: tuple[Expr, ...]
    places: tuple[SSAValue, ...]
    """The index values of the conditions."""

    @staticmethod
    def of(op: tile.ReduceOp) -> Yielded:
        """Takes what a reduce yields; its yield is empty then."""
        last = op.yielded
        taken = Yielded(list(last.values), last.where, tuple(last.indices))
        empty = tile.YieldOp()
        empty.location = last.location
        Rewriter.replace_op(last, empty, [])
        return taken

    def part(self, numbers: Sequence[int]) -> Yielded:
        """Some of the values; all if no number is given."""
        values = [self.values[n] for n in numbers] if numbers else self.values
        return Yielded(values, self.where, self.places)

    def along(self, to: ReduceLowering) -> frozenset[SSAValue]:
        """The axes along which the values and the conditions vary."""
        return to.along((*self.values, *self.places))


class ReduceNest:
    """A reduce, and the reduce around it whose accumulators it shares."""

    def __init__(self, op: tile.ReduceOp, nests: dict[tile.ReduceOp, ReduceNest]) -> None:
        self.op = op
        around = op.parent_op()
        self.outer: ReduceNest | None = None
        if isinstance(around, tile.ReduceOp) and _accumulates_in_place(op, around):
            self.outer = nests[around]
        self.folded: frozenset[SSAValue] = frozenset(op.axes_of(REGISTER))
        """The register axes of the reduce, and of those whose accumulators it shares."""
        self.folds = True
        """False if a reduce inside shares the accumulators, which then does all folding."""
        if self.outer is not None:
            self.folded |= self.outer.folded
            self.outer.folds = False
        self.lanes: tuple[SSAValue, ...] = ()
        """The axes of the fragments of a reduce inside, by warps, that shares the accumulators."""
        sharing: ReduceNest | None = self
        while op.lanes and sharing is not None:
            sharing.lanes, sharing = tuple(op.lanes), sharing.outer
        self.root: ReduceNest = self if self.outer is None else self.outer.root
        self.sharing: int = 0 if self.outer is None else self.outer.sharing + 1
        """How many reduces around it share its accumulators."""
        self.together = False
        """True if values that are one element are folded at once for several register points."""
        if op.monoid.together and op.axes_of(REGISTER):
            self.root.together = True
        self.totals: tuple[Totals, ...] = ()
        """The accumulators, by the register axes along which they vary."""
        self.in_place = sums_in_place(op)
        """The sums inside that are added to accumulators, and the numbers of the values."""
        self.added_to: ReduceNest | None = None
        """The reduce around it to one of whose values it is added in place."""
        if isinstance(around, tile.ReduceOp) and op in nests[around].in_place:
            self.added_to = nests[around]


def _accumulates_in_place(op: tile.ReduceOp, around: tile.ReduceOp) -> bool:
    """
    True if a reduce is only yielded straight into the one around it, of the same monoid. A reduce
    along register axes alone is there so that each of their points is folded apart; one that is
    split or apart keeps its sums short.
    """
    if around.axes and len(around.axes_of(REGISTER)) == len(around.axes):
        return False
    conditional = bool(around.yielded.where) and around.skips is None
    if op.has_own_sums:
        return False
    straight = tuple(around.yielded.values) == tuple(op.results) and not conditional
    sole = all(r.has_one_use() for r in op.results)
    return straight and sole and around.monoid_name == op.monoid_name


def lower_reduce(to: ReduceLowering, nest: ReduceNest) -> None:
    """Puts a loop in a reduce's place; reduces around it are lowered before."""
    op = nest.op
    to.before(op)
    if nest.added_to is not None:
        number = nest.added_to.in_place[op]
        nest.totals = tuple(t for t in nest.added_to.totals if t.numbers == (number,))
    elif nest.outer is None:
        in_place = {n: sums.lanes for sums, n in nest.in_place.items()}
        nest.totals = to.accumulators(op, nest.lanes, together=nest.together, in_place=in_place)
    else:
        nest.totals = nest.outer.totals
    products = _products(to, nest)
    ends = loop_end(to, op)
    if products is not None:
        products.lower(to)
    elif op.lanes:
        MmaLowering(to, op).lower(*nest.totals)
    else:
        in_place = nest.in_place
        yielded = Yielded.of(op)
        if op.rising is not None and (not yielded.where or op.skips is not None):
            fold_rising(to, op, nest.totals, yielded.values, in_place)
        elif nest.folds and op.monoid.together and len(nest.totals) > 1:
            _insert_combination(to, nest, yielded)
        elif nest.folds:
            for totals in nest.totals:
                _insert_fold(to, nest, totals, yielded.part(totals.numbers))
        if op.skips is not None and yielded.where:
            _skip_unless(to, op, yielded.where)
    walked = [axis for axis in op.axes if op.kind(axis) != FRAGMENT]
    kinds, extents = [op.kind(axis) for axis in walked], [op.extent(axis) for axis in walked]
    for axis in op.axes_of(FRAGMENT):
        op.body.block.erase_arg(axis)
    if ends is not None:
        loop: tile.ForOp | scf.ForOp = ends.loop(to, op)
    else:
        loop = tile.ForOp(extents, op.detach_region(op.body), kinds)
        loop.attributes.update(op.attributes)
        loop.location = op.location
    if products is not None:
        Rewriter.insert_op(products.fence(), InsertPoint.before(op))
    if nest.outer is None and nest.added_to is None:
        to.replace(op, loop, *nest.totals)
    else:
        Rewriter.insert_op(loop, InsertPoint.before(op))
        Rewriter.erase_op(op)
    if products is not None:
        assert isinstance(loop, tile.ForOp)
        products.finish(loop, nest.sharing)


def _products(to: ReduceLowering, nest: ReduceNest) -> Products | None:
    """What warpgroups multiply; a reduce by those that they cannot is left to their warps."""
    op = nest.op
    if op.mma is None or not op.mma.is_of_warpgroup:
        return None
    found = Products.of(to, op, *nest.totals)
    if isinstance(found, Products):
        return found
    by_warps = f"by {op.mma.of_warp} of each warp, not by {op.mma}: {found}"
    remark("lower-reduces", to.source.name_, by_warps)
    return None


def _skip_unless(to: ReduceLowering, op: tile.ReduceOp, where: Sequence[Expr]) -> None:
    """
    Moves the body of a reduce into an `scf.if` on conditions. Where some hold only from an
    iteration on, what requests copies and waits for them is done before, too, for later ones.
    """
    axes = op.axes_of(SERIAL)
    rising = [c for c in where if any((c.coefficient(axis) or 1) > 0 for axis in axes)]
    requests = [n for n, inner in enumerate(op.body.block.ops) if _is_for_later(inner)]
    if not rising or not requests:
        _into_if(to, op.body.block, 0, where)
        return
    _into_if(to, op.body.block, requests[-1] + 1, rising)
    if falling := [c for c in where if c not in rising]:
        _into_if(to, op.body.block, 0, falling)


def _is_for_later(op: Operation) -> bool:
    """
    True if an operation closes or waits for a group of copies that an iteration requests for
    others: not if all are waited for as soon as they are requested, as those of stages.
    """
    if not isinstance(op, _REQUESTS):
        return False
    pair = (op, op.next_op) if isinstance(op, kernel.CommitOp) else (op.prev_op, op)
    waits = isinstance(pair[1], kernel.WaitOp) and pair[1].pending.value.data == 0
    return not (isinstance(pair[0], kernel.CommitOp) and waits)


def _into_if(to: ReduceLowering, block: Block, first: int, where: Sequence[Expr]) -> None:
    """Moves the operations of a block from some on into an `scf.if`, all but the last."""
    *ops, last = block.ops
    body = Block()
    for each in ops[first:]:
        each.detach()
        body.add_op(each)
    body.add_op(scf.YieldOp())
    to.before(last)
    test = to.insert(kernel.TestOp(to.exprs(where)))
    to.builder.insert(scf.IfOp(test, [], Region(body)))


def _insert_combination(to: ReduceLowering, nest: ReduceNest, yielded: Yielded) -> None:
    """
    Combines the element that the body yields with the accumulators, which vary along different
    register axes: what some of them have in common is computed once for all points of others.
    """
    op = nest.op
    to.before(op.yielded)
    values, where = yielded.values, () if op.skips is not None else yielded.where
    if where:
        identity = [to.constant(a) for a in op.monoid.identity([v.type for v in values])]
        pairs = zip(values, identity, strict=True)
        values = [to.insert(tile.SelectOp(v, where, other)) for v, other in pairs]
    loads = to.loaded(op, nest.totals)
    for load in loads:
        to.insert(load, load.ref.name_hint)
    new = op.monoid.combine(to.builder, [load.result for load in loads], values)
    for totals in nest.totals:
        with to.each(totals.axes):
            to.write(totals, [new[n] for n in totals.numbers])


def _insert_fold(to: ReduceLowering, nest: ReduceNest, totals: Totals, yielded: Yielded) -> None:
    """
    Folds what the body yields into the accumulators, at each point of the reduce's register axes
    even where what is yielded does not vary along them. Where conditions fail that do not skip the
    body, the identity is folded. (To add zero changes no sum that begins with zero, so there the
    sum is kept.)
    """
    op = nest.op
    to.before(op.yielded)
    along = yielded.along(to) | nest.folded | frozenset(totals.axes)
    axes = [a for a in (*op.axes_of(REGISTER), *registers_around(op)) if a in along]
    where = [] if op.skips is not None else simplify_where(to.exprs(yielded.where))
    with to.each(axes):
        old, values = to.read(totals), yielded.values
        if op.monoid_name.data == "add":
            products = [_product(to, op, axes, v, values) for v in values]
            terms = zip(old, values, products, strict=True)
            new = [_added(to, *term, where) for term in terms]
        else:
            if where:
                identity = [to.constant(a) for a in op.monoid.identity([v.type for v in values])]
                pairs = zip(values, identity, strict=True)
                values = [to.insert(kernel.SelectOp(v, where, other)) for v, other in pairs]
            new = op.monoid.combine(to.builder, old, values)
        to.write(totals, new)


def _product(
    to: ReduceLowering,
    op: tile.ReduceOp,
    axes: Sequence[BlockArgument],
    value: SSAValue,
    values: Sequence[SSAValue],
) -> arith.MulfOp | None:
    """
    The product that a value is, if it is only folded, and where it is computed: in the same body
    along the same register axes, or along none.
    """
    product = value.owner
    if not isinstance(product, arith.MulfOp) or value.first_use or values.count(value) > 1:
        return None
    along = to.along([value])
    here = product.parent is op.body.block and along.issuperset(axes)
    scalar = along.isdisjoint((*op.axes_of(REGISTER), *registers_around(op)))
    return product if here or scalar else None


def _added(
    to: ReduceLowering,
    total: SSAValue,
    value: SSAValue,
    product: arith.MulfOp | None,
    where: Sequence[Expr],
) -> SSAValue:
    """
    `total + value` where all conditions hold, else `total`. A product is added unrounded, by
    `math.fma`: nothing else is contracted, here or by compilers.
    """
    if product is not None:
        total_with = to.insert(math.FmaOp(product.lhs, product.rhs, total))
        Rewriter.erase_op(product)
        return to.insert(kernel.SelectOp(total_with, where, total)) if where else total_with
    add = MONOIDS["add"]
    if where:
        zero = to.constant(add.identity([value.type])[0])
        value = to.insert(kernel.SelectOp(value, where, zero))
    return add.combine(to.builder, [total], [value])[0]

"""
The computed slabs of a chunk of a cascade that warps can hold in registers, as they hold sums of
products of matrices: its scores, the largest of each row, the powers and their sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from dlc.analysis.tile.matrix_products import Factor, instruction
from dlc.dialects import tile
from dlc.dialects.axes import THREAD
from dlc.dialects.mma_layouts import MmaAttr, of_columns
from dlc.ir.expr import Expr
from dlc.ir.monoid import POWERS
from dlc.ir.variance import Variance

KEYS = 16
"""Of a row, what the lanes of a warp hold of two matrices of sums, and of one matrix of factors."""


@dataclass(frozen=True)
class CascadeSlabs:
    """What warps hold, each the same rows of all slabs."""

    slabs: tuple[tile.ComputeOp, ...]
    """In program order; of rows, or of rows and the keys of a chunk."""
    factors: dict[tile.ComputeOp, Attribute]
    """Those that are factors of products, and the type of the other factor."""
    warp: BlockArgument | None
    """The thread axis that numbers the warps with rows of their own, if there are several."""
    rows: int
    """Of a warp."""

    @property
    def refs(self) -> frozenset[SSAValue]:
        return frozenset(slab.result for slab in self.slabs)


def factors_of_cascades(launch: tile.LaunchOp) -> dict[tile.ComputeOp, Attribute]:
    """The slabs in f32 that are factors of products with halves which a cascade sums."""
    found: dict[tile.ComputeOp, Attribute] = {}
    for reduce in launch.walk():
        chunk = reduce.parent_op()
        if not isinstance(reduce, tile.ReduceOp) or not isinstance(chunk, tile.ReduceOp):
            continue
        if chunk.monoid_name.data not in POWERS:
            continue
        for value in reduce.yielded.values:
            if isinstance(value.owner, arith.MulfOp):
                found.update(_factor(value.owner))
    return found


def _factor(product: arith.MulfOp) -> Iterator[tuple[tile.ComputeOp, Attribute]]:
    pairs = (product.lhs, product.rhs), (product.rhs, product.lhs)
    for one, other in pairs:
        computed, factor = one.owner, Factor.of(other)
        slab = computed.ref.owner if isinstance(computed, tile.LoadOp) else None
        type = None if factor is None else factor.load.result.type
        halves = isinstance(type, Float16Type | BFloat16Type)
        if isinstance(slab, tile.ComputeOp) and isinstance(one.type, Float32Type) and halves:
            assert type is not None
            yield slab, type


def cascade_slabs(
    launch: tile.LaunchOp, row: BlockArgument, rows: int
) -> CascadeSlabs | str | None:
    """
    The slabs that warps can hold if each has all of so many points of a serial axis as rows; None
    if no cascade multiplies computed slabs, and a reason if they cannot.
    """
    factors = factors_of_cascades(launch)
    if not factors:
        return None
    slabs = connected_slabs(launch, factors)
    if launch.most(row) != rows:
        return f"expected all {launch.extent(row)} points of a warp along %{row.name_hint} at once"
    warp: set[BlockArgument | None] = set()
    for slab in slabs:
        reason = _misfit(slab, slabs)
        if reason is not None:
            return f"expected {slab.result.name_hint} to be held by warps, but {reason}"
        for load in loads_outside(slab, slabs):
            fits, axis = _warp_axis(load.subscripts[0], launch, row)
            if not fits:
                return f"expected rows of {slab.result.name_hint} that are those of the warp"
            warp.add(axis)
    if len(warp) != 1:
        return "expected sums of rows that warps have"
    (axis,) = warp
    warps = 1 if axis is None else launch.extent(axis)
    if any(slab.sizes[0] != warps * rows for slab in slabs):
        return f"expected slabs of the {warps * rows} rows of the block"
    return CascadeSlabs(tuple(slabs), factors, axis, rows)


def products_of(
    slabs: CascadeSlabs, shape: str, along: Variance
) -> dict[tile.ReduceOp, MmaAttr] | str:
    """The reduces in the slabs that are sums of products, as warps compute them; or a reason."""
    found: dict[tile.ReduceOp, MmaAttr] = {}
    for slab in slabs.slabs:
        for reduce in _reduces(slab):
            if _held_loads(reduce, slabs.slabs):
                continue
            wide = of_columns(shape, slab.sizes[1])
            how = instruction(reduce, wide, slab.axes[0], slab.axes[1], along)
            if isinstance(how, str):
                return how
            found[reduce] = how
    return found


def connected_slabs(launch: tile.LaunchOp, slabs: Iterable[tile.ComputeOp]) -> list[tile.ComputeOp]:
    """Slabs, and all that are computed of them, or they of these, by elements or by rows."""
    found: set[Operation] = set()
    left: list[Operation] = [*slabs]
    while left:
        slab = left.pop()
        if slab in found or not isinstance(slab, tile.ComputeOp):
            continue
        found.add(slab)
        for op in slab.body.walk():
            if isinstance(op, tile.LoadOp) and not _is_factor(op):
                left += [op.ref.owner] if isinstance(op.ref.owner, tile.ComputeOp) else []
        arounds = [_slab_around(use.operation) for use in slab.result.uses]
        left += [around for around in arounds if around is not None]
    return [op for op in launch.walk() if isinstance(op, tile.ComputeOp) and op in found]


def _is_factor(load: tile.LoadOp) -> bool:
    """True for what a reduce within a slab multiplies."""
    reduce = load.parent_op()
    return isinstance(reduce, tile.ReduceOp) and isinstance(
        reduce.yielded.values[0].owner, arith.MulfOp
    )


def _slab_around(op: Operation) -> tile.ComputeOp | None:
    around = op.parent_op()
    while around is not None and not isinstance(around, tile.ComputeOp | tile.LaunchOp):
        around = around.parent_op()
    return around if isinstance(around, tile.ComputeOp) else None


def _reduces(slab: tile.ComputeOp) -> list[tile.ReduceOp]:
    return [op for op in slab.body.walk() if isinstance(op, tile.ReduceOp)]


def _held_loads(op: Operation, slabs: Sequence[tile.ComputeOp]) -> list[tile.LoadOp]:
    """The loads of slabs in an operation."""
    loads = [inner for inner in op.walk() if isinstance(inner, tile.LoadOp)]
    return [load for load in loads if load.ref.owner in slabs]


def loads_outside(slab: tile.ComputeOp, slabs: Sequence[tile.ComputeOp]) -> list[tile.LoadOp]:
    """The loads of a slab that stand in none of them."""
    uses = [use.operation for use in slab.result.uses]
    return [op for op in uses if isinstance(op, tile.LoadOp) and _slab_around(op) not in slabs]


def _misfit(slab: tile.ComputeOp, slabs: Sequence[tile.ComputeOp]) -> str | None:
    """The reason why warps cannot hold a slab, if there is one."""
    if len(slab.axes) > 2 or slab.sizes[0] % 16 or (slab.sizes[1:] and slab.sizes[1] % KEYS):
        sizes = " x ".join(map(str, slab.sizes))
        return f"it has {sizes} elements, not multiples of 16 rows and of {KEYS} keys"
    if reason := misread(slab, slabs):
        return reason
    for load in loads_outside(slab, slabs):
        if len(slab.axes) > 1 and not isinstance(load.parent_op(), tile.ReduceOp):
            return "single keys of it are read"
        if load.where:
            return "it is read under conditions"
    return None


def misread(slab: tile.ComputeOp, slabs: Sequence[tile.ComputeOp]) -> str | None:
    """The reason why a slab is not computed by rows of others, or by their elements."""
    own = [Expr.of(axis) for axis in slab.axes]
    for load in _held_loads(slab, slabs):
        reduce = load.parent_op()
        if reduce is slab:
            if [*load.subscripts] != own[: len(load.subscripts)]:
                return f"it reads other elements of {load.ref.name_hint}"
            continue
        if not isinstance(reduce, tile.ReduceOp) or [*load.subscripts] != [
            own[0],
            _number(reduce),
        ]:
            return f"it folds something else than rows of {load.ref.name_hint}"
        if reduce.parent_op() is not slab or len(own) > 1 or reduce.monoid.together:
            return f"it folds rows of {load.ref.name_hint} in a loop of its own"
    return None


def _number(reduce: tile.ReduceOp) -> Expr:
    """The number of a point of a reduce, the last axis running fastest."""
    number, rest = Expr(), prod(reduce.all_extents)
    for axis in reduce.axes:
        rest //= reduce.extent(axis)
        number = number + Expr.of(axis) * rest
    return number


def _warp_axis(
    subscript: Expr, launch: tile.LaunchOp, row: BlockArgument
) -> tuple[bool, BlockArgument | None]:
    """
    Whether a subscript is a warp's row: the row axis, and the number of the warp times its rows;
    with the axis of that number.
    """
    first = subscript - row
    if not first.terms and not first.constant:
        return True, None
    threads = [a for a in launch.axes_of(THREAD) if first == Expr.of(a) * launch.extent(row)]
    return (True, threads[0]) if threads else (False, None)

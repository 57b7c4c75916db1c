"""
Attention as a problem of tiling: a sum of powers of e that is a contraction, whose exponents may be
sums; its sizes, and what conditions tell of the keys that are not masked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf, prod

from xdsl.dialects import arith
from xdsl.ir import BlockArgument, Operation, SSAValue

from dlc.analysis.loop.contraction import contraction_of, weight_axes
from dlc.analysis.loop.loops import trip_count
from dlc.analysis.loop.mma_products import HALVES, is_numbered, mma_products
from dlc.analysis.loop.product_matrices import has_boxes, lies_along_k, stored_bytes
from dlc.dialects import loop
from dlc.dialects.axes import AxesOp
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of
from dlc.ir.known_numbers import is_number
from dlc.ir.monoid import EXPSUM
from dlc.ir.variance import Variance, variance
from dlc.schedule.contraction_tiles import outer_loop
from dlc.schedule.points import step_along

Bound = tuple[int, int, int]
"""a, b and c of a condition a * row + b * key + c >= 0 of keys that are not masked."""


@dataclass(frozen=True)
class CascadeProblem:
    """Sizes of attention."""

    batch: int
    rows: int
    columns: int
    keys: int
    width: int
    """Products that a score is the sum of; 0 where it is loaded."""
    row_bytes: int
    """Bytes of what is loaded for a row, whatever the key."""
    score_bytes: int
    """Bytes of what is loaded for a row and a key."""
    key_bytes: int
    """Bytes of what is loaded for a key, whatever the row and column."""
    column_bytes: int
    """Bytes of what is loaded for a key and a column."""
    results: int
    """Values of a row and a column that are folded: the largest exponent, and sums."""
    memory_bytes: int
    """Bytes of all memrefs that are loaded of; several heads may share one's keys."""
    share: float = 1.0
    """The share of rows and keys between the first and the last key of each row that is not
    masked."""
    bounds: tuple[Bound, ...] = ()
    """What tells the keys of a row that are not masked, those between."""
    ends_early: bool = False
    """True if memory tells how many keys there are."""
    halves: bool = False
    """True if all products are of two loaded elements of f16, or of bf16."""
    matrices: bool = False
    """True if these are elements of matrices in memory, those of scores with neighbours along the
    products that a score sums, the others with neighbours along columns."""
    boxes: bool = False
    """True if TMA can copy boxes of what is loaded for keys."""
    once_bytes: int = 0
    """Of the bytes for a row and a key, those of elements that neighbours along the keys have."""
    stored_bytes: int = 0
    """Bytes of an element of the results, if TMA can store boxes of them; else 0."""

    @property
    def skips(self) -> bool:
        """True if some keys of some rows are masked, and where is known."""
        return bool(self.bounds)

    def held(self, rows: int, chunk: int) -> tuple[int, ...]:
        """Of each block of so many rows, the chunks of keys that are not skipped."""
        return _held(self.bounds, self.rows, self.keys, rows, chunk)


def between(bounds: Sequence[Bound], first: int, last: int, keys: int) -> tuple[int, int]:
    """The first key that any of some rows has, and the one after the last."""
    start, end = 0, keys
    for a, b, c in bounds:
        most = c + max(a * first, a * last)
        if b < 0:
            end = min(end, most // -b + 1)
        elif b > 0:
            start = max(start, -(most // b))
    return start, max(start, end)


@lru_cache(maxsize=1024)
def _held(
    bounds: tuple[Bound, ...], count: int, keys: int, rows: int, chunk: int
) -> tuple[int, ...]:
    found: list[int] = []
    for first in range(0, count, rows):
        start, end = between(bounds, first, min(first + rows, count) - 1, keys)
        found.append(ceil(end / chunk) - start // chunk if end > start else 0)
    return tuple(found)


@dataclass(frozen=True)
class TiledCascade:
    """A kernel that is attention, and which of its axes are tiled."""

    outer: loop.ForOp
    row: BlockArgument | None
    """None where keys are not shared: each row has its own."""
    column: BlockArgument
    problem: CascadeProblem
    shared: tuple[str, ...]
    """The names of inputs of which several rows, keys or columns have elements, and that slabs can
    have."""
    others: bool
    """True if there are inputs that slabs cannot have."""


def read_along_sizes(kernel: loop.KernelOp) -> frozenset[str]:
    """
    The names of the inputs that scores sum along an axis as long as a size: of an unknown extent
    there is no slab.
    """
    reduces = [op for op in kernel.walk() if isinstance(op, loop.ReduceOp)]
    folds = [op for op in reduces if op.monoid_name.data == EXPSUM]
    along = variance(kernel) if folds else {}
    found: set[str] = set()
    for reduce in (op for fold in folds for op in fold.body.walk()):
        if isinstance(reduce, loop.ReduceOp):
            sizes = set(filter(reduce.is_size, reduce.axes))
            loads = [op for op in reduce.body.walk() if isinstance(op, loop.LoadOp)]
            read = [op.ref for op in loads if not sizes.isdisjoint(along[op.result])]
            found.update(str(ref.name_hint) for ref in read)
    return frozenset(found)


def tiled_cascade(
    kernel: loop.KernelOp, apart: Collection[str] = frozenset()
) -> TiledCascade | None:
    """
    A kernel as attention under free loops and nothing else, or None if it is none. Slabs cannot
    have the inputs `apart`, so that tensor cores do not multiply; None if they can have no other.
    """
    outer = outer_loop(kernel)
    inner = [op for op in outer.body.block.ops if isinstance(op, AxesOp)] if outer else []
    if outer is None or len(inner) != 1 or not isinstance(fold := inner[0], loop.ReduceOp):
        return None
    if fold.monoid_name.data != EXPSUM or len(fold.axes) != 1 or fold.yielded.where:
        return None
    within = [op for op in fold.body.walk() if isinstance(op, AxesOp)]
    if len(within) > 1 or any(not isinstance(op, loop.ReduceOp) for op in within):
        return None
    along = variance(kernel)
    axes = _tiled_axes(fold, outer, along)
    if axes is None:
        return None
    row, column = axes
    (key,), exponent = fold.axes, fold.yielded.values[0]
    width = trip_count(within[0]) if within else 0
    sizes = dict.fromkeys(((True, False), (True, True), (False, True)), 0)
    columns, refs = 0, dict[SSAValue, int]()
    loads = [op for op in fold.body.walk() if isinstance(op, loop.LoadOp)]
    others = [column, *(axis for op in within for axis in op.axes)]
    once = _read_once(kernel, loads, row, key, others, along)
    for op in loads:
        varies, size = along[op.result], element_bytes(op.result.type)
        deep = bool(within) and not varies.isdisjoint(within[0].axes)
        refs[op.ref] = prod(shape_of(op.ref)) * size
        if column in varies:
            columns += size
        elif (kind := (row in varies, key in varies)) in sizes:
            sizes[kind] += size * (width if deep else 1)
    batch = prod(outer.hint(a) for a in outer.axes if a not in (row, column))
    halves = bool(within) and not apart and _is_of_halves(fold, within[0], (row, column), along)
    matrices, boxes = (
        _in_memory(fold, within[0], (row, column), along) if halves else (False, False)
    )
    rows, bounds = 1 if row is None else outer.hint(row), _bounds(exponent, row, key)
    problem = CascadeProblem(
        batch,
        rows,
        outer.hint(column),
        fold.hint(key),
        width,
        sizes[True, False],
        sizes[True, True],
        sizes[False, True],
        columns,
        len(fold.results),
        sum(refs.values()),
        _share(bounds, rows, fold.hint(key)),
        bounds,
        _ends_early(exponent, outer, key),
        halves,
        matrices,
        boxes,
        sum(element_bytes(op.result.type) for op in loads if op.ref in once),
        stored_bytes(outer, row, column) if matrices and row is not None else 0,
    )
    shared = [str(ref.name_hint) for ref in refs if ref not in once]
    kept = tuple(name for name in shared if name not in apart)
    if apart and not (kept and _tell_inputs(kernel)):
        return None
    return TiledCascade(outer, row, column, problem, kept, len(kept) < len(shared))


def _tell_inputs(kernel: loop.KernelOp) -> bool:
    """True if names tell inputs from each other."""
    names = [ref.name_hint for ref in kernel.input_refs]
    return None not in names and len({*names}) == len(names)


def _read_once(
    kernel: loop.KernelOp,
    loads: Sequence[loop.LoadOp],
    row: BlockArgument | None,
    key: BlockArgument,
    others: Sequence[SSAValue],
    along: Variance,
) -> set[SSAValue]:
    """
    The inputs of which a row has an element for each key, along which neighbours lie, whatever
    `others` are. None if there are no other inputs, or names do not tell which.
    """
    if row is None or not _tell_inputs(kernel):
        return set()

    def once(op: loop.LoadOp) -> bool:
        varies = along[op.result]
        return {row, key} <= varies and varies.isdisjoint(others) and step_along(op, key) == 1

    several = {op.ref for op in loads if not once(op)}
    return {op.ref for op in loads} - several if several else set()


def _tiled_axes(
    fold: loop.ReduceOp, outer: loop.ForOp, along: Variance
) -> tuple[BlockArgument | None, BlockArgument] | None:
    """The longest axis of rows that share keys, if there is one, and the longest of columns."""
    found, columns = contraction_of(fold, along), weight_axes(fold, along)
    exponent, *weights = fold.yielded.values
    rows: tuple[SSAValue, ...] = ()
    if found is not None:
        rows, columns = found.rows, found.columns
        if not along[exponent].isdisjoint(columns):
            return None
        if any(not along[w].isdisjoint(rows) for w in weights):
            return None
    if not columns:
        return None
    row, column = (max(axes, key=outer.hint, default=None) for axes in (rows, columns))
    assert row is None or isinstance(row, BlockArgument)
    assert isinstance(column, BlockArgument)
    return row, column


def _bounds(exponent: SSAValue, row: BlockArgument | None, key: BlockArgument) -> tuple[Bound, ...]:
    """What conditions tell of the keys of a row that are not masked."""
    select = exponent.owner
    if row is None or not isinstance(select, loop.SelectOp):
        return ()
    if not is_number(select.default, -inf):
        return ()
    found: list[Bound] = []
    for condition in select.where:
        of_key, of_row = condition.coefficient(key), condition.coefficient(row)
        if {*condition.values()} == {row, key} and of_key and of_row:
            found.append((of_row, of_key, condition.constant))
    return tuple(found)


def _share(bounds: Sequence[Bound], rows: int, keys: int) -> float:
    """The share of keys between the first and the last that is not masked."""
    if not bounds or not rows * keys:
        return 1.0
    ends = (between(bounds, r, r, keys) for r in range(rows))
    return sum(end - start for start, end in ends) / (rows * keys)


def _is_of_halves(
    fold: loop.ReduceOp,
    scores: Operation,
    tiled: tuple[BlockArgument | None, BlockArgument],
    along: Variance,
) -> bool:
    """True if what a score sums, and each weight of a column, is of halves that are loaded."""
    (row, column), (key,) = tiled, fold.axes
    if not isinstance(scores, loop.ReduceOp) or row is None or row.index > column.index:
        return False
    products = mma_products(scores, row, key, along)
    if products is None or products.computed or products.type not in HALVES:
        return False
    for weight in fold.yielded.values[1:]:
        if column in along[weight]:
            load = weight.owner.input.owner if isinstance(weight.owner, arith.ExtFOp) else None
            if not isinstance(load, loop.LoadOp) or load.where or not is_numbered(load):
                return False
            if str(load.result.type) != products.type or key not in along[weight]:
                return False
        elif along[weight]:
            return False
    return True


def _in_memory(
    fold: loop.ReduceOp,
    scores: Operation,
    tiled: tuple[BlockArgument | None, BlockArgument],
    along: Variance,
) -> tuple[bool, bool]:
    """
    Whether products of halves are of matrices in memory, as `CascadeProblem.matrices` says, and
    whether TMA can copy boxes of those along keys.
    """
    (row, column), (key,) = tiled, fold.axes
    assert isinstance(scores, loop.ReduceOp)
    assert row is not None
    products = mma_products(scores, row, key, along)
    if products is None or len(scores.axes) != 1:
        return False, False
    (d,) = scores.axes
    widened = [weight.owner for weight in fold.yielded.values[1:] if column in along[weight]]
    weights = [op.input for op in widened if isinstance(op, arith.ExtFOp)]
    scored = [(f, d, row) for f in products.rows] + [(f, d, key) for f in products.columns]
    summed = [(f, key, column) for f in weights]
    lie = all(lies_along_k(*f) is True for f in scored)
    if not lie or not all(lies_along_k(*f) is False for f in summed):
        return False, False
    of_keys = [(f, d, key) for f in products.columns] + summed
    return True, all(has_boxes(*f) for f in of_keys)


def _ends_early(exponent: SSAValue, outer: loop.ForOp, key: BlockArgument) -> bool:
    """True if an exponent is -inf from a key on that is no function of where it stands."""
    select, axes = exponent.owner, {*outer.axes, key}
    conditions = select.where if isinstance(select, loop.SelectOp) else ()
    return any(
        (c.coefficient(key) or 0) < 0 and not axes.issuperset(c.values()) for c in conditions
    )

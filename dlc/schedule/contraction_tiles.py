"""The kernels that are tiled, and their problems: one answer for the schedule and the estimate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, gcd, inf, prod

from xdsl.ir import BlockArgument, SSAValue

from dlc.analysis.loop.contraction import Contraction, contraction_of, factors
from dlc.analysis.loop.cost import flops_of
from dlc.analysis.loop.loops import share_folded
from dlc.analysis.loop.mma_products import INT8, lies_in_runs, mma_products
from dlc.analysis.loop.product_matrices import matrices_in_memory, stored_bytes
from dlc.dialects import loop
from dlc.dialects.axes import AxesOp
from dlc.dialects.kernel_memory import element_bytes, memref_of
from dlc.dialects.layouts import shape_of, strides_of
from dlc.ir.expr import Expr, FloorDiv, Mod
from dlc.ir.variance import Variance, variance
from dlc.schedule.block_tile import VECTOR
from dlc.schedule.grain import LINE, SECTOR
from dlc.schedule.problem import Problem, TensorProduct
from dlc.schedule.warp_candidate import warp_candidate_of
from dlc.target import WIDEST_ACCESS

RUN = 32
"""Points of an axis that a block takes together, where it spreads along that alone."""
MANY_INSTRUCTIONS = 20
"""Of what is computed of a sum, from which on several are computed at once: a function, such as an
exponential."""
LITTLE_AFTER = 4
"""Instructions of a point behind its sums, such as a scale, a bias and a bound, that are in what a
block takes at its end anyway (`START`)."""
COMPUTED_AFTER, LOADED_AFTER = 0.5, 0.5
"""Registers that this takes for each sum that is looked at at once, all or those of a box, and that
elements take which are loaded for it (ptxas for sm_90a: of 128 sums, gelu of them 172 to 181, and
255 with some spilled where what is loaded is added; of 96, 128 and 208)."""
IDLE = 0.1
"""The share of points of such runs beyond the end of an axis from which on it spreads over two."""


@dataclass(frozen=True)
class Tiled:
    """A kernel that is a contraction, and what is tiled: a row and a column axis, the longest."""

    outer: loop.ForOp
    found: Contraction
    row: BlockArgument
    column: BlockArgument
    beside: tuple[BlockArgument | None, BlockArgument | None]
    """An axis of rows over which a block spreads those of `row`, and one of columns."""
    between: BlockArgument | None
    """An axis whose points lie between neighbours along the axis that is stored apart."""
    chunked: Mapping[loop.LoadOp, frozenset[SSAValue]]
    """The loads that vary along K, and along what else."""
    problem: Problem

    @property
    def is_chunked(self) -> bool:
        """True if K has as many points as an access."""
        reduce = self.found.reduce
        return reduce.most(reduce.axes[-1]) >= VECTOR

    def slab_points(self, op: loop.LoadOp, block: Mapping[SSAValue, int], chunk: int | None) -> int:
        """The elements of the slab of a load for a block and a chunk of K, or all of K."""
        axes = self.found.reduce.axes
        sizes = dict(block)
        if chunk is None:
            sizes |= {axis: self.found.reduce.hint(axis) for axis in axes}
        else:
            sizes[axes[-1]] = chunk
        return prod(_span(s, sizes) for s in op.subscripts)


def _span(subscript: Expr, sizes: Mapping[SSAValue, int]) -> int:
    """
    The elements that a slab has along a subscript, as axes have their sizes: those that it goes
    through in the steps that all of these axes have in common.
    """
    own = [a for a, n in sizes.items() if n > 1 and a in subscript.values()]
    apart = _common_step(subscript, own)
    steps = ((subscript.coefficient(a), sizes[a]) for a in own)
    return 1 + sum((1 if step is None else abs(step) // apart) * (n - 1) for step, n in steps)


def _common_step(subscript: Expr, axes: Iterable[SSAValue]) -> int:
    """The step that a subscript takes along each of some axes, or of which it takes several."""
    return gcd(*(subscript.coefficient(a) or 1 for a in axes if a in subscript.values())) or 1


def outer_loop(kernel: loop.KernelOp) -> loop.ForOp | None:
    """The loop around the whole kernel, if there is one whose points are independent."""
    nested = [op for op in kernel.body.block.ops if op.regions or isinstance(op, loop.StoreOp)]
    if len(nested) != 1 or not isinstance(nested[0], loop.ForOp) or loop.scans_in(nested[0]):
        return None
    return nested[0]


def tiled_contraction(kernel: loop.KernelOp) -> Tiled | None:
    """A kernel as a contraction under free loops and nothing else, or None if it is none."""
    outer = outer_loop(kernel)
    if outer is None:
        return None
    inner = [op for op in outer.body.block.ops if isinstance(op, AxesOp)]
    if len(inner) != 1 or not isinstance(reduce := inner[0], loop.ReduceOp):
        return None
    if reduce.monoid.together or any(isinstance(op, AxesOp) for op in reduce.body.walk()):
        return None
    along = variance(kernel)
    found = contraction_of(reduce, along)
    if found is None:
        return None
    k_axes = set[SSAValue](reduce.axes)
    loads = [op for op in reduce.body.walk() if isinstance(op, loop.LoadOp)]
    chunked = {op: along[op.result] for op in loads if along[op.result] & k_axes}

    places = [op.subscripts for op in chunked]
    stored = [op.subscripts for op in outer.body.block.ops if isinstance(op, loop.StoreOp)]

    def run(axis: BlockArgument) -> float:
        """The length of an axis over the steps that its points are apart in an operand."""
        steps = (abs(s.coefficient(axis) or 1) for place in places for s in place)
        return outer.hint(axis) / max(steps, default=1)

    def merit(axis: BlockArgument) -> tuple[bool, bool, float]:
        """
        Whether a sector's neighbours along an axis are neighbours in memory, of operands and of
        results, and how long it is.
        """
        length = run(axis)
        lies = [length >= SECTOR and _is_contiguous(axis, of) for of in (places, stored)]
        return lies[0], lies[1], length

    def best(axes: Sequence[SSAValue]) -> BlockArgument:
        """
        Of several axes the longest of those along which operands are contiguous; if there is none,
        of those along which results are, as of windows with strides, else of all; of several of one
        length the innermost.
        """
        return max((a for a in outer.axes[::-1] if a in axes), key=merit)

    row, column = best(found.rows), best(found.columns)

    def other(axes: Sequence[SSAValue], tiled: BlockArgument) -> BlockArgument | None:
        """
        The longest of the other axes of an operand, the innermost of several: of a convolution's,
        and where the one that is tiled does not fill blocks, or is stored apart.
        """
        inward = [a for a in outer.axes[::-1] if a in axes and a is not tiled]
        dealt = ceil(outer.hint(tiled) / RUN) * RUN
        spreads = len(reduce.axes) > 1 or outer.hint(tiled) < (1 - IDLE) * dealt
        side, step, _ = _stored(outer, (row, column))
        spreads |= tiled is (row, column)[side] and 1 < step < SECTOR
        return max(inward, key=outer.hint) if inward and spreads else None

    between = _between(outer, reduce, (row, column))
    columns = [axis for axis in found.columns if axis is not between]
    rows = [axis for axis in found.rows if axis is not between]
    beside = other(rows, row), other(columns, column)
    problem = _problem(outer, reduce, found, (row, column, beside), chunked, along)
    problem = replace(problem, gaps=outer.hint(between) if between else 1)
    if row.index > column.index and problem.tensor and problem.tensor.along_k is not None:
        # A warpgroup's rows are along whichever axis stands first (`register-tile`).
        found, row, column, beside = found.turned, column, row, (beside[1], beside[0])
        problem = _problem(outer, reduce, found, (row, column, beside), chunked, along)
    return Tiled(outer, found, row, column, beside, between, chunked, problem)


def _between(
    outer: loop.ForOp, reduce: loop.ReduceOp, sides: tuple[BlockArgument, BlockArgument]
) -> BlockArgument | None:
    """
    The axis inside of one that is stored apart whose points fill the gaps, if all of them are
    summed over the same points.
    """
    side, step, _ = _stored(outer, sides)
    stores = [op for op in outer.body.block.ops if isinstance(op, loop.StoreOp)]
    if reduce.yielded.where or step == 1 or not stores:
        return None
    inside = [axis for axis in outer.axes[sides[side].index + 1 :] if axis not in sides]
    fill = (a for a in inside if outer.least(a) == step == outer.most(a))
    return next((a for a in fill if _step(stores[-1], a) == 1), None)


def _problem(
    outer: loop.ForOp,
    reduce: loop.ReduceOp,
    found: Contraction,
    tiled: tuple[BlockArgument, BlockArgument, tuple[BlockArgument | None, ...]],
    chunked: Mapping[loop.LoadOp, frozenset[SSAValue]],
    along: Variance,
) -> Problem:
    """The sizes of a contraction, of which a row and a column axis are tiled, and those beside."""
    row, column, others = tiled
    beside = [1 if a is None else outer.hint(a) for a in others]
    row_factors, column_factors = factors(found, along)
    loads = [op for op in reduce.body.walk() if isinstance(op, loop.LoadOp)]
    k, taps = reduce.hint(reduce.axes[-1]), prod(map(reduce.hint, reduce.axes[:-1]))
    taps *= share_folded(reduce)
    if k < VECTOR:  # too short for chunks: taken at once, with all that is summed over beside it
        k, taps = ceil(k * taps), 1

    def points(op: loop.LoadOp, varies: frozenset[SSAValue]) -> int:
        """Elements of one operand for a point of K; where windows overlap, they share its own."""
        apart = prod(outer.hint(a) for a in outer.axes if a in varies)
        return min(apart, ceil(prod(shape_of(op.ref)) / max(k, 1)))

    def elements(axis: BlockArgument, *, scalar: bool = False) -> float:
        """
        The elements of operands for a point along an axis and one of a chunk; `scalar`, of those of
        which 16 bytes cannot be copied at once.
        """
        return sum(
            _elements(op, axis, reduce)
            for op, varies in chunked.items()
            if axis in varies and not (scalar and is_wide(op, (axis, reduce.axes[-1])))
        )

    def fetched(axis: BlockArgument) -> tuple[float, float, float]:
        """The elements of sectors for such a point, of those the ones at the ends of runs, and the
        lines of those that are apart."""
        k_axis, counts = reduce.axes[-1], [0.0, 0.0, 0.0]
        for op in (op for op, varies in chunked.items() if axis in varies):
            apart, count = _apart(op, (axis, k_axis), reduce), _elements(op, axis, reduce)
            counts[0] += count * min(apart, SECTOR)
            if not is_wide(op, (axis, k_axis)) and _apart(op, (axis,), reduce) == apart < SECTOR:
                counts[1] += 1
            counts[2] += count * min(apart / LINE, 1) if apart > 1 else 0
        return counts[0], counts[1], counts[2]

    tensor = _tensor_product(reduce, found, tiled, along)
    row_fetched, row_edges, row_lines = fetched(row)
    column_fetched, column_edges, column_lines = fetched(column)
    return Problem(
        batch=prod(map(outer.hint, outer.axes))
        // max(outer.hint(row) * outer.hint(column) * prod(beside), 1),
        rows=outer.hint(row),
        columns=outer.hint(column),
        k=k,
        beside=(beside[0], beside[1]),
        runs=(_run_beside((row, others[0]), chunked), _run_beside((column, others[1]), chunked)),
        taps=taps,
        skips=bool(reduce.yielded.where),
        row_operands=elements(row),
        column_operands=elements(column),
        scalar_row_operands=elements(row, scalar=True),
        scalar_column_operands=elements(column, scalar=True),
        row_fetched=row_fetched,
        column_fetched=column_fetched,
        sectors=(_in_sector(row, chunked), _in_sector(column, chunked)),
        row_edges=row_edges,
        column_edges=column_edges,
        lines=(row_lines, column_lines),
        stored=_stored(outer, (row, column)),
        strided=(_is_strided(row, chunked, reduce), _is_strided(column, chunked, reduce)),
        divided=any(
            subscript.coefficient(axis) is None
            for op in outer.body.block.ops
            if isinstance(op, loop.StoreOp)
            for subscript in op.subscripts
            for axis in (row, column)
        ),
        row_factors=row_factors,
        column_factors=column_factors,
        operand_points=sum(points(op, v) for op, v in chunked.items() if v & {row, column}),
        sums=len(reduce.results) - (tensor.sums_beside if tensor else 0),
        bytes_=max(element_bytes(op.result.type) for op in loads),
        computed_bytes_=element_bytes(reduce.results[0].type),
        row_work=_own_work(reduce, along, found.rows, found.columns),
        column_work=_own_work(reduce, along, found.columns, found.rows),
        after=_work_after(outer, found, along),
        tensor=tensor,
        padded=_is_transposed(column, chunked),
    )


def _run_beside(
    sides: tuple[BlockArgument, BlockArgument | None], chunked: Iterable[loop.LoadOp]
) -> int:
    """`Problem.runs` of an axis and the one beside it."""
    axis, other = sides
    subscripts = (s for op in chunked for s in op.subscripts if axis in s.values())
    steps = [
        abs(s.coefficient(other) or 1) // abs(s.coefficient(axis) or 1)
        for s in subscripts
        if other is not None and other in s.values()
    ]
    return max(steps, default=0)


def _in_sector(axis: BlockArgument, chunked: Iterable[loop.LoadOp]) -> int:
    """The points along an axis of which the elements that are loaded are in one sector."""
    last = [place[-1] for op in chunked if (place := op.subscripts)]
    steps = (abs(s.coefficient(axis) or 1) for s in last if axis in s.values())
    return max(SECTOR // max(steps, default=1), 1)


def _is_transposed(
    column: BlockArgument, chunked: Mapping[loop.LoadOp, frozenset[SSAValue]]
) -> bool:
    """True if columns are not what the last dimension of an operand varies with."""
    return any(
        column in varies and column not in place[-1].values()
        for op, varies in chunked.items()
        if (place := op.subscripts)
    )


def _own_work(
    reduce: loop.ReduceOp, along: Variance, axes: Sequence[SSAValue], others: Sequence[SSAValue]
) -> float:
    """The arithmetic at a point that belongs to the operand which varies along the axes alone."""
    return sum(
        flops_of(op)
        for op in reduce.body.walk()
        if op.results
        and along[op.results[0]].intersection(axes)
        and not along[op.results[0]].intersection(others)
    )


def _work_after(outer: loop.ForOp, found: Contraction, along: Variance) -> float:
    """The arithmetic behind a reduce that each of its points has of its own, if that is much."""
    work = sum(
        flops_of(op)
        for op in outer.body.block.ops
        if op is not found.reduce
        and op.results
        and not along[op.results[0]].isdisjoint(found.rows)
        and not along[op.results[0]].isdisjoint(found.columns)
    )
    return max(work - LITTLE_AFTER, 0)


def _elements(op: loop.LoadOp, axis: BlockArgument, reduce: loop.ReduceOp) -> float:
    """
    The elements that a load takes for a point along an axis and one of a chunk: as far as two such
    points lie apart; where windows overlap, shared by those of one.
    """
    own, walked = [s for s in op.subscripts if axis in s.values()], _walked(reduce)
    shared = prod(reduce.hint(a) for s in own for a in walked if a in s.values())
    return _step_in_slab(op, axis, reduce) / shared


def _step_in_slab(op: loop.LoadOp, axis: BlockArgument, reduce: loop.ReduceOp) -> int:
    """How far apart neighbours along an axis are in what a chunk has of an operand."""
    own, walked = [s for s in op.subscripts if axis in s.values()], _walked(reduce)
    steps = (abs(s.coefficient(axis) or 1) // _common_step(s, (axis, *walked)) for s in own)
    return max(steps, default=1)


def _is_strided(
    axis: BlockArgument,
    chunked: Mapping[loop.LoadOp, frozenset[SSAValue]],
    reduce: loop.ReduceOp,
) -> bool:
    """`Problem.strided` of an axis."""
    return any(_step_in_slab(op, axis, reduce) > 1 for op, v in chunked.items() if axis in v)


def _walked(reduce: loop.ReduceOp) -> Sequence[BlockArgument]:
    """The axes of a reduce of which a chunk has several points."""
    return reduce.axes[-1:] if reduce.hint(reduce.axes[-1]) >= VECTOR else reduce.axes


def _step(op: loop.LoadOp | loop.StoreOp, axis: BlockArgument) -> float:
    """How far apart in memory neighbours along an axis are, in elements; far where it is no sum."""
    steps = [_step_of(s, axis) for s in op.subscripts]
    walked = [(c, n) for c, n in zip(steps, strides_of(memref_of(op.ref)), strict=True) if c != 0]
    if not walked or not all(isinstance(n, int) and c is not None for c, n in walked):
        return inf
    return abs(sum((c or 0) * n for c, n in walked))


def _step_of(subscript: Expr, axis: BlockArgument) -> int | None:
    """
    How far a subscript goes along an axis: from most points to the next, where it goes in runs that
    are no shorter than a sector; None where it is no such sum.
    """
    total = 0
    for atom, factor in subscript.terms:
        if atom is axis:
            total += factor
        elif isinstance(atom, FloorDiv | Mod) and axis in atom.base.values():
            own = _step_of(atom.base, axis)
            if own is None or atom.divisor < SECTOR * own:
                return None
            total += factor * own if isinstance(atom, Mod) else 0
    return total


def _stored(outer: loop.ForOp, sides: Sequence[BlockArgument]) -> tuple[int, int, int]:
    """`Problem.stored` of what is stored last."""
    found = [op for op in outer.body.block.ops if isinstance(op, loop.StoreOp)]
    if not found:
        return Problem.stored
    steps, strides = [_step(found[-1], a) for a in sides], strides_of(memref_of(found[-1].ref))
    side = 0 if steps[0] < steps[1] else 1
    if steps[side] != 1:
        return side, SECTOR if steps[side] == inf else max(int(steps[side]), 1), 1
    return side, 1, gcd(VECTOR, *(n if isinstance(n, int) else 1 for n in strides[:-1]))


def _tensor_product(
    reduce: loop.ReduceOp,
    found: Contraction,
    tiled: tuple[BlockArgument, BlockArgument, tuple[BlockArgument | None, ...]],
    along: Variance,
) -> TensorProduct | None:
    """What tensor cores would multiply, if K fills a step; they need no half widened."""
    row, column, beside = tiled
    products = mma_products(reduce, row, column, along)
    if products is None or reduce.least(reduce.axes[-1]) < warp_candidate_of(products.type).vector:
        return None
    sides = (
        (products.rows, found.rows, found.columns, row, beside[0]),
        (products.columns, found.columns, found.rows, column, beside[1]),
    )
    works = [_own_work(reduce, along, axes, others) for _, axes, others, *_ in sides]
    if products.type not in ("f32", *INT8):  # these are widened at no cost
        works = [work - len(fs) for work, (fs, *_) in zip(works, sides, strict=True)]
    runs = [all(lies_in_runs(f, reduce, tiled) for f in fs) for fs, _, _, *tiled in sides]
    (row_work, column_work), (row_runs, column_runs) = works, runs
    product = TensorProduct(products.type, row_work, column_work, row_runs, column_runs)
    lies, boxes = None, False
    if all(runs) and not any(works):
        lies, boxes = matrices_in_memory(reduce, products, row, column)
    if products.type == "f32" and row.index > column.index:
        lies = None  # of threads, which multiply f32 mostly, the rows are along any axis
    around = reduce.parent_block()
    assert around is not None
    others = [op for op in around.ops if op is not reduce]
    loads = (op for op in others if isinstance(op, loop.LoadOp))
    loaded = any({row, column} <= along[op.result] for op in loads)
    many = sum(map(flops_of, others)) >= MANY_INSTRUCTIONS * len(reduce.results)
    after = _registers_after(loaded=loaded) if many else 0
    of_columns = [a for a in others if isinstance(a, loop.LoadOp) and column in along[a.result]]
    after_columns = sum(row not in along[op.result] for op in of_columns) if many else 0
    outer = around.parent_op()
    stored = stored_bytes(outer, row, column) if isinstance(outer, loop.ForOp) else 0
    product = replace(product, along_k=lies, boxes=boxes, stored_bytes=stored)
    in_parts = loop.PARTS in reduce.attributes
    product = replace(product, after=after, after_columns=after_columns)
    beside_products = len(products.beside)
    return replace(product, loads_after=loaded, in_parts=in_parts, sums_beside=beside_products)


def _registers_after(*, loaded: bool) -> float:
    """
    For each sum, the registers of what is computed of it and of elements that are loaded for it: a
    compiler computes several at once where functions take many instructions each, and loads what
    they need before.
    """
    return COMPUTED_AFTER + (LOADED_AFTER if loaded else 0)


def _is_contiguous(axis: BlockArgument, places: Iterable[Sequence[Expr]]) -> bool:
    """True if one of some places has neighbours along an axis next to each other."""
    return any(place and place[-1].coefficient(axis) == 1 for place in places)


def _apart(op: loop.LoadOp, axes: Sequence[BlockArgument], reduce: loop.ReduceOp) -> int:
    """How far those that neighbouring threads copy of a slab, which goes along some axes, are apart
    in memory: along the last dimension that it has."""
    strides = zip(op.subscripts, strides_of(memref_of(op.ref)), strict=True)
    steps = (*axes, *_walked(reduce))
    walked = [n * _common_step(s, steps) for s, n in strides if any(a in s.values() for a in axes)]
    return walked[-1] if walked else 1


def is_wide(op: loop.LoadOp, along: Sequence[SSAValue]) -> bool:
    """
    True if neighbours along one of the axes that a slab has are next to each other in memory, and
    its rows begin at multiples of 16 bytes.
    """
    if not op.subscripts:
        return True
    last = op.subscripts[-1]
    if strides_of(memref_of(op.ref))[-1] != 1:
        return False
    run = max(WIDEST_ACCESS // element_bytes(op.result.type), 1)
    whole = shape_of(op.ref)[-1] % run == 0 and last.constant % run == 0
    rest = [c for atom, c in last.terms if atom not in along]
    own = [c for atom, c in last.terms if atom in along]
    return whole and own == [1] and all(c % run == 0 for c in rest)

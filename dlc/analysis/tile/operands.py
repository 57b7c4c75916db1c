"""
Computed operands: values in a reduce that every thread that reads the same elements computes anew
from staged inputs, with the axes that number them. They could be computed once for a block.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IndexType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.traits import Pure

from dlc.dialects import tile
from dlc.dialects.axes import BLOCK, AxesOp, loops_around
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.size_index import SizeIndexOp
from dlc.ir.bounds import least, most
from dlc.ir.expr import Expr


def separate(
    expr: Expr, fixed: Collection[SSAValue], walked: Collection[SSAValue]
) -> tuple[Expr, Expr] | None:
    """Splits a subscript into a part of fixed axes and sizes and one of walked axes from 0 on."""
    base, within = Expr((), expr.constant), Expr()
    for term in expr.terms:
        part = Expr((term,))
        values = {v for v in part.values() if not isinstance(v.owner, SizeIndexOp)}
        if values <= set(fixed):
            base = base + part
        elif values <= set(walked):
            within = within + part
        else:
            return None
    low = int(least(within))
    return base + low, within - low


@dataclass(frozen=True)
class ComputedOperand:
    """A value in a reduce, and what it is computed from."""

    value: SSAValue
    scope: AxesOp
    """The innermost loop at whose start one of its inputs is staged."""
    ops: tuple[Operation, ...]
    """The loads and the arithmetic that give the value, each after what it needs."""
    places: tuple[Expr, ...]
    """The subscripts of the value's element within a slab of all that a block computes."""
    walked: tuple[BlockArgument, ...]
    """The axes that the threads and the loops within the scope walk."""
    reads: int
    """The number of elements that the block reads of it, all threads counted."""

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(int(most(place)) + 1 for place in self.places)

    @property
    def reuse(self) -> float:
        """The number of times that a block reads, and so computes, an element."""
        return self.reads / prod(self.sizes)

    @property
    def bytes(self) -> int:
        return prod(self.sizes) * element_bytes(self.value.type)

    @property
    def name(self) -> str:
        return self.value.name_hint or "v"

    @property
    def last_stage(self) -> Operation:
        """The last of the slabs in the scope that the value is computed from."""
        own = {_slab_of(inner) for op in self.ops for inner in op.walk()}
        return [op for op in self.scope.body.block.ops if op in own][-1]

    @property
    def reduces(self) -> bool:
        """True if the value is or needs a reduce."""
        return any(isinstance(op, tile.ReduceOp) for op in self.ops)

    @property
    def converts(self) -> bool:
        """True if the value is a loaded element in another type, and no more."""
        return all(isinstance(op, tile.LoadOp | arith.ExtFOp) for op in self.ops)

    def at(self, expr: Expr, element: Sequence[Expr]) -> Expr | None:
        """An expression where the element is computed; None if its place does not tell that."""
        for place, subscript in zip(self.places, element, strict=True):
            atom, step = place.terms[0]
            factor, rest = divmod(expr.coefficients.get(atom, 0), step)
            if rest:
                return None
            expr = expr + (subscript - place) * factor
        return None if set(expr.values()) & set(self.walked) else expr


def computed_operands(kernel: tile.KernelOp, type: str = "") -> list[ComputedOperand]:
    """
    The floats in reduces that are computed from staged inputs by loads and arithmetic, and of which
    a block reads an element more than once, in program order; of values in each other's
    computation the last. Only those of a type if one is named.
    """
    found: list[ComputedOperand] = []
    covered = set[Operation]()
    for op in reversed(list(kernel.launch.walk())):
        if type and [str(result.type) for result in op.results] != [type]:
            continue
        if op not in covered and isinstance(op.parent_op(), tile.ReduceOp):
            operand = None if op.regions else operand_of(kernel, op)
            if operand is not None and operand.reuse > 1:
                found.insert(0, operand)
                covered.update(inner for o in operand.ops for inner in o.walk())
    return found


def operand_of(kernel: tile.KernelOp, op: Operation) -> ComputedOperand | None:
    """The operand that an operation computes, if that is a float computed from staged inputs."""
    ops: dict[Operation, None] = {}
    plain = isinstance(op, tile.LoadOp | arith.ConstantOp)
    if plain or len(op.results) != 1 or not isinstance(op.results[0].type, AnyFloat):
        return None
    if not _collect(kernel, op.results[0], ops) or any(
        o.regions and o.parent is not op.parent for o in ops
    ):
        return None
    path = loops_around(op)
    if any(isinstance(loop, tile.ComputeOp) for loop in path):
        return None  # it is computed once for a block already
    inside = [inner for o in ops for inner in o.walk()]
    scopes = {slab.parent_op() for o in inside if (slab := _slab_of(o)) is not None}
    depth = max((n for n, loop in enumerate(path) if loop in scopes), default=None)
    if depth is None:
        return None
    fixed = {a for loop in path[1 : depth + 1] for a in loop.axes}
    fixed.update(kernel.launch.axes_of(BLOCK))
    walked = {a: loop.extent(a) for loop in path for a in loop.axes if a not in fixed}
    indexed = [o for o in inside if isinstance(o, IndexedOp)]
    operand = ComputedOperand(
        op.results[0],
        path[depth],
        tuple(ops),
        _places(indexed, fixed, walked.keys()),
        tuple(walked),
        prod(walked.values()),
    )
    anywhere = [Expr()] * len(operand.places)
    exprs = [e for o in indexed for e in (*o.subscripts, *o.where)]
    return operand if all(operand.at(e, anywhere) is not None for e in exprs) else None


def _slab_of(op: Operation) -> tile.StageOp | tile.ComputeOp | None:
    """The slab that an operation loads from."""
    slab = op.ref.owner if isinstance(op, tile.LoadOp) else None
    return slab if isinstance(slab, tile.StageOp | tile.ComputeOp) else None


def _collect(kernel: tile.KernelOp, value: SSAValue, ops: dict[Operation, None]) -> bool:
    """
    Adds what a value is computed from; True if that is loads of inputs, arithmetic, and reduces of
    one result of these.
    """
    op = value.owner
    if isinstance(op, Block):
        return isinstance(value.type, IndexType)  # an axis
    if op in ops or not kernel.launch.is_ancestor(op):
        return True
    operands = list(op.operands)
    if isinstance(op, tile.ReduceOp):
        if len(op.results) != 1 or op.lanes:
            return False
        inside = list(op.body.walk())
        if not all(_computes(kernel, inner) for inner in inside):
            return False
        made = {r for inner in inside for r in inner.results} | {*op.axes}
        refs = {inner.ref for inner in inside if isinstance(inner, tile.LoadOp)}
        operands += [v for i in inside for v in i.operands if v not in made and v not in refs]
    elif isinstance(op, tile.LoadOp):
        operands.remove(op.ref)
    if not _computes(kernel, op):
        return False
    if not all(_collect(kernel, operand, ops) for operand in operands):
        return False
    ops[op] = None
    return True


def _computes(kernel: tile.KernelOp, op: Operation) -> bool:
    """True if an operation loads of an input or a slab, folds, or is arithmetic."""
    if isinstance(op, tile.LoadOp):
        return op.ref in kernel.constant_refs or _slab_of(op) is not None
    # Of xDSL's casts, this one alone is not said to be pure.
    pure = op.has_trait(Pure) or isinstance(op, arith.ExtSIOp)
    return isinstance(op, tile.ReduceOp) or (not op.regions and pure)


def _places(
    ops: Sequence[IndexedOp], fixed: Collection[SSAValue], walked: Collection[SSAValue]
) -> tuple[Expr, ...]:
    """
    Sums of walked axes, no axis in two of them, that number elements as the subscripts of the op
    with most of them do, and then those of the others.
    """
    places: list[Expr] = []
    for op in sorted(ops, key=lambda op: -len(op.subscripts)):
        for subscript in op.subscripts:
            parts = separate(subscript, fixed, walked)
            place = Expr() if parts is None else parts[1]
            taken = {value for earlier in places for value in earlier.values()}
            if place.terms and taken.isdisjoint(place.values()):
                places.append(place)
    return tuple(places)

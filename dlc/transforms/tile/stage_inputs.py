"""The scheduling step `stage-inputs`: see `StageInputsPass`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.tile.operands import ComputedOperand, computed_operands, separate
from dlc.dialects import tile
from dlc.dialects.access import IndexedOp
from dlc.dialects.axes import BLOCK, REGISTER, THREAD, AxesOp, loops_around, new_body
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of
from dlc.ir.expr import Expr
from dlc.target import MAX_THREADS, target_of
from dlc.transforms.step import Decline, SchedulingPass


@dataclass
class Slab:
    """A part of an input that a block reads, and where in the loops it could be staged."""

    scope: AxesOp
    source: BlockArgument
    base: tuple[Expr, ...]
    sizes: tuple[int, ...]
    loads: dict[tile.LoadOp, tuple[Expr, ...]] = field(default_factory=dict)
    """The loads it serves, each with its subscripts within the slab."""
    reads: int = 0
    """How many elements the block reads of it, all threads and loads counted."""

    @property
    def reuse(self) -> float:
        """How often a block reads an element."""
        return self.reads / prod(self.sizes)

    @property
    def bytes(self) -> int:
        return prod(self.sizes) * element_bytes(self.source.type.element_type)  # pyright: ignore


@dataclass(frozen=True)
class StageInputsPass(SchedulingPass):
    """
    Slabs of inputs that a block reads more than once are fetched into shared memory first, and what
    is computed of them more than once is computed once.

    Legal when a subscript is a sum of a part that is fixed where the slab is staged and a part
    that the block's threads and the loops inside walk through. A load keeps its conditions if it
    has a default; the guard of a sum goes where both factors of what it sums are staged and 0
    beyond the input.
    Faster because each element is fetched from global memory once per block. Slabs are taken by
    most reuse first, then the smallest, while they fit in the budget; what is read outside of
    loops is not staged. Then, with `compute`, a value in a reduce that is computed of staged slabs
    gets a slab of its own if that fits: the threads compute each element together, once.

    ```
    tile.reduce add serial(%ko in 128) … { tile.reduce add serial(%ki in 16) … {
      %a = tile.load %A[%bi * 128 + %ti * 8 + %ei, %ko * 16 + %ki]
    ```
    becomes
    ```
    tile.reduce add serial(%ko in 128) … {
      %As = tile.stage %A[%bi * 128, %ko * 16] [128, 16] : … -> memref<128x16xf32, #tile.shared>
      tile.reduce add serial(%ki in 16) … { %a = tile.load %As[%ti * 8 + %ei, %ki]
    ```
    and, with `compute=true`, where a product takes `%h = math.tanh %a`,
    ```
      %h_smem = tile.compute thread(%p in 128, %q in 16) {
        %a = tile.load %As[%p, %q] …
        %h = math.tanh %a : f32
        tile.yield %h : f32
      } : memref<128x16xf32, #tile.shared>
      tile.reduce add serial(%ki in 16) … { %h = tile.load %h_smem[%ti * 8 + %ei, %ki]
    ```
    """

    name = "stage-inputs"

    budget: int | None = None
    """Bytes of shared memory that slabs may take together; at most what the target has."""
    buffers: tuple[str, ...] = ()
    """The inputs that may be staged, by name; all if none is named."""
    compute: bool = False
    """Give what reduces compute of staged slabs slabs of its own, in the same budget."""

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        launch = kernel.launch
        if self.budget is None:
            raise Decline("it needs budget, the bytes of shared memory for slabs")
        if prod(launch.extent(a) for a in launch.axes_of(THREAD)) > MAX_THREADS:
            raise Decline("its threads are not partitioned into blocks yet")
        slabs = _slabs(kernel)
        if self.buffers:
            names = {ref.name_hint for ref in kernel.input_refs}
            if unknown := [name for name in self.buffers if name not in names]:
                raise Decline(f"it has no input {' or '.join(unknown)}")
            slabs = [s for s in slabs if s.source.name_hint in self.buffers]
        slabs = [s for s in slabs if s.reuse > 1]
        if not slabs:
            raise Decline("no block reads an input more than once in a loop")
        staged: list[Slab] = []
        left = limit = min(self.budget, target_of(module).shared_per_block)
        for slab in sorted(slabs, key=lambda s: (-s.reuse, s.bytes)):
            served = {load for s in staged for load in s.loads}
            if slab.bytes <= left and not served & slab.loads.keys():
                staged.append(slab)
                left -= slab.bytes
        if not staged:
            smallest = min(s.bytes for s in slabs)
            raise Decline(f"{smallest} B > {limit} B of shared memory")
        for slab in sorted(staged, key=slabs.index):
            _stage(slab)
        notes = ["staged " + ", ".join(_note(str(s.source.name_hint), s) for s in staged)]
        computed = computed_operands(kernel) if self.compute else []
        for operand in sorted(computed, key=lambda o: (-o.reuse, o.bytes)):
            if operand.bytes <= left:
                left -= operand.bytes
                notes.append(f"computed {_note(operand.name, operand)}")
                _compute(operand)
            else:
                notes.append(f"{operand.bytes} B for {operand.name} > {left} B left")
        for op in launch.walk():
            if isinstance(op, tile.ReduceOp):
                drop_guards_of_zeros(op)
        return "; ".join(notes)


def _note(name: str, slab: Slab | ComputedOperand) -> str:
    return f"{name} ({slab.bytes} B, read {slab.reuse:.3g} times)"


def _slabs(kernel: tile.KernelOp) -> list[Slab]:
    """Every slab that could be staged at some place, in program order."""
    found: dict[tuple[object, ...], Slab] = {}
    inputs = set[SSAValue](kernel.input_refs)
    for load in kernel.launch.walk():
        if not isinstance(load, tile.LoadOp) or load.ref not in inputs:
            continue
        path = loops_around(load)
        for depth, scope in enumerate(path[:-1]):
            if any(op.axes_of(REGISTER) for op in path[1 : depth + 1]):
                break
            fixed = {a for op in path[1 : depth + 1] for a in op.axes}
            fixed.update(kernel.launch.axes_of(BLOCK))
            walked = {a: op.extent(a) for op in path for a in op.axes if a not in fixed}
            parts = [separate(e, fixed, walked.keys()) for e in load.subscripts]
            if None in parts or not parts:
                continue
            base = tuple(p[0] for p in parts if p)
            within = tuple(p[1] for p in parts if p)
            sizes = tuple(int(e.range[1]) + 1 for e in within)
            key = (scope, load.ref, base, sizes)
            assert isinstance(load.ref, BlockArgument)
            slab = found.setdefault(key, Slab(scope, load.ref, base, sizes))
            slab.loads[load] = within
            slab.reads += prod(walked.values())
    return list(found.values())


def _stage(slab: Slab) -> None:
    """Stages a slab at the start of its scope and redirects its loads."""
    block: Block = slab.scope.body.block
    stage = tile.StageOp(slab.source, slab.base, slab.sizes)
    stage.result.name_hint = f"{slab.source.name_hint}_smem"
    first = next(op for op in block.ops if not isinstance(op, tile.StageOp))
    Rewriter.insert_op(stage, InsertPoint.before(first))
    for load, within in slab.loads.items():
        subscripts = [e for e, size in zip(within, slab.sizes, strict=True) if size != 1]
        where = load.where if load.default is not None else ()  # a slab is safe to read anywhere
        new = tile.LoadOp(stage.result, subscripts, where, load.default)
        new.result.name_hint = load.result.name_hint
        new.location = load.location
        Rewriter.replace_op(load, new)


def _compute(operand: ComputedOperand) -> None:
    """
    Computes an operand after the stages of its inputs and their neighbours, as 0 where its reduce
    folds nothing because an input ends, and loads it where it was computed.
    """
    value, old = operand.value, operand.value.owner
    assert isinstance(old, Operation)
    reduce = old.parent_op()
    assert isinstance(reduce, tile.ReduceOp)
    body = new_body(len(operand.sizes), "pqrstuvw")
    element = [Expr.of(a) for a in body.block.args]

    def at(exprs: Sequence[Expr]) -> list[Expr]:
        found = [operand.at(e, element) for e in exprs]
        return [e.substitute(copies.get) for e in found if e is not None]

    copies: dict[SSAValue, SSAValue] = {}
    beyond: list[Expr] = []
    for op in operand.ops:
        new = op.clone(copies)
        new.location = op.location
        if isinstance(op, IndexedOp) and isinstance(new, IndexedOp):
            new.set_index(at(op.subscripts), at(op.where))
        body.block.add_op(new)
        beyond += _inside(new.results[0])
    where = [c for c in at(reduce.yielded.where) if c in beyond]
    body.block.add_op(tile.YieldOp([copies[value]], where))
    compute = tile.ComputeOp(operand.sizes, value.type, body)
    compute.result.name_hint = f"{operand.name}_smem"
    compute.location = old.location
    last: Operation = operand.last_stage
    while isinstance(last.next_op, tile.StageOp | tile.ComputeOp):
        last = last.next_op
    Rewriter.insert_op(compute, InsertPoint.after(last))
    load = tile.LoadOp(compute.result, operand.places)
    load.result.name_hint = value.name_hint
    load.location = old.location
    Rewriter.replace_op(old, load)
    for op in reversed(operand.ops[:-1]):
        if not any(r.uses for r in op.results):
            Rewriter.erase_op(op)


def drop_guards_of_zeros(reduce: tile.ReduceOp) -> None:
    """
    Drops the conditions of sums of products that hold exactly where a subscript of every factor
    is within its input: beyond, all are 0, and so are their products. A computed factor is 0 where
    its own conditions say so.
    """
    yielded = reduce.yielded
    owners = [value.owner for value in yielded.values]
    products = [op for op in owners if isinstance(op, arith.MulfOp)]
    if reduce.monoid_name.data != "add" or len(products) < len(owners):
        return
    known = [_inside(factor) for product in products for factor in product.operands]
    kept = [c for c in yielded.where if not all(c in conditions for conditions in known)]
    if len(kept) < len(yielded.where):
        yielded.set_index(yielded.subscripts, kept)


def _inside(value: SSAValue) -> list[Expr]:
    """Conditions such that a staged value is 0 where one of them does not hold."""
    load = value.owner
    if not isinstance(load, tile.LoadOp) or load.where:
        return []
    stage = load.ref.owner
    if isinstance(stage, tile.ComputeOp):
        at: dict[SSAValue, Expr] = dict(zip(stage.axes, load.subscripts, strict=True))
        return [c.substitute(at.get) for c in stage.yielded.where]
    if not isinstance(stage, tile.StageOp):
        return []
    within = iter(load.subscripts)
    extents = shape_of(stage.source_type)
    return [
        Expr((), extent - 1) - (base if size == 1 else base + next(within))
        for base, size, extent in zip(stage.subscripts, stage.slab_sizes, extents, strict=True)
    ]

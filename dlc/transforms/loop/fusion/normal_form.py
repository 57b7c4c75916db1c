"""
The canonical form of a loop kernel; see `normalize_kernel`.

The steps, in order: equal inputs become one; axes of extent 1 and 0 vanish; loads that stay in
bounds anyway lose their conditions; every operation moves out of the loops that it does not vary
along, equal ones become one, and what memory does not lie between is not rounded
(`dlc.ir.rounding`); contractions side by side that share an operand become one; the nest is split
where a reduce needs only some of its axes; what is unused goes; what no reduce of a block needs
stands after its last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, MemRefType, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from dlc.analysis.loop.loops import only_computes, split_levels
from dlc.dialects.access import IndexedOp, simplify_where
from dlc.dialects.axes import new_body
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, ReduceOp, SelectOp, StoreOp, YieldOp
from dlc.ir.expr import within
from dlc.ir.rounding import unrounded
from dlc.transforms.loop.fusion.joining import join_contractions

_AXIS_LETTERS = frozenset("abhij")


def normalize_kernel(kernel: KernelOp, *, clean: bool = False) -> None:
    """
    Brings a kernel into canonical form, in place. `clean` says that its subscripts are simplified
    and that no axis has fewer than two points, so that these need not be looked at again.
    """
    _merge_equal_inputs(kernel)
    if not clean:
        _simplify_indices(kernel)
        _drop_trivial_axes(kernel)
    _free_loads(kernel)
    _Hoist(kernel).run()
    if join_contractions(kernel):
        _Hoist(kernel).run()  # what both had in their bodies becomes one
    for op in list(kernel.body.block.ops):
        if isinstance(op, ForOp):
            _nest(op)
    _erase_dead(kernel.body.block)
    _drop_unused_inputs(kernel)
    outputs = set[SSAValue](kernel.output_refs)
    for op in list(kernel.walk()):
        for region in op.regions:
            _sink(region.block, outputs)


def _merge_equal_inputs(kernel: KernelOp) -> None:
    """One memref for a tensor that is passed twice, the layouts being the same."""
    first: dict[tuple[SSAValue, Attribute], BlockArgument] = {}
    for ref, tensor in zip(kernel.input_refs, kernel.inputs, strict=True):
        kept = first.setdefault((tensor, ref.type), ref)
        if kept is not ref and kernel.alignment(kept) == kernel.alignment(ref):
            ref.replace_all_uses_with(kept)


def _drop_unused_inputs(kernel: KernelOp) -> None:
    used = [bool(ref.uses) for ref in kernel.input_refs]
    if all(used):
        return
    unused = [r for r, keep in zip(kernel.input_refs, used, strict=True) if not keep]
    alignments = [int(a) for a in kernel.alignments.get_values()]
    kernel.alignments = DenseArrayBase.from_list(
        i64, [a for a, keep in zip(alignments, used, strict=True) if keep]
    )
    kernel.operands = [v for v, keep in zip(kernel.inputs, used, strict=True) if keep]
    for ref in unused:
        kernel.body.block.erase_arg(ref)


def _simplify_indices(kernel: KernelOp) -> None:
    """Subscripts and conditions in their simplest form; axes of extent 1 become 0 in them."""
    for op in kernel.walk():
        if isinstance(op, IndexedOp) and op.indices:
            op.set_index(op.subscripts, simplify_where(op.where))


def _drop_trivial_axes(kernel: KernelOp) -> None:
    """
    Axes of extent 1 vanish, a loop without axes leaves its body behind, a loop over no points
    goes, and a reduce over no points is its monoid's identity.
    """
    for op in reversed([o for o in kernel.walk() if isinstance(o, ForOp | ReduceOp)]):
        extents = op.static_extents
        if 0 in extents:
            if isinstance(op, ReduceOp):
                _replace_values(op, [_constant(op, a) for a in _identity(op)])
            _erase(op)
            continue
        if 1 in extents:
            for axis, extent in zip(op.axes, extents, strict=True):
                if extent == 1:
                    if axis.uses:
                        axis.replace_all_uses_with(_constant(op, IntegerAttr(0, IndexType())))
                    op.body.block.erase_arg(axis)
            op.set_axes([n for n in extents if n != 1])
        if not op.axes:
            _dissolve(op)


def _free_loads(kernel: KernelOp) -> None:
    """
    A load that stays in bounds whether its conditions hold or not is free of them, so that vectors
    can be loaded, and a select of it and its default follows.
    """
    for op in [o for o in kernel.walk() if isinstance(o, LoadOp) and o.default is not None]:
        assert isinstance(op.ref.type, MemRefType)
        assert op.default is not None
        bounds = zip(op.subscripts, op.ref.type.get_shape(), strict=True)
        if any(within(subscript, extent) for subscript, extent in bounds):
            continue
        load = LoadOp(op.ref, op.subscripts)
        select = SelectOp(load.result, op.where, op.default)
        load.location = select.location = op.location
        load.result.name_hint = op.result.name_hint
        block = op.parent
        assert block is not None
        block.insert_ops_before([load, select], op)
        _replace_values(op, [select.result])
        _erase(op)


def _dissolve(op: ForOp | ReduceOp) -> None:
    """A loop without axes is its body."""
    block = op.parent
    last = op.body.block.last_op
    assert block is not None
    assert isinstance(last, YieldOp)
    for inner in list(op.body.block.ops):
        if inner is not last:
            inner.detach()
            block.insert_op_before(inner, op)
    if isinstance(op, ReduceOp):
        values = list(last.values)
        if where := last.where:
            identity = [_constant(op, a) for a in _identity(op)]
            selects = [SelectOp(v, where, i) for v, i in zip(values, identity, strict=True)]
            block.insert_ops_before(selects, op)
            values = [s.result for s in selects]
        _replace_values(op, values)
    _erase(op)


def _identity(op: ReduceOp) -> list[Attribute]:
    return op.monoid.identity([r.type for r in op.results])


def _constant(before: Operation, value: Attribute) -> SSAValue:
    constant = arith.ConstantOp(value)  # pyright: ignore[reportArgumentType, reportCallIssue]
    block = before.parent
    assert block is not None
    block.insert_op_before(constant, before)
    return constant.result


def _replace_values(op: Operation, values: Sequence[SSAValue]) -> None:
    for old, new in zip(op.results, values, strict=True):
        if new.name_hint is None:
            new.name_hint = old.name_hint
        old.replace_all_uses_with(new)


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()


class _Hoist:
    """
    Moves every operation to the outermost block where its operands are defined and merges equal
    ones. Loops over no points being gone, a hoisted load reads nothing that was not read before.
    """

    def __init__(self, kernel: KernelOp) -> None:
        self.kernel = kernel
        self.outputs = set[SSAValue](kernel.output_refs)
        self.depths: dict[Block, int] = {}
        self.path: list[Operation] = []
        """The operation being visited at each depth."""
        self.seen: dict[object, Operation] = {}

    def run(self) -> None:
        self._visit(self.kernel.body.block, 0)

    def _depth(self, value: SSAValue) -> int:
        block = value.owner if isinstance(value.owner, Block) else value.owner.parent
        assert block is not None
        return self.depths[block]

    def _visit(self, block: Block, depth: int) -> int:
        """Returns the greatest depth, below `depth`, of a value that `block` uses."""
        self.depths[block] = depth
        needed = 0
        self.path.append(self.kernel)
        for op in list(block.ops):
            self.path[depth] = op
            if isinstance(op, SelectOp | LoadOp) and (simpler := _simpler(op)) is not None:
                value, load = simpler
                _replace_values(op, [value])
                _erase(op)
                if load is None:
                    continue
                op = self.path[depth] = load
            if (exact := unrounded(op)) is not None:
                _replace_values(op, [exact])
                _erase(op)
                continue
            uses = max(map(self._depth, op.operands), default=0)
            for region in op.regions:
                uses = max(uses, self._visit(region.block, depth + 1))
            if isinstance(op, StoreOp | ForOp | YieldOp) or not self._movable(op):
                needed = max(needed, min(uses, depth - 1))
                continue
            key = _key(op)
            if (same := self.seen.get(key)) is not None and self._is_around(same):
                _replace_values(op, same.results)
                _erase(op)
                continue
            self.seen[key] = op
            if uses < depth:
                target = self.path[uses].parent
                assert target is not None
                op.detach()
                target.insert_op_before(op, self.path[uses])
            else:
                needed = max(needed, _below(map(self._depth, _used(op)), depth))
        self.path.pop()
        return needed

    def _is_around(self, op: Operation) -> bool:
        """Whether an operation that was visited stands in a block around the one being visited."""
        return any(op.parent is outer.parent for outer in self.path)

    def _movable(self, op: Operation) -> bool:
        return only_computes(op) and not self.outputs.intersection(_used(op))


def _below(depths: Iterable[int], limit: int) -> int:
    return max((d for d in depths if d < limit), default=0)


def _used(op: Operation) -> Iterable[SSAValue]:
    """The values that an operation uses and does not define inside."""
    if not op.regions:
        return op.operands
    inside = set[SSAValue]()
    used = list(op.operands)
    for o in op.walk():
        if o is not op:
            used.extend(o.operands)
            inside.update(o.results)
        for region in o.regions:
            inside.update(region.block.args)
    return [v for v in used if v not in inside]


def _key(op: Operation, local: dict[SSAValue, int] | None = None) -> object:
    """Equal for two operations that compute the same; `local` numbers values of an outer body."""
    if not op.regions and not local:
        return type(op), tuple(op.operands), *_attributes(op)
    local = {} if local is None else local
    operands = tuple(local.get(v, v) for v in op.operands)
    bodies: list[object] = []
    for region in op.regions:
        for argument in region.block.args:
            local[argument] = len(local)
        for inner in region.block.ops:
            bodies.append(_key(inner, local))
            for result in inner.results:
                local[result] = len(local)
    return type(op), operands, *_attributes(op), tuple(bodies)


def _attributes(op: Operation) -> tuple[object, ...]:
    return frozenset(op.properties.items()), frozenset(op.attributes.items()), op.result_types


def _simpler(op: SelectOp | LoadOp) -> tuple[SSAValue, LoadOp | None] | None:
    """
    What a select or a load with a default is where its conditions are known; the second value is
    a new load that stands in its place, if there is one. A select of a load whose conditions its
    own imply is a load with the other side as default.
    """
    if op.default is None:
        return None
    where = op.where
    if any(c.range[1] < 0 for c in where):
        return op.default, None
    always = all(c.range[0] >= 0 for c in where)
    if isinstance(op, LoadOp):
        if not always:
            return None
        new = LoadOp(op.ref, op.subscripts)
        load = op
    else:
        if always or op.value is op.default:
            return op.value, None
        load = op.value.owner
        single = isinstance(load, LoadOp) and op.value.has_one_use()
        if not isinstance(load, LoadOp) or not single or not load.where:
            return None
        if set(load.where) - set(where):
            return None
        new = LoadOp(load.ref, load.subscripts, where, op.default)
    new.location = load.location
    new.result.name_hint = load.result.name_hint
    block = op.parent
    assert block is not None
    block.insert_op_before(new, op)
    return new.result, new


def _nest(loop: ForOp) -> None:
    """
    Rebuilds the chain of loops that begins with `loop` so that every reduce stands inside the axes
    that it varies along and no others, as far as these sets are nested in each other.
    """
    chain = [loop]
    while (inner := _sole_loop(chain[-1].body.block)) is not None:
        chain.append(inner)
    levels = split_levels(chain)
    core = [op for op in chain[-1].body.block.ops if isinstance(op, ForOp)]
    if [list(level) for level in levels] != [list(f.axes) for f in chain]:
        _rebuild(chain, levels)
    for op in core:
        _nest(op)


def _rebuild(chain: Sequence[ForOp], levels: Sequence[Sequence[BlockArgument]]) -> None:
    loop = chain[0]
    extents = {axis: f.extent(axis) for f in chain for axis in f.axes}
    ops = [op for f in chain for op in f.body.block.ops if op not in chain]
    ops = [op for op in ops if not isinstance(op, YieldOp)]
    level_of: dict[SSAValue, int] = {}
    loops: list[ForOp] = []
    for depth, axes in enumerate(levels):
        new = ForOp([extents[a] for a in axes], new_body(len(axes), _names(levels, depth)))
        for old, axis in zip(axes, new.axes, strict=True):
            old.replace_all_uses_with(axis)
            level_of[axis] = depth
        loops.append(new)
    for op in ops:
        innermost = isinstance(op, StoreOp | ForOp)
        level = max((level_of.get(v, 0) for v in _used(op)), default=0)
        level = len(loops) - 1 if innermost else level
        for result in op.results:
            level_of[result] = level
        op.detach()
        _append(loops[level], op)
    for outer, inner in pairwise(loops):
        _append(outer, inner)
    block = loop.parent
    assert block is not None
    block.insert_op_before(loops[0], loop)
    _erase(loop)


def _append(loop: ForOp, op: Operation) -> None:
    last = loop.body.block.last_op
    assert last is not None
    loop.body.block.insert_op_before(op, last)


def _sole_loop(block: Block) -> ForOp | None:
    """The loop in a block that holds one and no store beside it."""
    outer = [op for op in block.ops if isinstance(op, ForOp | StoreOp)]
    return outer[0] if len(outer) == 1 and isinstance(outer[0], ForOp) else None


def _names(levels: Sequence[Sequence[BlockArgument]], depth: int) -> list[str | None]:
    """Single letters tell nothing about a nest of rows and columns, so these get their names."""
    names = [a.name_hint for a in levels[depth]]
    if len(levels) == 2 and names[-1] in _AXIS_LETTERS:
        names[-1] = "row" if depth == 0 else "c"
    return names


def _erase_dead(block: Block) -> None:
    """Erases what has no effect and is not used."""
    for op in reversed(list(block.ops)):
        for region in op.regions:
            _erase_dead(region.block)
        empty = isinstance(op, ForOp) and isinstance(op.body.block.first_op, YieldOp)
        unused = only_computes(op) and not any(r.uses for r in op.results)
        if empty or (unused and not isinstance(op, YieldOp | ForOp | StoreOp)):
            _erase(op)


def _sink(block: Block, outputs: set[SSAValue]) -> None:
    """
    Moves what no reduce of a block needs after the last one: an epilogue loads its operands there,
    and no register holds them through the loop.
    """
    last = block.last_op
    while last is not None and not isinstance(last, ReduceOp):
        last = last.prev_op
    if last is None:
        return
    after = set[Operation | None]()
    op: Operation | None = block.last_op
    while op is not last and op is not None:
        after.add(op)
        op = op.prev_op
    place, op = last, last.prev_op
    while op is not None:
        before = op.prev_op
        users = (block.find_ancestor_op_in_block(u.operation) for r in op.results for u in r.uses)
        movable = only_computes(op) and not outputs.intersection(op.operands)
        if movable and not isinstance(op, ReduceOp) and after.issuperset(users):
            op.detach()
            block.insert_op_after(op, place)
            after.add(op)
        op = before

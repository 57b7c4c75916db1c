"""Tensors that are read as parts of one are stored in one; see `groups_in` and `moved`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import BlockArgument, SSAValue
from xdsl.rewriter import Rewriter

from dlc.dialects.canonicalization.signature_patterns import merge_equal_inputs
from dlc.dialects.indexed_op import simplify_where
from dlc.dialects.layouts import shape_of
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, StoreOp, YieldOp
from dlc.ir.bounds import least, most
from dlc.ir.expr import Expr
from dlc.ir.provenance import set_values
from dlc.transforms.loop.fusion.concatenating import update
from dlc.transforms.loop.fusion.normal_form import normalize_kernel


@dataclass(frozen=True)
class Group:
    """Tensors that can lie in one, side by side along an axis."""

    axis: int
    places: Mapping[SSAValue, int]
    """Where each begins along the axis."""
    type: TensorType
    """The tensor that they lie in."""


@dataclass(frozen=True)
class _Relation:
    """A kernel reads `first` where it reads `second`, `step` elements further along `axis`."""

    first: SSAValue
    second: SSAValue
    axis: int
    step: int


def groups_in(kernels: Sequence[KernelOp]) -> Iterator[Group]:
    """
    The groups of tensors that all of their readers read as parts of one, each at the same place
    of it, as those that layers append to what there is are read. None is made by a kernel that
    reads another, for it would read the tensor that it writes.
    """
    makers: dict[SSAValue, KernelOp] = {k.outputs[0]: k for k in kernels if _stores_alone(k)}
    relations: dict[SSAValue, list[_Relation]] = defaultdict(list)
    for relation in (found for kernel in kernels for found in _relations(kernel)):
        if relation.first in makers and relation.second in makers:
            relations[relation.first].append(relation)
            relations[relation.second].append(relation)
    seen: set[SSAValue] = set()
    for tensor in relations:
        if tensor in seen:
            continue
        places = _places(tensor, relations)
        seen.update(places)
        group = _group(places, {r for t in places for r in relations[t]})
        read = (tensor for place in places for tensor in makers[place].inputs)
        if group is not None and not any(tensor in places for tensor in read):
            yield group


def _stores_alone(kernel: KernelOp) -> bool:
    """True if a kernel makes one new tensor, by stores alone, that kernels beside it alone read."""
    if len(kernel.outputs) != 1 or kernel.updates is not None or kernel.zeroed_refs:
        return False
    if not all(isinstance(use.operation, StoreOp) for use in kernel.output_refs[0].uses):
        return False
    users = [use.operation for use in kernel.outputs[0].uses]
    return all(isinstance(u, KernelOp) and u.parent is kernel.parent for u in users)


def _relations(kernel: KernelOp) -> Iterator[_Relation]:
    """Of the loads of one tensor where another one is not read, one for each two tensors."""
    tensors: dict[SSAValue, SSAValue] = dict(zip(kernel.input_refs, kernel.inputs, strict=True))
    for op in kernel.walk():
        if not isinstance(op, LoadOp) or op.default is None:
            continue
        other = op.default.owner
        if not isinstance(other, LoadOp) or other.ref is op.ref:
            continue
        if len(op.subscripts) != len(other.subscripts):
            continue
        steps = [a - b for a, b in zip(op.subscripts, other.subscripts, strict=True)]
        apart = [axis for axis, step in enumerate(steps) if step != Expr()]
        if len(apart) == 1 and steps[apart[0]].is_constant:
            step = steps[apart[0]].constant
            yield _Relation(tensors[op.ref], tensors[other.ref], apart[0], step)


def _places(
    tensor: SSAValue, relations: Mapping[SSAValue, Sequence[_Relation]]
) -> dict[SSAValue, int]:
    """The places of all that is related to a tensor, from where it begins itself."""
    places = {tensor: 0}
    pending = [tensor]
    while pending:
        for relation in relations[pending.pop()]:
            for known, other, step in (
                (relation.first, relation.second, relation.step),
                (relation.second, relation.first, -relation.step),
            ):
                if known in places and other not in places:
                    places[other] = places[known] + step
                    pending.append(other)
    return places


def _group(places: Mapping[SSAValue, int], relations: set[_Relation]) -> Group | None:
    """The tensors at these places, if all relations say the same and none is missing between."""
    axes = {relation.axis for relation in relations}
    if len(axes) != 1 or any(places[r.second] - places[r.first] != r.step for r in relations):
        return None
    (axis,) = axes
    ordered = sorted(places, key=places.__getitem__)
    types = [tensor.type for tensor in ordered]
    shapes = [shape_of(type) for type in types]
    begin, end = places[ordered[0]], places[ordered[0]]
    for tensor, shape in zip(ordered, shapes, strict=True):
        if places[tensor] != end:
            return None
        end += shape[axis]
    if len({(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}) != 1:
        return None
    elements = {type.element_type for type in types if isinstance(type, TensorType)}
    if len(elements) != 1:
        return None
    whole = [*shapes[0][:axis], end - begin, *shapes[0][axis + 1 :]]
    return Group(axis, {t: places[t] - begin for t in ordered}, TensorType(elements.pop(), whole))


def moved(group: Group, kernels: Sequence[KernelOp]) -> dict[KernelOp, KernelOp]:
    """
    For those of `kernels`, which are in program order, that make or read a tensor of a group: what
    makes or reads its part of the whole, not inserted anywhere. The first stores a part of it, each
    other that makes one updates what is there; a reader reads the newest.

    ```
    %0 = loop.load %a[%h - 64] where (%h >= 64) : memref<32xf32>
    %1 = loop.load %b[%h] where (%h < 64) else %0 : memref<64xf32>
    ```
    becomes
    ```
    %1 = loop.load %b[%h] : memref<96xf32>
    ```
    """
    found: dict[KernelOp, KernelOp] = {}
    newest: SSAValue | None = None
    for kernel in kernels:
        if kernel.outputs[0] in group.places:
            found[kernel] = _made_in(group, kernel, newest)
            newest = found[kernel].results[0]
        elif any(tensor in group.places for tensor in kernel.inputs):
            assert newest is not None
            found[kernel] = _read_in(group, kernel, newest)
    return found


def copied_by(kernel: KernelOp) -> SSAValue | None:
    """The tensor of which a kernel makes a copy, if that is all that it does."""
    ops = [op for op in kernel.walk() if op is not kernel]
    kinds = [type(op) for op in ops]
    if kinds != [ForOp, LoadOp, StoreOp, YieldOp] or kernel.updates is not None:
        return None
    loop, load, store, _ = ops
    assert isinstance(loop, ForOp)
    assert isinstance(load, LoadOp)
    assert isinstance(store, StoreOp)
    if store.value is not load.result or load.ref.type != store.ref.type:
        return None
    if load.subscripts != store.subscripts or load.where or store.where:
        return None
    return kernel.inputs[0]


def _made_in(group: Group, kernel: KernelOp, newest: SSAValue | None) -> KernelOp:
    """A kernel that stores its result where the group has it."""
    copy = kernel.clone()
    (output,) = copy.output_refs
    _move(output, group, group.places[kernel.outputs[0]])
    Rewriter.replace_value_with_new_type(copy.results[0], group.type)
    copy.results[0].name_hint = kernel.results[0].name_hint
    set_values(copy, [])
    if newest is None:
        copy.set_updates({}, copy.output_refs)
    else:
        update(copy, newest)
    return copy


def _read_in(group: Group, kernel: KernelOp, newest: SSAValue) -> KernelOp:
    """A kernel that reads of the newest tensor what it read of those in a group."""
    copy = kernel.clone()
    members = [tensor in group.places for tensor in kernel.inputs]
    for ref, tensor, member in zip(copy.input_refs, kernel.inputs, members, strict=True):
        if member:
            _move(ref, group, group.places[tensor])
    whole = zip(kernel.inputs, members, strict=True)
    copy.operands = [newest if member else tensor for tensor, member in whole]
    merge_equal_inputs(copy)
    for load in [op for op in copy.walk() if isinstance(op, LoadOp)]:
        _join(load, group.axis)
    normalize_kernel(copy)
    return copy


def _move(ref: BlockArgument, group: Group, begin: int) -> None:
    """Has a memref be the whole, of which what it was begins at `begin`."""
    for op in {use.operation for use in ref.uses}:
        assert isinstance(op, LoadOp | StoreOp)
        subscripts = list(op.subscripts)
        subscripts[group.axis] = subscripts[group.axis] + begin
        op.set_index(subscripts, op.where)
    hint = ref.name_hint
    type = MemRefType(group.type.element_type, shape_of(group.type))
    Rewriter.replace_value_with_new_type(ref, type).name_hint = hint


def _join(load: LoadOp, axis: int) -> None:
    """Makes one of a load and the one that it falls back to, if both together are an interval."""
    while load.default is not None and isinstance(other := load.default.owner, LoadOp):
        if load.ref is not other.ref or load.subscripts != other.subscripts:
            return
        place = load.subscripts[axis]
        begin, end, rest = _interval(place, load.where)
        second, last, others = _interval(place, other.where)
        if set(rest) != set(others) or end < second or last < begin:
            return
        begin, end = min(begin, second), max(end, last)
        where = simplify_where([*rest, place - begin, Expr((), end - 1) - place])
        new = LoadOp(load.ref, load.subscripts, where, other.default)
        new.location = load.location
        new.result.name_hint = load.result.name_hint
        Rewriter.replace_op(load, new)
        if not other.result.uses:
            Rewriter.erase_op(other)
        load = new


def _interval(place: Expr, where: Sequence[Expr]) -> tuple[int, int, list[Expr]]:
    """The places that conditions on `place` alone leave, first and end; the other conditions."""
    begin, end, rest = int(least(place)), int(most(place)) + 1, list[Expr]()
    for condition in where:
        if (above := condition - place).is_constant:
            begin = max(begin, -above.constant)
        elif (below := condition + place).is_constant:
            end = min(end, below.constant + 1)
        else:
            rest.append(condition)
    return begin, end, rest

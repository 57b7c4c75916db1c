"""How loads, stores and stages become Kernel IR."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from dlc.analysis.alignment import strides_of, vector_width
from dlc.dialects import kernel, tile
from dlc.dialects.access import simplify_where
from dlc.ir.expr import Expr, within
from dlc.transforms.materialization.emitter import Emitter, LocalArray


def is_fragment(e: Emitter, op: Operation) -> bool:
    """
    Does an access take neighbouring elements along its innermost register axis? Then it gets
    loops of its own, which `vectorize-accesses` can turn into wide accesses.
    """
    if not isinstance(op, tile.LoadOp | tile.StoreOp) or not op.subscripts:
        return False
    axes = e.register_axes(op)
    if not axes:
        return False
    assert isinstance(op.ref.type, MemRefType)
    *outer, last = (s.coefficient(axes[-1]) for s in op.subscripts)
    return last == 1 and not any(outer) and strides_of(op.ref.type)[-1] == 1


def load(e: Emitter, op: tile.LoadOp) -> SSAValue:
    """Emits a load at the current point, guarded where it could leave its memref."""
    assert isinstance(op.ref.type, MemRefType)
    subscripts, where = e.exprs(op.subscripts), e.exprs(op.where)
    for subscript, extent in zip(subscripts, op.ref.type.get_shape(), strict=True):
        where += within(subscript, extent, where)
    where = simplify_where(where)
    default = e.value(op.default) if op.default is not None and where else None
    new = kernel.LoadOp(e.scalars[op.ref], subscripts, where, default)
    new.location = op.location
    return e.insert(new, op.result.name_hint)


def store(e: Emitter, op: tile.StoreOp) -> None:
    """Emits a store at the current point, once per point of its subscripts."""
    along = frozenset[SSAValue]().union(*(e.along[i] for i in op.indices))
    where = [*e.exprs(op.where), *e.guard]
    where += [Expr() - index for axis, index in e.once.items() if axis not in along]
    subscripts = e.exprs(op.subscripts)
    new = kernel.StoreOp(e.value(op.value), e.scalars[op.ref], subscripts, simplify_where(where))
    new.location = op.location
    e.builder.insert(new)


def load_fragment(e: Emitter, op: tile.LoadOp) -> LocalArray:
    """Emits a load at every point of its register axes, into a local array."""
    axes = e.register_axes(op)
    array = e.local(op.result.type, axes, op.result.name_hint)

    def element() -> None:
        e.builder.insert(kernel.StoreOp(load(e, op), array.ref, e.at(array)))

    e.over(axes, element)
    return array


def stage(e: Emitter, op: tile.StageOp) -> SSAValue:
    """Emits the copy of a slab by all threads of the block; returns the shared buffer."""
    assert isinstance(op.result.type, MemRefType)
    assert isinstance(op.source.type, MemRefType)
    element = op.result.type.element_type
    sizes = [int(n) for n in op.sizes.get_values()]
    buffer = e.allocate_shared(element, op.result.type.get_shape(), op.result.name_hint)
    base = e.exprs(op.subscripts)
    width = vector_width(op.source.type, base, e.source.alignment(op.source))
    strides = strides_of(op.source.type)
    walked = [s for s, size in zip(strides[:-1], sizes[:-1], strict=True) if size != 1]
    while any(n % width for n in (*sizes[-1:], *walked)):
        width //= 2
    points = 1
    for size in sizes:
        points *= size
    runs = points // width
    rounds = -(-runs // e.threads)

    def copy(round: Expr) -> None:
        run = round * e.threads + e.thread_id
        where = [Expr((), runs - 1) - run]
        place = _decode(run * width, sizes)
        _copy_run(e, op, buffer, base, place, simplify_where(where), width)

    if rounds == 1:
        copy(Expr())
    else:
        with e.loop(rounds, "round", unroll=rounds <= 8) as index:
            copy(Expr.of(index))
    return buffer


def _decode(point: Expr, sizes: list[int]) -> list[Expr]:
    """The subscripts of a running number within a slab."""
    place: list[Expr] = []
    rest = 1
    for size in sizes:
        rest *= size
    for number, size in enumerate(sizes):
        rest //= size
        place.append(point // rest if number == 0 else (point // rest) % size)
    return [Expr() if size == 1 else p for p, size in zip(place, sizes, strict=True)]


def _copy_run(
    e: Emitter,
    op: tile.StageOp,
    buffer: SSAValue,
    base: list[Expr],
    place: list[Expr],
    where: list[Expr],
    width: int,
) -> None:
    """Emits the copy of `width` consecutive elements; what lies beyond the source is 0."""
    assert isinstance(op.source.type, MemRefType)
    sizes = [int(n) for n in op.sizes.get_values()]

    def source(step: Expr | SSAValue | int) -> kernel.LoadOp:
        subscripts = [b + p for b, p in zip(base, place, strict=True)]
        if subscripts:
            subscripts[-1] = subscripts[-1] + step
        conditions = list(where)
        for subscript, extent in zip(subscripts, op.source.type.get_shape(), strict=True):  # pyright: ignore
            conditions += within(subscript, extent, conditions)
        return kernel.LoadOp(e.scalars[op.source], subscripts, conditions)

    def target(step: Expr | SSAValue | int) -> list[Expr]:
        kept = [p for p, size in zip(place, sizes, strict=True) if size != 1]
        return [*kept[:-1], kept[-1] + step] if kept else []

    if width == 1:
        value = e.insert(source(0), op.source.name_hint)
        e.builder.insert(kernel.StoreOp(value, buffer, target(0), where))
        return
    with e.loop(width, "v", unroll=True) as v:
        value = e.insert(source(v), op.source.name_hint)
        e.builder.insert(kernel.StoreOp(value, buffer, target(v), where))

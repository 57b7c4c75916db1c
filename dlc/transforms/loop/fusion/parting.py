"""A product as two kernels: sums over parts of K, and what adds them up; see `parted`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.builder import Builder
from xdsl.ir import Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects.axes import new_body
from dlc.dialects.fusion_plan import FUSE, GROUPS, MEMBERS
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.kernel_memory import memref_type
from dlc.dialects.layouts import DEFAULT_ALIGNMENT
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, ReduceOp, StoreOp
from dlc.ir.expr import Expr
from dlc.ir.provenance import VALUES
from dlc.transforms.loop.fusion.inline import materialize
from dlc.transforms.loop.fusion.normal_form import normalize_kernel


def parted(kernel: KernelOp, count: int) -> tuple[KernelOp, KernelOp]:
    """
    Two kernels, in normal form and not inserted anywhere, that do together what a contraction does
    whose only K is a multiple of `count`. The first stores the sums over each part of K; the second
    adds them up in order, and does what follows.

    ```
    loop.for %i in 8, %j in 8 {
      %s = loop.reduce add %k in 64 -> f32 { … loop.load %a[%i, %k] … }
      … loop.store %y, %c[%i, %j]
    ```
    becomes
    ```
    loop.for %p in 2, %i in 8, %j in 8 {
      %s = loop.reduce add %k in 32 -> f32 { … loop.load %a[%i, %p * 32 + %k] … }
      loop.store %s, %s_parts[%p, %i, %j]
    ```
    and
    ```
    loop.for %i in 8, %j in 8 {
      %0 = loop.load %s_parts[0, %i, %j]
      %1 = loop.load %s_parts[1, %i, %j]
      %s = arith.addf %0, %1 : f32
      … loop.store %y, %c[%i, %j]
    ```
    """
    sums = _sums(kernel, count)
    whole = _whole(kernel, count, sums)
    for made in (sums, whole):
        normalize_kernel(made, clean=True)
    return sums, whole


def _sums(kernel: KernelOp, count: int) -> KernelOp:
    """What stores the sums over each part of K."""
    copy = kernel.clone()
    outer, reduce = nest_of(copy)
    drop_stores(copy, outer, reduce)
    (k,), (length,) = reduce.axes, reduce.all_extents
    assert isinstance(length, int)
    extents = [count, *outer.all_extents]
    deal = ForOp(extents, new_body(len(extents), ["p", *(a.name_hint for a in outer.axes)]))
    deal.location = outer.location
    part, *axes = deal.axes
    place: dict[SSAValue, Expr] = dict(zip(outer.axes, map(Expr.of, axes), strict=True))
    place[k] = Expr.of(part) * (length // count) + Expr.of(k)
    move_body(outer, deal, place)
    reduce.set_axes([length // count])
    return with_results_of(kernel, copy, outer, deal, reduce, "parts")


def _whole(kernel: KernelOp, count: int, sums: KernelOp) -> KernelOp:
    """What adds the sums up, and does all that the kernel does with that."""
    copy = kernel.clone()
    outer, reduce = nest_of(copy)
    refs = [copy.body.block.insert_arg(r.type, n) for n, r in enumerate(sums.output_refs)]
    before, folded = Builder(InsertPoint.before(reduce)), list[SSAValue]()
    for part in range(count):
        point = [Expr.of(part), *map(Expr.of, outer.axes)]
        loads = [before.insert(LoadOp(ref, point)).result for ref in refs]
        for load, result in zip(loads, reduce.results, strict=True):
            load.name_hint = f"{result.name_hint or 'r'}_part"
        folded = reduce.monoid.combine(before, folded, loads) if folded else loads
    for ref, named in zip(refs, sums.output_refs, strict=True):
        ref.name_hint = named.name_hint
    Rewriter.replace_op(reduce, [], folded)
    known = [int(n) for n in copy.alignments.get_values()]
    alignments = [DEFAULT_ALIGNMENT] * len(refs) + known
    inputs = [*sums.results, *kernel.inputs]
    made = made_of(kernel, copy.detach_region(0), inputs, alignments)
    for name in (FUSE, GROUPS, MEMBERS):
        made.attributes.pop(name, None)
    for old, new in zip(kernel.results, made.results, strict=True):
        new.name_hint = old.name_hint
    copy.erase()
    return made


def drop_stores(copy: KernelOp, outer: ForOp, reduce: ReduceOp) -> None:
    """Leaves of a kernel's loop a reduce and what that needs, and nothing that is stored."""
    for op in reversed(list(outer.body.block.ops)):
        unused = op.results and not any(result.uses for result in op.results)
        if op is not reduce and (isinstance(op, StoreOp) or unused):
            Rewriter.erase_op(op)
    for ref in copy.output_refs:
        copy.body.block.erase_arg(ref)


def move_body(outer: ForOp, deal: ForOp, place: dict[SSAValue, Expr]) -> None:
    """Moves what a loop does into another one, at these places of the first one's axes."""
    for op in list(outer.body.block.ops):
        if op is not outer.yielded:
            op.detach()
            deal.body.block.insert_op_before(op, deal.yielded)
    substitute(deal, place)  # while axes are as long as what is said of them


def with_results_of(
    kernel: KernelOp, copy: KernelOp, outer: ForOp, deal: ForOp, reduce: ReduceOp, suffix: str
) -> KernelOp:
    """
    The kernel that a copy of one becomes, whose loop another one takes the place of: it stores what
    a reduce in that gives at each point, under names with a suffix.
    """
    block, extents = copy.body.block, tuple(deal.all_extents)
    for result in reduce.results:
        ref = block.insert_arg(memref_type(result.type, extents), len(block.args))
        ref.name_hint = f"{result.name_hint or 'r'}_{suffix}"
        store = StoreOp(result, ref, [Expr.of(axis) for axis in deal.axes])
        store.location = reduce.location
        deal.body.block.insert_op_before(store, deal.yielded)
    Rewriter.replace_op(outer, deal)
    alignments = [int(n) for n in copy.alignments.get_values()]
    made = made_of(kernel, copy.detach_region(0), kernel.inputs, alignments)
    made.attributes.pop(VALUES, None)
    for ref, result in zip(made.output_refs, made.results, strict=True):
        result.name_hint = ref.name_hint
    copy.erase()
    return made


def made_of(
    kernel: KernelOp, body: Region, inputs: Sequence[SSAValue], alignments: Sequence[int]
) -> KernelOp:
    """A kernel of a body, which has the name and the attributes of another one."""
    made = KernelOp(kernel.name_, inputs, body, alignments)
    made.attributes |= kernel.attributes
    made.location = kernel.location
    return made


def nest_of(kernel: KernelOp) -> tuple[ForOp, ReduceOp]:
    """The loop of a contraction, and what it sums."""
    (outer,) = (op for op in kernel.body.block.ops if isinstance(op, ForOp))
    (reduce,) = (op for op in outer.body.block.ops if isinstance(op, ReduceOp))
    return outer, reduce


def substitute(around: ForOp, place: dict[SSAValue, Expr]) -> None:
    """Has all in a loop stand at other places."""
    for op in list(around.body.walk()):
        if isinstance(op, IndexedOp):
            op.substitute(place.get)
        elif any(v in place for v in op.operands):
            materialize(op, place)

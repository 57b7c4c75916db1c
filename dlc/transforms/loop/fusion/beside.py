"""Two kernels that read the same tensor and go over the same points become one; see `beside`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlc.analysis.loop.contraction import contractions
from dlc.dialects.axes import AxesOp
from dlc.dialects.loop import ForOp, KernelOp, scans_in
from dlc.ir.provenance import ops_of, set_ops
from dlc.transforms.loop.fusion.inline import add_inputs


def pairs(kernels: Sequence[KernelOp]) -> Iterator[tuple[KernelOp, KernelOp]]:
    """
    The pairs of kernels, the earlier one with one result and first, that read a tensor both and
    whose loops go over the same points: in each pair, what one stores the other does not read.
    """
    alike: dict[object, list[KernelOp]] = {}
    for kernel in kernels:
        if (shape := _points(kernel)) is not None:
            alike.setdefault((kernel.parent, *shape), []).append(kernel)
    for group in alike.values():
        for n, later in reversed(list(enumerate(group))):
            read = set(later.inputs)
            for earlier in group[:n]:
                if len(earlier.results) == 1 and not read.isdisjoint(earlier.inputs):
                    if earlier.results[0] not in read:
                        yield earlier, later


def _points(kernel: KernelOp) -> tuple[object, ...] | None:
    """
    The extents of a kernel's loop and of what it folds in it, if that is all that it does: not of a
    product of matrices, whose tiles are its own.
    """
    if kernel.updates is not None or kernel.zeroed_refs or kernel.schedule is not None:
        return None
    loops = [op for op in kernel.body.block.ops if isinstance(op, AxesOp)]
    inner = [op for loop in loops for op in loop.body.walk() if isinstance(op, AxesOp)]
    if len(loops) != 1 or not isinstance(loop := loops[0], ForOp) or scans_in(loop):
        return None
    if any(isinstance(op, ForOp) or op.parent_op() is not loop for op in inner):
        return None
    if contractions(kernel):
        return None
    extents = [tuple(map(op.extent, op.axes)) for op in (loop, *inner)]
    return extents[0], frozenset(extents[1:])


def beside(earlier: KernelOp, later: KernelOp) -> KernelOp:
    """
    A copy of `later`, not inserted anywhere, that does what `earlier` does, too, in the same loop:
    its last result is the other one's.

    ```
    loop.for %j in 8 { %s = loop.reduce add %i … %g[%i, %j] … loop.store %s, %a[%j] }
    loop.for %j in 8 { %p = loop.reduce add %i … %g[%i, %j] * … loop.store %p, %b[%j] }
    ```
    becomes
    ```
    loop.for %j in 8 {
      %p = loop.reduce add %i … %g[%i, %j] * … loop.store %p, %b[%j]
      %s = loop.reduce add %i … %g[%i, %j] … loop.store %s, %a[%j]
    }
    ```
    """
    copy = later.clone()
    refs = add_inputs(copy, earlier)
    block = copy.body.block
    output = block.insert_arg(earlier.output_refs[0].type, len(block.args))
    output.name_hint = earlier.output_refs[0].name_hint
    refs[earlier.output_refs[0]] = output
    (loop,) = (op for op in block.ops if isinstance(op, ForOp))
    for op in earlier.body.block.ops:
        if not isinstance(op, ForOp):
            block.insert_op_before(op.clone(refs), loop)
            continue
        refs.update(zip(op.axes, loop.axes, strict=True))
        for inner in op.body.block.ops:
            if inner is not op.yielded:
                loop.body.block.insert_op_before(inner.clone(refs), loop.yielded)
    set_ops(copy, ops_of(earlier, copy))
    made = KernelOp.create(
        operands=copy.operands,
        result_types=[*copy.result_types, *earlier.result_types],
        properties=dict(copy.properties),
        attributes=dict(copy.attributes),
        regions=[copy.detach_region(0)],
        location=copy.location,
    )
    copy.erase()
    return made

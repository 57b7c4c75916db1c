"""Kernels that store a tensor piece by piece, each in a kernel of its own; see `in_pieces`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import BlockArgument, SSAValue

from dlc.dialects.axes import AxesOp, loops_around
from dlc.dialects.layouts import DEFAULT_ALIGNMENT
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, ReduceOp, StoreOp
from dlc.dialects.scan_ops import AlongOpBase
from dlc.ir.provenance import set_values
from dlc.transforms.loop.fusion.narrowing import interval, narrow
from dlc.transforms.loop.fusion.normal_form import normalize_kernel


@dataclass(frozen=True)
class Piece:
    """A part of what a kernel stores."""

    kernel: KernelOp
    """A kernel that stores it, not inserted anywhere; it updates what the piece before it made."""
    tensor: SSAValue | None
    """The tensor that is read for this piece and no other, if there is one."""


@dataclass(frozen=True)
class _Part:
    """The places `begin` to `end` of an axis, for which `tensor` is read."""

    begin: int
    end: int
    tensor: SSAValue | None = None


def in_pieces(kernel: KernelOp, tensors: Sequence[SSAValue]) -> list[Piece]:
    """
    Kernels that together do what a pointwise kernel does, one after the other: one for each part of
    an axis for which it reads another of `tensors`, and one for each part that is left between
    them; none if it reads none of them in a part of its own. Of

    ```
    %y = loop.kernel @cat(%a … = %a, %b … = %b) -> (%y: memref<12xf32>) {
      loop.for %i in 12 {
        %0 = loop.load %a[%i] where (%i < 8) …
        %1 = loop.load %b[%i - 8] where (%i >= 8) …
        %2 = loop.select %0 where (%i < 8) else %1 : f32
        loop.store %2, %y[%i] …
    ```
    these are
    ```
    %y_1 = loop.kernel @cat(%a … = %a) -> (%y: memref<12xf32> partial) {
      loop.for %i in 8 { %0 = loop.load %a[%i] … loop.store %0, %y[%i] … } }
    %y = loop.kernel @cat(%b … = %b, %y_1 … = %y_1) -> (%y: memref<12xf32> updates %y_1) {
      loop.for %i in 4 { %1 = loop.load %b[%i] … loop.store %1, %y[%i + 8] … } }
    ```
    """
    if (store := _only_store(kernel)) is None:
        return []
    for loop in loops_around(store):
        for axis in loop.axes:
            if loop.is_size(axis):
                continue
            parts = _parts(kernel, loop, axis, tensors)
            if parts is not None:
                return _built(kernel, loop, axis, parts)
    return []


def _only_store(kernel: KernelOp) -> StoreOp | None:
    """The store of a pointwise kernel that makes one new tensor in one place."""
    if len(kernel.outputs) != 1 or kernel.updates is not None or kernel.zeroed_refs:
        return None
    if any(isinstance(op, ReduceOp | AlongOpBase) for op in kernel.walk()):
        return None
    uses = [use.operation for use in kernel.output_refs[0].uses]
    return uses[0] if len(uses) == 1 and isinstance(uses[0], StoreOp) else None


def _parts(
    kernel: KernelOp, loop: AxesOp, axis: BlockArgument, tensors: Sequence[SSAValue]
) -> list[_Part] | None:
    """The parts of an axis, in order, if some of `tensors` are read in a part of their own."""
    extent = loop.extent(axis)
    read = [_Part(*_read_in(kernel, t, axis, extent), t) for t in tensors]
    found = _joined(sorted(read, key=lambda part: part.begin))
    whole = any(part.end - part.begin >= extent or part.end <= part.begin for part in found)
    if whole or all(part.tensor is None for part in found):
        return None
    ends = [0, *(end for part in found for end in (part.begin, part.end)), extent]
    between = [_Part(a, b) for a, b in zip(ends[::2], ends[1::2], strict=True) if a < b]
    return sorted([*found, *between], key=lambda part: part.begin)


def _joined(parts: Sequence[_Part]) -> list[_Part]:
    """Parts in order, those that overlap as one."""
    found: list[_Part] = []
    for part in parts:
        if found and part.begin < found[-1].end:
            last = found.pop()
            found.append(_Part(last.begin, max(last.end, part.end)))
        else:
            found.append(part)
    return found


def _read_in(
    kernel: KernelOp, tensor: SSAValue, axis: BlockArgument, extent: int
) -> tuple[int, int]:
    """The least interval of an axis outside of which a kernel does not read a tensor."""
    refs = [r for r, v in zip(kernel.input_refs, kernel.inputs, strict=True) if v is tensor]
    loads = [u.operation for ref in refs for u in ref.uses]
    found = [interval(axis, extent, op.where) for op in loads if isinstance(op, LoadOp)]
    return min(begin for begin, _ in found), max(end for _, end in found)


def _built(
    kernel: KernelOp, loop: AxesOp, axis: BlockArgument, parts: Sequence[_Part]
) -> list[Piece]:
    position = list(kernel.walk()).index(loop)
    found: list[Piece] = []
    for part in parts:
        copy = kernel.clone()
        around = list(copy.walk())[position]
        assert isinstance(around, ForOp)
        narrow(around, around.axes[axis.index], part.begin, part.end)
        normalize_kernel(copy)
        if found:
            update(copy, found[-1].kernel.results[0])
        else:
            copy.set_updates({}, copy.output_refs)
        copy.results[0].name_hint = kernel.results[0].name_hint
        if part is not parts[-1]:
            set_values(copy, [])
        found.append(Piece(copy, part.tensor))
    return found


def update(kernel: KernelOp, tensor: SSAValue) -> None:
    """Makes the only output of a kernel an update of a tensor."""
    (output,) = kernel.output_refs
    ref = kernel.body.block.insert_arg(output.type, len(kernel.inputs))
    ref.name_hint = tensor.name_hint
    alignments = [*map(int, kernel.alignments.get_values()), DEFAULT_ALIGNMENT]
    kernel.alignments = DenseArrayBase.from_list(i64, alignments)
    kernel.operands = [*kernel.inputs, tensor]
    kernel.set_updates({output: ref})

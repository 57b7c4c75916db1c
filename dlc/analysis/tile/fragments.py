"""The accesses of a tile kernel that take runs of neighbouring elements, and their lengths."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, BlockArgument, SSAValue

from dlc.analysis.kernel.layout import has_unit_stride, known_divisor, vector_width
from dlc.dialects import tile
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.kernel_op import KernelSignature
from dlc.dialects.layouts import shape_of, strides_of
from dlc.dialects.size_index import extents_at
from dlc.dialects.staging import SlabOpBase
from dlc.ir.bounds import sure
from dlc.ir.expr import Expr
from dlc.ir.sizes import divides
from dlc.target import WIDEST_ACCESS

Buffer = tile.StageOp | tile.ComputeOp | tile.ShareOp | tile.RingOp
"""The operations that have a buffer in shared memory."""
UNROLLED_ROUNDS = 8
"""Most rounds of copies dealt to the threads that are written without a loop, and so are waited for
together."""


def buffer_type(buffer: Buffer) -> MemRefType[Attribute]:
    """The type of a buffer in shared memory; of a ring, with its slots."""
    assert isinstance(buffer.result.type, MemRefType)
    return buffer.result.type


def fragment_axis(
    op: tile.LoadOp | tile.StoreOp, registers: Sequence[BlockArgument]
) -> BlockArgument | None:
    """
    The register axis along which an access takes neighbouring elements, the innermost such; None
    if there is none. Such an access gets loops of its own, this axis innermost, which
    `vectorize-accesses` can turn into wide accesses.
    """
    assert isinstance(op.ref.type, MemRefType)
    if not op.subscripts or not has_unit_stride(op.ref.type):
        return None
    for axis in reversed(registers):
        *outer, last = (s.coefficient(axis) for s in op.subscripts)
        if last == 1 and not any(outer):
            return axis
    return None


def copy_width(slab: SlabOpBase, alignment: int, *, whole: bool = False) -> int:
    """
    The number of neighbouring elements of a slab that a thread copies at once: a divisor of its
    rows that the source's strides and its `alignment` in bytes allow, at most 16 bytes. `whole`
    says that the elements of a run must lie all inside of the source or all beyond it.
    """
    type, sizes, base = slab.source_type, slab.slab_sizes, slab.subscripts
    if slab.slab_steps[-1:] != (1,):
        return 1
    width = vector_width(type, base, alignment)
    walked = [s for s, n in zip(strides_of(type)[:-1], sizes[:-1], strict=True) if n != 1]
    divided = [*sizes[-1:], *walked]
    if whole and sizes and not sure(extents_at(type, slab)[-1] - sizes[-1] - base[-1]):
        divided += [shape_of(type)[-1], known_divisor(base[-1])]
    while not all(divides(width, n) for n in divided):
        width //= 2
    return width


def bytes_at_once(kernel: KernelSignature, slab: SlabOpBase) -> int:
    """The bytes of a slab that a thread has cp.async copy with one request."""
    width = copy_width(slab, kernel.alignment(slab.source), whole=True)
    return width * element_bytes(slab.source_type.element_type)


def run_width(type: MemRefType[Attribute]) -> int:
    """
    The number of neighbouring elements of a computed slab that a thread computes at once: a divisor
    of its rows, at most 16 bytes.
    """
    shape = shape_of(type)
    width = vector_width(type, [Expr()] * len(shape), WIDEST_ACCESS)
    while any(n % width for n in (*shape[-1:], *strides_of(type)[:-1])):
        width //= 2
    return width


def shared_by(ref: SSAValue) -> Buffer | None:
    """The stage, computed slab or ring that a shared buffer of a tile kernel comes from."""
    owner = ref.owner
    if isinstance(owner, tile.AcquireOp):
        return owner.source
    return owner if isinstance(owner, Buffer) else None

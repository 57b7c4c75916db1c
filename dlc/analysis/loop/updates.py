"""Which tensors hold what they did when a kernel of a block reads them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from dlc.dialects.loop import KernelOp
from dlc.dialects.size import in_memory


def changed_by(place: Operation, tensors: Sequence[SSAValue]) -> bool:
    """
    True if a kernel updates one of these tensors in place, and is `place` or before it: what reads
    them before it may not be moved there, nor be computed in it.
    """
    for tensor in map(in_memory, tensors):
        for use in tensor.uses:
            user = use.operation
            if (
                isinstance(user, KernelOp)
                and user.updates is not None
                and tensor in user.updated_of(user.inputs)
                and not place.is_before_in_block(user)
            ):
                return True
    return False

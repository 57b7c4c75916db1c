"""Where a kernel stands that stores what several operations read."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.ir import Operation

from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp

MOST_PASSED = 64
"""Operations that a kernel may pass to stand ahead of others."""


def earliest(operations: Collection[Operation]) -> Operation:
    """The first of some operations of one block."""
    block = next(iter(operations)).parent
    assert block is not None
    return next(op for op in block.ops if op in operations)


def stand_first(readers: Collection[Operation]) -> list[KernelOp]:
    """
    Those of some operations of one block that are kernels, and may stand ahead of all of them: they
    read nothing that is made from the first of them on, and nothing is updated in place meanwhile.
    """
    found, made = list[KernelOp](), set[Operation]()
    here: Operation | None = earliest(readers)
    while here is not None and len(made) < MOST_PASSED:
        kernels = [here] if isinstance(here, KernelOp) else kernels_in(here, KernelOp)
        if (
            here in readers
            and kernels == [here]
            and not any(v.owner in made for v in here.operands)
        ):
            found += kernels
        if any(kernel.updated_refs for kernel in kernels):
            break
        made.add(here)
        here = here.next_op
    return found

"""Kernels that read the same and do not need each other."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

from dlc.dialects import kernel, loop


def reading_the_same(block: Block) -> Iterator[list[loop.KernelOp]]:
    """
    Groups of kernels of a block that read what the first of them does, and all of whose inputs are
    there where that one runs: `join-launches` may put such in one launch. Each kernel is in one at
    most, and once, wherever else it is launched.
    """
    places: dict[Operation, int] = {op: n for n, op in enumerate(block.ops)}
    taken: set[loop.KernelOp] = set()

    def is_there(value: SSAValue, place: int) -> bool:
        return not isinstance(value.owner, Operation) or places.get(value.owner, -1) < place

    for first, place in places.items():
        if (own := _kernel_of(first)) is None or own in taken:
            continue
        group, read = [own], set(first.operands)
        users = {use.operation for value in read for use in value.uses}
        for op in sorted((u for u in users if places.get(u, -1) > place), key=places.__getitem__):
            other = _kernel_of(op)
            there = all(is_there(value, place) for value in op.operands)
            if other is not None and there and other not in taken and other not in group:
                group.append(other)
        if len(group) > 1:
            taken.update(group)
            yield group


def _kernel_of(op: Operation) -> loop.KernelOp | None:
    """The kernel that an operation runs."""
    if isinstance(op, kernel.LaunchOp):
        op = op.launched or op
    return op if isinstance(op, loop.KernelOp) else None

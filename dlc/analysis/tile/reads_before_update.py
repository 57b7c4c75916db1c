"""Reads of memory that a kernel updates, which only what it stores is made of."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import SSAValue

from dlc.dialects.tile import AtomicAddOp, KernelOp, LoadOp, StoreOp


def reads_before_update(kernel: KernelOp) -> Iterator[tuple[LoadOp, list[StoreOp | AtomicAddOp]]]:
    """
    The loads from inputs that a kernel updates of which nothing but effects is computed, point by
    point, each with these effects. What a fold takes is not among them: all threads need it.
    """
    updated = {*kernel.updated_refs.values()}
    for op in kernel.walk() if updated else ():
        if isinstance(op, LoadOp) and op.ref in updated:
            if (effects := _effects_of(op.result)) is not None:
                yield op, effects


def _effects_of(value: SSAValue) -> list[StoreOp | AtomicAddOp] | None:
    """The effects that all uses of a value end in; None if one does not."""
    found: list[StoreOp | AtomicAddOp] = []
    pending, seen = [value], {value}
    while pending:
        for user in {use.operation for use in pending.pop().uses}:
            if isinstance(user, StoreOp | AtomicAddOp):
                found.append(user)
            elif user.regions or len(user.results) != 1 or getattr(user, "axes", ()):
                return None
            elif user.results[0] not in seen:
                seen.add(user.results[0])
                pending.append(user.results[0])
    return found or None

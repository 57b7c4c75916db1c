"""What a launch must be: its blocks, their order, what they fold together, what they store."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.axes import BLOCK, REGISTER, SERIAL, THREAD, AxesOp
from dlc.dialects.ring_ops import RingOp
from dlc.dialects.staging import ComputeOp
from dlc.dialects.tile_combine import CombineOp
from dlc.dialects.tile_stores import AtomicAddOp, StoreOp
from dlc.ir.variance import Variance


def waves_of(extent: int) -> list[int]:
    """In how many waves the points of a block axis may run: 1, and those of a power of 2 each."""
    waves = [n for n in range(2, extent + 1) if extent % n == 0]
    return [1, *(n for n in waves if (extent // n).bit_count() == 1)]


def verify_order(launch: AxesOp, found: Sequence[int]) -> None:
    """Checks the number of the block axis that runs slowest, and of its waves."""
    blocks = launch.axes_of(BLOCK)
    if len(found) != 2 or not 0 <= found[0] < len(blocks):
        raise VerifyException(
            f"expected the number of one of {len(blocks)} block axes and of waves, found {found}"
        )
    extent, waves = launch.extent(blocks[found[0]]), found[1]
    if waves != 1 and waves not in waves_of(index(extent)):
        raise VerifyException(
            f"expected 1 wave, or waves of a power of 2 of the {extent} points of "
            f"%{blocks[found[0]].name_hint}, found {waves}"
        )


def verify_resident(launch: AxesOp, blocks: int) -> None:
    """Checks a number of blocks that do what more would do, one after the other."""
    if blocks < 1:
        raise VerifyException(f"expected a resident block at least, found {blocks}")
    if not any(isinstance(op, RingOp) and op.has_producer for op in launch.walk()):
        raise VerifyException(
            "expected a ring with a producer, which requests what comes next of resident blocks"
        )


def block_fold(launch: AxesOp) -> CombineOp | None:
    """
    The fold of what blocks hold, if there is one beside the loops of a launch, with whose parts
    they do not all go on.
    """
    folds = (op for op in launch.body.block.ops if isinstance(op, CombineOp) and op.is_of_blocks)
    return next((op for op in folds if op.whole is None), None)


def whole_folds(launch: AxesOp) -> list[CombineOp]:
    """The folds of what the blocks of a cluster hold with which each of them goes on, in order."""
    folds = (op for op in launch.body.block.ops if isinstance(op, CombineOp))
    return [op for op in folds if op.whole is not None]


def thread_fold(launch: AxesOp) -> CombineOp | None:
    """The fold of what threads hold that deals points over them, if there is one."""
    folds = (op for op in launch.body.block.ops if isinstance(op, CombineOp))
    return next((op for op in folds if op.dealt is not None), None)


def verify_folds(launch: AxesOp, along: Variance) -> None:
    """Checks that what follows a fold of blocks, or one that is dealt, is the same for all that it
    folds."""
    folds = [op for op in launch.walk() if isinstance(op, CombineOp)]
    blocks = [op for op in folds if op.is_of_blocks and op.whole is None]
    _verify_whole(launch, bool(blocks))
    dealt = [op for op in folds if op.dealt is not None]
    for found, beside, what in (
        (blocks, block_fold(launch), "blocks hold"),
        (dealt, thread_fold(launch), "threads hold over which its points are dealt"),
    ):
        if len(found) > 1 or (found and found[0] is not beside):
            raise VerifyException(
                f"expected one fold of what {what}, beside the loops of the launch, found "
                f"{len(found)}{' in a loop' if len(found) == 1 else ''}"
            )
        for fold in found:
            _verify_after(fold, what, along)


def _verify_whole(launch: AxesOp, others: bool) -> None:
    """Checks the folds with which each block of a cluster goes on: what meets is one cluster."""
    folds = whole_folds(launch)
    if others and folds:
        raise VerifyException("expected folds of a cluster's blocks that all go on with the whole")
    if len({frozenset(fold.axes) for fold in folds}) > 1:
        raise VerifyException("expected folds of a cluster's blocks across the same axes")
    if folds and launch.axes_of(SERIAL):
        raise VerifyException("expected no serial axes of a launch whose blocks meet in clusters")


def _verify_after(fold: CombineOp, what: str, along: Variance) -> None:
    """Checks that nothing after a fold varies along what it folds."""
    own, after = set(fold.axes), fold.next_op
    while after is not None:
        used = (v for op in after.walk() for v in op.operands)
        if varying := {axis for v in used for axis in along.get(v, ())} & own:
            names = ", ".join(f"%{a.name_hint}" for a in varying)
            raise VerifyException(
                f"expected nothing after a fold of what {what} that varies along {names}, "
                f"found '{after.name}'"
            )
        after = after.next_op


def verify_effects(launch: AxesOp, along: Variance) -> None:
    """Checks that what is stored, and what slabs hold, is the same wherever it is computed."""
    for op in launch.walk():
        if isinstance(op, StoreOp | AtomicAddOp):
            mentioned = frozenset[SSAValue]().union(*(along[i] for i in op.indices))
            if missing := along[op.value] - mentioned:
                names = ", ".join(f"%{a.name_hint}" for a in missing)
                across = "" if isinstance(op, StoreOp) else " or those that it adds across"
                raise VerifyException(
                    f"expected a stored value that varies only along axes of its subscripts"
                    f"{across}, found one that also varies along {names}"
                )
        elif isinstance(op, ComputeOp) and (own := [a for a in along[op.result] if _own(a)]):
            names = ", ".join(f"%{a.name_hint}" for a in own)
            raise VerifyException(
                "expected a computed slab that is the same for all threads of a block, found "
                f"one that varies along {names}"
            )


def _own(axis: SSAValue) -> bool:
    """True for thread and register axes: what a thread of a block holds of its own."""
    loop = axis.owner.parent_op() if isinstance(axis.owner, Block) else None
    return isinstance(loop, AxesOp) and loop.kind(axis) in (THREAD, REGISTER)

"""The stores of a kernel that the tensor memory accelerator makes, as boxes of warps."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import BlockArgument, SSAValue

from dlc.analysis.kernel.tensor_maps import tma_obstacle
from dlc.analysis.tile.fold_shares import share_of
from dlc.dialects import tile
from dlc.dialects.axes import REGISTER, THREAD
from dlc.dialects.size_index import extents_at
from dlc.dialects.warp_boxes import WarpBoxes, warp_boxes
from dlc.ir.bounds import within
from dlc.ir.expr import Expr
from dlc.ir.variance import variance
from dlc.target import WARP

NO_ROWS = "its rows are no rows of the sums"


def store_obstacle(launch: tile.LaunchOp, op: tile.StoreOp) -> str | None:
    """The reason why the tensor memory accelerator cannot store what a store does, or None."""
    kernel = launch.parent_op()
    assert isinstance(kernel, tile.KernelOp)
    products = [op for op in launch.walk() if isinstance(op, tile.ReduceOp) and op.mma]
    if not products:
        return "no warp holds sums as tensor cores lay them out (`register-tile{mma=…}`)"
    if op.parent is not launch.body.block:
        return "it stands in a loop"
    if op.ref in kernel.updated_refs or len(list(op.ref.uses)) > 1:
        return "the kernel reads what it stores to, or stores there twice"
    boxes = warp_boxes(op, registers_of(launch))
    if isinstance(boxes, str):
        return boxes
    held = [tuple(product.lanes) for product in products]
    lanes = next((of for of in held if of[-2:] == (boxes.half, boxes.pair)), None)
    if lanes is None:
        return NO_ROWS
    within_box = {lanes[-3], boxes.pair, boxes.tiles}  # the columns of a box, whole rows of it
    begin = [e.substitute(lambda v: 0 if v in within_box else None) for e in op.subscripts]
    return _lane_obstacle(launch, op, lanes, boxes) or tma_obstacle(
        boxes.type, boxes.sizes, kernel.alignment(op.ref), begin
    )


def _lane_obstacle(
    launch: tile.LaunchOp, op: tile.StoreOp, lanes: Sequence[SSAValue], boxes: WarpBoxes
) -> str | None:
    group, member = lanes[-4:-2]
    last = len(op.subscripts) - 1
    for axis, at, step in ((group, boxes.rows, 1), (member, last, 2)):
        steps = [e.coefficient(axis) for e in op.subscripts]
        if steps != [step if d == at else 0 for d in range(last + 1)]:
            return NO_ROWS
    if not launch_threads(launch) <= {value for e in op.subscripts for value in e.values()}:
        return "threads share the sums"
    if clipped(op):
        return "what is stored depends on more than where the tensor ends"
    return _share_obstacle(launch)


def _share_obstacle(launch: tile.LaunchOp) -> str | None:
    folds = [launch.thread_fold, launch.block_fold]
    for fold in (op for op in folds if op is not None and (op.dealt or op.cluster)):
        share = share_of(launch, fold, variance(launch))
        if share is None or not share.is_even:
            return "those that fold it do not have equal shares of its points"
    return None


def launch_threads(launch: tile.LaunchOp) -> set[SSAValue]:
    """The thread axes of more than one point."""
    return {axis for axis in launch.axes_of(THREAD) if launch.most(axis) > 1}


def registers_of(launch: tile.LaunchOp) -> list[BlockArgument]:
    """The register axes of a launch."""
    return launch.axes_of(REGISTER)


def clipped(op: tile.StoreOp) -> list[Expr]:
    """The conditions of a store that do not just say that an element is one of the memref."""
    pairs = zip(op.subscripts, extents_at(op.ref, op), strict=True)
    inside = [condition for subscript, n in pairs for condition in within(subscript, n)]
    return [condition for condition in op.where if condition not in inside]


def box_count(launch: tile.LaunchOp, op: tile.StoreOp) -> int:
    """Boxes of a warp of a store that has no obstacle."""
    boxes = warp_boxes(op, registers_of(launch))
    assert not isinstance(boxes, str)
    return boxes.count


def slab_bytes(launch: tile.LaunchOp) -> int:
    """The shared memory that stores by boxes take, in bytes."""
    total, warps = 0, prod(map(launch.extent, launch_threads(launch))) // WARP
    for op in launch.body.block.ops:
        if isinstance(op, tile.StoreOp) and op.boxes is not None:
            boxes = warp_boxes(op, registers_of(launch))
            assert not isinstance(boxes, str)  # the verifier has seen to that
            total += warps * op.boxes.value.data * boxes.bytes
    return total

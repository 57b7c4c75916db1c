"""The step of each operation of the `kernel` dialect, by its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.ir import Operation

from dlc.dialects import kernel
from dlc.simulator import (
    accesses,
    boxes,
    control,
    last_blocks,
    synchronization,
    warp_matrices,
    warpgroups,
)
from dlc.simulator.divergence import Step
from dlc.simulator.executable import Program

_NO_STEPS = (
    scf.YieldOp,
    kernel.AllocSharedOp,
    kernel.MapClusterOp,
    kernel.TensorMapOp,
    kernel.AllocMbarriersOp,
    kernel.GridWaitOp,  # launches run one after another
    kernel.GridReleaseOp,
    kernel.PrefetchOp,  # changes nothing that a thread sees
)
"""Operations that do nothing when they are reached."""

_STEPS: dict[type[Operation], Callable[[Program, Any], Step]] = {
    arith.ConstantOp: control.constant,
    kernel.BlockIdOp: control.block_id,
    kernel.ThreadIdOp: control.thread_id,
    kernel.IndexOp: control.index,
    kernel.TestOp: control.test,
    kernel.SelectOp: control.select,
    scf.ForOp: control.for_loop,
    scf.IfOp: control.if_else,
    kernel.AllocLocalOp: accesses.alloc_local,
    kernel.LoadOp: accesses.load,
    kernel.StoreOp: accesses.store,
    kernel.AtomicAddOp: accesses.store,
    kernel.CpAsyncOp: accesses.cp_async,
    kernel.CommitOp: accesses.commit,
    kernel.WaitOp: accesses.wait,
    kernel.BarrierOp: synchronization.barrier,
    kernel.LastBlockOp: last_blocks.last_block,
    kernel.ClusterBarrierOp: synchronization.cluster_barrier,
    kernel.ShuffleOp: synchronization.shuffle,
    kernel.SyncWarpOp: synchronization.sync_warp,
    kernel.MbarrierInitOp: synchronization.mbarrier_init,
    kernel.MbarrierArriveOp: synchronization.mbarrier_arrive,
    kernel.MbarrierArriveAtOp: synchronization.mbarrier_arrive_at,
    kernel.MbarrierExpectTxOp: synchronization.mbarrier_expect_tx,
    kernel.MbarrierWaitOp: synchronization.mbarrier_wait,
    kernel.FenceMbarrierInitOp: synchronization.fence_mbarrier_init,
    kernel.FenceProxyAsyncOp: synchronization.fence_proxy_async,
    kernel.TmaLoadOp: boxes.tma_load,
    kernel.TmaMulticastOp: boxes.tma_multicast,
    kernel.TmaStoreOp: boxes.tma_store,
    kernel.TmaCommitOp: boxes.tma_commit,
    kernel.TmaWaitOp: boxes.tma_wait,
    kernel.MmaOp: warp_matrices.mma,
    kernel.LdmatrixOp: warp_matrices.ldmatrix,
    kernel.StmatrixOp: warp_matrices.stmatrix,
    kernel.MatrixDescriptorOp: warpgroups.matrix_descriptor,
    kernel.WgmmaOp: warpgroups.wgmma,
    kernel.WgmmaHeldOp: warpgroups.wgmma,
    kernel.WgmmaFenceOp: warpgroups.fence,
    kernel.WgmmaCommitOp: warpgroups.commit,
    kernel.WgmmaWaitOp: warpgroups.wait,
    kernel.SetMaxRegistersOp: warpgroups.set_max_registers,
}
"""All others are scalar operations."""


def step_of(program: Program, op: Operation) -> Step | None:
    """The step that executes an operation; None if it does nothing."""
    return None if isinstance(op, _NO_STEPS) else _STEPS.get(type(op), control.scalar)(program, op)

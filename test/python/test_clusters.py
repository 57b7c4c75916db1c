"""Blocks of a cluster, which read each other's shared memory: what they give, and what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from harness import parse
from test_printer import nvcc_takes
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from dlc.backend import LaunchError
from dlc.backend.cuda.print.printer import print_module
from dlc.backend.executor import Executor
from dlc.backend.host.host_backend import HostBackend
from dlc.backend.host.host_kernel import Order
from dlc.dialects import kernel
from dlc.simulator import Hazard, run_module
from dlc.simulator.checker import check_module

REVERSED = """
module attributes {dlc.target = "sm_90"} {
  kernel.func @reversed(%x: memref<512xf32>) -> (%y: memref<512xf32>) grid 8 block 64 cluster 4 {
    %b = kernel.block_id
    %t = kernel.thread_id
    %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
    %all = kernel.map_cluster %s
      : memref<64xf32, #kernel.shared> -> memref<4x64xf32, #kernel.cluster>
    %v = kernel.load %x[%b * 64 + %t] : memref<512xf32>
    kernel.store %v, %s[%t] : memref<64xf32, #kernel.shared>
    kernel.cluster_barrier
    %w = kernel.load %all[3 - %b mod 4, 63 - %t] : memref<4x64xf32, #kernel.cluster>
    kernel.store %w, %y[%b * 64 + %t] : memref<512xf32>
    kernel.cluster_barrier relaxed
  }
  func.func @main(%x: tensor<512xf32>) -> tensor<512xf32> {
    %y = kernel.launch @reversed(%x) : (tensor<512xf32>) -> (tensor<512xf32>)
    func.return %y : tensor<512xf32>
  }
}
"""
LARGE = REVERSED.replace(
    "%s = kernel.alloc_shared",
    "%big = kernel.alloc_shared : memref<16000xf32, #kernel.shared>\n    %s = kernel.alloc_shared",
)
"""With more shared memory than can be static."""
X = np.arange(512, dtype=np.float32)
Y = X.reshape(2, 256)[:, ::-1].reshape(-1)


def barriers(module: ModuleOp) -> list[kernel.ClusterBarrierOp]:
    return [op for op in module.walk() if isinstance(op, kernel.ClusterBarrierOp)]


def on_host(module: ModuleOp, order: Order = "forward", threads: int | None = None) -> torch.Tensor:
    (found,) = Executor(module, HostBackend(order=order, threads=threads))([torch.from_numpy(X)])
    return found


@pytest.mark.parametrize("threads", [1, 3, 9])
@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
@pytest.mark.parametrize("text", [REVERSED, LARGE], ids=["static", "dynamic"])
def test_what_other_blocks_hold(text: str, order: Order, threads: int) -> None:
    """However few threads of the system there are, each block has one."""
    np.testing.assert_array_equal(on_host(parse(text), order, threads), Y)


def test_in_the_simulator() -> None:
    (found,) = run_module(parse(REVERSED), [X])
    np.testing.assert_array_equal(found, Y)


@pytest.mark.parametrize("weakened", [False, True], ids=["deleted", "of the block"])
@pytest.mark.parametrize(
    ("number", "hazard", "error"),
    [(0, "nothing orders the two", "may not have begun"), (1, "may have ended", "may have ended")],
)
def test_without_a_barrier(number: int, hazard: str, error: str, weakened: bool) -> None:
    """What is read may not be written yet, or gone: the simulator and the host tell."""
    module = parse(REVERSED)
    barrier = barriers(module)[number]
    if weakened:
        Rewriter.insert_op(kernel.BarrierOp(), InsertPoint.before(barrier))
    Rewriter.erase_op(barrier)
    with pytest.raises(Hazard, match=hazard):
        run_module(module, [X])
    with pytest.raises(LaunchError, match=error):
        on_host(module)


def test_a_relaxed_barrier_orders_no_writes() -> None:
    """It is as if it were not there for what is read after it."""
    barrier = "    kernel.cluster_barrier\n    %w"
    module = parse(REVERSED.replace(barrier, barrier.replace("barrier\n", "barrier relaxed\n")))
    assert str(module).count("kernel.cluster_barrier relaxed") == 2
    with pytest.raises(Hazard, match="nothing orders the two"):
        run_module(module, [X])


USED = "kernel.store %w, %y[%b * 64 + %t] : memref<512xf32>"
KEPT = """%kept = kernel.alloc_local : memref<1xf32, #kernel.local>
    kernel.store %w, %kept[0] : memref<1xf32, #kernel.local>
    %again = kernel.load %kept[0] : memref<1xf32, #kernel.local>
    %twice = arith.addf %again, %again : f32"""
STORED = "kernel.store %twice, %y[%b * 64 + %t] : memref<512xf32>"
GUARDED = f"""%some = kernel.test where (%t < 5)
    scf.if %some {{
      {USED}
    }}"""


@pytest.mark.parametrize("before", ["", KEPT, "%z = arith.addf %w, %w : f32"])
def test_a_relaxed_barrier_comes_after_what_needs_a_read(before: str) -> None:
    """A thread arrives while its loads are on the way, and the block that they read may end."""
    text = REVERSED.replace(USED, before)
    with pytest.raises(VerifyException, match="read of other blocks to be used before"):
        parse(text)
    later = text.replace("barrier relaxed", f"barrier relaxed\n    {USED}")
    with pytest.raises(VerifyException, match="to be used before"):
        parse(later)
    parse(later.replace("barrier relaxed", "barrier"))
    parse(text.replace("barrier relaxed", "barrier\n    kernel.cluster_barrier relaxed"))


@pytest.mark.parametrize("effect", [f"{KEPT}\n    {STORED}", GUARDED])
def test_an_effect_waits_for_a_read(effect: str) -> None:
    parse(REVERSED.replace(USED, effect))


def test_a_relaxed_barrier_waits_for_no_arrival_elsewhere() -> None:
    arrival = f"""{USED}
    %m = kernel.alloc_mbarriers 1
    kernel.mbarrier_arrive_at %m[0], block 0"""
    text = REVERSED.replace(USED, arrival)
    with pytest.raises(VerifyException, match=r"waits for 'kernel.mbarrier_arrive_at' before"):
        parse(text)
    parse(text.replace("barrier relaxed", "barrier"))
    parse(text.replace("barrier relaxed", "barrier\n    kernel.cluster_barrier relaxed"))


def test_what_is_written_again_is_read_before() -> None:
    """A barrier of its own block tells a thread nothing of the others."""
    relaxed = REVERSED.replace(
        "kernel.cluster_barrier relaxed\n",
        "kernel.cluster_barrier relaxed\n"
        "    kernel.store %w, %s[%t] : memref<64xf32, #kernel.shared>\n",
    )
    with pytest.raises(Hazard, match=r"writes %s\[.*\], read by thread .* of block"):
        run_module(parse(relaxed), [X])
    text = relaxed.replace("barrier relaxed", "barrier")
    (found,) = run_module(parse(text), [X])
    np.testing.assert_array_equal(found, Y)
    module = parse(text)
    _, last = barriers(module)
    Rewriter.insert_op(kernel.BarrierOp(), InsertPoint.before(last))
    last.detach()
    store = next(op for op in module.walk() if isinstance(op, kernel.StoreOp))
    Rewriter.insert_op(last, InsertPoint.at_end(store.parent))  # pyright: ignore[reportArgumentType]
    with pytest.raises(Hazard, match=r"writes %s\[.*\], read by thread .* of block"):
        run_module(module, [X])


def test_a_barrier_that_not_all_reach() -> None:
    """Those that do not come by read what is not ordered."""
    text = REVERSED.replace(
        "    kernel.cluster_barrier\n    %w",
        "    %first = kernel.test where (%t < 32)\n    scf.if %first {\n"
        "      kernel.cluster_barrier\n    }\n    %w",
    )
    with pytest.raises(Hazard, match=r"thread 32 .* nothing orders the two"):
        run_module(parse(text), [X])
    with pytest.raises(LaunchError, match="may not have begun"):
        on_host(parse(text))


@pytest.mark.parametrize("blocks", [1, 3, 5])
def test_a_check_of_some_blocks_runs_whole_clusters(blocks: int) -> None:
    module = parse(REVERSED)
    (verdict,) = check_module(module, blocks=blocks)
    assert verdict.answer == "clean"
    barriers(module)[0].detach()
    (verdict,) = check_module(module, blocks=blocks)
    assert verdict.answer == "hazard"


def test_a_block_that_is_not_in_the_cluster() -> None:
    text = REVERSED.replace("3 - %b mod 4", "4 - %b mod 4")
    with pytest.raises(Hazard, match="out of bounds"):
        run_module(parse(text), [X])
    with pytest.raises(LaunchError, match="block 4 of its cluster, which is not there"):
        on_host(parse(text))


def test_nvcc_takes_it() -> None:
    text = print_module(parse(REVERSED))
    assert "__cluster_dims__(4, 1, 1) __launch_bounds__(64)" in text
    assert "cluster_shared(s, 3 - b % 4)[63 - t]" in text
    assert nvcc_takes(text, "sm_90", "sm_100", "sm_120") == [0, 0, 0]

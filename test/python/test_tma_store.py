"""Results that the tensor memory accelerator stores: `tma-copy{store=2}`, and its hazards."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import numpy as np
import pytest
from harness import STEPS, apply, interpret, lowered, on_host, parse, scheduled
from loop_cases import Case, halves
from mutants import Subject, judge, mutations
from test_resident import GIVES, RESIDENT
from test_tensor_cores import MODES, product
from test_tma import func_of
from test_tma import on_host as launched
from test_wgmma_tiles import GROUPS, PRODUCER, TMA, schedule
from xdsl.dialects.builtin import ModuleOp

from dlc.analysis.kernel.barriers import missing_barriers
from dlc.backend import BackendError, LaunchError
from dlc.backend.cuda.print.printer import print_kernel
from dlc.backend.cuda.run.nvcc import compile_cubin, find_nvcc
from dlc.diagnostics import OpError, TextError
from dlc.dialects import kernel, tile
from dlc.remarks import collect
from dlc.simulator import Hazard, run_kernel
from dlc.target import TARGETS

WARPS = (
    "tileify,chunk-matmul-k{bk=32 vector=16},blockify-launch{block=64,32 thread=2,1},"
    "stage-inputs{budget=16384},register-tile{extents=32,32 mma=m16n8k16},double-buffer{depth=2},"
    "tma-copy,split-inner-for-swizzle{bytes=64},pipeline-k-outer,mark-unroll{limit=64}"
)


def storing(text: str, places: int = 1) -> str:
    assert "tma-copy" in text
    return text.replace("tma-copy", f"tma-copy{{store={places}}}")


def by_tma(block: tuple[int, int], group: tuple[int, int], n: int) -> str:
    text = schedule(block, group, n).replace("split-inner", "tma-copy,split-inner")
    return text.replace(",async-copy", "")


def in_cluster(blocks: int) -> str:
    split = f"split-matmul-k{{splits={blocks} combine=cluster}}"
    return storing(WARPS).replace(",blockify", f",{split},blockify")


def added(case: Case) -> Case:
    """relu(x @ w + z), with an element of z for each point in the place of a bias."""
    x, w, _ = case.inputs
    (n,), m = case.inputs[2].shape, x.shape[0]
    z = np.random.default_rng(5).standard_normal((m, n)).astype(np.float32)
    text = case.text.replace("%bias[%j]", "%bias[%i, %j]")
    text = text.replace(f"%bias: memref<{n}x", f"%bias: memref<{m}x{n}x")
    text = text.replace(f"%bias: tensor<{n}x", f"%bias: tensor<{m}x{n}x")
    text = re.sub(rf"(%bias\[%i, %j\] : memref<){n}x", rf"\g<1>{m}x{n}x", text)
    return replace(case, name=f"added_{case.name}", text=text, inputs=(x, w, z))


def scaled(case: Case) -> Case:
    """relu(x @ w + bias), with an element of the bias for each row in the place of a column."""
    x, w, _ = case.inputs
    (n,), m = case.inputs[2].shape, x.shape[0]
    bias = np.random.default_rng(6).standard_normal(m).astype(np.float32)
    text = case.text.replace("%bias[%j]", "%bias[%i]")
    text = text.replace(f"%bias: memref<{n}x", f"%bias: memref<{m}x")
    text = text.replace(f"%bias: tensor<{n}x", f"%bias: tensor<{m}x")
    text = re.sub(rf"(%bias\[%i\] : memref<){n}x", rf"\g<1>{m}x", text)

    def expected(x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> list[np.ndarray]:
        return list(case.expected(x, w, bias[:, None]))

    return replace(
        case, name=f"scaled_{case.name}", text=text, inputs=(x, w, bias), expected=expected
    )


LARGE = product(72, 80, 200, w_turned=True)
CASES: dict[str, tuple[Case, str]] = {
    "f32": (LARGE, storing(TMA)),
    "f32, two places": (LARGE, storing(TMA, 2)),
    "f16": (halves(LARGE), storing(TMA)),
    "ragged": (product(17, 20, 136, w_turned=True), storing(TMA, 2)),
    "ragged, f16": (halves(product(33, 24, 72)), storing(TMA)),
    "batched": (product(20, 24, 72, batch=2), storing(TMA, 2)),
    "more rows of warps": (product(136, 72, 136), storing(by_tma((128, 64), (128, 64), 64), 2)),
    "few columns, f16": (
        halves(product(65, 24, 128)),
        storing(by_tma((64, 16), (64, 16), 8).replace("128}", "32}")),
    ),
    "8 columns": (
        halves(product(65, 24, 128)),
        storing(re.sub("split-[^}]*},", "", by_tma((64, 8), (64, 8), 8))),
    ),
    "a producer": (product(72, 80, 392, w_turned=True), storing(PRODUCER, 2)),
    "a producer and two warpgroups": (
        halves(product(136, 64, 200, w_turned=True)),
        storing(GROUPS),
    ),
    "resident": (product(64, 264, 200), storing(RESIDENT, 2)),
    "resident, every place once": (halves(product(64, 264, 200)), storing(RESIDENT)),
    "resident, registers": (halves(product(136, 72, 200, w_turned=True)), storing(GIVES)),
    "warps": (LARGE, storing(WARPS, 2)),
    "warps, ragged, f16": (halves(product(17, 40, 72)), storing(WARPS)),
    "what is added": (added(product(72, 80, 200, w_turned=True)), storing(TMA, 2)),
    "added to rows": (scaled(product(72, 80, 200, w_turned=True)), storing(TMA, 2)),
    "added to rows, f16, resident": (halves(scaled(product(64, 264, 200))), storing(RESIDENT)),
    "what is added, ragged, f16": (halves(added(product(33, 24, 72))), storing(TMA)),
    "what is added, resident": (added(product(64, 264, 200)), storing(RESIDENT, 2)),
    "what is added, 8 columns": (
        halves(added(product(65, 24, 128))),
        storing(re.sub("split-[^}]*},", "", by_tma((64, 8), (64, 8), 8))),
    ),
    "parts": (
        product(72, 64, 392),
        storing(TMA, 2).replace(",blockify-launch", ",split-matmul-k{splits=2},blockify-launch"),
    ),
    "parts of a cluster, equal shares": (product(72, 64, 392), in_cluster(2)),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _few_sms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three SMs, so that small products have more blocks."""
    monkeypatch.setitem(TARGETS, "sm_90", replace(TARGETS["sm_90"], sms=3))


def steps(case: Case, text: str) -> ModuleOp:
    module = scheduled(case, text, "sm_90")
    apply(module, ",".join(STEPS))
    return lowered(module)


@pytest.mark.parametrize("name", CASES)
def test_products(name: str) -> None:
    case, text = CASES[name]
    module = steps(case, text)
    (func, *_) = (op for op in module.ops if isinstance(op, kernel.FuncOp))
    assert any(isinstance(op, kernel.TmaStoreOp) for op in func.walk())
    assert not missing_barriers(func)
    interpret(case, module, name)
    on_host(case, module, name, [{"order": order, "async_mode": mode} for order, mode in MODES])


def test_no_barrier_of_the_block_is_added() -> None:
    def barriers(text: str) -> int:
        return sum(isinstance(op, kernel.BarrierOp) for op in steps(LARGE, text).walk())

    assert barriers(TMA) == barriers(storing(TMA, 2)) == 1


MUTATED = ["f32, two places", "resident, every place once", "warps"]
if os.environ.get("DLC_PREFIX"):
    MUTATED += ["f16", "resident", "what is added"]
KINDS = (
    kernel.TmaStoreOp, kernel.TmaCommitOp, kernel.TmaWaitOp, kernel.FenceProxyAsyncOp,
    kernel.SyncWarpOp,
)  # fmt: skip


@pytest.mark.parametrize("name", MUTATED)
def test_every_mutant_is_found(name: str) -> None:
    case, text = CASES[name]
    subject = Subject.of(case, "sm_90", text)
    assert subject.ordinary
    kinds, survivors = set[str](), list[str]()
    for mutation in mutations(subject.module):
        op = list(subject.module.walk())[mutation.at]
        slab = isinstance(op, kernel.StoreOp) and (op.ref.name_hint or "").endswith("_slab")
        if slab or isinstance(op, KINDS):
            kinds.add(mutation.kind)
            if not judge(subject, mutation).by:
                survivors.append(mutation.kind)
    assert not survivors
    for kind in (
        "tma_store: deleted", "tma_commit: deleted", "tma_wait: deleted",
        "tma_wait: one more may be pending", "tma_wait: only read", "fence_proxy_async: deleted",
        "fence_proxy_async: after the next", "sync_warp: deleted",
    ):  # fmt: skip
        assert f"kernel.{kind}" in kinds, kind
    if "two places" in name:
        assert {"kernel.tma_store: next place", "kernel.store: next place"} <= kinds


# What is checked, of a kernel written by hand: each of two warps stores two boxes of 16 x 8.

SLAB = "memref<2x1x16x8xf32, #kernel.shared>"
TEXT = f"""
kernel.func @k(%x: memref<30x16xf32>) -> (%y: memref<30x16xf32>) grid 1 block 64 {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %t = kernel.thread_id
  %w = kernel.index %t floordiv 32
  %y_map = kernel.tensor_map %y box [16, 8] : memref<30x16xf32>
  %y_slab = kernel.alloc_shared : {SLAB}
  %leads = kernel.test where (%t mod 32 < 1)
  scf.for %p = %c0 to %c2 step %c1 {{
    kernel.tma_wait 0 read
    kernel.sync_warp
    scf.for %e = %c0 to %c4 step %c1 {{
      %i = kernel.index %t floordiv 32 * 16 + %t mod 16
      %j = kernel.index (%t floordiv 16) mod 2 * 4 + %e
      %v = kernel.load %x[%i, %p * 8 + %j] where (%i < 30) : memref<30x16xf32>
      kernel.store %v, %y_slab[%w, 0, %t mod 16, %j] : {SLAB}
    }}
    kernel.fence_proxy_async
    kernel.sync_warp // written
    scf.if %leads {{
      kernel.tma_store %y_slab[%w, 0, 0, 0] -> %y_map[%w * 16, %p * 8] : {SLAB}
      kernel.tma_commit
    }}
  }}
  kernel.tma_wait 0
}}
"""  # fmt: skip
X = np.arange(480, dtype=np.float32).reshape(30, 16)


def _stored(text: str, mode: str, order: str = "forward") -> np.ndarray:
    y = np.full_like(X, np.nan)
    launched(func_of(text), [X, y], async_mode=mode, order=order)
    return y


def test_by_hand() -> None:
    (found,) = run_kernel(func_of(TEXT), [X])
    np.testing.assert_array_equal(found, X)
    for order, mode in MODES:
        np.testing.assert_array_equal(_stored(TEXT, mode, order), X)


BAD = {
    "no fence": (
        TEXT.replace("kernel.fence_proxy_async", ""), "race",
        "no kernel.fence_proxy_async stands between a store to %y_slab and this",
    ),
    "a fence of one lane": (
        TEXT.replace("kernel.fence_proxy_async\n", "").replace(
            "scf.if %leads {", "scf.if %leads {\n kernel.fence_proxy_async"
        ), "race", "no kernel.fence_proxy_async stands between a store to %y_slab and this",
    ),
    "lanes do not meet": (TEXT.replace("kernel.sync_warp // written", ""), "race", "written by"),
    "a place that is being read": (
        TEXT.replace("kernel.tma_wait 0 read", ""), "copy in flight",
        r"%y_slab\[\d, 0, \d+, \d\] is written while a store that reads it is in flight",
    ),
    "one lane knows that it has been read": (
        TEXT.replace("read\n    kernel.sync_warp", "read"), "race", "read by thread",
    ),
    "no commit": (
        TEXT.replace("kernel.tma_commit", ""), "copy never awaited", "nothing waits for a store",
    ),
    "no wait at the end": (
        TEXT.replace("kernel.tma_wait 0\n", ""), "copy never awaited",
        "nothing waits for a store to %y",
    ),
    "read and not written": (
        TEXT.replace("kernel.tma_wait 0\n", "kernel.tma_wait 0 read\n"), "copy never awaited",
        "nothing waits for a store to %y",
    ),
    "accessed before it is written": (
        TEXT.replace(
            "kernel.tma_wait 0\n",
            "%u = kernel.load %y[0, 0] : memref<30x16xf32>\n kernel.tma_wait 0\n",
        ), "copy in flight",
        "is accessed while a store to it is in flight: thread 0 requested it and has not waited",
    ),
    "stored again before it is written": (
        TEXT.replace("[%w * 16, %p * 8]", "[%w * 16, 0]"), "copy in flight",
        r"%y\[0, 0\] is accessed while a store to it is in flight: thread 0 requested it",
    ),
    "a thread has stored there": (
        TEXT.replace(
            "kernel.tma_store", "kernel.store %v, %y[%w * 15, %p * 8] : memref<30x16xf32>\n"
            " kernel.fence_proxy_async\n kernel.tma_store"
        ).replace("%v = ", "%o = ").replace("%v,", "%o,", 1).replace(
            "scf.if %leads {", "%v = kernel.load %x[0, 0] : memref<30x16xf32>\n scf.if %leads {"
        ), "race",
        r"stored to %y\[0, 0\], and no kernel.fence_proxy_async orders that before this",
    ),
    "between units": (
        TEXT.replace("%y_slab[%w, 0, 0, 0]", "%y_slab[%w, 0, 0, 4]"), "misaligned",
        r"a box lies at %y_slab \+ 16 bytes, not a multiple of 128",
    ),
}  # fmt: skip


def test_what_is_written_is_stored_again() -> None:
    again = TEXT.replace("[%w * 16, %p * 8]", "[%w * 16, 0]").replace("wait 0 read", "wait 0")
    func = func_of(again.replace("memref<30x16xf32>) grid", "memref<30x16xf32> zeroed) grid"))
    (found,) = run_kernel(func, [X])
    np.testing.assert_array_equal(found, np.concatenate([X[:, 8:], 0 * X[:, 8:]], 1))


@pytest.mark.parametrize("name", BAD)
def test_hazards(name: str) -> None:
    text, kind, message = BAD[name]
    with pytest.raises(Hazard, match=message) as caught:
        run_kernel(func_of(text), [X])
    assert caught.value.kind == kind


def test_the_host_stores_late() -> None:
    """What is overwritten before it has been read is lost, and what nobody waits for an error."""
    text = BAD["a place that is being read"][0]
    assert (_stored(text, "late") != X).any()
    np.testing.assert_array_equal(_stored(text, "early"), X)
    for name in ("no wait at the end", "read and not written"):
        with pytest.raises(LaunchError, match="tma_store requests that no tma_wait completed"):
            _stored(BAD[name][0], "late")


def test_barriers_are_for_slabs_that_warps_share() -> None:
    assert not missing_barriers(func_of(TEXT))
    other = TEXT.replace("%y_slab[%w, 0, 0, 0]", "%y_slab[1 - %w, 0, 0, 0]")
    assert missing_barriers(func_of(other))


# What is declined, and why.

ODD = product(64, 63, 128, w_turned=True)
BY_THREADS = storing(TMA).replace("thread=1,1", "thread=16,16").replace(" mma=m64n64k16", "")
REMARKS = {
    "strides": (
        ODD, storing(TMA, 2),
        "expected strides of a multiple of 16 bytes below 2\\^40, found 252 bytes",
    ),
    "threads": (
        LARGE, re.sub("split-[^}]*},", "", BY_THREADS.replace("extents=64,64", "extents=4,4")),
        r"no warp holds sums as tensor cores lay them out \(`register-tile\{mma=…\}`\)",
    ),
    "shares of 3 blocks": (
        product(72, 64, 392), in_cluster(3),
        "those that fold it do not have equal shares of its points",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REMARKS)
def test_what_is_not_stored(name: str) -> None:
    """Rings are filled nevertheless."""
    case, text, message = REMARKS[name]
    with collect() as remarks:
        module = scheduled(case, text, "sm_90")
        apply(module, ",".join(STEPS))
    (said,) = [r.text for r in remarks if r.pass_name == "tma-copy"]
    assert re.search(f"in boxes of .*; y is not stored by it: {message}", said), said
    stores = [op for op in module.walk() if isinstance(op, tile.StoreOp)]
    assert stores
    assert all(op.boxes is None for op in stores)
    interpret(case, lowered(module), name)


def test_results_are_stored_where_no_ring_is_filled() -> None:
    """Factors with rows of 200 bytes are copied by threads."""
    case = product(64, 64, 100)
    with collect() as remarks:
        module = steps(case, storing(TMA))
    (said,) = [r.text for r in remarks if r.pass_name == "tma-copy"]
    assert re.match("y is stored by it; x: expected strides of a multiple of 16 bytes", said), said
    interpret(case, module, "K = 100")


def test_places_divide_the_boxes() -> None:
    with pytest.raises(TextError, match="room for 3 does not divide the 2 boxes of a warp"):
        apply(scheduled(LARGE, storing(TMA, 3), "sm_90"), ",".join(STEPS))


def test_a_store_that_is_no_box() -> None:
    """Written by hand: the points of a warp that no step has dealt."""
    text = """
    func.func @main(%x: tensor<64x8xf32>) -> tensor<64x8xf32> {
      %y = tile.kernel @k(%x: memref<64x8xf32> = %x) -> (%y: memref<64x8xf32>) {
        tile.launch thread(%t in 32) register(%h in 2, %p in 2) {
          %v = tile.load %x[%h * 8 + %t floordiv 8, %t mod 4 * 2 + %p] : memref<64x8xf32>
          tile.store %v, %y[%h * 8 + %t floordiv 8, %t mod 4 * 2 + %p] boxes 1 : memref<64x8xf32>
        }
      }
      func.return %y : tensor<64x8xf32>
    }"""
    with pytest.raises(OpError, match="cannot store this: lane 4 of a warp has other points than"):
        lowered(parse(text))


def test_nvcc_takes_it() -> None:
    try:
        find_nvcc()
    except BackendError as error:
        pytest.skip(str(error))
    for name in ("f16", "batched", "resident, registers"):
        module = steps(*CASES[name])
        apply(module, "eliminate-dead-code", round_trip=False)
        (func,) = (op for op in module.ops if isinstance(op, kernel.FuncOp))
        cubin = compile_cubin(print_kernel(func), "sm_90", ("-Werror", "all-warnings"))
        assert (cubin.spill_bytes, cubin.serialized) == (0, 0), name

"""Products by warpgroups: every step of their schedules, on the host and in the simulator."""

from __future__ import annotations

import gc
import os
import re

import numpy as np
import pytest
from harness import STEPS, apply, interpret, lowered, obeyed, on_host, scheduled
from loop_cases import Case
from mutants import NEVER_EQUIVALENT, Subject, judge, mutations
from test_tensor_cores import MODES, product
from xdsl.dialects.builtin import ModuleOp

from dlc.diagnostics import TextError
from dlc.dialects import kernel
from dlc.remarks import collect
from dlc.simulator import run_module
from dlc.simulator.machine import Machine


def schedule(
    block: tuple[int, int], group: tuple[int, int], n: int, bk: int = 64, swizzle: int = 128
) -> str:
    """Blocks of so many points, in warpgroups of so many."""
    threads = ",".join(str(b // g) for b, g in zip(block, group, strict=True))
    points, held = (",".join(map(str, sizes)) for sizes in (block, group))
    return (
        f"tileify,chunk-matmul-k{{bk={bk} vector=16}},"
        f"blockify-launch{{block={points} thread={threads}}},stage-inputs{{budget=65536}},"
        f"register-tile{{extents={held} mma=m64n{n}k16}},double-buffer{{depth=3}},"
        f"split-inner-for-swizzle{{bytes={swizzle}}},async-copy,pipeline-k-outer,"
        "mark-unroll{limit=64}"
    )


SMALL = schedule((64, 64), (64, 64), 64)
TMA = SMALL.replace("split-inner", "tma-copy,split-inner").replace(",async-copy", "")
PRODUCER = TMA.replace("pipeline-k-outer", "pipeline-k-outer{producer=1}")
GROUPS = PRODUCER.replace("block=64,64 thread=1,1", "block=128,64 thread=2,1")
REGISTERS = GROUPS.replace("producer=1", "producer=1 registers=40")
LAST = ",split-matmul-k{splits=2 combine=last},blockify-launch"
CLUSTER = LAST.replace("splits=2 combine=last", "splits=3 combine=cluster")
IN_FLIGHT = SMALL.replace("pipeline-k-outer", "pipeline-k-outer{products=1}")
IN_FLIGHT_BY_TMA = TMA.replace("pipeline-k-outer", "pipeline-k-outer{products=1}")
CASES: dict[str, tuple[Case, str]] = {
    "linear": (product(72, 80, 128, w_turned=True), SMALL),
    "plain": (product(64, 64, 192), SMALL),
    "x turned": (product(64, 64, 128, x_turned=True), SMALL),
    "both turned": (product(72, 64, 128, x_turned=True, w_turned=True), SMALL),
    "ragged": (product(17, 19, 100), SMALL),
    "ragged, turned": (product(33, 7, 67, w_turned=True), SMALL),
    "few columns": (product(65, 8, 128), schedule((64, 16), (64, 16), 8, swizzle=32)),
    "batched": (product(20, 24, 72, batch=2), SMALL),
    "columns by columns": (product(64, 64, 128), schedule((64, 64), (64, 64), 32)),
    "two warpgroups": (product(100, 64, 128, w_turned=True), schedule((128, 64), (64, 64), 64)),
    "rows by rows": (product(128, 64, 128, w_turned=True), schedule((128, 64), (128, 64), 64)),
    "two panels": (product(64, 128, 256), schedule((64, 128), (64, 128), 128, bk=128)),
    "32 bytes": (product(64, 64, 64, w_turned=True), schedule((64, 64), (64, 64), 64, 16, 32)),
    "64 bytes": (product(64, 64, 96), schedule((64, 64), (64, 64), 64, 32, 64)),
    "not asynchronous": (product(64, 64, 128), SMALL.replace("async-copy,", "")),
    "apart": (product(72, 80, 200), SMALL.replace("k16}", "k16 apart=true}")),
    "in flight": (product(72, 80, 200, w_turned=True), IN_FLIGHT),
    "two chunks in flight": (product(64, 64, 128), IN_FLIGHT),
    "four slots in flight": (product(64, 72, 328), IN_FLIGHT.replace("depth=3", "depth=4")),
    "the last block": (product(72, 80, 328), SMALL.replace(",blockify-launch", LAST)),
    "the last block, by TMA": (product(72, 80, 328), TMA.replace(",blockify-launch", LAST)),
    "80 columns, by TMA": (
        product(72, 88, 200, w_turned=True),
        TMA.replace("64,64", "64,80").replace("n64k16", "n80k16"),
    ),
    "plain, by TMA": (product(72, 80, 200), TMA),
    "by TMA, with a producer": (product(72, 80, 392, w_turned=True), PRODUCER),
    "plain, by TMA, with a producer": (product(72, 80, 200), PRODUCER),
    "by TMA, with a producer of few chunks": (product(64, 64, 128), PRODUCER),
    "by TMA, with a producer and two slots": (
        product(72, 64, 328),
        PRODUCER.replace("depth=3", "depth=2"),
    ),
    "by TMA, with a producer and two warpgroups": (
        product(2 * 64 + 8, 64, 200, w_turned=True),
        GROUPS,
    ),
    "by TMA, with a producer that gives registers up": (
        product(2 * 64 + 8, 72, 328, w_turned=True),
        REGISTERS,
    ),
    "by TMA, with a producer that keeps few registers": (
        product(17, 24, 136, w_turned=True),
        REGISTERS.replace("registers=40", "registers=24"),
    ),
    "in flight, by TMA": (product(72, 80, 392), IN_FLIGHT_BY_TMA),
    "in flight, by TMA, with a producer": (
        product(72, 80, 392, w_turned=True),
        IN_FLIGHT_BY_TMA.replace("products=1", "products=1 producer=1"),
    ),
    "in flight, by TMA, with a producer of few chunks": (
        product(64, 64, 128),
        IN_FLIGHT_BY_TMA.replace("products=1", "products=1 producer=1"),
    ),
    "two panels, by TMA, with a producer": (
        product(72, 80, 392, w_turned=True),
        PRODUCER.replace("bk=64", "bk=128"),
    ),
    "a cluster, by TMA, with a producer": (
        product(72, 17, 456, w_turned=True),
        PRODUCER.replace(",blockify-launch", CLUSTER),
    ),
    "a cluster, by TMA, with a producer that gives registers up": (
        product(2 * 64 + 8, 64, 200, w_turned=True),
        REGISTERS.replace(",blockify-launch", CLUSTER),
    ),
    "batched, by TMA, with a producer": (product(72, 64, 200, batch=2), PRODUCER),
}


def steps(case: Case, text: str, count: int | None = None) -> ModuleOp:
    module = scheduled(case, text, "sm_90")
    apply(module, ",".join(STEPS[:count]))
    return lowered(module)


def counted(module: ModuleOp, kind: type[object]) -> int:
    return sum(isinstance(op, kind) for op in module.walk())


@pytest.mark.parametrize("name", CASES)
def test_products(name: str) -> None:
    case, text = CASES[name]
    module = steps(case, text)
    assert counted(module, kernel.WgmmaOp)
    assert not counted(module, kernel.MmaOp)
    assert (counted(module, kernel.FenceProxyAsyncOp) == 0) == ("TMA" in name)
    interpret(case, module, name)
    orders = [{"order": order, "async_mode": mode} for order, mode in MODES]
    on_host(case, module, name, orders)


def test_no_memory_is_left_of_a_run() -> None:
    """Gigabytes in few objects, which Python does not look for soon if they hold each other."""
    case, text = CASES["by TMA, with a producer"]
    module = steps(case, text)
    gc.collect()
    gc.disable()
    try:
        interpret(case, module, "no collection")
        assert not [found for found in gc.get_objects() if type(found) is Machine]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "case", [product(17, 19, 100), product(33, 9, 136, w_turned=True)], ids=lambda c: c.name
)
def test_every_prefix(case: Case) -> None:
    """Before slabs are swizzled, each warp multiplies its rows by itself; a remark says so."""
    held = STEPS.index("register-tile")
    swizzled = STEPS.index("split-inner-for-swizzle")
    for count in (held + 1, swizzled, swizzled + 1, len(STEPS)):
        with collect() as remarks:
            module = steps(case, TMA if case.name.endswith("_wt") else SMALL, count)
        said = [r.text for r in remarks if r.pass_name == "lower-reduces"]
        assert bool(counted(module, kernel.MmaOp)) == (count <= swizzled)
        assert bool(counted(module, kernel.WgmmaOp)) == (count > swizzled)
        assert bool(said) == (count <= swizzled)
        if said:
            reason = "of each warp, not by #kernel.mma<m64n64k16, f16>: x_"
            assert said[0].startswith("by #kernel.mma<m16n8k16, f16>")
            assert reason in said[0]
        interpret(case, module, f"{count} steps")


REFUSED = {
    "chip": ("sm_100", SMALL, "sm_100 has no wgmma"),
    "old": ("sm_80", SMALL, "sm_80 has no wgmma"),
    "rows": (
        "sm_90",
        schedule((64, 64), (32, 64), 64),
        "a warpgroup needs a multiple of 64 and of 64 points along the last axes, found 32 x 64",
    ),
    "columns": (
        "sm_90",
        schedule((64, 64), (64, 64), 128),
        "a warpgroup needs a multiple of 64 and of 128 points",
    ),
    "threads": (
        "sm_90",
        schedule((256, 256), (64, 64), 64),
        "16 warpgroups are more than a block can have",
    ),
    "registers": (
        "sm_90",
        schedule((256, 256), (64, 256), 256),
        "each of 512 threads has 128 registers, and the 128 sums of m64n256k16 take 154",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    target, text, message = REFUSED[name]
    with pytest.raises(TextError, match=message):
        apply(scheduled(product(256, 256, 128), text, target), ",".join(STEPS[:8]))


AHEAD = {
    "a producer of half a warpgroup": (
        "tileify,chunk-matmul-k{bk=16 vector=4},blockify-launch{block=32,32 thread=8,8},"
        "stage-inputs{budget=8192},register-tile{extents=4,4},double-buffer{depth=3},tma-copy,"
        "pipeline-k-outer{producer=1}",
        "its 64 threads are no whole warpgroups",
    ),
    "slots": (IN_FLIGHT.replace("depth=3", "depth=2"), "a ring of two slots holds no chunk beside"),
    "apart": (IN_FLIGHT.replace("k16}", "k16 apart=true}"), "added before the next products"),
    "a producer of a ring that threads fill": (
        SMALL.replace("outer", "outer{producer=1}"),
        "a producer requests chunks of rings that TMA",
    ),
    "a producer beside the last block": (
        PRODUCER.replace(",blockify-launch", LAST),
        "all threads of the block meet",
    ),
    "a producer that leaves products no registers": (
        PRODUCER.replace("block=64,64 thread=1,1", "block=256,192 thread=4,1")
        .replace("64,64 mma=m64n64", "64,192 mma=m64n192")
        .replace("depth=3", "depth=2"),
        "each of 640 threads has 96 registers, and the 96 sums of m64n192k16 take 122",
    ),
    "registers of no producer": (
        TMA.replace("outer", "outer{registers=40}"),
        "no producer keeps registers",
    ),
    "registers of one warpgroup beside": (
        PRODUCER.replace("producer=1", "producer=1 registers=40"),
        "each of 256 threads has 255 registers, and others would have 248",
    ),
    "as many registers as before": (
        REGISTERS.replace("=40", "=168"),
        "each of 384 threads has 168 registers, and others would have 168",
    ),
    "registers between steps": (
        REGISTERS.replace("=40", "=41"),
        "expected a multiple of 8 registers, from 24 to 256, found 41",
    ),
    "registers between steps, of products in flight": (
        REGISTERS.replace("=40", "=41 products=1"),
        "expected a multiple of 8 registers, from 24 to 256, found 41",
    ),
    "warps": (
        re.sub("register-tile{.*?}", "register-tile{extents=64,64 mma=m16n8k16}", IN_FLIGHT),
        "no warpgroup multiplies matrices in its loops",
    ),
}


@pytest.mark.parametrize("name", AHEAD)
def test_products_that_cannot_be_in_flight(name: str) -> None:
    """The kernel stays as it is."""
    text, message = AHEAD[name]
    module = scheduled(product(64, 64, 256), text, "sm_90")
    apply(module, ",".join(STEPS[: STEPS.index("pipeline-k-outer")]))
    (error,) = obeyed(module, "pipeline-k-outer")
    assert message in str(error)


SIZES = [(17, 7, 100), (7, 17, 100), (100, 17, 17), (72, 80, 200), (17, 24, 65), (64, 64, 104),
         (136, 64, 330)]  # fmt: skip


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("text", [PRODUCER, REGISTERS.replace("=40", "=40 resident=1")])
def test_a_producer_at_any_size(text: str, size: tuple[int, ...], turned: bool) -> None:
    """Where TMA can copy no boxes, which is said, threads fill the rings, without one."""
    case = product(*size, w_turned=turned)
    with collect() as remarks:
        module = steps(case, text)
    (said,) = [r.text for r in remarks if r.pass_name == "pipeline-k-outer"]
    _, n, k = size
    fit = k % 8 == 0 and (turned or n % 8 == 0)
    assert ("by a warpgroup of their own" in said) == (fit and k > 64), said
    if k > 64 and not fit:
        assert re.search("2 ahead, without a producer: TMA copies no boxes of [xw], expected", said)
    interpret(case, module, str(size))
    on_host(
        case, module, str(size), [{"order": order, "async_mode": mode} for order, mode in MODES]
    )


def test_infinities_and_nan() -> None:
    case, text = CASES["ragged"]
    x, w, bias = (a.copy() for a in case.inputs)
    x[3, 7], w[5, 2], bias[4] = np.inf, np.nan, -np.inf
    (found,) = run_module(steps(case, text), (x, w, bias))
    with np.errstate(invalid="ignore"):
        (exact,) = case.expected(*(a.astype(np.float64) for a in (x, w, bias)))
    finite = np.isfinite(exact)
    assert not finite.all()
    np.testing.assert_array_equal(found[~finite], exact[~finite])
    np.testing.assert_allclose(found[finite], exact[finite], atol=1e-4)


OTHER_PRODUCTS = {
    "mma": PRODUCER.replace("64,64 mma=m64n64k16", "32,32 mma=m16n8k16")
    .replace("thread=1,1", "thread=2,2")
    .replace("split-inner-for-swizzle{bytes=128},", ""),
    "threads": "tileify,chunk-matmul-k{bk=16 vector=4},blockify-launch{block=64,32 thread=16,8},"
    "stage-inputs{budget=8192},register-tile{extents=4,4},double-buffer{depth=3},tma-copy,"
    "pipeline-k-outer{producer=1},mark-unroll{limit=8}",
}


@pytest.mark.parametrize("name", OTHER_PRODUCTS)
def test_a_producer_of_other_products(name: str) -> None:
    """Rings with a producer are for all kinds of loops, at ragged sizes."""
    case = product(72, 80, 200, w_turned=True)
    module = steps(case, OTHER_PRODUCTS[name])
    interpret(case, module, name)
    on_host(case, module, name, [{"order": o, "async_mode": mode} for o, mode in MODES])


MUTATED = [
    "plain", "plain, by TMA", "in flight", "apart", "plain, by TMA, with a producer",
    "by TMA, with a producer that keeps few registers", "in flight, by TMA, with a producer",
    "a cluster, by TMA, with a producer",
]  # fmt: skip
if os.environ.get("DLC_PREFIX"):  # more chunks than slots, several blocks: half a minute
    MUTATED.append("by TMA, with a producer that gives registers up")
TAKES_LESS = ("8 less", "kernel.set_max_registers: deleted")
"""Of what warpgroups have of registers: slower, and not wrong (`test_registers.py`)."""


@pytest.mark.parametrize("name", MUTATED)
def test_every_mutant_is_found(name: str) -> None:
    case, text = CASES[name]
    subject = Subject.of(case, "sm_90", text)
    assert subject.ordinary
    survivors = []
    for mutation in mutations(subject.module):
        op = list(subject.module.walk())[mutation.at]
        kinds = (*NEVER_EQUIVALENT, kernel.MatrixDescriptorOp, kernel.FenceProxyAsyncOp)
        if isinstance(op, (*kinds, kernel.SetMaxRegistersOp)):
            verdict = judge(subject, mutation)
            if not verdict.by:
                survivors.append(mutation.kind)
    assert not [kind for kind in survivors if not kind.endswith(TAKES_LESS)]
    takes = "kernel.set_max_registers: "
    assert survivors == ([f"{takes}8 less", TAKES_LESS[1], f"{takes}8 less"] if survivors else [])

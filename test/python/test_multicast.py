"""Blocks of a cluster that request for each other what they read alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from harness import STEPS, apply, interpret, lowered, on_host, scheduled
from loop_cases import Case
from mutants import Subject, judge, mutations
from test_tensor_cores import MODES, product
from test_wgmma_tiles import GROUPS, OTHER_PRODUCTS, PRODUCER, TMA
from xdsl.dialects.builtin import ModuleOp

from dlc.backend import LaunchError
from dlc.backend.executor import Executor
from dlc.backend.host.host_backend import HostBackend
from dlc.diagnostics import TextError
from dlc.dialects import kernel
from dlc.target import TARGETS


def clusters(text: str, counts: str) -> str:
    """A schedule in which so many blocks request each ring."""
    option = f"multicast={counts}"
    stored = text.replace("tma-copy{", f"tma-copy{{{option} ")
    return stored if stored != text else text.replace("tma-copy", f"tma-copy{{{option}}}")


FEW_SMS = replace(TARGETS["sm_90"], sms=4, gpcs=(2, 2))
"""Four SMs in parts of two, so that small products have more blocks."""


@pytest.fixture(autouse=True)
def _few_sms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "sm_90", FEW_SMS)


RESIDENT = PRODUCER.replace("producer=1", "producer=1 resident=1")
# Rows, columns and K of products, by the blocks of a cluster and what they share.
CASES: dict[str, tuple[Case, str]] = {
    "2 that share w": (product(136, 16, 264, w_turned=True), clusters(TMA, "1,2")),
    "2 that share x": (product(24, 72, 264, w_turned=True), clusters(TMA, "2,1")),
    "2 that share w, which lies along columns": (product(72, 24, 264), clusters(PRODUCER, "1,2")),
    "2 with a producer": (product(136, 8, 264, w_turned=True), clusters(PRODUCER, "1,2")),
    "4 that share both": (product(72, 72, 264, w_turned=True), clusters(PRODUCER, "2")),
    "4 in a row": (product(8, 136, 264), clusters(PRODUCER, "4,1")),
    "2 of few chunks": (product(72, 16, 128), clusters(PRODUCER, "1,2")),
    "2 of two slots": (
        product(72, 16, 264),
        clusters(PRODUCER.replace("depth=3", "depth=2"), "1,2"),
    ),
    "2 of two warpgroups that take registers": (
        product(136, 24, 264, w_turned=True),
        clusters(GROUPS.replace("producer=1", "producer=1 registers=40"), "1,2"),
    ),
    "2 of batches": (product(72, 8, 136, batch=2), clusters(PRODUCER, "1,2")),
    "2 by mma": (
        product(72, 24, 264, w_turned=True),
        clusters(OTHER_PRODUCTS["mma"], "1,2"),
    ),
    "2 by threads": (
        product(72, 24, 72, w_turned=True),
        clusters(OTHER_PRODUCTS["threads"], "1,2"),
    ),
    "2 in panels": (
        product(72, 200, 72),
        clusters(PRODUCER.replace("thread=1,1", "thread=1,1 group=2"), "1,2"),
    ),
    "2 resident": (product(264, 72, 264, w_turned=True), clusters(RESIDENT, "1,2")),
    "2 resident, in flight": (
        product(200, 24, 264, w_turned=True),
        clusters(RESIDENT.replace("producer=1", "producer=1 products=1"), "1,2"),
    ),
    "2 resident, of which one ends early": (
        product(328, 24, 200, w_turned=True),
        clusters(RESIDENT.replace("tma-copy", "tma-copy{store=1}"), "1,2"),
    ),
}


def steps(case: Case, text: str, count: int | None = None) -> ModuleOp:
    module = scheduled(case, text, "sm_90")
    apply(module, ",".join(STEPS[:count]))
    return lowered(module)


@pytest.mark.parametrize("name", CASES)
def test_products(name: str) -> None:
    case, text = CASES[name]
    module = steps(case, text)
    (func,) = (op for op in module.ops if isinstance(op, kernel.FuncOp))
    assert func.cluster_size == int(name.split(" ")[0])
    assert any(isinstance(op, kernel.TmaMulticastOp) for op in func.walk())
    interpret(case, module, name)
    on_host(case, module, name, [{"order": order, "async_mode": mode} for order, mode in MODES])


@pytest.mark.parametrize(
    "case", [product(72, 17, 136), product(136, 9, 72, w_turned=True)], ids=lambda c: c.name
)
def test_every_prefix(case: Case) -> None:
    """From where blocks are clusters on."""
    for count in range(STEPS.index("tma-copy") + 1, len(STEPS) + 1):
        module = steps(case, clusters(RESIDENT, "1,2"), count)
        interpret(case, module, f"{count} steps")
        on_host(case, module, f"{count} steps", [{"async_mode": "early"}])


def test_clusters_that_no_part_of_a_chip_has_room_for() -> None:
    """Four blocks, each alone on its SM, in parts of two SMs."""
    with pytest.raises(TextError, match="no part of sm_90 has SMs for a cluster of 4 blocks"):
        steps(product(8, 136, 264), clusters(RESIDENT, "4,1"))


WRONG = {
    "no barrier before": (kernel.ClusterBarrierOp, 0, "may not be initialized"),
    "no barrier after": (kernel.ClusterBarrierOp, 1, "may have ended|which has ended"),
    "nothing is released": (kernel.MbarrierArriveAtOp, 0, "cannot go on"),
    "a part is missing": (kernel.TmaMulticastOp, 0, "cannot go on"),
}


@pytest.mark.parametrize("name", WRONG)
def test_on_the_host(name: str) -> None:
    """Where blocks take turns, what is missing is told, too."""
    kind, number, message = WRONG[name]
    case = product(72, 8, 264, w_turned=True)
    module = steps(case, clusters(PRODUCER, "1,2"))
    [op for op in module.walk() if isinstance(op, kind)][number].detach()
    with pytest.raises(LaunchError, match=message):
        Executor(module, HostBackend())([torch.from_numpy(x) for x in case.inputs])


def test_every_mutant_is_found() -> None:
    """Of all that orders the blocks of a cluster, more chunks than slots, and turns."""
    subject = Subject.of(*MUTATED)
    assert subject.ordinary
    survivors: list[str] = []
    for mutation in mutations(subject.module):
        op = list(subject.module.walk())[mutation.at]
        if isinstance(op, ORDERING) and not (verdict := judge(subject, mutation)).by:
            survivors.append(f"{mutation.kind} {verdict.excuse}")
    assert not survivors


MUTATED = (
    product(200, 8, 136, w_turned=True),
    "sm_90",
    clusters(RESIDENT.replace("depth=3", "depth=2"), "1,2"),
)
ORDERING = (
    kernel.ClusterBarrierOp,
    kernel.FenceMbarrierInitOp,
    kernel.MbarrierArriveAtOp,
    kernel.MbarrierExpectTxOp,
    kernel.MbarrierInitOp,
    kernel.MbarrierWaitOp,
    kernel.TmaMulticastOp,
)

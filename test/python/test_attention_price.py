"""What a tiling of attention is estimated to take, against what is counted in its Kernel IR."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from test_fusion import TO_LOOPS, loops, run
from torch import Tensor

from dlc.analysis.kernel.shared_memory import shared_slots
from dlc.backend.kernel_program import isolated
from dlc.frontend.export.fx import import_program
from dlc.schedule.cascade_problem import CascadeProblem, tiled_cascade
from dlc.schedule.cascade_ranking import ranked_cascades, ranked_seconds
from dlc.schedule.cascade_tiles import PADDING, SHAPES
from dlc.schedule.heuristics import ranked_schedules
from dlc.schedule.scheduled_time import scheduled_seconds
from dlc.target import TARGETS
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS
from dlc.tuning.candidate_program import Subject

attention = torch.nn.functional.scaled_dot_product_attention
MOST = 3
"""Tilings that are lowered."""


@pytest.mark.parametrize(
    ("keys", "width", "is_causal"),
    [(512, 64, False), (512, 64, True), (512, 128, True), (2048, 64, False), (2048, 64, True)],
)
def test_the_price_is_what_is_counted(keys: int, width: int, is_causal: bool) -> None:
    """A tiling takes what the kernel does that it is lowered to, within 12 %: sweeps over
    rows, which some warps make, are counted for all."""
    shape = (1, 32, keys, width)
    module = loops(partial(attention, is_causal=is_causal), shape, shape, shape)
    run(module, "fuse-loops")
    compared = 0
    for name, alone in isolated(module):
        subject = Subject(alone, name)
        cascade, target = tiled_cascade(subject.kernel), subject.target
        if cascade is None or not cascade.problem.width:
            continue
        tilings = ranked_cascades(cascade.problem, target)[:MOST]
        schedules = ranked_schedules(subject.kernel, target, MOST)
        for tiling, schedule in zip(tilings, schedules, strict=True):
            if tiling.splits > 1:
                continue
            compared += 1
            (func,) = subject.funcs(schedule)
            counted = scheduled_seconds(func, target) - target.launch_seconds
            assert tiling.seconds == pytest.approx(counted, rel=0.12), schedule
            assert tiling.shared_bytes == shared_slots(func)[1]
    assert compared


@pytest.mark.parametrize("keys", [512, 4096])
def test_a_mask_that_is_added_is_read_where_it_lies(keys: int) -> None:
    """By the threads that add it, in one kernel: a slab of it would take the room of chunks."""

    def added(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(q @ k.mT / 8 + mask, -1) @ v

    shape = (1, 32, keys, 64)
    module = loops(added, shape, shape, shape, (keys, keys))
    run(module, "fuse-loops")
    ((name, alone),) = isolated(module)
    subject = Subject(alone, name)
    cascade, target = tiled_cascade(subject.kernel), subject.target
    assert cascade is not None
    tiling = ranked_cascades(cascade.problem, target)[0]
    (schedule,) = ranked_schedules(subject.kernel, target, 1)
    assert "buffers=q,k,v" in schedule
    (func,) = subject.funcs(schedule)
    counted = scheduled_seconds(func, target) - target.launch_seconds
    assert tiling.seconds == pytest.approx(counted, rel=0.12), schedule
    assert tiling.shared_bytes == shared_slots(func)[1]


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("mma", ["m16n8", "m64n"])
def test_the_shared_memory_of_warps_is_what_is_counted(mma: str, width: int) -> None:
    """Of halves, whose last row is not padded, if no parts of rows lie behind it; warpgroups pad
    none."""
    given = tuple(torch.empty(1, 32, 512, width, dtype=torch.bfloat16) for _ in range(3))
    module = import_program(attention, given, whole=DECOMPOSITIONS).module
    run(module, TO_LOOPS + ",fuse-loops")
    ((name, alone),) = isolated(module)
    subject = Subject(alone, name)
    cascade, target = tiled_cascade(subject.kernel), subject.target
    assert cascade is not None
    tilings = ranked_cascades(cascade.problem, target)
    number = next(n for n, tiling in enumerate(tilings) if tiling.mma.startswith(mma))
    schedule = ranked_schedules(subject.kernel, target, number + 1)[number]
    (func,) = subject.funcs(schedule)
    padding = PADDING if mma == "m16n8" and "parts=" not in schedule else 0
    assert tilings[number].shared_bytes - padding == shared_slots(func)[1]


HALVES = {"row_bytes": 128, "key_bytes": 128, "column_bytes": 2, "halves": True}
WHOLE = CascadeProblem(
    batch=2, rows=100, columns=16, keys=70, width=64, row_bytes=256, score_bytes=0, key_bytes=256,
    column_bytes=4, results=3, memory_bytes=1 << 17,
)  # fmt: skip


@pytest.mark.parametrize(
    "problem",
    [
        WHOLE,
        replace(WHOLE, rows=1, keys=3000),
        replace(WHOLE, rows=2, ends_early=True, keys=300),
        replace(WHOLE, width=0, row_bytes=0, key_bytes=0, score_bytes=4, batch=300, rows=17),
        replace(WHOLE, keys=256, columns=64, batch=40, **HALVES, matrices=True, boxes=True),
        replace(WHOLE, bounds=((1, -1, 0),), **HALVES),
    ],
)
def test_no_bound_hides_a_faster_tiling(problem: CascadeProblem) -> None:
    """They rise by what they take, though few are looked at to find the first."""
    target = TARGETS["sm_90"]
    found = ranked_cascades(problem, target)[:]
    assert found == sorted(found, key=lambda c: (ranked_seconds(c), c.ties))
    for tile in found:
        whole = replace(tile, splits=1, ending="workspace", waves=0)
        assert tile.waves or whole.least_seconds(tile.splits) < tile.seconds
    assert len(found) == len(dict.fromkeys(found)) > SHAPES

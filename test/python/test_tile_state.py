"""What the scheduling steps ask of a launch before they act, after each of a few schedules."""

from __future__ import annotations

import loop_cases
import pytest
from harness import apply, scheduled

from dlc.analysis.tile.tile_state import TileState, tile_state
from dlc.diagnostics import TextError
from dlc.dialects import tile
from dlc.dialects.axes import BLOCK

GEMM = loop_cases.gemm(64, 48, 40)
ROWS = loop_cases.softmax(32, 100)
BLOCKS = "tileify,chunk-matmul-k{bk=8},blockify-launch{block=16,16 thread=4,8}"
STAGED = f"{BLOCKS},stage-inputs{{budget=8192 buffers=x,w}}"


def state(case: loop_cases.Case, schedule: str) -> TileState:
    """The state of the first kernel after a schedule."""
    module = scheduled(case, schedule)
    apply(module, schedule, round_trip=False)
    return tile_state(next(op for op in module.walk() if isinstance(op, tile.KernelOp)).launch)


def names(values: object) -> list[str | None]:
    assert isinstance(values, list | tuple | frozenset)
    return [value.name_hint for value in values]


@pytest.mark.parametrize(
    ("case", "schedule", "partitioned"),
    [
        (GEMM, "tileify", False),
        (GEMM, "tileify,chunk-matmul-k{bk=8},split-matmul-k{splits=2}", False),
        (GEMM, BLOCKS, True),
        (GEMM, "tileify,blockify-launch{block=8,8 thread=8,8}", True),
        (GEMM, "tileify,blockify-launch{block=64,48 thread=8,8}", True),
        (ROWS, "tileify,cooperative-reduce{threads=8}", True),
    ],
)
def test_a_launch_is_partitioned_once_its_axes_are(
    case: loop_cases.Case, schedule: str, *, partitioned: bool
) -> None:
    assert state(case, schedule).is_partitioned == partitioned


def test_axes_that_share_a_reduce_are_not_free() -> None:
    before, after = (state(ROWS, s) for s in ("tileify", "tileify,cooperative-reduce{threads=8}"))
    assert (len(before.free), before.combined) == (1, frozenset())
    assert (after.free, names(after.combined)) == ([], ["t"])
    assert (before.threads, after.threads) == (32, 8)


def test_a_block_axis_alone_is_no_partition() -> None:
    split = state(GEMM, "tileify,split-matmul-k{splits=4}")
    assert names(split.launch.axes_of(BLOCK)) == ["ks"]
    assert split.threads == 64 * 48
    assert len(split.free) == 2


def test_buffers_are_stages_computed_slabs_and_rings() -> None:
    assert state(GEMM, BLOCKS).buffers == ()
    staged, ringed = state(GEMM, STAGED), state(GEMM, f"{STAGED},double-buffer{{depth=3}}")
    assert [type(b) for b in staged.buffers] == [tile.StageOp] * 2
    assert [type(b) for b in ringed.buffers] == [tile.RingOp] * 2
    assert staged.shared_bytes == (16 * 8 + 8 * 16) * 4
    assert ringed.shared_bytes == 3 * staged.shared_bytes


@pytest.mark.parametrize(
    ("schedule", "step", "reason"),
    [
        (STAGED, "chunk-reduce{bk=2}", "slabs are staged already for the loops that there are"),
        (
            f"{STAGED},double-buffer{{depth=2}}",
            "blockify-launch{block=2,2 thread=2,2}",
            "slabs are staged already for the blocks that there are",
        ),
        (
            "tileify,chunk-matmul-k{bk=8},stage-inputs{budget=8192}",
            "split-matmul-k{splits=2}",
            "slabs are staged already",
        ),
    ],
)
def test_slabs_fix_the_blocks_and_loops_that_they_are_staged_for(
    schedule: str, step: str, reason: str
) -> None:
    module = scheduled(loop_cases.gemm(16, 8, 40), schedule)
    apply(module, schedule, round_trip=False)
    before = str(module)
    with pytest.raises(TextError, match=reason):
        apply(module, step, round_trip=False)
    assert str(module) == before

"""What `--explain` tells of the options of steps: the values that their domains declare."""

from __future__ import annotations

import re

import loop_cases
import pytest
import torch
from harness import scheduled

import dlc
from dlc.dialects import tile
from dlc.target import get_target
from dlc.transforms.step import kernels_of
from dlc.transforms.step_choices import step_choices
from dlc.transforms.tile.mark_unroll import MarkUnrollPass
from dlc.transforms.tile.tileify import TileifyPass


def test_explain_tells_what_the_options_may_be() -> None:
    """Of the steps of the schedule, where there is a choice, in order, to be taken as they are."""
    made = dlc.compile(torch.matmul, (torch.randn(100, 90), torch.randn(90, 70)), "sm_90", "host")
    told = made.explain()
    named = [name.partition("{")[0] for name in made.kernels[0].schedule.split(",")]
    at = told.index("  options  ")
    steps = [line.split(":")[0].split()[-1] for line in told[at:].splitlines() if ": " in line]
    assert "chunk-matmul-k" in steps
    assert [step for step in named if step in steps] == steps
    assert re.search(r"chunk-matmul-k: bk \d+(, \d+)+; vector 1, 2, 4", told)


@pytest.mark.parametrize("schedule", ["tileify,mark-unroll{limit=4}", "tileify"])
def test_only_steps_of_the_schedule_have_choices(schedule: str) -> None:
    module = scheduled(loop_cases.softmax(5, 300), schedule)
    TileifyPass().act(kernels_of(module)[0], module)
    (kernel,) = kernels_of(module)
    assert isinstance(kernel, tile.KernelOp)
    found = step_choices(kernel, MarkUnrollPass, get_target("sm_90"))
    assert (found == {"limit": [1, 2, 4, 8, 16, 32]}) == ("mark-unroll" in schedule)
    assert not step_choices(kernel, TileifyPass, get_target("sm_90"))

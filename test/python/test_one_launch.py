"""Programs that ask for sums which end in their own launch: no second kernel folds parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import dlc
from dlc.dialects.host import LaunchOp
from dlc.judge.accuracy import compare
from dlc.schedule.endings import Parts, endings, fastest_ending
from dlc.target import get_target, set_target, target_of

PROGRAMS: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "few rows of attention": (
        F.scaled_dot_product_attention,
        ((1, 4, 8, 64), (1, 4, 2048, 64), (1, 4, 2048, 64)),
    ),
    "a product of few rows": (torch.matmul, ((16, 2000), (2000, 24))),
}


def given(name: str) -> tuple[Tensor, ...]:
    seed = torch.Generator().manual_seed(0)
    return tuple(torch.randn(s, generator=seed).to(torch.bfloat16) for s in PROGRAMS[name][1])


def launched(program: dlc.CompiledProgram) -> list[str]:
    module = program.variants[0].bound.module("kernel")
    return [str(op.kernel_name) for op in module.walk() if isinstance(op, LaunchOp)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_follows_what_blocks_share(name: str) -> None:
    f, args = PROGRAMS[name][0], given(name)
    program = dlc.compile(f, args, "sm_90", "host", one_launch=True)
    assert len(launched(program)) == 1
    assert {verdict.answer for verdict in program.check()} == {"clean"}
    found, exact = program(*args), f(*(x.double() for x in args))
    judged = compare(found, exact, f(*args), 2048)
    assert judged.ok, judged


def test_by_default_the_fastest_ending_is_taken() -> None:
    f, args = PROGRAMS["few rows of attention"][0], given("few rows of attention")
    assert len(launched(dlc.compile(f, args, "sm_90", "host"))) == 2


def test_the_ways_to_end() -> None:
    chip = get_target("sm_90")
    one = replace(chip, one_launch=True)
    assert endings(1, one) == endings(1, chip)
    assert endings(8, one) == ("last", "cluster")
    assert endings(32, one) == ("last",)
    assert endings(32, chip) == ("workspace", "last")
    assert endings(8, replace(get_target("sm_80"), one_launch=True)) == ("last",)
    assert fastest_ending(Parts(32, 10**6, 64, 1000, 4096), one) == "last"
    assert one.label != chip.label


def test_a_module_says_that_it_asks_for_it() -> None:
    f, args = torch.matmul, given("a product of few rows")
    program = dlc.compile(f, args, "sm_90", "host", one_launch=True)
    text = program.ir("loop")
    assert "dlc.one_launch" in text
    module = program.variants[0].bound.module("loop").clone()
    assert target_of(module).one_launch
    set_target(module, "sm_80")
    assert target_of(module).one_launch
    set_target(module, "sm_80", one_launch=False)
    assert not target_of(module).one_launch


def test_flags_are_flags() -> None:
    with pytest.raises(TypeError, match="expected True or False for one_launch, found 1"):
        dlc.compile(torch.relu, (torch.zeros(2),), one_launch=1)  # pyright: ignore[reportArgumentType]

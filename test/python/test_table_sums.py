"""Sums of integers at places that are data: by threads in memory, by blocks in their own tables."""

from __future__ import annotations

import loop_cases
import numpy as np
import pytest
import torch
from harness import apply, interpret, lowered, on_host, parse, scheduled
from loop_cases import Case
from loop_interpreter import run as run_loops
from test_printer import nvcc_takes
from test_rings import LAUNCHES

import dlc
from dlc.backend.cuda.print.printer import print_module
from dlc.dialects import kernel, loop
from dlc.dialects.kernel_memory import is_shared
from dlc.schedule.table_sums import adding_plans, adding_seconds
from dlc.target import get_target

CASES = (
    loop_cases.counted(1, 1),
    loop_cases.counted(0, 5),
    loop_cases.counted(211, 7),
    loop_cases.counted(64, 3),
    loop_cases.counted(97, 101),
    loop_cases.added(1, 1, 1),
    loop_cases.added(13, 1, 5),
    loop_cases.added(1, 17, 3),
    loop_cases.added(29, 11, 4),
    loop_cases.added(5, 0, 4),
)
WAYS = (
    "",
    "blockify-launch{{block={one}32 thread={one}32{tables}}}",
    "blockify-launch{{block={one}32 thread={one}8{tables}}}",
    "blockify-launch{{block={one}32 thread={one}8{tables}}},register-tile{{extents=4}}",
    "blockify-launch{{block={one}64 thread={one}8{tables}}},register-tile{{extents=4}}",
    "blockify-launch{{block={two}4 thread={two}2{tables}}},register-tile{{extents=2}}",
)
"""Schedules behind `tileify`: a point a thread, several one after the other or at once."""


def ways_of(case: Case) -> list[str]:
    rows = "added" in case.name
    texts = [
        way.format(one="1," if rows else "", two="8," if rows else "", tables=tables)
        for way in WAYS
        for tables in ("", " tables=true")
        if way or not tables
    ]
    return ["tileify" + (f",{text}" if text else "") for text in texts]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_way_to_deal_points(case: Case) -> None:
    """In the interpreter of loops, in the simulator, which finds hazards, and on the host."""
    for array, expected in zip(
        run_loops(parse(case.text), case.inputs), case.expected(*case.inputs), strict=True
    ):
        np.testing.assert_array_equal(array, expected)
    for schedule in ways_of(case):
        module = parse(case.text)
        apply(module, schedule)
        module = lowered(module)
        tables = [op for op in module.walk() if isinstance(op, kernel.AllocSharedOp)]
        assert len(tables) == ("tables" in schedule and "x0" not in case.name)
        interpret(case, module, schedule)
        on_host(case, module, schedule, LAUNCHES[::3])


@pytest.mark.parametrize("case", [CASES[2], CASES[8]], ids=lambda case: case.name)
def test_what_dlc_chooses(case: Case) -> None:
    module = scheduled(case, None)
    (chosen,) = (op for op in module.walk() if isinstance(op, loop.KernelOp))
    assert chosen.schedule is not None
    apply(module, chosen.schedule.data)
    module = lowered(module)
    interpret(case, module, chosen.schedule.data)
    on_host(case, module, chosen.schedule.data)


def test_sums_wrap_and_are_the_same_every_time() -> None:
    places = torch.randint(0, 4000, (2000,), generator=torch.Generator().manual_seed(0))
    x = torch.full((2000,), 2**62)

    def f(places: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(4000, dtype=torch.int64).index_add(0, places, x)

    compiled = dlc.compile(f, (places, x), target="sm_90", backend="host")
    for _ in range(2):
        torch.testing.assert_close(compiled(places, x), f(places, x), rtol=0, atol=0)


@pytest.mark.parametrize("ends", [(-3, 3), (0, 0)])
def test_numbers_at_the_ends_of_bins_are_where_pytorch_has_them(ends: tuple[int, int]) -> None:
    x = torch.randn(20000, generator=torch.Generator().manual_seed(0))

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.histc(x, 20000, *ends)

    compiled = dlc.compile(f, (x,), target="sm_90", backend="host")
    assert torch.equal(compiled(x), f(x))


def test_barriers_stand_between_zeros_sums_and_the_output() -> None:
    """Each is needed: without it, plain and atomic accesses of one table race."""
    case = CASES[2]
    module = parse(case.text)
    apply(module, "tileify,blockify-launch{block=32 thread=8 tables=true}")
    module = lowered(module)
    barriers = [op for op in module.walk() if isinstance(op, kernel.BarrierOp)]
    assert len(barriers) == 2
    for number in range(2):
        mutant = module.clone()
        gone = [op for op in mutant.walk() if isinstance(op, kernel.BarrierOp)][number]
        gone.detach()
        with pytest.raises(AssertionError, match="race"):
            interpret(case, mutant, "without a barrier")


def test_a_table_that_is_not_zeroed_is_found() -> None:
    case = CASES[2]
    module = parse(case.text)
    apply(module, "tileify,blockify-launch{block=32 thread=8 tables=true}")
    module = lowered(module)
    store = next(op for op in module.walk() if isinstance(op, kernel.StoreOp) and is_shared(op.ref))
    store.detach()
    with pytest.raises(AssertionError, match="uninitialized"):
        interpret(case, module, "without zeros")


def test_nvcc_takes_them() -> None:
    for case in (CASES[2], CASES[8]):
        for schedule in ways_of(case)[-2:]:
            module = parse(case.text)
            apply(module, schedule)
            nvcc_takes(print_module(lowered(module)), "sm_80")


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
def test_few_places_have_tables_and_many_have_none(target: str) -> None:
    chip = get_target(target)

    def plan(points: int, places: int) -> bool:
        (op,) = (
            op
            for op in parse(loop_cases.counted(points, places).text).walk()
            if isinstance(op, loop.KernelOp)
        )
        best = adding_plans(op, chip)[0]
        assert adding_seconds(op, chip) == best.seconds
        return best.tables

    assert plan(1_000_000, 100)
    assert plan(1_000_000, 1000)
    assert not plan(1000, 50_000)
    assert not plan(100_000, 1_000_000)  # more than a block can have

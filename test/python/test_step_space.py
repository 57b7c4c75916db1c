"""What the options of scheduling steps may be, as the steps declare it."""

from __future__ import annotations

from dataclasses import fields

import loop_cases
import pytest
from harness import STEPS, scheduled

from dlc.dialects import tile
from dlc.registry import OptionError, get_pass
from dlc.target import get_target
from dlc.transforms.step import Decline, SchedulingPass, kernels_of, parse_schedule
from dlc.transforms.step_space import Situation, Value, combinations, powers


def step_class(name: str) -> type[SchedulingPass]:
    cls = get_pass(name)
    assert issubclass(cls, SchedulingPass)
    return cls


@pytest.mark.parametrize("name", STEPS)
def test_every_option_has_a_domain(name: str) -> None:
    cls = step_class(name)
    options = [field.name for field in fields(cls)]
    assert list(cls.domains) == options
    for option in options:
        for value in cls.domains[option].values:
            cls.domains[option].check(option, value)


@pytest.mark.parametrize("name", STEPS)
def test_bounds_are_those_of_the_step(name: str) -> None:
    """One less than the least and one more than the most are refused, by the name of the option."""
    cls = step_class(name)
    for option, domain in cls.domains.items():
        for bound, by in ((domain.least, -1), (domain.most, 1)):
            if bound is None:
                continue
            several = "tuple" in str(cls.__annotations__[option])
            with pytest.raises(OptionError) as refusal:
                cls(**{option: (bound + by,) if several else bound + by})
            assert refusal.value.option == option


@pytest.mark.parametrize(
    "case",
    [loop_cases.gemm(100, 70, 90), loop_cases.softmax(5, 300), loop_cases.silu_mul(7, 130)],
    ids=lambda c: c.name,
)
def test_values_for_a_kernel_make_steps_that_are_obeyed_or_refused(case: loop_cases.Case) -> None:
    """The first and the last value of each option, at each state of the default schedule."""
    module = scheduled(case, None)
    (kernel,) = kernels_of(module)
    assert kernel.schedule is not None
    tried = 0
    for step in parse_schedule(kernel.schedule.data):
        (kernel, *_) = kernels_of(module)
        if isinstance(kernel, tile.KernelOp):
            tried += len(list(legal_steps(type(step), kernel)))
        step.act(kernel, module)
    assert tried > 2


def legal_steps(cls: type[SchedulingPass], kernel: tile.KernelOp) -> list[SchedulingPass]:
    """Steps of the first values of their options and of the last: all can be made."""
    made: list[SchedulingPass] = []
    for end in (0, -1):
        given: dict[str, Value] = {}
        try:
            for option, domain in cls.domains.items():
                values = domain.legal(Situation(kernel, get_target("sm_90"), given))
                assert values, (cls.name, option)
                given[option] = values[end]
        except Decline:
            continue
        made.append(cls(**given))
    return made


def test_sizes() -> None:
    assert list(powers(5)) == [1, 2, 4, 8]
    assert list(powers(1)) == [1]
    assert list(combinations([[1, 2], [1, 2, 4]], most=4)) == [
        (1, 1),
        (1, 2),
        (1, 4),
        (2, 1),
        (2, 2),
    ]
    assert list(combinations([])) == [()]

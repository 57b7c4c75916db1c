"""
Schedules drawn at random, and those of tilings that the estimate ranks first, run right on the
host, or are refused with a sentence.

`make test` judges a sample; with DLC_PREFIX set (`make prefix`), about a thousand.
"""

from __future__ import annotations

import os
from itertools import takewhile

import loop_cases
import pytest
from tuning_cases import subject

from dlc.tuning.searches import RandomSearch
from dlc.tuning.space import Space

CASES = (
    loop_cases.gemm(40, 36, 50),
    loop_cases.gemm(5, 12, 900),
    loop_cases.batched(3, 20, 17, 24),
    loop_cases.quotient_matmul(21, 30, 33),
    loop_cases.rotation(2, 11, 8, 40),
    loop_cases.softmax(5, 130),
    loop_cases.rms_norm(7, 250),
    loop_cases.silu_mul(7, 96),
    loop_cases.column_sum(70, 9),
    loop_cases.argmax(6, 77),
    loop_cases.moments(4, 65),
    loop_cases.running_sums(3, 70),
    loop_cases.sorted_rows(3, 64),
    loop_cases.sorted_rows(3, 64, 5),
    loop_cases.merged_rows(3, 64),
)
WHOLE = bool(os.environ.get("DLC_PREFIX"))
EACH = 84 if WHOLE else 2


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_random_schedules_run_right_or_are_refused(case: loop_cases.Case) -> None:
    of = subject(case)
    space = Space(of.module, of.name)
    expected = of.results(space.default)
    search = RandomSearch(space, seed=1)
    wrong: dict[str, str] = {}
    drawn = list(takewhile(bool, (search.propose() for _ in range(EACH))))
    ranked = [space.followed(text)[1].schedule for text in space.short_list(1 + EACH)[1:]]
    for schedule in filter(None, (*drawn, *ranked)):
        try:
            complaint = of.complaint(of.results(schedule), expected)
        except Exception as error:
            complaint = f"{type(error).__name__}: {error}"
        if complaint:
            wrong[schedule] = complaint
    assert not wrong
    assert len(drawn) > 1
    assert all(": " in reason for reason in search.refusals.values())

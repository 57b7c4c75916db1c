"""Kernels to be tuned, and objectives that are made up."""

from __future__ import annotations

from collections.abc import Callable

import loop_cases
from harness import parse
from xdsl.dialects.builtin import StringAttr

from dlc.backend.kernel_program import isolated
from dlc.target import TARGET_ATTRIBUTE
from dlc.tuning.candidate_program import Subject
from dlc.tuning.objectives import Objective, Score


def subject(case: loop_cases.Case) -> Subject:
    module = parse(case.text)
    module.attributes[TARGET_ATTRIBUTE] = StringAttr("sm_90")
    ((name, alone),) = isolated(module)
    return Subject(alone, name)


def fixed(score: Callable[[str], float]) -> Objective:
    """An objective that takes a number for a schedule."""
    return Objective("static", lambda _, schedule, __: Score(score(schedule)), True, "made up")

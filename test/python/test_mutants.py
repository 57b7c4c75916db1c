"""
Something objects to every mutant of the Kernel IR of every family (see `mutants`).

`make test` judges a sample. With DLC_PREFIX set (`make prefix`), all mutants of all families for
both targets are judged, and of pipelines of every depth over K loops of 1, 2, 3 and 7 chunks. At
the end of the run, `conftest` prints the kill rate and every mutant that survived, with what shows
that it is equivalent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import loop_cases
import numpy as np
import pytest
from harness import STEPS, apply, parse, scheduled
from mutants import NEVER_EQUIVALENT, Mutation, Subject, judge, mutations
from test_schedules import CONTRACTIONS, OTHERS, TARGETS, tiled

WHOLE = bool(os.environ.get("DLC_PREFIX"))
SAMPLED = 5
"""Of so many mutants that may be equivalent, one is in the sample."""
BK = 8


def pipeline(target: str, depth: int, chunks: int) -> Subject:
    """
    A ring of that depth over so many chunks of K, the last of which is ragged. No step makes a loop
    over one chunk: that is the first of two, by an edit of the text.
    """
    case = loop_cases.gemm(19, 20, BK * max(chunks, 2) - 4, transposed=True)
    schedule = tiled(target, bk=BK, splits=1, depth=depth, bytes=32)
    if chunks > 1:
        return Subject.of(case, target, schedule)
    module = scheduled(case, schedule, target)
    apply(module, ",".join(STEPS), round_trip=False)
    text = re.sub(r"(%n|%ko)(_\d+)? in 2\)", r"\1\2 in 1)", str(module))
    first = replace(case, expected=_of_the_first_chunk)
    return Subject.of_tile(first, target, parse(text))


def _of_the_first_chunk(
    x: loop_cases.Array, s: loop_cases.Array, w: loop_cases.Array, b: loop_cases.Array
) -> list[loop_cases.Array]:
    return [np.maximum((x + s)[:, :BK] @ w[:, :BK].T + b, 0)]


PIPELINES = [(t, d, c) for t in TARGETS for d in (2, 3, 4) for c in (1, 2, 3, 7)]


def subjects() -> dict[str, Callable[[], Subject]]:
    """By name."""
    found: dict[str, Callable[[], Subject]] = {
        f"{depth} slots, {chunks} chunks, {target}": partial(pipeline, target, depth, chunks)
        for target, depth, chunks in PIPELINES
    }
    for family in (*CONTRACTIONS, *OTHERS):
        for target in TARGETS:
            make = partial(Subject.of, family.case, target, family.schedules.get(target))
            found[f"{family.case.name}, {target}"] = make
    case = loop_cases.batched(2, 20, 24, 68)
    for target in TARGETS:
        last = ending_in_one(tiled(target, splits=3, depth=3))
        found[f"the last of 3 blocks, {target}"] = partial(Subject.of, case, target, last)
    cluster = ending_in_one(tiled("sm_90", splits=3, depth=3), "cluster")
    found["clusters of 3 blocks, sm_90"] = partial(Subject.of, case, "sm_90", cluster)
    rows = "tileify,cooperative-reduce{threads=32 vector=4 blocks=3},stage-inputs{budget=8192}"
    found["rows in clusters, sm_90"] = partial(
        Subject.of, loop_cases.row_norm(3, 300), "sm_90", rows
    )
    return found


def ending_in_one(schedule: str, combine: str = "last") -> str:
    """A schedule with a split whose last block, or cluster, folds the parts."""
    return re.sub(r' (?:then="[^"]*"|combine=\w+)', f" combine={combine}", schedule)


def ending_in_two(schedule: str) -> str:
    """A schedule with a split whose parts a second kernel combines."""
    return schedule.replace(" combine=last", "")


SUBJECTS = subjects()
SAMPLE = (
    "2 slots, 7 chunks, sm_80",
    "3 slots, 3 chunks, sm_80",
    "3 slots, 7 chunks, sm_90",
    "4 slots, 2 chunks, sm_90",
    "the last of 3 blocks, sm_80",
    "clusters of 3 blocks, sm_90",
    "rows in clusters, sm_90",
    "linear_13x20x40, sm_80",
    "rotation_2x9x10x28, sm_80",
    "window_2x30x8_10, sm_80",
    "softmax_6x100, sm_80",
    "column_sum_50x33, sm_80",
    "running_best_50x33, sm_80",
    "running_sums_5x77, sm_80",
    "merged_rows_5x64, sm_80",
    "first_3_of_5x64, sm_80",
)


def chosen(subject: Subject) -> list[Mutation]:
    """All mutations, or for the sample those that are never equivalent and some others."""
    found = list(mutations(subject.module))
    kinds = tuple(op.name for op in NEVER_EQUIVALENT)
    vital = [m for m in found if m.what == "deleted" and m.line.startswith(kinds)]
    return found if WHOLE else [*vital, *(m for m in found[::SAMPLED] if m not in vital)]


@pytest.mark.parametrize("name", SUBJECTS if WHOLE else SAMPLE)
def test_every_mutant_meets_an_objection(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    subject = SUBJECTS[name]()
    assert subject.ordinary is not None
    verdicts = [judge(subject, mutation) for mutation in chosen(subject)]
    survivors = [v for v in verdicts if not v.by]
    rows = [[v.mutation.kind, v.mutation.line, v.excuse or v.message] for v in survivors]
    record_property("mutants", [name, [v.by for v in verdicts], rows])
    unexplained = [f"{v.mutation.kind}: {v.mutation.line}" for v in survivors if not v.excuse]
    assert not unexplained, "\n".join(unexplained)
    vital = [op.name for op in NEVER_EQUIVALENT]
    assert not [v for v in survivors if v.mutation.kind.removesuffix(": deleted") in vital]


def test_pipelines_are_what_they_are_called() -> None:
    """Rings of as many slots as are asked for, filled by what the target has."""
    for target, depth, chunks in PIPELINES if WHOLE else PIPELINES[:: len(PIPELINES) - 1]:
        text = str(pipeline(target, depth, chunks).module)
        assert f"alloc_shared : memref<{depth}x16x8xf32" in text, (target, depth, chunks)
        assert ("kernel.tma_load" in text) == (target == "sm_90")
        assert ("kernel.cp_async" in text) == (target == "sm_80")
        assert f"{chunks} : index" in text


@pytest.mark.skipif(not WHOLE, reason="the sample is smaller")
def test_there_are_many() -> None:
    assert len(SUBJECTS) >= 12
    counts = [sum(1 for _ in mutations(make().module)) for make in SUBJECTS.values()]
    assert sum(counts) >= 300

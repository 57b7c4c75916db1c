"""
Every state between two scheduling steps is right: prefixes, left-out steps, random options.

Each state of a family of kernels verifies, is read back from its text, and its Kernel IR gives in
the interpreter, which also proves it free of races, what fp64 gives. States of equal text run once.
With DLC_PREFIX set (`make prefix`), every prefix is taken without every one of its steps, at more
sizes, and there are many more random schedules.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import loop_cases
import pytest
from fuzzing.schedules import THEN, as_schedule, random_schedule
from harness import STEPS, apply, interpret, lowered, obeyed, on_host, read_back, scheduled
from test_rings import LAUNCHES
from xdsl.dialects.builtin import ModuleOp

from dlc.remarks import collect

WHOLE = bool(os.environ.get("DLC_PREFIX"))
TARGETS = ("sm_80", "sm_90")


def tiled(
    target: str,
    *,
    bk: int = 4,
    splits: int,
    depth: int,
    extents: tuple[int, int] = (2, 2),
    bytes: int | None = None,
    compute: bool = False,
) -> str:
    """The schedule of a contraction in blocks of 8 x 8 threads, with each step that it can take."""
    rows, columns = (8 * n for n in extents)
    swizzle = "" if bytes is None else f"{{bytes={bytes}}}"
    copies = f"tma-copy,split-inner-for-swizzle{swizzle}"
    return (
        f"tileify,chunk-matmul-k{{bk={bk} vector=4}},"
        f'split-matmul-k{{splits={splits} then="{THEN}"}},'
        f"blockify-launch{{block={rows},{columns} thread=8,8 group=2}},"
        f"stage-inputs{{budget=24576{' compute=true' if compute else ''}}},"
        f"register-tile{{extents={extents[0]},{extents[1]}}},permute-register-tile,"
        f"double-buffer{{depth={depth}}},"
        f"{copies if target == 'sm_90' else 'async-copy'},pad-smem,pipeline-k-outer,"
        "mark-unroll{limit=8}"
    )


ROWS = (
    "tileify,cooperative-reduce{threads=8 rows=4 vector=4},chunk-reduce{bk=2},"
    "stage-inputs{budget=8192},mark-unroll{limit=4}"
)
SPLIT_ROWS = (
    'tileify,split-matmul-k{splits=3 then="tileify,stage-inputs{budget=4096},'
    'mark-unroll{limit=4}"},cooperative-reduce{threads=32 rows=2 vector=2},chunk-reduce{bk=1},'
    "stage-inputs{budget=8192},mark-unroll{limit=4}"
)
COLUMNS = (
    "tileify,cooperative-reduce{threads=8 rows=8 vector=1 order=rows},chunk-reduce{bk=2},"
    "stage-inputs{budget=8192},mark-unroll{limit=8}"
)
SCANNED_COLUMNS = "tileify,cooperative-reduce{threads=4 rows=8 vector=2 order=rows}"
SORTED = "tileify,cooperative-reduce{threads=16 rows=4 vector=4 order=rows}"
WARPS = "tileify,cooperative-reduce{threads=96 rows=1 vector=2},mark-unroll{limit=2}"
CASCADE = (
    "tileify,chunk-matmul-k{bk=8 vector=4},blockify-launch{block=8,8 thread=4,8 last=2 waves=2},"
    "stage-inputs{budget=20000 compute=true points=2,2},register-tile{extents=2},"
    "permute-register-tile,double-buffer{depth=2},async-copy,pad-smem,pipeline-k-outer,"
    "mark-unroll{limit=4}"
)
POINTS = (
    "tileify,blockify-launch{block=4,64 thread=2,16},stage-inputs{budget=4096},"
    "register-tile{extents=2,4},permute-register-tile,mark-unroll{limit=4}"
)


@dataclass(frozen=True)
class Family:
    """Kernels of one kind, and a schedule for each target in which as many steps act as can."""

    case: loop_cases.Case
    schedules: dict[str, str]
    more: tuple[loop_cases.Case, ...] = ()
    """Further sizes."""


def contraction(case: loop_cases.Case, *more: loop_cases.Case, **options: Any) -> Family:
    return Family(case, {target: tiled(target, **options) for target in TARGETS}, more)


def other(schedule: str, case: loop_cases.Case, *more: loop_cases.Case) -> Family:
    return Family(case, {TARGETS[0]: schedule}, more)


# Few points, so that there is time for many states; TMA takes rows of a multiple of 16 bytes only.
# More chunks for a block than a ring has slots show what is refilled too early.
PLAIN = contraction(
    loop_cases.gemm(21, 38, 44, transposed=True),
    loop_cases.gemm(20, 70, 33, transposed=True),
    loop_cases.gemm(1, 33, 64, transposed=True),
    bk=8,
    splits=2,
    depth=2,
    extents=(2, 4),
)
COMPUTED = contraction(
    loop_cases.silu_matmul(19, 20, 52),
    loop_cases.silu_matmul(19, 33, 71),
    loop_cases.silu_matmul(20, 36, 64),
    bk=8,
    splits=2,
    depth=2,
    bytes=64,
    compute=True,
)
CONTRACTIONS = (
    PLAIN,
    contraction(
        loop_cases.gemm(19, 20, 36),
        loop_cases.gemm(37, 50, 41),
        loop_cases.gemm(32, 64, 96),
        splits=3,
        depth=2,
    ),
    contraction(
        loop_cases.linear(13, 20, 40),
        loop_cases.linear(13, 17, 53),
        splits=2,
        depth=4,
        compute=True,
    ),
    contraction(
        loop_cases.scores(2, 21, 18, 24),
        loop_cases.scores(3, 19, 19, 13),
        bk=8,
        splits=2,
        depth=2,
        extents=(2, 4),
        bytes=32,
    ),
    contraction(
        loop_cases.batched(3, 17, 12, 28),
        loop_cases.batched(3, 17, 9, 21),
        loop_cases.batched(1, 17, 36, 28),
        splits=2,
        depth=3,
    ),
    COMPUTED,
    contraction(
        loop_cases.rotation(2, 9, 10, 28),
        loop_cases.rotation(3, 7, 3, 13),
        loop_cases.rotation(1, 18, 17, 64),
        loop_cases.rotation(3, 20, 32, 36),
        bk=8,
        splits=2,
        depth=2,
        bytes=32,
    ),
    contraction(
        loop_cases.attention(4, 2, 12, 4), loop_cases.attention(2, 2, 19, 7), splits=2, depth=2
    ),
)
HALVES = (
    contraction(
        loop_cases.halves(loop_cases.gemm(13, 21, 48, transposed=True)),
        loop_cases.halves(loop_cases.gemm(20, 70, 33, transposed=True)),
        loop_cases.halves(loop_cases.gemm(37, 48, 64)),
        loop_cases.halves(loop_cases.gemm(37, 50, 42)),
        loop_cases.halves(loop_cases.attention(4, 2, 12, 8)),
        bk=8,
        splits=2,
        depth=2,
        extents=(2, 4),
        compute=True,
    ),
    contraction(
        loop_cases.halves(loop_cases.silu_matmul(19, 40, 64)),
        loop_cases.halves(loop_cases.silu_matmul(19, 33, 71)),
        bk=16,
        splits=2,
        depth=3,
        extents=(2, 8),
        bytes=64,
    ),
)
OTHERS = (
    other(
        ROWS,
        loop_cases.halves(loop_cases.rms_norm(5, 72)),
        loop_cases.halves(loop_cases.softmax(6, 101)),
    ),
    other(ROWS, loop_cases.rms_norm(5, 68), loop_cases.rms_norm(3, 101)),
    other(ROWS, loop_cases.softmax(6, 100), loop_cases.softmax(40, 7), loop_cases.softmax(3, 1)),
    other(SPLIT_ROWS, loop_cases.row_norm(3, 101), loop_cases.row_norm(4, 128)),
    other(SPLIT_ROWS, loop_cases.argmax(5, 77), loop_cases.argmax(3, 1024)),
    other(SPLIT_ROWS, loop_cases.power_sums(5, 77), loop_cases.power_sums(3, 1024)),
    other(SPLIT_ROWS, loop_cases.deviations(5, 77), loop_cases.deviations(3, 1024)),
    other(SPLIT_ROWS, loop_cases.moments(3, 77), loop_cases.moments(5, 1024)),
    other(SPLIT_ROWS, loop_cases.total(1000), loop_cases.total(3), loop_cases.total(4096)),
    other(
        COLUMNS,
        loop_cases.column_sum(50, 33),
        loop_cases.column_sum(300, 64),
        loop_cases.gemm(1, 33, 50),
    ),
    other(
        ROWS,
        loop_cases.running_sums(5, 77),
        loop_cases.running_sums(3, 300),
        loop_cases.halves(loop_cases.running_sums(4, 128)),
    ),
    other(
        SCANNED_COLUMNS,
        loop_cases.running_best(50, 33),
        loop_cases.running_best(131, 20),
        loop_cases.running_best(64, 64),
    ),
    other(SORTED, loop_cases.sorted_rows(5, 64), loop_cases.sorted_rows(8, 64)),
    other(SORTED, loop_cases.merged_rows(5, 64), loop_cases.merged_rows(8, 64)),
    other(SORTED, loop_cases.sorted_rows(5, 64, 3), loop_cases.sorted_rows(8, 64, 16)),
    other(WARPS, loop_cases.running_product(1000), loop_cases.running_product(512)),
    other(
        POINTS,
        loop_cases.silu_mul(9, 70),
        loop_cases.silu_mul(8, 128),
        loop_cases.halves(loop_cases.silu_mul(8, 128)),
    ),
    other(POINTS, loop_cases.strided_pointwise(9, 70), loop_cases.strided_pointwise(70, 9)),
    other(POINTS, loop_cases.pad_pointwise(9, 70), loop_cases.pad_pointwise(33, 128)),
    other(
        CASCADE,
        loop_cases.window(2, 30, 8, 10),
        loop_cases.window(1, 61, 12, 100),
        loop_cases.window(3, 9, 4, 3),
    ),
    other(POINTS, loop_cases.gather(11, 40, 13), loop_cases.gather(3, 128, 40)),
)


def whole() -> Iterator[Family]:
    """Every family at each of its sizes."""
    for family in (*CONTRACTIONS, *HALVES, *OTHERS):
        yield from (replace(family, case=case) for case in (family.case, *family.more))


def quick() -> Iterator[Family]:
    """Every family once; the targets take turns but in those that show most."""
    for n, family in enumerate(CONTRACTIONS):
        targets = TARGETS if family in (PLAIN, COMPUTED) else (TARGETS[n % 2],)
        yield replace(family, schedules={t: family.schedules[t] for t in targets})
    yield replace(HALVES[0], schedules={"sm_90": HALVES[0].schedules["sm_90"]})
    yield from OTHERS


FAMILIES = list(whole() if WHOLE else quick())

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.case.name)


# States.

_SETTING = re.compile(r'schedule "(?:[^"\\]|\\.)*"|dlc\.target = "\w+"')
"""What a state says of steps to come; lowering does not read it."""
_seen: set[tuple[str, str]] = set()


def check(case: loop_cases.Case, module: ModuleOp, what: str) -> None:
    """A state is read back from its text, and computes what it should; equal ones run once."""
    if _is_known(case, text := str(module)):
        return
    read_back(text)
    code = lowered(module, round_trip=WHOLE)
    if _is_known(case, text := str(code)):
        return
    read_back(text)
    interpret(case, code, what)


def _is_known(case: loop_cases.Case, text: str) -> bool:
    key = (case.name, _SETTING.sub("", text))
    if key in _seen:
        return True
    _seen.add(key)
    return False


def run(module: ModuleOp, step: str) -> None:
    apply(module, step, round_trip=False)


@every_family
def test_every_prefix(family: Family) -> None:
    for target, schedule in family.schedules.items():
        module = scheduled(family.case, schedule, target)
        check(family.case, module, "no step")
        for n, step in enumerate(STEPS):
            run(module, step)
            check(family.case, module, f"{target}: {STEPS[: n + 1]}")


@pytest.mark.parametrize(
    "family",
    [f for f in FAMILIES if WHOLE or f in (PLAIN, COMPUTED, *OTHERS)],
    ids=lambda f: f.case.name,
)
def test_every_step_left_out(family: Family) -> None:
    """
    Of the whole schedule; for the whole matrix, of every prefix. Without a step that does nothing
    to the prefix before it, the states are those with it. Steps that need the one that is left out
    are refused.
    """
    for target, schedule in family.schedules.items():
        prefix = scheduled(family.case, schedule, target)
        for n, left_out in enumerate(STEPS):
            module, before = prefix.clone(), str(prefix)
            run(prefix, left_out)
            if str(prefix) == before:
                continue
            for step in STEPS[n + 1 :]:
                obeyed(module, step)
                if WHOLE or step == STEPS[-1]:
                    check(family.case, module, f"{target}: the steps to {step} without {left_out}")


def test_every_step_acts_somewhere() -> None:
    """Else the tests of prefixes would say nothing of it."""
    acting: dict[str, set[str]] = {target: set() for target in TARGETS}
    for family in (*CONTRACTIONS[:2], OTHERS[0]):
        for target, schedule in family.schedules.items():
            with collect() as remarks:
                run(scheduled(family.case, schedule, target), ",".join(STEPS))
            acting[target] |= {r.pass_name for r in remarks if not r.text.startswith("skipped")}
    assert acting["sm_80"] == set(STEPS) - {"tma-copy", "split-inner-for-swizzle"}
    assert acting["sm_90"] >= {"tma-copy", "split-inner-for-swizzle", "pipeline-k-outer"}


@every_family
def test_default_schedules(family: Family) -> None:
    for target in TARGETS if WHOLE else family.schedules:
        module = scheduled(family.case, None, target)
        for step in STEPS:
            run(module, step)
            if WHOLE:
                check(family.case, module, f"{target}: dlc's schedule to {step}")
        check(family.case, module, f"{target}: dlc's schedule")


@every_family
def test_whole_schedules_on_the_host(family: Family) -> None:
    for target, schedule in family.schedules.items():
        module = scheduled(family.case, schedule, target)
        run(module, ",".join(STEPS))
        on_host(family.case, lowered(module, round_trip=False), f"{target}: {schedule}", LAUNCHES)


EDGES = (
    loop_cases.gemm(1, 50, 40),
    loop_cases.gemm(127, 1, 40),
    loop_cases.gemm(5, 6, 1),
    loop_cases.gemm(5, 6, 0),
    loop_cases.gemm(0, 6, 5),
    loop_cases.gemm(64, 32, 16),
    loop_cases.gemm(32, 64, 16, transposed=True),
    loop_cases.softmax(1, 1),
    loop_cases.softmax(3, 1),
    loop_cases.softmax(2, 2048),
    loop_cases.softmax(33, 127),
    loop_cases.column_sum(1, 5),
    loop_cases.column_sum(0, 5),
    loop_cases.column_sum(5, 0),
    loop_cases.column_sum(300, 200),
    loop_cases.total(0),
    loop_cases.total(1),
    loop_cases.total(5000),
    loop_cases.argmax(3, 1030),
    loop_cases.power_sums(2, 1030),
    loop_cases.power_sums(1, 1),
    loop_cases.deviations(2, 1030),
    loop_cases.deviations(1, 1),
    loop_cases.pad_pointwise(1, 1),
    loop_cases.pad_pointwise(3, 1028),
    loop_cases.pad_pointwise(0, 4),
    loop_cases.silu_mul(1, 3),
    loop_cases.rms_norm(1, 2048),
    loop_cases.rotation(3, 7, 3, 13),
    loop_cases.rotation(1, 1, 1, 1),
    loop_cases.rotation(2, 18, 17, 40),
    loop_cases.rotation(2, 0, 4, 8),
    loop_cases.rotation(2, 5, 4, 0),
    loop_cases.running_sums(3, 1),
    loop_cases.running_sums(0, 5),
    loop_cases.running_sums(2, 0),
    loop_cases.running_sums(33, 127),
    loop_cases.running_sums(200, 600),
    loop_cases.sorted_rows(3, 1),
    loop_cases.sorted_rows(0, 4),
    loop_cases.sorted_rows(5, 2),
    loop_cases.sorted_rows(70, 16),
    loop_cases.sorted_rows(3, 512),
    loop_cases.sorted_rows(5, 8, 1),
    loop_cases.sorted_rows(3, 512, 50),
    loop_cases.merged_rows(3, 1),
    loop_cases.merged_rows(0, 4),
    loop_cases.merged_rows(5, 2),
    loop_cases.merged_rows(70, 16),
    loop_cases.merged_rows(3, 512),
    loop_cases.running_best(1, 7),
    loop_cases.running_best(300, 70),
    loop_cases.running_best(7, 300),
    loop_cases.running_product(0),
    loop_cases.running_product(1),
    loop_cases.running_product(5003),
)


@pytest.mark.parametrize("case", EDGES, ids=lambda c: c.name)
def test_edge_sizes(case: loop_cases.Case) -> None:
    module = scheduled(case, None)
    if case.longest < 100:
        check(case, module, "no step")
    run(module, ",".join(STEPS))
    check(case, module, "dlc's schedule")


@pytest.mark.parametrize(
    ("case", "right", "wrong"),
    [
        (loop_cases.sorted_rows(5, 64), "loop.sort", "loop.sort bitonic"),
        (loop_cases.sorted_rows(5, 64, 16), "sort first 16", "sort first 8"),
    ],
)
def test_sorts_of_too_little_are_found(case: loop_cases.Case, right: str, wrong: str) -> None:
    assert right in case.text
    module = scheduled(replace(case, text=case.text.replace(right, wrong)), SORTED)
    with pytest.raises(AssertionError):
        check(case, module, SORTED)


REENTERED = (
    "tileify,blockify-launch{{block=8,64 thread=4,8}},chunk-reduce{{bk={bk}}},"
    "stage-inputs{{budget=4096}},register-tile{{extents=2,8}},double-buffer{{depth={depth}}},"
    "async-copy,pipeline-k-outer"
)


@pytest.mark.parametrize(("size", "bk", "depth"), [(7, 1, 2), (12, 1, 3)])
def test_rings_of_loops_that_are_entered_again(size: int, bk: int, depth: int) -> None:
    """The sum of a score is a loop over chunks in a loop over scores."""
    case, schedule = loop_cases.attention(2, 2, 19, size), REENTERED.format(bk=bk, depth=depth)
    module = scheduled(case, schedule, "sm_80")
    run(module, ",".join(STEPS))
    assert str(module).count("tile.ring async") == 3
    check(case, module, schedule)


# Random schedules.


@every_family
@pytest.mark.parametrize("seed", range(20 if WHOLE else 1))
def test_random_schedules(family: Family, seed: int) -> None:
    rng = random.Random(f"{family.case.name} {seed}")
    steps = random_schedule(rng)
    module = scheduled(family.case, as_schedule(steps), rng.choice(TARGETS))
    for step in steps:  # by its bare name, or with the options on it
        obeyed(module, step if rng.random() < 0.2 else step.split("{")[0])
    check(family.case, module, ",".join(steps))

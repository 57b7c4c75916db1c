"""
The programs that dlc is measured on, from PyTorch to the host backend, against fp64.

The 84 cases of the suite run at their true sizes, every family of them at small and ragged ones.
With DLC_PREFIX set (`make prefix`) all of them run, else a few.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from itertools import product

import cases
import psutil
import pytest
import torch
from expected import judge, rounded

import dlc

WHOLE = bool(os.environ.get("DLC_PREFIX"))

MOST_FLOPS = 8e9
"""Of an fp64 reference: some seconds of a slow core."""
ROWS_OF_A_SAMPLE = 16
"""Rows of which a sample has one; tiles have as many rows or more."""
SPARE_BYTES = 2 << 30
"""What Python, PyTorch and the C++ compiler take beside the tensors of a case."""


def sample(case: cases.Case) -> list[int]:
    """The first and the last row of a case, and a random one of every few."""
    _, rows, _ = case.output
    rng = random.Random(case.name)
    starts = range(0, rows, ROWS_OF_A_SAMPLE)
    some = (rng.randrange(start, min(start + ROWS_OF_A_SAMPLE, rows)) for start in starts)
    return sorted({0, rows - 1, *some})


def assert_right(case: cases.Case, target: str, most_flops: float = MOST_FLOPS) -> None:
    """
    Runs a case under dlc's own schedule for a target and holds it to the accuracy rule.

    dlc and eager compute the whole. Where the fp64 reference takes more than `most_flops`, it is
    of a sample of the rows, to which the results are cut: the case is then a product of activations
    of shape (1, rows, ...), sampled along `rows` in each of them, with a weight, which stays whole.
    """
    generator = torch.Generator().manual_seed(0)
    drawn = {n: torch.randn(s, generator=generator) for n, s in case.inputs.items()}
    arguments = [*drawn.values(), *case.make_constants()]
    compiled = dlc.compile(case.function, arguments, target=target, backend="host")
    results = [compiled(*arguments), rounded(case.function, *arguments)]
    if case.flops > most_flops:
        chosen = torch.tensor(sample(case))
        results = [result[:, chosen] for result in results]
        arguments = [a[:, chosen] if a.shape[:1] == (1,) else a for a in arguments]
    exact = case.function(*(a.double() for a in arguments))
    accuracy = judge(results[0], exact, results[1], compiled.variants[0].longest_reduction)
    assert accuracy.ok, f"{case.name} on {target}: {accuracy}"


# True sizes.

QUICK = ("matmul.tl.kv_proj.s32", "rmsnorm.qw.s32", "sdpa.tl.s32", "silu_mul_matmul.tl.s32")


@pytest.mark.parametrize(
    "case", [c for c in cases.SUITE if WHOLE or c.name in QUICK], ids=lambda case: case.name
)
def test_true_sizes(case: cases.Case) -> None:
    needed = 3 * case.bytes + SPARE_BYTES  # fp32 and fp64
    if psutil.virtual_memory().available < needed:
        pytest.skip(f"{case.name} needs {needed / 2**30:.1f} GiB of free memory")
    assert_right(case, "sm_90")


def test_a_sample_has_rows_of_all_tiles() -> None:
    [case] = cases.select("^suite/matmul.tl.q_proj.s512$")
    rows = sample(case)
    assert rows == sample(case)
    assert (rows[0], rows[-1]) == (0, 511)
    assert {row // ROWS_OF_A_SAMPLE for row in rows} == set(range(32))


def test_a_sample_is_judged_as_the_whole_is() -> None:
    assert_right(cases.silu_mul_matmul("sampled", "small", 33, 40, 24), "sm_90", most_flops=0)


# Small sizes.


def batched(name: str, group: str, s: int, k: int, n: int) -> cases.Case:
    inputs = {"a": (3, s, k), "b": (3, k, n)}
    return cases.Case(name, group, inputs, "a @ b", (3, s, n), 6 * s * k * n)


Maker = Callable[[str, str, int, int, int], cases.Case]
FAMILIES: dict[str, Maker] = {
    "matmul": cases.matmul,
    "linear": cases.linear,
    "batched": batched,
    "matmul_add": cases.matmul_add,
    "silu_mul_matmul": cases.silu_mul_matmul,
    "rmsnorm": lambda name, group, s, k, n: cases.rms_norm(name, group, s, n),
    "silu_mul": lambda name, group, s, k, n: cases.silu_mul(name, group, s, n),
    "softmax": lambda name, group, s, k, n: cases.softmax(name, group, (1, 3, s, s)),
    "sdpa": lambda name, group, s, k, n: cases.sdpa(name, group, 4, 2, s, n // 8),
    "naive_attn": lambda name, group, s, k, n: cases.naive_attention(name, group, 3, s, n // 8),
}
SIZES = ((1, 64, 132), (5, 131, 67), (33, 100, 128), (100, 257, 61))
"""Rows, the length of a sum, columns: with and without rows of a multiple of 16 bytes."""


def small() -> Iterator[cases.Case]:
    """Every family at every size."""
    for (family, make), (s, k, n) in product(FAMILIES.items(), SIZES):
        yield make(f"{family}.{s}x{k}x{n}", "small", s, k, n)


SMALL = list(small())


def test_every_family_of_the_suite_is_here() -> None:
    assert {case.name.split(".")[0] for case in cases.SUITE} <= FAMILIES.keys()


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("case", SMALL if WHOLE else SMALL[::13], ids=lambda case: case.name)
def test_small_sizes(case: cases.Case, target: str) -> None:
    assert_right(case, target)

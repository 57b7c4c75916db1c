"""Ranges of sizes that have kernels of their own, where the estimate says that it is worth it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch.export import Dim

import dlc
from dlc.schedule import size_ranges
from dlc.schedule.size_ranges import box_of, fastest, joined, largest, part_of, parts_of, told
from dlc.shared_kernels import Made, SharedKernels

S = Dim("s", min=2, max=4096)


def test_ranges_end_at_powers_of_two() -> None:
    for n in (0, 1, 2, 3, 4, 5, 127, 128, 129):
        ((name, low, high),) = box_of({"s": n})
        assert name == "s"
        assert low <= n <= high
        assert {box_of({"s": m}) for m in (low, high)} == {box_of({"s": n})}
    assert box_of({"s": 128}) == box_of({"s": 127}) != box_of({"s": 129})
    assert largest({"b": 3, "s": 129}) == {"b": 4, "s": 256}


def test_ranges_have_parts() -> None:
    assert part_of({"s": 160}) == (("s", 129, 160),)
    for sizes in ({"s": 1}, {"s": 3}, {"b": 2, "s": 300}):
        parts, box = parts_of(box_of(sizes)), box_of(sizes)
        assert part_of(sizes) in parts
        assert joined(parts) == [box]


def test_neighbours_are_told_as_one() -> None:
    boxes = [box_of({"b": b, "s": s}) for b in (3, 2) for s in (300, 9, 17)]
    assert told(boxes) == "b from 2 to 4, s from 9 to 32 or b from 2 to 4, s from 257 to 512"
    assert joined([]) == []


def test_what_is_about_as_fast_is_kept() -> None:
    assert fastest(1.0, [3.0, 1.1, 2.0]) == 1
    assert fastest(1.0, [3.0]) is fastest(1.0, []) is fastest(1.0, [float("inf")]) is None


@dataclass
class Timed(Made):
    """Kernels that are scheduled for a size and take so long for others."""

    times: Callable[[int], float] = float

    def seconds(self, sizes: Mapping[str, int]) -> float:
        return self.times(sizes["s"])


@pytest.mark.parametrize(
    ("known", "own", "sizes", "made"),
    [
        (lambda n: 1.05 * n, float, (100, 300), [100]),  # about as fast in all of 257 to 512
        (lambda n: 1.05 * n if n < 512 else 1.2 * n, float, (100, 300), [100, 300]),
        (lambda n: n if n < 100 else 1.2 * n, float, (80, 127), [80, 127]),  # of 65 to 128
        (lambda n: n if n < 100 else 1.05 * n, float, (80, 127), [80]),
        (lambda n: n if n > 100 else 1.2 * n, float, (127, 80), [127]),  # as launches take
    ],
)
def test_what_pays_in_a_part_of_a_range_is_made(
    known: Callable[[int], float],
    own: Callable[[int], float],
    sizes: tuple[int, ...],
    made: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At its largest sizes, and where others take longer for an element than smaller ones do."""
    times = dict(zip(sizes, (known, own), strict=True))

    def make(program: Any, sizes: Mapping[str, int], *_: Any) -> Made:
        return Timed(sizes, {}, cast("Any", object()), times[sizes["s"]])

    shared, program = SharedKernels(multiples=False), SimpleNamespace(takes=lambda sizes: True)
    monkeypatch.setattr(shared, "_made", make)
    for n in sizes:
        shared.stages(cast("Any", program), {"s": n}, "f32", cast("Any", None))
    assert [m.sizes["s"] for m in shared._all] == made


@pytest.fixture
def softmax() -> dlc.CompiledProgram:
    return dlc.compile(
        partial(torch.softmax, dim=1),
        (torch.randn(4, 127),),
        "sm_90",
        "host",
        dynamic_shapes=({1: S},),
    )


def kernels_of(program: dlc.CompiledProgram) -> list[int]:
    """Which kernels each variant has, by the number of the first variant that has them."""
    stages = [id(variant.stages) for variant in program.variants]
    return [stages.index(one) for one in stages]


def test_small_and_large_sizes_take_other_kernels(
    softmax: dlc.CompiledProgram, tmp_path: pathlib.Path
) -> None:
    """
    Rows are walked in chunks, of as many elements as are likely; those of 129 are the fastest for
    65, too, which is of another part of its range than 127.
    """
    inputs = [torch.randn(4, n) for n in (127, 128, 129, 126, 255, 65)]
    for x in inputs:
        torch.testing.assert_close(softmax(x), torch.softmax(x, 1))
    assert kernels_of(softmax) == [0, 0, 2, 0, 2, 2]
    told = softmax.explain()
    multiples = "with s mod 4 == 0 for s from 65 to 128"
    assert told.startswith(f"kernels for s from 81 to 128; {multiples}; scheduled for s = 127\n")
    assert "\nkernels for s from 65 to 80 or s from 129 to 256; scheduled for s = 129\n" in told
    softmax.save(tmp_path / "saved.dlc")
    loaded = dlc.load_program(tmp_path / "saved.dlc", "host")
    for x in inputs:
        torch.testing.assert_close(loaded(x), torch.softmax(x, 1))
    assert loaded.explain().split("\n\n")[0] == told.split("\n\n")[0]


def test_a_program_has_at_most_so_many_kernels(
    softmax: dlc.CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last ones are for all sizes, which those of multiples are not."""
    monkeypatch.setattr("dlc.shared_kernels.MOST", 2)
    monkeypatch.setattr(size_ranges, "WORTH", 0)
    softmax.variants.clear()
    softmax.shared = type(softmax.shared)()
    for n in (128, 64, 9, 301):
        x = torch.randn(4, n)
        torch.testing.assert_close(softmax(x), torch.softmax(x, 1))
    assert kernels_of(softmax) == [0, 1, 1, 1]
    assert softmax.variants[0].sizes == {"s_by_4": 32}
    assert softmax.variants[1].sizes == {"s": 64}


def test_kernels_that_are_good_for_all_sizes_are_all() -> None:
    program = dlc.compile(
        torch.relu, (torch.randn(64, 8),), "sm_90", "host", dynamic_shapes=({0: S},)
    )
    for n in (3, 127, 128, 129, 1000):
        x = torch.randn(n, 8)
        torch.testing.assert_close(program(x), torch.relu(x))
    assert kernels_of(program) == [0] * 6
    told = "s from 3 to 4 or s from 33 to 256 or s from 513 to 1024"
    assert program.explain().startswith(f"kernels for {told}; scheduled for s = 64\n  relu: ")

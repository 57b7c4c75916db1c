"""Merges that would compute sums within sums are refused by a bound, which is no estimate."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product, takewhile

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dlc.analysis.loop.loops import share_held
from dlc.dialects.axes import new_body
from dlc.dialects.loop import ForOp, KernelOp
from dlc.frontend.export.fx import import_program
from dlc.ir.expr import Expr
from dlc.passes import steps
from dlc.pipeline import apply_pass, run_pipeline
from dlc.stages import compiler_context
from dlc.target import set_target
from dlc.transforms.loop.fusion.merging import Merged, Merges
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS

IMAGE = torch.randn(2, 16, 14, 14)
WIDE, NARROW = torch.randn(32, 16, 1, 1), torch.randn(8, 32, 3, 3)
ROWS, SQUARE = torch.randn(32, 64), torch.randn(64, 64)
SUMS: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "convolutions": (lambda x, a, b: F.conv2d(F.conv2d(x, a), b), (IMAGE, WIDE, NARROW)),
    "with padding": (
        lambda x, a, b: F.conv2d(F.conv2d(x, a).relu(), b, padding=1),
        (IMAGE, WIDE, NARROW),
    ),
    "of pieces": (
        lambda x, y, b: F.conv2d(torch.cat([F.conv2d(x, y), x, x[:, :8]], 1), b, padding=1),
        (IMAGE, WIDE[:8], NARROW),
    ),
    "strided": (
        lambda x, a, b: F.conv2d(F.avg_pool2d(F.conv2d(x, a), 3, 2, 1), b, stride=2),
        (IMAGE, WIDE, NARROW),
    ),
    "products": (lambda x, a, b: x @ a @ b @ a, (ROWS, SQUARE, SQUARE)),
    "transposed": (lambda x, a, b: (x @ a).t().reshape(32, 64) @ b, (ROWS, SQUARE, SQUARE)),
    "of a part": (lambda x, a, b: (x @ a)[:, 8:40:2] @ b[:16], (ROWS, SQUARE, SQUARE)),
    "triangles": (lambda x, a, b: x @ (a.tril() @ b.tril()), (ROWS, SQUARE, SQUARE)),
    "sums": (lambda x, a, b: (x @ a).sum(1) * (b * b).sum(), (ROWS, SQUARE, SQUARE)),
    "distances": (
        lambda x, a, b: ((x[:, None] - a[None]) ** 2).sum(2) @ b,
        (ROWS, SQUARE, SQUARE),
    ),
    "softmax": (lambda x, a, b: ((x @ a) / 8).softmax(1) @ b, (ROWS, SQUARE, SQUARE)),
}


@pytest.mark.parametrize("name", SUMS)
def test_no_merge_takes_less_than_its_bound(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built, bounded = Merges.merge, Merges.least_seconds
    told = list[bool]()

    def merge(
        merges: Merges, producer: KernelOp, consumer: KernelOp, *, stores: bool = False
    ) -> Merged | None:
        found = built(merges, producer, consumer, stores=stores)
        if found is not None and not stores:
            least = bounded(merges, producer, consumer)
            assert merges.target.launch_seconds <= least <= merges.facts_of(found).seconds
            told.append(least > merges.target.launch_seconds)
        return found

    monkeypatch.setattr(Merges, "merge", merge)
    monkeypatch.setattr(Merges, "least_seconds", lambda merges, *_: merges.target.launch_seconds)
    f, args = SUMS[name]
    program = import_program(f, args, whole=DECOMPOSITIONS)
    run_pipeline(compiler_context(), program.module, "loop")
    assert any(told) == (name not in ("transposed", "softmax"))


def test_what_a_bound_refuses_is_not_built_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def merge(*kernels: KernelOp, stores: bool = False) -> None:
        raise AssertionError("built")

    f = SUMS["products"][0]
    square = torch.empty(512, 512)
    args = (torch.empty(2048, 512), square, square)
    program = import_program(f, args, whole=DECOMPOSITIONS)
    set_target(program.module, "sm_90")
    for name in takewhile(
        lambda name: name != "share-kernels", (step.pass_name for step in steps())
    ):
        apply_pass(compiler_context(), program.module, name)
    monkeypatch.setattr(Merges, "_inlined", merge)
    remarks = apply_pass(compiler_context(), program.module, "fuse-loops")
    kept = [r.text for r in remarks if r.text.startswith("kept apart")]
    assert len(kept) == 2
    assert all("at least" in text for text in kept)


def test_the_share_of_points_at_which_a_condition_holds() -> None:
    loop = ForOp([5, 7, 3], new_body(3, ["i", "j", "k"]))
    i, j, k = map(Expr.of, loop.axes)
    for condition in (i * 2 - j + 1, k - 1, (i + j) // 2 - k, (j % 3) * 2 - i, Expr.of(3)):
        points = list(product(range(5), range(7), range(3)))
        held = sum(
            condition.evaluate(dict(zip(loop.axes, point, strict=True))) >= 0 for point in points
        )
        assert share_held([condition]) == pytest.approx(held / len(points))

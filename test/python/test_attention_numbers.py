"""Attention and its relatives by the numbers: each variant is one sweep, and as fp64 has it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from pathlib import Path

import pytest
import torch
from attention_variants import VARIANTS, Variant
from test_fusion import TO_LOOPS, kernels, run
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp, StringAttr

import dlc
from dlc.dialects.loop import ReduceOp
from dlc.frontend.export.fx import import_program
from dlc.judge.accuracy import compare
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS

LENGTHS = (1, 7, 100, 127, 129)
HALVES = (torch.float16, torch.bfloat16)


def fused(variant: Variant, inputs: Sequence[Tensor]) -> tuple[ModuleOp, list[str]]:
    """The program with all merged and joined that can be; the monoids of its reduces."""
    module = import_program(variant.program, tuple(inputs), whole=DECOMPOSITIONS).module
    run(module, TO_LOOPS)
    for kernel in kernels(module):
        kernel.attributes["fuse"] = StringAttr("always")
    run(module, "fuse-loops,join-cascades")
    return module, [op.monoid_name.data for op in module.walk() if isinstance(op, ReduceOp)]


def agrees(found: Tensor, variant: Variant, inputs: Sequence[Tensor]) -> None:
    exact = variant.program(*(x.double() if x.is_floating_point() else x for x in inputs))
    verdict = compare(found, exact, variant.program(*inputs))
    assert verdict.ok, str(verdict)


def assert_right(variant: Variant, inputs: Sequence[Tensor], folder: Path) -> list[str]:
    """That one kernel gives the right numbers; the monoids of its reduces."""
    module, folds = fused(variant, inputs)
    assert len(kernels(module)) == 1
    file = folder / "joined.mlir"
    file.write_text(str(module))
    agrees(dlc.load(file, backend="host")(*inputs), variant, inputs)
    return folds


def sizes(n: int) -> tuple[int, int]:
    """Rows and keys of the n-th variant: each length in turn, and with each other one."""
    return LENGTHS[n % 5], LENGTHS[(n // 5 + 2 * n + 1) % 5]


@pytest.mark.parametrize("number", range(len(VARIANTS)), ids=list(VARIANTS))
def test_each_is_one_sweep_of_one_kernel(number: int, tmp_path: Path) -> None:
    variant = list(VARIANTS.values())[number]
    rows, keys = sizes(number)
    folds = assert_right(variant, variant.draw(rows, max(keys, 2)), tmp_path)
    scores = ["add", "add"] if number == list(VARIANTS).index("cross entropy") else ["add"]
    assert sorted(folds) == [*scores, "expsum"]  # of a label again, as it is read by its number


def test_every_length_is_tried() -> None:
    drawn = [sizes(n) for n in range(len(VARIANTS))]
    assert {rows for rows, _ in drawn} == {keys for _, keys in drawn} == set(LENGTHS)


@pytest.mark.parametrize("name", VARIANTS)
def test_by_default(name: str) -> None:
    """At most three kernels, whether it pays to join them or not."""
    variant = VARIANTS[name]
    inputs = variant.draw(7, 9)
    compiled = dlc.compile(variant.program, tuple(inputs), backend="host", target="sm_90")
    assert len(compiled.kernels) <= 3
    agrees(compiled(*inputs), variant, inputs)


@pytest.mark.parametrize(
    "name",
    ["a scale", "an additive mask", "a boolean mask", "causal", "a window", "ALiBi", "soft-capped",
     "multi-query", "relative positions", "pooling"],
)  # fmt: skip
@pytest.mark.parametrize("rows", [1, 7])
def test_no_keys(name: str, rows: int, tmp_path: Path) -> None:
    variant = VARIANTS[name]
    inputs = variant.draw(rows, 0)
    module, _ = fused(variant, inputs)
    file = tmp_path / "empty.mlir"
    file.write_text(str(module))
    agrees(dlc.load(file, backend="host")(*inputs), variant, inputs)
    assert not dlc.load(file, backend="host")(*inputs).any()


@pytest.mark.parametrize("name", ["an additive mask", "a boolean mask", "lengths"])
def test_rows_of_which_all_is_masked(name: str, tmp_path: Path) -> None:
    """0 from the operation, NaN from a softmax by hand."""
    variant = VARIANTS[name]
    inputs = variant.draw(7, 9)
    inputs[3][2:4] = -(10**6) if name != "an additive mask" else -inf
    exact = variant.program(*inputs)
    assert exact[..., 2:4, :].isnan().all() if name == "lengths" else not exact[..., 2:4, :].any()
    assert_right(variant, inputs, tmp_path)


@pytest.mark.parametrize(
    "name",
    ["a scale", "causal", "a window", "ALiBi", "multi-query", "scaled results", "cross entropy",
     "pooling"],
)  # fmt: skip
def test_scores_of_ten_thousands(name: str, tmp_path: Path) -> None:
    """From -1e4 to 1e4, whose products are exact, so that differences are."""
    variant = VARIANTS[name]
    inputs = variant.draw(7, 33)
    inputs[0] = torch.full_like(inputs[0], 64.0)
    inputs[1] = torch.linspace(-39, 39, inputs[1].numel()).round().view(inputs[1].shape)
    if name == "pooling":
        inputs[0], inputs[1] = variant.draw(7, 33)[0].mul(8).round(), torch.full((4,), 512.0)
    folds = assert_right(variant, inputs, tmp_path)
    assert "expsum" in folds


@pytest.mark.parametrize("name", ["scaled results", "cross entropy", "a window"])
def test_infinities_and_nan(name: str, tmp_path: Path) -> None:
    variant = VARIANTS[name]
    inputs = variant.draw(7, 9)
    inputs[0].view(-1)[0], inputs[0].view(-1)[5], inputs[1].view(-1)[9] = nan, inf, -inf
    assert_right(variant, inputs, tmp_path)


@pytest.mark.parametrize("dtype", HALVES, ids=["f16", "bf16"])
@pytest.mark.parametrize(
    "name",
    ["an additive mask", "a boolean mask", "causal", "a window", "ALiBi", "soft-capped",
     "multi-query", "relative positions", "cross entropy", "pooling"],
)  # fmt: skip
def test_halves(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """
    A largest and a sum are joined; a product with probabilities is not, as these are rounded to the
    storage type before it, and a rounded power is no multiple of another.
    """
    variant = VARIANTS[name]
    number = list(VARIANTS).index(name)
    rows, keys = sizes(number + HALVES.index(dtype))
    folds = assert_right(variant, variant.draw(rows, max(keys, 2), dtype), tmp_path)
    assert folds.count("expsum") == 1
    assert "max" not in folds

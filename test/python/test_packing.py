"""Operands of contractions that are laid out as blocks fetch them give the same numbers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from harness import apply, parse
from test_dynamic_shapes import sized
from torch import Tensor
from torch.export import Dim
from xdsl.dialects.builtin import ModuleOp

import dlc
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp
from dlc.passes import STEPS
from dlc.simulator import run_module
from dlc.stages import Stages
from dlc.target import TARGETS, set_target

AFTER = [step.pass_name for step in STEPS]
AFTER = AFTER[AFTER.index("pack-operands") + 1 :]
Program = Callable[..., Any]

CONVOLUTIONS: tuple[tuple[str, Program, tuple[tuple[int, ...], ...]], ...] = (
    ("1d", lambda x, w: F.conv1d(x, w), ((2, 8, 37), (6, 8, 3))),
    ("2d", lambda x, w: F.conv2d(x, w, padding=1), ((1, 16, 5, 9), (7, 16, 3, 3))),
    ("3d", lambda x, w: F.conv3d(x, w, padding=1), ((1, 8, 2, 3, 9), (5, 8, 3, 3, 3))),
    ("strided", lambda x, w: F.conv2d(x, w, stride=2), ((1, 16, 5, 37), (9, 16, 3, 2))),
    ("dilated", lambda x, w: F.conv1d(x, w, dilation=3), ((2, 7, 29), (5, 7, 4))),
    ("grouped", lambda x, w: F.conv1d(x, w, groups=2), ((2, 16, 23), (6, 8, 3))),
    ("transposed", lambda x, w: F.conv_transpose1d(x, w), ((2, 8, 19), (8, 5, 3))),
    (
        "transposed, strided",
        lambda x, w: F.conv_transpose1d(x, w, stride=2, padding=1),
        ((16, 8, 40), (8, 16, 5)),
    ),
    (
        "transposed, of volumes",
        lambda x, w: F.conv_transpose3d(x, w, stride=2),
        ((1, 4, 3, 2, 5), (4, 3, 3, 3, 3)),
    ),
    ("of one point", lambda x, w: F.conv2d(x, w), ((1, 9, 6, 5), (4, 9, 1, 1))),
)


@pytest.fixture(autouse=True)
def merging(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Launches are so slow that the least product and its sum are merged."""
    if "chip" not in request.fixturenames:
        chip = dataclasses.replace(TARGETS["sm_90"], launch_seconds=1.0)
        monkeypatch.setitem(TARGETS, "sm_90", chip)


def whole(*shape: int) -> Tensor:
    """Small whole numbers, whose sums of products are exact in any order."""
    return torch.randint(-4, 5, shape).float()


def with_packed(program: Program, inputs: tuple[Tensor, ...]) -> tuple[ModuleOp, list[KernelOp]]:
    """A program of which all that can be packed is, and its kernels that pack."""
    module = parse(dlc.compile(program, inputs, target="sm_90").ir("tensor"))
    return module, packed(module)


def packed(module: ModuleOp) -> list[KernelOp]:
    """The kernels that pack what can be of a module of Tensor IR."""
    loops = [step.pass_name for step in STEPS if step.stage == "loop"]
    for step in loops[: loops.index("pack-operands")]:
        apply(module, step)
    apply(module, "pack-operands{always=true}")
    return [k for k in kernels_in(module, KernelOp) if "_packed" in k.name_]


def run(module: ModuleOp, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """What the simulator gives, which finds hazards."""
    for step in AFTER:
        apply(module, step, round_trip=False)
    return [torch.from_numpy(t) for t in run_module(module, [t.numpy() for t in inputs])]


@pytest.mark.parametrize(("name", "program", "shapes"), CONVOLUTIONS, ids=lambda v: str(v)[:24])
def test_weights_of_convolutions(
    name: str, program: Program, shapes: tuple[tuple[int, ...], ...]
) -> None:
    torch.manual_seed(len(name))
    inputs = tuple(whole(*shape) for shape in shapes)
    module, kernels = with_packed(program, inputs)
    assert kernels, name
    (found,) = run(module, inputs)
    assert torch.equal(found, program(*inputs))


def test_what_is_infinite_or_nan_stays_where_it_is() -> None:
    """A weight that no point of the image meets is multiplied with none."""
    x, w = whole(1, 8, 6), whole(8, 4, 5)
    w[0, 0, 4], w[1, 2, 0], x[0, 3, 5] = float("nan"), float("-inf"), float("inf")

    def program(x: Tensor, w: Tensor) -> Tensor:
        return F.conv_transpose1d(x, w, stride=2, padding=4)

    module, kernels = with_packed(program, (x, w))
    assert len(kernels) == 1
    (found,) = run(module, (x, w))
    torch.testing.assert_close(found, program(x, w), equal_nan=True, atol=0, rtol=0)


def test_halves_are_packed_in_runs_of_eight() -> None:
    x, w = torch.randn(2, 16, 30).bfloat16(), torch.randn(12, 16, 3).bfloat16()
    _, (kernel,) = with_packed(F.conv1d, (x, w))
    assert str(kernel.outputs[0].type) == "tensor<3x16x16xbf16>"


def test_products_of_matrices_that_lie_the_other_way() -> None:
    x, y = whole(19, 37).T, whole(23, 19).T
    module, kernels = with_packed(torch.matmul, (x, y))
    assert [str(k.outputs[0].type) for k in kernels] == ["tensor<19x40xf32>", "tensor<19x24xf32>"]
    (found,) = run(module, (x, y))
    assert torch.equal(found, x @ y)


def test_what_several_kernels_read_is_packed_once() -> None:
    """The same weights by one layout; another group of them is laid out another way."""
    inputs = whole(2, 16, 37), whole(3, 16, 23), whole(2, 32, 19), whole(6, 16, 3)

    def program(x: Tensor, y: Tensor, z: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        return F.conv1d(x, w), F.conv1d(y, w, stride=2).relu(), F.conv1d(z, w, groups=2)

    module, kernels = with_packed(program, inputs)
    assert [str(k.outputs[0].type) for k in kernels] == [
        "tensor<3x16x8xf32>",
        "tensor<2x3x16x4xf32>",
    ]
    for found, wanted in zip(run(module, inputs), program(*inputs), strict=True):
        assert torch.equal(found, wanted)


def test_operands_of_sizes_stay() -> None:
    """How blocks fetch them is known for numbers only."""
    inputs, sizes = (torch.randn(3, 16, 37), torch.randn(8, 16, 3)), ({0: Dim("b")}, None)
    module = sized(F.conv1d, inputs, sizes).module.clone()
    set_target(module, "sm_90", "f32")
    assert packed(Stages(module).module("tensor")) == []


@pytest.mark.parametrize("chip", ["sm_80", "sm_90", "sm_120"])
def test_it_is_done_where_it_pays(chip: str) -> None:
    """Weights of many images are packed, those of a single small one are not."""
    many, one = torch.empty(32, 64, 56, 56, device="meta"), torch.randn(1, 64, 7, 7)
    for x, expected in ((many, 2), (one, 1)):
        w = torch.empty(128, 64, 3, 3, device=x.device)
        text = dlc.compile(lambda x, w: F.conv2d(x, w, padding=1), (x, w), target=chip).ir("loop")
        assert text.count("loop.kernel @") == expected


@pytest.mark.parametrize("chip", ["sm_90"])
@pytest.mark.parametrize(("stride", "window", "padding"), [(2, 2, 0), (3, 3, 0), (2, 4, 1)])
def test_results_between_others_are_of_the_same_block(
    stride: int, window: int, padding: int, chip: str
) -> None:
    """Neighbouring threads store them: every result of a row, not each second or third."""
    inputs = whole(3, 8, 7, 17), whole(8, 19, window, window)

    def program(x: Tensor, w: Tensor) -> Tensor:
        return F.conv_transpose2d(x, w, stride=stride, padding=padding)

    made = dlc.compile(program, inputs, target=chip)
    found = [
        re.search(rf",8,{stride} thread=[\d,]+,8,{stride}}}", k.schedule) for k in made.kernels
    ]
    assert any(found)
    (found,) = run_module(parse(made.ir("kernel")), [t.numpy() for t in inputs])
    assert torch.equal(torch.tensor(found), program(*inputs))

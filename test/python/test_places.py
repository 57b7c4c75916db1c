"""Convolutions whose places are one axis give the same numbers."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from harness import apply, parse
from test_packing import AFTER, CONVOLUTIONS, Program, merging, run, whole
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

import dlc
from dlc.analysis.loop.oversights import oversights
from dlc.backend.executor import Executor
from dlc.backend.host.host_backend import HostBackend
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp
from dlc.passes import STEPS

__all__ = ["merging"]

MORE: tuple[tuple[str, Program, tuple[tuple[int, ...], ...]], ...] = (
    ("same, dilated", lambda x, w: F.conv2d(x, w, padding=(2, 1), dilation=(2, 1)),
     ((3, 5, 6, 7), (4, 5, 3, 2))),
    ("windows wider than images", lambda x, w: F.conv2d(x, w, padding=4),
     ((2, 4, 2, 3), (3, 4, 5, 7))),
    ("padded beyond", lambda x, w: F.conv1d(x, w, padding=6), ((4, 4, 9), (3, 4, 3))),
    ("grouped images", lambda x, w: F.conv2d(x, w, padding=1, groups=2),
     ((2, 8, 5, 5), (6, 4, 3, 3))),
    ("transposed, cropped", lambda x, w: F.conv_transpose2d(x, w, padding=2),
     ((2, 4, 6, 5), (4, 3, 4, 3))),
    ("transposed, output padding",
     lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
     ((2, 4, 5, 3), (4, 3, 3, 3))),
    ("transposed, dilated, grouped",
     lambda x, w: F.conv_transpose2d(x, w, stride=(2, 3), dilation=(2, 1), groups=2),
     ((2, 8, 4, 5), (8, 3, 3, 3))),
)  # fmt: skip
APART = {"strided", "of one point"}
"""Those of whose places none become one axis: with strides, and without windows."""


def flattened(program: Program, inputs: tuple[Tensor, ...]) -> tuple[ModuleOp, list[KernelOp]]:
    """A program whose places are one axis where they can be, and the kernels that lay out."""
    module = parse(dlc.compile(program, inputs, target="sm_90").ir("tensor"))
    loops = [step.pass_name for step in STEPS if step.stage == "loop"]
    for step in loops[: loops.index("flatten-places")]:
        apply(module, step)
    apply(module, "flatten-places{always=true}")
    return module, [k for k in kernels_in(module, KernelOp) if "_flat" in k.name_]


@pytest.mark.parametrize(
    ("name", "program", "shapes"), CONVOLUTIONS + MORE, ids=[c[0] for c in CONVOLUTIONS + MORE]
)
def test_convolutions(name: str, program: Program, shapes: tuple[tuple[int, ...], ...]) -> None:
    torch.manual_seed(len(name))
    inputs = tuple(whole(*shape) for shape in shapes)
    module, kernels = flattened(program, inputs)
    assert len(kernels) == (name not in APART), name
    assert list(oversights(module)) == []
    (found,) = run(module, inputs)
    assert torch.equal(found, program(*inputs))


def test_what_is_infinite_or_nan_stays_where_it_is() -> None:
    """What lies behind the end of a row is 0, and not of the row before or after it."""
    x, w, more = whole(2, 4, 5, 7), whole(3, 4, 3, 3), whole(2, 3, 5, 7)
    x[0, 1, 0, 6], x[0, 3, 4, 0], x[1, 0, 2, 3] = float("nan"), float("-inf"), float("inf")

    def program(x: Tensor, w: Tensor, more: Tensor) -> Tensor:
        return F.conv2d(x, w, padding=1).relu() + more

    module, kernels = flattened(program, (x, w, more))
    assert len(kernels) == 1
    (found,) = run(module, (x, w, more))
    torch.testing.assert_close(found, program(x, w, more), equal_nan=True, atol=0, rtol=0)


def test_halves_on_tensor_cores() -> None:
    x, w = whole(2, 16, 6, 7).bfloat16(), whole(16, 16, 3, 3).bfloat16()
    module, (kernel,) = flattened(lambda x, w: F.conv2d(x, w, padding=1), (x, w))
    assert str(kernel.outputs[0].type) == "tensor<16x152xbf16>"
    apply(module, ",".join(AFTER[AFTER.index("flatten-places") + 1 :]), round_trip=False)
    (found,) = Executor(module, HostBackend())([x, w])
    assert torch.equal(found, F.conv2d(x.float(), w.float(), padding=1).bfloat16())


@pytest.mark.parametrize("chip", ["sm_80", "sm_90", "sm_120"])
def test_it_is_done_where_it_pays(chip: str) -> None:
    """Volumes of 17 x 17 x 17 places leave blocks idle, images with rows of 64 do not."""
    cases = (8, 32, (16, 16, 16), True), (64, 128, (63, 63), False)
    for images, channels, extents, flat in cases:
        x = torch.empty(images, channels, *extents, device="meta")
        w = torch.empty(channels, channels // 2, *(3 for _ in extents), device="meta")
        f = F.conv_transpose3d if len(extents) == 3 else F.conv_transpose2d
        program = dlc.compile(lambda x, w, f=f: f(x, w, stride=2), (x, w), target=chip)
        assert ("@x_flat" in program.ir("loop")) == flat

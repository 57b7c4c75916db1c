"""Sums of factors that are taken before products are give the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from harness import apply, parse
from test_packing import merging, whole
from torch import Tensor, nn
from xdsl.dialects.builtin import ModuleOp, StringAttr

import dlc
from dlc.analysis.loop.oversights import oversights
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp
from dlc.dialects.main_function import attributes_of, main_of
from dlc.passes import STEPS
from dlc.simulator import run_module

__all__ = ["merging"]

After = Callable[[Tensor], Tensor]
AFTER = [step.pass_name for step in STEPS]
AFTER = AFTER[AFTER.index("reorder-sums") + 1 :]


class Both(nn.Module):
    """A layer, and what is done to what it gives."""

    def __init__(self, layer: nn.Module, after: After) -> None:
        super().__init__()
        self.layer, self.after = layer, after

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.layer(x))


class Left(nn.Module):
    """A parameter times the input, and another one to be added, that varies along columns, too."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.empty(5, 7)), nn.Parameter(torch.empty(5, 6))

    def forward(self, x: Tensor) -> Tensor:
        return self.a @ x + self.b


CASES: tuple[tuple[str, nn.Module, After, tuple[int, ...]], ...] = (
    ("pool", nn.Conv2d(3, 5, 3, padding=1), lambda y: F.avg_pool2d(y, 2), (2, 3, 7, 5)),
    ("pool of one point", nn.Conv2d(4, 3, 1, bias=False), lambda y: F.avg_pool2d(y, 2, 1),
     (1, 4, 4, 5)),
    ("strided, dilated", nn.Conv1d(3, 4, 2, stride=3, dilation=2, padding=2),
     lambda y: F.avg_pool1d(y, 3, 2), (2, 3, 23)),
    ("grouped", nn.Conv1d(4, 6, 3, groups=2), lambda y: y.sum(2), (2, 4, 9)),
    ("transposed", nn.ConvTranspose2d(3, 4, 3, padding=1), lambda y: y.mean((2, 3)), (2, 3, 4, 5)),
    ("scaled", nn.Conv1d(3, 4, 3), lambda y: (y * -0.5).mean(2), (2, 3, 9)),
    ("rows", nn.Linear(7, 5), lambda y: y.sum(0), (6, 7)),
    ("columns", Left(), lambda y: y.sum(1), (7, 6)),
)  # fmt: skip
WINDOWS: tuple[tuple[str, nn.Module, After, tuple[int, ...]], ...] = (
    ("pool", nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1), lambda y: F.avg_pool2d(y, 2),
     (2, 3, 4, 3)),
    ("pool of two of a class", nn.ConvTranspose1d(2, 3, 4, stride=2), lambda y: F.avg_pool1d(y, 4),
     (2, 2, 7)),
    ("mean of padded places", nn.ConvTranspose1d(3, 2, 3, stride=2, padding=1, output_padding=1),
     lambda y: (y / 4).mean(2), (2, 3, 5)),
    ("mean of odd places", nn.ConvTranspose1d(3, 2, 3, stride=2), lambda y: y.mean(2), (2, 3, 5)),
    ("dilated", nn.ConvTranspose1d(2, 3, 4, stride=3, dilation=2, padding=2),
     lambda y: F.avg_pool1d(y, 3), (1, 2, 6)),
    ("dilated by half", nn.ConvTranspose1d(2, 3, 3, stride=4, dilation=2, padding=1),
     lambda y: F.avg_pool1d(y, 4), (1, 2, 5)),
    ("grouped", nn.ConvTranspose1d(4, 6, 5, stride=2, groups=2, output_padding=1),
     lambda y: F.avg_pool1d(y, 2, 2), (2, 4, 6)),
)  # fmt: skip
"""Transposed convolutions with strides, whose places meet other points of the window by turns."""
KEPT: tuple[tuple[str, nn.Module, After, tuple[int, ...]], ...] = (
    ("a row", nn.Linear(7, 5), lambda y: y.sum(0), (1, 7)),
    ("no rows", nn.Linear(7, 5), lambda y: y.sum(0), (0, 7)),
    ("padded", nn.Conv1d(3, 4, 3), lambda y: F.avg_pool1d(y, 2, padding=1), (1, 3, 8)),
    ("not linear", nn.Linear(7, 5), lambda y: y.relu().sum(0), (6, 7)),
    ("scaled by infinity", nn.Linear(7, 5), lambda y: (y * torch.inf).sum(0), (6, 7)),
    ("read twice", nn.Linear(7, 5), lambda y: y - y.mean(0), (6, 7)),
    ("of weights", nn.Linear(7, 6), lambda y: y.sum(1), (6, 7)),
    (
        "window of a point of a class",
        nn.ConvTranspose1d(3, 2, 2, stride=3, padding=1),
        lambda y: y.sum(2),
        (1, 3, 4),
    ),
    (
        "every second place",
        nn.ConvTranspose1d(3, 4, 3, stride=2),
        lambda y: F.avg_pool1d(y, 1, 2).sum(2),
        (2, 3, 5),
    ),
    (
        "windows across classes",
        nn.ConvTranspose1d(3, 4, 3, stride=2),
        lambda y: F.avg_pool1d(y, 3, 3),
        (2, 3, 5),
    ),
)


def reordered(case: tuple[str, nn.Module, After, tuple[int, ...]]) -> tuple[nn.Module, ModuleOp]:
    """A program of whole numbers, and its Loop IR with all sums reordered that can be."""
    name, layer, after, shape = case
    torch.manual_seed(len(name))
    for parameter in layer.parameters():
        parameter.data = whole(*parameter.shape)
    model = Both(layer, after).eval().requires_grad_(False)
    module = parse(dlc.compile(model, (torch.zeros(shape),), target="sm_90").ir("tensor"))
    for step in ("lift-to-loops", "canonicalize-loops", "hoist-invariants"):
        apply(module, step)
    apply(module, "reorder-sums{always=true}")
    return model, module


def run(model: nn.Module, module: ModuleOp, x: Tensor) -> Tensor:
    """What the simulator gives of a program after the passes that follow, which finds hazards."""
    for step in AFTER:
        apply(module, step, round_trip=False)
    known = dict(model.named_parameters())
    names = [given.get("dlc.name") for given in attributes_of(main_of(module))]
    arguments = [known.get(n.data, x) for n in names if isinstance(n, StringAttr)]
    (found,) = run_module(module, [t.numpy() for t in arguments])
    return torch.from_numpy(found)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_sums(case: tuple[str, nn.Module, After, tuple[int, ...]]) -> None:
    model, module = reordered(case)
    assert any("_summed" in kernel.name_ for kernel in kernels_in(module, KernelOp))
    assert list(oversights(module)) == []
    x = whole(*case[3])
    torch.testing.assert_close(run(model, module, x), model(x), atol=0, rtol=1e-6)


@pytest.mark.parametrize("case", WINDOWS, ids=lambda case: case[0])
def test_windows(case: tuple[str, nn.Module, After, tuple[int, ...]]) -> None:
    """Places of all classes are summed as one sum over a window, of what is not finite, too."""
    model, module = reordered(case)
    assert not any(kernel.name_.startswith("product") for kernel in kernels_in(module, KernelOp))
    assert list(oversights(module)) == []
    x = whole(*case[3])
    x[0, 0, 1], x[-1, -1, -1] = torch.inf, torch.nan
    expected = model(x)
    torch.testing.assert_close(run(model, module, x), expected, equal_nan=True, atol=0, rtol=1e-6)


@pytest.mark.parametrize("case", KEPT, ids=lambda case: case[0])
def test_others_stay(case: tuple[str, nn.Module, After, tuple[int, ...]]) -> None:
    _, module = reordered(case)
    assert not any("_summed" in kernel.name_ for kernel in kernels_in(module, KernelOp))
    arguments, inside = main_of(module).body.block.args, {*module.walk()}
    assert all(use.operation in inside for tensor in arguments for use in tensor.uses)


def test_what_is_infinite_or_nan_stays_where_it_is() -> None:
    model, module = reordered(CASES[0])
    x = whole(*CASES[0][3])
    x[0, 0, 2, 2], x[0, 1, 5, 4], x[0, 2, 5, 4] = torch.inf, torch.inf, -torch.inf
    x[1, 0, 0, 0] = torch.nan
    torch.testing.assert_close(run(model, module, x), model(x), equal_nan=True, atol=0, rtol=1e-6)


def test_it_is_done_where_it_pays() -> None:
    """Windows that do not overlap are fewer than their points, others are as many."""
    with torch.device("meta"):
        layer, x = nn.Conv2d(64, 64, 1).requires_grad_(False), torch.empty(32, 64, 56, 56)
        for stride, pays in (2, True), (1, False):
            model = Both(layer, lambda y, stride=stride: F.avg_pool2d(y, 2, stride))
            assert ("%x_summed" in dlc.compile(model, (x,), target="sm_80").ir("loop")) == pays

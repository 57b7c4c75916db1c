"""Frames that overlap and windows that are put back: one kernel, whatever their sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

import dlc
from dlc.frontend.aten.overlapping import col2im, unfold_backward
from dlc.judge.accuracy import compare

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("length", "size", "step"), [(17, 5, 2), (20, 4, 4), (21, 3, 5), (9, 9, 1), (30, 7, 1)]
)
def test_frames(length: int, size: int, step: int) -> None:
    count = (length - size) // step + 1
    for dim, sizes in ((0, [length]), (1, [2, length, 3]), (-1, [2, 3, length])):
        shape = [count if n == length else n for n in sizes]
        frames = torch.randn(*shape, size, dtype=torch.float64)
        given = sizes, dim, size, step
        found, expected = unfold_backward(frames, *given), aten.unfold_backward(frames, *given)
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride()


@pytest.mark.parametrize("dilation", [(1, 1), (2, 3)])
@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
def test_windows(dilation: tuple[int, int], padding: tuple[int, int]) -> None:
    kernels, strides = [(2, 3), (1, 1), (3, 2)], [(1, 1), (2, 1), (3, 2)]
    for image, kernel, stride in itertools.product([(9, 8), (7, 11)], kernels, strides):
        given = image, kernel, dilation, padding, stride
        windows = F.unfold(torch.randn(2, 3, *image).double(), *given[1:])
        for columns in (windows, windows[0], windows.transpose(1, 2).contiguous().mT):
            found, expected = col2im(columns, *given), aten.col2im(columns, *given)
            torch.testing.assert_close(found, expected)
            assert found.stride() == expected.stride()


FRAMES = 6
"""That overlap at a point, at most."""


def fold(x: torch.Tensor) -> torch.Tensor:
    return F.fold(x, (15, 17), (3, 2), dilation=2, padding=1, stride=2)


def inverse(x: torch.Tensor) -> torch.Tensor:
    return torch.istft(x, 32, 8, window=torch.hann_window(32), length=100)


CASES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]] = {
    "fold": (fold, torch.randn(2 * 6, 7 * 9)),
    "fold in halves": (fold, torch.randn(3, 6, 7 * 9).bfloat16()),
    "fold of no number": (fold, torch.full((6, 7 * 9), float("inf")).fill_diagonal_(-torch.inf)),
    "istft": (inverse, torch.randn(2, 17, 17, dtype=torch.complex64)),
}


@pytest.mark.parametrize("name", CASES)
def test_one_kernel(name: str) -> None:
    function, x = CASES[name]
    compiled = dlc.compile(function, (x,), backend="host")
    assert len(compiled.kernels) == 1
    found, expected = compiled(x), function(x)
    exact = function(x.double()) if not x.is_complex() else function(x.to(torch.complex128))
    if x.dtype.itemsize == 2:  # where eager rounds after each frame
        judged = compare(found, exact, expected, FRAMES)
        assert judged.ok, judged
    else:
        scale = exact[exact.isfinite()].abs().max() if exact.isfinite().any() else 1.0
        close = {"equal_nan": True, "rtol": 0, "atol": float(scale) * 1e-6}
        torch.testing.assert_close(found.double(), exact.double(), **close)
    assert (found.dtype, found.stride()) == (expected.dtype, expected.stride())

"""Tensor IR of programs for all sizes: `specialize` commutes with the passes that make it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from test_dynamic_shapes import AUTO, PROGRAMS, Make, rows, sized
from torch import nn
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from dlc.error_report import file_line_col
from dlc.pipeline import apply_step, text_of
from dlc.stages import compiler_context
from dlc.transforms.tensor.decompose_torch import SizeNeeded
from dlc.transforms.tensor.specialize import specialize

SIZES = (24, 2, 3, 7, 64, 65)
CLEANING = ("compose-index-maps", "fold-constants")
"""Passes that find more once sizes are numbers."""


def viewed(x: torch.Tensor) -> torch.Tensor:
    y = x.view(-1, 4).unsqueeze(1).expand(-1, 3, -1).reshape(x.shape[0], 6, 4)
    return y.permute(1, 0, 2)[..., 1:].flatten(1) + x[:, :1].repeat(1, 3).reshape(1, -1)


def folded(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        x.amax(0),
        x.sum(),
        x.argmax(0),
        x.logsumexp(0),
        x.cumsum(1),
        x.var(0),
        x.var(1),
        (x > 0).any(1),
    )


def counted(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = (x - x.mean(0)) * x.shape[0] + 2.0
    return y, F.layer_norm(x.T, x.shape[:1]), x.half() / (x.shape[0] * 3), x.mean() + 24


def split_and_joined(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, 1)
    return torch.cat([b, a * 2, torch.zeros_like(a)], 1) + torch.stack([x.sum(1)] * 12, 1)


def masked(x: torch.Tensor) -> torch.Tensor:
    return torch.tril(x @ x.T).softmax(-1) @ x


def joined_sizes(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = (x @ x.T).flatten()
    return y * 2, x.repeat(3, 2), x.repeat(x.shape[0], 1).exp(), y.view(x.shape[0], -1).sum(0)


CASES: dict[str, tuple[Callable[..., Any], Make, Any]] = {
    "joined sizes": (joined_sizes, rows, ({0: AUTO},)),
    **{name: PROGRAMS[name] for name in ("columns", "attention", "words", "pieces", "complex")},
    **{name: PROGRAMS[name] for name in ("transposed", "apart")},
    "counted": (counted, rows, ({0: AUTO},)),
    "views": (viewed, rows, ({0: AUTO},)),
    "folds": (folded, rows, ({0: AUTO},)),
    "joined": (split_and_joined, rows, ({0: AUTO},)),
    "masked": (masked, rows, ({0: AUTO},)),
    "layer": (
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(),
        lambda n: (torch.randn(3, n, 16),),
        ({1: AUTO},),
    ),
    "ends": (
        lambda x: torch.cat([x.flip(0), x[-1:], x[1:].neg(), x[:-1]]).cumsum(0) + x[-1],
        rows,
        ({0: AUTO},),
    ),
    "convolution": (
        lambda x, w: F.relu(F.conv2d(x, w, padding=1)),
        lambda n: (torch.randn(n, 3, 8, 8), torch.randn(4, 3, 3, 3)),
        ({0: AUTO}, None),
    ),
}


def lowered(module: ModuleOp, *passes: str) -> ModuleOp:
    context, module = compiler_context(), module.clone()
    for name in passes:
        apply_step(context, module, name)
    return module


@pytest.mark.parametrize("name", CASES)
def test_specialize_commutes_with_the_passes_to_tensor_ir(name: str) -> None:
    f, make, shapes = CASES[name]
    program = sized(f, make(24), shapes)
    decomposed = lowered(program.module, "decompose-torch")
    cleaned = lowered(decomposed, *CLEANING)
    for module in (decomposed, cleaned):
        again = Parser(compiler_context(), text := text_of(module)).parse_module()
        again.verify()
        assert text_of(again) == text
    for n in SIZES:
        sizes = program.sizes_of(make(n))
        if sizes is None:
            assert n == 2  # where something is of one element
            continue
        ours = [module.clone() for module in (program.module, decomposed, cleaned)]
        for module in ours:
            specialize(module, sizes)
            module.verify()
        ours[0] = lowered(ours[0], "decompose-torch")
        assert text_of(ours[0]) == text_of(ours[1])
        assert text_of(lowered(ours[0], *CLEANING)) == text_of(lowered(ours[2], *CLEANING))


@pytest.mark.parametrize(
    ("f", "size"),
    [
        (lambda x: x.std(0, correction=0.5), "x_0"),
        (lambda x: x.roll(x.shape[0] - 3, 0), "x_0 - 3"),
    ],
)
def test_what_needs_a_number_says_of_which_size_and_where(f: Any, size: str) -> None:
    program = sized(f, rows(4), ({0: AUTO},))
    with pytest.raises(SizeNeeded, match=f"needs a number for {size}") as failure:
        lowered(program.module, "decompose-torch")
    place = file_line_col(failure.value.op.location)
    assert place is not None
    assert place.line.data == f.__code__.co_firstlineno

"""Kernels that store pieces of one tensor: concatenations in place."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from harness import apply, parse
from torch import nn

import dlc
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp
from dlc.passes import STEPS
from dlc.simulator import run_module
from dlc.target import TARGETS

LOOPS = [step.pass_name for step in STEPS if step.stage == "loop"]
AFTER = [step.pass_name for step in STEPS if step.stage in ("tile", "kernel")]


class Fire(nn.Module):
    """Two convolutions side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Conv2d(3, 5, 1), nn.Conv2d(3, 7, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.narrow(x).relu(), self.wide(x).relu()], 1)


class Dense(nn.Module):
    """What is there, and what is new."""

    def __init__(self) -> None:
        super().__init__()
        self.new = nn.Conv2d(6, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.new(x.relu()), x * 2], 1)


class Columns(nn.Module):
    """Products in the columns of one matrix, between others."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(19, 13), nn.Linear(19, 1)

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return torch.cat([z, self.a(x).tanh(), z + 1, self.b(x), z * z], 1)


class Rows(nn.Module):
    """A softmax and a product above each other."""

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.softmax(1), z @ x], 0)


CASES: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...], int, float]] = {
    "fire": (Fire(), (torch.randn(2, 3, 9, 11),), 2, 1e6),
    "dense": (Dense(), (torch.randn(1, 6, 7, 5),), 3, 1e4),
    "columns": (Columns(), (torch.randn(37, 19), torch.randn(37, 3)), 3, 1e4),
    "rows": (Rows(), (torch.randn(17, 23), torch.randn(29, 17)), 2, 1e6),
}


def loops(name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program as Loop IR, for a chip so slow that small tensors are worth what large ones are."""
    module, inputs, _, clock = CASES[name]
    chip = dataclasses.replace(
        TARGETS["sm_90"], launch_seconds=1e-8, memory_bandwidth=1e8, clock=clock
    )
    monkeypatch.setitem(TARGETS, "sm_90", chip)
    found = parse(dlc.compile(module, inputs, target="sm_90").ir("tensor"))
    for step in LOOPS:
        apply(found, step)
    return str(found)


@pytest.mark.parametrize("name", CASES)
def test_every_state_computes_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, inputs, count, _ = CASES[name]
    module = parse(loops(name, monkeypatch))
    updating = [kernel for kernel in kernels_in(module, KernelOp) if kernel.updated_refs]
    assert len(updating) == count - 1, module
    expected = model(*inputs)
    parameters = [p.detach() for p in model.parameters()]
    for step in ["", *AFTER]:
        if step:
            apply(module, step)
        (tmp_path / "state.mlir").write_text(str(module))
        found = dlc.load(tmp_path / "state.mlir")(*inputs, *parameters)
        torch.testing.assert_close(found, expected, msg=lambda text: f"after {step}: {text}")
    (result,) = run_module(module, [t.numpy() for t in (*inputs, *parameters)])
    torch.testing.assert_close(torch.from_numpy(result), expected)

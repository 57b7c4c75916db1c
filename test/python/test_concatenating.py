"""Kernels that store pieces of one tensor: concatenations in place."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from harness import apply, parse
from torch import nn
from xdsl.dialects.builtin import StringAttr

import dlc
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp
from dlc.passes import STEPS
from dlc.simulator import run_module
from dlc.target import TARGETS, Target

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


def slow_chip(clock: float) -> Target:
    """A chip so slow that small tensors are worth what large ones are."""
    return dataclasses.replace(
        TARGETS["sm_90"], launch_seconds=1e-8, memory_bandwidth=1e8, clock=clock
    )


def loops(name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program as Loop IR, for a slow chip."""
    module, inputs, _, clock = CASES[name]
    monkeypatch.setitem(TARGETS, "sm_90", slow_chip(clock))
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


class Scanned(nn.Module):
    """What is scanned after a reduce, behind a product."""

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return torch.cat([z @ x, x.softmax(1).cumsum(1)], 0)


def test_what_scans_stores_no_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that reduces and scans already, as when kernels are fused a second time."""
    inputs = torch.randn(17, 23), torch.randn(29, 17)
    monkeypatch.setitem(TARGETS, "sm_90", slow_chip(1e4))
    module = parse(dlc.compile(Scanned(), inputs, target="sm_90").ir("tensor"))
    for step in LOOPS[: LOOPS.index("fuse-loops")]:
        apply(module, step)
    for kernel in kernels_in(module, KernelOp):
        if kernel.name_ in {"matmul", "cumsum"}:
            kernel.attributes["fuse"] = StringAttr("never")
    apply(module, "fuse-loops")
    for kernel in kernels_in(module, KernelOp):
        kernel.attributes.pop("fuse", None)
    assert "softmax_cumsum" in {kernel.name_ for kernel in kernels_in(module, KernelOp)}
    for step in [*LOOPS[LOOPS.index("fuse-loops") :], *AFTER]:
        apply(module, step)
    (result,) = run_module(module, [t.numpy() for t in inputs])
    torch.testing.assert_close(torch.from_numpy(result), Scanned()(*inputs))

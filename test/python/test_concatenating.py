"""Kernels that store pieces of one tensor: concatenations in place."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exported import as_array, build, run
from harness import apply, parse
from torch import nn
from xdsl.dialects.builtin import StringAttr

import dlc
from dlc.backend.export import export_program
from dlc.cli.reproduce_kernel import kernel_script
from dlc.cli.reproduced import check_kernel
from dlc.dialects.host import BufferViewOp
from dlc.dialects.host import LaunchOp as LaunchOfBuffers
from dlc.dialects.kernel import LaunchOp, ViewOp
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp
from dlc.frontend.export.fx import import_program
from dlc.passes import STEPS
from dlc.simulator import run_module
from dlc.target import TARGETS, Target
from dlc.transforms.loop.fusion import fusing

LOOPS = [step.pass_name for step in STEPS if step.stage == "loop"]
WHOLE = bool(os.environ.get("DLC_PREFIX"))
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
        self.a, self.b = nn.Linear(19, 13), nn.Linear(19, 2)

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return torch.cat([z, self.a(x).tanh(), z + 1, self.b(x), z * z], 1)


class Rows(nn.Module):
    """A softmax and a product above each other."""

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.softmax(1), z @ x], 0)


class Appended(nn.Module):
    """Layers that each append to what there is; the first two are read at the end once more."""

    def __init__(self) -> None:
        super().__init__()
        pairs = [(nn.Linear(11 + 7 * n, 5), nn.Linear(5, 7)) for n in range(4)]
        layers = [layer for pair in pairs for layer in pair]
        self.layers = nn.ModuleList([nn.Linear(13, 11), *layers, nn.Linear(18, 3)])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, *layers, last = self.layers
        parts = [first(x)]
        for narrow, wide in zip(layers[::2], layers[1::2], strict=True):
            parts.append(wide(narrow(torch.cat(parts, -1)).relu()))
        return last(torch.cat(parts[:2], -1)), torch.cat(parts, -1).relu().sum(-1)


class Alike(nn.Module):
    """Layers that append alike, at addresses that are multiples of 16 bytes."""

    def __init__(self) -> None:
        super().__init__()
        pairs = [(nn.Linear(12 + 8 * n, 5), nn.Linear(5, 8)) for n in range(4)]
        layers = [layer for pair in pairs for layer in pair]
        self.layers = nn.ModuleList([nn.Linear(13, 12), *layers])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, *layers = self.layers
        made: torch.Tensor = first(x)
        for narrow, wide in zip(layers[::2], layers[1::2], strict=True):
            made = torch.cat([made, wide(narrow(made).relu())], -1)
        return made


class Skipped(nn.Module):
    """What is made of a convolution, beside that."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.second = nn.Conv2d(4, 5, 3, padding=1, bias=False)
        self.both = nn.Conv2d(9, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        there = self.first(x)
        made = self.second(F.max_pool2d(there, 3, 1, 1))
        found: torch.Tensor = self.both(torch.cat([made, there], 1))
        return found


class Swapped(nn.Module):
    """Two products, read in one order and in the other."""

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = x @ z, z @ x
        return torch.cat([a, b], 1) @ torch.cat([x, z], 0), torch.cat([b, a], 1) @ x.repeat(2, 1)


class Own(nn.Module):
    """Products that would be appended to what they read."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 5), nn.Linear(11, 4)
        self.last = nn.Linear(15, 3)

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        there = x @ z
        there = torch.cat([there, self.first(there.tanh())], 1)
        there = torch.cat([there, self.second(there.tanh())], 1)
        return self.last(there).sin()


CASES: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...], int, float]] = {
    "fire": (Fire(), (torch.randn(2, 3, 9, 11),), 2, 1e8),
    "dense": (Dense(), (torch.randn(1, 6, 7, 5),), 3, 1e4),
    "columns": (Columns(), (torch.randn(37, 19), torch.randn(37, 3)), 3, 1e4),
    "rows": (Rows(), (torch.randn(17, 23), torch.randn(29, 17)), 2, 1e6),
    "appended": (Appended(), (torch.randn(33, 13),), 4, 1e6),
    "appended to one row": (Appended(), (torch.randn(1, 13),), 4, 1e7),
    "alike": (Alike(), (torch.randn(33, 13),), 4, 1e6),
    "skipped": (Skipped(), (torch.randn(2, 3, 10, 6),), 2, 1e7),
    "swapped": (Swapped(), (torch.rand(19, 19) / 9, torch.rand(19, 19) / 9), 1, 1e6),
    "own": (Own(), (torch.randn(31, 17), torch.randn(17, 6)), 3, 1e4),
}


def slow_chip(clock: float) -> Target:
    """A chip so slow that small tensors are worth what large ones are."""
    return dataclasses.replace(
        TARGETS["sm_90"],
        launch_seconds=1e-8,
        start_clocks=0,
        memory_bandwidth=1e8,
        clock=clock,
    )


def loops(name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program as Loop IR, for a slow chip where what is not loaded costs as much as what is."""
    module, inputs, _, clock = CASES[name]
    monkeypatch.setitem(TARGETS, "sm_90", slow_chip(clock))
    monkeypatch.setattr("dlc.analysis.loop.cost.share_held", lambda where: 1.0)
    found = parse(dlc.compile(module, inputs, target="sm_90").ir("tensor"))
    for step in LOOPS:
        apply(found, step)
    return str(found)


@pytest.mark.parametrize("name", CASES)
def test_every_state_computes_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of states that differ every third is loaded, others of each case (all with DLC_PREFIX)."""
    model, inputs, count, _ = CASES[name]
    module = parse(loops(name, monkeypatch))
    calls = [op for op in module.walk() if isinstance(op, KernelOp | LaunchOp)]
    updating = [op for op in calls if any(map(op.changes, op.inputs))]
    assert len(updating) == count - 1, module
    expected = model(*inputs)
    parameters = [p.detach() for p in model.parameters()]
    before, turn = "", [*CASES].index(name)
    for number, step in enumerate(["", *AFTER]):
        if step:
            apply(module, step)
        if (text := str(module)) == before or not (WHOLE or (number + turn) % 3 == 0):
            continue
        before = text
        (tmp_path / "state.mlir").write_text(text)
        found = dlc.load(tmp_path / "state.mlir")(*inputs, *parameters)
        torch.testing.assert_close(found, expected, msg=lambda text: f"after {step}: {text}")
    arrays = [tensor.numpy() for tensor in (*inputs, *parameters)]
    results = [torch.from_numpy(result) for result in run_module(module, arrays)]
    torch.testing.assert_close(results, [expected] if len(results) == 1 else [*expected])


def test_kernels_that_store_elsewhere_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three layers that append eight columns each, the last kernel is compiled once."""
    module = parse(loops("alike", monkeypatch))
    views = [op for op in module.walk() if isinstance(op, ViewOp)]
    assert [view.begin for view in views] == [(0, 12), (0, 20), (0, 28)], module
    assert sum(isinstance(op, LaunchOp) for op in module.walk()) == 2
    for step in AFTER:
        apply(module, step)
    boxes = [op.box for op in module.walk() if isinstance(op, BufferViewOp)]
    assert boxes == [(slice(0, 33), slice(n, n + 8)) for n in (12, 20, 28)]


def test_a_program_of_views_is_saved_exported_and_reproduced(
    tmp_path: Path, scheduler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, inputs, _, clock = CASES["alike"]
    monkeypatch.setitem(TARGETS, "sm_90", slow_chip(clock))
    expected = module(*inputs)
    compiled = dlc.compile(module, inputs, target="sm_90", backend="host")
    with torch.no_grad():
        torch.testing.assert_close(compiled(*inputs), expected)
        compiled.save(tmp_path / "alike.dlc")
        again = dlc.load_program(tmp_path / "alike.dlc")(*inputs)
    torch.testing.assert_close(again, expected)

    variant = compiled.variants[0]
    kernels = variant.module("kernel")
    folder = tmp_path / "program"
    export_program(kernels, folder)
    build(folder, scheduler)
    bound = variant.program.bind(inputs)
    for argument, tensor in zip(variant.program.arguments, bound, strict=True):
        np.save(folder / argument.name, as_array(tensor))
    assert run(folder).stderr == ""
    exported = torch.from_numpy(np.load(folder / "out" / "0.npy"))
    torch.testing.assert_close(exported, expected.detach())

    program = import_program(module, inputs).module
    launches = [op for op in kernels.walk() if isinstance(op, LaunchOfBuffers)]
    (name,) = {op.kernel_name for op in launches if _writes_view(op)}
    scope: dict[str, Any] = {"__name__": "script"}
    exec(kernel_script(program, kernels, name), scope)
    assert check_kernel(scope["KERNEL"], scope["operations"], []) == 0


def _writes_view(launch: LaunchOfBuffers) -> bool:
    return any(isinstance(buffer.owner, BufferViewOp) for buffer in launch.outputs)


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
    with monkeypatch.context() as once:
        once.setattr(fusing, "groups_in", lambda kernels: iter(()))
        apply(module, "fuse-loops")
    for kernel in kernels_in(module, KernelOp):
        kernel.attributes.pop("fuse", None)
    assert "softmax_cumsum" in {kernel.name_ for kernel in kernels_in(module, KernelOp)}
    for step in [*LOOPS[LOOPS.index("fuse-loops") :], *AFTER]:
        apply(module, step)
    (result,) = run_module(module, [t.numpy() for t in inputs])
    torch.testing.assert_close(torch.from_numpy(result), Scanned()(*inputs))


class Block(nn.Module):
    """A residual block of a diffusion model."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(2, inner), nn.Conv2d(inner, outer, 3, padding=1)
        self.time, self.around = nn.Linear(4, outer), nn.Conv2d(inner, outer, 1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        made = self.conv(F.silu(self.norm(x))) + self.time(t)[:, :, None, None]
        return made + self.around(x)


class Unet(nn.Module):
    """What lies side by side is read for a mean and for squares, in one kernel of two results."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle, self.up = Block(4, 8), Block(8, 8), Block(16, 4)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        there = self.down(x, t)
        made = self.middle(F.avg_pool2d(there, 2), t)
        made = F.interpolate(made, scale_factor=2, mode="bilinear")
        return self.up(torch.cat([there, made], 1), t)


def test_a_reader_may_have_several_results() -> None:
    model, inputs = Unet(), (torch.randn(1, 4, 6, 6), torch.randn(1, 4))
    compiled = dlc.compile(model, inputs, backend="host", target="sm_90")
    torch.testing.assert_close(compiled(*inputs), model(*inputs), atol=1e-5, rtol=1e-4)

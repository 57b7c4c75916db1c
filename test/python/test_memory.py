"""The plan of buffers: placement, what runs before and after it, and what is reported."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import dlc
from dlc.analysis.kernel.placement import Buffer, live_bytes, place
from dlc.backend.bound_program import Allocate
from dlc.backend.eager_memory import eager_peak
from dlc.backend.executor import Executor, get_backend
from dlc.backend.host.host_backend import HostBackend
from dlc.backend.memory_use import MemoryUse
from dlc.dialects import host
from dlc.ir.locations import LocParser
from dlc.registry import get_pass, register
from dlc.simulator import run_module


def random_buffers(count: int, seed: int) -> list[Buffer]:
    """Lives as in a network: most tensors end soon, some stay long."""
    rng = random.Random(seed)
    firsts = [rng.randrange(count) for _ in range(count)]
    return [
        Buffer(rng.choice([0, 1, 100, 256, 3000, 5000]), f, f + rng.choice([0, 1, 1, 2, count]))
        for f in firsts
    ]


@pytest.mark.parametrize("count", [1, 2, 7, 40, 200])
def test_buffers_that_meet_do_not_overlap(count: int) -> None:
    for seed in range(5):
        buffers = random_buffers(count, seed)
        placed = place(buffers, 64)
        for n, (a, begin) in enumerate(zip(buffers, placed.offsets, strict=True)):
            assert begin % 64 == 0
            assert begin + a.size <= placed.size
            for b, other in list(zip(buffers, placed.offsets, strict=True))[:n]:
                apart = begin + a.size <= other or other + b.size <= begin
                assert apart or not a.meets(b) or 0 in (a.size, b.size)
        least = live_bytes(buffers, 64)
        assert least <= placed.size <= 1.25 * least + 64


def test_a_chain_takes_the_two_largest_neighbours() -> None:
    sizes = [256, 512, 1024, 512, 256]
    buffers = [Buffer(size, n, n + 1) for n, size in enumerate(sizes)]
    assert place(buffers, 256).size == live_bytes(buffers) == 1536
    assert place([], 256).size == live_bytes([]) == 0


def planned(module: ModuleOp) -> ModuleOp:
    module = module.clone()
    get_pass("plan-buffers")().apply(Context(), module)
    module.verify()
    return module


SHARED = """
kernel.func @twice(%x: memref<5x3xf64>) -> (%y: memref<5x3xf64, strided<[1, 5]>>) grid 5 block 3 {
  %i = kernel.block_id
  %j = kernel.thread_id
  %a = kernel.load %x[%i, %j] : memref<5x3xf64>
  %b = arith.addf %a, %a : f64
  kernel.store %b, %y[%i, %j] : memref<5x3xf64, strided<[1, 5]>>
}
kernel.func @rows(%x: memref<5x3xf64, strided<[1, 5]>>)
    -> (%y: memref<5xf32> zeroed) grid 5 block 3 {
  %i = kernel.block_id
  %j = kernel.thread_id
  %a = kernel.load %x[%i, %j] : memref<5x3xf64, strided<[1, 5]>>
  %b = arith.truncf %a : f64 to f32
  kernel.atomic_add %b, %y[%i] : memref<5xf32>
}
kernel.func @total(%x: memref<5xf32>) -> (%y: memref<f32> zeroed) grid 5 block 1 {
  %i = kernel.block_id
  %a = kernel.load %x[%i] : memref<5xf32>
  kernel.atomic_add %a, %y[] : memref<f32>
}
func.func @main(%x: tensor<5x3xf64>) -> (tensor<f32>, tensor<5xf32>, tensor<f32>) {
  %a = kernel.launch @twice(%x) : (tensor<5x3xf64>) -> (tensor<5x3xf64>)
  %r = kernel.launch @rows(%a) : (tensor<5x3xf64>) -> (tensor<5xf32>)
  %t = kernel.launch @total(%r) : (tensor<5xf32>) -> (tensor<f32>)
  %b = kernel.launch @twice(%x) : (tensor<5x3xf64>) -> (tensor<5x3xf64>)
  %s = kernel.launch @rows(%b) : (tensor<5x3xf64>) -> (tensor<5xf32>)
  %u = kernel.launch @total(%s) : (tensor<5xf32>) -> (tensor<f32>)
  func.return %t, %s, %u : tensor<f32>, tensor<5xf32>, tensor<f32>
}
"""


def test_planned_and_not_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is used again, zeroed again, and strided; on the host and in the interpreter."""
    module = LocParser(register(Context()), SHARED, "shared.mlir").parse_module()
    after = planned(module)
    offsets = [op.begin for op in after.walk() if isinstance(op, host.SliceOp)]
    assert len(offsets) == 3
    assert len(set(offsets)) == 2
    allocate = torch.empty_strided
    made: list[torch.Tensor] = []

    def poisoned(*args: object, **kwargs: object) -> torch.Tensor:
        made.append(allocate(*args, **kwargs).fill_(77))  # pyright: ignore
        return made[-1]

    monkeypatch.setattr(torch, "empty_strided", poisoned)
    x = torch.randn(5, 3).double()
    expected = Executor(module, get_backend("host"))([x])
    found = Executor(after, get_backend("host"))([x])
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
    assert [t.numel() for t in made[-4:]] == [512, 1, 5, 1], "one workspace, and the results"
    for m in (module, after):
        for a, b in zip(run_module(m, [x.numpy()]), expected, strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-6)


def test_a_program_reports_its_memory() -> None:
    w = torch.randn(64, 64)

    def program(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.softmax(x @ w, dim=-1)
        return x

    f = dlc.compile(program, (torch.randn(100, 64),), backend="host")
    size = 100 * 64 * 4
    launches = f.variants[0].executor.program.launches
    between = len(launches) - 1
    assert between > 2, "there are intermediates to place"
    assert f.memory.intermediates == between * size
    assert f.memory.live == f.memory.workspace == 2 * size
    assert f.memory.results == size
    assert f.memory.peak == 3 * size
    assert eager_peak(f.variants[0].program.module) == 2 * size


def test_eager_keeps_the_base_of_a_view() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        z = y.transpose(0, 1)[:5]  # y lives on
        return torch.cat([z, (x * 2).t()[:2]])

    f = dlc.compile(program, (torch.randn(10, 20),), backend="host")
    assert eager_peak(f.variants[0].program.module) == 4 * (200 + 200 + 7 * 10)


def test_a_call_asks_for_memory_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many launches there are, and launches cost little beside the kernels."""
    module = planned(LocParser(register(Context()), SHARED, "shared.mlir").parse_module())
    program = Executor(module, HostBackend()).program
    assert sum(isinstance(step, Allocate) for step in program.steps) == 1 + 3
    assert MemoryUse.of(program).workspace == 512

"""The executor on Kernel IR written by hand, the accuracy rule, and generated inputs."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from dlc.backend import LaunchError
from dlc.backend.executor import Executor, get_backend
from dlc.backend.host.host_backend import HostBackend
from dlc.backend.host_program import HostProgram
from dlc.backend.kept_copy import to_device
from dlc.bound_kernels import program_at
from dlc.diagnostics import OpError
from dlc.dialects.kernel import FuncOp
from dlc.ir.locations import LocParser
from dlc.judge.accuracy import compare
from dlc.judge.random_inputs import random_arguments
from dlc.judge.reference import evaluate
from dlc.registry import register

CHAIN = """
kernel.func @twice(%x: memref<4xf32>) -> (%y: memref<4xf32>) grid 1 block 4 {
  %t = kernel.thread_id
  %a = kernel.load %x[%t] : memref<4xf32>
  %b = arith.addf %a, %a : f32
  kernel.store %b, %y[%t] : memref<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = kernel.launch @twice(%x) : (tensor<4xf32>) -> (tensor<4xf32>)
  %b = kernel.launch @twice(%a) : (tensor<4xf32>) -> (tensor<4xf32>)
  %unused = kernel.launch @twice(%b) : (tensor<4xf32>) -> (tensor<4xf32>)
  %c = kernel.launch @twice(%b) : (tensor<4xf32>) -> (tensor<4xf32>)
  func.return %c, %x : tensor<4xf32>, tensor<4xf32>
}
"""

NOTHING = """
kernel.func @none(%x: memref<0x3xf32>) -> (%y: memref<0x3xf32>) grid 0 block 32 {
}
func.func @main(%x: tensor<0x3xf32>) -> tensor<0x3xf32> {
  %y = kernel.launch @none(%x) : (tensor<0x3xf32>) -> (tensor<0x3xf32>)
  func.return %y : tensor<0x3xf32>
}
"""

ZEROED = """
kernel.func @pairs(%x: memref<4xf32>) -> (%y: memref<2x2xf32, strided<[1, 2]>> zeroed)
    grid 2 block 4 {
  %b = kernel.block_id
  %t = kernel.thread_id
  %a = kernel.load %x[%t] : memref<4xf32>
  kernel.atomic_add %a, %y[%t floordiv 2, 1] : memref<2x2xf32, strided<[1, 2]>>
}
kernel.func @none(%x: memref<4xf32>) -> (%y: memref<3xf32> zeroed) grid 0 block 32 {
}
func.func @main(%x: tensor<4xf32>) -> (tensor<2x2xf32>, tensor<3xf32>) {
  %y = kernel.launch @pairs(%x) : (tensor<4xf32>) -> (tensor<2x2xf32>)
  %z = kernel.launch @none(%x) : (tensor<4xf32>) -> (tensor<3xf32>)
  func.return %y, %z : tensor<2x2xf32>, tensor<3xf32>
}
"""

COLUMNS = """
kernel.func @copy(%x: memref<2x3xf32, strided<[1, 2]>>)
    -> (%y: memref<2x3xf32, strided<[1, 2]>>) grid 2 block 3 {
  %i = kernel.block_id
  %j = kernel.thread_id
  %a = kernel.load %x[%i, %j] : memref<2x3xf32, strided<[1, 2]>>
  kernel.store %a, %y[%i, %j] : memref<2x3xf32, strided<[1, 2]>>
}
func.func @main(%x: tensor<2x3xf32> {dlc.strides = array<i64: 1, 2>}) -> tensor<2x3xf32> {
  %y = kernel.launch @copy(%x) : (tensor<2x3xf32>) -> (tensor<2x3xf32>)
  func.return %y : tensor<2x3xf32>
}
"""

REVERSAL = """
kernel.func @reverse(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 1 block 64 {
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
  %a = kernel.load %x[%t] : memref<64xf32>
  kernel.store %a, %s[%t] : memref<64xf32, #kernel.shared>
  BARRIER
  %b = kernel.load %s[-%t + 63] : memref<64xf32, #kernel.shared>
  kernel.store %b, %y[%t] : memref<64xf32>
}
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %y = kernel.launch @reverse(%x) : (tensor<64xf32>) -> (tensor<64xf32>)
  func.return %y : tensor<64xf32>
}
"""


def parse(text: str) -> ModuleOp:
    module = LocParser(register(Context()), text, "test.mlir").parse_module()
    module.verify()
    return module


def test_launches_run_in_order():
    x = torch.randn(4)
    tripled, same = Executor(parse(CHAIN), get_backend("host"))([x])
    assert torch.equal(tripled, 8 * x)
    assert same is x


def test_a_program_is_bound_before_it_runs():
    program = HostProgram.of(parse(CHAIN))
    bound = program.bind()
    assert [launch.grid for launch in bound.launches] == [1] * 4
    assert bound == program.bind()
    with pytest.raises(OpError, match="expected a size of the module, found 'batch'"):
        program_at(parse(CHAIN), {"batch": 3, "length": 5})


def test_tensors_are_dropped_after_their_last_use(monkeypatch: pytest.MonkeyPatch):
    allocate, x = torch.empty_strided, torch.randn(4)
    alive = [weakref.ref(x)]
    held: list[int] = []

    class Watching(HostBackend):
        def launch(self, func, addresses):
            super().launch(func, addresses)
            held.append(sum(r() is not None for r in alive))

    def watched(*shape: Any, **options: Any) -> torch.Tensor:
        tensor = allocate(*shape, **options)
        alive.append(weakref.ref(tensor))
        return tensor

    monkeypatch.setattr(torch, "empty_strided", watched)
    Executor(parse(CHAIN), Watching())([x])
    # %x and %a; %x, %a, %b; %x, %b, %unused; %x, %b, %c
    assert held == [2, 3, 3, 3]


def test_a_grid_of_no_blocks_is_not_launched():
    class Refusing(HostBackend):
        def prepare(self, funcs):
            assert not funcs

        def launch(self, func, addresses):
            raise AssertionError

    (result,) = Executor(parse(NOTHING), Refusing())([torch.empty(0, 3)])
    assert result.shape == (0, 3)


def test_what_is_to_be_zeroed_is(monkeypatch: pytest.MonkeyPatch):
    allocate = torch.empty_strided
    monkeypatch.setattr(torch, "empty_strided", lambda *a, **k: allocate(*a, **k).fill_(torch.nan))
    y, z = Executor(parse(ZEROED), get_backend("host"))([torch.tensor([1.0, 2, 3, 4])])
    assert y.tolist() == [[0, 6], [0, 14]]
    assert z.tolist() == [0, 0, 0]


def test_results_have_the_strides_of_their_memrefs():
    x = torch.randn(3, 2).t()
    (result,) = Executor(parse(COLUMNS), get_backend("host"))([x])
    assert result.stride() == (1, 2)
    assert torch.equal(result, x)


def test_each_launch_is_timed():
    times: list[tuple[FuncOp, float]] = []
    executor = Executor(parse(CHAIN), get_backend("host"))
    executor([torch.randn(4)], lambda func, seconds: times.append((func, seconds)))
    assert [func.name_ for func, _ in times] == ["twice"] * 4
    assert all(seconds > 0 for _, seconds in times)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([], r"@main takes 1 tensors, found 0"),
        ([torch.randn(3, 2)], r"argument 0 of @main: expected \[2, 3\] of torch.float32 with str"),
        ([torch.randn(2, 3)], r"strides \[1, 2\], found .* with strides \[3, 1\]"),
        ([torch.randn(3, 2).double().t()], r"found \[2, 3\] of torch.float64"),
    ],
    ids=["count", "shape", "strides", "dtype"],
)
def test_wrong_arguments_are_refused(tensors: list[torch.Tensor], message: str):
    with pytest.raises(LaunchError, match=message):
        Executor(parse(COLUMNS), get_backend("host"))(tensors)


def test_a_module_of_another_stage_is_refused():
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = torch.aten "relu.default"(self = %x) : (tensor<4xf32>) -> tensor<4xf32>
      func.return %y : tensor<4xf32>
    }
    """
    with pytest.raises(OpError, match=r"expected launches and memory in @main, found 'torch.aten'"):
        Executor(parse(text), get_backend("host"))
    with pytest.raises(OpError, match="expected a function @main, found none"):
        Executor(parse("builtin.module {}"), get_backend("host"))


def test_a_missing_barrier_shows_in_one_order_or_another():
    x = torch.randn(64)
    racy, right = (
        parse(REVERSAL.replace("BARRIER", "")),
        parse(REVERSAL.replace("BARRIER", "kernel.barrier")),
    )
    seen = set()
    for backend in (HostBackend(), HostBackend("reverse"), HostBackend("random", seed=3)):
        assert torch.equal(Executor(right, backend)([x])[0], x.flip(0))
        seen.add(torch.equal(Executor(racy, backend)([x])[0], x.flip(0)))
    assert False in seen


def test_tensors_move_with_their_strides():
    base = torch.arange(12.0)
    for view in (base.view(3, 4)[:, ::2], base[:3].expand(2, 3), base.view(3, 4).t()):
        moved = to_device(view, torch.device("meta"))
        assert moved.shape == view.shape
        assert moved.stride() == view.stride()


class TestAccuracy:
    exact = torch.tensor([1.0, -2.0, 4.0], dtype=torch.float64)
    eager = exact.float()

    def off_by(self, error: float) -> torch.Tensor:
        return (self.exact + error * 4).float()

    def test_four_ulp_are_allowed(self):
        eps = torch.finfo(torch.float32).eps
        assert compare(self.off_by(3 * eps), self.exact, self.eager).ok
        assert not compare(self.off_by(6 * eps), self.exact, self.eager).ok

    def test_twice_eagers_error_is_allowed(self):
        eager = self.off_by(1e-3)
        assert compare(self.off_by(1.9e-3), self.exact, eager).ok
        assert not compare(self.off_by(2.1e-3), self.exact, eager).ok

    def test_long_sums_are_allowed_more_on_the_host_only(self):
        eager, result = self.off_by(1e-3), self.off_by(7e-3)
        assert compare(result, self.exact, eager, 1024).ok
        assert not compare(result, self.exact, eager).ok

    def test_what_is_not_finite_must_agree(self):
        nan, inf = float("nan"), float("inf")
        exact = torch.tensor([nan, inf, 1e50, 1.0], dtype=torch.float64)
        eager = exact.float()
        assert compare(eager, exact, eager).ok
        for bad in ([0.0, inf, inf, 1.0], [nan, -inf, inf, 1.0], [nan, inf, inf, nan]):
            assert compare(torch.tensor(bad), exact, eager).mismatches == 1

    def test_integers_must_be_equal(self):
        exact = torch.tensor([1, 2, 3])
        assert compare(exact, exact, exact).ok
        assert compare(exact + 1, exact, exact).mismatches == 3

    def test_shapes_and_dtypes_must_be_equal(self):
        with pytest.raises(ValueError, match="expected a result"):
            compare(self.eager[:2], self.exact, self.eager)
        with pytest.raises(ValueError, match=r"found .* torch.float64"):
            compare(self.exact, self.exact, self.eager)

    def test_an_empty_result_is_right(self):
        empty = torch.empty(0)
        assert compare(empty, empty.double(), empty).ok


def test_torch_ir_is_evaluated_in_fp64():
    text = """
    func.func @main(%x: tensor<3xf32>, %i: tensor<3xi64>) -> (tensor<3xf32>, tensor<6xf32>) {
      %h = torch.aten "_to_copy.default"(self = %x) {dtype = "float16"}
          : (tensor<3xf32>) -> tensor<3xf16>
      %y = torch.aten "add.Tensor"(self = %h, other = %i) {alpha = 2}
          : (tensor<3xf16>, tensor<3xi64>) -> tensor<3xf32>
      %z = torch.aten "cat.default"(tensors.0 = %x, tensors.1 = %y) {dim = 0}
          : (tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>
      func.return %y, %z : tensor<3xf32>, tensor<6xf32>
    }
    """
    x, i = torch.tensor([0.1, 0.2, 0.3]), torch.arange(3)
    y, z = evaluate(parse(text), [x, i], double=True)
    assert y.dtype == z.dtype == torch.float64
    assert torch.equal(y, x.double() + 2 * i)
    assert evaluate(parse(text), [x, i])[0].dtype == torch.float16


def test_torch_ir_at_infinity_is_what_it_is_on_any_processor():
    text = """
    func.func @main(%x: tensor<32xf32>) -> tensor<32xf32> {
      %y = torch.aten "gelu.default"(self = %x) {approximate = "none"}
          : (tensor<32xf32>) -> tensor<32xf32>
      func.return %y : tensor<32xf32>
    }
    """
    before, x = torch.backends.mkldnn.enabled, torch.full((32,), torch.inf)
    assert torch.equal(evaluate(parse(text), [x])[0], x)
    assert torch.backends.mkldnn.enabled == before


def test_random_arguments_are_what_main_says():
    text = """
    func.func @main(
        %x: tensor<4x5xf32> {dlc.strides = array<i64: 1, 4>}, %y: tensor<6xf32> {dlc.align = 4},
        %i: tensor<9xi64>, %b: tensor<64xi1>, %n: tensor<0x3xf32>, %u: tensor<3xui8>) {
      func.return
    }
    """
    x, y, i, b, n, u = random_arguments(parse(text), 0)
    assert (x.stride(), x.data_ptr() % 16) == ((1, 4), 0)
    assert y.data_ptr() % 16 == 4
    assert i.min() >= 0
    assert i.max() < 3
    assert b.any()
    assert not b.all()
    assert n.shape == (0, 3)
    assert u.dtype == torch.uint8
    assert torch.equal(random_arguments(parse(text), 0)[0], x)
    assert not torch.equal(random_arguments(parse(text), 1)[0], x)


UNWRITTEN = """
kernel.func @twice(%x: memref<4xf32>) -> (%y: memref<4xf32>, %n: memref<0xf32>) grid 1 block 4 {
  %t = kernel.thread_id
  %a = kernel.load %x[%t] : memref<4xf32>
  kernel.store %a, %y[%t] : memref<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y, %n = kernel.launch @twice(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<0xf32>)
  func.return %y : tensor<4xf32>
}
"""


def test_a_kernel_that_never_writes_an_output_does_not_run():
    x = torch.randn(4)
    (y,) = Executor(parse(UNWRITTEN), get_backend("host"))([x])  # %n has no elements
    assert torch.equal(x, y)
    text = "\n".join(line for line in UNWRITTEN.split("\n") if "kernel.store" not in line)
    with pytest.raises(OpError, match=r"expected @twice to write its output %y, found no store"):
        Executor(parse(text), get_backend("host"))

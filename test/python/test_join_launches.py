"""Launches that read the same become one, whose blocks are dealt over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from torch.nn.functional import linear, silu
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.parser import Parser

from dlc.analysis.kernel.block_parts import parts_of
from dlc.backend.executor import Executor, get_backend
from dlc.cli.dlc_cli import main
from dlc.dialects import kernel, loop
from dlc.frontend.export.fx import import_program
from dlc.pipeline import apply_pass, run_pipeline, text_of
from dlc.simulator.checker import check_module
from dlc.stages import compiler_context
from dlc.target import set_target
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS

Function = Callable[..., object]


@dataclass(frozen=True)
class Siblings:
    """Products of rows of `inner` elements, of such widths."""

    rows: int
    inner: int
    widths: tuple[int, ...]
    dtype: torch.dtype = torch.float32

    def arguments(self, seed: int = 0) -> list[torch.Tensor]:
        rng = torch.Generator().manual_seed(seed)
        shapes = [(self.rows, self.inner), *((n, self.inner) for n in self.widths)]
        made = [torch.randn(shape, generator=rng) / self.inner**0.25 for shape in shapes]
        return [x.to(self.dtype) for x in made]


def products(x: torch.Tensor, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Each with an epilogue of its own."""
    ends = (torch.relu, silu, lambda y: y + 1, torch.tanh)
    return tuple(end(linear(x, w)) for end, w in zip(ends, weights, strict=False))


def compiled(function: Function, arguments: Sequence[torch.Tensor], target: str) -> ModuleOp:
    module = import_program(function, tuple(arguments), whole=DECOMPOSITIONS).module
    set_target(module, target)
    run_pipeline(compiler_context(), module, "kernel")
    return module


def launches(module: ModuleOp) -> list[str]:
    return [op.kernel_name for op in module.walk() if op.name == "host.launch"]


CASES = (
    Siblings(1, 512, (256, 64, 64)),
    Siblings(1, 512, (64, 256, 7, 100)),
    Siblings(1, 100, (7, 100)),
    Siblings(2, 96, (33, 64)),
    Siblings(7, 100, (100, 7, 64)),
    Siblings(1, 512, (256, 64, 64), torch.bfloat16),
    Siblings(8, 512, (256, 64, 64), torch.bfloat16),
    Siblings(64, 256, (128, 64, 100), torch.bfloat16),
    Siblings(33, 64, (100, 7, 64)),
)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_products_of_several_widths(case: Siblings, target: str) -> None:
    """One launch, whose numbers are those of products apart, on the host and when simulated."""
    arguments = case.arguments()
    module = compiled(products, arguments, target)
    assert any("_beside_" in name for name in launches(module))
    arguments[0][-1, 3] = float("nan")
    found = Executor(module, get_backend("host"))(arguments)
    expected = products(*(x.double() for x in arguments))
    loose = 1e-5 if case.dtype == torch.float32 else 2e-2
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(
            torch.as_tensor(one).double(), other, rtol=loose, atol=loose, equal_nan=True
        )
    assert {v.answer for v in check_module(module, blocks=24)} == {"clean"}
    text = text_of(module)
    assert text_of(Parser(compiler_context(), text).parse_module()) == text


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_sums_of_parts_of_products_in_one_launch(target: str) -> None:
    """Of products that are split and run in one launch, the sums of their parts do, too."""
    case = Siblings(256, 2048, (512, 64, 60))
    arguments = case.arguments()
    module = compiled(products, arguments, target)
    _, sums = launches(module)
    assert "_combine_beside_" in sums
    found = Executor(module, get_backend("host"))(arguments)
    for one, other in zip(found, products(*(x.double() for x in arguments)), strict=True):
        torch.testing.assert_close(torch.as_tensor(one).double(), other, rtol=1e-5, atol=1e-5)
    assert {v.answer for v in check_module(module, blocks=24)} == {"clean"}


ENDING = (
    Siblings(8, 4096, (256, 64), torch.bfloat16),
    Siblings(32, 8192, (512, 64), torch.bfloat16),
)


@pytest.mark.parametrize("case", ENDING, ids=str)
def test_products_end_in_their_launch(case: Siblings) -> None:
    """Side by side by clusters, though the fastest of each alone needs a second kernel."""
    arguments = case.arguments()
    alone = [compiled(products, [arguments[0], w], "sm_90") for w in arguments[1:]]
    assert any(len(launches(module)) == 2 for module in alone)
    module = compiled(products, arguments, "sm_90")
    assert len(launches(module)) == 1
    arguments[0][-1, 3], arguments[1][0, 5] = float("inf"), float("nan")
    found = Executor(module, get_backend("host"))(arguments)
    for one, other in zip(found, products(*(x.double() for x in arguments)), strict=True):
        torch.testing.assert_close(
            torch.as_tensor(one).double(), other, rtol=2e-2, atol=2e-2, equal_nan=True
        )
    assert {v.answer for v in check_module(module, blocks=24)} == {"clean"}


def test_products_keep_second_kernels_where_they_are_given() -> None:
    """A schedule that is there stays, and others are chosen as if alone."""
    case = Siblings(32, 8192, (512, 64), torch.bfloat16)
    module = import_program(products, tuple(case.arguments()), whole=DECOMPOSITIONS).module
    set_target(module, "sm_90")
    run_pipeline(compiler_context(), module, "loop")
    kernels = [op for op in module.walk() if isinstance(op, loop.KernelOp)]
    assert {"combine=cluster" in one.schedule.data for one in kernels if one.schedule} == {True}
    kernels[0].schedule = StringAttr("tileify")
    kernels[1].schedule = None
    apply_pass(compiler_context(), module, "schedule-kernels")
    assert kernels[0].schedule.data == "tileify"
    assert kernels[1].schedule is not None
    assert "then=" in kernels[1].schedule.data


BESIDE = """
module attributes {dlc.target = "sm_90"} {
  kernel.func @few(%x: memref<96xf32>) -> (%y: memref<96xf32>) grid 3 block 32 {
    %b = kernel.block_id
    %t = kernel.thread_id
    %v = kernel.load %x[%b * 32 + %t] : memref<96xf32>
    kernel.store %v, %y[%b * 32 + %t] : memref<96xf32>
  }
  kernel.func @turned(%x: memref<96xf32>) -> (%y: memref<256xf32>) grid 8 block 32 cluster 4 {
    %b = kernel.block_id
    %t = kernel.thread_id
    %s = kernel.alloc_shared : memref<32xf32, #kernel.shared>
    %all = kernel.map_cluster %s
        : memref<32xf32, #kernel.shared> -> memref<4x32xf32, #kernel.cluster>
    %v = kernel.load %x[%b + %t] : memref<96xf32>
    kernel.store %v, %s[%t] : memref<32xf32, #kernel.shared>
    kernel.cluster_barrier
    %w = kernel.load %all[3, %t] : memref<4x32xf32, #kernel.cluster>
    kernel.cluster_barrier
    kernel.store %w, %y[%b * 32 + %t] : memref<256xf32>
  }
  func.func @main(%x: tensor<96xf32> {dlc.name = "x"}) -> (tensor<96xf32>, tensor<256xf32>) {
    %y = kernel.launch @few(%x) : (tensor<96xf32>) -> (tensor<96xf32>)
    %z = kernel.launch @turned(%x) : (tensor<96xf32>) -> (tensor<256xf32>)
    func.return %y, %z : tensor<96xf32>, tensor<256xf32>
  }
}
"""


def test_blocks_without_a_cluster_beside_clusters() -> None:
    """Three blocks beside clusters of four, and one that does nothing."""
    module = Parser(compiler_context(), BESIDE).parse_module()
    for name in ("join-launches", "plan-buffers"):
        apply_pass(compiler_context(), module, name)
    (both,) = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
    assert (both.grid_size, both.cluster_size) == (12, 4)
    assert [part.blocks for part in parts_of(both)] == [range(3), range(4, 12)]
    x = torch.randn(96)
    same, turned = map(torch.as_tensor, Executor(module, get_backend("host"))([x]))
    assert torch.equal(same, x)
    expected = [x[block // 4 * 4 + 3 :][:32] for block in range(8)]
    assert torch.equal(turned, torch.cat(expected))
    assert {v.answer for v in check_module(module, blocks=12)} == {"clean"}


def test_explain_counts_what_is_launched(capsys: pytest.CaptureFixture[str]) -> None:
    """Two kernels of the Loop IR that run in one launch, after the sum of both."""
    program = (
        "x = torch.randn(1, 512); "
        "F.linear(x, torch.randn(256, 512)).relu(), F.linear(x, torch.randn(64, 512)).tanh()"
    )
    assert main(["compile", "-c", program, "--target", "sm_90", "--explain"]) == 0
    said = capsys.readouterr().out
    assert "2 kernels, launched 2 times" in said
    assert "what reads the same runs in one launch: 1 launch instead of 2" in said

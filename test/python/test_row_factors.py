"""Sums relative to what another sum gives are folded with that one: products of normalized rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from test_fusion import kernels, loops, run
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp, StringAttr

import dlc
from dlc.analysis.loop.mma_products import mma_products
from dlc.dialects.loop import ReduceOp
from dlc.ir.variance import variance
from dlc.judge.accuracy import compare
from dlc.schedule.contraction_tiles import tiled_contraction
from dlc.schedule.estimate import estimate
from dlc.stages import Stages
from dlc.target import get_target

INF, NAN = float("inf"), float("nan")


def rms(x: Tensor, w: Tensor) -> Tensor:
    """As transformers has it: rounded to the type of the rows, and multiplied with the weight."""
    wide = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return w * wide.to(x.dtype)


def gated(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    h = rms(x, w)
    return F.silu(F.linear(h, a)) * F.linear(h, b)


PROGRAMS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "rms": lambda x, w, a, b: F.linear(rms(x, w), a),
    "gate and up": gated,
    "no weight": lambda x, w, a, b: F.linear(F.rms_norm(x, x.shape[-1:]), a),
    "one added to the weight": lambda x, w, a, b: F.linear(
        F.rms_norm(x, x.shape[-1:], eps=1e-6) * (1 + w), a
    ),
    "unit length": lambda x, w, a, b: F.linear(F.normalize(x, dim=-1), a),
}


def reduces(module: ModuleOp) -> list[ReduceOp]:
    return [op for op in module.walk() if isinstance(op, ReduceOp)]


def given(rows: int, k: int, columns: int, dtype: torch.dtype) -> list[Tensor]:
    seed = torch.Generator().manual_seed(k + columns)
    shapes = (rows, k), (k,), (columns, k), (columns, k)
    return [torch.randn(shape, generator=seed).to(dtype) for shape in shapes]


def joined(name: str, inputs: list[Tensor], file: Path) -> ModuleOp:
    """A program in one kernel, whose factors are taken out of sums, in a file."""
    shapes = [tuple(x.shape) for x in inputs]
    module = loops(PROGRAMS[name], *shapes, type=inputs[0].dtype)
    for kernel in kernels(module):
        kernel.attributes["fuse"] = StringAttr("always")
    run(module, "fuse-loops,join-cascades")
    file.write_text(str(module))
    return module


def on_host(name: str, inputs: list[Tensor], file: Path) -> Tensor:
    """What a program gives as one kernel with one sweep, which is free of hazards."""
    module = joined(name, inputs, file)
    assert len(kernels(module)) == 1
    assert len(reduces(module)) == (1 if len(inputs[0]) > 1 else 2)
    loaded = dlc.load(file, backend="host")
    assert {verdict.answer for verdict in loaded.check()} == {"clean"}
    found = loaded(*inputs)
    assert isinstance(found, Tensor)
    return found


@pytest.mark.parametrize(("rows", "k", "columns"), [(8, 64, 40), (1, 17, 3), (17, 100, 24)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results(
    name: str, dtype: torch.dtype, rows: int, k: int, columns: int, tmp_path: Path
) -> None:
    inputs = given(rows, k, columns, dtype)
    found = on_host(name, inputs, tmp_path / "joined.mlir")
    exact = PROGRAMS[name](*(x.double() for x in inputs))
    judged = compare(found, exact, PROGRAMS[name](*inputs), k)
    assert judged.ok, judged


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_no_number_stays_in_its_rows(dtype: torch.dtype, tmp_path: Path) -> None:
    inputs = given(8, 64, 24, dtype)
    rows = inputs[0]
    rows[1, 5], rows[2, 0], rows[3, 63], rows[4] = NAN, INF, -INF, 0
    rows[5], rows[6] = 1e25, 1e-30
    found = on_host("rms", inputs, tmp_path / "joined.mlir")
    eager = PROGRAMS["rms"](*inputs)
    assert torch.equal(found.isnan(), eager.isnan())
    assert found[1:4].isnan().all()
    assert not found[4:6].any()
    scale = eager[[0, 6, 7]].abs().amax(-1, keepdim=True)
    assert ((found - eager)[[0, 6, 7]].abs() <= 0.02 * scale).all()


def test_halves_with_less_range_are_multiplied_as_they_are(tmp_path: Path) -> None:
    inputs = given(8, 64, 24, torch.float16)
    module = loops(PROGRAMS["rms"], *(tuple(x.shape) for x in inputs), type=torch.float16)
    for kernel in kernels(module):
        kernel.attributes["fuse"] = StringAttr("always")
    said = run(module, "fuse-loops,join-cascades")
    assert len(reduces(module)) == 2
    why = "a product with it is rounded to f16, which has not the range of f32"
    assert any(why in text for text in said), said
    file = tmp_path / "apart.mlir"
    file.write_text(str(module))
    rows = (inputs[0].float() * 60000 / inputs[0].abs().max()).half()
    loaded = dlc.load(file, backend="host")
    found = loaded(rows, *inputs[1:])
    assert isinstance(found, Tensor)
    assert found.isfinite().all()


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (lambda x, w, a, b: F.linear((x + x.square().mean(-1, keepdim=True)), a), "not linear"),
        (lambda x, w, a, b: F.linear(x.square().mean(-1, keepdim=True) / x, a), "not linear"),
        (lambda x, w, a, b: F.linear(x / x.exp().mean(-1, keepdim=True), a), "may be infinite"),
        (lambda x, w, a, b: F.linear(w / x.square().mean(-1, keepdim=True), a), "may be infinite"),
    ],
)
def test_what_is_no_factor_is_told(program: Callable[..., Tensor], why: str) -> None:
    module = loops(program, (8, 64), (64,), (24, 64), (24, 64))
    for kernel in kernels(module):
        kernel.attributes["fuse"] = StringAttr("always")
    said = run(module, "fuse-loops,join-cascades")
    assert any("is swept after" in text and why in text for text in said), said


def test_rows_without_points_have_no_factor() -> None:
    """A sum of nothing is 0, and 0 times what the mean of nothing gives is NaN."""
    module = loops(PROGRAMS["rms"], (8, 0), (0,), (24, 0), (24, 0))
    run(module, "fuse-loops,join-cascades")
    assert not any(len(op.results) > 1 for op in reduces(module))


def test_tensor_cores_multiply_rows_before_their_norm(tmp_path: Path) -> None:
    """The sums of squares are a block's own, beside products of what it computes of a chunk."""
    inputs = given(8, 256, 256, torch.bfloat16)
    module = joined("gate and up", inputs, tmp_path / "joined.mlir")
    (kernel,), (reduce,) = kernels(module), reduces(module)
    tiled = tiled_contraction(kernel)
    assert tiled is not None
    products = mma_products(reduce, tiled.row, tiled.column, variance(kernel))
    assert products is not None
    assert len(products.beside) == 1
    assert tiled.problem.sums == 2
    assert tiled.problem.tensor is not None
    assert tiled.problem.tensor.sums_beside == 1
    text = str(Stages(module).module("kernel"))
    assert "kernel.mma" in text


def test_a_norm_of_few_rows_is_part_of_the_product_that_reads_it() -> None:
    """By the estimate: 19.0 us apart, 18.3 together; of many rows apart."""
    shapes = (2048,), (5632, 2048), (5632, 2048)
    few = loops(gated, (8, 2048), *shapes, type=torch.bfloat16)
    said = run(few, "fuse-loops")
    assert len(kernels(few)) == 1
    assert any("of which a factor is multiplied behind" in text for text in said)
    assert estimate(kernels(few)[0], get_target("sm_90")).seconds < 19e-6
    many = loops(gated, (128, 2048), *shapes, type=torch.bfloat16)
    run(many, "fuse-loops")
    assert len(kernels(many)) == 2


def test_a_plan_has_a_norm_of_many_rows_in_the_product_that_reads_it() -> None:
    inputs = given(64, 256, 128, torch.bfloat16)
    norm, of_one = "to+pow+sum+mean+add+rsqrt+mul+to_2+mul_2", "product+linear+linear_2+silu"
    plan = f"{norm}+{of_one}+product_2+linear_3+linear_4+mul_3"
    program = dlc.compile(gated, inputs, "sm_90", "host", plan=plan)
    assert len(program.kernels) == 1
    judged = compare(program(*inputs), gated(*(x.double() for x in inputs)), gated(*inputs), 256)
    assert judged.ok, judged


@pytest.mark.parametrize("rows", [2, 4])
def test_what_a_sum_divides_is_divided_before_it_is_multiplied(rows: int) -> None:
    """Powers of 80 are large, their shares are not."""

    def shares(x: Tensor, a: Tensor) -> Tensor:
        power = x.exp()
        return F.linear(power / power.sum(-1, keepdim=True), a)

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 2048, generator=generator) / 2 + 80
    a = torch.rand(64, 2048, generator=generator) * 1e4
    found = dlc.compile(shares, (x, a), target="sm_90", backend="host")(x, a)
    torch.testing.assert_close(found, shares(x, a), rtol=1e-4, atol=1e-2)

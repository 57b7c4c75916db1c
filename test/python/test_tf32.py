"""Products of f32 on tensor cores, by one product of tf32 or by three, at every step."""

from __future__ import annotations

import re
from dataclasses import replace

import loop_cases
import numpy as np
import pytest
import test_wgmma_tiles
import torch
import torch.nn.functional as F
from bank_meter import run_measured
from harness import STEPS, apply, interpret, on_host, scheduled
from test_tensor_cores import (
    CASES,
    MODES,
    PROGRAMS,
    SMALL,
    loaded,
    multiplies_matrices,
    product,
    schedule,
    steps,
)

import dlc
from dlc.backend.executor import Executor
from dlc.backend.host.host_backend import HostBackend
from dlc.diagnostics import TextError
from dlc.dialects import kernel
from dlc.judge.accuracy import compare
from dlc.remarks import collect
from dlc.simulator import run_module

Array = np.ndarray
DROPPED = {"tf32": 2 * 2.0**-10, "3xtf32": 3 * 2.0**-20}
"""The most that a product of two elements loses, as a share of it: tf32 has 11 bits and is cut off,
so that a rest is less than 2**-10 of an element. With three products, what is lost is the product
of both rests, and what is cut off of each rest, times an element."""


def in_f32(case: loop_cases.Case) -> loop_cases.Case:
    """A case whose factors are f32, and use all of its bits."""
    text = re.sub(r"^.*arith.extf.*\n", "", case.text, flags=re.MULTILINE)
    text = text.replace("%ae, %ce", "%a, %c").replace("f16", "f32")
    rng = np.random.default_rng(1)
    inputs = tuple(rng.standard_normal(a.shape).astype(np.float32) for a in case.inputs)
    return replace(case, text=text, inputs=inputs)


def by_tf32(text: str, precision: str) -> str:
    """A schedule for halves, for f32."""
    text = text.replace("vector=16", "vector=8")
    return text.replace("mma=m16n8k16", f"mma=m16n8k8 precision={precision}")


def judge(case: loop_cases.Case, found: Array, precision: str, what: str) -> None:
    """Each element is as near to fp64 as its products, in absolute value, allow."""
    x, w, bias = (a.astype(np.float64) for a in case.inputs)
    (exact,) = case.expected(x, w, bias)
    (size,) = case.expected(np.abs(x), np.abs(w), np.abs(bias))
    rounded = (case.longest + 2) * 2.0**-24
    excess = np.abs(found - exact) - (DROPPED[precision] + rounded) * size
    assert excess.max() <= 0, f"{what}: off by {excess.max()} more than products of {precision}"


@pytest.mark.parametrize("name", CASES)
def test_products(name: str) -> None:
    case, text = CASES[name]
    case = in_f32(case)
    module = steps(case, by_tf32(text, "3xtf32"))
    products = [op for op in module.walk() if isinstance(op, kernel.MmaOp)]
    assert len(products) == 3
    interpret(case, module, name)
    if name in ON_HOST:
        on_host(case, module, name, [{"order": o, "async_mode": mode} for o, mode in MODES])


ON_HOST = {"ragged, turned", "batched, turned", "split K"}


@pytest.mark.parametrize("precision", DROPPED)
@pytest.mark.parametrize(
    "case",
    [product(m, n, k, w_turned=n > m) for m, n, k in ((2, 7, 17), (17, 2, 100), (7, 33, 8))],
    ids=lambda c: c.name,
)
def test_every_prefix(case: loop_cases.Case, precision: str) -> None:
    case = in_f32(case)
    text = by_tf32(schedule((32, 16), (16, 8), bk=16), precision)
    held = STEPS.index("register-tile")
    for count in range(held, len(STEPS) + 1):
        module = steps(case, text, count)
        assert multiplies_matrices(module) == (count > held)
        (found,) = run_module(module, case.inputs)
        judge(case, found, precision, f"{count} steps")


def by_groups(text: str) -> str:
    """A schedule for halves by warpgroups, for f32: as many bytes of K."""
    text = re.sub(r"mma=m64n(\d+)k16", r"mma=m64n\1k8 precision=tf32", text)
    return text.replace("bk=64 vector=16", "bk=32 vector=8")


BY_GROUPS: dict[str, tuple[loop_cases.Case, str]] = {
    "copied": (product(17, 24, 100, w_turned=True), test_wgmma_tiles.SMALL),
    "by TMA": (product(72, 80, 100, w_turned=True), test_wgmma_tiles.TMA),
    "with a producer": (product(72, 16, 136, w_turned=True), test_wgmma_tiles.PRODUCER),
    "two warpgroups": (product(136, 8, 68, w_turned=True), test_wgmma_tiles.REGISTERS),
    "batched": (product(20, 24, 36, batch=2, w_turned=True), test_wgmma_tiles.TMA),
    "for two blocks": (
        product(72, 8, 136, w_turned=True),
        test_wgmma_tiles.PRODUCER.replace("tma-copy", "tma-copy{multicast=1,2}"),
    ),
}


@pytest.mark.parametrize("apart", [False, True], ids=["", "apart"])
@pytest.mark.parametrize("name", BY_GROUPS)
def test_products_of_warpgroups(name: str, apart: bool) -> None:
    """What a chunk's products sum may be added to a thread's sums apart."""
    case, text = BY_GROUPS[name]
    case = in_f32(case)
    text = by_groups(text)
    if apart:
        text = text.replace("precision=tf32", "precision=tf32 apart=true")
    module = test_wgmma_tiles.steps(case, text)
    assert any(isinstance(op, kernel.WgmmaOp) for op in module.walk())
    (found,) = run_module(module, case.inputs)
    judge(case, found, "tf32", name)
    for mode in ("early", "late"):
        executor = Executor(module, HostBackend(async_mode=mode))
        (made,) = executor([torch.from_numpy(x) for x in case.inputs])
        judge(case, made.numpy(), "tf32", f"{name} on the host")


@pytest.mark.parametrize("turned", [{"x_turned": True, "w_turned": True}, {}], ids=["x", "w"])
def test_what_lies_across_k_is_multiplied_by_warps(turned: dict[str, bool]) -> None:
    """Of tf32, wgmma reads rows along K alone."""
    case = in_f32(product(20, 24, 36, **turned))
    with collect() as remarks:
        module = test_wgmma_tiles.steps(case, by_groups(test_wgmma_tiles.SMALL))
    assert multiplies_matrices(module)
    name = "x" if turned else "w"
    said = " ".join(remark.text for remark in remarks)
    assert f"{name}_ring lies across K: of tf32" in said, said
    (found,) = run_module(module, case.inputs)
    judge(case, found, "tf32", name)


def test_parts_are_no_factors_of_warpgroups() -> None:
    text = by_groups(test_wgmma_tiles.SMALL).replace("precision=tf32", "precision=3xtf32")
    with pytest.raises(TextError, match="a warpgroup reads factors as they lie"):
        test_wgmma_tiles.steps(in_f32(product(20, 24, 36)), text)


def test_tf32_by_default() -> None:
    """A linear layer, whose factors lie along K; of a product, one does where it is laid out so."""
    x, w = torch.randn(256, 512), torch.randn(384, 512)
    made = dlc.compile(F.linear, (x, w), "sm_90", "host", precision="tf32")
    assert re.search(r"mma=m64n\d+k8 precision=tf32", made.kernels[0].schedule)
    assert compare(made(x, w), F.linear(x.double(), w.double()), F.linear(x, w), 512,
                   precision="tf32").ok  # fmt: skip
    for columns, laid_out in ((16, False), (1024, True)):
        x, y = torch.randn(512, 512), torch.randn(512, columns)
        other = dlc.compile(torch.matmul, (x, y), "sm_90", "host", precision="tf32")
        assert any("_packed" in k.name for k in other.kernels) == laid_out
        assert any("mma=m64" in k.schedule for k in other.kernels) == laid_out
    exact = x.double() @ y.double()
    assert compare(other(x, y), exact, x @ y, 512, precision="tf32").ok


def test_three_products_are_as_exact_as_f32() -> None:
    """Next to fused multiply-adds in order, by the host's emulation of both."""
    torch.manual_seed(0)
    x, w = torch.randn(32, 4096), torch.randn(4096, 32)
    exact, size = x.double() @ w.double(), (x.double().abs() @ w.double().abs()).max()
    errors: dict[str, float] = {}
    plain = schedule((32, 32), (4, 4)).replace(" mma=m16n8k16", "").replace("vector=16", "vector=4")
    for precision in ("f32", "3xtf32", "tf32"):
        text = plain if precision == "f32" else by_tf32(SMALL, precision)
        made = dlc.compile(
            torch.matmul, (x, w), target="sm_80", backend="host", schedules={"matmul": text}
        )
        assert ("mma" in made.kernels[0].ir("cuda")) == (precision != "f32")
        errors[precision] = float((made(x, w) - exact).abs().max() / size)
    assert errors["3xtf32"] <= errors["f32"] < errors["tf32"] / 30


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    f, shapes, text = PROGRAMS[name]
    torch.manual_seed(0)
    inputs = tuple(torch.randn(shape) for shape in shapes)
    plain = dlc.compile(f, inputs, target="sm_80", backend="host")
    asked = {plain.kernels[0].name.removesuffix("_product"): by_tf32(text, "3xtf32")}
    made = dlc.compile(f, inputs, target="sm_80", backend="host", schedules=asked)
    assert "mma_m16n8k8_f32_tf32" in made.kernels[0].ir("cuda")
    assert compare(made(*inputs), f(*(x.double() for x in inputs)), f(*inputs), 256).ok


def test_infinities_and_nan() -> None:
    """They are where fp64 has them: with three products, no term is 0 times infinity."""
    case = in_f32(CASES["ragged"][0])
    x, w, bias = (a.copy() for a in case.inputs)
    x[3, 7], x[4, 5], x[5, 6], w[5, 2], w[7, 9], bias[4] = np.inf, -np.inf, 0, np.nan, -np.inf, 1
    w[7, 3], w[6, 1], x[9, 6] = np.inf, np.inf, 2.0
    x[11, 2], x[12, 2], w[2, 5] = np.finfo(np.float32).max / 64, 1e-44, 2.0**-126
    for precision in DROPPED:
        module = steps(case, by_tf32(SMALL, precision))
        (found,) = run_module(module, (x, w, bias))
        with np.errstate(invalid="ignore"):
            (exact,) = case.expected(*(a.astype(np.float64) for a in (x, w, bias)))
        finite = np.isfinite(exact)
        assert 0 < finite.sum() < finite.size
        np.testing.assert_array_equal(found[~finite], exact[~finite])
        assert np.isfinite(found[finite]).all()


@pytest.mark.parametrize(("name", "rows"), [("linear", 2), ("both turned", 1), ("whole", 1)])
def test_rows_are_loaded_whole(name: str, rows: int) -> None:
    """Factors that lie along K are read by rows of 16 bytes, four elements each."""
    case, text = CASES[name]
    module = steps(in_f32(case), by_tf32(text, "3xtf32"))
    loads = [op for op in module.walk() if isinstance(op, kernel.LdmatrixOp)]
    assert len(loads) == rows


@pytest.mark.parametrize("more", ["async-copy,pad-smem", "split-inner-for-swizzle,async-copy"])
def test_rows_lie_in_distinct_banks(more: str) -> None:
    text = by_tf32(SMALL, "3xtf32").replace("async-copy", more)
    case = in_f32(product(48, 40, 96, w_turned=True))
    _, meters = run_measured(steps(case, text), case.inputs, {})
    assert max(m.ways for meter in meters.values() for m in loaded(meter)) == 1


REFUSED = {
    "no precision": (SMALL.replace("m16n8k16", "m16n8k8"), "expected 3xtf32 or tf32 for"),
    "halves": (SMALL.replace("k16}", "k16 precision=tf32}"), "expected f32 for mma=m16n8k16"),
    "threads": (
        SMALL.replace("mma=m16n8k16", "precision=3xtf32"), "expected f32 for products by threads",
    ),
    "runs": (
        by_tf32(SMALL, "tf32").replace("vector=8", "vector=16"), "expected K in runs of 8",
    ),
    "apart, three products": (
        by_tf32(SMALL, "3xtf32 apart=true"), "those of 3xtf32 are so anyway",
    ),
    "f32 as halves": (SMALL, "expected factors of f16 or bf16, found f32"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    text, message = REFUSED[name]
    case = in_f32(product(64, 64, 64))
    with pytest.raises(TextError, match=message):
        apply(scheduled(case, text, "sm_80"), ",".join(STEPS[: STEPS.index("register-tile") + 1]))


def test_halves_are_not_tf32() -> None:
    with pytest.raises(TextError, match="expected factors of f32, found f16"):
        steps(product(64, 64, 64), by_tf32(SMALL, "tf32"))

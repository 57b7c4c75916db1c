"""Products of f32 of which factors are laid out in parts, which warpgroups multiply in tf32."""

from __future__ import annotations

import re

import numpy as np
import pytest
import test_wgmma_tiles
import torch
import torch.nn.functional as F
from harness import STEPS, apply, lowered, parse
from test_tensor_cores import product
from test_tf32 import by_groups, in_f32, judge
from xdsl.dialects.builtin import ModuleOp, StringAttr

import dlc
from dlc.backend.executor import Executor
from dlc.backend.host.host_backend import HostBackend
from dlc.dialects import kernel, loop
from dlc.dialects.kernel_op import kernels_in
from dlc.remarks import collect
from dlc.simulator import run_module
from dlc.target import set_target

BY_PARTS = by_groups(test_wgmma_tiles.PRODUCER).replace(
    "precision=tf32", "precision=tf32 apart=true"
)
CASES = {
    "linear": product(17, 24, 100, w_turned=True),
    "ragged K": product(72, 9, 37, w_turned=True),
    "plain": product(7, 33, 40),
    "both turned": product(20, 24, 44, x_turned=True, w_turned=True),
    "batched": product(20, 8, 13, batch=2),
}


def in_parts(text: str) -> ModuleOp:
    """A module of Loop IR whose factors are laid out in parts, and what multiplies these, in
    chunks of a few."""
    module = parse(text)
    set_target(module, "sm_90", "3xtf32")
    apply(module, "split-factors{always=true}")
    for op in kernels_in(module, loop.KernelOp):
        if "_parts" not in op.name_:
            op.schedule = StringAttr(BY_PARTS)
    apply(module, "schedule-kernels")
    return module


@pytest.mark.parametrize("name", CASES)
def test_products_of_parts(name: str) -> None:
    case = in_f32(CASES[name])
    module = in_parts(case.text)
    assert sum("_parts" in op.name_ for op in kernels_in(module, loop.KernelOp)) == 2
    apply(module, ",".join(STEPS))
    made = lowered(module)
    assert test_wgmma_tiles.counted(made, kernel.WgmmaOp)
    assert not test_wgmma_tiles.counted(made, kernel.MmaOp)
    (found,) = run_module(made, case.inputs)
    judge(case, found, "3xtf32", name)
    (found,) = Executor(made, HostBackend())([torch.from_numpy(x) for x in case.inputs])
    judge(case, found.numpy(), "3xtf32", f"{name} on the host")


def test_every_prefix() -> None:
    """The parts are the product of f32 but for what they leave out, whoever multiplies them."""
    case = in_f32(product(17, 9, 21))
    held, swizzled = (STEPS.index(s) for s in ("register-tile", "split-inner-for-swizzle"))
    for count in (1, held + 1, swizzled + 1):
        module = in_parts(case.text)
        apply(module, ",".join(STEPS[:count]), round_trip=False)
        (found,) = run_module(lowered(module, round_trip=False), case.inputs)
        judge(case, found, "3xtf32", f"{count} steps")


def test_infinities_and_nan() -> None:
    """They are where fp64 has them: no rest is multiplied with what is infinite."""
    case = in_f32(CASES["plain"])
    x, w, bias = (a.copy() for a in case.inputs)
    x[3, 7], x[4, 5], x[5, 6], w[5, 2], w[7, 9], bias[4] = np.inf, -np.inf, 0, np.nan, -np.inf, 1
    w[7, 3], w[6, 1], x[2, 6] = np.inf, np.inf, 2.0
    module = in_parts(case.text)
    apply(module, ",".join(STEPS))
    (found,) = run_module(lowered(module), (x, w, bias))
    with np.errstate(invalid="ignore"):
        (exact,) = case.expected(*(a.astype(np.float64) for a in (x, w, bias)))
    finite = np.isfinite(exact)
    assert 0 < finite.sum() < finite.size
    np.testing.assert_array_equal(found[~finite], exact[~finite])
    assert np.isfinite(found[finite]).all()


LEFT = {
    "windows": (lambda x, w: F.conv1d(x, w), ((2, 8, 37), (6, 8, 3)), ""),
    "one factor": (lambda x, _: x @ x.T, ((16, 64), (1,)), "which is read elsewhere, too"),
    "padded by 5": (
        lambda x, w: F.pad(x, (0, 3), value=5.0) @ w,
        ((16, 10), (13, 16)),
        "is not 0 where it is not read, and so behind its 13 of K",
    ),
    "computed": (lambda x, w: x.exp() @ w, ((16, 64), (64, 16)), ""),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left(name: str) -> None:
    """Factors that are no elements of inputs of their own; what could be split says why not."""
    program, shapes, why = LEFT[name]
    text = dlc.compile(program, tuple(map(torch.randn, shapes)), target="sm_80").ir("loop")
    module = parse(re.sub(r' schedule "[^"]*"', "", text))
    set_target(module, "sm_90", "3xtf32")
    with collect() as remarks:
        apply(module, "split-factors{always=true}")
    assert not any("_parts" in op.name_ for op in kernels_in(module, loop.KernelOp))
    said = " ".join(r.text for r in remarks if r.pass_name == "split-factors")
    assert why in said


@pytest.mark.parametrize(("size", "chip", "splits"), [
    (4096, "sm_90", True), (256, "sm_90", False), (4096, "sm_80", False),
])  # fmt: skip
def test_it_is_the_default_where_it_pays(size: int, chip: str, splits: bool) -> None:
    """Large products on sm_90, what the parts take of memory is said."""
    x = torch.empty(size, size, device="meta")
    made = dlc.compile(F.linear, (x, torch.empty_like(x)), target=chip, precision="3xtf32")
    text = made.ir("loop")
    assert ("_parts" in text) == splits
    assert bool(re.search(r"mma=m64n\d+k8 precision=tf32 apart=true", text)) == splits

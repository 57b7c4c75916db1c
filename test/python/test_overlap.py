"""Kernels that begin before the ones ahead of them end: what they do early, results, launches."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from test_sass import needs_tools
from xdsl.dialects.builtin import ModuleOp

import dlc
from dlc.backend.cuda.print.printer import print_module
from dlc.backend.cuda.run import nvcc, sass
from dlc.remarks import collect
from dlc.stages import compiler_context
from dlc.transforms.kernel.overlap_launches import OverlapLaunchesPass

torch.manual_seed(0)
X, W, B = torch.randn(40, 64), torch.randn(64, 64), torch.randn(64)
HALF = torch.randn(256, 256).bfloat16()
PROGRAMS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "norm and product": (lambda x, w: torch.relu(torch.softmax(x, 1) @ w) + 1, (X, W)),
    "sum over the grid": (lambda x: torch.softmax(x.sum() * x[0], 0), (torch.randn(300, 301),)),
    "split product": (lambda x, w: x @ w, (torch.randn(2, 4096), torch.randn(4096, 24))),
    "halves": (lambda x, w: torch.relu(x @ w), (HALF, HALF)),
    "written argument": (lambda x, b: x.add_(b).sum(1), (X, B)),
    "scattered": (lambda x, b: torch.zeros(64).index_add(0, torch.arange(64) // 2, b), (X, B)),
}
GLOBAL = ("LDG", "STG", "LDGSTS", "RED", "REDG", "ATOM", "ATOMG", "LD", "ST", "UTMALDG", "UBLKCP")
"""SASS that reads or writes global memory."""


def overlapped(f: dlc.CompiledProgram) -> ModuleOp:
    module = f.variants[0].module("kernel").clone()
    OverlapLaunchesPass().apply(compiler_context(), module)
    module.verify()
    return module


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_the_same(name: str, tmp_path: Path) -> None:
    program, args = PROGRAMS[name]
    f = dlc.compile(program, tuple(a.clone() for a in args), "sm_90", "host")
    wanted = f(*(a.clone() for a in args))
    file = tmp_path / "k.mlir"
    file.write_text(str(overlapped(f)))
    g = dlc.load(file, backend="host")
    assert "grid_wait();" in g.ir("cuda")
    given = [a.clone() for a in args]
    assert torch.equal(g(*given), wanted)
    g.check()


def test_what_nothing_writes_is_asked_for_early() -> None:
    """Where it is read does not depend on data, and no launch of the program stores to it."""

    def program(x: torch.Tensor, w: torch.Tensor, i: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return (x @ w).sin() @ w + t[i]

    given = X.clone(), W, torch.tensor([3] * 40), torch.randn(50, 64)
    module = overlapped(dlc.compile(program, given, "sm_90", "host"))
    asked = set(re.findall(r"kernel\.prefetch (%\w+) bytes", str(module)))
    assert asked == {"%w", "%i"}


def test_shares_that_are_no_numbers_are_not_asked_for() -> None:
    sizes = ({0: torch.export.Dim("n", min=0, max=64)}, None)
    f = dlc.compile(torch.matmul, (X, W), "sm_90", "host", dynamic_shapes=sizes)
    with collect() as remarks:
        text = str(overlapped(f))
    assert "kernel.prefetch" not in text
    assert "kernel.grid_wait" in text
    assert any("asks for nothing ahead" in remark.text for remark in remarks)


@needs_tools
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_touched_before_the_wait(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does nvcc move it there: the wait is ahead of all global memory in SASS."""
    program, args = PROGRAMS[name]
    f = dlc.compile(program, tuple(a.clone() for a in args), "sm_90", "host")
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path))
    cubin = nvcc.compile_cubin(print_module(overlapped(f)), "sm_90")
    for function in sass.parse(sass.disassemble(cubin.path)):
        opcodes = [i.opcode.partition(".")[0] for i in function.instructions]
        assert "PREEXIT" in opcodes
        touched = [n for n, opcode in enumerate(opcodes) if opcode in GLOBAL]
        assert touched
        assert opcodes.index("ACQBULK") < touched[0]

"""Edited IR from Python: files that are loaded, schedules that are given, kernels at each stage."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import dlc

BY_HAND = "tileify,blockify-launch{block=16,16 thread=8,8},register-tile{extents=2,2}"
ARGS = (torch.randn(64, 64), torch.randn(64, 64))


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a @ b + 1)


@pytest.fixture(scope="module")
def compiled() -> dlc.CompiledProgram:
    return dlc.compile(product, ARGS, target="sm_80", backend="host")


@pytest.mark.parametrize("stage", ["torch", "tensor", "loop", "tile", "kernel"])
def test_a_file_of_any_stage_runs(
    compiled: dlc.CompiledProgram, tmp_path: Path, stage: dlc.stages.Printed
) -> None:
    path = tmp_path / f"{stage}.mlir"
    path.write_text(compiled.ir(stage))
    program = dlc.load(path, backend="host")
    assert torch.equal(program(*ARGS), compiled(*ARGS))
    assert torch.equal(program(b=ARGS[1], a=ARGS[0].clone()), compiled(*ARGS))
    assert torch.equal(program(ARGS[0].t().contiguous().t(), ARGS[1]), compiled(*ARGS))
    assert repr(program) == "<dlc program (a, b) for sm_80 on host: 1 kernel>"
    assert program.ir("cuda") == compiled.ir("cuda")


def test_what_a_loaded_program_returns_and_writes(tmp_path: Path) -> None:
    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("c", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int, torch.Tensor]:
            assert isinstance(self.c, torch.Tensor)
            self.c.add_(x)
            return self.c * 2, self.c, 7, x[1:]

    compiled = dlc.compile(Step(), (torch.ones(3),), backend="host")
    path = tmp_path / "step.mlir"
    path.write_text(compiled.ir("loop"))
    program, count, x = dlc.load(path, backend="host"), torch.zeros(3), torch.ones(3)
    assert sorted(program.names) == ["c", "x"]
    for calls in (1, 2):
        doubled, same, seven, view = program(c=count, x=x)
        assert doubled.tolist() == [2 * calls] * 3
        assert same is count
        assert count.tolist() == [calls] * 3
        assert seven == 7
        assert view.data_ptr() == x[1:].data_ptr()


def test_what_a_loaded_program_does_not_take(compiled: dlc.CompiledProgram, tmp_path: Path) -> None:
    path = tmp_path / "k.mlir"
    path.write_text(compiled.ir("tile"))
    program, (a, b) = dlc.load(path, backend="host"), ARGS
    with pytest.raises(TypeError, match=r"expected 2 tensors \(a, b\), found b missing"):
        program(a)
    with pytest.raises(TypeError, match=r"expected 2 tensors \(a, b\), found 3"):
        program(a, b, b)
    with pytest.raises(TypeError, match="expected no argument 'c'"):
        program(a, c=b)
    with pytest.raises(TypeError, match=r"a to be torch.float32 \[64, 64\], found .*\[5, 64\]"):
        program(a[:5], b)
    with pytest.raises(ValueError, match="the program is tile IR, of which no loop IR is made"):
        program.ir("loop")
    with pytest.raises(ValueError, match="schedules are for kernels of the loop IR, and the prog"):
        program.with_schedule({"matmul_add_relu": BY_HAND})


def test_schedules_from_python(compiled: dlc.CompiledProgram, tmp_path: Path) -> None:
    name = compiled.kernels[0].name
    path = tmp_path / "k.mlir"
    path.write_text(compiled.ir("loop"))
    programs = [
        compiled.with_schedule({name: BY_HAND}),
        dlc.compile(product, ARGS, "sm_80", "host", schedules={name: BY_HAND}),
        dlc.load(path, backend="host").with_schedule({name: BY_HAND}),
        dlc.load(path, backend="host", schedules={name: BY_HAND}),
    ]
    for program in programs:
        (kernel,) = program.kernels
        assert kernel.schedule == BY_HAND
        assert kernel.block == 64
        assert BY_HAND in program.explain()
        torch.testing.assert_close(program(*ARGS), product(*ARGS))
    assert compiled.kernels[0].schedule != BY_HAND
    assert programs[0](torch.randn(5, 64), ARGS[1]).shape == (5, 64)  # another variant
    with pytest.raises(ValueError, match="a schedule is for 'mat', and there is no such kernel"):
        compiled.with_schedule({"mat": BY_HAND})


def test_a_kernel_at_each_stage(compiled: dlc.CompiledProgram) -> None:
    (kernel,) = compiled.kernels
    for stage, begin in (("loop", "loop.kernel @"), ("tile", "tile.kernel @"), ("kernel", "kern")):
        assert begin in kernel.ir(stage).splitlines()[0]  # pyright: ignore[reportArgumentType]
    assert kernel.ir("cuda") == kernel.source
    with pytest.raises(ValueError, match="there is no kernel 'matmul_add_relu' in the torch IR"):
        kernel.ir("torch")


def test_a_program_is_checked(compiled: dlc.CompiledProgram, tmp_path: Path) -> None:
    (verdict,) = compiled.check()
    assert verdict.answer == "clean"
    assert repr(verdict) == "<matmul_add_relu is clean>"
    text = compiled.ir("kernel")
    assert text.count("kernel.barrier") == 1
    path = tmp_path / "k.mlir"
    path.write_text(text.replace("      kernel.barrier\n", ""))
    (verdict,) = dlc.load(path, backend="host").check()
    assert "race" in {hazard.kind for hazard in verdict.hazards}

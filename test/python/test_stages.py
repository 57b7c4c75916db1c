"""Edited IR from Python: files that are loaded, schedules that are given, kernels at each stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from xdsl.utils.exceptions import ParseError

import dlc
from dlc.registry import PipelineError

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
    with pytest.raises(PipelineError, match="unknown step 'tilefy'") as caught:
        compiled.with_schedule({name: "tilefy"})
    assert f"in the schedule of '{name}'" in caught.value.__notes__


@pytest.mark.parametrize("given", [BY_HAND, {"product": None}, {3: BY_HAND}, [BY_HAND]])
def test_schedules_are_by_name(given: Any, compiled: dlc.CompiledProgram, tmp_path: Path) -> None:
    (tmp_path / "k.mlir").write_text(compiled.ir("loop"))
    loaded = dlc.load(tmp_path / "k.mlir", backend="host")
    for call in (
        compiled.with_schedule,
        loaded.with_schedule,
        lambda given: dlc.load(tmp_path / "k.mlir", schedules=given),
        lambda given: dlc.compile(product, ARGS, schedules=given),
    ):
        with pytest.raises(TypeError, match="expected schedules by the names of kernels, found"):
            call(given)


def test_a_text_is_no_file(compiled: dlc.CompiledProgram) -> None:
    with pytest.raises(TypeError, match=r"expected a file, found a text of \d+ lines"):
        dlc.load(compiled.ir("loop"))


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


def test_tensors_that_lie_otherwise_are_copied(tmp_path: Path) -> None:
    path, memory = tmp_path / "k.mlir", torch.arange(4100.0)
    for align, skip in ((None, 0), (4, 1), (8, 2)):
        x = memory[skip : skip + 4096]
        path.write_text(dlc.compile(lambda x: x * 2, (x,), backend="host").ir("loop"))
        assert (f"dlc.align = {align}" in path.read_text()) == (align is not None)
        program = dlc.load(path, backend="host")
        for begin in range(5):
            given = memory[begin : begin + 4096]
            assert torch.equal(program(given), given * 2)


@pytest.mark.parametrize("stage", ["torch", "tensor", "loop", "tile", "kernel"])
def test_unsigned_bytes_are_unsigned(tmp_path: Path, stage: dlc.stages.Printed) -> None:
    def step(x: torch.Tensor, signed: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x += 1
        return x, x // 2, x.float(), signed - 1, x[1:]

    def arguments() -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.tensor([0, 1, 127, 128, 200, 255], dtype=torch.uint8)
        return x, x.to(torch.int8)

    path = tmp_path / "k.mlir"
    path.write_text(dlc.compile(step, arguments(), backend="host").ir(stage))
    program, given, expected = dlc.load(path, backend="host"), arguments(), arguments()
    for result, wanted in zip(program(*given), step(*expected), strict=True):
        assert result.dtype == wanted.dtype
        assert result.tolist() == wanted.tolist()
    assert given[0].tolist() == expected[0].tolist()
    with pytest.raises(TypeError, match=r"expected x to be torch.uint8 \[6\], found torch.int8"):
        program(given[1], given[1])


def test_gradients_of_a_loaded_program_are_refused(
    compiled: dlc.CompiledProgram, tmp_path: Path
) -> None:
    path, (a, b) = tmp_path / "k.mlir", ARGS
    path.write_text(compiled.ir("loop"))
    program, weight = dlc.load(path, backend="host"), b.clone().requires_grad_()
    with pytest.raises(TypeError, match="b requires a gradient, and a loaded program computes non"):
        program(a, weight)
    with torch.no_grad():
        assert torch.equal(program(a, weight), compiled(a, b))
    assert torch.equal(program(a, weight.detach()), compiled(a, b))


def test_files_and_tensors_of_another_kind(compiled: dlc.CompiledProgram, tmp_path: Path) -> None:
    path = tmp_path / "k.mlir"
    path.write_bytes(b"ab\xff\x00")
    with pytest.raises(ValueError, match=r"k.mlir is not text: byte 0xff at offset 2 is not UTF-8"):
        dlc.load(path)
    with pytest.raises(FileNotFoundError, match=r"cannot load the program '.*none': no such file"):
        dlc.load(tmp_path / "none")
    path.with_suffix(".cu").write_text(compiled.ir("cuda"))
    with pytest.raises(ParseError) as raised:
        dlc.load(path.with_suffix(".cu"))
    (note,) = raised.value.__notes__
    assert note.startswith("hint: CUDA C is not read back")
    path.write_text(compiled.ir("kernel").rstrip().removesuffix("}"))
    with pytest.raises(ParseError, match=r"the text ends before the \} of this \{"):
        dlc.load(path)
    path.write_text(compiled.ir("kernel"))
    with pytest.raises(TypeError, match=r"a to be .*, found .* of layout torch.sparse_coo"):
        dlc.load(path, backend="host")(ARGS[0].to_sparse(), ARGS[1])

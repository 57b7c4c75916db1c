"""The tensor memory accelerator copies from tensors whose extents and strides are sizes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from exported import build, run
from specialized import executor_at
from torch.export import Dim
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import dlc
from dlc.backend.export import export_program
from dlc.dialects.size import symbols_in
from dlc.importing import Imports
from dlc.pipeline import text_of
from dlc.shared_kernels import are_made_for
from dlc.stages import Stages, compiler_context
from dlc.target import set_target

S = Dim("s", min=2, max=4096)


def rows(n: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(n, 128).bfloat16(), torch.randn(128, 256).bfloat16()


def batch(n: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(n, 64, 256).bfloat16(), torch.randn(n, 256, 256).bfloat16()


def kernels_of(
    make: Callable[[int], tuple[torch.Tensor, ...]], shapes: object, likely: int
) -> ModuleOp:
    """A product of halves in Kernel IR, for all sizes."""
    imports, args = Imports(torch.matmul, shapes), make(likely)
    imports.program(args, None)
    ((sized),) = imports.sized
    module = sized.module.clone()
    set_target(module, "sm_90", "f32")
    return Stages(module).module("kernel")


def check(kernels: ModuleOp, sizes: Mapping[str, int], args: tuple[torch.Tensor, ...]) -> None:
    (result,) = executor_at(kernels, sizes)(args)
    agrees(result, args)


def agrees(result: torch.Tensor, args: tuple[torch.Tensor, ...], rounding: float = 2**-8) -> None:
    """Sums in f32 are rounded to halves once: to bf16 by half a unit in the last of 8 bits."""
    exact = torch.matmul(*(a.double() for a in args))
    torch.testing.assert_close(result.double(), exact, rtol=rounding, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "shapes", "likely", "numbers"),
    [(rows, ({0: S}, None), 256, (1, 65)), (batch, ({0: S}, {0: S}), 32, (1, 3))],
)
def test_maps_are_made_for_each_size(
    make: Callable[[int], tuple[torch.Tensor, ...]],
    shapes: object,
    likely: int,
    numbers: tuple[int, ...],
) -> None:
    """Where a batch is 1 its map has that dimension, too, as the kernel's coordinates do."""
    text = text_of(kernels_of(make, shapes, likely)).replace("from 2", "from 1")
    kernels = Parser(compiler_context(), text).parse_module()
    assert text_of(kernels) == text
    assert "kernel.tensor_map" in text
    (name,) = symbols_in(kernels)
    for n in numbers:
        check(kernels, {name: n}, make(n))
    assert not are_made_for(kernels, {name: 0})


def test_strides_that_no_fact_divides_are_copied_by_threads() -> None:
    """Rows of s halves begin at multiples of 16 bytes where s is a multiple of 8 only."""

    def columns(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(256, 128).bfloat16(), torch.randn(128, n).bfloat16()

    text = text_of(kernels_of(columns, (None, {1: S}), 256))
    assert "kernel.tensor_map" not in text


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_maps_of_one_size_are_simulated_saved_and_exported(tmp_path: Path, scheduler: Path) -> None:
    def halves(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(n, 128).half(), torch.randn(128, 256).half()

    program = dlc.compile(torch.matmul, halves(64), "sm_90", "host", dynamic_shapes=({0: S}, None))
    args = halves(70)
    agrees(program(*args), args, 2**-11)
    bound = program.variants[1].bound
    text = text_of(bound.module("kernel"))
    assert "kernel.tensor_map" in text
    assert "?" not in text
    assert [verdict.answer for verdict in bound.check()] == ["clean"]
    program.save(tmp_path / "saved.dlc")
    agrees(dlc.load_program(tmp_path / "saved.dlc", "host")(*args), args, 2**-11)
    export_program(bound.module("kernel"), folder := tmp_path / "exported")
    build(folder, scheduler)
    for n, array in enumerate(args):
        np.save(folder / f"args.{n}.npy", array.numpy())
    assert run(folder).stderr == ""
    agrees(torch.from_numpy(np.load(folder / "out" / "0.npy")), args, 2**-11)

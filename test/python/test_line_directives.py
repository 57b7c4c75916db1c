"""`dlc compile -o DIR/ --lines IR`: kernels whose lines are those of an IR."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from exported import build, run
from xdsl.dialects.test import TestOp

from dlc.backend import BackendError
from dlc.backend.cuda.print.line_directives import with_directives
from dlc.backend.cuda.run.nvcc import compile_cubin, find_nvcc
from dlc.backend.cuda.run.sass import disassemble, find_nvdisasm
from dlc.cli.dlc_cli import main
from dlc.passes import STAGES

TEXT = "torch.relu(torch.matmul(torch.randn(256,64) + torch.randn(64), torch.randn(64,256)))"
AT: dict[str, tuple[str, str]] = {
    "torch": ("matmul.default", "relu.default"),
    "tensor": ("reduce add", "maximumf"),
    "loop": ("yield", "maximumf"),
    "tile": ("yield", "maximumf"),
    "kernel": ("kernel.store", "kernel.store"),
}
"""What the lines hold that multiply and add and take the largest are made of: see `Lines`."""
DIRECTIVE = re.compile(r'^#line (\d+) "(.+)"$')


def exported(folder: Path, *more: str, text: str = TEXT) -> str:
    """The text of the only kernel."""
    given = ["compile", "-c", text, "--target", "sm_90", "-o", f"{folder}/", *more]
    assert main(given) == 0
    (kernel,) = (folder / "kernels").glob("*.cu")
    return kernel.read_text()


def sources(text: str) -> dict[str, list[int]]:
    """The lines, from 1 on, that each line of code says it is from, by its text."""
    found: dict[str, list[int]] = {}
    at = 0
    for line in text.splitlines():
        if told := DIRECTIVE.match(line):
            at = int(told[1])
        else:
            found.setdefault(line.strip(), []).append(at)
            at += at > 0
    return found


@pytest.mark.parametrize("ir", STAGES)
def test_lines_are_those_of_the_file(ir: str, tmp_path: Path) -> None:
    plain, told = exported(tmp_path / "a"), exported(tmp_path / "b", "--lines", ir)
    assert [line for line in told.splitlines() if not DIRECTIVE.match(line)] == plain.splitlines()
    files = {m[2] for line in told.splitlines() if (m := DIRECTIVE.match(line))}
    assert files == {f"{ir}.mlir"}
    lines = (tmp_path / "b" / f"{ir}.mlir").read_text().splitlines()
    at = sources(told)
    (product,) = [numbers[0] for line, numbers in at.items() if "fmaf(" in line]
    (relu,) = [numbers[0] for line, numbers in at.items() if "= max_nan(" in line]
    for name, number in zip(AT[ir], (product, relu), strict=True):
        assert name in lines[number - 1]


def test_a_brace_without_a_directive_moves_no_line() -> None:
    """What follows it is where the compiler counts, not after the place of the brace."""
    ops = [TestOp() for _ in range(3)]
    written = {op: range(n, n + 1) for n, op in enumerate(ops)}
    places = dict(zip(ops, (("f", 5), ("f", 1), ("f", 2)), strict=True))
    told = with_directives("a;\n}\nb;\n", written, places.get)
    assert sources(told) == {"a;": [5], "}": [6], "b;": [2]}


def test_the_program_runs(tmp_path: Path, scheduler: Path) -> None:
    exported(tmp_path, "--lines", "kernel")
    flags = re.findall(r"-lineinfo|-pthread -g$", (tmp_path / "Makefile").read_text(), re.MULTILINE)
    assert sorted(set(flags)) == ["-lineinfo", "-pthread -g"]
    generator = np.random.default_rng(0)
    shapes = (256, 64), (64,), (64, 256)
    x, y, z = (generator.standard_normal(shape, dtype=np.float32) for shape in shapes)
    build(tmp_path, scheduler)
    files = [tmp_path / f"{name}.npy" for name in "xyz"]
    for file, value in zip(files, (x, y, z), strict=True):
        np.save(file, value)
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "out" / "0.npy")
    assert np.allclose(found, np.maximum((x + y) @ z, 0), atol=1e-4)


def test_machine_code_names_the_file(tmp_path: Path) -> None:
    try:
        find_nvcc(), find_nvdisasm()
    except BackendError as error:
        pytest.skip(str(error))
    cubin = compile_cubin(exported(tmp_path, "--lines", "tile"), "sm_90", ["-lineinfo"])
    listing = disassemble(cubin.path, "-g").splitlines()
    before = [listing[n - 1] for n, line in enumerate(listing) if " FFMA " in line]
    assert any('tile.mlir", line ' in line for line in before)


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "-c", TEXT, "--lines", "tile"]) == 2
    assert "--lines needs -o DIR/" in capsys.readouterr().err
    file = tmp_path / "k.mlir"
    assert main(["compile", "-c", TEXT, "--ir", "tile", "-o", str(file)]) == 0
    assert main(["compile", str(file), "-o", f"{tmp_path}/d/", "--lines", "loop"]) == 2
    assert "the program has no Loop IR: it begins later" in capsys.readouterr().err
    assert main(["compile", str(file), "-o", f"{tmp_path}/d/", "--lines", "tile"]) == 0
    assert "#line" in next((tmp_path / "d" / "kernels").glob("*.cu")).read_text()

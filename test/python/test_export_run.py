"""The launcher of an exported program: what it says of files and a command line that do not fit."""

from __future__ import annotations

import io
import json
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported import build

from dlc.cli.dlc_cli import main

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")

TEXT = "torch.nn.functional.dropout(torch.nn.Linear(4, 3)(torch.randn(2, 4)))"
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=all"


def npy(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def with_header(header: str, version: int = 1, elements: bytes = bytes(32)) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + elements


def safetensors(header: str, elements: bytes = bytes(60)) -> bytes:
    return struct.pack("<Q", len(header)) + header.encode() + elements


INPUT = npy(np.ones((2, 4), np.float32))
HEADER = {
    "linear.weight": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]},
    "linear.bias": {"dtype": "F32", "shape": [3], "data_offsets": [48, 60]},
}
WEIGHTS = safetensors(json.dumps(HEADER))


@dataclass(frozen=True)
class Launcher:
    """`run`, which stops with another exit code where it reads what is not its own."""

    binary: Path

    def __call__(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {"ASAN_OPTIONS": "detect_leaks=0", "PATH": "/usr/bin:/bin"}
        return subprocess.run(
            [self.binary, *words], capture_output=True, text=True, check=False, env=environment
        )

    def sentence(self, *words: str | Path) -> str:
        """What the error is: one line, the last."""
        done = self(*words)
        assert done.returncode == 1, done.stderr
        *usage, last = done.stderr.splitlines()
        assert not usage or usage[0].startswith("usage: run "), done.stderr
        assert last.startswith("error: ")
        return last.removeprefix("error: ")


@dataclass(frozen=True)
class Files:
    """A folder with inputs and weights that fit, and the launcher run on it."""

    run: Launcher
    folder: Path

    def sentence(self) -> str:
        folder = self.folder
        said = self.run.sentence(folder, folder / "out", folder / "w", "--seed=1")
        return said.replace(f"{folder}/", "")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, scheduler: Path) -> Launcher:
    directory = tmp_path_factory.mktemp("exported")
    assert main(["compile", "-c", TEXT, "-o", f"{directory}/"]) == 0
    build(directory, scheduler)
    objects = sorted(str(file) for file in (directory / "host").glob("*.o"))
    checked = directory / "checked"
    command = ["g++", "-std=c++17", *FLAGS.split(), "-DDLC_HOST", f"-I{directory}/host"]
    command += [f"{directory}/run.cpp", *objects, "-pthread", "-o", str(checked)]
    made = shutil.which("g++") and subprocess.run(command, capture_output=True, check=False)
    return Launcher(checked if made and made.returncode == 0 else directory / "run")


@pytest.fixture
def files(run: Launcher, tmp_path: Path) -> Files:
    (tmp_path / "input.npy").write_bytes(INPUT)
    (tmp_path / "w").write_bytes(WEIGHTS)
    return Files(run, tmp_path)


NOT_TOLD = "input.npy: its header does not tell descr, fortran_order and shape"


def literal(descr: str = "'<f4'", order: str = "False", shape: str = "(2, 4)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


@pytest.mark.parametrize(
    ("contents", "sentence"),
    [
        (b"", "input.npy is not a .npy file"),
        (b"PK" + bytes(200), "input.npy is not a .npy file"),
        (INPUT[:11], "input.npy is cut in its header: it has 11 bytes"),
        (INPUT[:100], "input.npy is cut in its header: it has 100 bytes"),
        (INPUT[:-1], "input.npy: expected 32 bytes of elements, found 31"),
        (INPUT + b"x", "input.npy: expected 32 bytes of elements, found 33"),
        (with_header("", 9), "input.npy: expected format 1, 2 or 3 of .npy files, found 9"),
        (with_header("\x1b[2J"), "input.npy: its header is damaged at byte 10"),
        (with_header("[" * 5000), "input.npy: its header is damaged at byte 18"),
        (with_header("{'descr': '<f4"), "input.npy: its header is damaged at byte 24"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "input.npy is not a .npy file: its header is too"),
        (with_header("{}"), NOT_TOLD),
        (with_header("3"), NOT_TOLD),
        (with_header(literal(shape="(-2, -4)")), NOT_TOLD),
        (with_header(literal(shape="(18446744073709551616,)")), NOT_TOLD),
        (with_header(literal(shape="8")), NOT_TOLD),
        (
            with_header(literal(shape="(4294967296, 4294967296)")),
            "input.npy: expected the shape (2, 4), found (4294967296, 4294967296)",
        ),
        (with_header(literal("'>f4'")), "input.npy: expected elements of type <f4, found >f4"),
        (with_header(literal("'\x1b[2J'")), "input.npy: expected elements of type <f4, found ?[2J"),
        (
            npy(np.zeros((2, 4), [("a", "f2"), ("b", "f2")])),
            "input.npy: expected elements of type <f4, found some with fields",
        ),
        (
            npy(np.ones((4, 2), np.float32).T),
            "input.npy: expected elements in row-major order; save numpy.ascontiguousarray of them",
        ),
    ],
)
def test_npy_files_that_do_not_fit(files: Files, contents: bytes, sentence: str) -> None:
    (files.folder / "input.npy").write_bytes(contents)
    assert files.sentence().startswith(sentence)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_npy_files_by_other_writers_are_read(files: Files, version: int) -> None:
    text = '{"shape":(2,4),"fortran_order":False,"descr":"<f4"}'
    (files.folder / "input.npy").write_bytes(with_header(text, version))
    folder = files.folder
    assert files.run(folder, folder / "out", folder / "w", "--seed=1").stderr == ""


def changed(**entries: object) -> bytes:
    """Weights of which the header says something else."""
    return safetensors(json.dumps({**HEADER, "linear.bias": {**HEADER["linear.bias"], **entries}}))


BIAS_NOT_TOLD = "w: its header does not tell dtype, shape and data_offsets of linear.bias"


@pytest.mark.parametrize(
    ("contents", "sentence"),
    [
        (b"", "w is not a .safetensors file: it has 0 bytes"),
        (WEIGHTS[:7], "w is not a .safetensors file: it has 7 bytes"),
        (WEIGHTS[:50], "w is not a .safetensors file, or it is cut: it has 50 bytes, and says"),
        (b"\xff" * 90, "w is not a .safetensors file, or it is cut: it has 90 bytes, and says"),
        (
            WEIGHTS[:-1],
            "w is cut: it has 59 bytes of elements, and those of linear.bias end at byte 60",
        ),
        (safetensors(""), "w is not a .safetensors file: its header is damaged at byte 8"),
        (safetensors("[" * 99999), "w is not a .safetensors file: its header is damaged at byte"),
        (safetensors('{"a\\u12'), "w is not a .safetensors file: its header is damaged at byte"),
        (safetensors('{"linear.bias": 3}'), BIAS_NOT_TOLD),
        (changed(shape=[2**64]), BIAS_NOT_TOLD),
        (changed(shape=[-3]), BIAS_NOT_TOLD),
        (changed(shape=[3.0]), BIAS_NOT_TOLD),
        (changed(data_offsets=[60, 48]), BIAS_NOT_TOLD),
        (changed(data_offsets=[48]), BIAS_NOT_TOLD),
        (changed(data_offsets=[48, 2**64]), BIAS_NOT_TOLD),
        (changed(data_offsets=[48, 10**15]), "w is cut: it has 60 bytes of elements, and those of"),
        (changed(data_offsets=[48, 56]), "w: expected linear.bias of 12 bytes, found 8"),
        (changed(shape=[4]), "w: expected linear.bias of the shape (3,), found (4,)"),
        (
            changed(shape=[2**32, 2**32]),
            "w: expected linear.bias of the shape (3,), found (4294967296, 4294967296)",
        ),
        (changed(dtype="F16"), "w: expected linear.bias of type F32, found F16"),
        (changed(dtype="\x1b[2J"), "w: expected linear.bias of type F32, found ?[2J"),
        (
            safetensors("{}"),
            "there is no argument linear.weight: expected linear.weight.npy or linear.weight.bin, "
            "or a tensor of that name in w",
        ),
    ],
)
def test_weights_that_do_not_fit(files: Files, contents: bytes, sentence: str) -> None:
    (files.folder / "w").write_bytes(contents)
    assert files.sentence().startswith(sentence)


def test_names_and_spaces_of_json(files: Files) -> None:
    (files.folder / "linear.bias.bin").write_bytes(bytes(12))
    tensors = {'\u00e9"\\\n': HEADER["linear.bias"], "linear.weight": HEADER["linear.weight"]}
    header = json.dumps({"__metadata__": {"format": "pt"}, **tensors}, indent=2)
    (files.folder / "w").write_bytes(safetensors(header + "   "))
    folder = files.folder
    assert files.run(folder, folder / "out", folder / "w", "--seed=1").stderr == ""


def test_files_cut_at_any_byte_are_refused(files: Files) -> None:
    for file, contents in (("input.npy", INPUT), ("w", WEIGHTS)):
        for length in range(0, len(contents), 3):
            (files.folder / file).write_bytes(contents[:length])
            assert files.sentence().startswith((f"{file} is", f"{file}: expected"))
        (files.folder / file).write_bytes(contents)


def a_folder(file: Path) -> None:
    file.mkdir()


def a_circle(file: Path) -> None:
    file.symlink_to(file.name)


@pytest.mark.parametrize("name", ["input.npy", "input.bin", "w"])
@pytest.mark.parametrize(
    ("make", "sentence"),
    [(a_folder, "is a folder, not a file"), (a_circle, "cannot be read: Too many levels of")],
)
def test_what_is_no_file(
    files: Files, name: str, make: Callable[[Path], None], sentence: str
) -> None:
    (files.folder / ("w" if name == "w" else "input.npy")).unlink()
    make(files.folder / name)
    assert files.sentence().startswith(f"{name} {sentence}")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--sed", "3"], "there is no option --sed; the nearest is --seed, and run --help tells"),
        (["--ofset=3"], "there is no option --ofset; the nearest is --offset, and run --help"),
        (["--halp"], "there is no option --halp; the nearest is --help, and run --help tells"),
        (["-s"], "there is no option -s; the nearest is "),
        (["--seed", "x"], "--seed: expected a whole number, found x"),
        (["--seed=3.5"], "--seed: expected a whole number, found 3.5"),
        (["--seed="], "--seed: expected a whole number, found none"),
        (["--offset"], "--offset: expected a whole number after it"),
        (["--seed", "9" * 30], "--seed: expected a number of 64 bits, found 999999999999999"),
        (["more"], "expected INPUTS RESULTS [WEIGHTS.safetensors], found 4 names"),
    ],
)
def test_a_command_line_that_is_not_understood(
    files: Files, words: list[str], sentence: str
) -> None:
    folder = files.folder
    said = files.run.sentence(folder, folder / "out", folder / "w", *words)
    assert said.startswith(sentence)
    assert not (folder / "out").exists()


def test_options_stand_anywhere(files: Files) -> None:
    folder = files.folder
    names = [folder, folder / "out", folder / "w"]
    made: list[bytes] = []
    for words in (
        ["--seed=5", "--offset=3", *names],
        [names[0], "--offset", "3", names[1], "--seed", "5", names[2]],
        [*names, "--seed", "5", "--offset=3"],
    ):
        assert files.run(*words).stderr == ""
        made.append((folder / "out" / "0.npy").read_bytes())
    assert made[0] == made[1] == made[2]
    assert files.run(*names, "--help").stdout.startswith("usage: run [--seed=SEED]")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "expected INPUTS RESULTS [WEIGHTS.safetensors], found 0 names"),
        (["here"], "expected INPUTS RESULTS [WEIGHTS.safetensors], found 1 name"),
        (["here", "out"], "there is no argument input: expected here/input.npy or here/input.bin"),
    ],
)
def test_what_is_missing_is_told_with_the_usage(
    run: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run.sentence(*words) == sentence
    told = run(*words).stderr
    for name in ("input", "linear.weight", "linear.bias", "rng"):
        assert f"INPUTS/{name}.npy " in told


@pytest.mark.parametrize("name", ["out", "a/b/c", "out/"])
def test_the_folder_of_results_is_made(
    files: Files, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(files.folder)
    for _ in range(2):
        assert files.run(".", name, "w", "--seed=1").stderr == ""
        assert np.load(files.folder / name / "0.npy").shape == (2, 3)
        (files.folder / name / "0.npy").unlink()


def test_a_folder_of_results_that_cannot_be_made(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files.folder)
    assert files.run.sentence(".", "w") == "expected a folder for the results, found the file w"
    said = "the folder w/x for the results cannot be made: Not a directory"
    assert files.run.sentence(".", "w/x") == said
    assert files.run.sentence(".", "") == "a name of a folder or file is empty"
    assert files.run.sentence(".", "out", "none") == "there is no file none"
    (files.folder / "out" / "0.npy").mkdir(parents=True)
    said = "out/0.npy cannot be written: Is a directory"
    assert files.run.sentence(".", "out", "w", "--seed=1") == said

"""IR that somebody edited: what it reads beyond a buffer is told, and found by `dlc bisect`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional

import dlc
from dlc.analysis.loop.oversights import oversights
from dlc.cli import dlc_cli, dlc_opt

TEXT = "torch.relu((torch.randn(16, 64) + torch.randn(64)) @ torch.randn(64, 16))"
EDITS = {
    "an extent": ("%k in 64", "%k in 65", "subscript 0 of %y goes from 0 to 64, and there are 64"),
    "swapped": ("%z[%k, %j]", "%z[%j, %k]", "subscript 1 of %z goes from 0 to 63, and there are"),
    "no store": ("loop.store", "// loop.store", "stores nothing to its output %relu"),
    "a maximum": ("maximumf", "minimumf", ""),
}  # fmt: skip


@pytest.fixture
def file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "k.mlir"
    assert dlc_cli.main(["compile", "-c", TEXT, "--ir", "loop", "-o", str(path)]) == 0
    capfd.readouterr()
    return path


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_told_at_its_place(
    name: str, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    old, new, words = EDITS[name]
    text = file.read_text()
    assert dlc_opt.main([str(file)]) == 0
    assert capfd.readouterr().err == ""
    file.write_text(text.replace(old, new))
    assert dlc_opt.main([str(file)]) == 0
    told = capfd.readouterr().err
    assert dlc_cli.main(["compile", str(file), "--ir", "tile"]) == 0
    assert capfd.readouterr().err == told
    assert words in told
    places = [line for line in told.splitlines() if "warning: " in line]
    assert bool(places) == bool(words)
    for line in places:
        row, column = map(int, line.removeprefix(f"{file}:").split(":")[:2])
        assert file.read_text().splitlines()[row - 1][column - 1 :].startswith("loop.")


def test_a_store_that_leaves_its_buffer_is_an_error(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file.write_text(file.read_text().replace("%i in 16", "%i in 17"))
    for command in (["compile", str(file)], ["run", str(file)]):
        assert dlc_cli.main(command) == 1
        told = capfd.readouterr().err
        assert "expected subscript 0 of %relu inside of its 16 elements, found 0 to 16" in told


def test_bisect_compares_with_an_expression(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = file.read_text()
    for edited, code, words in (
        (text, 0, "no pass changes the result"),
        (text.replace("%k in 64", "%k in 65"), 0, "no pass changes the result"),  # reads of 0
        (text.replace("maximumf", "minimumf"), 1, "k.mlir itself differs from -c, before any pass"),
    ):
        file.write_text(edited)
        assert dlc_cli.main(["bisect", str(file), "-c", TEXT]) == code
        assert words in capfd.readouterr().out
    assert dlc_cli.main(["bisect", str(file), "-c", "(torch.randn(2), torch.randn(2) + 1)"]) == 1
    assert (
        "error: expected 2 arguments as -c has, @main of the file has 3" in capfd.readouterr().err
    )


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_conditions_of_copies_that_never_hold(file: Path, target: str) -> None:
    """A chunk that lies beyond its buffer as a whole: cp.async writes zeros."""
    file.write_text(file.read_text().replace("%k in 64", "%k in 65"))
    x, y, z = torch.randn(16, 64), torch.randn(64), torch.randn(64, 16)
    program = dlc.load(file, target, "host")
    named = {"x": x, "y": y, "z": z}
    torch.testing.assert_close(program(**named), torch.relu((x + y) @ z))


def test_what_dlc_makes_has_none() -> None:
    x, image = torch.randn(5, 37), torch.randn(2, 3, 11, 13)
    programs = (
        (lambda x: functional.pad(x, (1, 2)).roll(3, 1).softmax(-1), x),
        (lambda x: functional.conv2d(x, x[:, :, :3, :3], padding=2, stride=2), image),
        (lambda x: functional.max_pool2d(x, 3, 2, 1) + 1, image),
        (lambda x: torch.cat([x, x.flip(1)], 1).cumsum(1)[:, ::2], x),
        (lambda x: x.unfold(1, 5, 3).sum(-1) @ x[:, :5].tril(), x[:, :17]),
    )
    for function, argument in programs:
        compiled = dlc.compile(function, (argument,), backend="host")
        assert list(oversights(compiled.variants[0].module("loop"))) == []

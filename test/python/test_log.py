"""What dlc logs, dumps, and shows to PyTorch's profiler."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import torch
from caches import own_cache
from forked import forked_python

import dlc

PROGRAM = (
    "import torch, dlc\n"
    "dlc.compile(torch.nn.Softmax(-1), (torch.randn(3, 4),), backend='host')(torch.randn(3, 4))"
)


def run(**environment: str) -> str:
    """What a program that compiles a softmax writes to stderr."""
    command = [*forked_python(), "-c", PROGRAM]
    made = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    return made.stderr


def test_the_environment_asks_for_logs_and_texts(tmp_path: Path):
    own = {"DLC_CACHE_DIR": str(own_cache(tmp_path / "cache"))}  # where nothing is found
    said = run(DLC_LOG="compile,kernels", DLC_DUMP=str(tmp_path / "texts"), **own)
    assert said.splitlines()[0] == "dlc.compile: variant 1, for input [3, 4]"
    assert said.splitlines()[1].startswith("dlc.kernels: softmax<<<")
    assert run(DLC_LOG="compile", **own).splitlines()[1].startswith("dlc.compile: its kernels are")
    (directory,) = (tmp_path / "texts").iterdir()
    assert directory.name.endswith("-000-Softmax")
    names = ["0-torch.mlir", "1-tensor.mlir", "2-loop.mlir", "3-tile.mlir", "4-kernel.mlir"]
    assert sorted(path.name for path in directory.iterdir()) == [*names, "5-cuda.cu"]
    assert "__global__" in (directory / "5-cuda.cu").read_text()


def test_an_unknown_topic_has_a_hint():
    said = run(DLC_LOG="kernel")
    assert "DLC_LOG names 'kernel'; there are compile, kernels, graphs and all" in said
    assert "did you mean kernels?" in said


def test_texts_are_written_to_a_directory(tmp_path: Path):
    (tmp_path / "file").write_text("")
    said = run(DLC_DUMP=str(tmp_path / "file"))
    (sentence,) = [line for line in said.splitlines() if "DLC_DUMP" in line]
    assert sentence.endswith(
        f"names '{tmp_path}/file', where no directory can be made: not a directory"
    )


def test_the_profiler_sees_launches():
    x = torch.randn(3, 4)
    compiled = dlc.compile(torch.nn.Softmax(-1), (x,), backend="host")
    compiled(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        compiled(x)
    assert [e.count for e in profile.key_averages() if e.key == "dlc::softmax"] == [1]


def test_ranges_are_made_for_a_profiler_only(monkeypatch: pytest.MonkeyPatch):
    x = torch.randn(3, 4)
    compiled = dlc.compile(torch.nn.Softmax(-1), (x,), backend="host")
    monkeypatch.setattr(torch.profiler, "record_function", lambda _: pytest.fail("nobody looks"))
    torch.testing.assert_close(compiled(x), x.softmax(-1))

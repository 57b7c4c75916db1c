"""Exported programs with control flow: loops and branches of C++, built and run without dlc."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exported import build, run
from test_control_flow import CASES
from torch.utils._pytree import tree_leaves

import dlc
from dlc.backend.export import export_program
from dlc.compiler import CompiledProgram

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")

PROGRAMS = (
    ["scan of a transposed tensor"],
    ["two swap"],
    ["while", "while of none"],
    ["true", "false", "not a number"],
    ["an if in a scan"],
    ["map of empty rows"],
)


def exported(
    function: Callable[..., Any], args: tuple[torch.Tensor, ...], directory: Path
) -> CompiledProgram:
    program = dlc.compile(function, args, backend="host")
    export_program(program.variants[0].module("kernel"), directory)
    return program


@pytest.mark.parametrize("names", PROGRAMS, ids=lambda names: names[0])
def test_results_are_those_of_the_program(
    names: list[str], tmp_path: Path, scheduler: Path
) -> None:
    program = exported(*CASES[names[0]], tmp_path)
    build(tmp_path, scheduler)
    for name in names:
        args = [t.clone() for t in CASES[name][1]]
        if any(a.shape != b.shape for a, b in zip(args, CASES[names[0]][1], strict=True)):
            args[-1] = torch.full_like(CASES[names[0]][1][-1], torch.nan)
        bound = program.variants[0].program.bind(args)
        for argument, tensor in zip(program.variants[0].program.arguments, bound, strict=True):
            np.save(tmp_path / argument.name, np.ascontiguousarray(tensor.detach().numpy()))
        assert run(tmp_path).stderr == ""
        for number, known in enumerate(tree_leaves(program(*args))):
            found = np.load(tmp_path / "out" / f"{number}.npy")
            np.testing.assert_array_equal(found, known.detach().numpy(), strict=True)


def test_the_manifest_tells_loops_and_branches(tmp_path: Path) -> None:
    exported(*CASES["an if in a scan"], tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    buffers = {buffer["name"]: buffer for buffer in manifest["buffers"]}
    (loop,) = [step for step in manifest["steps"] if "for" in step]
    assert loop["for"] == 6
    carry = loop["carry"]
    assert {*carry["names"][0], *carry["results"]} == {
        name for name, buffer in buffers.items() if buffer["kind"] == "carried"
    }
    assert sorted(carry["next"]) == sorted(carry["names"][0])
    first, *_ = loop["body"]
    assert buffers[first["element"]]["kind"] == "element"
    assert (first["of"], first["index"], first["step"]) == ("x", loop["counter"], 16)
    (branch,) = [step for step in loop["body"] if "if" in step]
    assert buffers[branch["if"]]["dtype"] == "bool"
    launched = [[step["launch"] for step in branch[body]] for body in ("then", "else")]
    assert launched == [["add"], ["mul"]]

    exported(*CASES["while"], tmp_path / "while")
    steps = json.loads((tmp_path / "while" / "manifest.json").read_text())["steps"]
    (loop,) = [step for step in steps if "while" in step]
    assert loop["before"][-1]["buffers"][-1] == loop["while"]
    assert len(loop["carry"]["names"]) == 2
    program = tmp_path / "while" / "run.cpp"
    text = program.read_text()
    assert f"if (!program.says({loop['while']})) break;" in text
    nvcc = shutil.which("nvcc")
    if nvcc is not None:
        command = [
            nvcc,
            "-std=c++17",
            "-Xcompiler",
            "-Wall,-Werror,-Wno-unused-variable",
            "-c",
            program,
        ]
        made = subprocess.run(
            [*command, "-o", tmp_path / "run.o"], capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made.stderr

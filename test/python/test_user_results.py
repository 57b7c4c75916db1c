"""What the user of a program gets is told by `@main`, and shown by `dlc run`, from any stage on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import dlc
from dlc.cli.dlc_cli import main
from dlc.diagnostics import OpError
from dlc.dialects.main_function import main_of
from dlc.dialects.user_outputs import outputs_of
from dlc.ir.leaves import Constant, Output, View
from dlc.ir.locations import LocParser
from dlc.passes import STAGES
from dlc.stages import compiler_context

SCRIPT = """
def program(x, c):
    c.add_(x)
    y = c + 1
    return {"y": y, "c": c, "n": None, "v": [y.t(), x[1:], c, 3]}
program(torch.randn(3, 4), torch.randn(3, 4))
"""
ROWS = [
    ("0", "[3, 4]", ""),
    ("1", "[3, 4]", "  (c)"),
    ("2", "-", "  (None)"),
    ("3", "[4, 3]", "  (view of result 0)"),
    ("4", "[2, 4]", "  (view of x)"),
    ("5", "[3, 4]", "  (c)"),
    ("6", "-", "  (3)"),
    ("c", "[3, 4]", "  (written)"),
]


def check_rows(printed: str, verdict: str) -> None:
    lines = printed.splitlines()[-len(ROWS) :]
    for (label, shape, what), line in zip(ROWS, lines, strict=True):
        assert re.match(rf"{label} +{re.escape(shape)} ", line), line
        assert line.endswith((verdict if shape != "-" else "-") + what), line


def test_run_shows_every_result(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["run", "-c", SCRIPT]) == 0
    check_rows(capsys.readouterr().out, "OK")
    for stage in ("torch", "loop", "kernel"):
        file = tmp_path / f"{stage}.mlir"
        assert main(["compile", "-c", SCRIPT, "--ir", stage, "-o", str(file)]) == 0
        assert main(["run", str(file)]) == 0
        check_rows(capsys.readouterr().out, "OK" if stage == "torch" else "")


def test_views_alone_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "-c", "(lambda x: x.t())(torch.randn(3, 4))"]) == 0
    said = capsys.readouterr().out
    assert "no kernels" in said
    assert re.search(r"0  \[4, 3\] .* OK  \(view of x\)", said)


def test_views_without_axes_are_views(capsys: pytest.CaptureFixture[str]) -> None:
    text = "(lambda x: (x * 2, x.detach()))(torch.randn(()))"
    assert main(["compile", "-c", text, "--ir", "kernel"]) == 0
    text = capsys.readouterr().out
    outputs = outputs_of(main_of(LocParser(compiler_context(), text, "k.mlir").parse_module()))
    assert "offset = 0" in text
    assert outputs is not None


def test_every_stage_says_the_same() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x @ x
        row = y[0]
        return row, y[1:], y.t(), x.t(), row

    f = dlc.compile(program, (torch.randn(4, 4),), backend="host")
    expected = [
        Output("0", "result", 0, View((4,), (1,), 0)),
        Output("1", "result", 0, View((3, 4), (4, 1), 4)),
        Output("2", "result", 0, View((4, 4), (1, 4), 0)),
        Output("3", "argument", 0, View((4, 4), (1, 4), 0)),
        Output("4", "result", 0, View((4,), (1,), 0), same=0),
    ]
    for stage in STAGES:
        module = LocParser(compiler_context(), f.ir(stage), f"{stage}.mlir").parse_module()
        assert len(main_of(module).function_type.outputs.data) == 1
        assert outputs_of(main_of(module)) == f.variants[0].program.outputs == expected


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ('{path = "0", result = 1 : i64}', "to name results of @main, of which there are 1"),
        ('{path = "0", argument = -1 : i64}', "to name arguments of @main"),
        ('{path = "0", argument = 0 : i64, same = 0 : i64}', "to be an output before, found 0"),
        ('{path = "0"}', "an entry of dlc.outputs with a path, and a result"),
        ('{path = "0", result = 0 : i64, offset = 1 : i64}', "to have a shape, strides and an"),
        (
            '{path = "0", result = 0 : i64, shape = array<i64: -1>, strides = array<i64: 1>, '
            "offset = 0 : i64}",
            "no negative numbers",
        ),
    ],
)
def test_what_names_nothing_is_refused(entry: str, said: str) -> None:
    text = (
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> "
        f"attributes {{dlc.outputs = [{entry}]}} {{ func.return %x : tensor<4xf32> }}"
    )
    module = LocParser(compiler_context(), text, "wrong.mlir").parse_module()
    with pytest.raises(OpError, match=re.escape(said)):
        outputs_of(main_of(module))


def test_constants_come_back() -> None:
    f = dlc.compile(lambda x: (x + 1, None, 2.5, "text", True), (torch.randn(2),), backend="host")
    leaves = outputs_of(main_of(f.variants[0].module("loop")))
    assert leaves[1:] == [
        Constant("1", None),
        Constant("2", 2.5),
        Constant("3", "text"),
        Constant("4", True),
    ]

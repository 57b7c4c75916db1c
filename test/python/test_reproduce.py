"""Kernels as scripts: the operations that each implements are found, run, and agree."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dlc.cli.dlc_cli import main
from dlc.cli.implementation import implementation
from dlc.cli.reproduce_kernel import kernel_script
from dlc.cli.reproduced import check_kernel
from dlc.diagnostics import OpError
from dlc.dialects.host import LaunchOp
from dlc.dialects.torch import AtenOp
from dlc.frontend.export.fx import import_program
from dlc.ir.provenance import set_values
from dlc.pipeline import run_pipeline
from dlc.stages import compiler_context
from dlc.target import set_target


class Block(torch.nn.Module):
    """Norms, a split K, views between kernels, several results, integers, a strided parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.RMSNorm(96)
        self.layer_norm = torch.nn.LayerNorm(96)
        self.up = torch.nn.Linear(96, 40)
        self.down = torch.nn.Parameter(torch.randn(96, 40).t())
        self.table = torch.nn.Embedding(8, 96)

    def forward(self, i: torch.Tensor, deep: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.table(i)
        h = torch.nn.functional.gelu(self.up(self.norm(x)))
        x = x + (h @ self.down).view(2, 3, 4, 24).transpose(1, 2).reshape(2, 3, 96)
        top, at = self.layer_norm(x).max(-1)
        return x, top, at, deep.t() @ deep


@pytest.fixture(scope="module")
def block() -> tuple[Any, Any]:
    torch.manual_seed(0)
    program = import_program(Block().eval(), (torch.randint(0, 8, (2, 3)), torch.randn(8192, 24)))
    set_target(program.module, "sm_90")
    kernels = program.module.clone()
    run_pipeline(compiler_context(), kernels, "kernel")
    return program.module, kernels


def test_every_kernel_of_a_program_can_be_reproduced(
    block: tuple[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    program, kernels = block
    launches = [op for op in kernels.walk() if isinstance(op, LaunchOp)]
    seen: set[str] = set()
    texts = {kernel_script(program, kernels, op.kernel_name): op for op in launches}
    for text, op in texts.items():
        scope: dict[str, Any] = {"__name__": "script"}
        exec(compile(text, "script.py", "exec"), scope)
        assert check_kernel(scope["KERNEL"], scope["operations"], []) == 0, text
        assert op.kernel_name in capsys.readouterr().out
        seen |= {
            line.split("aten.")[1].split("(")[0] for line in text.split("\n") if "aten." in line
        }
    assert {"rms_norm.default", "linear.default", "gelu.default", "matmul.default", "max.dim",
            "layer_norm.default", "embedding.default", "transpose.int"} <= seen  # fmt: skip


def test_partial_sums_are_taken_with_what_folds_them(block: tuple[Any, Any]) -> None:
    program, kernels = block
    names = [op.kernel_name for op in kernels.walk() if isinstance(op, LaunchOp)]
    (combine,) = (name for name in names if name.endswith("_combine"))
    for name in (combine, combine.removesuffix("_combine")):
        found = implementation(program, kernels, name)
        assert [op.kernel_name for op in found.launches] == [
            combine.removesuffix("_combine"),
            combine,
        ]
        assert [op.overload.data for op in found.ops] == ["t.default", "matmul.default"]
        assert [v.name_hint for v in found.inputs] == ["deep"]


def test_what_is_no_value_of_the_program_is_refused(block: tuple[Any, Any]) -> None:
    """Here a kernel reads what is said to be the product, and does not lead to what it gives."""
    program, kernels = block
    kernels = kernels.clone()
    launches = [op for op in kernels.walk() if isinstance(op, LaunchOp)]
    end = launches[-1].next_op
    assert end is not None
    pairs = ((a, b) for a in launches for b in launches for v in b.inputs if v in a.outputs
             and v not in end.operands)  # fmt: skip
    writer, reader = next(pairs)
    set_values(writer, [])
    assert writer in implementation(program, kernels, reader.kernel_name).launches
    product = sum(isinstance(op, AtenOp) for op in program.walk()) - 1
    set_values(writer, [str(product)])
    with pytest.raises(OpError, match="is no value of the program"):
        kernel_script(program, kernels, reader.kernel_name)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["-c", "torch.randn(4) + 1", "--reproduce", "ad"], "found 'ad'\nhint: did you mean add?"),
        (["LOOPS", "--reproduce", "relu"], "expected a program with --reproduce"),
    ],
)
def test_errors(
    command: list[str], message: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "relu.mlir")
    assert main(["compile", "-c", "torch.relu(torch.randn(4))", "--ir", "loop", "-o", path]) == 0
    assert main(["compile", *(path if word == "LOOPS" else word for word in command)]) > 0
    assert message in capsys.readouterr().err

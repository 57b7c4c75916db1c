"""Planted bugs in passes: `--validate` names the pass, `dlc bisect` the kernel, both reproduce."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
import torch
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from dlc.cli import dlc_cli, dlc_opt
from dlc.dialects import tile
from dlc.judge.unusual_inputs import unusual_inputs
from dlc.passes import steps_between
from dlc.registry import get_pass

TEXT = "x = torch.randn(5, 33); (x @ torch.randn(33, 20) * 2.5).square().mean(-1)"


def plant(monkeypatch: pytest.MonkeyPatch, pass_name: str, bug: Callable[[ModuleOp], None]) -> None:
    """Lets a pass do something wrong after its work."""
    target = get_pass(pass_name)
    right = target.apply

    def wrong(self: ModulePass, ctx: Context, op: ModuleOp) -> None:
        right(self, ctx, op)
        bug(op)

    monkeypatch.setattr(target, "apply", wrong)


def change_a_constant(module: ModuleOp) -> None:
    for op in module.walk():
        if isinstance(op, arith.ConstantOp) and isinstance(value := op.value, FloatAttr):
            if value.value.data == 2.5:
                op.properties["value"] = FloatAttr(2.75, value.type)


def raise_an_error(module: ModuleOp) -> None:
    raise AssertionError("expected another module")


def command_in(text: str) -> list[str]:
    """The arguments of the `dlc-opt` that a message tells to run."""
    found = re.search(r"^reproduce with: dlc-opt (.*)$", text, re.MULTILINE)
    assert found, text
    return shlex.split(found[1])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_right_programs(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert dlc_cli.main(["compile", "-c", TEXT, "--validate", "--ir", "loop", "-o", "k.mlir"]) == 0
    said = capfd.readouterr().err
    passes = len(steps_between("torch", "loop"))
    found = re.search(
        rf"^{passes} passes ran: (\d+) changed the program, and none its results", said
    )
    assert found is not None
    assert 1 <= int(found[1]) <= passes
    assert dlc_opt.main(["k.mlir", "--validate", "-p", "tileify,stage-inputs"]) == 0
    assert dlc_cli.main(["compile", "k.mlir", "--ir", "kernel", "-o", "kernel.mlir"]) == 0
    capfd.readouterr()
    assert dlc_cli.main(["bisect", "kernel.mlir"]) == 0
    assert "no pass changes the program, so there is nothing" in capfd.readouterr().out
    assert dlc_cli.main(["compile", "kernel.mlir", "--validate"]) == 0
    assert capfd.readouterr().err == "no pass ran\n"
    assert dlc_cli.main(["run", "kernel.mlir", "--backend", "host"]) == 0
    assert "the results were compared with nothing" in capfd.readouterr().err
    assert dlc_cli.main(["bisect", "k.mlir"]) == 0
    assert "no pass changes the result: the last of " in capfd.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "torch.nn.functional.mse_loss(torch.randn(300, 200), torch.randn(300, 200))",
        "(torch.nn.ConvTranspose2d(8, 8, 3, stride=2)(torch.randn(2, 8, 31, 29)) * 0.5).mean()",
    ],
)
def test_long_sums_of_one_result(text: str, here: Path) -> None:
    """One thread adds 60,000 terms; eager is off by a tenth of an ulp, by luck."""
    assert dlc_cli.main(["compile", "-c", text, "--validate", "--seed=0", "--ir", "tensor"]) == 0


def test_modules_without_kernels(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Views alone, and states of Torch IR."""
    view = "torch.randn(3, 4).view(4, 3)"
    assert dlc_cli.main(["compile", "-c", view, "--validate", "--ir", "kernel"]) == 0
    assert dlc_cli.main(["bisect", "-c", view]) == 0
    twice = "x = torch.randn(3); x.relu() * x.relu()"
    assert dlc_cli.main(["compile", "-c", twice, "--ir", "torch", "-o", "t.mlir"]) == 0
    before = capfd.readouterr().out
    assert "internal error" not in before
    assert dlc_opt.main(["t.mlir", "--validate", "-p", "cse"]) == 0
    assert capfd.readouterr().out.count("relu.default") == 1


@pytest.mark.parametrize("pass_name", ["fold-constants", "stage-inputs", "vectorize-accesses"])
def test_wrong_pass(
    pass_name: str, here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, pass_name, change_a_constant)
    assert dlc_cli.main(["compile", "-c", TEXT, "--validate"]) == 1
    said = capfd.readouterr().err
    assert f"error: pass {pass_name}: the result changes: result 0 has error" in said
    assert dlc_opt.main(command_in(said)) == 1
    assert f"pass {pass_name}: the result changes" in capfd.readouterr().err

    assert dlc_cli.main(["bisect", "-c", TEXT]) == 1
    said = capfd.readouterr().out
    assert f"_{pass_name.replace('-', '_')} is wrong; " in said
    assert re.search(r"^\+ .*2\.750*", said, re.MULTILINE)
    if pass_name != "fold-constants":
        assert re.search(r"^kernel \w*mean\w*: result 0 has error", said, re.MULTILINE)
    (file, *arguments) = command_in(said)
    text = Path(file).read_text()
    assert text.startswith(f"// dlc-opt {file} -p {pass_name} --validate\n")
    assert dlc_opt.main([file, *arguments]) == 1


SOFTMAX = """
func.func @main(%x: tensor<5x33xf32>) -> tensor<5xf32> {
  %y = loop.kernel @powers(%x: memref<5x33xf32> = %x) -> (%y: memref<5xf32>) {
    %more = arith.constant 2.5 : f32
    loop.for %row in 5 {
      %max = loop.reduce max %k in 33 -> f32 {
        %a = loop.load %x[%row, %k] : memref<5x33xf32>
        loop.yield %a : f32
      }
      %total = loop.reduce add %k in 33 -> f32 {
        %a = loop.load %x[%row, %k] : memref<5x33xf32>
        %d = arith.subf %a, %max : f32
        %e = math.exp %d : f32
        %w = arith.mulf %e, %more : f32
        loop.yield %w : f32
      }
      loop.store %total, %y[%row] : memref<5xf32>
    }
  }
  func.return %y : tensor<5xf32>
}
"""


def test_joined_reduces_are_a_pass_like_any(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("k.mlir").write_text(SOFTMAX)
    assert dlc_opt.main(["k.mlir", "--validate", "-p", "join-cascades"]) == 0
    assert "loop.reduce expsum" in capfd.readouterr().out
    plant(monkeypatch, "join-cascades", change_a_constant)
    assert dlc_opt.main(["k.mlir", "--validate", "-p", "join-cascades"]) == 1
    said = capfd.readouterr().err
    assert "error: pass join-cascades: the result changes: result 0 has error" in said


def test_what_only_unusual_inputs_show(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A maximum that takes a number rather than NaN, which no ordinary input has."""

    def lose_nan(module: ModuleOp) -> None:
        for op in module.walk():
            if isinstance(op, arith.MaximumfOp):
                new = arith.SelectOp(compare := arith.CmpfOp(op.lhs, op.rhs, "ogt"), op.lhs, op.rhs)
                Rewriter.replace_op(op, [compare, new])

    plant(monkeypatch, "mark-unroll", lose_nan)
    assert dlc_cli.main(["compile", "-c", "torch.randn(3, 70).relu()", "--validate"]) == 1
    said = capfd.readouterr().err
    assert "error: pass mark-unroll: the result changes: result 0 is wrong at 1 of 210 pl" in said
    assert "(a NaN and infinities; threads in forward order" in said
    assert dlc_opt.main(command_in(said)) == 1
    assert "pass mark-unroll: the result changes" in capfd.readouterr().err


def test_unusual_inputs_lie_as_the_others_do() -> None:
    x = torch.randn(64)[1:61].reshape(5, 12)[:, ::3]
    arguments = [x, torch.tensor([3, 1]), torch.randn(1).expand(4), torch.randn(0)]
    for name, (y, *others) in unusual_inputs(arguments):
        assert (y.shape, y.stride()) == (x.shape, x.stride())
        assert y.data_ptr() % 16 == x.data_ptr() % 16 == 4, name
        assert torch.equal(others[0], arguments[1])
        assert (others[1].shape, others[1].stride(), others[2].shape) == ((4,), (0,), (0,))
        again = next(again for other, again in unusual_inputs(arguments) if other == name)
        assert torch.equal(y.nan_to_num(), again[0].nan_to_num())
    kinds = dict(unusual_inputs(arguments))
    assert not kinds["a NaN and infinities"][0].isfinite().all()
    parameters = dict(unusual_inputs(arguments, finite=[0]))["a NaN and infinities"][0]
    assert parameters.isnan().any()
    assert not parameters.isinf().any()
    assert kinds["equal numbers and zeros"][0].unique().numel() <= 5
    assert not list(unusual_inputs([torch.tensor([3, 1])]))


def test_inputs_that_a_program_refuses_are_left_out(here: Path) -> None:
    """As an index made of large numbers is."""
    text = "x = torch.randn(9); torch.randn(40).abs()[(x * 2).long()]"
    assert dlc_cli.main(["compile", "-c", text, "--validate"]) == 0


def test_failing_pass(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, "double-buffer", raise_an_error)
    assert dlc_cli.main(["compile", "-c", TEXT]) == 1
    said = capfd.readouterr().err
    assert "pass double-buffer: internal error: AssertionError: expected another module" in said
    assert dlc_opt.main(command_in(said)) == 1
    assert "expected another module" in capfd.readouterr().err

    assert dlc_cli.main(["bisect", "-c", TEXT]) == 1
    said = capfd.readouterr().out
    assert "t:010_double_buffer is wrong" in said
    assert dlc_opt.main(command_in(said)) == 1


def test_a_module_from_stdin(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert dlc_cli.main(["compile", "-c", TEXT, "--ir", "loop"]) == 0
    text = capfd.readouterr().out
    plant(monkeypatch, "double-buffer", raise_an_error)
    monkeypatch.setattr("sys.stdin", StringIO(text))
    assert dlc_cli.main(["compile", "-"]) == 1
    assert dlc_opt.main(command_in(capfd.readouterr().err)) == 1
    assert "expected another module" in capfd.readouterr().err


def test_no_room_for_the_reproducer(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, "double-buffer", raise_an_error)
    with monkeypatch.context() as full:
        full.setattr("tempfile.tempdir", str(here / "missing"))
        assert dlc_cli.main(["compile", "-c", TEXT]) == 1
    said = capfd.readouterr().err
    assert "expected another module" in said
    assert re.search(r"^no reproducer is written: .*no such file or directory", said, re.MULTILINE)


def leave_out_an_element(store: tile.StoreOp) -> None:
    store.set_index(store.subscripts, [*store.where, store.subscripts[-1] - 1])


@pytest.mark.parametrize(
    ("drop", "said"),
    [
        (leave_out_an_element, "result 0"),
        (Rewriter.erase_op, "what it leaves does not run: .*expected @relu to write its output"),
    ],
)
def test_unwritten_elements_are_seen(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    drop: Callable[[tile.StoreOp], None],
    said: str,
) -> None:
    def drop_of_the_last_store(module: ModuleOp) -> None:
        if stores := [op for op in module.walk() if isinstance(op, tile.StoreOp)]:
            drop(stores[-1])

    plant(monkeypatch, "tileify", drop_of_the_last_store)
    assert dlc_cli.main(["compile", "-c", "torch.randn(3, 4).relu()", "--validate"]) == 1
    message = f"pass tileify: the result changes: {said}"
    assert re.search(message, capfd.readouterr().err)

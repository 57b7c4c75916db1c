"""The `dlc` command: what it prints, what `dlc-opt` reads of it, and how it fails."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

import pytest
import torch
from made_up import MADE_UP

from dlc.cli.dlc_cli import main, make_parser
from dlc.cli.dlc_opt import main as dlc_opt
from dlc.cli.option_rules import DEFAULTS, NEEDS
from dlc.passes import STEPS, steps_between
from dlc.text import diff, seconds, table

MATMUL = "torch.relu(torch.matmul(torch.randn(6, 40) + torch.randn(40), torch.randn(40, 16)))"
NORM = "torch.nn.RMSNorm(64)(torch.randn(1, 4, 64))"
STAGES = ("torch", "tensor", "loop", "tile", "kernel")


def stdout_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    capsys.readouterr()
    assert main(argv) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """MATMUL at every stage, made by `-o`."""
    folder = tmp_path_factory.mktemp("ir")
    made = {stage: folder / f"{stage}.mlir" for stage in STAGES}
    made["cuda"] = folder / "cuda.cu"
    for stage, path in made.items():
        assert main(["compile", "-c", MATMUL, "--ir", stage, "-o", str(path)]) == 0
    return made


@pytest.mark.parametrize("stage", STAGES)
def test_dlc_opt_goes_on_from_every_stage(
    stage: str, files: dict[str, Path], capsys: pytest.CaptureFixture[str]
):
    done = STAGES.index(stage)
    rest = ",".join(step.pass_name for step in STEPS if STAGES.index(step.stage) > done)
    assert dlc_opt([str(files[stage]), "-p", rest, "-t", "cuda"]) == 0
    assert capsys.readouterr().out == files["cuda"].read_text()


@pytest.mark.parametrize("stage", STAGES)
def test_dlc_goes_on_from_every_stage(
    stage: str, files: dict[str, Path], capsys: pytest.CaptureFixture[str]
):
    assert stdout_of(capsys, "compile", str(files[stage])) == files["cuda"].read_text()
    assert stdout_of(capsys, "compile", str(files[stage]), "--ir", stage) == (
        files[stage].read_text()
    )


@pytest.mark.parametrize("stage", STAGES)
def test_a_file_of_every_stage_runs_and_is_checked(
    stage: str, files: dict[str, Path], capsys: pytest.CaptureFixture[str]
):
    out = stdout_of(capsys, "run", "--backend", "host", str(files[stage]))
    assert ("error vs fp64" if stage == "torch" else "mean") in out
    out = stdout_of(capsys, "run", "--backend", "host", str(files[stage]), "-c", MATMUL)
    assert re.search(r"\[6, 16\] .* OK$", out, re.MULTILINE)


def test_a_wrong_kernel_is_wrong(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    edited = tmp_path / "edited.mlir"
    edited.write_text(files["loop"].read_text().replace("arith.mulf", "arith.addf"))
    assert main(["run", "--backend", "host", str(edited), "-c", MATMUL]) == 1
    assert "WRONG" in capsys.readouterr().out


def test_an_operation_that_pytorch_takes_apart_may_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "reversed.mlir"
    file.write_text("""builtin.module {
      func.func @main(%x: tensor<2x3x5xf32>) -> tensor<5x3x2xf32> {
        %y = torch.aten "numpy_T.default"(self = %x) : (tensor<2x3x5xf32>) -> tensor<5x3x2xf32>
        func.return %y : tensor<5x3x2xf32>
      }
    }""")
    assert stdout_of(capsys, "run", "--backend", "host", str(file)).endswith("OK\n")


def test_run_says_where_and_how_fast(capsys: pytest.CaptureFixture[str]):
    out = stdout_of(capsys, "run", "--backend", "host", "-c", NORM)
    head, rule, row, *_ = out.splitlines()
    assert head.split("  ")[0] == "kernel"
    assert "time (host)" in head
    assert set(rule) == {"-", " "}
    assert re.match(r"\w+ +4 +\d+ +\d+ +\S+ (s|ms|us)$", row)
    assert re.search(r"\[1, 4, 64\] .* OK$", out, re.MULTILINE)


@pytest.mark.parametrize(
    "options",
    [("--order", "reverse"), ("--order", "random", "--seed", "7"), ("--async-mode", "early")],
)
def test_run_in_every_order(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    assert "OK" in stdout_of(capsys, "run", "--backend", "host", *options, "-c", MATMUL)


def test_a_script_is_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    script = tmp_path / "program.py"
    script.write_text("n = 8\nx = torch.randn(n)\nF.silu(x) + 1\n")
    assert "silu.default" in stdout_of(capsys, "compile", str(script), "--ir", "torch")
    assert "OK" in stdout_of(capsys, "run", "--backend", "host", str(script))


def test_the_target_stands_in_the_module(files: dict[str, Path], capsys):
    out = stdout_of(capsys, "compile", str(files["loop"]), "--ir", "tile", "--target", "sm_80")
    assert 'dlc.target = "sm_80"' in out
    assert stdout_of(capsys, "compile", "-c", NORM, "--ir", "tile", "--target", "sm_120").count(
        'dlc.target = "sm_120"'
    )


def test_v_says_what_each_pass_did(capsys: pytest.CaptureFixture[str]):
    capsys.readouterr()
    assert main(["compile", "-c", MATMUL, "--ir", "tile", "-v"]) == 0
    out, err = capsys.readouterr()
    assert "builtin.module" in out
    assert ">>>" not in out
    for step in STEPS:
        assert (f"{step.pass_name}: " in err) == (step.stage != "kernel")


def test_vv_prints_a_diff_for_each_pass(files: dict[str, Path], capsys):
    out = stdout_of(capsys, "compile", "-c", MATMUL, "--ir", "tile", "-vv")
    for step in STEPS:
        shown = re.search(f"^>>> {step.name}\n(.*?)^<<< {step.name}\n", out, re.M | re.S)
        assert (shown is not None) == (step.stage != "kernel")
        if shown is not None and step.pass_name == "tileify":
            assert re.search(r"^\+.*tile\.kernel", shown[1], re.M)
            assert re.search(r"^-.*loop\.kernel", shown[1], re.M)
    assert out.endswith(files["tile"].read_text())
    assert "\033[" not in out
    coloured = stdout_of(capsys, "compile", "-c", MATMUL, "--ir", "tile", "-vv", "--color=always")
    assert "\033[32m+" in coloured
    assert re.sub(r"\033\[\d*m", "", coloured) == out


def test_timing_tells_torch_from_dlc(capsys: pytest.CaptureFixture[str]):
    capsys.readouterr()
    assert main(["compile", "-c", NORM, "--timing"]) == 0
    err = capsys.readouterr().err
    for line in ("torch +torch.export", "dlc +import to Torch IR", "dlc +passes to Tile IR",
                 "dlc +total", "torch +total"):  # fmt: skip
        assert re.search(rf"^{line} +\d+\.\d\d\d$", err, re.M), line
    assert re.search(r"^peak memory: \d+ MiB$", err, re.M)


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["compile", "x.txt"], 1, "x.txt: error: no such file or directory"),
        (["compile", "none.mlir"], 1, "none.mlir: error: no such file or directory"),
        (["compile", "none.py"], 1, "none.py: error: no such file"),
        (["compile", "-c", "torch.randn(4", "--ir", "tile"], 1, "<command>:1:12: error: Syntax"),
        (["compile", "-c", "torch.randn(4)\ntorch.rann(4)"], 1, "<command>:2:1: error: Attribute"),
        (["compile", "-c", "x = 3"], 1, "error: expected statements that compute tensors"),
        (["compile", "-c", NORM, "--target", "sm_91"], 2, "unknown target 'sm_91'\nhint: did you"),
        (["compile", "-c", "torch.ops.aten.made_up(torch.randn(3))"], 1, MADE_UP),
    ],
)  # fmt: skip
def test_errors_are_sentences(
    argv: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
):
    assert main(argv) == code
    out, err = capsys.readouterr()
    assert message in err
    assert not out
    assert "Traceback" not in err
    assert err.count("error: ") == 1
    main([*argv, "--debug"])
    assert "Traceback" in capsys.readouterr().err


def test_files_of_other_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name in ("k.dlc", "k.txt", "tile.mlir"):
        (tmp_path / name).write_text("")
    for name, line in (
        ("k.dlc", "hint: dlc.load_program reads what save() wrote"),
        ("k.txt", "hint: a program is a .py or .mlir file, IR from stdin"),
        ("tiel.mlir", f"hint: did you mean {tmp_path}/tile.mlir?"),
        ("k.mlir", "k.mlir: error: no such file or directory"),
    ):
        assert main(["compile", str(tmp_path / name)]) == (2 if name in ("k.dlc", "k.txt") else 1)
        assert line in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("randn(4)", "did you mean torch.randn?"),
        ("Linear(2, 3)(torch.randn(2))", "did you mean nn.Linear?"),
        ("np.zeros(3)", "torch, nn, F and math are at hand, and a text may import others"),
        ("torch.relu(torch.randn(4)).relus()", "did you mean relu?"),
        ("torch.randn(4) + torch.randn(4).to('cuda')", "leave the device out: "),
    ],
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_names_and_devices_are_hinted_at(text: str, hint: str, capsys: pytest.CaptureFixture[str]):
    assert main(["compile", "-c", text]) == 1
    said = capsys.readouterr().err
    assert f"\nhint: {hint}" in said
    assert "FakeTensor" not in said


def test_python_on_stdin_is_told_from_ir(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for text, hints in (("torch.relu(torch.randn(4))\n", 1), ("func.func @main() {\n  a.b\n}", 0)):
        monkeypatch.setattr("sys.stdin", StringIO(text))
        assert main(["compile", "-"]) == 1
        assert capsys.readouterr().err.count("hint: stdin takes IR") == hints


def test_a_refusal_leaves_no_reproducer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The compiler has not failed where it says what it does not compile."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["compile", "-c", "torch.ops.aten.made_up(torch.randn(3))"]) == 1
    assert "reproduce" not in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func @main( {", "bad.mlir:1:18: error: "),
        ("func.func @main() {\n  loop.fro\n}", "bad.mlir:2:3: error: unknown operation 'loop.fro'"),
        ("func.func @main() {\n  %a = arith.addf %b, %b : f32\n}", "%b is used but never defined"),
    ],
)
def test_errors_in_a_file_have_a_place(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "bad.mlir"
    path.write_text(text)
    assert main(["compile", str(path)]) == 1
    assert message in capsys.readouterr().err


def test_an_earlier_ir_cannot_be_had(files: dict[str, Path], capsys: pytest.CaptureFixture[str]):
    assert main(["compile", str(files["tile"]), "--ir", "loop"]) == 1
    error = "error: expected a module of the loop IR or an earlier one, found tile IR"
    assert error in capsys.readouterr().err


def test_another_program_as_the_reference(files: dict[str, Path], capsys):
    assert main(["run", "--backend", "host", str(files["loop"]), "-c", NORM]) == 1
    assert "error: @main takes 3 tensors, found 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv", [["compile"], ["compile", "a.py", "-c", "x"], ["run", "--ir", "x"]]
)
def test_usage_errors(argv: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit:
        main(argv)
    assert exit.value.code == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        ("run -c x --taget sm_90", "dlc run: error: unrecognized arguments: --taget\n"
         "hint: did you mean --target?"),
        ("compil x", "hint: did you mean compile?"),
        ("run x --order revers", "hint: did you mean reverse?"),
        ("check x --helpp", "hint: did you mean --help?"),
        ("trace x --order reverse", "dlc trace: error: --order is an option of run\n"
         "hint: --help lists the options"),
        ("tune x --zzz", "dlc tune: error: unrecognized arguments: --zzz\n"
         "hint: --help lists the options"),
    ],
)  # fmt: skip
def test_a_misspelt_word_is_told_the_closest(
    argv: str, error: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as exit:
        main(argv.split())
    assert exit.value.code == 2
    assert error in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("compile -c x --block", "--layer or --block needs a model: a directory,"),
        ("run x.py --seq-len 3 --batch 1", "--seq-len needs a model: a directory, a configuration "
         "or an id such as Qwen/Qwen2.5-7B; --batch needs a model"),
        ("check x.mlir --dtype f32", "--dtype needs a model"),
        ("bisect -c x --random-weights", "--random-weights needs a model"),
        ("compile a/b --random-weights", "--random-weights needs --validate or --with-weights"),
        ("compile -c x --seed 1", "--seed needs --validate or --with-weights"),
        ("compile -c x --with-weights", "--with-weights needs -o DIR/"),
        ("compile -c x --with-weights -o x.cu", "--with-weights needs -o DIR/"),
        ("compile x.mlir --with-weights -o d/", "--with-weights needs a program of PyTorch"),
        ("compile -c x --sizes s=3", "--sizes needs --dynamic, or a file of IR with sizes"),
        ("compile x.mlir --dynamic x:0", "--dynamic needs a program of PyTorch"),
        ("run -c x --contenders eager", "--contenders needs --bench"),
        ("run x.mlir --bench --contenders eager", "--contenders needs a program of PyTorch"),
        ("run -c x --bench --contenders egaer", "unknown contender 'egaer'"),
        ("run -c x --backend host --sync", "--sync needs --backend cuda"),
        ("run -c x --backend cuda --order random", "--order needs --backend host"),
        ("run -c x --backend cuda --async-mode late", "--async-mode needs --backend host"),
        ("compile -c x --explain --cubin", "found --cubin and --explain"),
        ("compile -c x --ir cuda --reproduce k", "found --ir cuda and --reproduce"),
        ("compile -c x --explain -o d/", "found --explain and the directory -o d/"),
        ("compile -c x --reproduce k -o d/", "found --reproduce and the directory -o d/"),
        ("compile -c x --cubin --ir tile -o k.txt", "found --ir tile and --cubin"),
        ("bisect -c x --target sm_91", "unknown target 'sm_91'"),
    ],
)  # fmt: skip
def test_no_option_is_ignored(argv: str, message: str, capsys: pytest.CaptureFixture[str]):
    """None of these programs is there: nothing is done before options are looked at."""
    assert main(argv.split()) == 2
    out, err = capsys.readouterr()
    assert err.startswith("error: ")
    assert message in err
    assert not out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("compile -c x -o {}/none/x.cu", "{}/none/x.cu: error: no such file or directory"),
        ("compile -c x -o {}/file/x.cu", "{}/file/x.cu: error: not a directory"),
        ("compile -c x -o {}/file/x/", "{}/file: error: not a directory"),
        ("compile -c x --trace {}/none/t.html", "{}/none/t.html: error: no such file or directory"),
        ("trace -c x -o {}", "{}: error: is a directory"),
        ("tune -c x -o {}/none/x", "{}/none/x: error: no such file or directory"),
        ("tune -c x --plot {}/none/x.svg", "{}/none/x.svg: error: no such file or directory"),
        ("compile -c x -o {}", "error: {} has files of another kind, which are not overwritten\n"
         "hint: name a new directory, such as exported/"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_told_first(
    argv: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The text `x` is wrong, too: nothing is read before it is known where the result goes."""
    (tmp_path / "file").touch()
    assert main(argv.format(tmp_path).split()) in (1, 2)
    assert capsys.readouterr().err == message.format(tmp_path) + "\n"


def test_an_exported_program_is_replaced(tmp_path: Path):
    for text in ("torch.randn(3).relu()", "torch.randn(3).tanh()"):
        assert main(["compile", "-c", text, "-o", f"{tmp_path}/new/"]) == 0
    assert "tanh" in (tmp_path / "new" / "manifest.json").read_text()


def test_every_option_is_one_of_the_parser():
    """A rule about an option that is called otherwise would hold for nothing."""
    known = {action.dest for parser in subparsers() for action in parser._actions}
    assert {need.name for need in NEEDS} | set(DEFAULTS) <= known


def subparsers() -> list[argparse.ArgumentParser]:
    (commands,) = (a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return list(commands.choices.values())


def test_bisect_says_what_each_pass_did(capsys: pytest.CaptureFixture[str]):
    capsys.readouterr()
    assert main(["bisect", "-c", "torch.randn(3).relu()", "-vv", "--timing"]) == 0
    out, err = capsys.readouterr()
    assert "\n<<< t:001_tileify\n" in out
    assert "tileify: relu: thread axes %i" in err
    assert re.search(r"^dlc +running of states +\d+\.\d\d\d$", err, re.M)


def shell(command: str) -> subprocess.CompletedProcess[str]:
    command = command.replace("DLC", f"'{sys.executable}' -m dlc.cli.dlc_cli")
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


def test_a_reader_may_leave(files: dict[str, Path]):
    done = shell(f"DLC compile '{files['torch']}' --ir kernel -vv | head -1")
    assert done.stdout == ">>> d:001_decompose_torch\n"
    assert done.stderr.count("\n") < 100
    assert "rror" not in done.stderr


def test_a_module_comes_from_stdin(files: dict[str, Path]):
    done = shell(f"DLC compile '{files['torch']}' --ir loop | DLC compile - --ir tile")
    assert done.stdout == files["tile"].read_text(), done.stderr


def test_help_and_files_need_no_pytorch(files: dict[str, Path]):
    def imported(*argv: str) -> set[str]:
        code = (
            "import sys; from dlc.cli.dlc_cli import main\n"
            "try: main(sys.argv[1:])\n"
            "except SystemExit: pass\n"
            "print('loaded', *(m for m in ('torch', 'xdsl', 'numpy') if m in sys.modules))"
        )
        command = [sys.executable, "-c", code, *argv]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return set(done.stdout.splitlines()[-1].split()[1:])

    assert imported("--help") == set()
    needed = {"xdsl", "numpy"}  # the bounds of tilings are arrays
    assert imported("compile", str(files["torch"]), "--ir", "kernel") == needed
    assert imported("compile", str(files["torch"])) == needed


PRINTS = """
import sys
import torch

class Prints(torch.nn.Module):
    def forward(self, x):
        print("in forward")
        print("to stderr", file=sys.stderr)
        return x + 1

print("first")
Prints()(torch.randn(4))
"""


@pytest.mark.parametrize(
    "text", ["torch.randn(4).relu()", "torch.ops.aten.made_up(torch.randn(4))", PRINTS]
)
def test_a_terminal_shows_what_is_going_on(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """For as long as it does: what stays is what is printed where there is no terminal."""
    script = tmp_path / "program.py"
    script.write_text(text)
    failed = main(["compile", str(script), "--ir", "loop"])
    plain = capsys.readouterr()
    with monkeypatch.context() as patch:
        terminal = StringIO()
        terminal.isatty = lambda: True
        patch.setattr(sys, "stdout", terminal)
        patch.setattr(sys, "stderr", terminal)
        assert main(["compile", str(script), "--ir", "loop"]) == failed
    shown = terminal.getvalue()
    assert "\rtorch.export …" in shown
    passes = [step.pass_name for step in steps_between("torch", "loop")][: 1 if failed else None]
    assert re.findall(r"\r\[#* *\] (\S+) …", shown) == passes
    stays = "\n".join(map(_overwritten, shown.split("\n")))
    assert sorted(_lines(stays)) == sorted(_lines(plain.out + plain.err))


def _lines(text: str) -> list[str]:
    """Of a text, without the random part of a file's name."""
    return re.sub(r"decompose-torch-\w+", "", text).splitlines()


def _overwritten(line: str) -> str:
    """What a terminal shows of a line."""
    shown = ""
    for part in line.split("\r"):
        shown = part + shown[len(part) :]
    return shown.rstrip()


def test_tables_and_times():
    assert table(["a", "long"], [["xyz", "1"], ["b", "23"]]) == (
        "a    long\n---  ----\nxyz     1\nb      23"
    )
    assert [seconds(s) for s in (2.5, 0.0125, 3e-6)] == ["2.5 s", "12.5 ms", "3 us"]
    assert diff("a\nb\n", "a\nc\n") == "@@ -1,2 +1,2 @@\n a\n-b\n+c"
    assert diff("a\n", "a\n") == "(no change)"


def test_cubins_are_compiled_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc")
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path))
    out = stdout_of(capsys, "compile", "--cubin", "--target", "sm_80", "-c", NORM)
    (cubin,) = tmp_path.glob("cuda-*/kernel.cubin")
    assert str(cubin) in out
    assert "cubin (sm_80)" in out


def test_ctrl_c_in_an_import_ends_the_command(tmp_path: Path) -> None:
    """Whatever the module that is imported makes of a KeyboardInterrupt."""
    module = """import signal
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    pass
"""
    (tmp_path / "patient.py").write_text(module)
    (tmp_path / "program.py").write_text("import patient\ntorch.randn(4) + 1\n")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}"}
    command = [sys.executable, "-m", "dlc.cli.dlc_cli", "compile", tmp_path / "program.py"]
    # What runs in the background of a shell ignores the signal, and so do its processes.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        done = subprocess.run(command, capture_output=True, env=environment, check=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")

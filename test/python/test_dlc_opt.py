"""dlc-opt in process: what it accepts, and that everything else is a sentence."""

from __future__ import annotations

import io
import random
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp, StringAttr, i32
from xdsl.dialects.test import TestOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from dlc import registry
from dlc.cli import dlc_opt
from dlc.cli.pass_list import options_of
from dlc.diagnostics import OpError, fail
from dlc.error_report import format_error
from dlc.ir.dominance import DominanceError, verify_dominance
from dlc.ir.locations import LocParser
from dlc.passes import APART, STEPS
from dlc.registry import USAGE, PipelineError, get_pass, parse_pipeline, register
from dlc.remarks import collect, remark

ADD = """\
func.func @f(%a: f32, %b: f32) -> f32 {
  %c = arith.addf %a, %b : f32
  func.return %c : f32
}
"""


@dataclass(frozen=True)
class OptionsPass(ModulePass):
    """One option of each type; fails, breaks the IR or remarks on request."""

    name = "test-options"
    do: Literal["nothing", "fail", "fail-op", "crash", "invalid", "escape"] = "nothing"
    size: int = 1
    flag: bool = False
    names: tuple[str, ...] = ()
    limit: int | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remark(self.name, "f", f"did {self.do}")
        add = next(o for o in op.walk() if o.name == "arith.addf")
        match self.do:
            case "fail":
                raise PassFailedException("the size must be positive")
            case "fail-op":
                fail(add, "expected f64, found f32", hint="convert it")
            case "crash":
                raise KeyError("k")
            case "invalid":
                add.attributes["fastmath"] = StringAttr("x")
                add.properties["fastmath"] = StringAttr("x")
            case "escape":
                block = add.parent
                assert block is not None
                add.detach()
                block.insert_op_after(add, block.ops.last)  # pyright: ignore
            case _:
                pass


@dataclass(frozen=True)
class RequiredPass(ModulePass):
    """One option without a default."""

    name = "test-required"
    size: int

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pass


@pytest.fixture(autouse=True)
def _test_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    table = registry.pass_factories() | {
        "test-options": lambda: OptionsPass,
        "test-required": lambda: RequiredPass,
    }
    monkeypatch.setattr(registry, "pass_factories", lambda: table)
    monkeypatch.setattr(dlc_opt, "pass_factories", lambda: table)


@pytest.fixture
def opt(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Run dlc-opt on text; returns its exit code, stdout and stderr, the file named k.mlir."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def run(text: str | bytes, *args: str) -> tuple[int, str, str]:
        path = tmp_path / "k.mlir"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        code = dlc_opt.main([str(path), *args])
        out, err = capsys.readouterr()
        return code, out, err.replace(str(path), "k.mlir")

    return run


def parse(text: str) -> ModuleOp:
    return LocParser(register(Context()), text, "k.mlir").parse_module()


# What works


def test_passes_of_xdsl_run_and_stdin_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(ADD.replace("%c :", "%a :").encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert dlc_opt.main(["-", "-p", "canonicalize, dce"]) == 0
    assert "addf" not in capsys.readouterr().out


def test_output_file_split_input_and_generic_text(opt, tmp_path: Path) -> None:
    out = tmp_path / "out.mlir"
    code, printed, err = opt(
        f"{ADD}// -----\n{ADD}", "--split-input-file", "--print-op-generic", "-o", str(out)
    )
    assert (code, printed, err) == (0, "", "")
    assert out.read_text().count('"arith.addf"') == 2
    assert out.read_text().count("// -----") == 1


def test_remarks_go_to_stderr_on_request(opt) -> None:
    assert opt(ADD, "-p", "test-options")[2] == ""
    assert opt(ADD, "-p", "test-options", "--remarks")[2] == "test-options: f: did nothing\n"


def test_remarks_nest_and_vanish_without_a_collector() -> None:
    remark("p", "k", "lost")
    with collect() as outer:
        remark("p", "", "one")
        with collect() as inner:
            remark("p", "k", "two")
        remark("p", "k", "three")
    assert list(map(str, outer)) == ["p: one", "p: k: three"]
    assert list(map(str, inner)) == ["p: k: two"]


def test_every_operation_gets_the_place_of_its_name() -> None:
    module = parse("\n" + ADD)
    places = {
        op.name: (op.location.line.data, op.location.column.data)
        for op in module.walk()
        if isinstance(op.location, FileLineColLoc)
    }
    assert places == {"func.func": (2, 1), "arith.addf": (3, 8), "func.return": (4, 3)}


def test_a_location_in_the_text_wins() -> None:
    (op,) = parse('"test.op"() : () -> () loc("x.py":7:2)').body.block.ops
    assert isinstance(op.location, FileLineColLoc)
    assert op.location.filename.data == "x.py"
    assert format_error(OpError(op, "no")).startswith("x.py:7:2: error: 'test.op': no")


# Pipelines


@pytest.mark.parametrize(
    "text",
    [
        "canonicalize",
        "test-options,cse",
        "test-options{do=fail size=3 flag=true names=a,b limit=4}",
        " test-options{names=a} , cse ",
        'test-options{names="a b, {c}"},dce',
    ],
)
def test_a_pipeline_prints_and_parses_back(text: str) -> None:
    passes = parse_pipeline(text, registry.pass_factories())
    again = parse_pipeline(",".join(map(str, passes)), registry.pass_factories())
    assert passes == again
    assert len(passes) == 1 + ("cse" in text or "dce" in text)


def test_an_empty_pipeline_has_no_passes() -> None:
    assert parse_pipeline("") == parse_pipeline("  \n") == ()


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("canonicalise", 1, "unknown pass 'canonicalise'", "did you mean canonicalize?"),
        ("cse,stage-input", 5, "unknown pass 'stage-input'", "did you mean stage-inputs?"),
        ("cse,,dce", 5, "expected a name here", None),
        ("cse,", 5, "expected a name here", None),
        ("cse{", 5, "expected the name of an option or } here", USAGE),
        ("cse}", 4, "expected a comma or { here", USAGE),
        ("cse?", 4, "expected none of ( ) : ; [ ] and the like here", USAGE),
        (
            "test-options{a b",
            17,
            "expected = and a value here, a space, or the } of the options",
            USAGE,
        ),
        ("test-options{size=(1)}", 19, "expected none of ( ) : ; [ ] and the like here", USAGE),
        ("test-options{size=1", 20, "expected a space or the } of the options here", USAGE),
        ("test-options{sise=1}", 14, "'test-options' has no option 'sise'", "did you mean size?"),
        (
            "cse,test-options{zz=1}",
            18,
            "'test-options' has no option 'zz'",
            "its options are do, size, flag, names, limit",
        ),
        ("cse{x=1}", 5, "'cse' has no option 'x'", "it has no options"),
        (
            "test-required",
            1,
            "'test-required' requires option 'size'",
            "write test-required{size=...}",
        ),
    ],
)
def test_a_bad_pipeline_is_a_sentence(
    opt, text: str, column: int, message: str, hint: str | None
) -> None:
    code, out, err = opt(ADD, "-p", text)
    assert (code, out) == (1, "")
    first, *rest = err.splitlines()
    assert first == f"<pipeline>:1:{column}: error: {message}"
    if column <= len(text):
        assert rest[0] == text
        assert rest[1].index("^") == column - 1
    assert rest[2:] == ([f"hint: {hint}"] if hint else [])


@pytest.mark.parametrize(
    ("given", "expected", "found"),
    [
        ("size=a", "a number", "a"),
        ("size", "a number", "nothing"),
        ("size=1,2", "a number", "1,2"),
        ("flag=7", "true or false", "7"),
        ("names=3", "a list of text", "3"),
        ("limit=x", "a number", "x"),
        ("do=x", "one of nothing, fail, fail-op, crash, invalid, escape", "x"),
    ],
)
def test_a_value_of_another_type_is_a_sentence(opt, given: str, expected: str, found: str) -> None:
    name = given.partition("=")[0]
    err = opt(ADD, "-p", f"cse,test-options{{{given}}}")[2]
    message = f"option '{name}' of 'test-options' expects {expected}, found {found}"
    assert err.splitlines()[0] == f"<pipeline>:1:18: error: {message}"


def test_passes_by_name() -> None:
    assert get_pass("cse").name == "cse"
    with pytest.raises(ValueError, match="unknown pass 'csee'"):
        get_pass("csee")
    with pytest.raises(PipelineError, match="unknown pass 'csee'"):
        parse_pipeline("csee")
    assert registry.PASSES["chunk-matmul-k"] == (
        "dlc.transforms.tile.chunk_matmul_k",
        "ChunkMatmulKPass",
    )
    assert list(registry.PASSES) == [step.pass_name for step in (*STEPS, *APART)]


@pytest.mark.parametrize("name", registry.PASSES)
def test_every_pass_has_one_name(name: str) -> None:
    cls = get_pass(name)
    assert cls.name == name
    assert cls.__doc__


# Errors in the input: message, line, column, and the underlined text

BROKEN: dict[str, tuple[str, str, str]] = {
    "syntax": ("func.func @f( {\n}", "1:15: error: ", "{"),
    "not an operation": ("}", "1:1: error: expected an operation, found }", "}"),
    "unclosed region": (
        "func.func @f() {\n  func.return\n",
        "1:16: error: the text ends before the } of this {",
        "{",
    ),
    "unclosed list": (
        "builtin.module attributes {a = [1, 2",
        "1:32: error: the text ends before the ] of this [",
        "[",
    ),
    "unclosed string": (
        'builtin.module attributes {a = "x',
        '1:32: error: the text ends before the " of this string',
        '"',
    ),
    "no such type": (
        "func.func @f(%a: Tensor<4xf32>) {\n}",
        "1:18: error: expected a type, found 'Tensor'",
        "Tensor",
    ),
    "an operation of integers": (
        ADD.replace("addf", "addi"),
        "2:8: error: 'arith.addi' does not take the type f32",
        "arith.addi",
    ),
    "nothing behind a line": (
        ADD.replace(" : f32\n", "\n", 1),
        "2:25: error: expected ':' here",
        "",
    ),
    "no comma": (ADD.replace("%a, %b :", "%a %b :"), "2:22: error: expected ',', found '%b'", "%b"),
    "another word": (
        "tile.launch thraed(%i in 16) {\n}",
        "1:13: error: expected a region { … }, found 'thraed'",
        "thraed",
    ),
    "attribute of an argument": (
        'func.func @main(%a: tensor<4xf32> {dlc.knd = "input"}) {\n  func.return\n}',
        "1:36: error: unknown attribute 'dlc.knd' of an argument",
        "dlc.knd",
    ),
    "kind of an argument": (
        'func.func @main(%a: tensor<4xf32> {dlc.kind = "inptu"}) {\n  func.return\n}',
        "1:48: error: unknown dlc.kind 'inptu', expected one of input, parameter, buffer, constant",
        "inptu",
    ),
    "element of an argument": (
        "func.func @main(%a: tensor<4xi7>) {\n  func.return\n}",
        "1:30: error: unknown element type 'i7', expected one of f64, f32,",
        "i7",
    ),
    "plug-ins of a module": (
        "builtin.module attributes {dlc.plugins = {}, dlc.x = 1 : i64} {\n}",
        "1:46: error: unknown attribute 'dlc.x' of a module",
        "dlc.x",
    ),
    "attribute of a module": (
        'builtin.module attributes {dlc.taget = "sm_90"} {\n}',
        "1:28: error: unknown attribute 'dlc.taget' of a module",
        "dlc.taget",
    ),
    "target of a module": (
        'builtin.module attributes {dlc.target = "sm90"} {\n}',
        "1:42: error: unknown target 'sm90'",
        "sm90",
    ),
    "unknown operation": (
        ADD.replace("addf", "adf"),
        "2:8: error: unknown operation 'arith.adf'",
        "arith.adf",
    ),
    "unknown generic operation": (
        '"arith.adf"() : () -> ()',
        "1:1: error: unknown operation 'arith.adf'",
        '"arith.adf"',
    ),
    "unknown dialect": (
        ADD.replace("arith", "arit"),
        "2:8: error: unknown dialect 'arit' of 'arit.addf'",
        "arit.addf",
    ),
    "unknown element": (
        "func.func @f(%a: tensor<4xf33>) {\n}",
        "1:27: error: unknown element type 'f33', expected one of f64, f32,",
        "f33",
    ),
    "unknown type": (
        "func.func @f(%a: !foo.bar) {\n}",
        "1:19: error: unknown type or attribute 'foo.bar'",
        "foo.bar",
    ),
    "type differs from its definition": (
        ADD.replace("%b :", "%b :").replace("%c : f32\n", "%c : f64\n"),
        "3:15: error: operand is used with type f64, but has been previously used or defined "
        "with type f32",
        "%c",
    ),
    "type refused while parsing": (
        '%c = "arith.constant"() : () -> i32',
        "1:6: error: ",
        '"arith.constant"',
    ),
    "types differ": (
        'func.func @f(%a: f32, %b: f64) {\n  %c = "arith.addf"(%a, %b) : (f32, f64) -> f32\n'
        "  func.return\n}",
        "2:8: error: 'arith.addf': operand 'rhs' at position 1 does not verify",
        '"arith.addf"',
    ),
    "own verifier": (
        ADD.replace("-> f32", "-> f64"),
        "3:3: error: 'func.return': ",
        "func.return",
    ),
    "bare exception in a verifier": (
        "func.func @f(%a: memref<4x4xf32>, %i: index) {\n"
        "  %c = memref.load %a[%i] : memref<4x4xf32>\n  func.return\n}",
        "2:8: error: 'memref.load': expected an index for each dimension",
        "memref.load",
    ),
    "no terminator": (
        "func.func @f() {\n  %c = arith.constant 1 : i32\n}",
        "2:8: error: Operation arith.constant terminates block",
        "arith.constant",
    ),
    "defined twice": (
        "%c = arith.constant 1 : i32\n%c = arith.constant 1 : i32",
        "2:1: error: SSA value %c is already defined",
        "%c",
    ),
    "never defined": (
        ADD.replace("%b :", "%q :"),
        "2:23: error: %q is used but never defined in scope",
        "%q",
    ),
    "used before definition": (
        '"test.op"(%c) : (i32) -> ()\n%c = arith.constant 1 : i32',
        "1:1: error: 'test.op': operand %c is used before it is defined (line 2)",
        '"test.op"',
    ),
    "used by itself": (
        '%c = "test.op"(%c) : (i32) -> i32',
        "1:6: error: 'test.op': operand %c is a result of the operation that uses it (line 1)",
        '"test.op"',
    ),
    "escapes its region": (
        '"test.op"(%c) : (i32) -> ()\n"test.op"() ({\n  %c = arith.constant 1 : i32\n'
        '  "test.termop"() : () -> ()\n}) : () -> ()',
        "1:1: error: 'test.op': operand %c is defined in a region that does not contain this use",
        '"test.op"',
    ),
    "enters an isolated region": (
        '%c = arith.constant 1 : i32\nfunc.func @f() {\n  "test.op"(%c) : (i32) -> ()\n'
        "  func.return\n}",
        "3:3: error: 'test.op': operand %c is defined outside 'func.func', which is isolated",
        '"test.op"',
    ),
    "not on every path": (
        "func.func @f(%t: i1) {\n  cf.cond_br %t, ^a, ^b\n^a:\n  %u = arith.constant true\n"
        '  cf.br ^b\n^b:\n  "test.op"(%u) : (i1) -> ()\n  func.return\n}',
        "7:3: error: 'test.op': operand %u is not defined on every path to its use (line 4)",
        '"test.op"',
    ),
    "tabs": ("\t\t}", "1:3: error: expected an operation, found }", "}"),
    "empty": ("", "1:1: error: expected an operation, found the end of the input", ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_input_is_a_sentence(opt, name: str) -> None:
    text, message, underlined = BROKEN[name]
    code, out, err = opt(text)
    assert (code, out) == (1, "")
    assert err.startswith(f"k.mlir:{message}")
    if underlined:
        _, line, carets, *_ = err.splitlines()
        at = carets.index("^")
        assert line[at : at + len(carets.strip())] == underlined


def test_the_closest_name_is_suggested(opt) -> None:
    assert "hint: did you mean arith.addf?\n" in opt(ADD.replace("addf", "addi"))[2]
    assert "hint: did you mean thread?\n" in opt(BROKEN["another word"][0])[2]
    assert "hint: did you mean input?\n" in opt(BROKEN["kind of an argument"][0])[2]
    shapes = "it may be m16n8k16 or m16n8k32 or m16n8k8 or m64"
    assert shapes in opt(ADD, "-p", "register-tile{mma=true}")[2]
    assert "hint: did you mean arith.addf?\n" in opt(ADD.replace("addf", "adf"))[2]
    assert "hint: did you mean arith?\n" in opt(ADD.replace("arith", "arit"))[2]
    assert "hint: did you mean func.return?\n" in opt(ADD.replace("return", "retrun"))[2]
    assert "hint: did you mean %alpha?\n" in opt(
        "func.func @f(%alpha: i32) {\n  func.return %alpa : i32\n}"
    )[2]  # fmt: skip


def test_a_value_that_dominates_through_blocks_is_accepted(opt) -> None:
    text = BROKEN["not on every path"][0].replace("^a, ^b", "^a, ^c")
    text = text.replace("\n}", "\n^c:\n  func.return\n}")
    assert opt(text)[0] == 0


def test_lines_count_from_the_start_of_a_split_file(opt) -> None:
    bad = 'func.func @f() {\n  "test.op"(%c) : (i32) -> ()\n  %c = arith.constant 1 : i32\n}'
    for broken in (bad, ADD.replace("addf", "adf"), ADD.replace("%b :", "%q :")):
        err = opt(f"{ADD}// -----\n{broken}", "--split-input-file")[2]
        assert re.match(r"k\.mlir:7:\d+: error: ", err), err
        line = broken.splitlines()[1]
        assert err.splitlines()[1] == line


# Errors of passes


def test_a_pass_that_fails(opt) -> None:
    code, _, err = opt(ADD, "-p", "cse,test-options{do=fail}")
    assert (code, err) == (1, "error: pass test-options: the size must be positive\n")


def test_a_pass_that_fails_on_an_operation(opt) -> None:
    assert opt(ADD, "-p", "test-options{do=fail-op}")[2].splitlines() == [
        "k.mlir:2:8: error: pass test-options: 'arith.addf': expected f64, found f32",
        "  %c = arith.addf %a, %b : f32",
        "       ^^^^^^^^^^",
        "hint: convert it",
    ]


def test_a_pass_that_breaks_the_ir(opt) -> None:
    err = opt(ADD, "-p", "test-options{do=invalid}")[2]
    assert err.startswith('k.mlir:2:8: error: after pass test-options{do="invalid"}: ')
    err = opt(ADD, "-p", "test-options{do=escape},cse")[2]
    assert "3:3: error: after pass test-options" in err
    assert "operand %c is used before it is defined" in err
    assert opt(ADD, "-p", "test-options{do=invalid}", "--verify-diagnostics")[0] == 0


def test_a_crash_names_its_pass_and_shows_a_traceback_on_request(opt) -> None:
    code, _, err = opt(ADD, "-p", "test-options{do=crash}")
    assert code == 1
    assert err.splitlines()[:2] == [
        "error: pass test-options: internal error: KeyError: 'k'",
        "hint: --debug shows where",
    ]
    assert "Traceback" in opt(ADD, "-p", "test-options{do=crash}", "--debug")[2]


CRASH = "error: pass test-options: internal error: KeyError"
UNKNOWN = '%d = "my.op"() : () -> i32\n' + ADD


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (ADD, ["-p", "test-options{do=crash names=a,b}"], CRASH),
        (ADD, ["-p", "test-options,cse,test-options{do=crash},dce"], CRASH),
        (
            f"{ADD}// -----\n{ADD}",
            ["-p", "cse,test-options{do=crash}", "--split-input-file"],
            CRASH,
        ),
        (UNKNOWN, ["-p", "test-options{do=crash}", "--allow-unregistered-dialect"], CRASH),
        (ADD, ["-p", "cse,test-options{do=invalid}"], "after pass test-options{do="),
        (ADD, ["-p", "cse,test-options{do=escape},cse"], "is used before it is defined"),
    ],
)
def test_what_the_compiler_fails_at_is_written(
    opt, capsys, text: str, arguments: list[str], message: str
) -> None:
    code, _, err = opt(text, *arguments)
    assert (code, message in err) == (1, True)
    command = re.search(r"^reproduce with: dlc-opt (.*)$", err, re.MULTILINE)
    assert command, err
    file, *again = shlex.split(command[1])
    assert Path(file).read_text().startswith(f"// dlc-opt {command[1]}\n")
    assert ",dce" not in command[1]
    assert dlc_opt.main([file, *again]) == 1
    out, said = capsys.readouterr()
    assert message in said
    assert (out, said.splitlines()[-1]) == ("", err.splitlines()[-1])


@pytest.mark.parametrize(
    ("text", "arguments", "code"),
    [
        ("func.func @f(", ["-p", "cse"], 1),
        (ADD.replace("%b :", "%d :"), ["-p", "cse"], 1),
        (ADD, ["-p", "cse,test-options{do=fail}"], 1),
        (ADD, ["-p", "cse,test-options{do=fail-op}"], 1),
        (ADD, ["-p", "cse,sce"], 1),
        (ADD, ["-p", "cse", "--validate"], 1),  # there is no @main to run
    ],
)
def test_what_is_not_the_compilers_failure_is_not(
    opt, tmp_path: Path, text: str, arguments: list[str], code: int
) -> None:
    found, _, err = opt(text, *arguments)
    assert found == code
    assert err.startswith(("error: ", "k.mlir:", "<pipeline>"))
    assert "reproduce" not in err
    assert list(tmp_path.iterdir()) == [tmp_path / "k.mlir"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--remarks"],
        ["--validate"],
        ["--time-passes"],
        ["--print-between-passes", "-p", ""],
        ["-t", "cuda", "--print-op-generic"],
        ["--check-hazards", "--print-debuginfo"],
        ["--check-hazards", "-t", "cuda"],
    ],
)
def test_no_option_is_ignored(opt, arguments: list[str]) -> None:
    code, out, err = opt("not looked at", *arguments)
    assert (code, out) == (2, "")
    assert re.match(r"error: --[\w-]+ needs ", err)


# The command line and files


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-t", "cudda"], "hint: did you mean cuda?"),
        (["-t", "mlir{"], "<target>:1:6: error: "),
        (["-t", "mlir{x=1}"], "<target>:1:6: error: 'mlir' has no option 'x'"),
        (["-t", "mlir{print_debuginfo=3}"], "expects true or false, found 3"),
        (["--spilt-input-file"], "hint: did you mean --split-input-file?"),
        (["-p"], "error: argument -p/--passes: expected one argument"),
        (["-f", "mlri"], "hint: did you mean mlir?"),
        (["-o", "none/x"], "none/x: error: no such file or directory"),
    ],
)
def test_a_bad_command_line_is_a_sentence(
    opt, args: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = opt(ADD, *args)
    assert (code, out) in ((1, ""), (2, ""))
    assert message in err
    assert "usage:" not in err


def test_files_that_cannot_be_read(opt, tmp_path: Path, capsys) -> None:
    for name, message in [
        ("none.mlir", "none.mlir: error: no such file or directory"),
        ("", "error: is a directory"),
    ]:
        assert dlc_opt.main([str(tmp_path / name)]) == 1
        assert message in capsys.readouterr().err
    (tmp_path / "k.txt").write_text(ADD)
    assert dlc_opt.main([str(tmp_path / "k.txt")]) == 2
    assert "hint: -f mlir reads a file of any name" in capsys.readouterr().err
    assert dlc_opt.main([str(tmp_path / "k.txt"), "-f", "mlir"]) == 0
    assert opt(b"\x7fELF\xff\xfe\x00")[2].endswith("byte 0xff at offset 4 is not UTF-8\n")
    assert "error: " in opt(b"\x00\x01\x02")[2]


def test_nesting_too_deep_is_a_sentence(opt) -> None:
    text = '"test.op"() ({\n' * 5000
    code, _, err = opt(text)
    assert code == 1
    assert "error: the program is nested too deeply" in err


def test_damaged_text_never_gives_a_traceback(opt) -> None:
    whole = [text for text, _, _ in BROKEN.values()] + [
        ADD,
        "%0 = arith.constant dense<[1, 2]> : tensor<2xi32>\n"
        "#map = affine_map<(d0, d1) -> (d0 + d1 * 2)>\n"
        '"test.op"() {a = #map, b = [1, 2.5, "x"], c = @f::@g} : () -> ()\n'
        "func.func @g(%m: memref<4x?xf32, strided<[8, 1]>>) {\n"
        "  %c = arith.constant 1 : index\n"
        "  scf.for %i = %c to %c step %c {\n    %v = memref.load %m[%i, %c] : "
        "memref<4x?xf32, strided<[8, 1]>>\n  }\n  func.return\n}",
    ]
    rng = random.Random(0)
    tokens = [*'(){}[]<>%@#!^:,=-"*+0123456789x\n\t \\', "%a", "f32", "->", "loc(", "memref<"]
    for _ in range(300):
        text = rng.choice(whole)
        for _ in range(rng.randint(1, 3)):
            at, length = rng.randint(0, len(text)), rng.choice((0, 1, 1, 8))
            text = text[:at] + rng.choice([*tokens, ""]) + text[at + length :]
        code, _, err = opt(text)
        assert code in (0, 1)
        assert "Traceback" not in err
        assert code == 0 or re.match(r"(k\.mlir:\d+:\d+: )?error: .", err), (text, err)


# The parts


def test_dominance_of_operations_without_a_place() -> None:
    first = TestOp(result_types=[i32])
    user = TestOp(operands=[first.results[0]])
    with pytest.raises(DominanceError, match="operand number 0 is not defined in this module"):
        verify_dominance(ModuleOp([user]))


def test_register_is_idempotent_and_lazy() -> None:
    ctx = register(register(Context()))
    assert {"loop", "arith", "tensor"} <= set(ctx.registered_dialect_names)
    assert not list(ctx.loaded_dialects)


def test_the_help_tells_of_our_passes_first(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        dlc_opt.main(["--help"])
    assert exit.value.code == 0
    text = capsys.readouterr().out
    ours, theirs = text.split("xDSL's passes:")
    assert "apply-pdl" in theirs
    assert "apply-pdl" not in ours
    assert "  chunk-matmul-k{bk vector}\n      The K reduce of a contraction" in ours
    places = [ours.index(f"\n  {step.pass_name}") for step in (*STEPS, *APART)]
    assert places == sorted(places)


def test_passes_are_listed_with_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        dlc_opt.main(["--list-passes"])
    assert exit.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    for step in (*STEPS, *APART):
        number = next(n for n, line in enumerate(lines) if line.split()[0] == step.pass_name)
        assert len(lines[number].split(maxsplit=1)[1]) > 20
        options = options_of(get_pass(step.pass_name))
        for option, line in zip(options, lines[number + 1 :], strict=False):
            assert line.split()[0] == option.name
            assert option.meaning
            assert line.endswith(option.meaning)

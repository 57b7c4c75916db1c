"""Strings of a hostile module: none becomes code, or a file elsewhere, whoever reads the text."""

from __future__ import annotations

import ast
import json
import random
import re
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

import dlc
from dlc.backend.cuda.print.printer import print_module
from dlc.backend.export import export_program
from dlc.cli.pass_reproducer import write_reproducer
from dlc.cli.reproduce_kernel import kernel_script
from dlc.diagnostics import OpError, fail
from dlc.dialects import host, kernel
from dlc.error_report import format_error
from dlc.escapes import c_comment, c_identifier, c_string, file_name, python_string
from dlc.ir.locations import LocParser
from dlc.ir.provenance import OPS
from dlc.passes import steps_between
from dlc.pipeline import apply_step, text_of
from dlc.stages import compiler_context
from dlc.transforms.kernel.join_launches import JoinLaunchesPass

TORCH = """
builtin.module attributes {dlc.target = "sm_90"} {
  func.func @main(%a: tensor<4x8xf32> {dlc.name = "a"}, %x: tensor<8x4xf32> {dlc.name = "x"})
      -> (tensor<4x4xf32>, tensor<4x8xf32>) {
    %s = torch.aten "softmax.int"(self = %a) {dim = -1} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %m = torch.aten "matmul.default"(self = %s, other = %x)
        : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    func.return %m, %s : tensor<4x4xf32>, tensor<4x8xf32>
  }
}
"""
PIECES = (
    "\n#error injected\n", "\r#error\r", "\\", "\\\n", "??/", "??/\n", "*/ } int evil; /*", "//",
    '"', '"""', "'", '\\"', "../", "/etc/passwd", "~", "$(touch evil)", "`touch evil`", "${HOME}",
    "$(HOME)", ";", "&&", "|", "%s%n", "@ARCH@", "@KERNELS@", "{name}", "{{", "\0", "\x1b[31m",
    "\x7f", "\v", "\f", "\x85", "\u2028", "\u202e", "\u2066", "é", "日本", "🎉", "int", "main",
    "a.b", "a b", "-rf", ".", "x" * 400, "</script>", "<!--", 'u8R("', "__LINE__", "#", "\t",
)  # fmt: skip
HINTS = (
    "int",
    "x.y",
    "main",
    "a$b",
    "_",
    "argv",
    "std",
    "x-y",
    "asm",
    "NULL",
    "program",
)


def parse(text: str) -> ModuleOp:
    module = LocParser(compiler_context(), text, "hostile.mlir").parse_module()
    module.verify()
    return module


@cache
def harmless() -> str:
    """Kernel IR of the program."""
    context, module = compiler_context(), parse(TORCH)
    for step in steps_between("torch", "kernel"):
        if step.pass_name != JoinLaunchesPass.name:  # two kernels with a schedule each
            apply_step(context, module, step.pass_name)
    return text_of(module)


def hostile(text: str, choice: random.Random) -> ModuleOp:
    """The module of a text with other strings, as any parser would have read them."""
    module = parse(text)

    def string() -> StringAttr:
        return StringAttr("".join(choice.choices(PIECES, k=choice.randint(1, 4))))

    kernels: dict[str, StringAttr] = {}
    for op in module.walk():
        for value in [*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]:
            rename(value, choice)
        if isinstance(op, kernel.FuncOp):
            new = StringAttr(string().data + str(len(kernels)))  # two do not have one name
            kernels[op.name_] = new
            op.attributes["note"] = string()
            set_property(op, "sym_name", new)
            if op.schedule is not None:
                set_property(op, "schedule", string())
        elif isinstance(op, host.LaunchOp):
            op.attributes[OPS] = ArrayAttr([StringAttr(f"{n} {string().data}") for n in range(2)])
        elif isinstance(op, FuncOp):
            named = [DictionaryAttr({"dlc.name": string(), "dlc.kind": string()}) for _ in op.args]
            op.arg_attrs = ArrayAttr(named)
    for op in module.walk():
        if isinstance(op, host.LaunchOp):
            new = kernels[op.kernel_name]
            set_property(op, "kernel", type(op.properties["kernel"])(new))  # pyright: ignore
    module.verify()
    return module


def rename(value: SSAValue, choice: random.Random) -> None:
    hint = choice.choice(HINTS)
    if SSAValue.is_valid_name(hint):
        value.name_hint = hint


def set_property(op: Operation, name: str, value: StringAttr) -> None:
    assert name in op.properties
    op.properties[name] = value


TOKEN = re.compile(
    r"""(?P<string>"(?:\\.|[^"\\\n])*")|(?P<word>[A-Za-z_]\w*)|(?P<line>\#\w+[^\n]*)"""
    r"""|(?P<number>[\d.][\w.]*)|(?P<other>\S)"""
)


KEYWORDS = frozenset(
    "const float int if for else extern void bool return char long struct namespace static".split()
)


def tokens(text: str) -> list[str]:
    """What a compiler of C++14 takes for code; of names and strings, that there is one."""
    text = re.sub(r"\\[ \t]*\n", "", text.replace("??/", "\\"))
    comment = r'("(?:\\.|[^"\\\n])*")|//[^\n\r\v\f]*|/\*.*?\*/'
    text = re.sub(comment, lambda m: m[1] or " ", text, flags=re.DOTALL)
    found: list[str] = []
    for match in TOKEN.finditer(text):
        named = match.lastgroup == "word" and match[0] not in KEYWORDS
        string = match.lastgroup == "string"
        if not (string and found[-1:] == ["a string"]):  # literals side by side are one
            found.append("a string" if string else "a name" if named else match[0])
    return found


@pytest.mark.parametrize("seed", range(16))
def test_strings_do_not_become_code(seed: int) -> None:
    """The text has the tokens of the harmless one, names and strings aside."""
    module = hostile(harmless(), random.Random(seed))
    before, after = print_module(parse(harmless())), print_module(module)
    assert after.isascii()
    assert all(c >= " " or c == "\n" for c in after)
    assert not re.search(r"\\\s*\n", after)
    assert tokens(after) == tokens(before)


@pytest.mark.parametrize("seed", range(8))
def test_an_export_stays_in_its_directory(seed: int, tmp_path: Path) -> None:
    inside, plain_one = tmp_path / "here", tmp_path / "plain"
    before = export_program(parse(harmless()), plain_one)
    after = export_program(hostile(harmless(), random.Random(seed)), inside)
    assert {p.name for p in tmp_path.iterdir()} == {"here", "plain"}
    assert len(after) == len(before)
    assert {p.resolve() for p in inside.rglob("*") if p.is_file()} == {p.resolve() for p in after}
    assert all(p.resolve().is_relative_to(inside) and p.name.isascii() for p in after)
    assert all(re.fullmatch(r"[\w.]+", p.name) for p in after)
    texts = [(d / "run.cpp").read_text() for d in (plain_one, inside)]
    codes = [" ".join(tokens(text)).replace(" , a string )", " )") for text in texts]
    assert codes[0] == codes[1]  # where a file is not called as its tensor is, it is named, too
    made = [(d / "Makefile").read_text().split("\n") for d in (plain_one, inside)]
    changed = [line for old, line in zip(*made, strict=True) if old != line]
    assert all(re.fullmatch(r"KERNELS := [\w ]+", line) for line in changed)
    manifest = json.loads((inside / "manifest.json").read_text())
    assert all(re.fullmatch(r"kernels/\w+\.cu", k["file"]) for k in manifest["kernels"])
    assert all(re.fullmatch(r"\w[\w.-]*", i["file"], re.ASCII) for i in manifest["inputs"])


@pytest.mark.parametrize("seed", range(4))
def test_scripts_that_reproduce_hold_strings_as_data(seed: int) -> None:
    """The script has the statements of the harmless one, and Kernel IR as a string."""
    modules = parse(harmless()), relaunched(hostile(harmless(), random.Random(seed)))
    trees = [ast.parse(script_of_first_kernel(module)) for module in modules]
    kinds = [[type(node).__name__ for node in ast.walk(tree)] for tree in trees]
    assert kinds[0] == kinds[1]
    (text,) = [
        ast.literal_eval(node.value)
        for node in trees[1].body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "KERNEL"
    ]
    assert text.count("kernel.func @") == 1


def kernels_of(module: ModuleOp) -> list[kernel.FuncOp]:
    return [op for op in module.walk() if isinstance(op, kernel.FuncOp)]


def script_of_first_kernel(module: ModuleOp) -> str:
    return kernel_script(parse(TORCH), module, kernels_of(module)[0].name_)


def relaunched(module: ModuleOp) -> ModuleOp:
    """With the provenance of the harmless module, which a script goes by."""
    pairs = zip(module.walk(), parse(harmless()).walk(), strict=True)
    for op, other in pairs:
        if isinstance(op, host.LaunchOp):
            op.attributes = dict(other.attributes)
    return module


def test_kernels_of_one_name_in_c_are_refused(tmp_path: Path) -> None:
    """They would be one file of an export, and the second would run in the place of the first."""
    text = harmless()
    names = [func.name_ for func in kernels_of(parse(text))]
    assert len(names) == 2
    for name, new in zip(names, ('@"a.b"', "@a_b"), strict=True):
        text = re.sub(rf"@{name}\b", new, text)
    with pytest.raises(OpError, match=r"found that @a_b and @a\.b are both a_b"):
        print_module(parse(text))
    with pytest.raises(OpError, match="different names in C"):
        export_program(parse(text), tmp_path)


@pytest.mark.parametrize("seed", range(8))
def test_a_schedule_is_printed_as_it_is_read(seed: int) -> None:
    """ASCII: xDSL reads no string that has an escape and other letters."""
    ascii_pieces = [piece for piece in PIECES if piece.isascii()]
    schedule = "".join(random.Random(seed).choices(ascii_pieces, k=8))
    module = parse(harmless())
    set_property(kernels_of(module)[0], "schedule", StringAttr(schedule))
    for _ in range(2):
        module = parse(text_of(module))
        found = kernels_of(module)[0].schedule
        assert found is not None
        assert found.data == schedule


def test_no_file_that_is_read_runs() -> None:
    """Nothing is unpickled but what dlc itself, or a child of it, pickled; no model brings code."""
    root = Path(dlc.__file__).parent
    pattern = re.compile(r"trust_remote_code|torch\.load\(|pickle\.loads?\(|shell=True|os\.system")
    found = {
        f"{path.relative_to(root)}: {match}"
        for path in sorted(root.rglob("*.py"))
        for match in pattern.findall(path.read_text(encoding="utf-8"))
    }
    assert found == {
        "frontend/quick_imports.py: pickle.loads(",  # what it has in memory
        "tuning/workers.py: pickle.loads(",  # what a process that it started has answered
    }


def test_errors_and_reproducers_hold_strings_as_data(tmp_path: Path) -> None:
    module = hostile(harmless(), random.Random(1))
    func = kernels_of(module)[0]
    func.location = FileLineColLoc(StringAttr("a\x1b]0;b\u202e"), IntAttr(1), IntAttr(1))
    with pytest.raises(OpError) as caught:
        fail(func, "found \x1b[31m and \u202e")
    assert all(c.isprintable() for c in format_error(caught.value).replace("\n", ""))
    folder = tmp_path / "a b;$(touch evil)\n"
    folder.mkdir()
    command = write_reproducer("\n", "tileify{a='\nb'}", "", folder)
    assert shlex.split(command)[2:] == ["-p", "tileify{a='\nb'}"]
    (file,) = folder.iterdir()
    assert all(line.startswith("//") for line in file.read_text().splitlines() if line)


@pytest.mark.parametrize("seed", range(30))
def test_literals_give_back_their_strings(seed: int) -> None:
    text = "".join(random.Random(seed).choices(PIECES, k=5))
    assert ast.literal_eval(python_string(text)).removeprefix("\n") == text.removeprefix("\n")
    assert re.fullmatch(r"[A-Za-z_]\w{0,127}", c_identifier(text), re.ASCII)
    assert re.fullmatch(r"[\w][\w.-]{0,127}", file_name(text), re.ASCII)
    assert re.fullmatch("[ -~]*", c_comment(text))
    assert "??" not in c_string(text) + c_comment(text)
    octal = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), c_string(text)[1:-1])
    found = re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), octal)
    if "\\" not in text:
        assert found.encode("latin-1").decode() == text


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("standard", ["c++14", "gnu++17"])
def test_a_compiler_sees_only_a_comment(standard: str) -> None:
    """Trigraphs, continued lines and all."""
    lines = [f"// {c_comment(piece + end)}\nint v{n}{m};" for n, piece in enumerate(PIECES)
             for m, end in enumerate(("", "\\", "??/", "?"))]  # fmt: skip
    strings = [f"const char* s{n} = {c_string(piece)};" for n, piece in enumerate(PIECES)]
    used = [f"int* p{n}{m} = &v{n}{m};" for n in range(len(PIECES)) for m in range(4)]
    command = ["g++", f"-std={standard}", "-fsyntax-only", "-x", "c++", "-"]
    text = "\n".join([*lines, *used, *strings]) + "\n"
    said = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr

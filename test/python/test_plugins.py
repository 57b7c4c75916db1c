"""Plug-ins: what they register is dlc's, and a broken one is a sentence that stops nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from caches import own_cache
from forked import forked_python

from dlc import plugin_sources, plugins

STEP = '''
"""Blocks are numbered along another axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from dlc.dialects import tile
from dlc.dialects.axes import BLOCK
from dlc.plugins import Registry
from dlc.registry import OptionError
from dlc.transforms.axes.axis_edit import keep, replace_axes
from dlc.transforms.step import Decline, SchedulingPass


@dataclass(frozen=True)
class OrderBlocksPass(SchedulingPass):
    """
    Blocks are numbered along another axis of the grid.
    """

    name = "order-blocks"

    axis: str | None = None
    """The block axis that varies fastest."""

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        launch, axes = kernel.launch, kernel.launch.axes
        grid = {axis.name_hint: axis for axis in launch.axes_of(BLOCK)}
        if len(grid) < 2:
            raise Decline("its grid has fewer than two axes")
        if self.axis not in grid:
            raise OptionError("axis", f"it has no block axis {self.axis}")
        order = sorted(
            axes, key=lambda axis: (launch.kind(axis) != BLOCK, axis is grid[self.axis])
        )
        new = {axis: keep(axis, launch) for axis in order}
        replace_axes(launch, list(new.values()), lambda e: {old: e[new[old]] for old in axes})
        return f"%{self.axis} varies fastest"


def register(registry: Registry) -> None:
    registry.scheduling_step("order-blocks", OrderBlocksPass)
'''
PASS = """
from dataclasses import dataclass
from xdsl.passes import ModulePass
from dlc.remarks import remark

@dataclass(frozen=True)
class CountPass(ModulePass):
    "Counts the operations of a module."
    name = "count-ops"

    def apply(self, ctx, op):
        remark(self.name, "all", f"{sum(1 for _ in op.walk())} operations")

def register(registry):
    registry.module_pass("count-ops", CountPass, PLACE)
"""
PRODUCT = "torch.randn(96, 128) @ torch.randn(128, 64)"
BLOCKS = "tileify,blockify-launch{block=32,32 thread=8,8}"


def tool(
    tool: str, *arguments: str, folder: Path, code: int = 0, load: str = ""
) -> tuple[str, str]:
    """What one of dlc's tools prints in a process that has not imported any of dlc."""
    module = {"dlc": "dlc.cli.dlc_cli", "dlc-opt": "dlc.cli.dlc_opt"}[tool]
    return python("-m", module, *arguments, folder=folder, code=code, load=load)


def python(*arguments: str, folder: Path, code: int = 0, load: str = "") -> tuple[str, str]:
    import os

    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "DLC_CACHE_DIR": str(folder / "cache"),
        "DLC_LOAD": load,
    }
    command = [*forked_python(), *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "order.py").write_text(STEP)
    own_cache(tmp_path / "cache")
    return tmp_path


@pytest.fixture
def loops(folder: Path) -> Path:
    """Loop IR whose schedule names the step of the plug-in."""
    out, _ = tool("dlc", "compile", "-c", PRODUCT, "--ir", "loop", folder=folder)
    path = folder / "k.mlir"
    schedule = f'schedule "{BLOCKS},order-blocks{{axis=bi}}"'
    path.write_text(re.sub('schedule ".*?"', schedule, out))
    return path


def test_a_step_stands_in_schedules_in_the_help_and_in_the_explanation(folder: Path, loops: Path):
    load = ("--load", "order.py")
    for command in (("--list-passes",), ("--help",)):
        assert "order-blocks" in tool("dlc-opt", *load, *command, folder=folder)[0]
        assert "order-blocks" not in tool("dlc-opt", *command, folder=folder)[0]
    out, _ = tool("dlc", "compile", "k.mlir", "--ir", "tile", *load, folder=folder)
    assert "block(%bj in 2, %bi in 3)" in out
    out, _ = tool("dlc", "compile", "k.mlir", "--explain", *load, folder=folder)
    assert re.search("order-blocks +%bi varies fastest", out)
    out, _ = tool("dlc", "run", "k.mlir", "-c", PRODUCT, *load, folder=folder)
    assert out.rstrip().endswith("OK")
    tool("dlc", "trace", "k.mlir", "-o", "t.html", *load, folder=folder)
    page = (folder / "t.html").read_text()
    assert "t:016.1_order_blocks" in page
    assert "Blocks are numbered along another axis of the grid." in page


def test_the_fuzzer_of_schedules_draws_a_step(folder: Path):
    domains = '    domains: ClassVar = {"axis": Domain(("bi", "bj"))}\n\n    axis: str'
    domain = "from dlc.transforms.step_space import Domain\nfrom dlc.registry"
    text = STEP.replace("    axis: str", domains).replace("from dlc.registry", domain)
    (folder / "order.py").write_text(text)
    code = """
import random
from fuzzing.schedules import as_schedule, random_schedule

for seed in range(20):
    print(as_schedule(random_schedule(random.Random(seed))))
"""
    out, _ = python("-c", code, folder=folder, load="order.py")
    assert {"order-blocks{axis=bi}", "order-blocks{axis=bj}"} <= set(re.findall("order.*}", out))
    out, _ = python("-c", code, folder=folder)
    assert "order-blocks" not in out


def test_printed_ir_needs_the_plugin_and_says_so(folder: Path, loops: Path):
    out, _ = tool("dlc", "compile", "k.mlir", "--ir", "tile", folder=folder, load="order.py")
    assert 'dlc.plugins = {"order-blocks" = "order.py"}' in out
    (folder / "t.mlir").write_text(out)
    again, _ = tool("dlc-opt", "t.mlir", "-p", "mark-unroll", "--load", "order.py", folder=folder)
    assert again.rstrip() == out.rstrip()
    _, error = tool("dlc-opt", "t.mlir", "-p", "mark-unroll", folder=folder, code=1)
    assert "unknown step 'order-blocks'" in error
    assert "hint: it is a step of the plug-in order.py: --load loads it" in error


@pytest.mark.parametrize(
    ("place", "number"),
    [
        ('after="mark-unroll"', "t:016.1_count_ops"),
        ('before="tileify"', "t:000.1_count_ops"),
        ('after="lift-to-loops"', "l:001.1_count_ops"),
        ('before="decompose-torch"', "d:000.1_count_ops"),
    ],
)
def test_a_pass_runs_in_its_place(folder: Path, place: str, number: str):
    (folder / "count.py").write_text(PASS.replace("PLACE", place))
    command = ("compile", "-c", "torch.randn(40) + 1", "-vv", "--load", "count.py")
    out, error = tool("dlc", *command, folder=folder)
    assert re.search(r"count-ops: all: \d+ operations", error)
    assert number in out


def test_a_pass_in_no_place_is_for_dlc_opt(folder: Path, loops: Path):
    (folder / "count.py").write_text(PASS.replace(", PLACE", ""))
    command = ("compile", "-c", "torch.randn(40) + 1", "-v", "--load", "count.py")
    assert "count-ops" not in tool("dlc", *command, folder=folder)[1]
    command = ("k.mlir", "-p", "count-ops", "--remarks", "--load", "count.py")
    assert "count-ops: all:" in tool("dlc-opt", *command, folder=folder)[1]


def test_python_and_torch_compile_take_plugins(folder: Path):
    counting = PASS.replace("PLACE", 'after="tileify"').replace(
        'remark(self.name, "all",', "print("
    )
    (folder / "count.py").write_text(counting)
    code = """
import dlc, torch

dlc.load_plugin("count.py")
x = torch.randn(40)
with torch.no_grad():
    assert torch.equal(torch.compile(lambda x: x + 1, backend="dlc")(x), x + 1)
f = dlc.compile(lambda x: x + 2, (x,), backend="host")
assert torch.equal(f(x), x + 2)
try:
    dlc.load_plugin("none.py")
except ValueError as error:
    print(error)
"""
    out, _ = python("-c", code, folder=folder)
    assert len(re.findall(r"^\d+ operations$", out, re.MULTILINE)) == 2
    assert "none.py: the plug-in none is left out: no such file or directory" in out


KERNEL = """
%x = "test.op"() : () -> tensor<96x64xf32>
%y = loop.kernel @copy(%x: memref<96x64xf32> = %x) -> (%y: memref<96x64xf32>) schedule "tileify" {
  loop.for %i in 96, %j in 64 {
    %0 = loop.load %x[%i, %j] : memref<96x64xf32>
    loop.store %0, %y[%i, %j] : memref<96x64xf32>
  }
}
"""

BROKEN: dict[str, tuple[str, str]] = {
    "import error": ("\nimport nowhere\n", r"p\.py:2: .*ModuleNotFoundError: No module named"),
    "syntax": ("def register(:\n", r"p\.py:1: .*SyntaxError: invalid syntax"),
    "no function": ("x = 1\n", r"p\.py: .*it has no function register\(registry\)"),
    "signature": ("\ndef register(): pass\n", r"p\.py:2: .*TypeError: register\(\) takes 0"),
    "exit": ("import sys\nsys.exit(3)\n", r"p\.py:2: .*SystemExit: 3"),
    "method": (
        "def register(registry):\n    registry.kernels('x')\n",
        r"p\.py:2: .*'Registry' object has no attribute 'kernels'",
    ),
    "duplicate": (
        "def register(registry):\n    registry.module_pass('tileify', int)\n",
        r"p\.py:2: .*registers the pass 'tileify', which dlc registers, too",
    ),
    "duplicate later": (
        "def register(registry):\n    registry.backend('host', int)\n"
        "    registry.dialect('loop', int)\n    registry.printer('cuda', int)\n",
        r"p\.py:\d: .*, which dlc registers, too",
    ),
    "duplicate decomposition": (
        "def register(registry):\n    registry.decomposition('add.Tensor', print)\n",
        r"p\.py:2: .*registers the decomposition 'add\.Tensor', which dlc registers, too",
    ),
    "no such operation": (
        "def register(registry):\n    registry.decomposition('_adddmm_activation', print)\n",
        r"p\.py:2: .*no ATen operation of '_adddmm_activation.default': did you mean _addmm_act",
    ),
    "no such overload": (
        "def register(registry):\n    registry.decomposition('poisson.Tensor', print)\n",
        r"p\.py:2: .*aten.poisson.Tensor is no overload of that operation: it has default, out",
    ),
    "place": (
        PASS.replace("PLACE", "after='tilefy'"),
        r"p\.py:15: .*'count-ops' is placed next to 'tilefy', and there is no such pass",
    ),
    "no step": (
        PASS.replace("module_pass", "scheduling_step").replace(", PLACE", ""),
        r"p\.py:15: .*'count-ops' is no SchedulingPass",
    ),
    "step in no place": (
        STEP.replace(
            '"order-blocks", OrderBlocksPass', '"turn", OrderBlocksPass, after="bind-axes"'
        ).replace('"order-blocks"', '"turn"'),
        r"p\.py:\d+: .*'turn' has to stand between tileify and mark-unroll, or after",
    ),
    "no class": (
        "def register(registry):\n    registry.module_pass('x', 'nowhere:X', after='tileify')\n",
        r"p\.py:2: .*'x' cannot be loaded: ModuleNotFoundError: No module named 'nowhere'",
    ),
    "another name": (
        PASS.replace('"count-ops", CountPass, PLACE', '"count", CountPass, after="tileify"'),
        r"p\.py:15: .*'count' has another name in its class: 'count-ops'",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_a_sentence_and_stops_nothing(folder: Path, name: str):
    text, said = BROKEN[name]
    (folder / "p.py").write_text(text)
    (folder / "k.mlir").write_text(KERNEL)
    command = ("k.mlir", "-p", "decompose-torch,tileify,order-blocks{axis=bi}")
    out, error = tool("dlc-opt", *command, "--load", "p.py", "--load", "order.py", folder=folder)
    assert "tile.kernel @copy" in out
    lines = error.splitlines()
    assert len(lines) == 1
    assert re.search(said, lines[0]), lines
    assert "warning: " in lines[0]
    assert "the plug-in p is left out: " in lines[0]


def test_two_plugins_of_one_name(folder: Path, loops: Path):
    (folder / "again.py").write_text(STEP)
    command = ("compile", "k.mlir", "--load", "order.py", "--load", "again.py")
    _, error = tool("dlc", *command, folder=folder)
    assert "the plug-in again is left out: it registers the pass 'order-blocks', which the" in error
    assert "plug-in order registers, too" in error


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("launch, axes", "none = 1 // 0\n        launch, axes", "ZeroDivisionError"),
        (", module: ModuleOp)", ")", "TypeError"),
    ],
)
def test_a_pass_that_raises_is_named_with_its_place(
    folder: Path, loops: Path, old: str, new: str, said: str
):
    (folder / "order.py").write_text(STEP.replace(old, new))
    _, error = tool("dlc", "compile", "k.mlir", "--load", "order.py", folder=folder, code=1)
    assert "error: pass order-blocks: " in error
    assert said in error
    if said == "ZeroDivisionError":
        assert re.search(r"error in the plug-in order \(.*order\.py:\d+\)", error)
    assert re.search(r"reproduce with: dlc-opt .* -p order-blocks --load .*order\.py", error)


def test_an_operation_that_raises_is_told_with_the_line_of_the_program(tmp_path: Path):
    """As the identity of floats for integers does: with the plug-in's line, too."""
    (tmp_path / "infinite.py").write_text("""
def register(registry):
    def least(c):
        return c.pointwise(lambda x: x.maximum(float("-inf")), c.tensor())

    registry.decomposition("_addmm_activation", least)
""")
    text = "import torch\nh = torch.randint(9, (4, 4)) + 1\ntorch._addmm_activation(h[0], h, h)\n"
    (tmp_path / "p.py").write_text(text)
    command = ("compile", "p.py", "--load", "infinite.py")
    _, error = tool("dlc", *command, folder=tmp_path, code=1)
    assert error.startswith("p.py:3:1: error: pass decompose-torch: 'torch.aten': error in the")
    said = r"plug-in infinite \(.*infinite\.py:4\): OverflowError: cannot convert float infinity"
    assert re.search(said, error), error
    assert "\ntorch._addmm_activation(h[0], h, h)\n^" in error


KINDS = """
from dataclasses import dataclass

from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.utils.target import Target

from dlc.backend.host.host_backend import HostBackend


@irdl_op_definition
class MarkOp(IRDLOperation):
    name = "mine.mark"
    assembly_format = "attr-dict"


@dataclass(frozen=True)
class Names(Target):
    name = "names"

    def emit(self, ctx, module, output):
        print(*(op.name for op in module.walk()), file=output)


def backend(sync):
    return HostBackend(name="mine")


def register(registry):
    registry.dialect("mine", Dialect("mine", [MarkOp]))
    registry.printer("names", Names)
    registry.backend("mine", backend)
"""


def test_dialects_printers_and_backends(folder: Path):
    (folder / "kinds.py").write_text(KINDS)
    (folder / "m.mlir").write_text("mine.mark")
    load = ("--load", "kinds.py")
    out, _ = tool("dlc-opt", "m.mlir", "-t", "names", *load, folder=folder)
    assert out.split() == ["builtin.module", "mine.mark"]
    code = """
import dlc, torch

dlc.load_plugin("kinds.py")
a = torch.arange(1, 7)
f = dlc.compile(torch.add, (a, a), backend="mine")
assert f.backend.name == "mine"
assert torch.equal(f(a, a), 2 * a)
"""
    python("-c", code, folder=folder)
    command = ("run", "-c", "torch.randn(4) + 1", "--backend", "his")
    _, error = tool("dlc", *command, folder=folder, code=2)
    assert "unknown backend 'his'" in error


def test_files_to_load_have_to_be_there(folder: Path, loops: Path):
    command = ("compile", "k.mlir", "--load", "none.py")
    assert "--load none.py: no such file" in tool("dlc", *command, folder=folder, code=2)[1]
    command = ("k.mlir", "--load", "none.py")
    assert "--load none.py: no such file" in tool("dlc-opt", *command, folder=folder, code=2)[1]


def test_caches_tell_plugins_and_their_contents_apart(folder: Path):
    code = "from dlc.version import source_key; print(source_key())"
    contents: Sequence[str] = ("", STEP, f"{STEP}\n", "import nowhere")
    keys: list[str] = []
    for text in contents:
        (folder / "order.py").write_text(text)
        keys.append(python("-c", code, folder=folder, load="order.py" if text else "")[0])
    assert len(set(keys)) == len(keys)


def test_caches_tell_what_a_plugin_imports_apart(folder: Path):
    """Modules beside it, packages and folders of modules there, and those of its own package."""
    (folder / "order.py").write_text(STEP)
    for inside in ("parts", "parts/deep", "whole", "whole/mine", "data"):
        (folder / inside).mkdir()
    for name in ("whole/__init__.py", "whole/mine/__init__.py", "whole/mine/order.py"):
        (folder / name).write_text(STEP if name.endswith("order.py") else "")
    (folder / "data" / "text.txt").touch()

    def keys() -> tuple[str, str]:
        return (
            plugin_sources.of_file(str(folder / "order.py")).digest,
            plugin_sources.of_file(str(folder / "whole" / "mine" / "order.py")).digest,
        )

    beside, inside = keys()
    for name in ("beside.py", "parts/one.py", "parts/deep/two.py"):
        (folder / name).write_text("A = 1")
        changed = keys()
        assert changed[0] != beside, name
        assert changed[1] == inside, name
        beside = changed[0]
    (folder / "whole" / "util.py").write_text("A = 1")
    assert keys()[1] != inside
    known = keys()
    (folder / "data" / "text.txt").write_text("more")
    assert keys() == known


def test_a_plugin_that_changes_while_it_is_loaded_is_not_as_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(plugins, "LOADED", plugins.Loaded())
    monkeypatch.setenv("DLC_LOAD", str(folder / "order.py"))
    assert plugins.are_as_found()
    key = plugins.key()
    (folder / "helper.py").write_text("A = 1")
    assert not plugins.are_as_found()
    assert plugins.key() == key


INSTALLED = """
import sys
from dlc.plugins import Registry

def register(registry: Registry) -> None:
    registry.scheduling_step("order-blocks", "mine.order:OrderBlocksPass")
"""


def install(folder: Path, name: str, group: str, entry: str) -> None:
    """Puts the metadata of a package into a folder of the path."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {entry}\n")


def test_installed_packages_are_plugins(folder: Path, loops: Path):
    package = folder / "mine"
    package.mkdir()
    (package / "__init__.py").write_text(INSTALLED)
    (package / "order.py").write_text(STEP)
    install(folder, "mine", "dlc.plugins", "mine:register")
    out, _ = tool("dlc", "compile", "k.mlir", "--ir", "tile", folder=folder)
    assert "block(%bj in 2, %bi in 3)" in out
    assert 'dlc.plugins = {"order-blocks" = "mine"}' in out


def test_a_broken_installed_package_stops_nothing(folder: Path):
    (folder / "mine.py").write_text("import nowhere\n")
    install(folder, "mine", "dlc.plugins", "mine:register")
    out, error = tool("dlc", "run", "-c", "torch.randn(40) + 1", folder=folder)
    assert out.rstrip().endswith("OK")
    assert re.search(r"mine\.py:1: the plug-in mine is left out: ModuleNotFoundError", error)


def test_a_broken_universe_stops_nothing(folder: Path):
    install(folder, "mine", "xdsl.universe", "nowhere:UNIVERSE")
    (folder / "empty.mlir").write_text("builtin.module {}")
    _, error = tool("dlc-opt", "empty.mlir", "-p", "canonicalize", folder=folder)
    assert "warning: what entry points of xdsl.universe name is left out: ModuleNotFound" in error


def test_universes_of_xdsl_keep_working(folder: Path):
    universe = "from xdsl.universe import Universe\n"
    universe += f"{PASS.partition('def register')[0]}\n"
    universe += "UNIVERSE = Universe(all_passes={'count-ops': lambda: CountPass})\n"
    (folder / "mine.py").write_text(universe)
    install(folder, "mine", "xdsl.universe", "mine:UNIVERSE")
    (folder / "empty.mlir").write_text("builtin.module {}")
    command = ("empty.mlir", "-p", "count-ops", "--remarks")
    assert "count-ops: all: 1 operations" in tool("dlc-opt", *command, folder=folder)[1]


SCALAR = """
import numpy as np
from dlc.ir.scalar_ops import ScalarOp

def register(registry):
    row = ScalarOp(lambda x: np.cbrt(x), "cbrt", cost=15, in_f64=True, aten=("special_log_ndtr",))
    registry.scalar("math.cube_root", row)
"""


@pytest.mark.parametrize("late", [False, True])
def test_a_scalar_function_is_lowered_printed_parsed_run_and_checked(folder: Path, late: bool):
    """The name of an operation that dlc lacks stands for one that nobody else has."""
    (folder / "scalar.py").write_text(SCALAR)
    code = f"""
import dlc, torch
if {late}:
    import dlc.compiler, dlc.dialects.math_functions, dlc.transforms.tensor.decompositions
    dlc.load_plugin("scalar.py")
x = torch.tensor([8.0, -27.0, 0.0, float("inf"), float("nan"), 1e-30] * 7)
f = dlc.compile(torch.special.log_ndtr, (x,), backend="host")
expected = x.double().abs().pow(1 / 3).copysign(x).float()
torch.testing.assert_close(f(x), expected, equal_nan=True, rtol=1e-6, atol=0)
assert "math.cube_root" in f.ir("tensor") and "cbrtf(" in f.ir("cuda")
g = dlc.load(open("t.mlir", "w").write(f.ir("tile")) and "t.mlir", backend="host")
assert torch.equal(g(x).nan_to_num(), f(x).nan_to_num())
assert [v.answer for v in f.check()] == ["clean"]
eight = lambda y: y + torch.special.log_ndtr(torch.full((4,), 8.0))
h = dlc.compile(eight, (x[:4],), backend="host")
assert "math.cube_root" not in h.ir("loop")
assert torch.equal(h(x[:4]), x[:4] + 2)
"""
    python("-c", code, folder=folder, load="" if late else "scalar.py")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("math.cube_root", "cube", "the scalar operation 'cube' is not named math.cube"),
        ("math.cube_root", "math.exp", "the scalar operation 'math.exp', which dlc registers, too"),
        ("lambda x: np.cbrt(x)", '"cbrt"', "lacks a function of arrays, or of C"),
        ('"cbrt", cost', '"", cost', "lacks a function of arrays, or of C"),
        ("special_log_ndtr", "exp", "the decomposition 'exp.default', which dlc registers, too"),
    ],
)
def test_a_scalar_function_that_cannot_be_is_left_out(folder: Path, old: str, new: str, why: str):
    (folder / "scalar.py").write_text(SCALAR.replace(old, new))
    command = ("run", "-c", "torch.randn(40).exp()", "--load", "scalar.py")
    out, error = tool("dlc", *command, folder=folder)
    assert out.rstrip().endswith("OK")
    assert why in error

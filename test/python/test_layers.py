"""The shape of the code base: layers, folders, names. Every import counts, lazy ones too."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from architecture import LAYERS

from dlc.passes import APART, STEPS

ROOT = Path(__file__).parents[2]


@cache
def modules() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for package in (ROOT / "dlc", ROOT / "bench" / "dlc_bench"):
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(module: str) -> frozenset[str]:
    """The modules of ours that a module imports, at its top or in a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(modules()[module].read_text())):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{name.name}" for name in node.names]
            found.update(name if name in modules() else node.module for name in names)
    return frozenset(found & modules().keys()) - {module}


def part_of(module: str) -> str:
    """The part of a layer that a module belongs to."""
    parts = [part for layer in LAYERS for part in layer]
    inside = [part for part in parts if f"{module}.".startswith(f"{part}.") and part != "dlc"]
    return max(inside, key=len, default="dlc" if module == "dlc" else f"{module}, of no layer")


def test_imports_go_down() -> None:
    depth = {part: number for number, layer in enumerate(LAYERS) for part in layer}
    wrong = [
        f"{module} imports {other}"
        for module in modules()
        for other in imports(module)
        if (own := part_of(module)) != (its := part_of(other)) and depth[own] >= depth[its]
    ]
    assert not wrong


def test_no_modules_import_each_other() -> None:
    assert not list(cycles({module: imports(module) for module in modules()}))


def cycles(graph: dict[str, frozenset[str]]) -> Iterator[list[str]]:
    """What is left when all that leads to nothing but what is left out is left out."""
    left = dict(graph)
    while ends := [node for node, nexts in left.items() if not nexts & left.keys()]:
        for node in ends:
            del left[node]
    if left:
        yield sorted(left)


def test_no_pass_imports_a_pass() -> None:
    passes = {step.location[0] for step in (*STEPS, *APART)}
    assert passes <= modules().keys()
    assert not [
        f"{module} imports {other}" for module in passes for other in imports(module) & passes
    ]


def test_the_folders_of_transforms_are_the_pipeline() -> None:
    for stage in ("tensor", "loop", "tile", "kernel"):
        folder = ROOT / "dlc" / "transforms" / stage
        files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
        steps = (step for step in (*STEPS, *APART) if step.stage == stage)
        names = {step.pass_name.replace("-", "_") for step in steps}
        assert files == names


def test_analyses_edit_nothing() -> None:
    for path in (ROOT / "dlc" / "analysis").rglob("*.py"):
        assert "xdsl.rewriter" not in path.read_text(), path
        assert "pattern_rewriter" not in path.read_text(), path


def test_ir_knows_no_dialect() -> None:
    for module in modules():
        if module.startswith("dlc.ir."):
            assert not [other for other in imports(module) if other.startswith("dlc.dialects")]


def test_names_of_modules_are_unique() -> None:
    counts = Counter(path.name for path in modules().values() if path.name != "__init__.py")
    assert not [name for name, count in counts.items() if count > 1]


def test_bounds_are_asked_for_in_one_place():
    for name, path in modules().items():
        if not name.startswith("dlc.ir."):
            assert not re.search(r"\.range\b", path.read_text()), f"{name}: ask dlc.ir.bounds"


def test_extents_are_asked_for_their_bounds() -> None:
    """An extent will not always be a number: an axis is asked for its `least` and its `most`."""
    for name, path in modules().items():
        compared = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Compare)]
        for node in compared:
            called = [s.func for s in (node.left, *node.comparators) if isinstance(s, ast.Call)]
            names = [f.attr for f in called if isinstance(f, ast.Attribute)]
            assert "extent" not in names, f"{name}:{node.lineno}"


def test_shapes_are_asked_for_in_one_place():
    asking = {name for name, path in modules().items() if ".get_shape(" in path.read_text()}
    assert asking == {"dlc.dialects.layouts"}


def test_what_a_chip_fixes_stands_in_the_target_table() -> None:
    named = re.compile(r"^\w*(ALIGN|WARP|BANK|SECTOR|MBARRIER|THREADS)\w* = \d+$", re.MULTILINE)
    bare = re.compile(r"\b(threads?|threads_per_sm|lanes?|warps?) (//|%|\*) 32\b")
    for module, path in modules().items():
        if not module.startswith("dlc.target"):
            assert not named.findall(path.read_text()), path
            assert not bare.findall(path.read_text()), path

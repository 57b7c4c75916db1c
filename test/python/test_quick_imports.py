"""Quick imports leave nothing out, and find what the slow ones do."""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dlc.frontend import quick_imports as quick

CONTENDERS = ("dlc", "eager", "torch.compile", "max-autotune")


def test_what_is_imported_within_is_what_it_is() -> None:
    with quick.quick_imports():
        import networkx

        assert not gc.isenabled()
    assert gc.isenabled()
    assert type(networkx) is ModuleType
    assert sys.modules["networkx"] is networkx


def test_the_context_leaves_nothing_behind_when_an_import_fails() -> None:
    finders = list(sys.meta_path)
    with pytest.raises(ImportError), quick.quick_imports():
        import not_there  # type: ignore[import-not-found]  # noqa: F401  pyright: ignore
    assert sys.meta_path == finders
    assert gc.isenabled()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1\n",
        '__all__ = ["A"]',
        'import x\n__all__ = ["A", "B"]\n',
        'a = "__all__"\n',
        '__all__ = ["A"]\nb = 2\n__all__ = [\n    "C",\n    "D",\n]\n',
        '    __all__ = ["A"]\n',
    ],
)
def test_exports_are_those_that_transformers_finds(text: str) -> None:
    search = pytest.importorskip("transformers.utils.import_utils")
    copy: Any = ModuleType("copy")
    copy.fetch__all__ = search.fetch__all__
    copy.create_import_structure_from_path = search.create_import_structure_from_path
    quick._quicken(copy)
    assert copy.fetch__all__(text) == search.fetch__all__(text)


def test_a_directory_is_searched_once_and_its_answer_is_not_shared() -> None:
    searched: list[str] = []

    def search(path: str) -> dict[str, set[str]]:
        searched.append(path)
        return {"a": {path}}

    module: Any = ModuleType("search")
    module.fetch__all__ = lambda content: []
    module.create_import_structure_from_path = search
    quick._quicken(module)
    module.create_import_structure_from_path("d").clear()
    assert module.create_import_structure_from_path("d") == {"a": {"d"}}
    assert searched == ["d"]


def test_no_script_is_taken_for_a_package_that_transformers_looks_for() -> None:
    """The folders of scripts are on the path of an editable installation and of the tests."""
    root = Path(__file__).resolve().parents[2]
    scripts = {p.stem for p in (*root.glob("bench/*.py"), *root.glob("test/python/*.py"))}
    import_utils = importlib.util.find_spec("transformers.utils.import_utils")
    assert import_utils is not None
    assert import_utils.origin is not None
    text = Path(import_utils.origin).read_text()
    wanted = set(re.findall(r'_is_package_available\(\s*"(\w+)"', text))
    assert "kernels" in wanted
    assert not wanted & scripts


def test_every_contender_is_measured_after_them() -> None:
    """With functions of the text's, whose globals are no module's; torch.compile compiles once."""
    text = "def f(x): return x * K\nK = torch.randn(3)\ntorch.relu(f(torch.randn(4, 3)))"
    command = [sys.executable, "-m", "dlc.cli.dlc_cli", "run", "--bench", "-c", text]
    command += ["--contenders", ",".join(CONTENDERS)]
    # Which vectors Inductor could use is seconds of trials, and nothing here.
    environment = os.environ | {"TORCHINDUCTOR_VEC_ISA_OK": "0"}
    made = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert made.returncode == 0, made.stdout + made.stderr
    assert "recompile" not in made.stderr
    rows = {line.split()[0]: line.split()[1:] for line in made.stdout.splitlines() if line.split()}
    for name in CONTENDERS:
        assert float(rows[name][0]) > 0

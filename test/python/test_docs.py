"""Pages that scripts make are what the scripts make now."""

from __future__ import annotations

import subprocess
import sys

import architecture
import passes
import pytest
import tensor_cores
import tutorial


def test_the_page_of_passes_is_current() -> None:
    made = passes.page()
    assert made == passes.PAGE.read_text(), "run python docs/passes.py"


def test_the_ladder_of_tensor_cores_is_current() -> None:
    made = tensor_cores.page()
    assert made == tensor_cores.PAGE.read_text(), "run python docs/tensor_cores.py"


def test_every_pass_says_what_it_does_and_when_it_may() -> None:
    for step in passes.STEPS:
        if step.stage == "tile":
            doc = passes.pass_class(step).__doc__ or ""
            assert "Legal" in doc, step
            assert "Faster because" in doc, step
            assert "```" in doc, step


def test_the_picture_of_the_layers_is_current() -> None:
    made = architecture.picture()
    assert made == architecture.PICTURE.read_text(), "run python docs/architecture.py"


@pytest.mark.parametrize(
    "names",
    [tutorial.SHORT, tutorial.MADE, tutorial.MODELS, ("tutorial",), ("extending",), ("readme",)],
    ids=" ".join,
)
def test_the_pages_show_what_their_commands_print(names: tuple[str, ...]) -> None:
    command = [sys.executable, tutorial.__file__, *names, "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    pages = "".join(tutorial.PAGES[name].read_text() for name in names)
    assert done.stdout == pages, f"run python docs/tutorial.py {' '.join(names)}"


def test_every_page_with_commands_is_run() -> None:
    shown = {path.stem for path in tutorial.DOCS.glob("*.md") if "```console" in path.read_text()}
    assert {*shown, "readme"} == set(tutorial.PAGES)


@pytest.mark.parametrize(
    ("page", "file", "most"),
    [
        ("extending", "activation.py", 10),
        ("extending", "order_blocks.py", 80),
        ("extending", "orin.py", 10),
        ("extending", "exp10.py", 10),
        ("opencl", "opencl.py", 300),
    ],
)
def test_plugins_are_short(page: str, file: str, most: int) -> None:
    blocks = tutorial.BLOCK.findall(tutorial.PAGES[page].read_text())
    (text,) = (body for _, body in blocks if body.startswith(f"# {file}\n"))
    lines = [line for line in text.splitlines()[1:] if line.strip()]
    assert len(lines) <= most

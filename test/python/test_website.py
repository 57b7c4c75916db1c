"""The documentation site: its pages are made of the code, it builds without a warning, offline."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import grammar
import pytest
import website
from passes import STEPS, pass_class
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser

import dlc
from dlc import plugins
from dlc.simulator.hazards import Kind
from dlc.stages import compiler_context


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return website.pages()


def test_every_operation_and_attribute_has_its_grammar(pages: dict[str, str]) -> None:
    shown = [name for _, names, _ in grammar.IRS.values() for name in names]
    assert {*shown, "math"} == set(plugins.DIALECTS)
    for stage, (_, names, _) in grammar.IRS.items():
        page = pages[f"irs/{stage}.md"]
        for dialect in map(grammar.dialect, names):
            for op in dialect.operations:
                assert f"### {op.name}\n" in page
                assert issubclass(op, IRDLOperation)
                given = op.get_irdl_definition()
                for name, _ in (*given.operands, *given.results):
                    assert f"| `{name}` |" in page
            assert all(f"{attribute.name}`\n" in page for attribute in dialect.attributes)


@pytest.mark.parametrize("stage", ["torch", "tensor", "loop", "tile", "kernel"])
def test_the_examples_parse(stage: str, pages: dict[str, str]) -> None:
    (text,) = re.findall(
        r"## An example\n.*?```mlir\n(.*?)```", pages[f"irs/{stage}.md"], re.DOTALL
    )
    module = Parser(compiler_context(), text).parse_module()
    module.verify()
    assert str(module).strip() == text.strip()


def test_the_options_of_schedules_and_the_api_are_whole(pages: dict[str, str]) -> None:
    for step in STEPS:
        if step.stage == "tile":
            _, found, rest = pages["schedules.md"].partition(f"### {step.pass_name}\n")
            assert found
            part = rest.partition("### ")[0]
            assert all(f"| `{name}` |" in part for name in getattr(pass_class(step), "domains", ()))
    assert all(f"## dlc.{name}\n" in pages["api.md"] for name in dlc.__all__)


def test_the_page_of_hazards_has_each_kind(pages: dict[str, str]) -> None:
    kinds = {*get_args(Kind)} - {"not checked"}
    named = re.findall(r"^\| ([a-z ,]+) \|", pages["hazards.md"], re.MULTILINE)
    assert {kind for names in named for kind in names.split(", ")} - {"hazard"} == kinds


def test_constraints_are_words(pages: dict[str, str]) -> None:
    for stage in grammar.IRS:
        assert not re.search(r"\w+(Constraint|OrOpt|RangeOf)", pages[f"irs/{stage}.md"])


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("[a](irs/loop.md#x) ![b](c.png)", None),
        ("[`examples/x.py`](../examples/x.py)", "`examples/x.py`"),
        ("[it](../examples/x.py)", "it (`examples/x.py`)"),
        ("```\n[it](../x.py)\n```\n", None),
        ("[on the page](#there) [away](https://x.org)", None),
    ],
)
def test_links_lead_to_pages(given: str, made: str | None) -> None:
    assert website.relinked(given, {"irs/loop.md"}) == (made or given)


def test_the_site_builds_and_opens_from_disk(tmp_path: Path) -> None:
    if any(find_spec(name) is None for name in ("sphinx", "myst_parser", "furo")):
        pytest.skip("the extra 'docs' is not installed: make docs installs it")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, website.__file__, str(tmp_path)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    for names in website.CHAPTERS.values():
        assert all((tmp_path / "site" / f"{name}.html").exists() for name in names)
    for path in (tmp_path / "site").rglob("*.html"):
        fetched = r"<(?:script|link|img)\b[^>]*\b(?:src|href)=\"(?:https?:)?//"
        assert not re.search(fetched, path.read_text()), path

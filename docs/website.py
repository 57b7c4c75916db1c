"""
Builds the documentation site in build/site: python docs/website.py, or make docs

Pages are those of this folder, and what is made from the code: the grammar of the six IRs
(`grammar`), the options of schedules, the Python API (`api`). Sphinx with MyST makes HTML of them,
which opens from disk and is searched there; what warns, fails.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import api
import grammar
from passes import pass_class

from dlc.cli.pass_list import options_of, typed
from dlc.passes import STEPS
from dlc.transforms.step import SchedulingPass, written

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
CHAPTERS: dict[str, tuple[str, ...]] = {
    "Tutorials": ("tutorial", "extending", "opencl", "committed", "sizes"),
    "The six IRs": (*(f"irs/{stage}" for stage in grammar.IRS), "irs/scalars"),
    "Schedules": ("schedules", "passes", "tuning", "attention", "tensor-cores"),
    "Running": ("trace", "running", "models", "generation", "measuring"),
    "Trust": ("accuracy", "checking", "hazards", "op_db", "nnsmith"),
    "Reference": ("api", "operators", "architecture", "faq", "comparison"),
}
"""The pages, in their order, below index.md."""

CONFIGURATION = {
    "project": "dlc",
    "html_title": "dlc",
    "extensions": ["myst_parser"],
    "html_theme": "furo",
    "html_show_sphinx": False,
    "html_copy_source": False,
    "myst_heading_anchors": 4,
    # Listings are shortened, and hold IR of several dialects: lexers do not know all of it.
    "suppress_warnings": ["misc.highlighting_failure"],
}
"""Sphinx's conf.py."""

OPTIONS = "<!-- options -->"
"""Where the page of schedules has the options of all steps."""
LINK = re.compile(r"(!?)\[([^]\n]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def pages() -> dict[str, str]:
    """The text of each page by its path."""
    found = {path.name: path.read_text() for path in sorted(DOCS.glob("*.md"))}
    found |= {**grammar.pages(), "api.md": api.page()}
    found["schedules.md"] = found["schedules.md"].replace(OPTIONS, options())
    return {path: relinked(text, set(found)) for path, text in found.items()}


def relinked(text: str, known: set[str]) -> str:
    """A page whose links lead to pages and pictures of the site; other files are named only."""

    def link(found: re.Match[str]) -> str:
        path = found[3].partition("#")[0]
        if not path or "://" in path or path in known or (DOCS / path).suffix in (".png", ".svg"):
            return found[0]
        shown = path.removeprefix("../")
        return f"`{shown}`" if found[2].strip("`") == shown else f"{found[2]} (`{shown}`)"

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def options() -> str:
    """The options of all scheduling steps, as these declare them: a table for each step."""
    parts: list[str] = []
    for step in STEPS:
        cls = pass_class(step)
        if not issubclass(cls, SchedulingPass):
            continue
        parts.append(f"### {step.pass_name}")
        parts.append((cls.__doc__ or "").strip().partition("\n\n")[0].replace("\n    ", " "))
        rows = [
            f"| `{o.name}` | {_cell(typed(o.type, o.bounds))} | {_values(cls, o.name)} "
            f"| {o.meaning} |"
            for o in options_of(cls)
        ]
        if rows:
            parts.append("\n".join(["| option | type | tried | |", "|---|---|---|---|", *rows]))
    return "\n\n".join(parts)


def _values(cls: type[SchedulingPass], option: str) -> str:
    domain = cls.domains.get(option)
    values = () if domain is None else domain.values
    return ", ".join("by itself" if value is None else f"`{written(value)}`" for value in values)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def contents() -> str:
    """The chapters as the trees of contents of the first page."""
    trees = (
        f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(names) + "\n```"
        for title, names in CHAPTERS.items()
    )
    return "\n\n".join(trees)


def build(folder: Path) -> int:
    """Writes the pages to `folder`/docs and the site to `folder`/site; Sphinx's exit code."""
    source = folder / "docs"
    shutil.rmtree(source, ignore_errors=True)
    for path, text in pages().items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        more = f"\n{contents()}\n" if path == "index.md" else ""
        (source / path).write_text(text + more)
    for picture in (*DOCS.glob("*.png"), *DOCS.glob("*.svg")):
        shutil.copy(picture, source)
    settings = "\n".join(f"{name} = {value!r}" for name, value in CONFIGURATION.items())
    (source / "conf.py").write_text(f"{settings}\n")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E", "-b", "html"]
    return subprocess.run([*command, source, folder / "site"], check=False).returncode


if __name__ == "__main__":
    target = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build"
    code = build(target)
    if code == 0:
        print(f"wrote {target / 'site' / 'index.html'}")
    sys.exit(code)

"""
Runs README.md and the pages of docs/ that show commands and writes what these print into them:
python docs/tutorial.py, or with the names of some of them

The commands run in a folder of their own, on a copy of dlc. A block ```console holds commands
(`$ …`) and what they print. One of another language whose first line is a comment that names a file
is that file, or `FILE, at the end` what comes after its last line; in a ```diff, lines that begin
with `-` or a space are replaced by those that begin with `+` or a space.

Times, and errors against fp64, which are another processor's on another one, stay as they are if
nothing else has changed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
SHORT = "index", "schedules", "accuracy", "checking", "hazards", "faq"
MADE = "opencl", "committed", "sizes"
MODELS = "models", "generation"
PAGES = {name: DOCS / f"{name}.md" for name in (*SHORT, *MADE, *MODELS, "tutorial", "extending")}
PAGES["readme"] = ROOT / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"(?:#|//) ([\w/.-]+\.(?:py|mlir|h))(, at the end)?\n+")
COMMAND = re.compile(r"^\$ (?:.*\\\n)*.*\n", re.MULTILINE)
OTHERWISE = re.compile(r"[\d.]+ (?:us|ms|s)\b|\d\.\d\de-\d\d")
"""What is not the same on each machine."""
BETWEEN = "=== the next command ==="


def page(text: str) -> str:
    """A page, with what its commands print now."""
    with TemporaryDirectory(prefix="dlc-") as temporary:
        clone = Clone(Path(temporary))
        try:
            return BLOCK.sub(
                lambda found: f"```{found[1]}\n{clone.block(*found.groups())}```", text
            )
        finally:
            clone.stop()


def settled(text: str) -> str:
    """A text without what is not the same on each machine."""
    return re.sub(r" +", " ", OTHERWISE.sub("#", text))


class Clone:
    """A copy of dlc that can be changed, and the tools that run it."""

    def __init__(self, folder: Path) -> None:
        from caches import own_cache
        from forked import commands

        self.root, tools, scratch = (folder / name for name in ("dlc", "tools", "scratch"))
        for path in (tools, scratch):
            path.mkdir()
        for package in ("dlc", "bench/dlc_bench"):
            shutil.copytree(ROOT / package, self.root / package)
        self.listener = commands(str(tools))
        self.server: int | None = None
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("DLC_")},
            "PYTHONUNBUFFERED": "1",  # what is printed and logged comes in order, as in a terminal
            "PATH": os.pathsep.join([str(tools), os.path.dirname(sys.executable), "/usr/bin:/bin"]),
            "PYTHONPATH": os.pathsep.join([str(self.root), str(self.root / "bench")]),
            "DLC_CACHE_DIR": str(own_cache(folder / "cache")),
            "TMPDIR": str(scratch),
        }

    def block(self, language: str, text: str) -> str:
        """Does what a block says; returns it with what its commands print."""
        if language == "console":
            return "".join(self.answered(text))
        if language == "diff":
            self.change(text)
        elif named := FILE.match(text):
            path, body = self.root / named[1], text[named.end() :]
            self.write(path, f"{path.read_text()}\n\n{body}" if named[2] else body)
        return text

    def answered(self, text: str) -> Iterator[str]:
        """The commands of a block, each with what it prints."""
        found = list(COMMAND.finditer(text))
        starts = [*(command.start() for command in found), len(text)]
        printed = self.run([command[0][2:] for command in found])
        for command, end, now in zip(found, starts[1:], printed, strict=True):
            before = text[command.end() : end]
            yield command[0] + (before if settled(before) == settled(now) else now)

    def run(self, commands: list[str]) -> list[str]:
        """What each of some commands prints, which one shell runs."""
        if self.server is None:
            self.start()
        done = subprocess.run(
            ["bash", "-c", f"echo {BETWEEN}\n".join(commands)],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        text = "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())
        return text.split(f"{BETWEEN}\n")

    def change(self, diff: str) -> None:
        """Makes the change of a diff, which has one place in its file."""
        head, _, body = diff.partition("@@\n")
        path = self.root / head.split()[1].removeprefix("a/")
        lines = body.splitlines(keepends=True)
        old, new = ("".join(ln[1:] for ln in lines if ln[0] in signs) for signs in (" -", " +"))
        text = path.read_text()
        assert text.count(old) == 1, f"{path.relative_to(self.root)} does not hold once:\n{old}"
        self.write(path, text.replace(old, new))

    def write(self, path: Path, text: str) -> None:
        path.write_text(text)
        if path.is_relative_to(self.root / "dlc"):
            self.stop()

    def start(self) -> None:
        """Starts a server of dlc as it is now, by a fork of this process."""
        from forked import import_torch

        import_torch()
        self.server = os.fork()
        if self.server == 0:
            from forked import serve

            sys.path[:0] = [str(self.root), str(self.root / "bench")]
            serve(self.listener)
            os._exit(0)

    def stop(self) -> None:
        """The next command starts a server that imports dlc anew."""
        if self.server is not None:
            os.kill(self.server, signal.SIGKILL)
            os.waitpid(self.server, 0)
            self.server = None


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "test"))
    shown = "-" in sys.argv
    asked = [name for name in sys.argv[1:] if name != "-"]
    if unknown := [name for name in asked if name not in PAGES]:
        sys.exit(f"no page is called {', '.join(unknown)}; the pages are {', '.join(PAGES)}")
    for name in asked or PAGES:
        made = page(PAGES[name].read_text())
        if shown:
            print(made, end="")
        else:
            PAGES[name].write_text(made)

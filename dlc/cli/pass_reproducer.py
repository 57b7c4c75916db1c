"""
Files that show a failure again: a module as it was before a pass, its first line the command.

    // dlc-opt dlc-stage-inputs-1f0c2a.mlir -p stage-inputs --validate
"""

from __future__ import annotations

import hashlib
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ArgSpecParseError, PassFailedException

from dlc import plugins
from dlc.cli.error_text import describe
from dlc.diagnostics import UsageError
from dlc.passes import steps_between
from dlc.pipeline import apply_pass, stage_of, text_of


def is_refusal(error: BaseException) -> bool:
    """True if the compiler is right: a pass or the command line says what it does not take."""
    return isinstance(error, PassFailedException | ArgSpecParseError | UsageError)


def write_reproducer(
    text: str, passed: str, arguments: str = "", directory: Path | None = None
) -> str:
    """
    Writes a module's text and the command that runs a pass on it, which it returns; `passed` is the
    pass with its options, if any, `arguments` are further ones of `dlc-opt`. The directory is by
    default that of temporary files; equal files have equal names.
    """
    key = hashlib.sha256(f"{text}{passed}{arguments}".encode()).hexdigest()[:6]
    name = passed.partition("{")[0]
    path = (directory or Path(tempfile.gettempdir())) / f"dlc-{name}-{key}.mlir"
    arguments = " ".join(filter(None, [arguments, plugins.options()]))
    command = f"dlc-opt {shlex.quote(str(path))} -p {shlex.quote(passed)} {arguments}".rstrip()
    comment = command.replace("\n", "\n// ")
    path.write_text(f"// {comment}\n{text}", encoding="utf-8")
    return command


def reproduction(
    error: BaseException,
    sources: Mapping[str, str],
    passed: str,
    before: Callable[[], ModuleOp],
    arguments: Sequence[str] = (),
) -> str:
    """
    Writes a reproducer of an error in a pass, for which `before` makes the module that the pass was
    given: a line with the command that runs it, or why there is none.
    """
    wrong = ["--validate"] if type(error).__name__ == "WrongResult" else []
    try:
        command = write_reproducer(text_of(before()), passed, " ".join([*arguments, *wrong]))
    except (Exception, ArgSpecParseError) as obstacle:
        return f"no reproducer is written: {describe(obstacle, sources)}"
    return f"reproduce with: {command}"


def advance(ctx: Context, module: ModuleOp, pass_name: str) -> None:
    """Takes a module to where a pass is next, by the passes of the pipeline before it."""
    for step in steps_between(stage_of(module), "kernel"):
        if step.pass_name == pass_name:
            return
        apply_pass(ctx, module, step.pass_name)

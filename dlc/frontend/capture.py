"""
A PyTorch program from text: its last expression, with random tensors as inputs.

The statements run once, as Python. The last expression is then taken apart: calls that make random
tensors and modules are made, and become inputs and submodules; what computes with them is the
program. `torch.relu(torch.randn(4) + 1)` is the program `torch.relu(x + 1)`.
"""

from __future__ import annotations

import ast
import linecache
import math
import re
from pathlib import Path
from typing import Any

import torch

from dlc.frontend.lift import Lifter, errors_in, place_in
from dlc.frontend.random import RandomTensors
from dlc.frontend.source import ImportFailure


def capture_script(path: str | Path, seed: int = 0) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """`capture_text` of a file; ImportFailure if there is none that can be read."""
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ImportFailure(f"expected a Python script: cannot read '{path}': {error}") from None
    return capture_text(text, str(path), seed)


def capture_text(
    text: str, filename: str = "<command>", seed: int = 0
) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """
    The program that the last expression of `text` is, as a module and its example inputs.

    `torch`, `nn`, `F` and `math` are at hand, and the random seed is `seed`. Parameters have the
    names of the module when the expression is one call of a module (`weight`), else they begin with
    the variable that holds the module (`mlp.gate.weight`). Raises ImportFailure for text that does
    not parse, that fails while it runs, or whose last expression computes no tensor.
    """
    lines = text.splitlines(keepends=True)
    linecache.cache[filename] = (len(text), None, lines, filename)
    try:
        tree = ast.parse(text, filename)
    except SyntaxError as error:
        place = place_in(filename, error.lineno or 1, error.offset or 1)
        raise ImportFailure(f"SyntaxError: {error.msg}", place) from None
    if not tree.body:
        raise ImportFailure(
            "expected a program: an expression that computes tensors, found no text"
        )
    last = tree.body.pop()
    if not isinstance(last, ast.Expr):
        raise ImportFailure(
            "expected an expression as the last statement, such as `model(torch.randn(4, 8))`; "
            f"found {_kind(last)}",
            place_in(filename, last.lineno, last.col_offset + 1),
        )
    torch.manual_seed(seed)
    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "math": math}
    scope: dict[str, Any] = {"__name__": "__main__", "__file__": filename, **names}
    random = RandomTensors()
    with errors_in(filename), random:
        exec(compile(tree, filename, "exec"), scope)
    return Lifter(filename, scope, random).program(last.value)


def _kind(statement: ast.stmt) -> str:
    name = re.sub(r"(?<!^)([A-Z])", r" \1", type(statement).__name__).lower()
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name} statement"

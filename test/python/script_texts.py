"""Texts of scripts: what Python makes of one, and what the program that it is gives."""

from __future__ import annotations

import math
import re
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts.capture import capture_text
from dlc.frontend.source import ImportFailure
from dlc.judge.reference import evaluate

USED = "x = torch.randn(4)\ny = x + 1\n"
"""An input, and a program that has begun."""


def plain(text: str, seed: int = 0, name: str = "r") -> Any:
    """What a text's `r`, or its variable `name`, is as Python runs it."""
    torch.manual_seed(seed)
    given = {"torch": torch, "nn": nn, "F": nn.functional, "math": math}
    scope: dict[str, Any] = {"__name__": "__main__", **given}
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        exec(text, scope)
    return tree_map_only(torch.Tensor, torch.Tensor.detach, scope[name])


def captured(text: str) -> Any:
    """What its program returns, by the evaluator of Torch IR."""
    module, args = capture_text(text)
    program = import_program(module, args)
    bound = program.bind(args)
    return program.unflatten(evaluate(program.module, bound), bound)


def captured_or_why(text: str) -> Any:
    """The same, or the sentence that refuses it."""
    try:
        return captured(text)
    except ImportFailure as error:
        return error


def assert_as_python(text: str) -> None:
    """A text's program computes what Python does."""
    torch.testing.assert_close(captured(text), plain(text))


def assert_as_python_or_refused(text: str, pattern: str = "") -> None:
    """The same, or a sentence that has such a pattern, at a line of the text, refuses it."""
    found = captured_or_why(text)
    if isinstance(found, ImportFailure):
        assert found.place is not None
        assert re.search(pattern, found.message)
    else:
        torch.testing.assert_close(found, plain(text))

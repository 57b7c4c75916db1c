"""Every pass of the pipeline says what it does, and does it somewhere by default."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from textwrap import dedent
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.nn.functional import linear, silu
from xdsl.passes import ModulePass

from dlc.backend.host.host_backend import HostBackend
from dlc.compile_options import CompileOptions
from dlc.compiler import CompiledProgram
from dlc.passes import APART, STEPS, Step
from dlc.stages import compiler_context

IDLE = {True: "No default schedule names it", False: "By default, "}
"""The words of a pass that changes nothing by default, of the pipeline and apart from it."""

every_pass = pytest.mark.parametrize("step", [*STEPS, *APART], ids=lambda step: step.pass_name)


def pass_class(step: Step) -> type[ModulePass]:
    module, name = step.location
    return getattr(import_module(module), name)


def gate(x: torch.Tensor, g: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    return silu(x @ g) * (x @ u) * 2.0


def layers(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        x = linear(torch.softmax(x, -1), w, b)
    return x.t().reshape(-1)


def again(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.relu(x @ w) @ w)


def put(cache: torch.Tensor, x: torch.Tensor) -> None:
    cache[3:5] = x


def twice(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x, x])


def ones(*shapes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.ones(shape) for shape in shapes)


def rows(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x).flatten(0, 1)


def scored(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ w.T, -1)


def largest(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x @ w).amax(1)


def shares(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    most = x.amax(-1, keepdim=True)
    return x.exp() / x.exp().sum(-1, keepdim=True), x - most, most


def siblings(x: torch.Tensor, v: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.relu(x @ v), x @ w


def joined_heads(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1).transpose(1, 2).flatten(2) @ w


pooled = torch.nn.Sequential(torch.nn.Conv2d(64, 64, 1), torch.nn.AvgPool2d(2)).eval()

PROGRAMS: tuple[tuple[Callable[..., Any], tuple[Any, ...], *tuple[Any, ...]], ...] = (
    (torch.matmul, ones((1024, 1024), (1024, 1024))),
    (torch.matmul, ones((16, 4096), (4096, 64))),
    (torch.matmul, tuple(x.bfloat16() for x in ones((1024, 256), (256, 1024)))),
    (torch.matmul, (torch.ones(1024, 1024).T, torch.ones(1024, 1024))),
    (gate, ones((256, 256), (256, 512), (256, 512))),
    (layers, ones((128, 512), (512, 512), (512,))),
    (again, ones((128, 512), (512, 512))),
    (torch.xlogy, ones((8, 8), (8, 8))),
    (torch.softmax, (*ones((64, 1)), -1)),
    (twice, ones((3, 4))),
    (put, ones((8, 4), (2, 4))),
    (torch.amax, (*ones((16384, 64)), 0)),
    (scored, ones((8, 4096), (64, 4096))),
    (largest, ones((2048, 64), (64, 2048))),
    (shares, ones((8, 64))),
    (siblings, ones((1, 64), (64, 32), (64, 8))),
    (torch.conv_transpose2d, ones((64, 128, 16, 16), (128, 64, 2, 2))),
    (pooled, ones((16, 64, 28, 28))),
    (joined_heads, ones((1, 8, 64, 64), (512, 512))),
    (rows, ones((3, 5, 8)), ({0: Dim("b"), 1: Dim("s")},)),
)
"""Functions, what they are called with, and the sizes of that if there are any."""


def acting() -> Iterator[str]:
    """The passes that change something of the programs, by their default schedules."""
    on = [(program, "sm_90") for program in PROGRAMS]
    for (function, inputs, *sizes), target in [(PROGRAMS[0], "sm_80"), *on]:
        options = CompileOptions(dynamic_shapes=sizes[0] if sizes else None)
        program = CompiledProgram(function, target, HostBackend(), options)
        module = program.variant(inputs).module("torch").clone()
        before = str(module)
        for step in STEPS:
            pass_class(step)().apply(compiler_context(), module)
            after = str(module)
            if after != before:
                yield step.pass_name
            before = after


def test_they_act_by_default_or_say_that_they_do_not() -> None:
    acts = {*acting(), "split-factors"}  # of large products in 3xtf32: test_factor_parts.py
    for step in (*STEPS, *APART):
        said = " ".join((pass_class(step).__doc__ or "").split())
        assert (step.pass_name in acts) == (IDLE[step in STEPS] not in said), step


@every_pass
def test_it_is_told_in_a_sentence_with_its_reasons_and_an_example(step: Step) -> None:
    doc = inspect.getdoc(pass_class(step)) or ""
    sentence, *_ = doc.split("\n\n")
    assert re.fullmatch(r"[A-Z][^.]*(\.\w[^.]*)*\.", sentence, re.DOTALL), sentence
    said = re.findall(r"^\*(Legal when|Legal always|Faster because|Why)\*", doc, re.MULTILINE)
    assert len(said) == 2
    assert said[0].startswith("Legal")
    assert not said[1].startswith("Legal")
    assert step.stage != "tile" or said[1] == "Faster because"
    before, after, *_ = re.split(r"^becomes\b[^\n]*\n(?=```)", doc, flags=re.MULTILINE)
    assert before.rstrip().endswith("```")
    assert after.count("```") >= 2
    module, _ = step.location
    assert not (import_module(module).__doc__ or "").startswith("The pass")


@every_pass
def test_its_options_are_told(step: Step) -> None:
    (node,) = ast.parse(dedent(inspect.getsource(pass_class(step)))).body
    assert isinstance(node, ast.ClassDef)
    for field, below in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and "ClassVar" not in ast.unparse(field.annotation):
            assert isinstance(below, ast.Expr), ast.unparse(field)
            assert isinstance(below.value, ast.Constant), ast.unparse(field)

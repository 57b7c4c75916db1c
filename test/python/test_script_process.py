"""Scripts that ask or change what belongs to the process rather than to their variables."""

from __future__ import annotations

import ast
import builtins
import math
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from script_texts import assert_as_python, captured_or_why, plain
from torch import nn

from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts.capture import capture_text
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.process_state import ProcessState

IMPORTS = "import builtins, functools, os, sys, warnings\n"
CACHED = "@functools.lru_cache\ndef f(n):\n    return n"
KINDS = {
    "PyTorch's": ("torch.rv = 0", "torch.rv = getattr(torch, 'rv', 0) + 1", "torch.rv", "torch.rv"),
    "set": ("torch.rv = 0", "setattr(torch, 'rv', torch.rv + 1)", "torch.rv", "torch.rv"),
    "of a class": ("nn.Linear.rv = 0", "nn.Linear.rv += 1", "nn.Linear.rv", "nn.Linear.rv"),
    "a quiet module's": ("math.rv = 0", "math.rv += 1", "math.rv", "math.rv"),
    "by another name": ("m = math\nm.rv = 0", "m.rv += 1", "m.rv", "m.rv"),
    "Python's": ("builtins.rv = 0", "builtins.rv += 1", "rv", "builtins.rv"),
    "once": ("", "if not hasattr(torch, 'rv'):\n        torch.rv = 1\n        x = x * 3", "2",
             "torch.rv"),
    "an item": ("torch.rv = [0]", "torch.rv[0] += 1", "torch.rv[0]", "torch.rv[0]"),
    "filters": ("", "warnings.filterwarnings('ignore', str(len(warnings.filters)))",
                "len(warnings.filters)", "warnings.filters[0]"),
    "the environment": ("os.environ['RV'] = '1'", "os.environ['RV'] += '1'",
                        "float(os.environ['RV'])", "os.environ"),
    "threads": ("", "torch.set_num_threads(torch.get_num_threads() % 2 + 1)",
                "torch.get_num_threads()", "torch.get_num_threads()"),
    "default type": ("", "torch.set_default_dtype(torch.float64)", "torch.ones(4)",
                     "torch.get_default_dtype()"),
    "gradients": ("", "torch.set_grad_enabled(not torch.is_grad_enabled())",
                  "(2 if torch.is_grad_enabled() else 3)", "torch.is_grad_enabled()"),
    "a cache": (CACHED, "f(i)", "(f.cache_info().hits + f.cache_info().misses)",
                "f.cache_info()"),
    "a file": ("w = os.rv\nw.seek(0)", "w.write(b'abc')", "(w.tell() + 1)", "w.tell()"),
    "seeds": ("", "torch.manual_seed(1)", "torch.randn(4)", "seeds"),
}  # fmt: skip
"""What makes it, changes it and reads it, and its name."""
PLACES = {
    "in a loop": "x = torch.randn(4)\nr = x\nfor i in range(3):\n    {act}\n"
    "    r = r * {read}\nr + 1",
    "before": "x = torch.randn(4)\nfor i in range(3):\n    {act}\n    r = x * i\nr * {read} + 1",
    "in a function": "def h(x, i=1):\n    {act}\n    return x * {read}\nx = torch.randn(4)\n"
    "y = h(x)\ny + 1",
    "in a loop that draws": "x = torch.ones(4)\nfor i in range(3):\n"
    "    r = torch.empty(4).fill_(1.) * x\n    {act}\n    r = r * {read}\nr + 1",
    "in calls that draw": "def h(i=1):\n    x = torch.empty(4).fill_(2.) * torch.ones(4)\n"
    "    {act}\n    return x * {read}\nr = h() + h()\nr + 1",
}  # fmt: skip


@pytest.fixture(autouse=True)
def process(tmp_path: Path) -> Iterator[None]:
    """What the scripts change is set back."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("RV", "1")
        with open(tmp_path / "file", "wb") as file:
            patch.setattr(os, "rv", file, raising=False)
            yield
        _forget()
    torch.set_num_threads(threads)
    torch.set_default_dtype(dtype)


def _forget() -> None:
    for owner in (torch, sys, math, builtins, nn.Linear):
        if hasattr(owner, "rv"):
            delattr(owner, "rv")
    warnings.resetwarnings()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)


@pytest.mark.parametrize(("made", "act", "read", "name"), KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("text", PLACES.values(), ids=PLACES)
def test_the_process_is_what_it_is_for_the_script(
    text: str, made: str, act: str, read: str, name: str
) -> None:
    """A program has the numbers of the script, or a sentence says what it changes."""
    text = f"{IMPORTS}{made}\n{text.format(act=act, read=read)}"
    lines = text.splitlines()
    script = "\n".join([*lines[:-1], f"result = {lines[-1]}"])
    _forget()
    wanted = plain(script, name="result")
    _forget()
    found = captured_or_why(text)
    if isinstance(found, ImportFailure):
        said = str(found)
        assert said.startswith("<command>:")
        late = "a statement changes what the program before it may have used" in said
        assert late or f"the program changes what '{name}' is" in said or (
            f"the program changes '{name}" in said or f"the program {name} what 'torch'" in said
        )  # fmt: skip
        return
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found, wanted)


MADE = (
    "import itertools\nring = itertools.cycle([1., 2., 3.])\nclass Sum:\n"
    "    def __init__(self):\n        self.t, self.n = torch.zeros(4), 0\n"
    "    def add(self, x):\n        self.t = self.t + x\n        self.n += 1\n"
    "        return self.t\no = Sum()\ndef counter():\n    n = 0\n    def step():\n"
    "        nonlocal n\n        n += 1\n        return n\n    return step\n"
    "step = counter()\ndef scaled(x):\n    return x * next(ring)\nx = torch.randn(4)\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "print(next(ring), x.sum())\nr = x * next(ring)",
        "print(f'{o.add(x).sum():.3f}')\nr = x * o.n + o.t",
        "assert o.add(x).shape[0] == 4 and next(ring)\nr = o.t * next(ring)",
        "print(x.sum(), step())\nr = x * step()",
        "print([next(ring) for _ in range(2)], float(x[0]))\nr = x * next(ring)",
        "print(float(x.sum()), len(o.t), o.n)\nr = x * 2",
        "print(scaled(x).sum(), (lambda: next(ring)))\nr = x * next(ring)",
        "y = o.add(x)\nprint(f'{o.t.sum().item():.2f}', max(o.t.tolist()))\nr = y * 2",
    ],
)
def test_what_goes_on_in_printing_goes_on(text: str) -> None:
    """Printing and assertions are left out of a program, but not what they change."""
    assert_as_python(MADE + text)


def test_a_program_may_set_what_stays() -> None:
    text = (
        "def f(x):\n    torch.set_num_threads(1)\n    torch.set_grad_enabled(False)\n"
        "    return x * 2\nx = torch.randn(4)\nf(x) + 1"
    )
    assert import_program(*capture_text(text)).results


def test_the_state_of_the_process_is_set_back() -> None:
    text = (
        "import math, os, sys, torch, warnings\nmath.rv = 1\ntorch.rv, nn.Linear.rv = 2, 3\n"
        "warnings.filters\nsys.modules\ntorch.get_num_threads()\nown.n = 1\n"
        "torch.backends.cudnn.benchmark = True"
    )
    variables = {"torch": torch, "nn": nn, "math": math, "warnings": warnings}
    _forget()
    process = ProcessState(ast.parse(text))
    math.rv = 7  # pyright: ignore[reportAttributeAccessIssue]
    states = process.states(variables)
    assert [*process.held(variables)] == ["warnings.filters"]
    assert {"math.rv", "torch.rv", "nn.Linear.rv", "torch.get_num_threads()"} < states.keys()
    before = {name: state.now() for name, state in states.items()}
    benchmark = torch.backends.cudnn.benchmark
    torch.set_num_threads(2)
    torch.set_default_dtype(torch.float64)
    exec(text.replace("own.n = 1\n", ""), {"nn": nn})
    changed = {name for name, state in states.items() if state.now() != before[name]}
    assert changed >= {"math.rv", "torch.rv", "nn.Linear.rv", "torch.get_num_threads()"}
    for state in states.values():
        assert state.undo is not None
        state.undo()
    assert {name: state.now() for name, state in states.items()} == before
    assert not hasattr(torch, "rv")
    assert torch.backends.cudnn.benchmark is benchmark

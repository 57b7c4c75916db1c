"""Scripts whose program would change what is made before it, or keep what is computed there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from dlc.frontend.capture import capture_text
from dlc.frontend.fx import import_program
from dlc.frontend.script_state import ScriptState
from dlc.frontend.source import ImportFailure

USED = "x = torch.randn(4)\ny = f(x)\n"
MODULE = "x = torch.randn(4)\nm = nn.Linear(4, 4)\n"


@pytest.mark.parametrize(
    ("text", "line", "path"),
    [
        (f"n = 0\ndef f(x):\n    global n\n    n += 1\n    return x * n\n{USED}r = y * n", 4, "n"),
        (
            "def make():\n    n = 0\n    def f(x):\n        nonlocal n\n        n += 1\n"
            f"        return x * n\n    return f\nf = make()\n{USED}r = f(y)",
            5, "f.n",
        ),
        (f"l = []\ndef f(x):\n    l.append(x)\n    return x\n{USED}r = y * len(l)", 3, "l[0]"),
        (
            "class A:\n    t = 0\n    def f(self, x):\n        A.t = x\n        return x\n"
            f"f = A().f\n{USED}r = A.t * y",
            4, "A.t",
        ),
        (f"def f(x):\n    f.n += 1\n    return x * f.n\nf.n = 0\n{USED}r = y * f.n", 2, "f.n"),
    ],
)  # fmt: skip
def test_a_program_does_not_change_what_was_before_it(text: str, line: int, path: str) -> None:
    module, args = capture_text(text)
    with pytest.raises(ImportFailure) as error:
        import_program(module, args)
    assert str(error.value).startswith(f"<command>:{line}:")
    assert f"the program changes '{path}', which is made before it" in str(error.value)


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        (f"{MODULE}m.register_buffer('b', x)\nr = m(x)", 4, "Linear keeps 'x'"),
        (f"{MODULE}m.weight.data = x\nr = m(x)", 4, "Linear keeps 'x'"),
        (f"{MODULE}m.register_buffer('b', x * 2)\nr = m(x)", 3, "keeps what is computed here of"),
        (
            "class M(nn.Module):\n    def __init__(self, x):\n        super().__init__()\n"
            "        self.x = x * 2\nx = torch.randn(4)\nm = M(x)\nr = x * m.x",
            6,
            "keeps what is computed here of",
        ),
        ("w = torch.randn(4)\np = nn.Parameter(w)\nr = p * w", 3, "Parameter keeps 'w'"),
    ],
)
def test_a_module_does_not_keep_inputs(text: str, line: int, sentence: str) -> None:
    with pytest.raises(ImportFailure, match=f"^<command>:{line}:.*{sentence}"):
        capture_text(text)


def test_a_method_of_a_module_that_is_given_inputs_is_the_programs() -> None:
    text = (
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.register_buffer('b', torch.zeros(4))\n"
        "    def add(self, x):\n        self.b += x\n"
        "m = M()\nx = torch.randn(4)\nm.add(x)\nr = x * m.b"
    )
    module, (x,) = capture_text(text)
    kinds = [result.kind for result in import_program(module, (x,)).results]
    assert kinds == ["mutation", "output"]
    assert torch.equal(module(torch.ones(4)), torch.ones(4))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ("v['l'].append(1)", "v['l'][1]"), ("v['l'][0] = 2", "v['l'][0]"),
        ("v['a'].k = 2", "a.k"), ("v['a'].new = 2", "a.new"), ("del v['a'].k", "a.k"),
        ("v['m'].n = 3", "m.n"), ("v['s'].t = 3", "s.t"), ("v['x'] = 1", "x"),
        ("v['l'].append(v['l'].pop())", None), ("v['a'].cached", None), ("v['x'].add_(1)", None),
        ("v['m'].weight = nn.Parameter(torch.ones(2, 2))", None),
    ],
)  # fmt: skip
def test_a_state_is_what_variables_hold(change: str, path: str | None) -> None:
    made: dict[str, Any] = {"torch": torch, "nn": nn, "__name__": "__main__"}
    exec(
        "from functools import cached_property\n"
        "class A:\n    k = 0\n    def __init__(self):\n        self.k = 1\n"
        "    @cached_property\n    def cached(self):\n        return 3\n"
        "class S:\n    __slots__ = ('t',)\n"
        "class M(nn.Linear):\n    n = 0\n"
        "s = S()\ns.t = 1\nm = M(2, 2)\nm.n = 2\n"
        "v = {'a': A(), 'l': [1], 's': s, 'm': m, 'x': torch.ones(2)}",
        made,
    )
    variables = made["v"]
    state = ScriptState(variables)
    assert state.change() is None
    exec(change, made)
    found = state.change()
    assert found == (path.replace("v['l']", "l") if path else None)

"""Scripts whose program would change what is made before it, or keep what is computed there."""

from __future__ import annotations

import random
import re
import sys
import time
from array import array
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from script_texts import assert_as_python, assert_as_python_or_refused, plain
from torch import nn

from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts import script_turns
from dlc.frontend.scripts.capture import capture_script, capture_text
from dlc.frontend.scripts.mementos import Memento
from dlc.frontend.scripts.script_state import ScriptState, text_of
from dlc.frontend.source import ImportFailure
from dlc.judge.reference import evaluate

USED = "x = torch.randn(4)\ny = f(x)\n"
MODULE = "x = torch.randn(4)\nm = nn.Linear(4, 4)\n"


STEP = (
    "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.n = 0\n"
    "    def forward(self, x):\n        self.n += 1\n        return x * self.n\nf = M()\n"
)
COUNTED = {
    "a global": f"n = 0\ndef f(x):\n    global n\n    n += 1\n    return x * n\n{USED}r = y * n",
    "a cell": "def make():\n    n = 0\n    def f(x):\n        nonlocal n\n        n += 1\n"
    f"        return x * n\n    return f\nf = make()\n{USED}r = f(y)",
    "a cell of two": "def make():\n    n = 0\n    def f(x):\n        nonlocal n\n        n += 1\n"
    "        return x * n\n    def count():\n        return n\n    return f, count\n"
    f"f, count = make()\n{USED}r = f(y) * count()",
    "a list of two names": "l = m = []\ndef f(x):\n    l.append(x)\n    return x\n"
    f"{USED}r = y * len(m)",
    "of a class": "class A:\n    t = 0\n    def f(self, x):\n        A.t = x\n        return x\n"
    f"f = A().f\n{USED}r = A.t * y",
    "by a class method": "class A:\n    n = 0\n    @classmethod\n    def f(cls, x):\n"
    f"        cls.n += 1\n        return x * cls.n\nf = A.f\n{USED}r = f(y) * A.n",
    "of a function": f"def f(x):\n    f.n += 1\n    return x * f.n\nf.n = 0\n{USED}r = y * f.n",
    "by a decorator": "def counted(g):\n    def h(x):\n        h.n += 1\n        return g(x)\n"
    f"    h.n = 0\n    return h\n@counted\ndef f(x):\n    return x * 2\n{USED}r = f(y) * f.n",
    "of a module": f"{STEP}{USED}r = f(y) * f.n",
    "by a hook": "n = 0\ndef hook(m, i, o):\n    global n\n    n += 1\n    return o * n\n"
    f"f = nn.ReLU()\nf.register_forward_hook(hook)\n{USED}r = f(y) * n",
    "of an object that a hook has": "class C:\n    n = 0\nc = C()\ndef hook(m, i, o):\n"
    "    c.n += 1\n    return o * c.n\nf = nn.ReLU()\nf.register_forward_hook(hook)\n"
    f"{USED}r = f(y) * c.n",
    "of a class by its objects": "class L:\n    n = 0\n    def __init__(self, k):\n"
    "        self.k = k\n        L.n += 1\n    def __call__(self, x):\n"
    f"        return x * self.k + L.n\nf = L(2)\n{USED}g = L(3)\nr = g(f(y))",
    "a function bound anew": "def g(x):\n    return x + 1\ndef f(x):\n    return g(x) * 2\n"
    f"{USED}y = f(y)\ndef g(x):\n    return x - 1\nr = f(y)",
    "what a module keeps": "class M(nn.Module):\n    def __init__(self):\n"
    "        super().__init__()\n        self.l = []\n    def forward(self, x):\n"
    f"        self.l.append(x)\n        return x + sum(self.l)\nf = M()\n{USED}"
    "r = f(y) * len(f.l) + f.l[0]",
    "what modules of a class keep": "class M(nn.Module):\n    d = {'n': 0}\n"
    "    def forward(self, x):\n        self.d['n'] += 1\n        return x * self.d['n']\n"
    f"f, g = M(), M()\n{USED}r = g(f(y)) + M.d['n']",
    "nothing at first": "best = None\ndef f(x):\n    global best\n    if best is None:\n"
    f"        best = x\n    return best\n{USED}y = f(y)\nr = best * 2 + f(x)",
    "a closure's list": "def make():\n    l = []\n    return l.append, l.pop\n"
    "push, pop = make()\nx = torch.randn(4)\npush(x)\npush(x + 1)\nr = pop() * 2 + pop()",
    "a count of a count": "n = 0\ndef f(x):\n    global n\n    n += 1\n    return x * n\n"
    f"{USED}y = f(y)\nm = n\ny = f(y)\nif n > 1:\n    r = y * m\nelse:\n    r = y",
    "set back": "n = 0\ndef f(x):\n    global n\n    n += 1\n    return x * n\n"
    f"{USED}y = f(f(y))\nn = 0\nr = f(y) + n\ncalls = n\nprint(calls)",
    "a new value": f"k = 2\ndef f(x):\n    return x * k\n{USED}k = 5\nr = f(y)",
    "a variable of main": "def main():\n    global r\n    n, s = 0, torch.zeros(4)\n"
    "    def add(t):\n        nonlocal n, s\n        s = s + t\n        n += 1\n"
    "    x = torch.randn(4)\n    for k in range(3):\n        add(x * k)\n    r = s / n\nmain()",
    "a variable of a function of main": "s = 1\ndef main(k):\n    def f():\n        s = k\n"
    "        def g():\n            nonlocal s\n            s += 1\n            return s\n"
    "        return g() * s\n    return torch.randn(4) * f() * s\nr = main(2) + main(1)",
    "by functions in a loop": "s = torch.zeros(4)\nn = 0\ndef f(x):\n    global s, n\n"
    "    s = x if n == 0 else s + x\n    n += 1\n    return s\nx = torch.randn(4)\n"
    "for k in range(3):\n    y = f(x * k)\nr = y * n + s",
    "in a context": "from contextlib import contextmanager\nd = {'k': 1.}\n@contextmanager\n"
    "def scaled(k):\n    before = d['k']\n    d['k'] = k\n    try:\n        yield k + 1\n"
    "    finally:\n        d['k'] = before\ndef f(x):\n    return x * d['k']\n"
    "x = torch.randn(4)\nwith scaled(3.) as k:\n    with scaled(5.):\n        z = f(x)\n"
    "    y = f(z) * k\nwith scaled(2.):\n    before = f(y)\nr = f(before) + y",
    "the mode of a module in a context": "import contextlib\n@contextlib.contextmanager\n"
    "def evaluating(m):\n    was = m.training\n    m.eval()\n    yield m\n    m.train(was)\n"
    "m = nn.Sequential(nn.Linear(4, 4), nn.Dropout())\nx = torch.randn(2, 4)\n"
    "with evaluating(m) as e:\n    y = e(x)\nr = y * m.training * (2 if m.training else 3)",
    "a cache, and an object made on first use": "from functools import lru_cache\n@lru_cache\n"
    "def table(n):\n    return torch.arange(n).float()\nclass M(nn.Module):\n    one = None\n"
    "    def forward(self, x):\n        return x + table(x.shape[0])\ndef get():\n"
    "    M.one = M.one or M()\n    return M.one\nx = torch.randn(4)\nr = get()(get()(x))",
    "more in a list": f"l = [1., 2.]\ndef f(x):\n    return x * sum(l)\n{USED}l.append(3.)\n"
    "r = f(y)",
}


@pytest.mark.parametrize("text", COUNTED.values(), ids=COUNTED)
def test_a_program_has_the_state_that_python_has(text: str) -> None:
    """It begins each run with what there is before it, and is as it was behind it."""
    module, args = capture_text(text)
    wanted = plain(text)
    for _ in range(2):
        torch.testing.assert_close(module(*args), wanted)
    assert_as_python(text)


LOOPS = {
    "a function": ("n = 0\ndef f(x):\n    global n\n    n += 1\n    return x * n\n", "n < 3"),
    "a class": (
        "class C:\n    n = 0\n    @classmethod\n    def f(cls, x):\n        cls.n += 1\n"
        "        return x * cls.n\nf = C.f\n",
        "C.n < 3",
    ),
    "a closure": (
        "def make():\n    n = 0\n    def f(x):\n        nonlocal n\n        n += 1\n"
        "        return x * n\n    return f, lambda: n\nf, count = make()\n",
        "count() < 3",
    ),
    "an attribute": ("def f(x):\n    f.n += 1\n    return x * f.n\nf.n = 0\n", "f.n < 3"),
    "a module": (STEP, "f.n < 3"),
}


@pytest.mark.parametrize(("made", "test"), LOOPS.values(), ids=LOOPS)
def test_a_loop_ends_as_in_python_by_what_it_counts(made: str, test: str) -> None:
    assert_as_python(f"{made}x = torch.randn(4)\nwhile {test}:\n    x = f(x)\nr = x * 2")
    endless = f"import itertools\n{made}x = torch.randn(4)\nfor i in itertools.count():\n"
    assert_as_python(f"{endless}    x = f(x)\n    if not {test}:\n        break\nr = x * 2")


def test_a_loop_that_draws_ends_by_what_it_counts() -> None:
    made = (
        "n = 0\ndef f():\n    global n\n    n += 1\n    return torch.ones(3).bernoulli_(1.) * n\n"
    )
    text = f"{made}s = torch.zeros(3)\nwhile n < 3:\n    s = s + f()\nr = s * 2"
    module, args = capture_text(text)
    torch.testing.assert_close(module(*args), torch.full((3,), 12.0))


def test_a_loop_without_an_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_turns, "MANY", 200)
    text = "x = torch.randn(4)\nn = 0\nwhile n < 1:\n    x = x + 1\nr = x"
    with pytest.raises(ImportFailure, match=r"^<command>:3:\d+: .*turns in loops more than"):
        import_program(*capture_text(text))


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
    text = None if found is None else text_of(found)
    assert text == (path.replace("v['l']", "l") if path else None)


OWN = {
    "array": "b = np.ones(2, np.float32)\nx = torch.randn(4)\nfor i in range(3):\n"
    "    b[0] += 1\n    x = x + float(b[0])\nr = x * float(b.sum())",
    "array after": "b = np.ones(2)\nx = torch.randn(4)\ny = x * float(b[0])\nb[0] = 5\n"
    "r = y * float(b[0])",
    "array given": "b = np.ones(2)\ndef f(x, b):\n    b += 1\n    return x * float(b[0])\n"
    "x = torch.randn(4)\nr = f(f(x, b), b)",
    "bytes": "b = bytearray(b'ab')\nx = torch.randn(4)\nfor i in range(3):\n    b[0] += 1\n"
    "    x = x + b[0]\nr = x * b[0]",
    "numbers": "b = array('d', [1., 2.])\nx = torch.randn(4)\nfor i in range(3):\n    b[0] += 1\n"
    "    x = x + b[0]\nr = x * b[0]",
    "iterator": "b = iter([1., 2., 3., 4.])\nx = torch.randn(4)\nfor i in range(3):\n"
    "    x = x * next(b)\nr = x + next(b)",
    "begun": "b = iter([1., 2., 3., 4.])\nnext(b)\nx = torch.randn(4)\nfor n in b:\n"
    "    x = x * n\nr = x + len([*b])",
    "pairs": "b = enumerate(zip([1., 2.], [3., 4.]))\nx = torch.randn(4)\nfor i, (n, m) in b:\n"
    "    x = x * n + m - i\nr = x + len([*b])",
    "count": "b = itertools.count(1)\nx = torch.randn(4)\nfor i in range(2):\n    x = x * next(b)\n"
    "r = x + next(b)",
    "tensors": "w = [torch.randn(4), torch.randn(4)]\nb = map(torch.relu, w)\nx = torch.randn(4)\n"
    "y = x + next(b)\nfor t in b:\n    y = y * t\nr = y",
    "in a function": "b = iter([1., 2., 3.])\ndef f(x):\n    return x * next(b)\n"
    "x = torch.randn(4)\nr = f(f(x))",
    "generator": "b = random.Random(3)\nx = torch.randn(4)\nfor i in range(3):\n"
    "    x = x * b.random()\nr = x + b.random()",
    "numpy's generator": "b = np.random.default_rng(3)\nx = torch.randn(4)\nfor i in range(3):\n"
    "    x = x * b.random()\nr = x + b.random()",
    "bits of two": "g = np.random.PCG64(1)\nb = np.random.Generator(g)\n"
    "c = np.random.Generator(g)\nx = torch.randn(4)\nfor i in range(3):\n"
    "    x = x * b.random() + c.random()\nr = x + b.random()",
    "stream": "b = io.StringIO('1 1 2 3 5 8 13')\nx = torch.randn(4)\nfor i in range(3):\n"
    "    x = x * float(b.read(2))\nr = x + float(b.read(2))",
    "bytes read": "b = io.BytesIO(b'\\1\\2\\3')\nx = torch.randn(4)\nr = x\nfor i in range(3):\n"
    "    r = r * b.read(1)[0]",
    "bound": "b = iter([1., 2., 3., 4.]).__next__\nx = torch.randn(4)\nfor i in range(3):\n"
    "    x = x * b()\nr = x + b()",
    "view of a constant": "b = torch.zeros(3, 4)\nx = torch.randn(4)\nb[1].add_(x)\nr = b * 2",
}
IMPORTS = (
    "import csv, io, itertools, random, types, weakref\n"
    "from array import array\nimport numpy as np\n"
)


@pytest.mark.parametrize("text", OWN.values(), ids=OWN)
def test_what_has_a_hidden_state_is_a_variable_of_the_program(text: str) -> None:
    """It runs as the script does, of other numbers and again."""
    module, _ = capture_text(IMPORTS + text)
    _, args = capture_text(IMPORTS + text, seed=1)
    wanted = plain(IMPORTS + text, seed=1)
    for _ in range(2):
        assert torch.equal(module(*args), wanted)
    assert import_program(module, args).results


@pytest.mark.parametrize(
    ("text", "place", "sentence"),
    [
        ("b = (float(n) for n in range(9))\nx = torch.randn(4)\nfor i in range(2):\n"
         "    x = x * next(b)\nr = x", "6:1", "cannot be copied.* make a list of what it gives"),
        ("xs = (torch.randn(3) for i in range(3))\nr = sum(x * 2 for x in xs)", "5:8",
         "cannot be copied.* make a list of what it gives"),
        ("b = np.ones(4, np.float32)\nt = torch.from_numpy(b)\nx = torch.randn(4)\ny = x + t\n"
         "b[0] = 9\nr = y + t", "8:1", "'b', which shares memory with 't'"),
        ("x = torch.randn(4)\nfor i in range(2):\n    x = x * random.random()\nr = x", "6:13",
         "what 'random' draws next"),
        ("x = torch.randn(4)\nfor i in range(2):\n    x = x * float(np.random.rand())\nr = x",
         "6:19", "what 'numpy.random' draws next"),
        ("n = 1\nf = lambda x: x * n\ndef g():\n    global n\n    n = 7\nh = [g]\n"
         "x = torch.randn(4)\ny = f(x)\nh[0]()\nr = f(y)", "12:1", "a statement changes what"),
    ],
    ids=["generator", "of tensors", "shared", "random", "numpy.random", "assigned in a list"],
)  # fmt: skip
def test_a_hidden_state_that_a_program_cannot_have(text: str, place: str, sentence: str) -> None:
    with pytest.raises(ImportFailure, match=f"^<command>:{place}: .*{sentence}"):
        import_program(*capture_text(IMPORTS + text))


HIDDEN = {
    "lines of csv": ("b = csv.reader('1234')", "float(next(b)[0])", "which cannot be copied"),
    "an array, flat": ("b = np.arange(1., 9.).flat", "float(next(b))", "which cannot be copied"),
    "sent": ("b = (n for n in range(9)).send", "b(None)", "'b'"),
    "a dict's view": ("b = {'a': [0]}.values()\nf = lambda: [*b][0].append(1) or len([*b][0])",
                      "f()", "'b'"),
    "a proxy": ("b = types.MappingProxyType({'a': [0]})\n"
                "f = lambda: b['a'].append(1) or len(b['a'])", "f()", "'b'"),
    "a view of bytes": ("b = memoryview(bytearray(2))\ndef f():\n    b[0] += 1\n    return b[0]",
                        "f()", "'b.obj'"),
    "a weak reference": ("class A:\n    n = 0\nl = (A(),)\nb = weakref.ref(l[0])\ndef f():\n"
                         "    b().n += 1\n    return b().n", "f()", r"'l\[0\].n'"),
    "objects in an array": ("b = np.array([None])\nb[0] = [0]\n"
                            "f = lambda: b[0].append(1) or len(b[0])", "f()",
                            r"'b.flat\[0\]\[1\]'"),
    "order": ("b = dict(a=1, b=2)\nh = [b]\ndef f():\n    k = next(iter(b))\n    b[k] = b.pop(k)\n"
              "    return b[k]", "f()", "'b'"),
    "a field": ("import ctypes\nb = ctypes.c_int()\ndef f():\n    b.value += 1\n"
                "    return b.value", "f()", "'b'"),
}  # fmt: skip


@pytest.mark.parametrize(("made", "read", "what"), HIDDEN.values(), ids=HIDDEN)
def test_what_a_program_changes_is_seen_wherever_it_is(made: str, read: str, what: str) -> None:
    """In a loop and in a function, the first of which is tried before it is traced."""
    loop = f"x = torch.randn(4)\nr = x\nfor i in range(3):\n    r = r * {read}"
    function = f"def g(x):\n    return x * {read}\nx = torch.randn(4)\nr = g(x)"
    for text in (loop, function):
        assert_as_python_or_refused(f"{IMPORTS}{made}\n{text}", what)


BESIDE = """\
import torch
n, l = 0, [0]
def f():
    global n
    n += 1
    return n
def g():
    l[0] += 1
    return l[0]
class A:
    n = 0
    def f(self):
        A.n += 1
        return A.n
def h(x):
    return x * f()
"""


@pytest.mark.parametrize(
    ("what", "uses"),
    [
        ("import {m}", "r * {m}.f()"), ("from {m} import f", "r * f()"),
        ("from {m} import g", "r * g()"), ("from {m} import A", "r * A().f()"),
        ("from {m} import h", "h(r)"),
    ],
)  # fmt: skip
def test_a_module_beside_a_script_keeps_what_it_has(what: str, uses: str, tmp_path: Path) -> None:
    """A program that changes it finds it as it was, or what it has is computed once before it."""
    name = f"beside_{abs(hash(what))}"
    (tmp_path / f"{name}.py").write_text(BESIDE)
    script = tmp_path / "script.py"
    head, uses = f"import torch\n{what}\n".replace("{m}", name), uses.replace("{m}", name)
    script.write_text(
        f"{head}x = torch.randn(4)\nr = x\nfor i in range(3):\n    r = {uses}\nr = r + 1"
    )
    refused = r"^\S+script.py:\d+:\d+: error: the program changes "
    module, args = capture_script(script)
    for _ in range(2):
        torch.testing.assert_close(module(*args), args[0] * 6 + 1)
    assert import_program(module, args).results
    script.write_text(
        f"{head}for i in range(3):\n    r = torch.empty(4).fill_(1.)\n    r = {uses}\nr = r + 1"
    )
    sys.modules.pop(name)
    try:
        module, args = capture_script(script)
        import_program(module, args)
    except ImportFailure as error:
        found: str | torch.Tensor = str(error)
    else:
        found = module(*args)
    right = isinstance(found, torch.Tensor) and torch.equal(found, torch.full((4,), 4.0))
    assert right or re.match(refused, str(found))


def test_a_memento_of_hidden_states() -> None:
    class Private:
        __slots__ = ("__x",)

        def __init__(self) -> None:
            self.__x = 1

        def step(self) -> int:
            self.__x += 1
            return self.__x

    own, queue, numbers = Private(), deque([1, 2], maxlen=2), np.zeros(3)
    bytes_, floats = bytearray(b"ab"), array("d", [1.0])
    torchs, pythons, numpys = torch.Generator(), random.Random(1), np.random.default_rng(1)

    def draw() -> list[float]:
        drawn = [random.random(), np.random.rand(), pythons.random(), numpys.random()]
        return [*drawn, torch.rand((), generator=torchs).item(), torch.rand(()).item()]

    values = [own, queue, numbers, bytes_, floats, torchs, pythons, numpys]
    memento = Memento(values)
    drawn = draw()
    own.step()
    queue.append(3)
    numbers[0] = bytes_[0] = floats[0] = 7
    assert memento.restore()
    assert (own.step(), [*queue], numbers.sum(), bytes_, [*floats]) == (2, [1, 2], 0, b"ab", [1.0])
    assert draw() == drawn


def test_a_script_may_hold_many_numbers() -> None:
    before = time.process_time()
    module, args = capture_text("v = list(range(10**6))\nx = torch.randn(4)\nr = x * len(v)")
    import_program(module, args)
    assert time.process_time() - before < 20  # seconds: some hundreds where it is quadratic


@pytest.mark.parametrize("change", ["l[0].append(2)", "l[0][0] = 2", "t['a'][3] = 2", "t[1] = 2"])
def test_a_change_in_a_list_or_a_table_is_told_by_its_place(change: str) -> None:
    made: dict[str, Any] = {"l": [[1], 2], "t": {"a": {3: 1}}}
    state = ScriptState(made)
    exec(change, made)
    found = state.change()
    assert found is not None
    assert text_of(found) == {"l[0].append(2)": "l[0][1]"}.get(change, change.partition(" =")[0])


def test_a_program_may_log() -> None:
    text = (
        "import logging\nlog = logging.getLogger('a program')\n"
        "log.addHandler(logging.StreamHandler())\n"
        f"def f(x):\n    log.warning('x')\n    return x * 2\n{USED}r = y + 1"
    )
    module, args = capture_text(text)
    assert import_program(module, args).arguments


ONE = "torch.zeros(2).uniform_(1, 1)"
NUMBERS, DRAWS = "np.random.default_rng(0)", "import numpy as np\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"{DRAWS}rng = {NUMBERS}\ndef f():\n    n = rng.normal(size=2)\n"
            f"    return torch.tensor(n).float()\nw = {ONE}\nr = f() * w",
            np.random.default_rng(0).normal(size=2),
        ),
        (
            f"{DRAWS}class Data:\n    def __init__(self):\n        self.rng = {NUMBERS}\n"
            "    def f(self):\n        return torch.tensor(self.rng.normal(size=2)).float()\n"
            f"d = Data()\na = d.f()\nw = {ONE}\nr = d.f() * w",
            np.random.default_rng(0).normal(size=4)[2:],
        ),
        (
            "import random\nrandom.seed(0)\ndef f():\n    return torch.tensor([random.random()])\n"
            f"w = {ONE}\nr = f() * w",
            [random.Random(0).random()] * 2,
        ),
        (
            "it = iter([1., 2., 3.])\ndef f():\n    return torch.ones(2) * next(it) * "
            f"{ONE}\nr = f() * 2",
            [2, 2],
        ),
        (
            f"it = iter([1., 2., 3.])\ndef f(a):\n    return torch.ones(2) * a * {ONE}\n"
            "r = f(next(it)) * 2",
            [2, 2],
        ),
        (
            "class C:\n    n = 0\n    def next(self):\n        self.n += 1\n"
            f"        return torch.ones(2) * self.n\nc = C()\nw = {ONE}\n"
            "r = c.next() * w + 10 * c.next()",
            [21, 21],
        ),
        (
            f"it = iter([1., 2., 3.])\nt = [next(it) * {ONE} for _ in range(2)]\n"
            "r = t[0] + t[1] * 10 + next(it) * 100",
            [321, 321],
        ),
    ],
)
def test_what_goes_on_in_a_call_goes_on_once(text: str, expected: Any) -> None:
    module, args = capture_text(text)
    torch.testing.assert_close(module(*args), torch.tensor(np.array(expected)).float())
    program = import_program(module, args)
    (found,) = evaluate(program.module, program.bind(args))
    torch.testing.assert_close(found.float(), torch.tensor(np.array(expected)).float())


@pytest.mark.parametrize(
    "read",
    [
        "torch.tensor([float(line) for line in f])",
        "torch.tensor([float(word) for word in f.read().split()])",
        "torch.tensor([float(row[0]) for row in csv.reader(f)])",
    ],
)
def test_a_file_may_be_read_before_the_program(read: str, tmp_path: Path) -> None:
    file = tmp_path / "numbers.txt"
    file.write_text("1.0\n2.0\n3.0\n")
    module, args = capture_text(
        f"import csv\nf = open({str(file)!r})\nt = {read}\nf.close()\nx = torch.randn(3)\nr = x * t"
    )
    (x,) = args
    torch.testing.assert_close(module(x), x * torch.tensor([1.0, 2.0, 3.0]))


def test_a_tensor_that_calls_change_in_place_is_not_kept() -> None:
    text = (
        "class C:\n    def __init__(self):\n        self.t = torch.zeros(2)\n"
        "    def next(self):\n        self.t += 1\n        return self.t\n"
        "c = C()\nx = torch.randn(2)\nr = c.next() * x + c.next()"
    )
    with pytest.raises(ImportFailure, match=r"^<command>:9:5: .*return a copy"):
        capture_text(text)


def test_torch_compile_makes_one_graph_of_a_program() -> None:
    module, args = capture_text("torch.relu(torch.randn(4, 4)) + 1")
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    assert torch.equal(compiled(*args), module(*args))


def test_a_script_that_runs_again_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    write = f"with open({str(log)!r}, 'a') as file:\n    print('once', file=file)\n"
    capture_text(f"{write}{COUNTED['a global']}")
    assert log.read_text() == "once\n" * 2
    _, told = capfd.readouterr()
    assert re.search(r"^<command>:\d+:\d+: note: the script has run 2 times, .* each time\n", told)
    capture_text(f"{write}torch.randn(3) + 1")
    assert capfd.readouterr().err == ""

"""Objects of scripts that the program changes, or that hold random tensors."""

from __future__ import annotations

import copy

import pytest
import torch
from script_texts import plain

from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts.capture import capture_text
from dlc.frontend.source import ImportFailure

ADDING = (
    "class A:\n    def __init__(self):\n        self.t = torch.zeros(4)\n        self.n = 0\n"
    "    def add(self, x):\n        self.t = self.t + x\n        self.n += 1\n        return self\n"
)
GIVEN = (
    "class A:\n    def __init__(self, t):\n        self.t = t\n"
    "    def double(self):\n        return self.t * 2\n"
    "    def step(self):\n        self.t = self.t * 2 + 1\n"
)
X = "x = torch.randn(4)\n"
SCRIPTS = {
    "a method": f"{ADDING}a = A()\n{X}a.add(x)\nr = x * a.t * a.n",
    "twice": f"{ADDING}a = A()\n{X}a.add(x)\ny = a.t * 2\na.add(y)\nr = a.t * a.n",
    "in a row": f"{ADDING}a = A()\n{X}r = a.add(x).add(x * 2).t * a.n",
    "another name": f"{ADDING}a = A()\nb = a\n{X}a.add(x)\nr = x * b.t",
    "of another object": (
        f"{ADDING}class B:\n    def __init__(self):\n        self.a = A()\nb = B()\n"
        f"{X}b.a.add(x)\nr = x * b.a.t"
    ),
    "in a list": f"{ADDING}l = [A(), A()]\n{X}l[0].add(x)\nr = x * l[0].t + l[1].t",
    "a loop over objects": (
        f"{ADDING}l = [A(), A()]\n{X}for a in l:\n    a.add(x)\nr = l[0].t * l[1].n"
    ),
    "a bound method": f"{ADDING}a = A()\n{X}f = a.add\nf(x)\nf(x)\nr = a.t * a.n",
    "a bound method before": f"{ADDING}a = A()\nf = a.add\n{X}f(x)\nf(x)\nr = a.t * a.n",
    "a comprehension": f"{ADDING}a = A()\n{X}[a.add(x * i) for i in range(3)]\nr = a.t * a.n",
    "without a name": f"{ADDING}{X}r = A().add(x).t * x",
    "given to a function": (
        f"{ADDING}def f(a, x):\n    a.t = a.t - x\na = A()\n{X}f(a, x)\nr = x * a.t"
    ),
    "read by a function": (
        f"{ADDING}a = A()\ndef f(x):\n    return a.t + x\n{X}a.add(x)\nr = f(x) * 2"
    ),
    "changed by a function": (
        f"{ADDING}a = A()\ndef f(x):\n    a.add(x)\n    return a.n * x\n{X}y = f(x)\nr = f(y) * a.n"
    ),
    "in a function": f"{ADDING}def main():\n    a = A()\n    x = torch.randn(4)\n"
    "    a.add(x)\n    return a.t * a.n\nr = main()",
    "in place": (
        "class A:\n    def __init__(self):\n        self.t = torch.zeros(4)\n"
        f"    def add(self, x):\n        self.t += x\na = A()\n{X}a.add(x)\nr = x * a.t"
    ),
    "a tensor with a name": (
        "class A:\n    def __init__(self, t):\n        self.t = t\n"
        "    def add(self, x):\n        self.t.add_(x)\n"
        f"zero = torch.zeros(4)\na = A(zero)\n{X}a.add(x)\nr = x * a.t + zero"
    ),
    "slots": (
        "class A:\n    __slots__ = ('t',)\n    def __init__(self):\n"
        "        self.t = torch.zeros(4)\n"
        f"    def add(self, x):\n        self.t = self.t + x\na = A()\n{X}a.add(x)\nr = x * a.t"
    ),
    "a data class": (
        "from dataclasses import dataclass, field\n@dataclass\nclass A:\n    t: torch.Tensor\n"
        "    l: list = field(default_factory=list)\n"
        "    def add(self, x):\n        self.l.append(x)\n"
        f"a = A(torch.ones(4))\n{X}a.add(x)\na.add(x * 2)\nr = sum(a.l) + a.t"
    ),
    "called": (
        "class A:\n    def __init__(self):\n        self.n = 1\n    def __call__(self, x):\n"
        f"        self.n += 1\n        return x * self.n\na = A()\n{X}y = a(x)\nr = a(y) * a.n"
    ),
    "of the class": (
        "class A:\n    n = 0\n    def f(self, x):\n        self.n += 1\n        return x * self.n\n"
        f"a = A()\n{X}y = a.f(x)\nr = a.f(y) * a.n"
    ),
    "an attribute": f"class A:\n    pass\no = A()\n{X}o.y = x.exp()\nr = o.y * x",
    "a namespace": (
        "from types import SimpleNamespace\ns = SimpleNamespace(t=torch.zeros(4), k=1)\n"
        f"{X}s.t = s.t + x\ns.k += 1\nr = x * s.t * s.k"
    ),
    "setattr": f"{GIVEN}a = A(3)\n{X}setattr(a, 't', x * 2)\nr = a.t * x",
    "a queue": f"from collections import deque\nd = deque(maxlen=2)\n{X}d.append(x)\n"
    "d.append(x * 2)\nd.append(x * 3)\nr = sum(d)",
    "a list in a list": f"l = [[1], [2]]\n{X}l[0].append(x)\nr = l[0][1] * len(l[0])",
    "made of random numbers": f"{GIVEN}a = A(torch.randn(4))\nr = a.double() + 1",
    "made of an input": f"{GIVEN}{X}a = A(x)\nr = a.double() + x",
    "made of an input, and changed": f"{GIVEN}{X}a = A(x)\na.step()\nr = a.t + x",
    "made of computed numbers": f"{GIVEN}{X}a = A(x * 2)\na.step()\nr = a.t + x",
    "steps": f"{GIVEN}a = A(torch.randn(4))\nfor i in range(3):\n    a.step()\nr = a.t",
    "a list of inputs": f"{GIVEN}l = [torch.randn(4), torch.randn(4)]\ny = sum(l)\na = A(l)\n"
    "r = a.t[0] - y",
    "computes when it is made": (
        "class A:\n    def __init__(self, t):\n        self.t = t * 2\n"
        f"{X}a = A(x)\nr = a.t + x"
    ),
    "a constant of another object": (
        f"{GIVEN}{X}a, b = A(torch.ones(4)), A(x)\nb.step()\ny = a.double()\nz = A(y).double()\n"
        "r = b.t * y + z + a.t"
    ),
    "a module in it": (
        "class A:\n    def __init__(self, m):\n        self.m, self.n = m, 0\n"
        "    def f(self, x):\n        self.n += 1\n        return self.m(x) * self.n\n"
        f"m = nn.Identity()\na = A(m)\n{X}y = a.f(x)\nr = a.f(y)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=list(SCRIPTS))
def test_objects_are_as_the_program_leaves_them(
    text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (module, args), (_, others) = (capture_text(text, seed=seed) for seed in (0, 1))
    import_program(module, args)
    assert capfd.readouterr().err == ""
    for seed, given in (0, args), (1, others), (0, args):
        wanted = plain(text, seed)
        torch.testing.assert_close(module(*copy.deepcopy(given)), wanted, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        (
            f"{ADDING}a = A()\nclass B:\n    def f(self):\n        return a.t\n{X}a.add(x)\n"
            "r = B().f() * x",
            14, "'a', at which a method looks; give it as an argument",
        ),
        (
            f"{GIVEN}a = A((i for i in 'ab'))\n{X}a.t = x * 2\nr = a.t * x",
            10, "which cannot be copied",
        ),
        (
            f"{GIVEN}c = torch.ones(2, 4)\na = A(c[0])\n{X}y = a.double() * x\na.t += x\nr = c * y",
            11, "'a', which shares memory with 'c'; make that a copy",
        ),
    ],
)  # fmt: skip
def test_objects_that_cannot_be_the_programs_are_told(text: str, line: int, sentence: str) -> None:
    with pytest.raises(ImportFailure) as error:
        capture_text(text)
    assert str(error.value).startswith(f"<command>:{line}:")
    assert sentence in str(error.value)


SHARED = {
    "views of one": """
class Cache:
    def __init__(s):
        s.kv = torch.zeros(2, 4, 3)
        s.k, s.v = s.kv
    def put(s, k, v):
        s.k[0] = k
        s.v[0] = v
        return s.kv[:, :1]
c = Cache()
c.put(x, x)
y = c.put(x, x) * 1
""",
    "an alias": """
a = A()
a.w = torch.ones(3)
a.alias = a.w.view(3)
a.w.mul_(x)
y = a.alias + 1
""",
    "another object": """
base, a = A(), A()
base.t = torch.zeros(2, 3)
a.t = base.t[0]
a.t.add_(x)
y = a.t + base.t.sum(0)
""",
    "a closure": """
def made(t):
    return lambda x: x + t
a = A()
a.t = torch.zeros(3)
f = made(a.t)
a.t.add_(x)
y = f(x)
""",
    "a default": """
a = A()
a.t = torch.zeros(2, 3)
def f(x, t=a.t[0]):
    return x + t
a.t.add_(x)
y = f(x)
""",
    "a module": """
a = A()
a.m = torch.nn.BatchNorm1d(3).eval()
a.t = a.m.running_mean[:2]
a.t.add_(x[:2])
y = a.m(x[None])
""",
    "an array": """
import numpy
n = numpy.zeros((2, 3), dtype=numpy.float32)
a = A()
a.t = torch.from_numpy(n)[0]
a.t.add_(x)
y = a.t + torch.from_numpy(n).sum(0)
""",
}


@pytest.mark.parametrize("text", SHARED.values(), ids=SHARED)
def test_copies_that_would_not_share_memory_are_refused(text: str) -> None:
    begin = "import torch\nclass A:\n    pass\nx = torch.randn(3)\n"
    with pytest.raises(ImportFailure, match=r"share[s]? memory|at which a function"):
        capture_text(begin + text)

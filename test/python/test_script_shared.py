"""Containers and counts that hooks and functions of a script change where its program runs."""

from __future__ import annotations

import pytest
import torch
from script_texts import USED, assert_as_python_or_refused, captured, plain

X = "x = torch.randn(2, 4)\n"
NET = "net = nn.Linear(4, 4)\n"
LIST = f"acts = []\n{NET}net.register_forward_hook(lambda m, i, o: acts.append(o))\n"
TABLE = (
    f"acts = {{}}\ndef hook(m, i, o):\n    acts['l'] = o.detach()\n{NET}"
    "h = net.register_forward_hook(hook)\n"
)
KEPT = {
    "a list": f"{LIST}{X}y = net(x)\nr = y + acts[0]",
    "a table": f"{TABLE}{X}y = net(x)\nr = acts['l'] * 2",
    "of a call alone": f"{LIST}{X}net(x)\nr = acts[0] * 2",
    "in the same statement": f"{LIST}{X}r = net(x) * len(acts)",
    "before it is called": f"{LIST}{X}r = (1 + len(acts)) * net(x)",
    "of two calls": f"{LIST}{X}y = net(net(x))\nr = (acts[0] + acts[1]) * len(acts)",
    "of a loop": f"{LIST}{X}for i in range(3):\n    x = net(x)\nr = sum(acts) * len(acts)",
    "cleared": f"{LIST}{X}y = net(x)\nacts.clear()\nz = net(y)\nr = acts[0] * len(acts)",
    "of a call before": f"{LIST}net(torch.ones(2, 4))\n{X}y = net(x)\nr = acts[0] + acts[1]",
    "of a main": f"{LIST}def main():\n    x = torch.randn(2, 4)\n    return net(x)\ny = main()\n"
    "r = y * len(acts)",
    "hooks by name": "acts = {}\ndef get(name):\n    def hook(m, i, o):\n        acts[name] = o\n"
    "    return hook\nnet = nn.Sequential(nn.Linear(4, 4), nn.ReLU())\n"
    "for n, m in net.named_children():\n    m.register_forward_hook(get(n))\n"
    f"{X}y = net(x)\nr = acts['0'] + acts['1']",
    "a queue": "from collections import deque\nacts = deque(maxlen=1)\n"
    f"{NET}net.register_forward_hook(lambda m, i, o: acts.append(o))\n{X}y = net(net(x))\n"
    "r = acts[0] * len(acts)",
    "inputs": f"acts = []\n{NET}net.register_forward_pre_hook(lambda m, i: acts.append(i[0]))\n"
    f"{X}y = net(x * 2)\nr = acts[0] + y",
    "of a function": "l = []\ndef f(t):\n    l.append(t.sum())\n    return t * 2\n"
    f"{USED}for i in range(3):\n    y = f(y)\nr = torch.stack(l)",
    "in a table's list": "d = {'l': []}\ndef f(t):\n    d['l'].append(t)\n    return t * 2\n"
    f"{USED}z = f(f(y))\nr = d['l'][1] * len(d['l'])",
    "a cache": "cache = {}\nclass M(nn.Module):\n    def forward(self, t):\n"
    "        k = t.shape[-1]\n        if k not in cache:\n"
    "            cache[k] = torch.arange(k, dtype=t.dtype)\n        return t * cache[k]\n"
    f"m = M()\n{USED}r = m(m(y))",
    "removed at the end": f"{TABLE}{X}y = net(x)\nh.remove()\nr = acts['l'] * 2",
    "all removed": f"{TABLE}hs = [h]\n{X}y = net(x)\nfor h in hs:\n    h.remove()\n"
    "r = acts['l'] * 2",
    "counted": f"n = 0\ndef f(t):\n    global n\n    n += 1\n    return t * 2\n{USED}r = f(y)\n"
    "print(n)",
    "counted in a forward": "n = 0\nclass M(nn.Module):\n    def forward(self, t):\n"
    f"        global n\n        n += 1\n        return t * 2\nm = M()\n{USED}r = m(m(y))\nprint(n)",
    "counted in a closure": "def make():\n    n = 0\n    def f(t):\n        nonlocal n\n"
    f"        n += 1\n        return t * 2\n    return f\nf = make()\n{USED}r = f(f(y))",
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_is_kept_where_the_program_runs_is_there(text: str) -> None:
    torch.testing.assert_close(captured(text), plain(text))


READ = f"{X}y = net(x)\nr = y * (1 + {{}})"
COUNT = "n = 0\ndef f(t):\n    global n\n    n += 1\n    return t * 2\n"
OTHERWISE = {
    "by another name": f"{LIST}b = acts\n{READ.format('len(b)')}",
    "in an object": f"{LIST}class O: pass\no = O()\no.l = acts\n{READ.format('len(o.l)')}",
    "by an iterator": f"acts = [1]\n{NET}"
    "net.register_forward_hook(lambda m, i, o: acts.append(2))\n"
    f"it = iter(acts)\n{READ.format('sum(it)')}",
    "by a function": f"{LIST}def n():\n    return len(acts)\n{READ.format('n()')}",
    "by a method": f"{LIST}class O:\n    def n(self):\n        return len(acts)\no = O()\n"
    f"{READ.format('o.n()')}",
    "by a default": f"{LIST}def n(a=acts):\n    return len(a)\n{READ.format('n()')}",
    "bound": f"{LIST}n = acts.__len__\n{READ.format('n()')}",
    "counted before": "l = []\ndef n():\n    l.append(1)\n    return len(l)\ndef f(t):\n    n()\n"
    f"    return t * 2\n{USED}y = f(y)\nr = y * n()",
    "bound again": f"{LIST}{X}y = net(x)\nacts = []\nr = net(y) * (1 + len(acts))",
    "hooks removed": f"{NET}h = net.register_forward_hook(lambda m, i, o: o * 2)\n{X}y = net(x)\n"
    "h.remove()\nr = net(y)",
    "a count": f"{COUNT}{USED}r = f(y) * n",
    "by all names": f"{COUNT}{USED}y = f(y)\nr = y * globals().get('n', 5)",
    "by a function's names": f"{COUNT}{USED}y = f(y)\nr = y * f.__globals__.get('n', 5)",
    "by a text": f"{COUNT}{USED}y = f(y)\ntry:\n    k = eval('n')\nexcept NameError:\n    k = 9\n"
    "r = y * k",
    "by its absence": f"{LIST}{X}y = net(x)\nr = y * (1 + len(globals().get('acts', [5])))",
    "a cell": "def make():\n    n = 0\n    def f(t):\n        nonlocal n\n        n += 1\n"
    f"        return t * 2\n    return f\nf = make()\n{USED}y = f(y)\n"
    "r = y * f.__closure__[0].cell_contents",
    "a closure's": "def make():\n    n = 0\n    def f(t):\n        nonlocal n\n        n += 1\n"
    f"        return t * n\n    return f\nf = make()\n{USED}r = f(f(y))",
}


@pytest.mark.parametrize("text", OTHERWISE.values(), ids=OTHERWISE)
def test_what_is_kept_and_read_in_other_ways(text: str) -> None:
    assert_as_python_or_refused(text)

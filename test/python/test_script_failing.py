"""Scripts that catch what an operation of theirs raises, and switch modules between uses."""

from __future__ import annotations

import pytest
from script_texts import assert_as_python

X = "x = torch.randn(4, 4)\n"
FAILING = {
    "a product": f"{X}try:\n    y = x @ torch.ones(3, 3)\nexcept RuntimeError:\n    y = x * 2\n"
    "r = y + 1",
    "a view, and all branches": f"{X}try:\n    y = x.view(3, 5)\nexcept RuntimeError as e:\n"
    "    print(e)\n    y = x * 2\nelse:\n    y = x * 5\nfinally:\n    y = y + 1\nr = y + 1",
    "in place": f"{X}y = x + 1\ntry:\n    y.add_(torch.ones(3))\nexcept RuntimeError:\n"
    "    y = y * 2\nr = y + 1",
    "in a function": "def f(t, k):\n    try:\n        return t.reshape(k, -1)\n"
    f"    except RuntimeError:\n        return t\n{X}r = f(x, 3) + 1",
    "in a loop": "def f(t):\n    for k in range(5):\n        try:\n"
    "            return t.reshape(3, k + 1)\n        except RuntimeError:\n            continue\n"
    "x = torch.randn(9)\nr = f(x) * 2",
    "of a module": "m = nn.Linear(3, 3)\n"
    f"{X}try:\n    y = m(x)\nexcept RuntimeError:\n    y = m(x[:, :3])\nr = y + 1",
    "deep in a module": "m = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh(), nn.Linear(3, 2)))\n"
    "def f(t):\n    try:\n        return m(t)\n    except RuntimeError:\n"
    f"        return m(t[:, :3])\n{X}r = f(x) + 1",
    "its own": "def f(t):\n    if t.shape[0] > 3:\n        raise ValueError('large')\n"
    f"    return t * 2\n{X}try:\n    y = f(x)\nexcept ValueError:\n    y = f(x[:2])\nr = y + 1",
}


@pytest.mark.parametrize("text", FAILING.values(), ids=FAILING)
def test_what_an_operation_raises_is_caught_as_in_python(text: str) -> None:
    assert_as_python(text)


NET = (
    "net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.))\n"
    "x = torch.randn(3, 4)\n"
)
SWITCHED = {
    "eval": f"{NET}y = net(x)\nnet.eval()\nr = net(y)",
    "train and eval": f"{NET}net.eval()\ny = net(x)\nnet.train()\ny = net(y)\nnet.eval()\n"
    "r = net(y)",
    "in a function": "def f(net, x):\n    net.eval()\n    with torch.no_grad():\n"
    f"        y = net(x)\n    net.train()\n    return y\n{NET}y = net(x)\nr = f(net, y) + net(y)",
    "in a main": "def main():\n    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))\n"
    "    x = torch.randn(3, 4)\n    y = net(x)\n    net.eval()\n    return net(y)\nr = main()",
    "of a list": f"{NET}nets = [net]\ny = net(x)\nfor n in nets:\n    n.eval()\nr = net(y)",
    "by a context": "from contextlib import contextmanager\n@contextmanager\ndef evaluating(net):\n"
    "    was = net.training\n    net.eval()\n    try:\n        yield net\n    finally:\n"
    f"        net.train(was)\n{NET}y = net(x)\nwith evaluating(net):\n    z = net(y)\n"
    "r = z + net(y)",
    "a part": f"{NET}y = net(x)\nnet[1].eval()\nr = net(y)",
    "a setting": f"{NET}y = net(x)\nnet[1].momentum = 0.5\ny = net(y)\nnet.eval()\nr = net(y)",
    "a method of its own": "class M(nn.Module):\n    def __init__(self):\n"
    "        super().__init__()\n        self.k = 1\n    def scale(self, k):\n        self.k = k\n"
    f"    def forward(self, t):\n        return t * self.k\nm = M()\n{X}y = m(x)\nm.scale(3)\n"
    "r = m(y)",
    "gradients": f"{NET}y = net(x)\nfor p in net.parameters():\n    p.requires_grad_(False)\n"
    "r = net(y)",
    "other weights": f"{NET}other = nn.Linear(4, 4)\ny = net(x)\n"
    "net[0].load_state_dict(other.state_dict())\nr = net(y)",
    "a hook": f"l = []\n{NET}y = net(x)\n"
    "h = net.register_forward_hook(lambda m, i, o: l.append(o))\nz = net(y)\nh.remove()\n"
    "r = net(z) * len(l) + l[0]",
    "no hook": f"{NET}h = net.register_forward_hook(lambda m, i, o: o * 2)\ny = net(x)\n"
    "h.remove()\nr = net(y)",
}


@pytest.mark.parametrize("text", SWITCHED.values(), ids=SWITCHED)
def test_modules_are_switched_where_the_text_does(text: str) -> None:
    assert_as_python(text)

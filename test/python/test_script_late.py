"""Scripts in which something must not run, must run once, or must not change any more."""

from __future__ import annotations

import pytest
import torch
from script_texts import (
    assert_as_python,
    assert_as_python_or_refused,
    captured,
    plain,
)

CHOICES = {
    "a choice": "v = next(it) if 0 else 0",
    "and": "v = 0 and next(it)",
    "or": "v = 1 or next(it)",
    "a choice that is printed": "print(x.sum(), next(it) if 0 else 0)",
    "and that is printed": "print(x.sum(), 0 and next(it))",
    "a message": "assert x.sum() < 100, next(it)",
    "or in an assertion": "assert x.shape[0] == 4 or next(it)",
    "an iterator that is printed": "print(x.sum(), it)",
    "a change that is printed": "y = x + 1\nprint(y.mul_(2).sum())\nx = y",
    "a change that is asserted": "y = x + 1\nassert y.clamp_(min=0).min() >= 0\nx = y",
    "a function that changes": "def f(t):\n    t += 1\n    return t\ny = x + 1\nprint(f(y))\nx = y",
    "a list": "l = [1., 2., 3.]\nprint(l.pop(), x.sum())\nx = x * l[-1]",
    "a generator in a tuple": "n = 2\ng = (n * i for i in [1, 2])\nn, v = 5, next(g)\nx = x * v",
    "a variable in a tuple": "n = 2\nn, v = 5, globals()['n']\nx = x * v",
    "statistics": "b = torch.nn.BatchNorm1d(2)\ny = x.view(2, 2)\nprint(b(y).sum())\n"
    "x = b(y) * b.running_mean",
}


@pytest.mark.parametrize("text", CHOICES.values(), ids=list(CHOICES))
def test_what_is_not_chosen_does_not_run_and_what_is_left_out_does(text: str) -> None:
    start = "x = torch.randn(4)\nit = iter([1., 2., 3.])\n"
    assert_as_python(f"{start}{text}\nr = x * next(it)")


STEPS = (
    "        self.register_buffer('step', torch.zeros(4))\n    def forward(self, x):\n        {}\n"
)


@pytest.mark.parametrize(
    "act", ["self.step += 1", "self.step.add_(1)", "self.step = self.step + 1"]
)
@pytest.mark.parametrize("use", ["r = m(x)\nprint(r)", "r = x\nfor _ in range(3):\n    r = m(r)"])
def test_buffers_are_as_they_were_before_the_first_run(act: str, use: str) -> None:
    made = "class M(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    made += STEPS.format(act) + "        return x * self.step\n"
    assert_as_python(f"{made}m = M()\nx = torch.randn(4)\n{use}")


LATE = {
    "a weight": "with torch.no_grad(): m.weight += 1",
    "data": "m.weight.data *= 2",
    "a row": "m.weight.data[0] += 1",
    "an attribute": "m.in_features += 1",
    "by name": "setattr(m, 'in_features', 7)",
    "a comprehension": "[p.data.mul_(.5) for p in m.parameters()]",
    "out": "z = torch.mul(c, 2, out=c)",
    "a method": "f = c.add_\nf(1)",
    "a map": "list(map(torch.Tensor.neg_, [c]))",
    "numpy": "c.numpy()[0] += 1",
    "an optimizer": "m.bias.grad = torch.ones(4)\no.step()",
}


@pytest.mark.parametrize("act", LATE.values(), ids=list(LATE))
def test_what_the_program_holds_may_change_after_it_began(act: str) -> None:
    made = (
        "m = torch.nn.Linear(4, 4)\no = torch.optim.SGD(m.parameters(), lr=.1)\nc = torch.ones(4)\n"
    )
    text = f"{made}x = torch.randn(4)\ny = m(x) * c\n{act}\nr = y + m(x) * c"
    assert_as_python_or_refused(text)


ASKED = {
    "printed": "for n, p in net.named_parameters():\n    print(n, p.shape)\nr = y * 2",
    "counted": "n = 0\nfor p in net.parameters():\n    n += p.numel()\nr = y * n",
    "a table": "for k, v in net.state_dict().items():\n    print(k, v.shape)\nr = y * 2",
    "a choice": "n = 1\nif any(p.requires_grad for p in net.parameters()):\n    n = 3\nr = y * n",
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_a_module_may_be_asked_behind_its_use(asked: str) -> None:
    text = f"net = nn.Linear(4, 4)\nx = torch.randn(2, 4)\ny = net(x)\n{asked}"
    torch.testing.assert_close(captured(text), plain(text))


CHANGED = {
    "filled": "for p in net.parameters():\n    p.data.fill_(1)",
    "bound": "for m in net.modules():\n    m.bias = None",
    "hooked": "for m in net.modules():\n    m.register_forward_hook(lambda m, i, o: o * 2)",
    "frozen": "for p in net.parameters():\n    p.requires_grad = False",
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_a_module_may_change_behind_its_use(change: str) -> None:
    text = f"net = nn.Linear(4, 4)\nx = torch.randn(2, 4)\ny = net(x)\n{change}\nr = y + net(x)"
    assert_as_python_or_refused(text)

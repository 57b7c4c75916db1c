"""Sizes that a script's own text reads of inputs whose sizes may change (`--dynamic`)."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from dlc.frontend.export.exported_call import export_call
from dlc.frontend.scripts.capture import capture_text
from dlc.frontend.source import ImportFailure

X = "x = torch.randn(64, 16)\n"
TAKEN = {
    "read": "r = x.sum(0) / x.shape[0]",
    "a variable": "n = x.shape[0]\nr = x.sum(0) / n",
    "unpacked": "n, d = x.shape\nw = torch.ones(d)\nr = w * x.sum(0) / n",
    "of a view": "r = x.t().sum(1) / x.t().shape[1]",
    "made a tensor": "w = torch.full((16,), x.shape[0] * 1.)\nr = x.sum(0) / w",
    "in a list": "l = [x.shape[0]]\nr = x.sum(0) / l[0]",
    "an argument": "def f(x, n):\n    return x.sum(0) / n\nr = f(x, x.shape[0])",
    "named": "r = x.sum(0) / (n := x.shape[0])",
    "another number": "n = x.shape[0]\nn = 64\nr = x.sum(0) / 1 * n",
    "in a context": "with torch.no_grad():\n    n = x.shape[0]\n    r = x.sum(0) / n",
}
REFUSED = {
    "changed": "n = x.shape[0]\nn *= 2\nr = x.sum(0) / n",
    "counted": "n, k = x.shape[0], 0\nfor i in range(n):\n    k += 1\nr = x.sum(0) / k",
    "of a function": "n = x.shape[0]\ndef f(t):\n    return t.sum(0) / n\nr = f(x)",
    "of a lambda": "n = x.shape[0]\nf = lambda t: t.sum(0) / n\nr = f(x)",
    "of a comprehension": "n = x.shape[0]\nr = sum([x.sum(0) / n for _ in range(2)])",
    "a default": "def f(t, n=x.shape[0]):\n    return t.sum(0) / n\nr = f(x)",
    "in a table": "d = {}\nd['n'] = x.shape[0]\nr = x.sum(0) / d['n']",
    "an attribute": "class C:\n    pass\nc = C()\nc.n = x.shape[0]\nr = x.sum(0) / c.n",
    "a global": "n = 1\ndef f(k):\n    global n\n    n = k\nf(x.shape[0])\nr = x.sum(0) / n",
    "of a module": "m = nn.Dropout(1 / x.shape[0])\nr = m(x)",
}


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN)
def test_a_size_that_a_text_reads_is_the_programs(text: str) -> None:
    module, args = capture_text(X + text, sizes={"x": {0: 1}})
    call = export_call(module, args, dynamic_shapes={"x": {0: Dim("s")}})
    x = torch.randn(5, 16)
    wanted = x.sum(0) * 64 if "n = 64" in text else x.mean(0)
    torch.testing.assert_close(call.exported.module()(x), wanted)


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_keeps_the_number_of_a_size_is_refused(text: str) -> None:
    with pytest.raises(ImportFailure, match=r"^<command>:\d+:\d+: .*of a size that may change"):
        capture_text(X + text, sizes={"x": {0: 1}})
    capture_text(X + text)


def test_a_size_that_stays_is_a_number() -> None:
    text = f"{X}m = nn.Linear(x.shape[-1], 4)\nr = m(x) / x.shape[0]"
    module, args = capture_text(text, sizes={"x": {0: 1}})
    call = export_call(module, args, dynamic_shapes={"x": {0: Dim("s")}})
    x = torch.randn(5, 16)
    torch.testing.assert_close(call.exported.module()(x), module(x))

"""Scripts that compute where they make tensors: in loops, comprehensions, generators; their end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from script_texts import captured, plain
from torch import nn

from dlc.cli.dlc_cli import main
from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts.capture import capture_text
from dlc.frontend.scripts.mementos import Memento
from dlc.frontend.source import ImportFailure

LINEAR = "m = nn.Linear(4, 4)\n"
MADE = "def made():\n    for i in range(3):\n        yield torch.randn(3)\n"
DRAWING = {
    "a loop": f"{LINEAR}for i in range(3):\n    x = torch.randn(2, 4)\n    r = m(x)",
    "a loop, and what follows": (
        f"{LINEAR}ys = []\nfor i in range(3):\n    x = torch.randn(2, 4)\n    ys.append(m(x))\n"
        "r = torch.cat(ys)"
    ),
    "a loop that counts": (
        f"{LINEAR}i = 0\nwhile i < 3:\n    r = m(torch.randn(2, 4))\n    i += 1"
    ),
    "a loop that changes": (
        "k, l, s = torch.ones(4), [], {1}\nfor i in range(3):\n    k += i\n    l.append(i)\n"
        "    s.add(i)\n    r = torch.randn(4) * k * len(l) * sum(s)"
    ),
    "a loop that changes what is inside": (
        "a = [[], torch.ones(3)]\nfor i in 1, 2:\n    a[0].append(i)\n    a[1] = a[1] + i\n"
        "    r = torch.randn(3) * len(a[0]) * a[1]"
    ),
    "a loop that changes an object": (
        "class A:\n    n = 0\n    def add(self, x):\n        self.n += 1\n        self.t = x * 2\n"
        "a = A()\nfor i in 1, 2:\n    a.add(torch.randn(3))\nr = a.t * a.n"
    ),
    "statistics of a module": (
        "n = nn.BatchNorm1d(4)\nfor i in range(2):\n    r = n(torch.randn(3, 4))"
    ),
    "a try": (
        "try:\n    x = torch.randn(4)\n    y = x * 2\nexcept ValueError:\n    pass\nr = y + 1"
    ),
    "a match": "k = 2\nmatch k:\n    case 2:\n        r = torch.randn(4) * 2",
    "a comprehension": f"{LINEAR}r = torch.cat([m(torch.randn(2, 4)) for _ in range(3)])",
    "a comprehension with a name": (
        f"{LINEAR}ys = [m(torch.randn(2, 4)) for _ in range(3)]\nr = torch.cat(ys)"
    ),
    "a table": "r = {k: torch.randn(3) * 2 for k in 'ab'}['a']",
    "a lambda": "f = lambda: torch.randn(4) * 2\nr = f() + 1",
    "a generator": f"{MADE}r = sum(t * 2 for t in made())",
    "a loop over a generator": f"{MADE}r = torch.zeros(3)\nfor t in made():\n    r = r + t",
    "a generator without a name": "r = sum(torch.randn(3) * i for i in range(3))",
    "a loop in a function": (
        f"{LINEAR}def main():\n    for i in range(2):\n        y = m(torch.randn(2, 4))\n"
        "    return y\nr = main()"
    ),
}


@pytest.mark.parametrize("text", DRAWING.values(), ids=list(DRAWING))
def test_what_computes_where_it_draws_is_the_program(text: str) -> None:
    module, args = capture_text(text)
    found = module(*args)
    assert args == ()
    assert torch.equal(found, plain(text))
    assert [a.kind for a in import_program(module, args).arguments][-1] == "random"


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("xs = []\nfor i in range(2):\n    xs.append(torch.randn(4))\ntorch.stack(xs)", 1),
        ("r = torch.zeros(3)\nr += torch.randn(3)", 1),
        (f"{MADE}a, b, c = made()\na * b + c", 3),
        ("try:\n    x = torch.randn(4)\nexcept ValueError:\n    pass\nx * 2", 1),
        ("for p in [torch.empty(4)]:\n    nn.init.trunc_normal_(p)\np * 2", 1),
    ],
)  # fmt: skip
def test_what_is_made_and_not_computed_is_an_input(text: str, inputs: int) -> None:
    _, args = capture_text(text)
    assert len(args) == inputs


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("class A:\n    def f(self):\n        return torch.randn(4) * 2\na = A()\nr = a.f()", 5),
        ("class A:\n    n = 0\nfor i in 1, 2:\n    A.n += 1\n    r = torch.randn(3) * A.n", 3),
        ("it = iter(range(9))\nfor i in it:\n    r = torch.randn(3) * i", 2),
    ],
)
def test_what_cannot_run_twice_is_told(text: str, line: int) -> None:
    with pytest.raises(ImportFailure, match=f"<command>:{line}:.*what is computed here of tensors"):
        capture_text(text)


def test_what_is_computed_before_the_program_is_noted(capfd: pytest.CaptureFixture[str]) -> None:
    text = "class A:\n    def f(self):\n        return torch.randn(4) * 2\nx = A().f()\ny = x + 1"
    assert main(["compile", "-c", text, "--ir", "torch"]) == 0
    note = "<command>:4:5: note: 'x' is an input: what is computed here is done before the program"
    assert capfd.readouterr().err == f"{note}\nx = A().f()\n    ^\n"


def method(*lines: str) -> str:
    """A class with a method of such statements."""
    return "class A:\n    def f(self):\n" + "".join(f"        {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (method("return torch.randn(4).sum().item()") + "r = A().f() * x", "5:5"),
        (method("return torch.randn(4).tolist()") + "y = x + 1\nr = y * A().f()[0]", "6:9"),
        (method("return torch.randn(4).numpy() * 2") + "k = A().f()\nr = x * k[0].item()", "5:5"),
        (method("return len((torch.randn(9) > 0).nonzero())") + "r = x * A().f()", "5:9"),
        ("ns = [int(torch.randint(1, 5, (1,))) for _ in 'ab']\nr = x * ns[0]", "2:6"),
        ("n = int(torch.randint(1, 5, ()))\nr = x * n", "2:5"),
    ],
)
def test_random_numbers_that_are_read_before_the_program_are_noted(
    text: str, place: str, capfd: pytest.CaptureFixture[str]
) -> None:
    capture_text(f"x = torch.randn(4)\n{text}")
    said = f"<command>:{place}: note: random numbers are read here before the program, which is"
    assert capfd.readouterr().err.startswith(said)


@pytest.mark.parametrize(
    "text",
    [
        "n = nn.Linear(2, 2)\nnn.init.trunc_normal_(n.weight)\nnn.init.orthogonal_(n.weight)\n"
        "r = n(x)",
        "d = torch.distributions.Normal(torch.zeros(2), torch.ones(2))\ny = d.sample()\nr = x * y",
        "print(x.sum().item())\nr = x * 2",
        "print([float(torch.rand(1)) for i in range(2)])\nr = x * 2",
        "y = torch.empty(2)\nnn.init.trunc_normal_(y)\nr = x * y",
    ],
)  # fmt: skip
def test_what_pytorch_asks_of_random_numbers_is_not_noted(
    text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    capture_text(f"x = torch.randn(2)\n{text}")
    assert "numbers are read" not in capfd.readouterr().err


def test_what_changes_in_place_computes(capfd: pytest.CaptureFixture[str]) -> None:
    text = method("t = torch.randn(4)", "t.mul_(2)", "return t") + "x = A().f()\nr = x + 1"
    capture_text(text)
    said = "<command>:6:5: note: 'x' is an input: what is computed here is done before the program"
    assert capfd.readouterr().err.startswith(said)


@pytest.mark.parametrize(
    "conversion",
    ["half()", "to(torch.bfloat16)", "double()", "requires_grad_()", "t().contiguous()"],
)
@pytest.mark.parametrize(
    "form",
    ["x = {}\nr = x * 2", "r = {} * 2", "xs = [{} for i in range(2)]\nr = xs[0] * xs[1]",
     "xs = []\nfor i in range(2):\n    xs.append({})\nr = xs[0] * xs[1]",
     "def f():\n    return {}\nx = f()\nr = x * 2"],
)  # fmt: skip
def test_a_conversion_where_an_input_is_made_is_not_noted(
    form: str, conversion: str, capfd: pytest.CaptureFixture[str]
) -> None:
    text = form.format(f"torch.randn(4, 4).{conversion}")
    module, args = capture_text(text)
    assert torch.equal(module(*args), plain(text))
    assert len(args) > 0
    assert "note" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "s = []\nfor _ in range(3):\n    t = time.time()\n    r = m(x)\n"
        "    s.append(time.time() - t)\nprint(sum(s) / 3)",
        "i = 0\nwhile i < 3:\n    r = m(x) * i\n    i += 1",
        "r = m(x)\nn = 0\nfor i in r.shape:\n    n += i\nprint(f'{n}')",
    ],
)  # fmt: skip
def test_times_and_counters_are_no_results(text: str) -> None:
    text = f"import time\n{LINEAR}x = torch.randn(2, 4)\n{text}"
    module, args = capture_text(text)
    assert torch.equal(module(*args), plain(text))


METER = (
    "class Meter:\n    def __init__(self):\n        self.s, self.n = 0., 0\n"
    "    def update(self, v):\n        self.s += v\n        self.n += 1\n"
    "    @property\n    def mean(self):\n        return self.s / self.n\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "r = n = 0\nfor b in x.split(2):\n    r += m(b).sum().item()\n    n += 1\nprint(r / n)"
        "\nr = r / n",
        "l = [(m(b) > 0).sum().item() for b in x.split(2)]\nr = sum(l) / len(l)",
        "a = Meter()\nfor b in x.split(2):\n    a.update(m(b).mean().item())\n"
        "print(f'{a.mean:.3f}')\nr = vars(a)",
        "def test():\n    n = 0\n    for b in x.split(2):\n"
        "        n += (m(b) > 0).sum().item()\n    return n / 4\nr = test()\nprint(f'{r:.1%}')",
        "def test(x):\n    a, n = Meter(), 0\n    for b in x.split(2):\n"
        "        a.update(m(b).mean().item())\n        n += (m(b) > 0).sum().item()\n"
        "    return a.mean, n / 4\nr = test(x)\nprint('%.2f %.2f' % r)",
    ],
)  # fmt: skip
def test_what_an_evaluation_adds_up_is_the_result(text: str) -> None:
    text = f"{METER}{LINEAR}x = torch.randn(4, 4)\n{text}"
    shown = text.replace("\nr = vars(a)", "").replace("\nr = r / n", "")
    torch.testing.assert_close(captured(shown), plain(text))


MAIN = (
    "import sys\ndef main():\n    x = torch.randn(4)\n    y = x * 2\n    print(y)\n    return 0\n"
)


@pytest.mark.parametrize(
    "end",
    ["main()", "sys.exit(main())", "raise SystemExit(main())", "main()\nexit()\nfoo()",
     "quit(main())", "main()\nraise SystemExit"],
)  # fmt: skip
def test_the_end_of_a_script_is_no_result(end: str) -> None:
    module, (x,) = capture_text(MAIN + end)
    assert torch.equal(module(x), x * 2)


@pytest.mark.parametrize(
    ("end", "how"),
    [("sys.exit('no GPU')", " with 'no GPU'"), ("[sys.exit(0)]", ""), ("quit(3)", " with 3")],
)
def test_a_script_that_ends_itself_is_told(
    end: str, how: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import sys, torch\n{end}\ny = torch.randn(4) + 1\n")
    assert main(["run", str(script)]) == 1
    said = f"error: the script ends itself here{how}, before it has computed tensors"
    assert said in capfd.readouterr().err


def test_a_memento_restores_what_it_can() -> None:
    a, b, c, d = [torch.ones(2), []], {1: 2}, {1}, torch.ones(2)
    batch_norm, e = nn.BatchNorm1d(2), SimpleNamespace(k=1, l=[{2: 3}], gone=0)
    memento = Memento([a, b, c, d, batch_norm, e])
    a[1].append(1)
    a[0] += 1
    e.k, e.new = 2, 3
    e.l[0][2] = 4
    del e.gone
    a.append(torch.ones(1))
    b[2] = 1
    c.add(2)
    d += 1
    batch_norm(torch.randn(3, 2))
    assert memento.restore()
    assert (len(a), a[1], b, c) == (2, [], {1: 2}, {1})
    assert vars(e) == {"k": 1, "l": [{2: 3}], "gone": 0}
    assert torch.equal(a[0], torch.ones(2))
    assert torch.equal(d, torch.ones(2))
    assert not batch_norm.get_buffer("running_mean").any()


@pytest.mark.parametrize(
    "change",
    ["p.mul_(2)", "m.k = 1", "m.weight.mul_(2)", "next(it)", "a[0].mul_(2)"],
)
def test_a_memento_does_not_restore_modules_and_parameters(change: str) -> None:
    a = [nn.Parameter(torch.ones(2))]
    names: dict[str, Any] = {"a": a, "p": nn.Parameter(torch.ones(2)), "m": nn.Linear(2, 2)}
    if "it" in change:
        names["it"] = iter([1])
    memento = Memento(names.values())
    with torch.no_grad():
        exec(change, names)
    assert not memento.restore()

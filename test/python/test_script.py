"""Scripts as people write them: which statements are the program, and what it returns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from script_texts import assert_as_python, assert_as_python_or_refused, plain

from dlc.cli.dlc_cli import main
from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts.capture import capture_script, capture_text
from dlc.frontend.source import ImportFailure

LINEAR = "m = nn.Linear(4, 4)\n"
SCRIPTS = {
    "one line": ("x = torch.randn(4, 4); h = torch.relu(x @ x); r = h + 1; r", ["x"]),
    "a name": ("x = torch.randn(4, 4)\nr = torch.relu(x @ x)\nr", ["x"]),
    "an assignment": (f"{LINEAR}out = m(torch.randn(2, 4))\nr = out.sum()", ["input"]),
    "printing in a loop": (
        "x = torch.randn(3, 4)\nr = x.softmax(-1)\nfor i in range(3):\n"
        "    print(i, [f'{v:.3f}' for v in r[i].tolist()])",
        ["x"],
    ),
    "what a loop binds": (
        "x = torch.randn(3, 4)\ny = x * 2\nfor k in range(2):\n    import math as m\n"
        "    def act(t):\n        z = t * m.pi\n        return z + k\n"
        "    match y.unbind():\n        case [first, *rest]:\n            y = act(y)\n"
        "r = act(y) + first + rest[0]",
        ["x"],
    ),
    "numbers of Python's": ("x = torch.tensor([1., 2.])\nr = torch.relu(x - 1.5)", ["x"]),
    "numbers of NumPy's": (
        "import numpy as np\na = np.ones((2, 4), np.float32)\nm = nn.Linear(4, 4)\n"
        "def main():\n    x = torch.from_numpy(a)\n    return m(x) + torch.arange(4)\nr = main()",
        ["x", "y"],
    ),
    "numbers of a file": (
        "import io\nfile = io.BytesIO()\ntorch.save({'a': torch.ones(2)}, file)\nfile.seek(0)\n"
        "x = torch.load(file)\nr = x['a'] * 2",
        ["x_a"],
    ),
    "main": (
        f"{LINEAR}if __name__ == '__main__':\n    x = torch.randn(2, 4)\n    r = m(x)\n"
        "    print(r.shape)",
        ["x"],
    ),
    "no_grad": (
        f"{LINEAR}with torch.no_grad():\n    m.weight.mul_(2)\n    r = m(torch.randn(2, 4))\n"
        "print(f'{r}')",
        ["input"],
    ),
    "a function": (
        "def main(n=3):\n    '''Runs.'''\n    global r\n    x = torch.randn(n, 4)\n"
        f"    {LINEAR}    r = m(x)\n    return r\nif __name__ == '__main__':\n    main()",
        ["x"],
    ),
    "what a function returns": (
        "def main():\n    m = nn.Linear(4, 4)\n    x = torch.randn(2, 4)\n    print(x)\n"
        "    return m(x).sum(), x\nif __name__ == '__main__':\n    r, x = main()\n    print(r)",
        ["x"],
    ),
    "an annotated result": (
        "def main(k):\n    return torch.randn(2, 4) * k\nr: torch.Tensor = main(k=3)",
        ["x"],
    ),
    "functions that make inputs": (
        "def data(n):\n    return torch.randn(n, 4).t(), torch.rand(3)\na, b = data(3)\nr = a @ b",
        ["a", "b"],
    ),
    "functions that compute what they return": (
        "def batch():\n    rows = []\n    for _ in range(2):\n        rows.append(torch.randn(4))\n"
        "    return torch.stack(rows)\nx = batch()\ny = batch()\nr = x @ y.t()",
        ["rows.0", "rows.1", "rows2.0", "rows2.1"],
    ),
    "a loop beside the program": (
        "x = torch.randn(3)\nh = x * 2\ns = 0\nfor i in range(4):\n    s += i\nr = h * s",
        ["x"],
    ),
    "a loop": (
        "layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])\nr = torch.randn(2, 4)\n"
        "for layer in layers:\n    r = torch.relu(layer(r))",
        ["r"],
    ),
    "a loop over a list": (
        "layers = [nn.Linear(4, 4) for _ in range(3)]\nr = torch.randn(2, 4)\n"
        "for layer in layers:\n    r = torch.relu(layer(r))",
        ["r"],
    ),
    "an input that is still wanted": (
        "x = torch.randn(4)\ny = x\nx = x + 1\nr = x * y",
        ["x"],
    ),
    "names that change": (
        "x = torch.relu(torch.randn(4))\ny = x + 1\nx = torch.randn(4)\nr = x + y",
        ["z", "x2"],
    ),
    "numbers that change": ("k = 2\nx = torch.randn(4)\nh = x * k\nk = 3\nr = h * k", ["x"]),
    "numbers of tensors": (
        "import math\nx = torch.randn(4, 8)\nn = x.abs().max().item()\nfor k in range(2):\n"
        "    x = x / max(n, 1, math.exp(min(k, n)))\nr = x * math.sqrt(n) + math.log(n, 2)",
        ["x"],
    ),
    "updates": ("r = torch.randn(4)\nr += 1\nr *= r", ["r"]),
    "elements": ("x = torch.randn(4, 4)\nx[0] = 1.0\nr = x * 2", ["x"]),
    "targets": (
        "x = torch.randn(4, 6)\na, (b, c) = x.chunk(2, 1)[0], x.max(1)\nr = a.sum(1) + b + c",
        ["x"],
    ),
    "a print at the end": ("x = torch.randn(4)\nr = x + 1\nprint('done', r.mean().item())", ["x"]),
    "constants": (
        "n = 4\nmask = torch.tril(torch.ones(n, n)).bool()\nx = torch.randn(n, n)\n"
        "b, c = x.shape\nw = torch.randn(c, b)\nr = torch.where(mask, x @ w, 0.)\n"
        "assert r.shape == (4, 4)",
        ["x", "w"],
    ),
    "initialization": (
        f"{LINEAR}nn.init.xavier_uniform_(m.weight)\nfor p in m.parameters():\n"
        "    nn.init.normal_(p)\nx = torch.empty(3, 4)\nx.normal_()\nr = m(x)",
        ["x"],
    ),
    "autocast": (
        f"{LINEAR}x = torch.randn(2, 4)\nwith torch.autocast('cpu', dtype=torch.bfloat16):\n"
        "    r = m(x)",
        ["x"],
    ),
    "a comprehension": (
        "xs = [torch.randn(3) for _ in range(2)]\nr = sum(x * 2 for x in xs)",
        ["xs.0", "xs.1"],
    ),
    "a counted loop": (
        "r = torch.randn(4)\ni = 0\nwhile i < 3:\n    r = r + i\n    i += 1\nr",
        ["r"],
    ),
    "what runs once": (
        "it = iter(range(5))\nt = torch.full((2,), float(next(it)))\n"
        "u = torch.full((2,), float(next(it)))\nx = torch.randn(2)\nr = x + t + u",
        ["x"],
    ),
    "a constant that changes later": (
        "x = torch.randn(4)\nw = torch.zeros(4)\nw[1] = 5\ny = x * w\nw[2] = 7\nr = y + w",
        ["x"],
    ),
    "names of one constant": (
        "x = torch.randn(4)\nc = torch.ones(4)\nd = c\nh = x * d\nc += x\nr = d * h",
        ["x"],
    ),
    "names of one list": (
        "x = torch.randn(4)\na = [x]\nb = a\nb.append(x * 2)\nr = sum(a)",
        ["b.0", "x"],
    ),
    "a function that changes a constant": (
        "def f(t, k):\n    k += t\n    return t\nx = torch.randn(4)\nk = torch.ones(4)\n"
        "h = x * k\ny = f(x, k)\nz = f(torch.ones(4), k)\nr = y * k + h",
        ["x"],
    ),
    "a list of results": (
        "x = torch.randn(4)\nall = []\nfor i in range(3):\n    all.append(x * i)\n"
        "r = torch.cat(all)",
        ["x"],
    ),
    "elements of a result": (
        "x = torch.randn(3, 4)\nc = torch.zeros(3, 4)\nc[0] = x[0]\nr = c.sum(0)\n"
        "c[1] = x[1]\nr = r + c.sum(0)",
        ["x"],
    ),
    "a table": (
        "d = {'x': torch.randn(3)}\nd['y'] = d['x'] * 2\nr = d['y'] + d['x']",
        ["d_x", "d.x"],
    ),
    "the variables of a function": (
        "x = torch.randn(4)\ny = torch.ones(4)\ndef main():\n    y = x * 2\n    print(y)\n"
        "main()\nr = x + y",
        ["x"],
    ),
    "what NumPy gets": ("x = torch.randn(3)\nr = x.tanh()\nprint(r.numpy())", ["x"]),
    "a branch": (
        "x = torch.randn(3)\nh = x * 2\nif h.shape[0] > 2:\n    r = h + 1\nelse:\n    r = h - 1",
        ["x"],
    ),
    "a return within a context": (
        f"def main():\n    {LINEAR}    x = torch.randn(2, 4)\n    with torch.no_grad():\n"
        "        return m(x)\nr = main()",
        ["x"],
    ),
    "returns within branches": (
        "def main(k):\n    x = torch.randn(4)\n    if k == 3:\n        return x * 3\n"
        "    elif k == 2:\n        x = x + 1\n    with torch.autocast('cpu'):\n        if k:\n"
        "            return x * 2\n        return x\nr = main(2)",
        ["x"],
    ),
    "a return of nothing": (
        "def main(k=0):\n    global r\n    if k:\n        return\n"
        "    r = torch.randn(4) * 2\nmain()",
        ["x"],
    ),
    "calls within an expression": (
        "def f(k):\n    x = torch.randn(4)\n    if k:\n        return x * k\n    return x + 1\n"
        "r = torch.cat([f(0), f(k=3) + torch.randn(4)]) - f(2).sum()",
        ["x", "x2", "y", "x3"],
    ),
    "the last of a loop by text": (
        "x = torch.randn(4)\nfor i in range(2):\n    if i > 0:\n        y = x + i\n    r = x * 2",
        ["x"],
    ),
    "a global of a function": (
        "n = 0\ndef f():\n    global n\n    n += 1\n    return torch.randn(4) * n\n"
        "a = f()\nr = a * 2",
        ["a"],
    ),
    "parameters that are called as variables are": (
        "x = 7\nk = 3\ndef f():\n    x = torch.randn(4)\n    def g(x, k=2):\n        return x * k\n"
        "    return g(x + 1, k=4)\nr = f() + x * k",
        ["x_f1"],
    ),
    "a lambda sees what changes": (
        "x = torch.randn(4)\nk = 2\nf = lambda y: y * k\nk = 5\nr = f(x)",
        ["x"],
    ),
    "a function that reads a tensor": (
        "x = torch.randn(4)\ndef f(y):\n    return y + x\ndef g(y):\n    return f(y) * 2\n"
        "r = g(torch.randn(4)) + g(torch.ones(4))",
        ["x", "y"],
    ),
    "a function in a function that reads its tensors": (
        "def main():\n    x = torch.randn(4)\n    k = 2\n    def g(y):\n        return y * x * k\n"
        "    x = x * 2\n    h = x + 1\n    f = lambda y: y - h\n"
        "    return g(f(torch.randn(4)))\nr = main()",
        ["x", "z"],
    ),
    "a function without arguments that reads a tensor": (
        "x = torch.randn(4)\ng = lambda: 2 * x\ndef f():\n    return x + 1\nr = f() + g()",
        ["x"],
    ),
    "a function with a tensor in its closure": (
        "def made(k):\n    s = torch.randn(4)\n    def g(y):\n        return y * s * k\n"
        "    return g\ng, h = made(2), made(3)\nr = g(h(torch.ones(4)))",
        ["s", "s2"],
    ),
    "defaults that are tensors": (
        "x = torch.randn(4)\ndef g(y, s=x, *, t=x, k=2):\n    return y * s * k + t\n"
        "r = g(torch.randn(4))",
        ["x", "y"],
    ),
    "decorated functions that read a tensor": (
        "x = torch.randn(4)\ndef twice(f):\n    return lambda y: 2 * f(y)\n@twice\ndef f(y):\n"
        "    return y * x\n@torch.no_grad()\ndef g(y):\n    return y + x\n"
        "r = f(g(torch.randn(4)))",
        ["x", "y"],
    ),
    "functions of tensors": (
        "import functools\nx = torch.randn(4)\nf, g = functools.partial(torch.mul, x), x.sub\n"
        "r = sum(map(lambda y: f(y) * x, [g(torch.randn(4)), torch.randn(4)]))",
        ["x", "z", "u"],
    ),
    "a name that ends": ("x = torch.randn(4)\ny = x * 2\ndel y\ny = x\nr = y * 2", ["x"]),
    "an item that ends": (
        "l = [torch.randn(4), torch.randn(4)]\ndel l[0]\nr = l[0] * 2",
        ["l.0", "l.1"],
    ),
    "an item that ends in a loop": (
        "l, x = [1, 2, 3], torch.randn(4)\nfor _ in range(2):\n    del l[0]\n"
        "    x = x * l[0]\nr = x * len(l)",
        ["x"],
    ),
    "assignments within expressions": (
        "x = torch.randn(4)\nz = (y := torch.randn(4) * 2) + x\nassert (u := y + z) is not None\n"
        "if (v := u * 2).ndim == 1:\n    r = v - y",
        ["w", "x"],
    ),
    "constants that change through views": (
        "x = torch.randn(4, 4)\nc, d = torch.ones(4, 4), torch.ones(4, 4)\nfor _ in range(2):\n"
        "    y = x + 1\n    c.t()[0].mul_(2)\n    d.view(2, 8).select(0, 1)[3] += 2\n"
        "r = x * c - y * d",
        ["x"],
    ),
    "tuples": (
        "n = 2\ndef f():\n    return n\nn, m = 3, f()\nx, c = torch.randn(4), torch.ones(4)\n"
        "(y, z), u = (x * c, 2), torch.rand(4)\nx, y = y, x\nr = x * m + y * z * n + u",
        ["x", "u"],
    ),
    "a function under no_grad": (
        "@torch.no_grad()\ndef main():\n    x = torch.randn(4)\n    return x * 2\nr = main()",
        ["x"],
    ),
}


@pytest.mark.parametrize(("text", "inputs"), SCRIPTS.values(), ids=list(SCRIPTS))
def test_a_script_is_one_program(text: str, inputs: list[str]) -> None:
    module, args = capture_text(text)
    wanted = plain(text)
    program = import_program(module, args)
    assert [a.name for a in program.arguments if a.kind == "input"] == inputs
    assert torch.equal(module(*args), wanted)


@pytest.mark.parametrize(
    "printed",
    ["print(f(torch.randn(3)))", "print('f', f(torch.randn(3)).shape)",
     "print(f'{f(torch.randn(3)):}')", "print('%s' % f(torch.randn(3)))",
     "print('{} {}'.format(1, f(torch.randn(3))))", "print(torch.tanh(torch.randn(3)).tolist())",
     "h = f(torch.randn(2))\nprint(sum(p.numel() for p in m.parameters()))\n"
     "print(torch.tanh(torch.randn(3)))"],
)  # fmt: skip
def test_what_the_last_print_computes_is_the_result(printed: str) -> None:
    text = f"def f(x):\n    return torch.tanh(x)\n{LINEAR}{printed}"
    module, args = capture_text(text)
    assert torch.equal(module(*args), torch.tanh(args[-1]))
    assert args[-1].shape == (3,)


def test_numbers_that_the_last_print_tells_are_results() -> None:
    """Of variables alone: what is computed for a user's eyes is none, nor is a shape."""
    text = "x = torch.randn(3)\na = x.sum()\nb = x.max()\n"
    printed = "print(f'{a:.2f} {b.item()}', x.mean().item(), x.shape)"
    module, args = capture_text(text + printed)
    assert torch.equal(torch.stack(module(*args)), torch.stack([args[0].sum(), args[0].max()]))


def test_what_a_function_looks_at_does_not_change() -> None:
    text = "x = torch.randn(4)\ny = x * 2\ndef f(z):\n    return z + x\nx.add_(1)\nr = f(y)"
    with pytest.raises(ImportFailure, match=r"5:1: .* x, at which a function of the script looks"):
        capture_text(text)


DOUBLED = "def twice(f):\n    def g():\n        return 2 * f()\n    return g\n"
LOOPED = "    x = torch.randn(3)\n    for i in range(3):\n        x = x + i\n        if i:\n"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        (f"{DOUBLED}@twice\ndef f():\n    return torch.randn(3) * 2\nf()", 6, "another function"),
        (f"{DOUBLED}def f():\n    return torch.randn(3) * 2\nf = twice(f)\nf()", 5, "another func"),
        (f"def f():\n{LOOPED}            return x\nr = f()", 6, "returns from within a loop"),
        (f"def f():\n{LOOPED}            return x\nprint(f())", 6, "returns from within a loop"),
    ],
)
def test_what_a_function_computes_unseen_is_told(text: str, line: int, why: str) -> None:
    with pytest.raises(ImportFailure, match=f"<command>:{line}:.* f computes .*{why}.*; make"):
        capture_text(text)


def test_what_a_wrapped_function_makes_is_an_input() -> None:
    text = f"{DOUBLED}@twice\ndef f():\n    return torch.randn(3) * 2\nx = f()\ny = f().sin() * x"
    module, args = capture_text(text)
    made, x = args
    assert torch.equal(module(made, x), made.sin() * x)


def test_scripts_import_their_neighbours_and_print_to_stderr(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "layers_beside.py").write_text(
        "import torch\n\nclass Double(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x * 2\n"
    )
    script = tmp_path / "script.py"
    script.write_text(
        "import argparse\nimport torch\nfrom layers_beside import Double\nprint('hello')\n"
        "argparse.ArgumentParser().parse_args()\n"
        "y = Double()(torch.randn(4))\n"
    )
    assert main(["compile", str(script), "--ir", "loop"]) == 0
    printed = capfd.readouterr()
    assert printed.out.startswith("builtin.module")
    assert "hello\n" in printed.err


def test_scripts_have_arguments(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import argparse, sys, torch\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--size', type=int, default=4)\n"
        "parser.add_argument('rest', nargs='*')\n"
        "print(sys.argv, parser.parse_args().rest)\n"
        "y = torch.relu(torch.randn(parser.parse_args().size))\n"
    )
    for given, size in (((), 4), (("--", "--size", "3", "-", "--", "--ir"), 3)):
        assert main(["compile", str(script), "--ir", "loop", *given]) == 0
        printed = capfd.readouterr()
        assert f"%x: tensor<{size}xf32>" in printed.out
        assert printed.err == f"{[str(script), *given[1:]]} {['-', '--ir'] if given else []}\n"
    text = "import sys\ntorch.relu(torch.randn(int(sys.argv[1])))"
    assert main(["compile", "-c", text, "--ir", "torch", "--", "7"]) == 0
    assert "tensor<7xf32>" in capfd.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["compile", str(script), "--", "--sise", "3"])
    assert ended.value.code == 2
    assert "script.py: error: unrecognized arguments: --sise" in capfd.readouterr().err
    with pytest.raises(SystemExit):
        main(["compile", str(script), "--size", "3"])
    said = f"--size 3; those of the script stand behind --: {script} -- --size\n"
    assert said in capfd.readouterr().err
    assert main(["compile", "Qwen/Qwen2.5-7B", "--", "3"]) == 2
    assert "behind -- are arguments of a script or of -c; there is none" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("class M(nn.Module):\n    def forward(self, y):\n        return y * x\nM()(x)", 5, "M"),
        ("fs = [lambda y: y * x]\ny = x + 1\nfor f in fs:\n    y = f(y)", 4, "list"),
        ("class A:\n    t = 0\na = A()\na.t = x\ndef f(y, a=a):\n    return y + a.t\nf(x)", 8, "f"),
    ],
)  # fmt: skip
def test_what_keeps_an_input_is_told(text: str, line: int, what: str) -> None:
    with pytest.raises(ImportFailure, match=f"<command>:{line}:.* {what} keeps 'x', whose numbers"):
        capture_text(f"x = torch.randn(4)\n{text}")


@pytest.mark.parametrize(
    "change", ["m.bias = None", "m.eval()", "m.weight.zero_()", "nn.init.zeros_(m.weight)"]
)
def test_what_the_program_has_used_may_change(change: str) -> None:
    text = f"with torch.no_grad():\n    {LINEAR}    x = torch.randn(2, 4)\n    y = m(x)\n"
    assert_as_python(f"{text}    {change}\n    r = m(x) + y")


@pytest.mark.parametrize(
    ("made", "change"),
    [
        ("d = c[0]", "c += x"),
        ("d = [c]", "c.add_(x)"),
        ("m.register_buffer('c', c)", "c[1] = x[0]"),
        ("import types; o = types.SimpleNamespace(c=[c[0]])", "c += x"),
        ("import functools; f = functools.partial(torch.mul, c)", "c += x"),
        ("f = c.mul", "c += x"),
        ("n = c.numpy()", "c += x"),
        ("c = [1]; d = (c, 2)", "c.append(x)"),
        ("c = [1]; f = lambda c=c: len(c)", "c.append(x)"),
        ("import types; c = [[1]]; o = types.SimpleNamespace(c=c[0])", "c[0].append(x)"),
    ],
)
def test_what_shares_memory_does_not_change(made: str, change: str) -> None:
    text = f"{LINEAR}c = torch.ones(4, 4)\n{made}\nx = torch.randn(4)\n{change}\nr = c * x"
    with pytest.raises(ImportFailure, match=r"<command>:5:1: .* c, which shares memory with"):
        capture_text(text)


@pytest.mark.parametrize(
    "change",
    [
        "for p in m.parameters():\n    p.mul_(2)",
        "for s in scales:\n    s.mul_(2)",
        "while k < 3:\n    k += 1",
        "for _ in range(1):\n    grow()",
    ],
)
def test_a_loop_may_change_what_the_program_has_used(change: str) -> None:
    begin = "k = 2\nscales = [torch.ones(4)]\ndef grow():\n    scales[0] *= k\n"
    text = f"{begin}{LINEAR}m.requires_grad_(False)\nx = torch.randn(2, 4)\ny = m(x) * scales[0]\n"
    assert_as_python_or_refused(f"{text}{change}\nr = m(x) + y")


def test_a_constant_that_changes_unseen_is_told() -> None:
    text = "x = torch.randn(4)\nc = torch.ones(4)\ny = x + 1\n[c, x][0].mul_(2)\nr = c * x"
    with pytest.raises(ImportFailure, match=r"the program changes 'c', a tensor that is neither"):
        import_program(*capture_text(text))


def test_what_a_program_asks_of_values_is_refused() -> None:
    text = "x = torch.randn(3)\nif x.sum() > 0:\n    y = x + 1\nelse:\n    y = x - 1\ny"
    module, args = capture_text(text)
    with pytest.raises(ImportFailure, match=r"<command>:2:\d+: error: .*branches on values"):
        import_program(module, args)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("w = nn.Linear(4, 1)\nl = w(torch.randn(2, 4)).sum()\nl.backward()", "computes gradients"),
        (
            "def train(m):\n    t = 0.0\n    for _ in range(2):\n"
            "        l = m(torch.randn(2, 4)).sum()\n        l.backward()\n        t += l.item()\n"
            "    return t\nm = nn.Linear(4, 1)\nfor e in range(2):\n    print(train(m))",
            ":5:9: error: the program computes gradients",
        ),
        (
            "torch.linalg.eigvals(torch.randn(4, 4))",
            "of general matrices there are no eigenvalues",
        ),
        ("torch.ones(3, 4).long() @ torch.randn(4, 2)", "matmul.default is given: .*[fF]loat"),
        (
            "torch.manual_seed(0)\nm = nn.Sequential(nn.Linear(3, 2))\ndef run(x):\n"
            "    y = m(x)\n    return m(y)\nwith torch.no_grad():\n    run(torch.randn(2, 3))",
            ":5:12: error: torch.export cannot trace the program: RuntimeError: a and b must have",
        ),
        (
            "x = torch.randn(3)\ny = x + 1\nz = torch.nn.functional.soft_max(y, 0)\nz + 1",
            "has no attribute 'soft_max'\nz = .*\n *\\^\nhint: did you mean",
        ),
    ],
)
def test_wrong_scripts(text: str, sentence: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--backend", "host", "-c", text]) == 1
    assert re.search(sentence, capfd.readouterr().err)


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbfimport torch\n(y := torch.relu(torch.randn(4)))\n",
        b'# -*- coding: latin-1 -*-\nimport torch\ntorch.randn(4) * len("caf\xe9")\n',
    ],
)
def test_scripts_declare_their_encoding(text: bytes, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_bytes(text)
    module, args = capture_script(script)
    assert torch.equal(module(*args), torch.relu(*args) if b"relu" in text else args[0] * 4)


def test_a_misspelt_function_has_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("torch.rleu(torch.randn(4))", "torch.randn(4).rleu()", "F.rleu(torch.randn(4))"):
        assert main(["run", "-c", text]) == 1
        assert capsys.readouterr().err.endswith("\nhint: did you mean relu?\n")

"""Scripts whose statements act outside of their variables, or by methods that no call names."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from script_texts import USED, captured, captured_or_why, plain

from dlc.frontend.scripts.capture import capture_text
from dlc.frontend.source import ImportFailure, UnsupportedError

LIMIT = sys.getrecursionlimit()
CALLS = "calls = []\ndef f(n):\n    calls.append(n)\n    return n\n"
COUNTS = (
    "class Counter:\n    def __init__(self):\n        self.n = 0\n    def count(self, *given):\n"
    "        self.n += 1\n        return self.n\n    def itself(self):\n        return self\n"
    "    {}\nc = Counter()\n"
)
METHODS = {
    "item": ("__getitem__ = count", "c[0]"),
    "property": ("n_times = property(count)", "c.n_times"),
    "method of a result": ("", "c.itself().count()"),
    "operator": ("__add__ = count", "c + 1"),
    "membership": ("def __contains__(self, n):\n        return self.count() > 0", "1 in c"),
    "length": ("__len__ = count", "len(c)"),
    "text": ("def __str__(self):\n        return str(self.count())", "f'{c}'"),
    "any attribute": ("def __getattr__(self, name):\n        return self.count()", "c.some"),
}
"""What counts, and how a script gets at it."""
SHOWN = {
    "print": "print(y.sum(), {})",
    "two": "print({}, y)\nprint(y, {})",
    "format": "print(f'{{y.sum()}}: {{{}}}')",
    "assert": "assert y.sum() > -1000 and {}",
    "choice": "c.n >= 0 and print(y, {})",
}
SETTINGS = {
    "numpy": ("import numpy as np", "np.seterr(divide='ignore')",
              "(1 if np.geterr()['divide'] == 'ignore' else 2)"),
    "warnings": ("", "torch.set_warn_always(True)", "(1 + torch.is_warn_always_enabled())"),
    "loggers": ("import logging\nlog = logging.getLogger('rv')", "log.setLevel(30)", "log.level"),
    "directory": ("import os", "os.chdir('/')", "len(os.getcwd())"),
    "recursion": ("import sys", "sys.setrecursionlimit(4321)", "sys.getrecursionlimit()"),
    "from": ("from torch import get_num_threads as n, set_num_threads as put", "put(3)", "n()"),
    "context": ("import contextvars\nv = contextvars.ContextVar('v')", "v.set(7.)", "v.get(2.)"),
    "collector": ("import gc", "gc.disable()", "(2 if gc.isenabled() else 3)"),
    "autocast": ("", "torch.set_autocast_enabled('cpu', True)",
                 "(2 if torch.is_autocast_enabled('cpu') else 3)"),
    "files": ("from pathlib import Path", "Path('made').write_text('abc')",
              "(5 + Path('made').exists())"),
    "listing": ("import os", "open('made', 'w').close()", "(1 + len(os.listdir('.')))"),
    "printing": ("import numpy as np", "np.set_printoptions(precision=3)",
                 "np.get_printoptions()['precision']"),
    "paths": ("import sys", "sys.path.append('rv')", "(1 + sys.path.count('rv'))"),
}  # fmt: skip
"""What a text imports, changes and reads of its process."""
PLACES = {
    "after a loop": "r = x\nfor i in range(2):\n    r = r + 1\n    {act}\nr = r * {read}",
    "within": "r = x\nfor i in range(2):\n    {act}\n    r = r * {read}",
    "a list": "r = x + 1\nz = [{act} for i in range(2)]\nr = r * {read}",
    "before": "r = x\nfor i in range(2):\n    r = r * {read}\n{act}\nr = r + 1",
    "by a function": "def g(x):\n    {act}\n    return x + 1\nr = g(x)\nr = r * {read}",
}


@pytest.fixture(autouse=True)
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    _forget()


def _forget() -> None:
    np.seterr(divide="warn")
    np.set_printoptions(precision=8)
    torch.set_warn_always(False)
    torch.set_num_threads(1)
    torch.set_autocast_enabled("cpu", False)
    gc.enable()
    sys.setrecursionlimit(LIMIT)
    sys.path[:] = [path for path in sys.path if path != "rv"]


CHAINS = {
    "a value": "b = f(3) < f(1) < f(7)",
    "all of it": "b = f(1) < f(2) <= f(2) != f(5)",
    "a branch": "if f(3) < f(1) < f(7):\n    y = y * 2",
    "a choice": "y = y * (1 if f(3) < f(1) < f(7) else 2)",
    "a statement": "f(3) < f(1) < f(7)",
    "printed": "print(y.sum(), f(3) < f(1) < f(7))",
    "asserted": "assert f(1) < f(2) < f(7), y",
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_a_chain_stops_where_python_does(chain: str) -> None:
    text = f"{CALLS}{USED}{chain}\nr = y * len(calls)"
    torch.testing.assert_close(captured(text), plain(text))


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
@pytest.mark.parametrize(("method", "read"), METHODS.values(), ids=METHODS)
def test_what_is_left_out_goes_on_once(shown: str, method: str, read: str) -> None:
    if "'" in read and "f'" in shown:
        shown = shown.replace("'", '"')
    text = f"{COUNTS.format(method)}{USED}{shown.replace('{}', read)}\nr = y * c.n"
    text = text.replace("{{", "{").replace("}}", "}")
    torch.testing.assert_close(captured(text), plain(text))


@pytest.mark.parametrize("text", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize(("made", "act", "read"), SETTINGS.values(), ids=SETTINGS)
def test_the_process_is_asked_in_the_order_of_the_text(
    text: str, made: str, act: str, read: str, tmp_path: Path
) -> None:
    """The numbers are Python's, or a sentence says what is not."""
    text = f"{made}\nx = torch.randn(4)\n{text.format(act=act, read=read)}"
    expected = plain(text)
    _forget()
    os.chdir(tmp_path)
    for made_file in tmp_path.iterdir():
        made_file.unlink()
    if "log = " in made:
        import logging

        logging.getLogger("rv").setLevel(0)
    found = captured_or_why(text)
    if isinstance(found, ImportFailure):
        assert found.place is not None
        assert found.place.line > 1
        assert "change" in found.message or "another number" in found.message
    else:
        torch.testing.assert_close(found, expected)


STREAM = "import io, pprint\ns = io.StringIO()\n"
WRITER = (
    "class Writer:\n    def __init__(self):\n        self.n = 0\n    def write(self, text):\n"
    "        self.n += len(text)\n    def getvalue(self):\n        return 'a' * self.n\n"
    "s = Writer()\n"
)
PRINTED = {
    "a stream": (STREAM, "print(y.shape, file=s)"),
    "in a loop": (STREAM, "for i in range(3):\n    y = y + 1\n    print(i, file=s)"),
    "pretty": (STREAM, "pprint.pprint(y.shape, stream=s)"),
    "a writer of the script's": (WRITER, "print(y.shape, file=s)"),
}


@pytest.mark.parametrize(("made", "shown"), PRINTED.values(), ids=PRINTED)
def test_what_is_printed_to_a_stream_can_be_read(made: str, shown: str) -> None:
    text = f"{made}{USED}{shown}\nr = y * len(s.getvalue())"
    torch.testing.assert_close(captured(text), plain(text))


IN_PLACE = {
    "function": "print(F.relu(y, inplace=True))",
    "module": "print(nn.ReLU(inplace=True)(y))",
    "held": "m = nn.ReLU(inplace=True)\nprint(m(y))",
    "asserted": "m = nn.ReLU(inplace=True)\nassert m(y).min() >= 0",
}


@pytest.mark.parametrize("shown", IN_PLACE.values(), ids=IN_PLACE)
def test_what_is_changed_in_place_where_it_is_shown_goes_on(shown: str) -> None:
    text = f"import torch.nn.functional as F\n{USED}y = y - 1\n{shown}\nr = y * 2"
    torch.testing.assert_close(captured(text), plain(text))


MAKES = "def g(t):\n    for i in range(1, 4):\n        yield t * i\n"
CONSUMED = {
    "next": "print(next(it))",
    "a list": "print(list(it)[0])",
    "in place": "print(*it)",
    "a sum": "print(sum(it))",
    "a comprehension": "print([t.sum() for t in it])",
    "in a loop": "for i in range(2):\n    print(next(it))",
    "no one": "print(it, type(it), y)",
}


@pytest.mark.parametrize("made", ["g(y)", "iter([y, y * 2, y * 3])", "(y * i for i in range(4))"])
@pytest.mark.parametrize("shown", CONSUMED.values(), ids=CONSUMED)
def test_an_iterator_of_the_program_goes_on_where_it_is_shown(shown: str, made: str) -> None:
    text = f"{MAKES}{USED}it = {made}\n{shown}\nr = y + sum(it)"
    torch.testing.assert_close(captured(text), plain(text))


PASSED = {
    "a method": "print(list(map(l.append, [1, 2])), y)",
    "of tensors": "print(list(map(l.append, [y, y * 2])))",
    "partial": "print(partial(l.append, 3)(), y)",
    "a name": "p = l.append\nprint(p(3), y)",
    "by name": "print(getattr(l, 'sort')(), y)",
    "an operator": "print(operator.setitem(l, 0, 7), y)",
    "in place": "print(operator.iadd(y, 1))",
    "a function": "def f(v):\n    l.append(v)\nprint(list(map(f, [1, 2])), y)",
    "a lambda": "print(list(map(lambda v: l.append(v), [1, 2])), y)",
    "a key": "def f(v):\n    l.append(v)\n    return v\nprint(max([1, 2], key=f), y)",
    "a table": "t = {'p': l.append}\nprint(t['p'](3), y)",
    "one of some": "def f(v):\n    l.append(v)\nprint([h(3) for h in (f, f)], y)",
    "a method by name": "print(operator.methodcaller('sort')(l), y)",
    "text": "print('%r %s' % (o, y))",
    "a format": "print('{!r}'.format(o), y)",
    "a join": "print(', '.join(map(str, [o, o])), y)",
    "a list of it": "print([o], y)",
}


@pytest.mark.parametrize("shown", PASSED.values(), ids=PASSED)
def test_what_is_passed_acts_where_it_is_shown(shown: str) -> None:
    """The numbers are Python's, or a sentence says what is not."""
    text = (
        "import operator\nfrom functools import partial\nclass O:\n    n = 0\n"
        "    def __repr__(self):\n        self.n += 1\n        return 'o'\n"
        f"o = O()\nl = [3, 1, 2]\n{USED}{shown}\nr = y * l[0] * len(l) + o.n"
    )
    found = captured_or_why(text)
    if isinstance(found, ImportFailure):
        assert "the program changes 'l[" in str(found)
    else:
        torch.testing.assert_close(found, plain(text))


AMBIENT = {
    "a default": "torch.set_default_dtype(torch.float64)",
    "autocast": "torch.set_autocast_enabled('cpu', True)",
}


@pytest.mark.parametrize("change", AMBIENT.values(), ids=AMBIENT)
def test_what_decides_on_dtypes_does_not_change_behind_computations(change: str) -> None:
    try:
        with pytest.raises(ImportFailure, match="what the program before it may have used") as why:
            capture_text(f"x = torch.randn(4, 4)\ny = x @ torch.ones(4, 4)\n{change}\nr = y @ y")
        assert why.value.place is not None
        assert why.value.place.line == 3
    finally:
        torch.set_default_dtype(torch.float32)
        _forget()


RESET = {
    "its end": "r = y @ torch.full((4, 4), 0.5)\ntorch.set_default_dtype(torch.float32)",
    "printed": "r = y @ y\ntorch.set_default_dtype(torch.float32)\nprint(r)",
    "a function's": "def f():\n    global r\n    r = y @ torch.full((4, 4), 0.5)\n"
    "    torch.set_default_dtype(torch.float32)\nf()",
    "in between": "torch.set_default_dtype(torch.float32)\nn = 3\n"
    "torch.set_default_dtype(torch.float64)\nr = y * torch.ones(4)",
}


@pytest.mark.parametrize("end", RESET.values(), ids=RESET)
def test_a_default_dtype_may_be_reset_behind_what_it_decides_on(end: str) -> None:
    begin = "torch.set_default_dtype(torch.float64)\nx = torch.randn(4, 4)\ny = x + 1\n"
    try:
        found = captured(begin + end)
        torch.set_default_dtype(torch.float32)
        torch.testing.assert_close(found, plain(begin + end))
        assert found.dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
        _forget()


ENDS = {
    "collected": "import gc\ngc.collect()",
    "written": "import sys\nsys.stdout.write('done\\n')",
    "set": "import numpy as np\nnp.seterr(divide='warn')",
    "logged": "import logging\nlogging.getLogger('rv').info('%s', r)",
    "saved": "torch.save(r, 'r.pt')",
    "saved within": "with open('r.pt', 'wb') as f:\n    torch.save({'r': r}, f)",
    "an array saved": "import numpy as np\nnp.save('r.npy', r.numpy())\nprint('saved')",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_how_a_script_ends_is_not_its_result(end: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{USED}r = y * 2\n{end}"
    found: Any = captured(text)
    found = found["r"] if isinstance(found, dict) else found
    torch.testing.assert_close(found, plain(f"{USED}r = y * 2"))
    said = "note: what is saved here is left out of the program"
    assert ("save" in end) == (said in capsys.readouterr().err)


LOOPS = {
    "rows": "for row in c:\n    row.copy_(x)",
    "numbered": "for i, row in enumerate(c):\n    row.copy_(x * i)",
    "beside others": "for a, b in zip(c, w):\n    a.add_(b * x)",
    "of a table": "for k, t in d.items():\n    t.mul_(x)\nc = c + d['k']",
    "a view": "for i in range(3):\n    row = c[i]\n    row += x",
    "backwards": "for row in reversed(list(c)):\n    row += x * row.sum()",
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_loop_writes_to_what_it_goes_over(loop: str) -> None:
    made = "c = torch.ones(3, 4)\nw = torch.ones(3, 4)\nd = {'k': torch.ones(4)}\n"
    text = f"{made}x = torch.randn(4)\n{loop}\nr = c * 2"
    torch.testing.assert_close(captured(text), plain(text))


def test_a_generator_of_its_own_is_refused_in_the_users_words() -> None:
    text = (
        "g = torch.Generator()\nx = torch.randn(4)\nfor i in range(2):\n"
        "    x = x + torch.rand(4, generator=g)\nx * 2"
    )
    with pytest.raises(UnsupportedError, match="random numbers of a generator of its own"):
        captured(text)


PLACELESS = {
    "an attribute": (
        "l = nn.Linear(4, 4)\nclass M(nn.Module):\n    def forward(self, x):\n"
        "        l.n = getattr(l, 'n', 0) + 1\n        return l(x) * l.n\nM()(torch.randn(4))", 4
    ),
    "a hook's": (
        "l = nn.Linear(4, 4)\ndef hook(m, given, y):\n    m.n = getattr(m, 'n', 0) + 1\n"
        "    return y * m.n\nl.register_forward_hook(hook)\nl(torch.randn(4))", 3
    ),
    "drawn": ("from random import random\nx = torch.randn(4)\ny = x\nfor i in range(2):\n"
              "    y = y * random()\ny", 5),
    "a list": ("c = d = [1.]\ndef f(x):\n    c.append(2.)\n    return x * len(c)\n"
               "f(torch.randn(4))", 3),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line"), PLACELESS.values(), ids=PLACELESS)
def test_what_a_program_changes_has_a_place(text: str, line: int) -> None:
    with pytest.raises(ImportFailure) as error:
        captured(text)
    assert error.value.place is not None
    assert error.value.place.line == line


def test_an_unnamed_object_is_named_by_its_type() -> None:
    text = (
        "class A:\n    def __init__(self):\n        self.n = 0\n    def __call__(self, x):\n"
        "        self.n += 1\n        return x * self.n\n"
        "def make():\n    a = A()\n    return lambda x: a(x)\nf = make()\n"
        "x = torch.randn(4)\ny = f(x)\nr = f(y)"
    )
    found = captured_or_why(text)
    if isinstance(found, ImportFailure):
        assert "_object_" not in str(found)
        assert found.place is not None
    else:
        torch.testing.assert_close(found, plain(text))


WITHIN = {
    "in a loop": "for i in range(2):\n    x = x * 2\n    {}\nr = x",
    "in a function": "def f(i, x):\n    {}\n    return x * 2\nr = f(2, f(1, x))",
}
PRINTED = {
    "a number": "print(f'{i}: {x.sum().item():.2f}')",
    "a format": "print('{:.3f}'.format(float(x.mean())))",
    "a percentage": "print('%d %.2f' % (i, x.mean()))",
    "a log": "log.info('%s', x.tolist())",
    "what goes on": "print(next(numbers), x.sum().item())",
}


@pytest.mark.parametrize("text", WITHIN.values(), ids=WITHIN)
@pytest.mark.parametrize("printed", PRINTED.values(), ids=PRINTED)
def test_printing_within_the_program_is_left_out(text: str, printed: str) -> None:
    made = "import logging\nlog = logging.getLogger('rv')\nnumbers = iter(range(9))\n"
    text = f"{made}x = torch.randn(4)\n{text.format(printed)}\nr = r + next(numbers)"
    found = captured_or_why(text)
    if isinstance(found, ImportFailure):  # of the iterator, in a function
        assert "numbers" in found.message
        assert "next" in printed
    else:
        torch.testing.assert_close(found, plain(text))


CONTEXTS = {
    "a class": (
        "class C:\n    n = 0\n    def __enter__(self):\n        self.n += 1\n"
        "        return self.n\n"
        "    def __exit__(self, *why):\n        self.n += 10\nc = C()", "c", "c.n"
    ),
    "a generator": (
        "from contextlib import contextmanager\nn = [0]\n@contextmanager\ndef c():\n    n[0] += 1\n"
        "    yield n[0]\n    n[0] += 10", "c()", "n[0]"
    ),
    "two": ("class C:\n    n = 0\n    def __enter__(self):\n        self.n += 1\n"
            "        return self.n\n    def __exit__(self, *why):\n        self.n += 10\nc = C()",
            "torch.no_grad(), c", "c.n"),
}  # fmt: skip


@pytest.mark.parametrize(("made", "context", "read"), CONTEXTS.values(), ids=CONTEXTS)
def test_a_context_of_the_script_is_entered_once(made: str, context: str, read: str) -> None:
    uses = f"with {context} as d:\n    y = y * {read}\n"
    text = f"{made}\nx = torch.randn(4)\ny = x + 1\n{uses}{uses}r = y * {read}"
    torch.testing.assert_close(captured(text), plain(text))


def test_a_context_may_redirect_what_is_printed_and_hide_errors() -> None:
    text = (
        "import io\nfrom contextlib import redirect_stdout, suppress\nout = io.StringIO()\nn = 1\n"
        "x = torch.randn(4)\nwith redirect_stdout(out):\n    print('abc')\n"
        "with suppress(KeyError):\n    n = {}['a']\n    n = 5\nr = x * len(out.getvalue()) * n"
    )
    torch.testing.assert_close(captured(text), plain(text))


LOOKED = {
    "a number": "m = r.mean().item()\nprint(f'{m:.2f}')",
    "an array": "a = r.detach().numpy()\nb = abs(a).max()\nprint('max', b)",
    "a list": "v = r.tolist()\nfor n in v:\n    print(n)",
    "a table": "t = {'m': r.mean().item()}\nfor k, n in t.items():\n    print(f'{k}: {n:.2f}')",
    "an iterator": "v = reversed(r.tolist())\nprint(max(v))",
    "an index": "i = r.argmax().item()\nprint('abcd'[i])",
    "an error": "e = (r - y * 2).abs().max().item()\nprint('error', e)\nassert e < 1",
    "an assertion": "torch.testing.assert_close(r, y * 2)",
    "a file": "with open('r.txt', 'w') as f:\n    for n in r:\n        f.write(str(n.item()))",
    "an item": "d = {}\nd['k'] = 1",
}


@pytest.mark.parametrize("looked", LOOKED.values(), ids=LOOKED)
def test_what_is_looked_at_is_no_result(looked: str) -> None:
    text = f"{USED}r = y * 2\n{looked}"
    torch.testing.assert_close(captured(text), plain(text))


READ = {
    "loaded": "torch.save(y, 'made')\nr = torch.load('made') * 2",
    "written": "f = open('made', 'w+')\nf.write(str(y.tolist()))\nr = y * f.tell()",
    "read": "with open('made', 'w') as f:\n    f.write('%d' % len(y))\n"
    "r = y * int(open('made').read())",
    "in a loop": "for i in range(2):\n    torch.save(y + i, 'made')\n"
    "    y = torch.load('made')\nr = y",
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of files that texts leave open
@pytest.mark.parametrize("text", READ.values(), ids=READ)
def test_what_is_saved_and_read_again_is_not_left_out(text: str) -> None:
    """The numbers are Python's, or a sentence says why there are none."""
    Path("made").write_text("7")
    found = captured_or_why(f"{USED}{text}")
    if isinstance(found, ImportFailure):
        assert found.place is not None
    else:
        torch.testing.assert_close(found, plain(f"{USED}{text}"))
    del found
    gc.collect()


def test_a_number_that_is_used_stays() -> None:
    text = f"{USED}n = 2.\nm = y.shape[0]\nc = torch.ones(4)\nr = y * m + c * float(n)\nprint(m)"
    torch.testing.assert_close(captured(text), plain(text))


def test_a_number_of_a_tensor_is_the_result_where_there_is_no_other() -> None:
    found: Any = captured("x = torch.randn(4)\ns = float(x.shape[0]) + x.sum()\ns")
    assert isinstance(found, torch.Tensor)


WRITTEN = {
    "out of a random one": "o = torch.empty(4)\ntorch.add(x, 1, out=o)",
    "out of a constant": "o = torch.zeros(4)\nfor i in range(3):\n    torch.add(o, x, out=o)",
    "a function": "o = x * torch.ones(4)\ntorch.relu_(o)",
    "in a loop": "o = torch.ones(4)\nfor i in range(3):\n    torch.neg_(o)\n    x = x * o",
    "a parameter": "w = nn.Parameter(torch.randn(4, 4) * .1)\no = x @ w",
}


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_what_functions_write_to_is_the_programs(text: str) -> None:
    text = f"x = torch.randn(4)\n{text}\nr = (o * x).detach()"
    torch.testing.assert_close(captured(text), plain(text))


@pytest.mark.parametrize("kind", ["object", "nn.Module"])
@pytest.mark.parametrize("made", ["", "a = 1.\n"], ids=["new", "changed"])
def test_a_method_does_not_read_what_the_program_computes(kind: str, made: str) -> None:
    method = "__call__" if kind == "object" else "forward"
    text = (
        f"{made}class M({kind}):\n    def {method}(self, x):\n        return x * a\n"
        "x = torch.randn(4)\na = x.mean()\nr = M()(x)"
    )
    with pytest.raises(ImportFailure, match="a method reads 'a', which the program computes"):
        captured(text)


UNSEEN = {
    "exec": ("k = 3", "exec('k = 5')", "k", "put it before the first computation"),
    "exec shown": ("k = 3", "print(exec('k = 5'), y)", "k", "text that runs here assigns 'k'"),
    "globals": ("k = 3", "globals()['k'] = 5", "k", "a variable by its name"),
    "a method": ("class A:\n    def m(self):\n        return y * 2\na = A()", "b = a.m()", "b",
                 "a method reads 'y', which the program computes"),
    "a method, alone": ("class A:\n    def m(self):\n        print(y)\na = A()",
                        "for i in range(2):\n    a.m()", "1", "a method reads 'y'"),
    "saved": ("import io\nb = io.BytesIO()", "torch.save(y, b)\nb.seek(0)", "torch.load(b)",
              "is saved here and files are read behind it"),
}  # fmt: skip


@pytest.mark.parametrize(("made", "act", "read", "why"), UNSEEN.values(), ids=UNSEEN)
def test_what_a_program_does_not_see_is_refused_in_a_sentence(
    made: str, act: str, read: str, why: str
) -> None:
    with pytest.raises(ImportFailure, match=why) as error:
        captured(f"{made}\n{USED}{act}\nr = y * {read}")
    assert error.value.place is not None
    assert error.value.place.line > 2


def test_what_exec_assigns_before_the_program_is_there() -> None:
    text = f"k = 3\nexec('k = 5')\n{USED}r = y * k"
    torch.testing.assert_close(captured(text), plain(text))

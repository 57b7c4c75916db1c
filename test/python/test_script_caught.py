"""Scripts that catch what they show, in another way than by its result, and compute with it."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from script_texts import USED, assert_as_python, captured, captured_or_why, plain

from dlc.frontend.scripts.capture import capture_text
from dlc.frontend.source import ImportFailure

OUT = (
    "import io, sys\nfrom contextlib import redirect_stdout, redirect_stderr\nout = io.StringIO()\n"
)
F = "def f(t):\n    print('abc')\n    return t * 2\n"
READ = "r = y * len(out.getvalue())"
WITH = "with redirect_stdout(out):\n"


@pytest.fixture(autouse=True)
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    logging.root.handlers.clear()
    logging.setLogRecordFactory(logging.LogRecord)


RIGHT = {
    "in a context": f"{OUT}{USED}{WITH}    print('abc', y.shape)\n{READ}",
    "before": f"{OUT}{WITH}    print('abc')\n{USED}{READ}",
    "in its own stream": f"{OUT}{USED}with redirect_stdout(io.StringIO()) as out:\n"
    f"    print('abc', y.shape)\n{READ}",
    "in a loop": f"{OUT}{USED}{WITH}    for i in range(3):\n        y = y + i\n"
    f"        print(i)\n{READ}",
    "of a function": f"{OUT}{F}{USED}{WITH}    y = f(y)\n{READ}",
    "in a function": f"{OUT}def f(t):\n    b = io.StringIO()\n    with redirect_stdout(b):\n"
    f"        print('hello')\n    return t * len(b.getvalue())\n{USED}r = f(y)",
    "by a hook": f"{OUT}m = nn.Linear(4, 4)\nm.register_forward_hook(lambda m, i, o: print('hi'))\n"
    f"{USED}{WITH}    y = m(y)\n{READ}",
    "of a main": f"{OUT}def main():\n    m = nn.Linear(4, 4)\n    x = torch.randn(4)\n"
    f"    print('hi')\n    return m(x)\n{WITH}    y = main()\n{READ}",
    "in a stack": f"from contextlib import ExitStack\n{OUT}{USED}with ExitStack() as s:\n"
    f"    s.enter_context(redirect_stdout(out))\n    print('abc')\n{READ}",
    "by its methods": f"{OUT}{USED}c = redirect_stdout(out)\nc.__enter__()\nprint('abc')\n"
    f"c.__exit__(None, None, None)\n{READ}",
    "of errors": f"{OUT}{USED}with redirect_stderr(out):\n"
    f"    print('abc', y.shape, file=sys.stderr)\n"
    f"    sys.stderr.write('d')\n{READ}",
    "by a writer": f"{OUT}class W:\n    n = 0\n    def write(self, t):\n        self.n += len(t)\n"
    f"    def flush(self):\n        pass\nw = W()\n{USED}with redirect_stdout(w):\n"
    "    print('abc', y.shape)\nr = y * w.n",
    "twice": f"{OUT}o = io.StringIO()\n{USED}{WITH}    print('a', y.shape)\n"
    "    with redirect_stdout(o):\n        print('bcd', y.shape)\n    print('e')\n"
    "r = y * (len(out.getvalue()) + 100 * len(o.getvalue()))",
    "warnings": "import warnings\ndef f(t):\n    warnings.warn('a')\n    return t * 2\n"
    f"{USED}with warnings.catch_warnings(record=True) as w:\n    warnings.simplefilter('always')\n"
    "    y = f(y)\nr = y * (1 + len(w))",
    "warnings in a loop": f"import warnings\n{USED}"
    "with warnings.catch_warnings(record=True) as w:\n"
    "    warnings.simplefilter('always')\n    for i in range(3):\n        y = y + i\n"
    "        warnings.warn('a')\nr = y * (1 + len(w))",
    "warnings that are errors": "import warnings\ndef f(t):\n    try:\n        warnings.warn('a')\n"
    f"    except UserWarning:\n        return t * 5\n    return t\n{USED}"
    "warnings.simplefilter('error')\nr = f(y)",
    "a replaced print": f"l = []\n{USED}def print(*a):\n    l.append(a)\nprint(y.shape)\n"
    "r = y * len(l)",
    "asserted warnings": "import warnings\ndef f(t):\n    warnings.warn('a')\n    return t * 2\n"
    f"{USED}with warnings.catch_warnings(record=True) as w:\n    warnings.simplefilter('always')\n"
    "    r = f(y)\nassert len(w) == 1\nprint(w[0].message)",
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_what_is_caught_is_what_python_shows(text: str) -> None:
    with warnings.catch_warnings():
        found = captured(text)
    with warnings.catch_warnings():
        torch.testing.assert_close(found, plain(text))


CAPTURE = (
    "class Capture:\n    def __enter__(self):\n        self.old = sys.stdout\n"
    "        sys.stdout = io.StringIO()\n        return sys.stdout\n"
    "    def __exit__(self, *a):\n        sys.stdout = self.old\n"
)
LOG = (
    "import logging\nclass H(logging.Handler):\n    def __init__(self):\n"
    "        super().__init__()\n        self.records = []\n    def emit(self, record):\n"
    "        self.records.append(record.getMessage())\nh = H()\nlog = logging.getLogger('rv.a')\n"
    "log.addHandler(h)\nlog.setLevel(logging.INFO)\n"
)
REFUSED = {
    "set": (f"{OUT}{F}sys.stdout = out\n{USED}y = f(y)\n{READ}", "in place of its streams"),
    "set in a context": (f"{OUT}{CAPTURE}{F}{USED}with Capture() as out:\n    y = f(y)\n{READ}",
                         "in place of its streams"),
    "a handler": (f"{LOG}{USED}log.info('%s', y.shape)\nr = y * len(h.records)", "logs is kept"),
    "in a loop": (f"{LOG}{USED}for i in range(3):\n    y = y + i\n    log.info('a')\n"
                  "r = y * len(h.records)", "logs is kept"),
    "in a function": (f"{LOG}def f(t):\n    log.info('a')\n    return t\n{USED}y = f(y)\n"
                      "r = y * len(h.records)", "logs is kept"),
    "a filter": ("import logging\nn = []\ndef fil(r):\n    n.append(1)\n    return False\n"
                 "log = logging.getLogger('rv.c')\nlog.addFilter(fil)\n"
                 f"{USED}log.warning('%s', y.shape)\nr = y * (1 + len(n))", "logs is kept"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "why"), REFUSED.values(), ids=REFUSED)
def test_what_no_program_catches_is_refused(text: str, why: str) -> None:
    with pytest.raises(ImportFailure, match=why) as error:
        captured(text)
    assert error.value.place is not None
    assert error.value.place.line > 4


SHOWN = {
    "a terminal and a file": f"{OUT}class L:\n    def __init__(self):\n"
    "        self.t = sys.stdout\n"
    "    def write(self, m):\n        self.t.write(m)\n    def flush(self):\n        pass\n"
    f"sys.stdout = L()\n{USED}print(y.sum().item())\nr = y * 2\nprint(r.mean().item())",
    "a log": "import logging, sys\nclass H(logging.Handler):\n    def emit(self, r):\n"
    "        sys.stderr.write(self.format(r))\nlog = logging.getLogger('rv.q')\n"
    f"log.addHandler(H())\nlog.setLevel(10)\n{USED}for i in range(2):\n    y = y + 1\n"
    "    log.info('%s', y.sum().item())\nr = y * 2",
    "what is caught": f"{OUT}{USED}{WITH}    print(y.sum().item())\n    r = y * 2\n"
    "print(out.getvalue())",
    "what is hidden": f"import os\n{OUT}{USED}"
    "with open(os.devnull, 'w') as f, redirect_stdout(f):\n"
    "    print(y.sum().item())\n    r = y * 2",
}


@pytest.mark.parametrize("text", SHOWN.values(), ids=SHOWN)
def test_what_is_caught_for_a_users_eyes_alone_is_left_out(text: str) -> None:
    torch.testing.assert_close(captured(text), plain(text))


def test_streams_are_put_back() -> None:
    import sys

    streams = sys.stdout, sys.stderr
    capture_text(f"{OUT}sys.stdout = sys.stderr = io.StringIO()\n{USED}r = y * 2")
    assert (sys.stdout, sys.stderr) == streams


HELD = {
    "a method's caller": ("m = operator.methodcaller('append', 4)", "m(l)"),
    "one for each": ("m = operator.methodcaller('append', 4)", "list(map(m, [l]))"),
    "a returned function": ("def make():\n    return lambda v: l.append(v)", "make()(3)"),
    "a returned method": ("make = lambda: l.append", "make()(3)"),
    "of an object": (
        "class A:\n    def get(self):\n        return l.append\na = A()",
        "a.get()(3)",
    ),
    "by name": ("", "operator.attrgetter('append')(l)(3)"),
    "a wrapper": ("c = l.append.__call__", "c(3)"),
    "one of two": ("", "(l.append if l else print)(3)"),
}


@pytest.mark.parametrize(("made", "called"), HELD.values(), ids=HELD)
def test_what_is_called_by_another_name_acts_where_it_is_shown(made: str, called: str) -> None:
    text = f"import operator\nl = [1]\n{made}\n{USED}print({called}, y)\nr = y * len(l)"
    found = captured_or_why(text)
    assert not isinstance(found, ImportFailure)
    torch.testing.assert_close(found, plain(text))


TEXTS = {
    "of a tensor": "return t * len(str(t))",
    "in a format": "return t * len(f'{t.sum()}')",
    "by a percentage": "return t * len('%s' % t)",
    "of a list": "return t * len(repr([t]))",
    "of a number": "return t * len(f'{t.sum().item():.3f}')",
    "read as a number": "return t * float(f'{t.sum().item():.3f}')",
    "searched": "return t * 3 if 'nan' in str(t) else t",
    "printed to a stream": "b = io.StringIO()\n    print(t, file=b)\n    return t * b.tell()",
    "caught": "b = io.StringIO()\n    with redirect_stdout(b):\n        print(t.sum().item())\n"
    "    return t * len(b.getvalue())",
}


@pytest.mark.parametrize("body", TEXTS.values(), ids=TEXTS)
def test_no_program_computes_with_the_text_of_a_tensor(body: str) -> None:
    with pytest.raises(ImportFailure, match="the text of a tensor is made of") as error:
        captured(f"{OUT}def f(t):\n    {body}\n{USED}r = f(y)")
    assert error.value.place is not None
    assert 4 < error.value.place.line < 8


TOLD = {
    "a message": "m = f'{t} {t.mean():.3f} {t.sum().item():.2f}'\n    print(m)\n    return t * 2",
    "of one width": "m = f'{t.sum().item():12.3f}'\n    return t * len(m)",
    "counted": "n = []\n    n.append(str(t))\n    return t * len(n)",
    "of a size": "return t * len(str(t.shape))",
    "of a dtype": "return t * len(f'{t.dtype}')",
}


@pytest.mark.parametrize("body", TOLD.values(), ids=TOLD)
def test_a_text_may_be_made_of_a_tensor_to_be_told(body: str) -> None:
    text = f"def f(t):\n    {body}\n{USED}r = f(y)"
    torch.testing.assert_close(captured(text), plain(text))


@pytest.mark.parametrize(
    "text",
    [
        f"import warnings\n{USED}with warnings.catch_warnings(record=True) as w:\n"
        "    warnings.simplefilter('always')\n    y = F.mse_loss(y[:, None], y)\n"
        "r = y * (1 + len(w))",
        f"import warnings\n{USED}warnings.simplefilter('error')\ntry:\n"
        "    y = F.mse_loss(y[:, None], y)\nexcept UserWarning:\n    y = y * 3\nr = y + 1",
    ],
    ids=["kept", "errors"],
)
def test_warnings_of_pytorchs_python_are_kept_and_a_note_tells_of_others(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():
        assert_as_python(text)
    assert "what PyTorch's kernels warn of is not known" in capsys.readouterr().err

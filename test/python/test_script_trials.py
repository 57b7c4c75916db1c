"""Scripts whose program asks the computer for what differs each time that it runs."""

from __future__ import annotations

import pytest
import torch

from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts.capture import capture_text
from dlc.frontend.source import ImportFailure

IMPORTS = "import contextvars, ctypes, hashlib, os, re, sys, time, uuid\n"
ASKED = {
    "a clock": ("", "time.perf_counter()"),
    "a clock by name": ("now = time.time_ns", "(now() % 1000003)"),
    "the system": ("", "os.urandom(4)[0] * 1.7 + int.from_bytes(os.urandom(4), 'little')"),
    "an identifier": ("", "(uuid.uuid4().int % 1000003)"),
    "a context": ("v = contextvars.ContextVar('v', default=1)\n"
                  "def f():\n    v.set(v.get() + 1)\n    return v.get()", "f()"),
    "a digest": ("h = hashlib.md5()\ndef f():\n    h.update(b'a')\n"
                 "    return h.digest()[0]", "f()"),
    "a scanner": ("s = re.compile('.').scanner('12345678')", "float(s.search()[0])"),
    "an array": ("v = (ctypes.c_int * 2)()\ndef f():\n    v[0] += 1\n    return v[0]", "f()"),
    "a setting": ("def f():\n    sys.setrecursionlimit(sys.getrecursionlimit() + 1)\n"
                  "    return sys.getrecursionlimit()", "f()"),
}  # fmt: skip
SAME = {
    "time told": "t = time.time()\n    print(time.time() - t)\n    return 2.0",
    "a path": "return float(len(os.path.join('a', 'b')))",
}


@pytest.mark.parametrize(("made", "asked"), ASKED.values(), ids=ASKED)
@pytest.mark.parametrize(
    "text",
    ["x = torch.randn(4)\nfor i in range(2):\n    x = x * {}\nr = x + 1",
     "def g(x):\n    return x * {}\nx = torch.randn(4)\nr = g(x)"],
    ids=["loop", "function"],
)  # fmt: skip
def test_what_differs_by_run_is_refused(text: str, made: str, asked: str) -> None:
    with pytest.raises(ImportFailure, match=r"^<command>:\d+:1: .*another number each time"):
        import_program(*capture_text(f"{IMPORTS}{made}\n{text.format(asked)}"))


@pytest.mark.parametrize("body", SAME.values(), ids=SAME)
def test_what_is_the_same_each_time_is_a_number(body: str) -> None:
    uses = "x = torch.randn(4)\nfor i in range(2):\n    x = x * f()\nx + 1"
    text = f"{IMPORTS}def f():\n    {body}\n{uses}"
    module, (x,) = capture_text(text)
    assert import_program(module, (x,)).results
    scale = 4.0 if "time" in body else 9.0
    torch.testing.assert_close(module(x), x * scale + 1)


def test_what_torch_compile_makes_is_not_run_without_data() -> None:
    backend = "def compiled(graph, given):\n    raise SystemExit('compiled')\n"
    text = f"{backend}torch.compile(lambda x: x + 1, backend=compiled)(torch.randn(4))"
    program, inputs = capture_text(text)
    import_program(program, inputs)

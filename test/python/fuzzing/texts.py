"""Texts of IR with something changed by chance: `dlc-opt` must answer each with a sentence."""

from __future__ import annotations

import contextlib
import io
import random
import re
import tempfile
from functools import cache
from pathlib import Path

from dlc.cli import dlc_opt
from dlc.passes import STEPS

FILES = Path(__file__).parents[2] / "filecheck"
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@#!^]?[\w.$-]+|\s+|.', re.DOTALL)
INJECTED = "#error injected"
NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "64",
    "4294967296",
    "-9223372036854775809",
    "1.5",
    "1e400",
)
WORDS = (
    "f32",
    "i1",
    "index",
    "memref<4xf32>",
    "tensor<0xf32>",
    "where",
    "%",
    "{",
    "}",
    "(",
    ")",
    ",",
)
HOSTILE = (
    rf"\0A{INJECTED}",
    rf"*/\0A{INJECTED}\0A/*",
    rf"\5C\0A{INJECTED}",
    rf"??/\0A{INJECTED}",
    *r"\22 \5C \00 \1B[31m ../ %s%n $(false) int é {".split(),
    "a b",
    "x" * 300,
)
"""Strings, as IR spells them, that code could be made of."""


@cache
def corpus() -> tuple[str, ...]:
    """The inputs of the FileCheck tests, without their comments or what a run of them wrote."""
    parts: list[str] = []
    for file in sorted(f for f in FILES.rglob("*.mlir") if f.parent.name != "Output"):
        text = re.sub(r"^\s*//(?! -----).*\n", "", file.read_text(), flags=re.MULTILINE)
        parts += [part for part in text.split("// -----") if part.strip()]
    return tuple(parts)


def random_text(rng: random.Random) -> str:
    """One of the corpus with one to four changes."""
    tokens = TOKEN.findall(rng.choice(corpus()))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _change(rng, tokens)
    return "".join(tokens)


def _change(rng: random.Random, tokens: list[str]) -> None:
    words = [n for n, token in enumerate(tokens) if not token.isspace()]
    if not words:
        return
    at, other = rng.choice(words), rng.choice(words)
    match rng.randrange(9):
        case 0:
            del tokens[at]
        case 1:
            tokens.insert(at, tokens[other])
        case 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        case 3:
            numbers = [n for n in words if re.fullmatch(r"-?\d+", tokens[n])]
            if numbers:
                tokens[rng.choice(numbers)] = rng.choice(NUMBERS)
        case 4:
            values = [n for n in words if tokens[n][0] == "%"]
            if values:
                tokens[rng.choice(values)] = tokens[rng.choice(values)]
        case 5:
            tokens[at] = rng.choice(WORDS)
        case 6:
            del tokens[min(at, other) : min(max(at, other), min(at, other) + 12)]
        case 7:
            strings = [n for n in words if tokens[n][0] == '"'] or [at]
            said = "".join(rng.choices(HOSTILE, k=rng.randint(1, 3)))
            tokens[rng.choice(strings)] = f'"{said}"'
        case _:
            token = tokens[at]
            place = rng.randrange(len(token) + 1)
            tokens[at] = (
                token[:place] + chr(rng.choice((0, 9, 34, 46, 92, 233, 0x1F600))) + token[place:]
            )


def random_passes(rng: random.Random) -> list[str]:
    """Arguments for `dlc-opt`."""
    names = [step.pass_name for step in STEPS]
    kind = rng.randrange(4)
    if kind == 0:
        return []
    if kind == 1:
        chosen = rng.sample([*names, "canonicalize", "cse", "dce"], rng.randint(1, 4))
        return ["-p", ",".join(chosen)]
    first = rng.randrange(len(names))
    if kind == 2:
        return ["-p", ",".join(names[first:])]
    return ["-p", ",".join(names[names.index("bind-axes") :]), "-t", "cuda"]


def answer(text: str, arguments: list[str]) -> str | None:
    """What is wrong with how `dlc-opt` answers; None if it is right."""
    with tempfile.NamedTemporaryFile("w", suffix=".mlir", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = dlc_opt.main([file.name, *arguments])
    said = err.getvalue()
    if code not in (0, 1):
        return f"exit code {code}"
    if code == 1 and "error: " not in said:
        return f"exit code 1 without an error: {said!r}"
    if "internal error" in said or "Traceback" in said:
        return said
    if "cuda" in arguments and re.search(rf"^\s*{INJECTED}", out.getvalue(), re.MULTILINE):
        return f"a string has become code:\n{out.getvalue()}"
    return None

"""
The programs of bench/measured.py, as data.

    python bench/measured_programs.py [--only REGEX]        # lists them

A program's name is `group/name`. Groups are in the order in which they are measured: what decides
most comes first, in case the time is spent before the end.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from choices import (
    Made,
    Program,
    causal,
    choices,
    full,
    matmul,
    of_function,
    of_halves,
    of_text,
    program_of,
)
from halves import BLOCKS, LINEARS, TOKENS
from kernel_programs import PROGRAMS as KERNELS

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docs"))

from tensor_cores import HOPPER, RUNGS, SIZE, linear


def ladder() -> Iterator[Program]:
    """The rungs of docs/tensor-cores.md, and what dlc chooses."""
    for chip, rungs in (("sm_80", RUNGS), ("sm_90", HOPPER)):
        for number, rung in enumerate(rungs, 1):
            square = (SIZE, SIZE)
            made = of_function(linear, square, square, dtype=rung.dtype)
            options: dict[str, Any] = {"schedules": {"linear": rung.schedule}}
            if rung.precision != "f32":
                options["precision"] = rung.precision
            name = f"ladder/{chip}.{number}. {rung.title}"
            yield Program(name, made, options, tf32=rung.precision == "tf32")
    for size in (4096, 8192):
        square = (size, size)
        half = of_halves(linear, square, square)
        yield Program(f"ladder/default.bf16.{size}", half)
        for precision in ("f32", "3xtf32", "tf32"):
            made = of_function(matmul, square, square)
            options = {"precision": precision}
            name = f"ladder/default.{precision}.{size}"
            yield Program(name, made, options, tf32=precision == "tf32")


def halves() -> Iterator[Program]:
    for name, (columns, k) in LINEARS.items():
        for tokens in TOKENS:
            made = of_halves(linear, (tokens, k), (columns, k))
            yield Program(f"halves/{name}.s{tokens}", made)


def attention() -> Iterator[Program]:
    for dtype in (torch.bfloat16, torch.float32):
        for width in (64, 128):
            for keys in (128, 512, 4096):
                shape = (1, 32, keys, width)
                for function in (full, causal):
                    name = str(dtype).removeprefix("torch.")
                    made = of_function(function, shape, shape, shape, dtype=dtype)
                    yield Program(f"attention/{name}.{width}.{keys}.{function.__name__}", made)
    for keys in (512, 2048, 8192):
        shapes = ((1, 32, 1, 64), (1, 32, keys, 64), (1, 32, keys, 64))
        made = of_halves(full, *shapes)
        yield Program(f"attention/bfloat16.64.{keys}.one-row", made)


MOST_SIZES = 2
"""Of one text of bench/kernel_programs.py."""


def kernels() -> Iterator[Program]:
    """The first sizes of each text of the table of operators."""
    seen: dict[str, int] = {}
    for program in KERNELS:
        text = program.name.partition(".")[0]
        seen[text] = seen.get(text, 0) + 1
        if seen[text] <= MOST_SIZES:
            yield Program(f"kernels/{program.name}", of_text(program.text))


def blocks() -> Iterator[Program]:
    """The first decoder layer of models on a prompt, of random weights."""
    for tokens in (1, 128, 512, 8, 64):
        for name, model in BLOCKS.items():
            for dtype in ("bf16", "f32"):
                make = partial(_layer, model, tokens, dtype)
                yield Program(f"blocks/{name}.{dtype}.s{tokens}", make)


def _layer(model: str, tokens: int, dtype: str) -> Made:
    from dlc.models.find import find as find_model
    from dlc.models.load import ModelOptions, load_model

    device = torch.get_default_device()
    has_data = device.type != "meta"
    options = ModelOptions(0, tokens, dtype=dtype, weights=has_data, random_weights=has_data)
    with torch.device("cpu"):
        layer, inputs = load_model(find_model(model), options)
    return layer.to(device).requires_grad_(False), tuple(t.to(device) for t in inputs)


GROUPS: dict[str, Callable[[], Iterator[Program]]] = {
    "ladder": ladder,
    "attention": attention,
    "halves": halves,
    "choices": choices,
    "kernels": kernels,
    "blocks": blocks,
}


def select(groups: Sequence[str] = (), only: str = "") -> list[Program]:
    """Those of some groups, or all, whose names a regular expression is found in."""
    chosen = groups or list(GROUPS)
    return [p for group in chosen for p in GROUPS[group]() if re.search(only, p.name)]


def find(name: str) -> Program:
    """By name; KeyError for an unknown one."""
    group = name.partition("/")[0]
    found = (program for program in GROUPS[group]() if program.name == name)
    if (program := next(found, None) or program_of(name, {})) is None:
        raise KeyError(name)
    return program


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--only", default="", metavar="REGEX")
    for program in select(only=parser.parse_args().only):
        print(program.name, program.options.get("schedules", ""))


if __name__ == "__main__":
    main()

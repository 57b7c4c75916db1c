"""Programs for all sizes that get their numbers somewhere on their way to Kernel IR."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from dlc.backend.executor import Executor, get_backend
from dlc.bound_kernels import program_at
from dlc.ir.verification import Verifier
from dlc.passes import steps_between
from dlc.pipeline import apply_step, text_of
from dlc.stages import compiler_context

EVERY = 1 if os.environ.get("DLC_PREFIX") else 9
"""A program gets its numbers at every ninth place (`make test`) or at all (`make prefix`)."""


def at_any_stage(
    module: ModuleOp, first: int, bind: Callable[[ModuleOp, int], None]
) -> Iterator[tuple[int, ModuleOp]]:
    """
    Kernel IR of a program that `bind(copy, turn)` gave numbers before one pass, or after the last,
    with the turn; the places begin at the pass `first` (modulo `EVERY`). Each module verifies after
    every pass, and where the program still is for all sizes each text of it parses to itself.
    """
    context, verifier, module = compiler_context(), Verifier(), module.clone()
    steps = steps_between("torch", "kernel")
    places = range(first % EVERY, len(steps) + 1, EVERY)
    before = text_of(module)
    for number in range(places[-1] + 1):
        if number in places:
            bound = module.clone()
            bind(bound, turn := places.index(number))
            bound.verify()
            assert "?" not in text_of(bound)
            for step in steps[number:] or steps[-1:]:  # what is planned for a size is so again
                apply_step(context, bound, step.pass_name, verifier)
            yield turn, bound
        if number < len(steps):
            apply_step(context, module, steps[number].pass_name, verifier)
            if (text := text_of(module)) != before:
                assert text_of(Parser(compiler_context(), text).parse_module()) == text
            before = text


def executor_at(kernels: ModuleOp, sizes: Mapping[str, int]) -> Executor:
    """The kernels for all sizes, on the host, for these."""
    return Executor(program_at(kernels, sizes), get_backend("host"))

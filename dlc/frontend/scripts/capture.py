"""
A PyTorch program from text, with random tensors as inputs, or all tensors where none is random.

Calls that make random tensors and modules are made, once, and become inputs and submodules; what
computes with them is the program, from the first such statement to the last.
`torch.relu(torch.randn(4) + 1)` is the program `torch.relu(x + 1)`.
"""

from __future__ import annotations

import ast
import linecache
import math
import sys
import tokenize
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from dlc.frontend.scripts.caught import own_streams
from dlc.frontend.scripts.lift import Lifter
from dlc.frontend.scripts.parts import place_at, place_in
from dlc.frontend.scripts.program_module import Program
from dlc.frontend.scripts.quiet_traces import SHOWS, shows
from dlc.frontend.scripts.script_live import Live
from dlc.frontend.scripts.script_result import program_of
from dlc.frontend.scripts.script_runs import Unseen
from dlc.frontend.scripts.script_shared import reads_by_any_name
from dlc.frontend.scripts.script_sizes import ScriptSizes
from dlc.frontend.scripts.script_state import StateChanged
from dlc.frontend.scripts.script_trials import tried
from dlc.frontend.scripts.script_turns import TURN, TURNS, turn, turns
from dlc.frontend.scripts.statements import Statements
from dlc.frontend.source import GRADIENTS, ImportFailure, Place, quote
from dlc.frontend.state.foreign import is_own
from dlc.frontend.state.process_state import ProcessState
from dlc.frontend.state.random import RandomTensors

AT_HAND = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "math": math}
"""What a text has without an import."""
AGAIN = (
    "the script has run {} times, since the program changes here what is made before it: what the "
    "script writes to files is written each time"
)

NOTHING = (
    "expected statements that compute tensors from tensors, such as `model(torch.randn(4, 8))`; "
    "found none"
)
WHATEVER = (
    "no tensor is made at random but what modules hold, so that the inputs are all tensors that "
    "the text makes"
)


class NothingRandom(ImportFailure):
    """
    A text makes no tensors at random, and computes nothing of such: `program` is what it computes
    of its modules alone, if it does.
    """

    program: Program | None = None


def capture_script(
    path: str | Path,
    seed: int = 0,
    arguments: Sequence[str] = (),
    sizes: Mapping[str, Collection[int]] = MappingProxyType({}),
) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """`capture_text` of a file, which may import what lies beside it."""
    try:
        with tokenize.open(path) as file:  # in the encoding that it declares
            text = file.read()
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None)
        why = why.lower() if why else error
        raise ImportFailure(f"expected a Python script: cannot read '{path}': {why}") from None
    beside = str(Path(path).resolve().parent)
    sys.path.insert(0, beside)
    try:
        return capture_text(text, str(path), seed, (str(path), *arguments), sizes)
    finally:
        sys.path.remove(beside)


def capture_text(
    text: str,
    filename: str = "<command>",
    seed: int = 0,
    argv: Sequence[str] = ("-c",),
    sizes: Mapping[str, Collection[int]] = MappingProxyType({}),
) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """
    The program that `text` is (`dlc.frontend.scripts.statements`), as a module and its example
    inputs.

    `torch`, `nn`, `F` and `math` are at hand, the random seed is `seed`, and `sys.argv` of the text
    is `argv`, its name and its arguments, as Python gives a script them. What the text reads of
    the dimensions in `sizes`, of inputs by name, is the program's. Parameters have the
    names of the module when the expression is one call of a module (`weight`), else they begin with
    the variable that holds the module (`mlp.gate.weight`). Raises ImportFailure for text that does
    not parse, that fails while it runs, or that computes no tensors from tensors.
    """
    lines = text.splitlines(keepends=True)
    linecache.cache[filename] = (len(text), None, lines, filename)
    try:
        tree = ast.parse(text, filename)
    except SyntaxError as error:
        place = place_in(filename, error.lineno or 1, error.offset or 1)
        raise ImportFailure(f"SyntaxError: {error.msg}", place) from None
    if not tree.body:
        raise ImportFailure(
            "expected a program: an expression that computes tensors, found no statement",
            Place(filename, 1, 1, ""),
        )
    live, first, of_modules = Live(), None, None
    whatever = reads = False
    states = ProcessState(tree).states(AT_HAND)
    undo = [state.undo for state in states.values() if state.undo is not None]
    known = {*sys.modules}
    while True:
        torch.manual_seed(seed)
        try:
            with ExitStack() as stack:
                if first is not None:  # what the text shows has been shown
                    stack.enter_context(redirect_stdout(StringIO()))
                    stack.enter_context(redirect_stderr(StringIO()))
                program, notes = _captured(
                    ast.parse(text, filename),
                    filename,
                    argv,
                    sizes,
                    live,
                    RandomTensors(whatever, reads),
                )
            for note in (*_ran_again(first, live), *notes):
                print(note, file=sys.stderr)
            return program
        except ImportFailure as error:
            first = first or error
            again = None
            if isinstance(error, NothingRandom) and not whatever:
                again, whatever, of_modules = Live(), True, error.program
            elif isinstance(error, Unseen) and not reads:
                again, reads = Live(), True
            elif isinstance(error, StateChanged) and not reads_by_any_name(tree):
                again = live.again(error)
            if again is None and of_modules is not None:
                return of_modules
            if again is None:
                for note in _ran_again(first, live):
                    print(note, file=sys.stderr)
                raise _of_gradients(first, tree, filename) or first from None
            live = again
            for one in undo:
                one()
            for name in [n for n in sys.modules if n not in known and is_own(n)]:
                del sys.modules[name]


def _of_gradients(error: ImportFailure, tree: ast.AST, filename: str) -> ImportFailure | None:
    """Where nothing is found of a text that trains, that it does so."""
    if not isinstance(error, Unseen) and error.message != NOTHING:
        return None
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            if call.func.attr == "backward":
                return ImportFailure(GRADIENTS, place_at(filename, call))
    return None


def _ran_again(first: ImportFailure | None, live: Live) -> Iterator[str]:
    """What is said of a text that has run more than once: what it does elsewhere is done again."""
    if first is not None and live.paths:
        yield quote(first.place, AGAIN.format(len(live.paths) + 1), "note: ")


def _captured(
    tree: ast.Module,
    filename: str,
    argv: Sequence[str],
    sizes: Mapping[str, Collection[int]],
    live: Live,
    random: RandomTensors,
) -> tuple[Program, list[str]]:
    """The program, and what is to be said of it."""
    hooks = {SHOWS: shows, TURN: turn, TURNS: turns}
    scope: dict[str, Any] = {"__name__": "__main__", "__file__": filename, **hooks, **AT_HAND}
    lifter = Lifter(filename, tree, scope, random, ScriptSizes(filename, tree, sizes), live=live)
    statements = Statements(lifter)
    with _arguments(argv), own_streams():
        statements.lift(tree.body)
    nothing = NothingRandom(NOTHING, place_at(filename, tree.body[-1]))
    if statements.result is None:
        if random.is_of_modules and not random.whatever:
            raise nothing
        raise (
            statements.functions.unseen
            or lifter.runs.unseen()
            or ImportFailure(NOTHING, place_at(filename, tree.body[-1]))
        )
    statements.settings.put_back()
    program = program_of(lifter, statements)
    if not program[0].is_tried:
        tried(*program)
    notes = [quote(None, WHATEVER, "note: ")] if random.whatever else []
    notes += lifter.runs.notes(lifter.inputs)
    if not lifter.inputs and random.is_of_modules and not random.whatever:
        nothing.program = program
        raise nothing
    return program, notes


@contextmanager
def _arguments(argv: Sequence[str]) -> Iterator[None]:
    saved, sys.argv = sys.argv, [*argv]
    try:
        yield
    finally:
        sys.argv = saved

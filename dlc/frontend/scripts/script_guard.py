"""The forward of a script's program, which must leave what was made before it as it is."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import torch

from dlc.frontend.scripts.parts import read_too_early
from dlc.frontend.scripts.quiet_traces import nothing_shown
from dlc.frontend.scripts.script_objects import described
from dlc.frontend.scripts.script_places import place_of_change, place_of_draw, place_of_name
from dlc.frontend.scripts.script_state import Covers, ScriptState, StateChanged, text_of
from dlc.frontend.scripts.script_trials import Trials, run
from dlc.frontend.scripts.script_turns import turns_counted
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.module_attributes import attributes_put_back
from dlc.frontend.state.process_state import ProcessState
from dlc.frontend.state.tracers import is_traced

MADE_BEFORE = (
    "which is made before it: its kernels would not, and what was read of it is not what it is "
    "then; return the new value, or make it after the random tensors that it depends on"
)


def guarded(
    forward: Callable[..., Any],
    variables: Mapping[str, Any],
    filename: str,
    tree: ast.AST,
    process: ProcessState,
    trials: Trials | None = None,
    assigned: Collection[str] = (),
    covers: Covers = lambda owner, name, is_variable: False,
) -> Callable[..., Any]:
    """
    The forward of a program. Where it is traced, StateChanged if it changes what there was before
    it and is not covered, as its kernels would not, and what the script read of it then is not what
    it would read; ImportFailure for what there is beside variables; or, with `trials`, if it does
    not do the same each time. A method cannot read what the program has `assigned`.
    """

    def check(state: ScriptState) -> None:
        if (path := state.change(covers)) is not None:
            text = text_of(path)
            place = place_of_change(text, filename, tree)
            what = f"the program changes {described(text, variables)}, {MADE_BEFORE}"
            raise StateChanged(path, what, place)

    @functools.wraps(forward)
    def checked(*args: Any) -> Any:
        compiled = torch.compiler.is_dynamo_compiling()  # whose graph a question would break
        if not torch.compiler.is_exporting() and (compiled or not is_traced(args, {})):
            return forward(*args)
        state = ScriptState(variables, process=process)
        try:
            counted = turns_counted(partial(check, state))
            with nothing_shown(), counted, attributes_put_back(covers):
                result = run(forward, args, trials)
        except NameError as error:
            if error.name is None or error.name not in assigned:
                raise
            raise read_too_early(error.name) from error
        check(state)
        if (name := state.beside()) is not None:
            raise _beside_changed(name, variables, filename, tree)
        return result

    return checked


def _beside_changed(
    name: str, variables: Mapping[str, Any], filename: str, tree: ast.AST
) -> ImportFailure:
    """What is said where a program changes something that no variable of the script holds."""
    if name in ("random", "numpy.random"):
        return ImportFailure(
            f"the program changes what '{name}' draws next, as its kernels would not: they "
            "would have the numbers of its first run; draw them before it, or with torch.rand",
            place_of_draw(name, variables, filename, tree),
        )
    if name == "torch":
        return ImportFailure(
            "the program seeds what 'torch' draws next, as its kernels would not; seed it before "
            "the random tensors",
            place_of_name(tree, filename, "manual_seed", "seed", "set_rng_state"),
        )
    what = name.rpartition(".")[2].removesuffix("()")
    return ImportFailure(
        f"the program changes what '{name}' is, as its kernels would not, and what was read of it "
        "is not what it is then; change it before the random tensors",
        place_of_name(tree, filename, what.replace("get_", "set_", 1), what)
        or place_of_change(name, filename, tree),
    )

"""
The standard pipeline: from Torch IR to Kernel IR, pass by pass.

This list is dlc's own; passes that stand apart from it are below, and plug-ins place theirs between
(`dlc.plugins`). A pass is a file of its own in the folder of its IR, and the names are one:
`stage-inputs` is `StageInputsPass` in `dlc.transforms.tile.stage_inputs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal, get_args

from dlc import plugins
from dlc.plugin_sources import PluginError, said
from dlc.plugins import DLC

Stage = Literal["torch", "tensor", "loop", "tile", "kernel"]
Printed = Stage | Literal["cuda"]

STAGES: tuple[Stage, ...] = get_args(Stage)
PRINTED: tuple[Printed, ...] = (*STAGES, "cuda")
"""What a program can be printed as."""

PIPELINE: tuple[tuple[str, str], ...] = (
    # Torch IR -> Tensor IR: what is computed
    ("d:001", "decompose-torch"),  # ATen operations as elementwise, reduce, index_map, gather
    ("d:002", "unflatten-dimensions"),  # what runs over joined sizes runs over each
    ("d:003", "compose-index-maps"),  # chains of reshapes, slices, pads become one map
    ("d:004", "fold-constants"),  # scalars move into the bodies that use them
    # Tensor IR -> Loop IR: which operations share a kernel
    ("l:001", "lift-to-loops"),  # one loop nest per operation, maps dissolve into subscripts
    ("l:002", "canonicalize-loops"),  # loads, selects and axes in their simplest form
    ("l:003", "hoist-invariants"),  # invariant work moves out, equal work is done once
    ("l:004", "reuse-results"),  # what is computed twice is computed once
    ("l:005", "keep-dimensions"),  # what is copied with dimensions of 1 is stored with them
    ("l:006", "update-in-place"),  # what is written back to an argument is computed there
    ("l:007", "reorder-sums"),  # what is summed over windows is summed before it is multiplied
    ("l:008", "fuse-loops"),  # kernels merge where that is faster
    ("l:009", "join-dimensions"),  # what readers take as one dimension is stored as one
    ("l:010", "add-parts"),  # a fold adds up what blocks that share K have of a product
    ("l:011", "split-factors"),  # factors of f32 are laid out in parts, where that is asked for
    ("l:012", "pack-operands"),  # operands that lie against the grain are laid out first
    ("l:013", "fold-in-parts"),  # folds of what a product gives begin where its sums are
    ("l:014", "flatten-places"),  # places of windows are one axis, wherever rows end
    ("l:015", "share-kernels"),  # what does the same is one kernel, launched again
    ("l:016", "schedule-kernels"),  # each kernel gets its schedule, which the next sixteen obey
    # Loop IR -> Tile IR: blocks, threads, shared memory, registers
    ("t:001", "tileify"),  # free loops become thread axes
    ("t:002", "chunk-matmul-k"),  # K becomes K-outer x K-inner
    ("t:003", "split-matmul-k"),  # K-outer becomes a grid axis
    ("t:004", "cooperative-reduce"),  # threads share a reduce
    ("t:005", "blockify-launch"),  # free axes become block x thread x serial
    ("t:006", "chunk-reduce"),  # other reduces are chunked
    ("t:007", "stage-inputs"),  # slabs move into shared memory
    ("t:008", "register-tile"),  # serial axes become register axes
    ("t:009", "permute-register-tile"),  # the register strip avoids bank conflicts
    ("t:010", "double-buffer"),  # stages become rings
    ("t:011", "tma-copy"),  # rings are filled by the tensor memory accelerator
    ("t:012", "split-inner-for-swizzle"),  # and swizzled
    ("t:013", "async-copy"),  # the other rings are filled by cp.async
    ("t:014", "pad-smem"),  # strides of shared buffers are padded
    ("t:015", "pipeline-k-outer"),  # the next chunk is requested before this one is used
    ("t:016", "mark-unroll"),  # small loops unroll
    # Tile IR -> Kernel IR: hardware primitives
    ("k:001", "bind-axes"),  # axes become block and thread numbers
    ("k:002", "lower-stages"),  # stages and rings become buffers, copies and waits
    ("k:003", "lower-reduces"),  # reduces become loops with accumulators, combines shuffles
    ("k:004", "lower-registers"),  # register axes become local arrays and unrolled loops
    ("k:005", "place-barriers"),  # threads wait where the order of their accesses matters
    ("k:006", "vectorize-accesses"),  # runs of elements become 16-byte accesses
    ("k:007", "eliminate-dead-code"),  # what nobody needs goes
    ("k:008", "sink-expressions"),  # what is one expression stands together
    ("k:009", "join-launches"),  # what reads the same runs in one launch
    ("k:010", "plan-buffers"),  # launches get memory: one workspace, used again and again
)

CHOOSING = "schedule-kernels"
"""The pass that chooses schedules, under whose name a choice is remarked wherever it is made."""
JOINING = "join-launches"
"""The pass after which the kernels of a program are those that are launched."""
OVERLAPPING = "overlap-launches"
"""The pass after which kernels wait for those ahead of them by themselves."""
FIRST_STEP = "tileify"
"""With which every schedule begins."""

_LETTERS: dict[str, Stage] = {"d": "tensor", "l": "loop", "t": "tile", "k": "kernel"}


@dataclass(frozen=True)
class Step:
    """A pass at its place in the pipeline; its dump is called `t:007_stage_inputs`."""

    number: str
    pass_name: str
    is_scheduling: bool = False
    """True if schedules may name it."""

    @property
    def name(self) -> str:
        return f"{self.number}_{self.pass_name.replace('-', '_')}"

    @property
    def stage(self) -> Stage:
        """The IR that this step works towards."""
        return _LETTERS[self.number[0]]

    @property
    def location(self) -> tuple[str, str]:
        """The module and the class of one of dlc's passes."""
        words = self.pass_name.split("-")
        module = f"dlc.transforms.{self.stage}.{'_'.join(words)}"
        return module, "".join(word.capitalize() for word in words) + "Pass"


STEPS: tuple[Step, ...] = tuple(
    Step(number, name, number.startswith("t")) for number, name in PIPELINE
)
"""dlc's own."""

APART: tuple[Step, ...] = (
    Step("d", "specialize"),  # names of sizes become numbers
    Step("l", "join-reduces"),  # sums side by side that share an operand are one reduce
    Step("l", "nest-loops"),  # a reduce stands inside the axes that it varies along
    Step("l", "join-cascades"),  # a sum of powers of e is folded with the largest exponent
    Step("l", "take-lengths"),  # masks that compare with numbers from memory are conditions
    Step("l", "take-reciprocals"),  # what a sweep divides by is inverted before it
    Step("l", "sink-epilogues"),  # what no reduce needs stands after the last one
    Step("k", OVERLAPPING),  # kernels begin before the ones ahead of them end
)
"""
Passes for `dlc-opt`; `specialize` is of programs for all sizes, too, `overlap-launches` of those
that generate text or are compiled with `overlap`. What the others do, `fuse-loops` does to each
kernel that it merges, and a kernel that `lift-to-loops` makes holds one reduce, which needs none.
"""


def _register() -> None:
    for before, step in zip([None, *STEPS], STEPS, strict=False):
        add = DLC.scheduling_step if step.is_scheduling else DLC.module_pass
        add(step.pass_name, ":".join(step.location), after=before and before.pass_name)
    for step in APART:
        DLC.module_pass(step.pass_name, ":".join(step.location))


_register()


def steps() -> tuple[Step, ...]:
    """The standard pipeline with the passes that plug-ins have placed in it."""
    plugins.load_all()
    while True:  # a plug-in whose pass is wrong is left out as a whole
        version = plugins.PASSES.version
        found = _steps(version)
        if version == plugins.PASSES.version:
            return found


@lru_cache(maxsize=1)
def _steps(version: int) -> tuple[Step, ...]:
    found = list(STEPS)
    for name in plugins.PASSES.foreign():
        placed = plugins.PASSES.get(name)
        if placed is not None and (placed.after or placed.before) and _is_fit(name, placed):
            _place(found, name, placed)
    return tuple(found)


def _is_fit(name: str, placed: plugins.Placed) -> bool:
    """True if there is such a pass; else its plug-in is left out."""
    from xdsl.passes import ModulePass  # which a plug-in has loaded

    try:
        made = plugins.resolve(plugins.PASSES, name)
    except PluginError as error:
        _refuse(name, f"its pass '{name}' cannot be loaded: {said(error.__cause__ or error)}")
        return False
    kind = "SchedulingPass" if placed.is_step else "ModulePass"
    if not (isinstance(made, type) and issubclass(made, ModulePass)) or (
        placed.is_step and not hasattr(made, "rewrite_tile")
    ):
        _refuse(name, f"its pass '{name}' is no {kind}: {made!r}")
        return False
    if made.name != name:
        _refuse(name, f"its pass '{name}' has another name in its class: '{made.name}'")
        return False
    return True


def _place(found: list[Step], name: str, placed: plugins.Placed) -> None:
    """Inserts a plug-in's pass; the plug-in is left out if there is no such place."""
    near = placed.after or placed.before
    at = next((n for n, step in enumerate(found) if step.pass_name == near), None)
    if at is None:
        _refuse(name, f"its pass '{name}' is placed next to '{near}', and there is no such pass")
        return
    letter = found[at].number[0]
    if placed.is_step and not (found[at].is_scheduling and placed.before != FIRST_STEP):
        last = last_step("tile", STEPS).pass_name
        _refuse(name, f"its step '{name}' has to stand between {FIRST_STEP} and {last}, or after")
        return
    if placed.after is not None:
        at += 1
        while at < len(found) and found[at].pass_name in _placed_after(near):
            at += 1
    own = [step.number for step in found[:at] if step in STEPS and step.number[0] == letter]
    base = own[-1] if own else f"{letter}:000"
    count = sum(step.number.startswith(f"{base}.") for step in found)
    found.insert(at, Step(f"{base}.{count + 1}", name, placed.is_step))


def _placed_after(near: str | None) -> set[str]:
    """The passes that plug-ins have placed after another."""
    return {name for name in plugins.PASSES.foreign() if plugins.PASSES[name].after == near}


def _refuse(name: str, why: str) -> None:
    plugin = plugins.PASSES.owner(name)
    assert plugin is not None
    plugins.refuse(plugin, plugins.PASSES.place(name), why)


def last_step(stage: Stage, among: Sequence[Step] | None = None) -> Step:
    """The last step that works towards an IR."""
    return [step for step in among or steps() if step.stage == stage][-1]


def step_before(name: str) -> Step:
    """The step that runs before another."""
    return next(step for step, after in pairwise(steps()) if after.pass_name == name)


def steps_between(start: Stage, end: Stage) -> tuple[Step, ...]:
    """The steps that take a module of IR `start` to IR `end`; ValueError if `end` is earlier."""
    from dlc.diagnostics import did_you_mean, with_hint  # loads xDSL, which `dlc --help` does not

    if end not in STAGES:
        error = ValueError(f"expected one of {', '.join(STAGES)} as the IR, found '{end}'")
        raise with_hint(error, did_you_mean(end, STAGES))
    first, last = STAGES.index(start), STAGES.index(end)
    if last < first:
        later = " or ".join(STAGES[first:])
        error = ValueError(f"expected a module of the {end} IR or an earlier one, found {start} IR")
        raise with_hint(error, f"ask for {later}")
    return tuple(step for step in steps() if first < STAGES.index(step.stage) <= last)

"""
The standard pipeline: from Torch IR to Kernel IR, pass by pass.

This list is the only one; passes that stand apart from it are below. A pass is a file of its own
in the folder of its IR, and the names are one: `stage-inputs` is `StageInputsPass` in
`dlc.transforms.tile.stage_inputs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Stage = Literal["torch", "tensor", "loop", "tile", "kernel"]
Printed = Stage | Literal["cuda"]

STAGES: tuple[Stage, ...] = get_args(Stage)
PRINTED: tuple[Printed, ...] = (*STAGES, "cuda")
"""What a program can be printed as."""

PIPELINE: tuple[tuple[str, str], ...] = (
    # Torch IR -> Tensor IR: what is computed
    ("d:001", "decompose-torch"),  # ATen operations as elementwise, reduce, index_map, gather
    ("d:002", "compose-index-maps"),  # chains of reshapes, slices, pads become one map
    ("d:003", "fold-constants"),  # scalars move into the bodies that use them
    # Tensor IR -> Loop IR: which operations share a kernel
    ("l:001", "lift-to-loops"),  # one loop nest per operation, maps dissolve into subscripts
    ("l:002", "canonicalize-loops"),  # loads, selects and axes in their simplest form
    ("l:003", "hoist-invariants"),  # invariant work moves out, equal work is done once
    ("l:004", "update-in-place"),  # what is written back to an argument is computed there
    ("l:005", "fuse-loops"),  # kernels merge where that is faster
    ("l:006", "share-kernels"),  # what does the same is one kernel, launched again
    ("l:007", "schedule-kernels"),  # each kernel gets its schedule, which the next sixteen obey
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
    ("k:009", "plan-buffers"),  # launches get memory: one workspace, used again and again
)

CHOOSING = "schedule-kernels"
"""The pass that chooses schedules, under whose name a choice is remarked wherever it is made."""

_LETTERS: dict[str, Stage] = {"d": "tensor", "l": "loop", "t": "tile", "k": "kernel"}


@dataclass(frozen=True)
class Step:
    """A pass at its place in the pipeline; its dump is called `t:007_stage_inputs`."""

    number: str
    pass_name: str

    @property
    def name(self) -> str:
        return f"{self.number}_{self.pass_name.replace('-', '_')}"

    @property
    def stage(self) -> Stage:
        """The IR that this step works towards."""
        return _LETTERS[self.number[0]]

    @property
    def location(self) -> tuple[str, str]:
        """The module and the class of the pass."""
        words = self.pass_name.split("-")
        module = f"dlc.transforms.{self.stage}.{'_'.join(words)}"
        return module, "".join(word.capitalize() for word in words) + "Pass"


STEPS: tuple[Step, ...] = tuple(Step(*entry) for entry in PIPELINE)

APART: tuple[Step, ...] = (
    Step("l", "join-contractions"),  # sums side by side that share an operand are one reduce
    Step("l", "nest-loops"),  # a reduce stands inside the axes that it varies along
    Step("l", "join-cascades"),  # a sum of powers of e is folded with the largest exponent
    Step("l", "take-reciprocals"),  # what a sweep divides by is inverted before it
    Step("l", "sink-epilogues"),  # what no reduce needs stands after the last one
)
"""
Passes for `dlc-opt`, of no default compilation: `fuse-loops` does the same to each kernel that it
merges, and a kernel that `lift-to-loops` makes holds one reduce, which needs none of them.
"""


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
    return tuple(step for step in STEPS if first < STAGES.index(step.stage) <= last)

"""
What a trace holds, in plain data: `as_json` of it is what the script of the page reads.

Lines of a text are counted from 0. A *section* of a module's text is a kernel, by its name, or what
is outside of all kernels, which has the name `""`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"


@dataclass(frozen=True)
class Pane:
    """A program in one of its forms."""

    ir: str
    """`python`, an IR as `--ir` calls it, or `sass`."""
    lines: Sequence[str]
    links: Sequence[Sequence[int]]
    """For each line, the lines of the pane before this one that it is made of."""
    sections: Mapping[str, tuple[int, int]]
    """The first line of each kernel, and the one behind its last."""


@dataclass(frozen=True)
class Edit:
    """In a section as it was, the lines from `begin` to before `end` become `lines`."""

    begin: int
    end: int
    lines: Sequence[str]


@dataclass(frozen=True)
class Said:
    """What a pass says that it did to a kernel, or why it declined."""

    kernel: str
    text: str
    declined: bool


@dataclass(frozen=True)
class Verdict:
    """What validation says of the program behind a pass."""

    text: str
    wrong: bool


@dataclass(frozen=True)
class Pass:
    """A pass at its place in the pipeline."""

    name: str
    """As in dumps: `t:007_stage_inputs`."""
    summary: str
    """The first sentence on what it does."""
    seconds: float
    remarks: Sequence[Said]
    edits: Mapping[str, Sequence[Edit]]
    """Of each section that is changed. One that was not there before was empty."""
    verdict: Verdict | None = None
    """None where nobody asked."""


@dataclass(frozen=True)
class Access:
    """An execution of a line of Kernel IR by a thread, which shows a hazard."""

    line: int
    text: str


@dataclass(frozen=True)
class Hazard:
    """What the checker found at a line of Kernel IR."""

    line: int
    text: str
    accesses: Sequence[Access]


@dataclass(frozen=True)
class Checked:
    """What the checker says of a kernel."""

    answer: str
    """`clean`, `hazard` or `not checked`."""
    notes: Sequence[str]
    """What was left out, and why."""
    hazards: Sequence[Hazard]


@dataclass(frozen=True)
class Owners:
    """How an output is cut, by its last two dimensions: in blocks, and the tile of its corner."""

    name: str
    shape: Sequence[int]
    """Rows and columns of the output."""
    block: Sequence[int]
    """Rows and columns of what a block stores."""
    threads: Sequence[Sequence[int]]
    """The number of the thread for each element of the tile's first corner; -1 for none."""
    places: Sequence[Sequence[int]]
    """And which of the thread's elements it is, in the order of its register and serial axes."""
    held: int
    """The elements of a thread, those outside of the output too."""
    number: int
    """Of the block that stores the first corner, whose tile this is."""
    corners: Sequence[tuple[int, int, int]]
    """The number, first row and first column of each of the first blocks whose tile is in the first
    matrix, if the output is several."""


@dataclass(frozen=True)
class Bank:
    """An access of shared memory by the first warp, in the first iteration of all loops."""

    text: str
    line: int
    """Of the Kernel IR."""
    ways: float
    """Times that the access takes as long as one without conflicts."""
    lanes: Sequence[int]
    """The bytes of the buffer at which each lane begins."""
    width: int
    """Bytes of a lane."""


@dataclass(frozen=True)
class Ring:
    """Slots in shared memory for the chunks that a loop works through."""

    name: str
    depth: int
    """The number of its slots."""
    chunks: int
    kind: str
    """`async` or `tma`; empty where the threads themselves copy."""


@dataclass(frozen=True)
class Stay:
    """A chunk in a slot of a ring. Times are turns of the loop, from the kernel's begin on."""

    ring: str
    chunk: int
    slot: int
    filled: float
    """When it is requested."""
    acquired: float
    """When it is waited for; -1 for later than is drawn."""
    released: float


@dataclass(frozen=True)
class Pipeline:
    """The first turns of a kernel that works on rings."""

    turns: int
    """As many are told of."""
    end: float
    """The time at their end."""
    rings: Sequence[Ring]
    stays: Sequence[Stay]


@dataclass(frozen=True)
class Cost:
    """What `--explain` predicts of a launch."""

    flops: float
    bytes: float
    seconds: float


@dataclass(frozen=True)
class LineCost:
    """What a line of Kernel IR costs, as often as a thread executes it."""

    slots: float
    """Issue slots of a thread."""
    bytes: float
    """Of global memory that a warp touches, in whole sectors."""
    wavefronts: float
    """Of shared memory, of a warp."""
    ways: float
    """Times that its access of shared memory takes as long as one without conflicts; 0 for none."""
    registers: int
    """Words of local arrays that a thread holds there."""


@dataclass(frozen=True)
class Fragment:
    """How the lanes of a warp, or the threads of a warpgroup, hold a matrix."""

    name: str
    """`A`, `B` or `C`, which has the shape and the place of the sums."""
    columns: int
    """All of them: the first ones are drawn, the others follow alike."""
    lanes: Sequence[Sequence[int]]
    """For each row and column the lane that holds the element."""
    places: Sequence[Sequence[int]]
    """And where in its vector."""


@dataclass(frozen=True)
class Product:
    """A product of matrices that a warp or a warpgroup computes at once, on tensor cores."""

    shape: str
    """As in the IR: `m16n8k16, bf16`."""
    line: int
    """The first of its lines in the Kernel IR."""
    ops: int
    """The number of its operations in the Kernel IR."""
    lanes: int
    """32 of a warp, or the 128 threads of a warpgroup."""
    fragments: Sequence[Fragment]
    """A, B and C; of a warpgroup C alone."""
    shared: Sequence[str]
    """Where a warpgroup's A and B lie, in words; nothing of a warp."""


@dataclass(frozen=True)
class Measured:
    """What a launch of a kernel took where it ran."""

    seconds: float
    """Of a launch, the mean of all."""
    launches: int
    """As many were measured."""
    counters: Mapping[str, float | str]
    """What else was counted, by its name; nothing where nobody counted."""


@dataclass(frozen=True)
class Measurement:
    """Where kernels were measured."""

    how: str
    """Such as `dlc run on host`."""
    kernels: Mapping[str, Measured]


@dataclass(frozen=True)
class Tried:
    """A schedule that a tuning judged."""

    number: int
    """In the order in which they were tried; 0 is the default."""
    text: str
    """What it states otherwise than the default."""
    estimate: float
    """Seconds; -1 where there is none."""
    seconds: float
    """By the objective; -1 where it was refused."""
    again: bool
    """True if it was measured beside others, at the end."""
    refusal: str


@dataclass(frozen=True)
class Candidates:
    """What a kernel's schedule was preferred to."""

    chosen: str
    """Why it has this schedule."""
    lost: Sequence[str]
    """What the estimate put behind it, as `--explain` has it."""
    objective: str = ""
    """What a tuning judged by; empty where there was none."""
    tried: Sequence[Tried] = ()
    """The best first."""


@dataclass(frozen=True)
class Axis:
    """An axis of a kernel of the Tile IR: `thread(%ti in 16)`."""

    kind: str
    name: str
    extent: int


@dataclass(frozen=True)
class Kernel:
    """A kernel of the Kernel IR."""

    name: str
    launches: int
    ops: Sequence[str]
    """The operations of the program that it does: `1 matmul.default`."""
    schedule: str
    grid: int
    block: int
    shared_bytes: int
    seconds: float
    """Of a launch, as `--explain` predicts it, or of its Kernel IR where the program began later;
    -1 where it does not fit on an SM."""
    figures: Mapping[str, float]
    """What a thread or a warp executes, by the names of `instruction_counts.Counts`."""
    machine: Mapping[str, float]
    """Of its machine code, where that is shown: see `dlc.trace.machine_code.figures_of`."""
    lines: Mapping[str, LineCost]
    """By the line of the Kernel IR, of those that cost something."""
    blocks_per_sm: int
    """As many are on an SM at once, if registers are what the estimate guesses."""
    axes: Sequence[Axis]
    """Of its Tile IR; none where the program began as Kernel IR."""
    owners: Owners | None
    pipeline: Pipeline | None
    """None for a kernel without rings, or that began as Kernel IR."""
    banks: Sequence[Bank]
    products: Sequence[Product]
    cost: Cost | None
    """None where no Loop IR of the kernel was there to predict from."""
    checked: Checked | None
    """None where nobody asked."""
    candidates: Candidates | None
    """None where its schedule was there from the start."""
    measured: Measured | None
    """None where nobody measured it."""


@dataclass(frozen=True)
class Block:
    """A tensor between kernels, in the workspace from byte `offset` on."""

    name: str
    offset: int
    bytes: int
    first: int
    """The launch that it is used by first, and the last one."""
    last: int


@dataclass(frozen=True)
class Memory:
    """The launches of a call in order, and where what is between them lies."""

    launches: Sequence[str]
    """The names of kernels; a loop's are those of one turn."""
    workspace: int
    """Bytes."""
    results: int
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Chip:
    """What the page tells of the chip."""

    name: str
    sms: int
    memory_bandwidth: float
    roofs: Mapping[str, float]
    """Operations a second at most, by what computes them: the lowest first."""


@dataclass(frozen=True)
class Grammar:
    """The words of the dialects of the panes, as texts have them."""

    operations: Sequence[str]
    attributes: Sequence[str]
    """With their mark, `#` or `!`."""
    keywords: Sequence[str]


@dataclass(frozen=True)
class Trace:
    """All of a page."""

    title: str
    version: str
    chip: Chip
    panes: Sequence[Pane]
    passes: Sequence[Pass]
    kernels: Sequence[Kernel]
    memory: Memory | None
    """None for a program whose buffers are not planned, or that launches nothing."""
    shown: str
    """The kernel that is shown first; empty where there is none."""
    validated: str
    """What the runs of the program between its passes have shown; empty where nobody asked."""
    measured: str
    """Where kernels were measured; empty where they were not."""
    grammar: Grammar


def as_json(value: object) -> Json:
    """Data classes as objects with their fields, all else as JSON has it."""
    if is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, str | bool | int | float) or value is None:
        return value
    if isinstance(value, Sequence):
        return [as_json(item) for item in value]
    raise TypeError(f"a trace holds no {type(value).__name__}")

"""Parts of inputs that a block reads more than once are fetched into shared memory first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, ModuleOp

from dlc.analysis.tile.input_slabs import Slab, slabs_of
from dlc.analysis.tile.operands import computed_operands
from dlc.analysis.tile.tile_state import tile_state
from dlc.dialects import tile
from dlc.ir.elements import ELEMENTS
from dlc.ir.monoid import POWERS
from dlc.registry import OptionError
from dlc.target import MAX_THREADS, target_of
from dlc.transforms.step import Decline, Misplaced, SchedulingPass
from dlc.transforms.step_space import Domain, Situation, Value
from dlc.transforms.tile.staging.masked_scores import mask_scores
from dlc.transforms.tile.staging.scores import compute_row_sums, compute_scores, told
from dlc.transforms.tile.staging.slab_loads import compute, stage
from dlc.transforms.tile.staging.zero_guards import drop_guards_of_zeros


@dataclass(frozen=True)
class StageInputsPass(SchedulingPass):
    """
    Slabs of inputs that a block reads more than once are fetched into shared memory first, and what
    is computed of them more than once is computed once.

    *Legal when* a subscript is a sum of a part that is fixed where the slab is staged and a part
    that the block's threads and the loops inside walk through. A load keeps its conditions if it
    has a default; the guard of a sum goes where what it sums is staged and 0 beyond the input, of
    products both factors. Scores are -inf where the largest of a chunk leaves them out, and so
    their powers 0.
    *Faster because* each element is fetched from global memory once per block.

    Where all that walks along a dimension takes the same step, as the windows of a convolution with
    a stride do at one point, the slab has those elements alone: `step [1, 1, 2, 2]`.

    Slabs are taken by most reuse first, then the smallest, while they fit in the budget; what is
    read outside of loops is not staged. Then, with `compute`, a value in a reduce that is computed
    of staged slabs gets a slab of its own if that fits: the threads compute each element together,
    once. So do the scores of a chunk of attention, the largest of each row, the powers of
    differences from it, and their sums. Elements that are sums are dealt as a matrix is: of scores,
    a thread holds `points=4,8` at once. Chunks of keys of which all is masked for all rows of the
    block are skipped: their powers are 0, and what 0 times an infinite value would be is not
    computed.

    ```
    tile.reduce add serial(%ko in 128) … { tile.reduce add serial(%ki in 16) … {
      %a = tile.load %A[%bi * 128 + %ti * 8 + %ei, %ko * 16 + %ki]
    ```
    becomes
    ```
    tile.reduce add serial(%ko in 128) … {
      %As = tile.stage %A[%bi * 128, %ko * 16] [128, 16] : … -> memref<128x16xf32, #tile.shared>
      tile.reduce add serial(%ki in 16) … { %a = tile.load %As[%ti * 8 + %ei, %ki]
    ```
    and, with `compute=true`, where a product takes `%h = math.tanh %a`,
    ```
      %h_smem = tile.compute thread(%p in 128, %q in 16) {
        %a = tile.load %As[%p, %q] …
        %h = math.tanh %a : f32
        tile.yield %h : f32
      } : memref<128x16xf32, #tile.shared>
      tile.reduce add serial(%ki in 16) … { %h = tile.load %h_smem[%ti * 8 + %ei, %ki]
    ```
    """

    name = "stage-inputs"

    budget: int | None = None
    """Bytes of shared memory that slabs may take together; at most what the target has."""
    buffers: tuple[str, ...] = ()
    """The inputs that may be staged, by name; all if none is named."""
    compute: bool = False
    """Give what reduces compute of staged slabs slabs of its own, in the same budget."""
    type: str = ""
    """The type of what gets slabs of its own, such as `bf16`; of any type if empty."""
    points: tuple[int, ...] = ()
    """Points of each of its last axes that a thread holds at once of a slab of sums."""

    domains: ClassVar[Mapping[str, Domain]] = {
        "budget": Domain(
            (512, 4096, 24576, 49152, 200000), least=1, narrowed=lambda s: _budgets(s)
        ),
        "buffers": Domain(((),)),
        "compute": Domain((False, True)),
        "type": Domain(("",), narrowed=lambda s: _types(s)),
        "points": Domain(((), (4, 4), (4, 8), (8, 8)), least=1, narrowed=lambda s: _points(s)),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [str(row.type) for row in ELEMENTS if isinstance(row.type, AnyFloat)]
        if self.type and self.type not in names:
            raise OptionError("type", f"expected {' or '.join(names)}, found {self.type}")

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        assert self.budget is not None
        if tile_state(kernel.launch).threads > MAX_THREADS:
            message = "its threads are not partitioned into blocks yet"
            raise Misplaced(message, "run blockify-launch or cooperative-reduce first")
        slabs = self._slabs(kernel)
        limit = min(self.budget, target_of(module).shared_per_block)
        staged = _of_all_loads(slabs, limit) if self.compute else _fitting(slabs, limit)
        if not staged:
            smallest = min(s.bytes for s in slabs)
            raise Decline(f"{smallest} B > {limit} B of shared memory")
        for slab in sorted(staged, key=slabs.index):
            stage(slab)
        notes = ["staged " + ", ".join(told(str(s.source.name_hint), s) for s in staged)]
        if self.compute:
            left = limit - sum(slab.bytes for slab in staged)
            more, left = compute_scores(kernel, self.points, left)
            notes += more
            more, left = _computed(kernel, self.type, left)
            notes += [*more, *compute_row_sums(kernel, left)]
        reduces = [op for op in kernel.launch.walk() if isinstance(op, tile.ReduceOp)]
        for reduce in reduces:
            mask_scores(reduce)
        for reduce in reduces:
            drop_guards_of_zeros(reduce)
        return "; ".join(notes)

    def _slabs(self, kernel: tile.KernelOp) -> list[Slab]:
        """The slabs that may be staged and that a block reads more than once."""
        slabs = slabs_of(kernel)
        if self.buffers:
            names = [str(ref.name_hint) for ref in kernel.input_refs]
            if unknown := [name for name in self.buffers if name not in names]:
                message = f"it has no input {' or '.join(unknown)}"
                raise OptionError("buffers", message, f"its inputs are {', '.join(names)}")
            slabs = [s for s in slabs if s.source.name_hint in self.buffers]
        slabs = [s for s in slabs if s.reuse > 1]
        if not slabs:
            raise Decline("no block reads an input more than once in a loop")
        return slabs


def _fitting(slabs: list[Slab], left: int) -> list[Slab]:
    """The slabs that fit in so many bytes, those of most reuse first; each load takes one."""
    staged: list[Slab] = []
    for slab in sorted(slabs, key=lambda s: (-s.reuse, s.bytes)):
        served = {load for s in staged for load in s.loads}
        if slab.bytes <= left and not served & slab.loads.keys():
            staged.append(slab)
            left -= slab.bytes
    return staged


def _of_all_loads(slabs: list[Slab], left: int) -> list[Slab]:
    """
    The same, but one of much reuse gives way to a smaller one of its loads where all loads have
    slabs then: what is computed for a block is computed of slabs.
    """
    loads = {load for s in slabs for load in s.loads}
    first = found = _fitting(slabs, left)
    while {load for s in found for load in s.loads} != loads:
        wide = [s for s in found if any(_is_smaller(other, s) for other in slabs)]
        if not wide:
            return first
        largest = max(wide, key=lambda s: s.bytes)
        slabs = [s for s in slabs if s is not largest]
        found = _fitting(slabs, left)
    return found


def _is_smaller(other: Slab, slab: Slab) -> bool:
    return other.bytes < slab.bytes and other.loads.keys() >= slab.loads.keys()


def _computed(kernel: tile.KernelOp, type: str, left: int) -> tuple[list[str], int]:
    """
    Computes, in so many bytes, what reduces compute of staged slabs, more than a conversion; says
    what and what not, and how many bytes are left.
    """
    notes: list[str] = []
    operands = [o for o in computed_operands(kernel, type) if not o.converts]
    for operand in sorted(operands, key=lambda o: (-o.reuse, o.bytes)):
        if operand.bytes <= left:
            left -= operand.bytes
            notes.append(f"computed {told(operand.name, operand)}")
            compute(operand)
        else:
            notes.append(f"{operand.bytes} B for {operand.name} > {left} B left")
    return notes, left


def _budgets(s: Situation) -> list[Value]:
    """What the first slabs take together, and, for what is computed, half and all there is."""
    if tile_state(s.kernel.launch).threads > MAX_THREADS:
        raise Decline("its threads are not partitioned into blocks yet")
    slabs = [slab for slab in slabs_of(s.kernel) if slab.reuse > 1]
    if not slabs:
        raise Decline("no block reads an input more than once in a loop")
    limit, total, found = s.target.shared_per_block, 0, list[Value]()
    for slab in sorted(slabs, key=lambda slab: (-slab.reuse, slab.bytes)):
        total += slab.bytes
        found += [total] if total <= limit else []
    if not found:
        raise Decline(f"a slab of {min(s.bytes for s in slabs)} B > {limit} B of shared memory")
    return [*found, limit // 2, limit]


def _types(s: Situation) -> tuple[Value, ...]:
    """Any type, or that of the inputs where these are halves."""
    if not s.given["compute"]:
        return ("",)
    return ("", *s.halves)


def _points(s: Situation) -> tuple[Value, ...]:
    """Some points at once of slabs of sums, where there are any."""
    reduces = [op for op in s.kernel.launch.walk() if isinstance(op, tile.ReduceOp)]
    cascades = any(reduce.monoid_name.data in POWERS for reduce in reduces)
    return ((), (4, 4), (4, 8), (8, 8)) if s.given["compute"] and cascades else ((),)

"""Rows too long for shared memory are reduced chunk by chunk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument

from dlc.analysis.loop.contraction import contractions
from dlc.analysis.tile.tile_state import tile_state
from dlc.dialects import tile
from dlc.dialects.axes import REGISTER, SERIAL, AxesOp
from dlc.text import counted
from dlc.transforms.axes.nest import Loop, apart, chunk
from dlc.transforms.step import Decline, Misplaced, SchedulingPass
from dlc.transforms.step_space import Domain


@dataclass(frozen=True)
class ChunkReducePass(SchedulingPass):
    """
    Reduces that are no contractions, and the loops beside them, are chunked: the last serial axis
    becomes a loop over chunks around a loop over the points of a chunk.

    *Legal always*: the order of the points stays, and points of a ragged last chunk fold the
    identity and store nothing. Both reduces have one monoid and the inner one is only yielded, so
    they accumulate in place.
    *Faster because* `stage-inputs` can then fetch a chunk's slab where the whole row's does not fit
    in shared memory.

    ```
    %s_part = tile.reduce add serial(%ko in 64) register(%kv in 4) -> f32 { … }
    ```
    becomes, with `bk=8`,
    ```
    %s_part = tile.reduce add serial(%ko in 8) -> f32 {
      %s_chunk = tile.reduce add serial(%ki in 8) register(%kv in 4) -> f32 { … %ko * 8 + %ki … }
      tile.yield %s_chunk : f32
    }
    ```

    Schedules such as `cooperative-reduce{threads=8},chunk-reduce{bk=2},stage-inputs{budget=8192}`
    use it.

    With `apart=true` the points of a chunk are added apart, in `bk` accumulators:
    `chunk-reduce{bk=4 apart=true}` makes the reduce above

    ```
    %s_part = tile.reduce add register(%ks in 4) -> f32 {
      %s_chunk = tile.reduce add serial(%ki in 16) register(%kv in 4) -> f32 { … %ki * 4 + %ks … }
      tile.yield %s_chunk : f32
    }
    ```

    That is for sums of floats, which no order is promised of; other reduces stay as they are. So
    additions do not wait for each other, and loads of several points overlap; long sums are more
    accurate, too: the rounding errors of `bk` sums are those of shorter ones.
    """

    name = "chunk-reduce"

    bk: int | None = None
    """Points of the serial axis in a chunk; one is a run of each thread after
    `cooperative-reduce`."""
    apart: bool = False
    """Sums have an accumulator for each point of a chunk, along the last serial axis that has so
    many points."""

    domains: ClassVar[Mapping[str, Domain]] = {
        "bk": Domain((1, 2, 4, 5, 8, 16, 32, 64), least=1),
        "apart": Domain((False, True)),
    }

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        assert self.bk is not None
        launch = kernel.launch
        if tile_state(launch).buffers:
            message = "slabs are staged already for the loops that there are"
            raise Misplaced(message, "run chunk-reduce before stage-inputs")
        loops = _whole_loops(launch)
        if self.apart:
            return _add_apart(loops, self.bk)
        if not any(isinstance(op, tile.ReduceOp) for op in loops):
            raise Decline("it has no reduce but contractions and those in chunks already")
        long = [(op, a) for op in loops if (a := _last_serial(op)) and op.most(a) > self.bk]
        if not long:
            raise Decline(f"no reduce or loop of it is longer than a chunk of {self.bk}")
        for op, axis in long:
            chunk(op, axis, self.bk, _names(op, axis))
        return f"{len(long)} loops in chunks of {self.bk}"


def _add_apart(loops: Sequence[Loop], count: int) -> str:
    """Gives long sums of floats `count` accumulators each."""
    sums = [op for op in loops if isinstance(op, tile.ReduceOp) and op.rounds]
    if not sums:
        raise Decline("it has no sum of floats but contractions and those in chunks already")
    found = [
        (op, max(long, key=lambda a: a.index))
        for op in sums
        if (long := [a for a in op.axes_of(SERIAL) if op.hint(a) >= count])
    ]
    if count < 2 or not found:
        raise Decline(f"no serial axis of a sum has {max(count, 2)} points")
    for op, axis in found:
        inner, base = _names(op, axis)[1], (axis.name_hint or "k").removesuffix("o")
        apart(op, axis, count, (inner, f"{base}s"))
    return f"{counted(len(found), 'sum')} of {count} accumulators"


def _whole_loops(launch: tile.LaunchOp) -> list[Loop]:
    """The innermost loops of a launch, without contractions and what is in chunks already."""
    products = {c.reduce for c in contractions(launch)}
    return [
        op
        for op in launch.body.walk()
        if isinstance(op, tile.ForOp | tile.ReduceOp)
        and op not in products
        and not any(isinstance(inner, AxesOp) for inner in op.body.walk())
        and not _is_chunk(op)
    ]


def _is_chunk(op: Loop) -> bool:
    """True if a loop is the only operation of an enclosing loop of its kind."""
    around = op.parent_op()
    if not isinstance(around, type(op)) or op.prev_op is not None:
        return False
    if isinstance(op, tile.ReduceOp) and op.monoid_name != around.properties["monoid"]:
        return False
    return op.next_op is around.body.block.last_op


def _last_serial(op: Loop) -> BlockArgument | None:
    """The last serial axis: only register axes come after it."""
    serial = op.axes_of(SERIAL)
    return serial[-1] if serial else None


def _names(op: Loop, axis: BlockArgument) -> tuple[str, str]:
    """`ko` and `ki` for an axis `k`; a `ko` beside a register axis `kv` is taken as a `k`."""
    name = axis.name_hint or "k"
    registers = {a.name_hint for a in op.axes_of(REGISTER)}
    base = name[:-1] if name.endswith("o") and f"{name[:-1]}v" in registers else name
    return f"{base}o", f"{base}i"

"""What the chart of a kernel's rings is drawn from: when chunks are in which slots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from xdsl.ir import Block, SSAValue

from dlc.dialects import tile
from dlc.dialects.axes import SERIAL, AxesOp
from dlc.dialects.ring_ops import AcquireOp, ChunkOp, FillOp, ReleaseOp, RingOp
from dlc.ir.expr import Expr
from dlc.trace.model import Pipeline, Ring, Stay

TURNS = 8
"""Turns of loops that are drawn."""
BESIDE = 0.25
"""The part of a turn that an operation takes which is in no loop."""
NESTED = 8
"""An operation with a body takes as much of a turn as so many without."""


def pipeline_of(source: tile.KernelOp) -> Pipeline | None:
    """
    When each chunk of a kernel's rings is requested, waited for and done with, by the order of the
    operations in the first block and the first turns of its loops; None for a kernel without rings.
    """
    walked = source.launch.walk()
    rings: dict[SSAValue, RingOp] = {op.result: op for op in walked if isinstance(op, RingOp)}
    if not rings:
        return None
    run = _Run()
    run.block(source.launch.body.block, {})
    names = {ref: ref.name_hint or f"ring {n}" for n, ref in enumerate(rings)}
    return Pipeline(
        run.turns,
        run.now,
        [Ring(names[ref], op.depth, op.chunks, op.fill_kind or "") for ref, op in rings.items()],
        [replace(stay, ring=names[ref]) for (ref, _), stay in run.stays.items()],
    )


class _Run:
    """Takes the turns of a kernel's loops; the unit of time is a turn of an innermost one."""

    def __init__(self) -> None:
        self.now, self.turns = 0.0, 0
        self.stays: dict[tuple[SSAValue, int], Stay] = {}

    def block(self, block: Block, point: dict[SSAValue, int]) -> None:
        """The operations of a block that has loops with rings, or that no loop is around."""
        for op in block.ops:
            if isinstance(op, ChunkOp):
                self.chunk(op, point, self.now)
                self.now += BESIDE
            elif isinstance(op, AxesOp) and _works_on_rings(op.body.block):
                for inner in self.points(op, point):
                    if any(_works_on_rings(r.block) for o in op.body.block.ops for r in o.regions):
                        self.block(op.body.block, inner)
                    else:
                        self.turn(op.body.block, inner)
            else:
                for region in op.regions:
                    self.block(region.block, point)

    def points(self, loop: AxesOp, point: dict[SSAValue, int]) -> Iterator[dict[SSAValue, int]]:
        """The values of a loop's axes, those of axes that are not serial 0, as far as is drawn."""
        kinds = loop.kinds or ()
        serial = [a for a, kind in zip(loop.axes, kinds, strict=True) if kind.data == SERIAL]
        for at in product(*(range(loop.extent(axis)) for axis in serial)):
            if self.turns >= TURNS:
                return
            yield {**point, **dict(zip(serial, at, strict=True))}

    def turn(self, block: Block, point: dict[SSAValue, int]) -> None:
        """An innermost turn, which takes 1."""
        takes = [NESTED if op.regions else 1 for op in block.ops]
        begin = self.now
        for op, took in zip(block.ops, takes, strict=True):
            if isinstance(op, ChunkOp):
                self.chunk(op, point, self.now)
            self.now += took / sum(takes)
        self.now, self.turns = begin + 1, self.turns + 1

    def chunk(self, op: ChunkOp, point: dict[SSAValue, int], now: float) -> None:
        number = _at(op.chunk, point)
        key, ring = (op.ring, number), op.source
        match op:
            case FillOp() if number < ring.chunks:
                self.stays[key] = Stay("", number, number % ring.depth, now, -1, -1)
            case AcquireOp() if key in self.stays:
                self.stays[key] = replace(self.stays[key], acquired=now)
            case ReleaseOp() if key in self.stays:
                self.stays[key] = replace(self.stays[key], released=now)
            case _:
                pass


def _works_on_rings(block: Block) -> bool:
    return any(isinstance(op, ChunkOp) for op in block.walk())


def _at(expr: Expr, point: dict[SSAValue, int]) -> int:
    """The value of an expression where axes that are not in `point` are 0."""

    def replaced(value: SSAValue) -> Expr | None:
        owner = value.owner
        return owner.subscripts[0].substitute(replaced) if isinstance(owner, tile.IndexOp) else None

    whole = expr.substitute(replaced)
    return whole.evaluate({**dict.fromkeys(whole.values(), 0), **point})

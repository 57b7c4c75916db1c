"""Slabs: parts of inputs that a block reads more than once, and the loops where they are fixed."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd, prod

from xdsl.ir import BlockArgument, SSAValue

from dlc.analysis.tile.operands import separate
from dlc.dialects import tile
from dlc.dialects.axes import BLOCK, REGISTER, AxesOp, loops_around
from dlc.dialects.kernel_memory import element_bytes
from dlc.ir.bounds import most
from dlc.ir.expr import Expr


@dataclass
class Slab:
    """A part of an input that a block reads, and where in the loops it could be staged."""

    scope: AxesOp
    source: BlockArgument
    base: tuple[Expr, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    """How far apart the elements that it has are in the input, along each dimension."""
    loads: dict[tile.LoadOp, tuple[Expr, ...]] = field(default_factory=dict)
    """The loads it serves, each with its subscripts within the slab."""
    reads: int = 0
    """The number of elements that the block reads of it, all threads and loads counted."""

    @property
    def reuse(self) -> float:
        """The number of times that a block reads an element."""
        return self.reads / prod(self.sizes)

    @property
    def bytes(self) -> int:
        return prod(self.sizes) * element_bytes(self.source.type.element_type)  # pyright: ignore


def slabs_of(kernel: tile.KernelOp) -> list[Slab]:
    """Every slab that could be staged at some place, in program order."""
    found: dict[tuple[object, ...], Slab] = {}
    inputs = set[SSAValue](kernel.constant_refs)
    for load in kernel.launch.walk():
        if not isinstance(load, tile.LoadOp) or load.ref not in inputs:
            continue
        path = loops_around(load)
        for depth, scope in enumerate(path[:-1]):
            if any(op.axes_of(REGISTER) for op in path[1 : depth + 1]):
                break
            fixed = {a for op in path[1 : depth + 1] for a in op.axes}
            fixed.update(kernel.launch.axes_of(BLOCK))
            walked = {a: op.hint(a) for op in path for a in op.axes if a not in fixed}
            parts = [separate(e, fixed, walked.keys()) for e in load.subscripts]
            if None in parts or not parts:
                continue
            base = tuple(p[0] for p in parts if p)
            steps = tuple(_step(p[1]) for p in parts if p)
            within = tuple(p[1] // step for p, step in zip(parts, steps, strict=True) if p)
            sizes = tuple(int(most(e)) + 1 for e in within)
            key = (scope, load.ref, base, sizes, steps)
            assert isinstance(load.ref, BlockArgument)
            slab = found.setdefault(key, Slab(scope, load.ref, base, sizes, steps))
            slab.loads[load] = within
            slab.reads += prod(walked.values())
    return list(found.values())


def _step(within: Expr) -> int:
    """A number of which a subscript within a slab is a multiple, which begins at 0."""
    return gcd(within.constant, *(factor for _, factor in within.terms)) or 1

"""
Places of windows as one axis: rows and columns of an image, and images, follow each other, as the
operand does in which the windows slide, with zeros between its rows. A block then takes as many
places as it has, wherever rows end.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod

from xdsl.ir import BlockArgument, SSAValue

from dlc.dialects import loop
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of
from dlc.ir.bounds import least, most
from dlc.ir.expr import Expr
from dlc.ir.known_numbers import is_number
from dlc.schedule.contraction_tiles import RUN, Tiled, tiled_contraction
from dlc.schedule.packing import Kept
from dlc.schedule.tiling import best_candidate
from dlc.target import WIDEST_ACCESS, Target

GAIN = 1.05
"""The ratio of two times from which on places become one axis, and so that of points of blocks to
places from which on this is tried."""


@dataclass(frozen=True)
class Slide:
    """An axis of places, and the dimension of an operand along which its windows slide."""

    axis: BlockArgument
    dimension: int
    places: int
    extent: int
    """Of the operand."""
    offset: Expr
    """The distance from a place to what is read at it: of axes that no window slides along."""

    @property
    def least(self) -> int:
        """The least distance."""
        return int(least(self.offset))

    @property
    def reach(self) -> int:
        """How far the largest distance is from it."""
        return int(most(self.offset)) - self.least

    @cached_property
    def width(self) -> int:
        """
        Places of a row with the zeros behind: what is read beyond it stands in the next one, before
        its first element and behind this one's last, or else in the row itself.
        """
        end = self.places + self.least + self.reach
        return max(self.places, min(self.places + self.reach, max(end, self.extent - self.least)))


@dataclass(frozen=True)
class FlatPlaces:
    """How the places of a contraction are one axis, and where its operand lies then."""

    load: loop.LoadOp
    """The operand, the only use of an input in its kernel."""
    outer: loop.ForOp
    slides: tuple[Slide, ...]
    """In the order of the operand's dimensions, two at least."""
    where: tuple[Expr, ...]
    """The conditions of the load that are of no place."""

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """How far apart neighbours along each of the axes are along the one."""
        widths = [slide.width for slide in self.slides]
        return tuple(prod(widths[n + 1 :]) for n in range(len(widths)))

    @property
    def count(self) -> int:
        """All places, those between rows included."""
        return self.slides[0].places * self.steps[0]

    @property
    def length(self) -> int:
        """Elements along the axis of the operand laid out: what runs read, in whole 16 bytes."""
        beyond = sum(s.reach * step for s, step in zip(self.slides, self.steps, strict=True))
        run = max(WIDEST_ACCESS // element_bytes(self.load.result.type), 1)
        return ceil((self.runs * RUN + beyond) / run) * run

    @property
    def runs(self) -> int:
        """Runs of places, an axis beside that of the places of a run."""
        return ceil(self.count / RUN)

    @property
    def kept(self) -> tuple[int, ...]:
        """The other dimensions of the operand."""
        own = [slide.dimension for slide in self.slides]
        return tuple(n for n in range(len(self.load.subscripts)) if n not in own)

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the operand laid out: its other dimensions, and the axis."""
        shape = shape_of(self.load.ref.type)
        return (*(shape[n] for n in self.kept), self.length)

    def parts(self, point: Expr) -> list[Expr]:
        """A point of the one axis on each of the axes."""
        first, *rest = zip(self.slides, self.steps, strict=True)
        inner = [point // step % slide.width for slide, step in rest]
        return [point // first[1], *inner]

    def place(self, point: Expr) -> list[Expr]:
        """The subscripts of the operand laid out at a point of the one axis."""
        for slide, step in zip(self.slides, self.steps, strict=True):
            point += (slide.offset - slide.least) * step
        return [*(self.load.subscripts[n] for n in self.kept), point]


def flat_places(kernel: loop.KernelOp, target: Target | None) -> FlatPlaces | Kept | None:
    """
    How the places of a contraction become one axis: of an operand that is the only use of an input
    and is read, or 0, at sums of a place and of what no place is part of. None of a kernel that
    has no windows, or sizes, or whose blocks on a target leave hardly a thread idle.
    """
    if not all(isinstance(n, int) for ref in kernel.refs for n in shape_of(ref.type)):
        return None
    tiled = tiled_contraction(kernel)
    if tiled is None or not tiled.is_chunked or len(tiled.found.reduce.axes) < 2:
        return None
    sliding = [*filter(None, (_sliding(tiled, load) for load in tiled.chunked))]
    if len(sliding) != 1 or (target and _points_a_place(tiled, target) < GAIN):
        return None
    load, slides = sliding[0]
    places = {slide.axis for slide in slides}
    known = {c for s in slides for c in _ends(Expr.of(s.axis) + s.offset, s.extent)}
    where = tuple(c for c in load.where if c not in known)
    if why := _obstacle(kernel, tiled, load, places, where):
        return Kept(load, why)
    flat = FlatPlaces(load, tiled.outer, tuple(slides), where)
    return flat if flat.runs > 1 else None


def _sliding(tiled: Tiled, load: loop.LoadOp) -> tuple[loop.LoadOp, list[Slide]] | None:
    """
    The axes of its side of the contraction along which a load varies, if there are several, all
    alone in a subscript, as they are, and windows slide along one of them.
    """
    outer, found = tiled.outer, tiled.found
    side = found.rows if load in found.row_loads else found.columns
    shape, slides, read = shape_of(load.ref.type), list[Slide](), _values(load.subscripts)
    axes = [axis for axis in outer.axes if axis in side and axis in read]
    for number, (subscript, extent) in enumerate(zip(load.subscripts, shape, strict=True)):
        through = [axis for axis in axes if axis in subscript.values()]
        if not through:
            continue
        if len(through) > 1 or subscript.coefficient(through[0]) != 1:
            return None
        (axis,) = through
        assert isinstance(extent, int)
        slides.append(Slide(axis, number, int(outer.extent(axis)), extent, subscript - axis))
    alone = len(axes) == len(slides) > 1
    return (load, slides) if alone and any(s.reach for s in slides) else None


def _points_a_place(tiled: Tiled, target: Target) -> float:
    """Points that blocks have for each place, as they would be tiled."""
    best = best_candidate(tiled.problem, target)
    if best is None:
        return 1
    p = tiled.problem
    return best.blocks / best.splits * prod(best.block) / (p.batch * p.results / p.sums)


def _obstacle(
    kernel: loop.KernelOp,
    tiled: Tiled,
    load: loop.LoadOp,
    places: Collection[SSAValue],
    where: Collection[Expr],
) -> str:
    """
    Why an operand cannot be laid out along its places, if it is read where `where` says so and it
    has an element; nothing if it can.
    """
    reduce, read = tiled.found.reduce, _values([*load.subscripts, *load.where])
    if kernel.updated_refs:
        return "is of a kernel that updates an input in place"
    if not load.ref.has_one_use():
        return "is read elsewhere, too"
    if load.default is not None and not is_number(load.default, 0):
        return "is another value than 0 where it is not read"
    if not read <= {*tiled.outer.axes, *reduce.axes}:
        return "is read at places that the program computes"
    if not _values([*where, *reduce.yielded.where]).isdisjoint(places):
        return "is read, or summed, where conditions of a place hold"
    return ""


def _ends(subscript: Expr, extent: int) -> tuple[Expr, Expr]:
    """The conditions that keep a subscript inside."""
    return subscript, subscript * -1 + (extent - 1)


def _values(exprs: Collection[Expr]) -> set[SSAValue]:
    return {value for e in exprs for value in e.values()}

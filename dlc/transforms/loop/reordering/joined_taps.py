"""Sums over classes of places, which meet some points of a window each, as sums over the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import lcm

from xdsl.ir import BlockArgument, SSAValue

from dlc.dialects import loop
from dlc.dialects.indexed_op import indexed_ops, simplify_where
from dlc.ir.expr import Expr, FloorDiv, Mod
from dlc.ir.known_numbers import is_number
from dlc.ir.sizes import ceildiv


def join_taps(total: loop.ReduceOp, inner: loop.ReduceOp) -> None:
    """
    Makes a sum over places of sums of products, of which places meet other points of a window by
    turns, one sum over all points, wherever the class of a place and an axis of `inner` name each
    point once: the axis is the point then, and that of `total` the places of a class, if there are
    several.

    ```
    loop.reduce add %a in 2 { loop.reduce add %k in 2 {
      … %x[%i + (%a + 1) floordiv 2 - %k] … %w[(%a + 1) mod 2 + %k * 2] …
      loop.yield %p where ((%a + 1) mod 2 + %k * 2 < 3)
    ```
    becomes
    ```
    loop.reduce add { loop.reduce add %k in 3 {
      … %x[%i - (%k + 1) floordiv 2 + 1] … %w[%k] …
      loop.yield %p
    ```
    """
    for place in total.axes:
        if any(place in op.indices for op in indexed_ops(total) if op.parent_op() is total):
            continue  # a summand is another one at each place
        for offset in inner.axes:
            if (taps := _taps(total, inner, place, offset)) is not None and taps.join():
                break


@dataclass(frozen=True)
class _Taps:
    """An axis of places in classes, and one of offsets, that name points of a window."""

    total: loop.ReduceOp
    inner: loop.ReduceOp
    filter: loop.LoadOp
    """What is loaded at the points of the window."""
    place: BlockArgument
    offset: BlockArgument
    classes: int
    step: int
    """The distance of the points that one class meets."""
    met: Sequence[int]
    """For each point of the window the class that meets it."""

    def join(self) -> bool:
        """Gives both axes their new meaning; False, and nothing done, if that cannot be written."""
        classes = _written(self.met, self.classes)
        places, points = self.total.extent(self.place), len(self.met)
        ops = [(op, op.subscripts, op.where) for op in indexed_ops(self.inner)]
        others = [op for op, *_ in ops if isinstance(op, loop.LoadOp) and op is not self.filter]
        odd = others if places % self.classes else []
        if classes is None or not all(is_number(op.default, 0) for op in odd):
            return False  # places beyond the last would count
        several = ceildiv(places, self.classes)
        _set_extent(self.inner, self.offset, points)
        _set_extent(self.total, self.place, several)
        point = Expr.of(self.offset)
        at = Expr.of(self.place) * self.classes + classes(point)
        new: dict[SSAValue, Expr] = {self.place: at, self.offset: point // self.step}
        for op, subscripts, where in ops:
            beyond = [at * -1 + (places - 1)] if op in odd else []
            op.set_index(
                [self._short(e.substitute(new.get)) for e in subscripts],
                simplify_where([self._short(e.substitute(new.get)) for e in where] + beyond),
            )
        if several == 1:
            extents = [self.total.extent(axis) for axis in self.total.axes if axis != self.place]
            self.total.body.block.erase_arg(self.place)
            self.total.set_axes(extents)
        return True

    def _short(self, expr: Expr) -> Expr:
        """An expression whose terms of points alone are written with one quotient at most."""
        own = Expr(tuple(t for t in expr.terms if _values(t[0]) == {self.offset}))
        values = [own.evaluate({self.offset: point}) for point in range(len(self.met))]
        if not own.terms or (written := _written(values, self.classes)) is None:
            return expr
        return expr - own + written(Expr.of(self.offset))


def _taps(
    total: loop.ReduceOp, inner: loop.ReduceOp, place: BlockArgument, offset: BlockArgument
) -> _Taps | None:
    """How two axes name the points of a window; None if they do not name each of them once."""
    both = {place, offset}
    loads = [op for op in inner.body.block.ops if isinstance(op, loop.LoadOp)]
    named = [(op, e) for op in loads for e in op.subscripts if {*e.values()} == both]
    named = [(op, e) for op, e in named if (e.coefficient(offset) or 0) > 0]
    if len(named) != 1:
        return None
    ((filter, name),) = named
    step, extent = name.coefficient(offset) or 1, total.extent(place)
    where = [e for e in inner.yielded.where if {*e.values()} <= both]

    def point(kind: int, number: int) -> int | None:
        """What a place meets at an offset."""
        at: dict[SSAValue, int] = {place: kind, offset: number}
        return name.evaluate(at) if all(e.evaluate(at) >= 0 for e in where) else None

    period = lcm(step, *(_period(e) for e in (name, *where)))
    fewer = (n for n in range(2, period + 1) if period % n == 0)
    for classes in (*fewer, extent):  # or each place is a class of its own
        met = _met(point, classes, min(extent, 2 * period), inner.extent(offset), step)
        if met:
            return _Taps(total, inner, filter, place, offset, classes, step, met)
    return None


def _met(
    point: Callable[[int, int], int | None], classes: int, places: int, offsets: int, step: int
) -> Sequence[int]:
    """For each point of a window the class that meets it; nothing unless one does, at one offset,
    and all places of a class meet the same."""
    met: dict[int, int] = {}
    for place, number in product(range(places), range(offsets)):
        found, kind = point(place, number), place % classes
        if place != kind:
            if point(kind, number) != found:
                return ()
        elif found is not None:
            if found in met or number != found // step:
                return ()
            met[found] = kind
    return [met[n] for n in range(len(met))] if {*met} == {*range(len(met))} else ()


def _values(atom: SSAValue | FloorDiv | Mod) -> set[SSAValue]:
    return {atom} if isinstance(atom, SSAValue) else {*atom.base.values()}


def _period(expr: Expr) -> int:
    """After how many points, or a part of as many, the remainders in an expression come again."""
    atoms = [atom for atom, _ in expr.terms if isinstance(atom, FloorDiv | Mod)]
    return lcm(*(atom.divisor * _period(atom.base) for atom in atoms))


def _set_extent(op: loop.ReduceOp, axis: BlockArgument, extent: int) -> None:
    op.set_axes([extent if other is axis else op.extent(other) for other in op.axes])


def _written(values: Sequence[int], divisor: int) -> Callable[[Expr], Expr] | None:
    """An expression of a point that has given values at 0, 1, …: linear, or with a quotient or a
    remainder by a number; None if there is none."""
    first = values[0]
    slope = values[1] - first if len(values) > 1 else 0
    forms: list[Callable[[Expr], Expr]] = [lambda point: point * slope + first]
    for factor, shift, sign in product(range(1, divisor + 1), range(divisor), (1, -1)):
        start = first - sign * (shift // divisor)
        forms.append(lambda p, f=factor, s=shift, g=sign, c=start: (p * f + s) // divisor * g + c)
        forms.append(lambda p, f=factor, s=shift: (p * f + s) % divisor)
    for form in forms:
        if all(form(Expr.of(n)).constant == value for n, value in enumerate(values)):
            return form
    return None

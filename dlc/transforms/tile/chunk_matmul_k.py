"""Products of matrices are summed chunk by chunk of K."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument

from dlc.analysis.loop.contraction import contractions, weight_axes
from dlc.dialects import tile
from dlc.dialects.axes import REGISTER, SERIAL, AxesOp
from dlc.ir.expr import Expr
from dlc.ir.monoid import EXPSUM
from dlc.ir.sizes import ceildiv
from dlc.ir.variance import variance
from dlc.registry import OptionError
from dlc.transforms.axes.axis_edit import Axis, keep, replace_axes
from dlc.transforms.axes.nest import chunk
from dlc.transforms.step import Decline, SchedulingPass
from dlc.transforms.step_options import divisors
from dlc.transforms.step_space import Domain, Situation, Value, powers
from dlc.transforms.tile.splitting.base_two import take_base_two
from dlc.transforms.tile.splitting.largest_first import find_largest_first


@dataclass(frozen=True)
class ChunkMatmulKPass(SchedulingPass):
    """
    The K reduce of a contraction becomes a reduce over chunks of a reduce within a chunk.

    Of one over several axes, as a convolution is, the last is K; its chunks and the points of the
    others are one axis, along which the others' points follow each other. Where conditions choose
    among them, they stay apart, so that whole ones are skipped.

    Of a sum of powers of which each has several weights, as attention has (`join-cascades`), keys
    are K: of each chunk, the largest exponent is found first and then sums relative to it, so that
    sums that a thread holds are multiplied once a chunk. What is summed within, the scores, is not
    chunked.

    *Legal always*: points of a ragged last chunk beyond K fold the identity. Both reduces have one
    monoid and the inner one is only yielded, so they accumulate in place.
    *Faster because* `stage-inputs` can then fetch a chunk's slabs into shared memory; with
    `vector`, threads read them in wide accesses along K.

    ```
    %acc = tile.reduce add serial(%k in 2048) -> f32 { … %k … }
    ```
    becomes, with `bk=16`,
    ```
    %acc = tile.reduce add serial(%ko in 128) -> f32 {
      %part = tile.reduce add serial(%ki in 16) -> f32 { … %ko * 16 + %ki … }
      tile.yield %part : f32
    }
    ```
    and a reduce of `expsum` over %x and %w
    ```
    %m, %a = tile.reduce expsum serial(%ko in 32) -> (f32, f32) {
      %largest = tile.reduce max serial(%ki in 64) -> f32 { … tile.yield %x : f32 }
      %sum = tile.reduce add serial(%ki in 64) -> f32 {
        … %power = math.exp (%x − %largest) … tile.yield %power · %w : f32
      }
      tile.yield %largest, %sum : f32, f32
    }
    ```
    Where an exponent in f32 is a product with a number, as scaled scores are, it is one of powers
    of 2, `exp2sum`, with another number: e^x is computed as a power of 2, for a product more.
    """

    name = "chunk-matmul-k"

    bk: int | None = None
    """Points of K in a chunk."""
    vector: int = 1
    """Neighbouring points of K that a thread takes at once, as a register axis; divides `bk`."""

    domains: ClassVar[Mapping[str, Domain]] = {
        "bk": Domain((4, 8, 16, 32, 64, 128), least=1, narrowed=lambda s: _chunks(s.kernel)),
        "vector": Domain((1, 2, 4, 8, 16, 32), least=1, narrowed=lambda s: _vectors(s)),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bk is not None and self.bk % self.vector:
            message = f"a vector of {self.vector} points does not divide a chunk of {self.bk}"
            raise OptionError("vector", message, divisors(self.bk))

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        assert self.bk is not None
        if cascades := _cascades_of(kernel.launch):
            return self._cascades(cascades)
        found = [
            c.reduce for c in contractions(kernel.launch) if isinstance(c.reduce, tile.ReduceOp)
        ]
        reduces = [
            reduce
            for reduce in found
            if not any(isinstance(op, AxesOp) for op in reduce.body.walk())
        ]
        if not reduces:
            raise Decline("it has no contraction")
        vector = self.vector
        long = [r for r in reduces if r.most(r.axes[-1]) > self.bk or len(r.axes) > 1]
        wide = [r for r in reduces if r in long or r.least(r.axes[-1]) >= vector]
        wide = [r for r in wide if self._chunk(r) >= vector > 1]
        if not long and not wide:
            raise Decline(f"no K is longer than a chunk of {self.bk}")
        for reduce in long:
            name = reduce.axes[-1].name_hint or "k"
            outer = chunk(reduce, reduce.axes[-1], self._chunk(reduce), (f"{name}o", f"{name}i"))
            assert isinstance(outer, tile.ReduceOp)
            _join(outer, f"{name}o")
        for reduce in wide:
            _vectorize(reduce, vector)
        done = [f"chunks of {self.bk}"] if long else []
        done += [f"runs of {vector}"] if wide else []
        return f"K in {', '.join(done)}"

    def _chunk(self, reduce: tile.ReduceOp) -> int:
        """The points of a chunk, all that there may be if those are fewer."""
        assert self.bk is not None
        return int(min(self.bk, reduce.most(reduce.axes[-1])))

    def _cascades(self, reduces: Sequence[tile.ReduceOp]) -> str:
        """Folds sums of powers chunk by chunk, the largest exponent of a chunk first."""
        assert self.bk is not None
        binary = [take_base_two(reduce) for reduce in reduces]
        for reduce in reduces:
            name = reduce.axes[-1].name_hint or "k"
            chunk(reduce, reduce.axes[-1], self._chunk(reduce), (f"{name}o", f"{name}i"))
            inner = find_largest_first(reduce)
            scores = [op for r in inner for op in r.body.walk() if isinstance(op, tile.ReduceOp)]
            for op in (*inner, *scores):
                if op.extent(op.axes[-1]) % self.vector == 0 and self.vector > 1:
                    _vectorize(op, self.vector)
        note = f"keys in chunks of {self.bk}, of which the largest is found first"
        return f"{note}; powers of 2, which cost a product less" if any(binary) else note


def _cascades_of(launch: tile.LaunchOp) -> list[tile.ReduceOp]:
    """The folds over points of powers of e of which each is multiplied with several weights."""
    folds = [op for op in launch.walk() if isinstance(op, tile.ReduceOp)]
    folds = [op for op in folds if op.monoid_name.data == EXPSUM]
    along = variance(launch) if folds else {}
    return [op for op in folds if op.axes and weight_axes(op, along)]


def _join(outer: tile.ReduceOp, name: str) -> None:
    """Makes the axes of a reduce over chunks one, the last of them the slowest to run."""
    axes = [*outer.axes[-1:], *outer.axes[:-1]]
    if len(axes) < 2 or outer.yielded.where:
        return
    joined = Axis(name, prod(map(outer.extent, axes)), SERIAL)

    def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
        found, rest = dict[BlockArgument, Expr](), e[joined]
        for axis in reversed(axes[1:]):
            found[axis], rest = rest % outer.extent(axis), rest // outer.extent(axis)
        return {axes[0]: rest, **found}

    replace_axes(outer, [joined], meaning)


def _vectorize(reduce: tile.ReduceOp, size: int) -> None:
    """Takes the innermost axis of a reduce in runs, whose points are a register axis."""
    *outer, last = reduce.axes
    name = last.name_hint or "ki"
    runs = Axis(name, ceildiv(reduce.extent(last), size), SERIAL)
    point = Axis(f"{name.removesuffix('i')}v", size, REGISTER)
    kept = {a: keep(a, reduce) for a in outer}

    def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
        return {**{a: e[k] for a, k in kept.items()}, last: e[runs] * size + e[point]}

    replace_axes(reduce, [*kept.values(), runs, point], meaning)


def _chunks(kernel: tile.KernelOp) -> list[Value]:
    """Powers of two that are shorter than the longest K; the first that covers it if none is."""
    reduces = [c.reduce for c in contractions(kernel.launch)]
    if not reduces:
        raise Decline("it has no contraction")
    longest = max(reduce.most(reduce.axes[-1]) for reduce in reduces)
    return [n for n in powers(128, least=4) if n == 4 or n < longest]


def _vectors(s: Situation) -> list[Value]:
    """Powers of two that divide a chunk; 32, too, for products of floats of 8 bits."""
    bk = s.given["bk"]
    assert isinstance(bk, int)
    most = 32 if len(s.narrow) > len(s.halves) else 16
    return [n for n in powers(most) if bk % n == 0]

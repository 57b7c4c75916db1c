"""A thread holds its points in registers, all at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import BlockArgument

from dlc.analysis.loop.contraction import contractions
from dlc.analysis.tile.register_pairs import register_pairs
from dlc.analysis.tile.thread_slabs import thread_slabs
from dlc.dialects import tile
from dlc.dialects.axes import REGISTER, SERIAL
from dlc.dialects.mma_layouts import (
    ALL_SHAPES,
    OF_BYTES,
    OF_FLOATS,
    OF_HALVES,
    OF_WARPGROUPS,
    SHAPES,
    WARPGROUP_SHAPES,
    MmaAttr,
)
from dlc.ir.expr import Expr
from dlc.ir.monoid import POWERS
from dlc.precision import PRECISIONS
from dlc.registry import OptionError
from dlc.target import target_of
from dlc.transforms.axes.axis_edit import Axis, keep, replace_axes
from dlc.transforms.axes.deal_out import deal_out
from dlc.transforms.step import Decline, Misplaced, SchedulingPass
from dlc.transforms.step_options import divisors, per_axis
from dlc.transforms.step_space import Domain, Situation, Value, combinations, divisors_of
from dlc.transforms.tile.staging.thread_rows import hold_rows
from dlc.transforms.tile.tensor_cores.warp_tile import deal_to_warps

OF_TENSOR_CORES = PRECISIONS[1:]
"""In what they multiply f32."""
_PRECISION_HINT = (
    "tensor cores multiply f32 by mma=m16n8k8 with precision=3xtf32, about as exact as f32, or "
    "precision=tf32, of 11 bits"
)


@dataclass(frozen=True)
class RegisterTilePass(SchedulingPass):
    """
    Serial axes of the launch become register axes: a thread holds all their points at once.

    *Legal always*: the points are independent. What uses one such axis is a vector in registers,
    what uses two a block; the text does not grow.
    *Faster because* what does not use an axis is loaded, staged and computed once for its points.

    ```
    tile.launch … serial(%ei in 8, %ej in 8) { … }
    ```
    becomes, with `extents=8,8`,
    ```
    tile.launch … register(%ei in 8, %ej in 8) { … }
    ```

    With `mma=m16n8k16`, the threads that there were become warps, whose points are dealt to their
    32 lanes as tensor cores lay out a matrix of 16 rows and 8 columns: lane 4 * g + m has columns
    2m and 2m + 1 of rows g and g + 8. K, which is in runs of 16, is folded by warps, 2048 products
    at once. What is summed in f32 must be products of two loaded elements of f16 or bf16, one along
    each of the last two serial axes.

    ```
    tile.launch thread(%ti in 2, %tj in 2) serial(%ei in 32, %ej in 32) {
      %p = tile.reduce add serial(%ki in 4) register(%kv in 16) -> f32 { … }
    ```
    becomes, with `extents=32,32 mma=m16n8k16`,
    ```
    tile.launch thread(%ti in 2, %tj in 2, %group in 8, %member in 4)
        register(%ri in 2, %rj in 4, %half in 2, %pair in 2) {
      %p = tile.reduce add by <m16n8k16, bf16>(%group, %member, %half, %pair)
          serial(%ki in 4) fragment(%kv in 16) -> f32 { … }
    ```

    Of a chunk of attention, lanes hold the scores as sums of products, the largest of each row, and
    the powers, which are rounded to the type of the values: they are a factor as they lie. A lane
    has two neighbours of a row in each of several tiles, and four lanes a row.
    ```
      %scores_smem = tile.compute thread(%p in 64, %q in 64) { … tile.reduce add … }
      %max_part_smem = tile.compute thread(%p in 64) { … %scores_smem[%p, %ki * 16 + %kv] … }
    ```
    becomes
    ```
      %scores = tile.hold across(%member) register(%half in 2, %rkey in 8, %pair in 2) {
        … tile.reduce add by <m16n8k16, f16>(%group, %member, %half, %pair) … }
      %max_part = tile.hold register(%half in 2) {
        … %scores[%half, %rkey * 8 + %member * 2 + %pair] … tile.combine max … across(%member) … }
    ```

    With `mma=m64n128k16`, or another number of columns, on sm_90, the threads that there were
    become warpgroups of 128 threads, whose four warps (`%quarter`) have 16 rows of 64 each. K is in
    runs of 16. Slabs of both factors that are swizzled are multiplied where they lie, by `wgmma`,
    which reads them by itself; each warp multiplies by `m16n8k16` what lies otherwise. Those of f32
    take `mma=m64n128k8 precision=tf32` and the like, with K in runs of 8, and have to lie along K.
    ```
      %p = tile.reduce add by <m64n128k16, bf16>(%quarter, %group, %member, %half, %pair)
          serial(%ki in 4) fragment(%kv in 16) -> f32 { … }
    ```
    Of a chunk of attention, warpgroups hold what warps do otherwise: scores are sums of as many
    columns as the widest shape that divides the keys has, and powers are a factor in registers.

    Threads hold what they compute of such a chunk with `held=true`, of an axis of threads that are
    neighbours in a warp along columns: these share a row, and fold it by shuffles. A thread has
    runs of four neighbouring keys, if it has as many. The powers alone are shared, once, for the
    second product. Slabs stay where no warp has all threads of a row.
    ```
      %scores = tile.hold across(%tc) register(%r in 4, %rkeyo in 1, %rkeyi in 4) { … }
      %max_part = tile.hold register(%r in 4) { … tile.combine max … across(%tc) … }
      %power = tile.hold across(%tc) register(%r in 4, %rkeyo in 1, %rkeyi in 4) { … }
      %power_smem = tile.share %power[%trow * 4] : … -> memref<32x64xf32, #tile.shared>
    ```

    Factors in f32 take `mma=m16n8k8`, with K in runs of 8, and are multiplied in a precision that
    is to be said: `tf32` reads their first 11 bits; `3xtf32` takes each apart into two of these,
    adds three of the four products, and sums each chunk of K apart: see `docs/tensor-cores.md`.
    ```
      %p = tile.reduce add by <m16n8k8, tf32>(%group, %member, %half, %pair) split
          serial(%ki in 4) fragment(%kv in 8) -> f32 { … }
    ```

    Factors in floats of 8 bits take `mma=m16n8k32`, from sm_89 on, or `mma=m64n128k32` and the
    like, with K in runs of 32; they are read by rows where they lie along K, one by one where not.
    So do integers of 8 bits, from sm_80 on, whose sums are i32.

    With `parts=2`, two warps, or warpgroups, have the same points, and halves of each chunk of K;
    what they have of the whole sum is folded at its end, where each goes on at half of the points.
    A block has more warps, each with half as much to do of a chunk.
    ```
    tile.launch block(…) thread(%trow in 4, %part in 2, %group in 8, %member in 4) … {
      %acc_part = tile.reduce add serial(%ko in 8) -> f32 {
        … tile.reduce add by <…>(…) serial(%ki in 2) fragment(%kv in 16) -> f32 {
          … %ko * 64 + %part * 32 + %ki * 16 + %kv …
      %acc = tile.combine add %acc_part across(%part) dealt : f32
    ```

    With `apart=true`, each chunk of K has sums of its own, which threads add to theirs: twice the
    registers for sums, and an addition for each and each chunk. Long sums are rounded less often.
    ```
      %part = tile.reduce add apart serial(%ki in 4) register(%kv in 4) -> f32 { … }
    ```
    Tensor cores need not round their sums to the nearest, so that a long one is off by more than
    that of a thread; theirs are apart in the same way.
    ```
      %p = tile.reduce add by <m64n128k8, tf32>(%quarter, %group, %member, %half, %pair) apart
          serial(%ki in 4) fragment(%kv in 8) -> f32 { … }
    ```
    """

    name = "register-tile"

    extents: tuple[int, ...] | None = None
    """Points of each serial axis held at once, aligned from the right; must divide the axis."""
    mma: str = ""
    """A shape of products of matrices that a warp computes at once, `m16n8k16` of halves, `m16n8k8`
    of f32 or `m16n8k32` of 8 bits, or a warpgroup, `m64n128k16` of halves, `m64n128k8` of f32,
    `m64n128k32` of 8 bits and the like; none if empty."""
    precision: str = "f32"
    """In what f32 is multiplied: `tf32`, of 11 bits, once, or `3xtf32`, three times; else as it
    is."""
    apart: bool = False
    """Sum each chunk of K by itself, which is added to a thread's sums."""
    parts: int = 1
    """Warps, or warpgroups, that share points and take parts of each chunk of K, with `mma`."""
    held: bool = False
    """Without `mma`, hold what is computed of a chunk of attention in registers."""
    strip: int = 0
    """Of what is `held`, neighbouring points of a thread along the last axis, as of
    `permute-register-tile`, which cannot deal them out afterwards; 0 for all of them."""

    domains: ClassVar[Mapping[str, Domain]] = {
        "extents": Domain((1, 2, 3, 4, 8, 16), least=1, narrowed=lambda s: _extents(s)),
        "mma": Domain(
            tuple(dict.fromkeys(("", *OF_HALVES, *OF_BYTES, *OF_FLOATS, *OF_WARPGROUPS))),
            narrowed=lambda s: _products(s),
        ),
        "precision": Domain(PRECISIONS, narrowed=lambda s: _precisions(s)),
        "apart": Domain((False, True), narrowed=lambda s: _apart(s)),
        "parts": Domain((1, 2, 4), least=1, narrowed=lambda s: _parts(s)),
        "held": Domain((False, True), narrowed=lambda s: _held(s)),
        "strip": Domain((0, 1, 2, 4), least=0, narrowed=lambda s: _strips(s)),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        known = [name for name, _ in SHAPES]
        if self.mma and self.mma not in (*known, *OF_WARPGROUPS):
            columns = ", ".join(
                str(n) for n in dict.fromkeys(s.n for s in WARPGROUP_SHAPES.values())
            )
            warps = ", ".join(dict.fromkeys(known))
            shapes = f"{warps}, or m64nNk16, m64nNk8 or m64nNk32 with an N of {columns}"
            raise OptionError("mma", f"expected {shapes}, found {self.mma}")
        fitting = OF_TENSOR_CORES if self.mma in OF_FLOATS else ("f32",)
        if self.mma in OF_WARPGROUPS and self.precision == "3xtf32":
            message = "a warpgroup reads factors as they lie in shared memory, and not their parts"
            raise OptionError("precision", message, "take precision=tf32, or mma=m16n8k8")
        if self.precision not in fitting:
            shape = f"mma={self.mma}" if self.mma else "products by threads"
            message = f"expected {' or '.join(fitting)} for {shape}, found {self.precision}"
            raise OptionError("precision", message, _PRECISION_HINT)
        if self.apart and self.precision == "3xtf32":
            raise OptionError("apart", "expected sums of all of K: those of 3xtf32 are so anyway")
        if self.parts > 1 and not self.mma:
            raise OptionError("parts", "expected products by warps", "take mma, or leave parts out")
        if self.held and self.mma:
            raise OptionError("held", "lanes hold all with mma", "leave held out")
        if self.strip and not self.held:
            hint = "permute-register-tile deals out other points"
            raise OptionError("strip", "expected it with held=true", hint)

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        launch = kernel.launch
        serial = launch.axes_of(SERIAL)
        assert self.extents is not None
        if not serial:
            message = "it has no serial axis"
            if prod(self.extents) == 1 and self.apart and not self.mma:
                return _sum_apart(launch)
            if prod(self.extents) == 1:
                raise Decline(message)
            raise Misplaced(message, "blockify-launch makes them where a thread has several points")
        sizes = per_axis("extents", self.extents, [f"%{a.name_hint}" for a in serial])
        for axis, size in zip(serial, sizes, strict=True):
            if (points := launch.extent(axis)) % size:
                message = f"{size} does not divide the {points} points of a thread along"
                hint = divisors(points)
                raise OptionError("extents", f"{message} %{axis.name_hint}", hint)
        if self.mma:
            target = target_of(module)
            split = self.precision == "3xtf32"
            return deal_to_warps(
                launch,
                serial,
                sizes,
                self.mma,
                target,
                parts=self.parts,
                split=split,
                apart=self.apart,
            )
        chunks = _sum_apart(launch) if self.apart else ""
        kept = {a: keep(a, launch) for a in launch.axes if a not in serial}
        rest = {
            a: Axis(a.name_hint, launch.extent(a) // n, SERIAL)
            for a, n in zip(serial, sizes, strict=True)
        }
        held = {
            a: Axis(f"r{(a.name_hint or 'e')[1:]}", n, REGISTER)
            for a, n in zip(serial, sizes, strict=True)
        }

        def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
            others = {a: e[k] for a, k in kept.items()}
            return others | {a: e[rest[a]] * held[a].extent + e[held[a]] for a in serial}

        replace_axes(launch, [*kept.values(), *rest.values(), *held.values()], meaning)
        note = f"{' x '.join(str(n) for n in sizes)} points in registers"
        note += f", {chunks}" if chunks else ""
        return f"{note}{_hold_rows(launch, self.strip)}" if self.held else note


def _chunks(launch: tile.LaunchOp) -> list[tile.ReduceOp]:
    """The sums of chunks of K, which are yielded straight to the sum of all."""
    reduces = [c.reduce for c in contractions(launch)]
    return [
        op
        for op in reduces
        if isinstance(op, tile.ReduceOp)
        and op.rounds
        and isinstance(around := op.parent_op(), tile.ReduceOp)
        and around.rounds
    ]


def _sum_apart(launch: tile.LaunchOp) -> str:
    """Threads sum chunks of K apart; says so."""
    if not (chunks := _chunks(launch)):
        message = "no chunks of K are summed"
        raise OptionError("apart", message, "chunk-matmul-k makes chunks of a contraction")
    for op in chunks:
        op.apart = UnitAttr()
    return "each chunk of K summed apart"


def _hold_rows(launch: tile.LaunchOp, strip: int) -> str:
    """Threads hold the slabs of a cascade; says so, or why not."""
    slabs = thread_slabs(launch)
    if isinstance(slabs, str):
        return f"; slabs of rows stay in shared memory: {slabs}"
    note = f"; {len(slabs.slabs)} slabs held by threads"
    pairs = [p for p in register_pairs(launch) if p.thread == slabs.member.index]
    for pair in pairs if strip else ():
        points = launch.extent(launch.axes[pair.register])
        if points % strip:
            message = f"strips of {strip} do not divide the {points} points of a thread"
            raise OptionError("strip", message, divisors(points))
        if strip < points:
            deal_out(launch, {pair: strip})
            slabs = thread_slabs(launch)
            assert not isinstance(slabs, str)
            note += f", whose columns are in strips of {strip}"
    hold_rows(slabs)
    return note


MOST_HELD = 256
"""Points of a thread up to which register tiles are tried."""


def _extents(s: Situation) -> Iterator[Value]:
    """What divides the points of a thread, along each axis; larger ones first."""
    launch = s.kernel.launch
    serial = launch.axes_of(SERIAL)
    if not serial:
        raise Decline("it has no serial axis")
    return combinations([divisors_of(launch.extent(a))[::-1] for a in serial], MOST_HELD)


def _products(s: Situation) -> tuple[Value, ...]:
    """Those of tensor cores where inputs are halves, bytes, or f32 that they may multiply."""
    floats = [n for n in OF_FLOATS if s.multiplies_f32 and (n not in OF_WARPGROUPS or _groups(s))]
    narrow = [n for n in (*OF_HALVES, *OF_BYTES, *OF_WARPGROUPS) if n not in OF_FLOATS]
    given = dict.fromkeys(
        name
        for name in narrow
        for names in ALL_SHAPES
        if names[0] == name
        and {*map(str, MmaAttr(*names).elements)} <= {*s.narrow}
        and s.target.has(MmaAttr(*names).feature)
    )
    groups = [name for name in given if name in OF_WARPGROUPS]
    return "", *(name for name in given if name not in OF_WARPGROUPS), *floats, *groups


def _parts(s: Situation) -> tuple[int, ...]:
    """Parts that divide the runs of all chunks of K, where warps multiply these."""
    chunks = [c.reduce for c in contractions(s.kernel.launch) if c.reduce.axes_of(REGISTER)]
    runs = [max(map(op.extent, op.axes_of(SERIAL)), default=1) for op in chunks]
    if not s.given["mma"] or not runs:
        return (1,)
    return (1, *(n for n in (2, 4) if not any(run % n for run in runs)))


def _held(s: Situation) -> tuple[Value, ...]:
    """Both where threads fold a cascade whose slabs they have computed."""
    ops = [*s.kernel.launch.walk()]
    cascades = any(isinstance(o, tile.ReduceOp) and o.monoid_name.data in POWERS for o in ops)
    computed = any(isinstance(o, tile.ComputeOp) for o in ops)
    return (False, True) if cascades and computed and not s.given["mma"] else (False,)


def _strips(s: Situation) -> tuple[Value, ...]:
    """Wide loads of what a thread has of columns, where it holds rows."""
    held, extents = s.given["held"], s.given["extents"]
    wide = held and isinstance(extents, tuple) and int(extents[-1]) % 4 == 0
    return (0, 4) if wide else (0,)


def _groups(s: Situation) -> bool:
    """True if warpgroups multiply f32 as it may be multiplied."""
    return s.target.has("wgmma") and s.target.precision == "tf32"


def _precisions(s: Situation) -> tuple[Value, ...]:
    """The one that fits the products: of tensor cores that which may be."""
    return (s.target.precision,) if s.given["mma"] in OF_FLOATS else ("f32",)


def _apart(s: Situation) -> tuple[Value, ...]:
    """Where tensor cores sum what is f32 otherwise, and do not anyway, or threads do, chunk by
    chunk."""
    threads = not s.given["mma"] and bool(_chunks(s.kernel.launch))
    return (False, True) if s.given["precision"] == "tf32" or threads else (False,)

"""
What a thread of a kernel in Kernel IR executes, counted: issue slots, wavefronts, bytes, waits.

Loops count as often as they run, branches as if they were taken where the number of a block does
not tell, loads and stores of a thread's own memory as nothing: those are registers. The lanes of a
warp are looked at where loops begin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from math import prod

from xdsl.dialects import math, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from dlc.analysis.kernel.banks import sectors, wavefronts
from dlc.analysis.kernel.block_branches import BlockBranches, Shares
from dlc.analysis.kernel.counts import Counts, Share
from dlc.analysis.kernel.index_values import expanded, index_at
from dlc.analysis.kernel.layout import place_of
from dlc.analysis.kernel.roles import computing_threads, producer_branch
from dlc.analysis.kernel.slots import trip_count
from dlc.dialects import kernel
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.kernel_memory import element_bytes, is_local, is_of_cluster, is_shared, memref_of
from dlc.dialects.kernel_tma import TmaLoadOpBase
from dlc.dialects.kernel_wgmma import WgmmaOpBase
from dlc.dialects.layouts import UNIT, shape_of
from dlc.dialects.mma_layouts import MmaAttr
from dlc.ir.expr import Expr, constant_of
from dlc.ir.scalar_ops import SCALARS
from dlc.target import BANK_BYTES, SECTOR_BYTES, WARP, WARPGROUP, ProductKind

NVCC_UNROLLS = 4
"""Iterations of a loop that nvcc has side by side unless it is told: what they load is waited for
together, if no barrier is between."""
LOOP_SLOTS = 3
"""Issue slots of an iteration of a loop that is not unrolled: to count, compare and branch."""
MANY_POINTS = 64
"""Iterations up to which it is looked whether an access is done, and more are taken to do it."""
MANY_BLOCKS = 1 << 12
"""Blocks up to which each is looked at alone, and of more so many."""
_FREE = (
    "arith.constant",
    "arith.bitcast",
    "math.absf",
    "scf.yield",
    "kernel.commit",
    "kernel.wgmma_commit",
)
"""Operations that take no instruction: what uses |x| reads x so."""


_APART = (
    kernel.BarrierOp
    | kernel.ClusterBarrierOp
    | kernel.MbarrierWaitOp
    | kernel.WaitOp
    | scf.ForOp
    | scf.WhileOp
)
"""What keeps iterations apart."""


_SHARED = (
    "slots",
    "fmas",
    "wavefronts",
    "sectors",
    "box_sectors",
    "cluster_bytes",
)
"""What an SM does for its blocks, not what a thread waits for."""


def counts_of(func: kernel.FuncOp) -> Counts:
    """
    The counts of a kernel's busiest threads, of blocks that have more to do than others on average;
    of what the last of some blocks does alone, its waits, and of the rest a block's share.
    """
    return _counts(func, _mean_shares(func))


def counts_by_block(func: kernel.FuncOp) -> list[Counts]:
    """
    The counts of each block, in the order of their numbers, one for those that do the same; a
    single one where all do, or where there are more blocks than are looked at.
    """
    branches = BlockBranches(func)
    if not branches or func.grid_size > MANY_BLOCKS:
        return [counts_of(func)]
    keys = branches.keys()
    shares = {key: branches.shares(key) for key in dict.fromkeys(keys)}
    alike = {tuple(taken.values()): taken for taken in shares.values()}
    found = {which: _counts(func, taken) for which, taken in alike.items()}
    return [found[tuple(shares[key].values())] for key in keys]


def _mean_shares(func: kernel.FuncOp) -> Shares:
    branches = BlockBranches(func)
    return branches.shares(*branches.keys(MANY_BLOCKS)) if branches else {}


def _counts(func: kernel.FuncOp, shares: Shares) -> Counts:
    walk = _Walk(func, shares)
    walk.counts.registers = walk.visit(func.body.block, 1, 0, False)
    walk.share_last()
    return walk.counts


def costs_of(func: kernel.FuncOp) -> dict[Operation, Share]:
    """What each operation has of the counts; what a loop counts with is its own operation's."""
    walk = _Walk(func, _mean_shares(func))
    walk.visit(func.body.block, 1, 0, False)
    return walk.shares


def first_lanes(
    func: kernel.FuncOp,
    op: kernel.LoadOp | kernel.StoreOp | kernel.CpAsyncOp | kernel.LdmatrixOp | kernel.StmatrixOp,
) -> tuple[list[int], int]:
    """
    The byte addresses in its buffer at which the first warp accesses one, in the first iteration
    of all loops, and the bytes of a lane; of a copy its target. Of an access of matrices by rows
    there are the lanes that give the address of one.
    """
    walk = _Walk(func, {})
    if isinstance(op, kernel.LdmatrixOp | kernel.StmatrixOp):
        lanes = walk.lanes_at(op, memref_of(op.ref), op.subscripts)
        return lanes[: op.fragment.rows], UNIT
    if isinstance(op, kernel.CpAsyncOp):
        type, subscripts = memref_of(op.target), op.target_subscripts
        elements = op.elements.value.data
    else:
        type, subscripts = memref_of(op.ref), op.subscripts
        value = op.result.type if isinstance(op, kernel.LoadOp) else op.value.type
        elements = prod(shape_of(value)) if isinstance(value, VectorType) else 1
    lanes = walk.lanes_at(op, type, subscripts)
    return lanes, elements * element_bytes(type.element_type)


class _Walk:
    def __init__(self, func: kernel.FuncOp, taken: Shares) -> None:
        self.counts = Counts()
        self.taken = taken
        self.shares: dict[Operation, Share] = {}
        self.lanes = min(WARP, func.block_size)
        self.warps = -(-computing_threads(func) // WARP)
        apart = producer_branch(func)
        self.producer = None if apart is None else apart[0].true_region
        self.before_last: Counts | None = None
        """What there is where the last of some blocks goes on."""
        self.sharing = 1
        """The number of these blocks."""
        self.requests = 0
        """Copies so far that were asked for, in the text."""
        self.fetched = False
        """True if an unrolled loop has asked for what is not waited for yet."""
        self.loops: dict[SSAValue, range] = {}
        """What the loops around count through, where that is known."""

    def share_last(self) -> None:
        """Leaves of what the last of some blocks does a block's share."""
        if (before := self.before_last) is not None:
            self.counts.last_sectors += self.counts.sectors - before.sectors
            for name in _SHARED:
                done, own = getattr(before, name), getattr(self.counts, name)
                setattr(self.counts, name, done + (own - done) / self.sharing)
            for name in ("products", "group_products"):
                done, own = getattr(before, name), getattr(self.counts, name)
                each = {kind: done.get(kind, 0) for kind in own}
                left = {k: each[k] + (n - each[k]) / self.sharing for k, n in own.items()}
                setattr(self.counts, name, left)
        self.before_last = None

    def visit(self, block: Block, times: float, held: int, unrolled: bool) -> int:
        """Counts a body that runs so often; the words that are held in it at once at most."""
        most, fetched, requests = held, False, self.requests
        freed = _freed(block)
        for op in block.ops:
            if isinstance(op, kernel.AllocLocalOp):
                held += _words(op)
            elif isinstance(op, scf.ForOp):
                most = max(most, self._loop(op, times, held))
            elif isinstance(op, scf.IfOp | scf.WhileOp):
                taken = self.taken.get(op, (1, 1)) if isinstance(op, scf.IfOp) else (1, 1)
                for region, share in zip(op.regions, taken, strict=True):
                    if region is self.producer:
                        self._visit_producer(region.block, times * share, held)
                        continue
                    around, self.before_last = self.before_last, None
                    for inner in region.blocks:
                        most = max(most, self.visit(inner, times * share, held, unrolled))
                    self.share_last()
                    self.before_last = around
            else:
                before = replace(self.counts)
                if isinstance(op, kernel.WaitOp | kernel.MbarrierWaitOp):
                    self._wait(op, times, self.requests > requests)
                else:
                    fetched |= self._count(op, times)
                self._share(op, before, held)
            most = max(most, held)
            held -= freed.get(op, 0)
        if unrolled:  # what its iterations fetch is waited for together
            self.fetched |= fetched
        elif fetched or self.fetched:
            self.counts.waits += times
            self.fetched = False
        return most

    def _visit_producer(self, block: Block, times: float, held: int) -> None:
        """Of what threads beside those that compute do, these share what an SM does for it."""
        before = replace(self.counts)
        self.visit(block, times, held, False)
        before.sectors = self.counts.sectors
        before.box_sectors = self.counts.box_sectors
        self.counts = before

    def _loop(self, op: scf.ForOp, times: float, held: int) -> int:
        count, about = trip_count(op), op.attributes.get("about")
        likely = about.value.data if isinstance(about, IntegerAttr) else 1
        trips = likely if count is None else count
        whole = "unroll" in op.attributes
        before = replace(self.counts)
        if not whole:
            self.counts.slots += times * trips * LOOP_SLOTS
            if self.fetched:  # what was asked for before it is waited for once
                self.counts.waits += times
                self.fetched = False
        self._share(op, before, held)
        if count is not None:
            self.loops[op.body.block.args[0]] = range(count)
        waits = self.counts.waits
        most = self.visit(op.body.block, times * trips, held, whole)
        if not whole and not any(isinstance(inner, _APART) for inner in op.body.walk()):
            at_once = min(max(trips, 1), NVCC_UNROLLS)
            self.counts.waits = waits + (self.counts.waits - waits) / at_once
        return most

    def _share(self, op: Operation, before: Counts, held: int) -> None:
        """Notes what an operation has added to the counts."""
        now = self.counts
        self.shares[op] = Share(
            now.slots - before.slots,
            now.wavefronts - before.wavefronts,
            now.sectors - before.sectors,
            held,
        )

    def _wait(self, op: kernel.WaitOp | kernel.MbarrierWaitOp, times: float, at_once: bool) -> None:
        """Counts a wait for copies; `at_once` if some were asked for in the same iteration."""
        pending = op.pending.value.data if isinstance(op, kernel.WaitOp) else 1
        self.counts.slots += times
        if at_once and pending == 0:
            self.counts.waits += times
        else:
            self.counts.overlapped += times / (pending + 1)

    def _count(self, op: Operation, times: float) -> bool:
        """Counts an operation; true if what comes after waits for global memory."""
        counts = self.counts
        match op:
            case kernel.LoadOp() | kernel.StoreOp() | kernel.AtomicAddOp():
                return self._access(op, times)
            case kernel.CpAsyncOp():
                self.requests += 1
                type = memref_of(op.source)
                width = op.elements.value.data * element_bytes(type.element_type)
                counts.slots += 2 * times
                lanes = self.lanes_at(op, type, op.subscripts)
                counts.sectors += times * self._share_done(op) * sectors(lanes, width)
                target = memref_of(op.target)
                lanes = self.lanes_at(op, target, op.target_subscripts)
                counts.wavefronts += times * wavefronts(lanes, width)
            case TmaLoadOpBase():
                self.requests += 1
                box = prod(op.map_op.box_sizes) * element_bytes(op.map_op.type.element_type)
                # One thread asks for it; the counts are of each warp.
                fetched = times * box / SECTOR_BYTES / self.warps
                counts.sectors += fetched
                counts.box_sectors += fetched
                counts.slots += times
            case kernel.TmaStoreOp():  # a lane of each warp asks for its own
                box = prod(op.map_op.box_sizes) * element_bytes(op.map_op.type.element_type)
                counts.sectors += times * box / SECTOR_BYTES
                counts.slots += times
            case WgmmaOpBase():
                share = times * WARP / WARPGROUP
                counts.group_products = _with(counts.group_products, op.shape, share)
                counts.slots += times
            case kernel.MatrixDescriptorOp():
                counts.slots += 2 * times  # the address, and the fields
            case kernel.MmaOp():
                counts.products = _with(counts.products, op.shape, times)
                counts.slots += times
            case kernel.LdmatrixOp() | kernel.StmatrixOp():
                counts.wavefronts += times * op.matrices
                counts.slots += times
            case kernel.BarrierOp():
                counts.barriers += times
                counts.slots += times
            case kernel.ClusterBarrierOp():  # which is one of the block, and of the blocks
                counts.barriers += times
                if op.relaxed is None:
                    counts.cluster_barriers += times
                else:
                    counts.relaxed_barriers += times
                counts.slots += 2 * times
            case kernel.LastBlockOp():  # which waits for writes to be seen, and for the count
                counts.barriers += 2 * times
                counts.waits += 3 * times
                self.before_last, self.sharing = replace(counts), op.blocks
                return True
            case math.FmaOp():
                counts.slots += times  # one instruction, where C's function is a call
                counts.fmas += times
            case (
                kernel.AllocSharedOp() | kernel.MapClusterOp() | kernel.BlockIdOp()
                | kernel.ThreadIdOp()
            ):  # fmt: skip
                pass
            case _:
                row = SCALARS.get(op.name)
                free = op.name in _FREE
                counts.slots += 0 if free else times * (row.cost if row is not None else 1)
        return False

    def _access(
        self, op: kernel.LoadOp | kernel.StoreOp | kernel.AtomicAddOp, times: float
    ) -> bool:
        type = memref_of(op.ref)
        if is_local(op.ref):
            return False
        value = op.result.type if isinstance(op, kernel.LoadOp) else op.value.type
        elements = prod(shape_of(value)) if isinstance(value, VectorType) else 1
        width = elements * element_bytes(type.element_type)
        lanes = self.lanes_at(op, type, op.subscripts)
        self.counts.slots += times
        if is_shared(op.ref) or is_of_cluster(op.ref):
            self.counts.wavefronts += times * wavefronts(lanes, width)
            self.counts.cluster_bytes += times * len(lanes) * width * is_of_cluster(op.ref)
            return False
        self.counts.sectors += times * self._share_done(op) * sectors(lanes, width)
        return isinstance(op, kernel.LoadOp)

    def _share_done(self, op: IndexedOp) -> float:
        """
        In what share of the iterations around that its conditions tell apart an access of the first
        block is done, as its first and its last lane have it.
        """
        where = [expanded(condition) for condition in op.where]
        values = {value for condition in where for value in condition.values()}
        counters = [value for value in values if value in self.loops]
        points = prod(len(self.loops[value]) for value in counters)
        if not points or points > MANY_POINTS:
            return 1
        done = 0
        for lane in (0, self.lanes - 1):
            others = {value: index_at(value, _in_lane(lane)) for value in values}
            for point in product(*(self.loops[value] for value in counters)):
                known = others | dict(zip(counters, point, strict=True))
                done += all(condition.evaluate(known) >= 0 for condition in where)
        return done / points / 2

    def lanes_at(
        self, op: Operation, type: MemRefType[Attribute], subscripts: tuple[Expr, ...]
    ) -> list[int]:
        """The byte addresses of the first warp, in the first iteration of all loops."""
        size = element_bytes(type.element_type)
        place, values = place_of(type, subscripts), {v for e in subscripts for v in e.values()}
        lanes = map(_in_lane, range(self.lanes))
        points = ({v: index_at(v, known) for v in values} for known in lanes)
        return [size * place.evaluate(point) for point in points]


def _with(
    products: Mapping[ProductKind, float], by: MmaAttr, times: float
) -> Mapping[ProductKind, float]:
    """Multiply-adds, and those of so many products of matrices."""
    kind, shape = by.multiplied.kind, by.sizes
    return {**products, kind: products.get(kind, 0) + times * shape.m * shape.n * shape.k}


def _freed(block: Block) -> dict[Operation, int]:
    """The words of its own that a thread no longer holds behind an operation of a body."""
    found: dict[Operation, int] = {}
    own = [op for op in block.ops if isinstance(op, kernel.AllocLocalOp)]
    order = {op: number for number, op in enumerate(block.ops)} if own else {}
    for op in own:
        users = (block.find_ancestor_op_in_block(use.operation) for use in op.result.uses)
        last = max((user for user in users if user), key=order.__getitem__, default=op)
        found[last] = found.get(last, 0) + _words(op)
    return found


def _words(op: kernel.AllocLocalOp) -> int:
    """
    Registers for a thread's own memory; an index is taken to have 32 bits. What is but a copy of
    other such memory takes the registers of that.
    """
    stores = [use.operation for use in op.result.uses if isinstance(use.operation, kernel.StoreOp)]
    if stores and all(_is_of_own_memory(store.value) for store in stores):
        return 0
    type = memref_of(op.result)
    element = type.element_type
    size = BANK_BYTES if isinstance(element, IndexType) else element_bytes(element)
    return -(-prod(shape_of(type)) * size // BANK_BYTES)


def _is_of_own_memory(value: SSAValue) -> bool:
    return isinstance(value.owner, kernel.LoadOp) and is_local(value.owner.ref)


def _in_lane(lane: int) -> Callable[[SSAValue], int | None]:
    """What values are in a lane of the first warp of the first block, loops at their begin."""

    def known(value: SSAValue) -> int | None:
        if isinstance(value.owner, kernel.ThreadIdOp):
            return lane
        made = isinstance(value.owner, kernel.IndexOp) or constant_of(value) is not None
        return None if made else 0

    return known

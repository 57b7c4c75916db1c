"""
A kernel as a list of Python functions, one per operation, that act on a `Machine`.

The values of SSA values stand in `machine.values`, at a slot for each. Loops that all threads run
alike are Python loops; a condition on which threads differ becomes a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import AffineMapAttr, IntegerType, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from dlc.dialects import kernel, kernel_tma
from dlc.dialects.access import LoadOpBase, StoreOpBase
from dlc.dialects.kernel_memory import is_local
from dlc.interpreter.clocks import VectorClocks
from dlc.interpreter.copies import AsyncCopies
from dlc.interpreter.expressions import Holds, Index, compile_conditions, compile_map
from dlc.interpreter.hazards import Hazard
from dlc.interpreter.machine import Lanes, Machine, compressed, first_of
from dlc.interpreter.mbarriers import TMA_ALIGNMENT, Mbarriers
from dlc.interpreter.memory import SHARED_ALIGNMENT, LocalMemory, Memory
from dlc.interpreter.scalars import Value, constant, divides, dtype_of, function_of

Step: TypeAlias = Callable[[], None]
NEED_CLOCKS = (kernel_tma.AllocMbarriersOp, kernel_tma.SyncWarpOp)
"""Operations that order some threads of a block, or threads and copies."""


class Program:
    """A kernel that can run; see `dlc.interpreter.run`."""

    def __init__(self, func: kernel.FuncOp) -> None:
        self.func = func
        ops = list(func.walk())
        self._numbers: dict[SSAValue, int] = {}
        """The number of the first mbarrier of each allocation."""
        mbarriers = 0
        for op in ops:
            if isinstance(op, kernel_tma.AllocMbarriersOp):
                self._numbers[op.result] = mbarriers
                mbarriers += op.count.value.data
        clocks = any(isinstance(op, NEED_CLOCKS) for op in ops)
        self.machine = Machine(func.block_size, mbarriers, clocks)
        self.copies = AsyncCopies(self.machine)
        self.mbarriers = Mbarriers(self.machine)
        self._slots: dict[SSAValue, int] = {}
        self.memory: dict[SSAValue, Memory] = {}
        self.local: dict[SSAValue, LocalMemory] = {}
        for ref in func.refs:
            memory = Memory(ref, func, func.alignment(ref), self.machine)
            self.memory[ref] = memory
        for op in ops:
            if isinstance(op, kernel.AllocSharedOp):
                self.memory[op.result] = Memory(op.result, op, SHARED_ALIGNMENT, self.machine)
            elif isinstance(op, kernel.AllocLocalOp):
                self.local[op.result] = LocalMemory(op.result, op, self.machine)
        self.steps = self._block(func.body.block)

    def begin(self, first_block: int, blocks: int) -> None:
        """Gets ready to run these blocks."""
        self.machine.begin(first_block, blocks)
        self.copies = AsyncCopies(self.machine)
        self.mbarriers = Mbarriers(self.machine)
        for memory in self.memory.values():
            if memory.shared:
                memory.allocate()

    def run(self) -> None:
        """Runs the blocks from begin to end. Hazard for the first that is found."""
        for step in self.steps:
            step()
        self.copies.finish()

    # Values.

    def _slot(self, value: SSAValue) -> int:
        slot = self._slots.get(value)
        if slot is None:
            slot = self._slots[value] = len(self.machine.values)
            self.machine.values.append(None)
        return slot

    def _slots_of(self, values: Sequence[SSAValue]) -> list[int]:
        return [self._slot(v) for v in values]

    def _map(
        self, map: AffineMapAttr, indices: Sequence[SSAValue]
    ) -> Callable[[], tuple[Index, ...]]:
        return compile_map(map.data, self._slots_of(indices), self.machine.values)

    def _where(
        self, conditions: AffineMapAttr | None, indices: Sequence[SSAValue]
    ) -> Callable[[], Holds]:
        if conditions is None:
            return lambda: True
        return compile_conditions(conditions.data, self._slots_of(indices), self.machine.values)

    # Operations.

    def _block(self, block: Block) -> list[Step]:
        return [self._step(op) for op in block.ops if not isinstance(op, _NO_STEPS)]

    def _step(self, op: Operation) -> Step:
        handler = _HANDLERS.get(type(op))
        return self._scalar(op) if handler is None else handler(self, op)

    def _scalar(self, op: Operation) -> Step:
        if op.regions or len(op.results) != 1:
            raise Hazard("not checked", op, f"the interpreter does not know '{op.name}'")
        values, result = self.machine.values, self._slot(op.results[0])
        function = function_of(op)
        operands = self._slots_of(op.operands)
        if len(operands) == 1:
            (a,) = operands

            def unary() -> None:
                values[result] = function(values[a])

            return unary
        if len(operands) == 2:
            a, b = operands
            checked = divides(op)

            def binary() -> None:
                if checked:
                    self._check_divisor(op, values[b])
                values[result] = function(values[a], values[b])

            return binary

        def apply() -> None:
            values[result] = function(*(values[o] for o in operands))

        return apply

    def _check_divisor(self, op: Operation, divisor: Value) -> None:
        bad = np.broadcast_to(np.asarray(divisor == 0), self.machine.lanes)[self.machine.active]
        if bad.any():
            lane = int(self.machine.active[first_of(bad)])
            raise self.machine.hazard("arithmetic", op, "an integer is divided by 0", [lane])

    def _constant(self, op: arith.ConstantOp) -> Step:
        values, slot, value = self.machine.values, self._slot(op.result), constant(op)

        def step() -> None:
            values[slot] = value

        return step

    def _block_id(self, op: kernel.BlockIdOp) -> Step:
        machine, slot = self.machine, self._slot(op.result)

        def step() -> None:
            one = machine.blocks == 1
            block = machine.first_block if one else machine.first_block + machine.block_of
            machine.values[slot] = block

        return step

    def _thread_id(self, op: kernel.ThreadIdOp) -> Step:
        machine, slot = self.machine, self._slot(op.result)

        def step() -> None:
            machine.values[slot] = 0 if machine.threads == 1 else machine.thread_of

        return step

    def _index(self, op: kernel.IndexOp) -> Step:
        values, slot = self.machine.values, self._slot(op.result)
        subscripts = self._map(op.map, op.indices)

        def step() -> None:
            (values[slot],) = subscripts()

        return step

    def _test(self, op: kernel.TestOp) -> Step:
        values, slot = self.machine.values, self._slot(op.result)
        holds = self._where(op.conditions, op.indices)

        def step() -> None:
            values[slot] = holds()

        return step

    def _select(self, op: kernel.SelectOp) -> Step:
        values, slot = self.machine.values, self._slot(op.result)
        a, b = self._slot(op.value), self._slot(op.default)
        holds = self._where(op.conditions, op.indices)

        def step() -> None:
            values[slot] = _blend(holds(), values[a], values[b])

        return step

    # Memory.

    def _load(self, op: LoadOpBase) -> Step:
        machine, slot = self.machine, self._slot(op.result)
        subscripts, holds = self._map(op.map, op.indices), self._where(op.conditions, op.indices)
        width = _width(op.result.type)
        default = None if op.default is None else self._slot(op.default)
        zero = dtype_of(op.result.type, op).type(0)

        def otherwise() -> Value:
            value = zero if default is None else machine.values[default]
            return value[:, None] if width > 1 and np.ndim(value) == 1 else value

        if is_local(op.ref):
            local = self.local[op.ref]

            def load_local() -> None:
                where = holds()
                value = local.load(op, subscripts(), where, width)
                machine.values[slot] = value if where is True else _blend(where, value, otherwise())

            return load_local
        memory = self.memory[op.ref]

        def load() -> None:
            where = holds()
            lanes = machine.where(where)
            if not len(lanes):
                machine.values[slot] = np.broadcast_to(
                    otherwise(), (machine.lanes, width) if width > 1 else machine.lanes
                )
                return
            value = memory.load(op, subscripts(), lanes, width)
            if np.ndim(value) == (width > 1) or len(value) == 1 < len(lanes):
                shared_by_all = where is True or lanes is machine.active
                machine.values[slot] = value if shared_by_all else _blend(where, value, otherwise())
            else:
                machine.values[slot] = machine.spread(value, lanes, otherwise())

        return load

    def _store(self, op: StoreOpBase) -> Step:
        machine, slot = self.machine, self._slot(op.value)
        subscripts, holds = self._map(op.map, op.indices), self._where(op.conditions, op.indices)
        width = _width(op.value.type)
        if is_local(op.ref):
            local = self.local[op.ref]

            def store_local() -> None:
                value = machine.values[slot]
                local.store(op, subscripts(), holds(), value, width)

            return store_local
        memory = self.memory[op.ref]
        atomic = isinstance(op, kernel.AtomicAddOp)
        if atomic and machine.ordered_by_clocks:
            raise Hazard("not checked", op, "atomic operations beside mbarriers are not modelled")

        def store() -> None:
            lanes = machine.where(holds())
            if not len(lanes):
                return
            value = machine.of(machine.values[slot], lanes)
            places = subscripts()
            if atomic:
                memory.add(op, places, lanes, value)
            else:
                memory.store(op, places, lanes, value, width)

        return store

    def _alloc_local(self, op: kernel.AllocLocalOp) -> Step:
        return self.local[op.result].allocate

    # Asynchronous copies.

    def _cp_async(self, op: kernel.CpAsyncOp) -> Step:
        machine = self.machine
        source, target = self.memory[op.source], self.memory[op.target]
        if source.shadow is not None or op.source not in self.func.input_refs:
            raise Hazard("not checked", op, "a copy from memory that the kernel writes")
        sources, targets = self._map(op.map, op.indices), self._map(op.target_map, op.indices)
        holds = self._where(op.conditions, op.indices)
        width = op.elements.value.data

        def step() -> None:
            lanes, copied = machine.active, machine.where(holds())
            if not len(lanes):
                return
            places = targets()
            element = target.locate(op, places, lanes, width)
            elements, writers = target.spread(element, lanes, width)
            values = np.zeros((machine.lanes, width), target.element)
            if len(copied):
                found = source.load(op, sources(), copied, width)
                values[copied] = found[:, None] if np.ndim(found) == 1 else found
            self.copies.request(op, target, elements, writers, values[lanes].reshape(-1))

        return step

    def _commit(self, op: kernel.CommitOp) -> Step:
        return lambda: self.copies.commit()

    def _wait(self, op: kernel.WaitOp) -> Step:
        pending = op.pending.value.data
        return lambda: self.copies.wait(pending)

    # Meetings.

    def _barrier(self, op: kernel.BarrierOp) -> Step:
        machine = self.machine
        return lambda: machine.clock.barrier(machine.whole_blocks(op))

    def _shuffle(self, op: kernel.ShuffleOp) -> Step:
        machine, source, slot = self.machine, self._slot(op.value), self._slot(op.result)
        mask = op.mask.value.data

        def step() -> None:
            lanes = machine.whole_warps(op)
            value = machine.values[source]
            other = machine.thread_of ^ mask
            outside = other[lanes] >= machine.threads
            if outside.any():
                at = int(lanes[first_of(outside)])
                sentence = f"lane {machine.thread_of[at] % 32 ^ mask} of the warp does not exist"
                raise machine.hazard("divergence", op, sentence, [at])
            if np.ndim(value):
                inside = np.minimum(other, machine.threads - 1)
                value = value[machine.block_of * machine.threads + inside]
            machine.values[slot] = value

        return step

    def _sync_warp(self, op: kernel_tma.SyncWarpOp) -> Step:
        machine = self.machine

        def step() -> None:
            assert isinstance(machine.clock, VectorClocks)
            machine.clock.warp_barrier(machine.whole_warps(op))

        return step

    # mbarriers and the tensor memory accelerator.

    def _number(
        self, op: Operation, barriers: SSAValue, map: AffineMap, indices: Sequence[SSAValue]
    ) -> Callable[[], Index]:
        """The number among a block's mbarriers that an expression names."""
        first = self._numbers[barriers]
        assert isinstance(barriers.owner, kernel_tma.AllocMbarriersOp)
        count = barriers.owner.count.value.data
        subscripts = compile_map(map, self._slots_of(indices), self.machine.values)

        def number() -> Index:
            (n,) = subscripts()
            inner = np.atleast_1d(np.asarray(compressed(n, self.machine.active, self.machine)))
            if ((inner < 0) | (inner >= count)).any():
                sentence = f"one of {count} mbarriers is named by {int(inner.max())}"
                raise self.machine.hazard("out of bounds", op, sentence)
            return first + n

        return number

    def _own_number(self, op: kernel_tma.MbarrierOpBase) -> Callable[[], Index]:
        return self._number(op, op.barriers, op.map.data, op.indices)

    def _mbarrier_init(self, op: kernel_tma.MbarrierInitOp) -> Step:
        number, count = self._own_number(op), op.count.value.data
        return lambda: self.mbarriers.initialize(op, number(), count)

    def _mbarrier_arrive(self, op: kernel_tma.MbarrierArriveOp) -> Step:
        number = self._own_number(op)
        return lambda: self.mbarriers.arrive(op, number(), 0)

    def _mbarrier_expect_tx(self, op: kernel_tma.MbarrierExpectTxOp) -> Step:
        number, bytes = self._own_number(op), op.bytes.value.data
        return lambda: self.mbarriers.arrive(op, number(), bytes)

    def _mbarrier_wait(self, op: kernel_tma.MbarrierWaitOp) -> Step:
        map = op.map.data
        first = AffineMap(map.num_dims, 0, map.results[:1])
        number = self._number(op, op.barriers, first, op.indices)
        subscripts = self._map(op.map, op.indices)
        return lambda: self.mbarriers.wait(op, number(), subscripts()[1])

    def _tma_load(self, op: kernel_tma.TmaLoadOp) -> Step:
        machine, map_op = self.machine, op.map_op
        source, target = self.memory[map_op.ref], self.memory[op.target]
        if map_op.ref not in self.func.input_refs:
            raise Hazard("not checked", op, "a copy from memory that the kernel writes")
        rank = len(map_op.box_sizes)
        subscripts = self._map(op.map, op.indices)
        map = op.map.data
        last = AffineMap(map.num_dims, 0, map.results[-1:])
        number = self._number(op, op.barriers, last, op.indices)

        def at(index: Index, lane: int) -> int:
            return index if isinstance(index, int) else int(index[lane])

        def step() -> None:
            numbers = number()
            for lane in machine.active.tolist():
                lanes: Lanes = machine.everyone[lane : lane + 1]
                here = [at(e, lane) for e in subscripts()[:-1]]
                values = _box(source, here[:rank], map_op.box_sizes)
                first = target.locate(op, here[rank:], lanes)
                elements = self._box_elements(op, target, int(np.max(first)), len(values), lane)
                self.mbarriers.load(op, lane, at(numbers, lane), target, elements, values)

        return step

    def _box_elements(
        self, op: kernel_tma.TmaLoadOp, target: Memory, first: int, count: int, lane: int
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The elements that a box is written to, in its order."""
        start = int(self.machine.block_of[lane]) * target.size
        offset = (first - start) * target.bytes
        if offset % TMA_ALIGNMENT:
            sentence = f"a box is written to {target.name} + {offset} bytes, not a multiple of 128"
            raise self.machine.hazard("misaligned", op, sentence, [lane])
        if first - start + count > target.size:
            sentence = f"a box of {count} elements is written past the end of {target.name}"
            raise self.machine.hazard("out of bounds", op, sentence, [lane])
        units = max(op.map_op.swizzle_bytes // 16, 1) - 1
        addresses = offset + np.arange(count) * target.bytes
        return start + (addresses ^ ((addresses >> 7 & units) << 4)) // target.bytes

    # Control flow.

    def _for(self, op: scf.ForOp) -> Step:
        machine, values = self.machine, self.machine.values
        lb, ub, by = self._slots_of([op.lb, op.ub, op.step])
        index, *carried = self._slots_of(op.body.block.args)
        initial, results = self._slots_of(op.iter_args), self._slots_of(op.res)
        body = self._block(op.body.block)
        end = op.body.block.last_op
        yielded = self._slots_of(end.operands) if isinstance(end, scf.YieldOp) else []

        def turn(trip: int, at: Index) -> None:
            machine.iteration[-1] = trip
            values[index] = at
            for step in body:
                step()

        def step() -> None:
            first, last, stride = values[lb], values[ub], values[by]
            if carried:
                _assign(values, carried, initial)
            machine.iteration.append(0)
            if isinstance(first, int) and isinstance(last, int) and isinstance(stride, int):
                for at in range(first, last, stride):
                    turn(at, at)
                    if carried:
                        _assign(values, carried, yielded)
            else:
                self._differing(turn, (first, last, stride), carried, yielded)
            machine.iteration.pop()
            if carried:
                _assign(values, results, carried)

        return step

    def _differing(
        self,
        turn: Callable[[int, Index], None],
        bounds: tuple[Index, Index, Index],
        carried: list[int],
        yielded: list[int],
    ) -> None:
        """A loop whose bounds differ among threads: runs until the last thread is done."""
        machine, values = self.machine, self.machine.values
        at, last, stride = bounds
        mask, trip = machine.mask, 0
        while True:
            here = np.broadcast_to(at < last, machine.lanes)
            here = here if mask is None else here & mask
            if not here.any():
                break
            machine.activate(here)
            turn(trip, at)
            new = [
                _blend(here, values[y], values[c]) for y, c in zip(yielded, carried, strict=True)
            ]
            for slot, value in zip(carried, new, strict=True):
                values[slot] = value
            at, trip = at + stride, trip + 1
        machine.activate(mask)

    def _if(self, op: scf.IfOp) -> Step:
        machine, values = self.machine, self.machine.values
        condition, results = self._slot(op.cond), self._slots_of(op.output)
        bodies: list[list[Step]] = []
        yields: list[list[int]] = []
        for region in (op.true_region, op.false_region):
            block = region.block if region.blocks else None
            bodies.append([] if block is None else self._block(block))
            end = None if block is None else block.last_op
            yields.append(self._slots_of(end.operands) if isinstance(end, scf.YieldOp) else [])

        def branch(number: int) -> list[Value]:
            for step in bodies[number]:
                step()
            return [values[slot] for slot in yields[number]]

        def step() -> None:
            holds = values[condition]
            if np.ndim(holds):
                active = holds[machine.active]
                differs = active.any() and not active.all()
                if not differs:
                    holds = bool(active.any())
            if np.ndim(holds) == 0:
                chosen = branch(0 if holds else 1)
            else:
                mask = machine.mask
                machine.activate(machine.narrowed(holds))
                first = branch(0)
                machine.activate(~holds if mask is None else mask & ~holds)
                second = branch(1)
                machine.activate(mask)
                pairs = zip(first, second, strict=True)
                chosen = [_blend(holds, a, b) for a, b in pairs]
            for slot, value in zip(results, chosen, strict=True):
                values[slot] = value

        return step


def _blend(holds: Holds, a: Value, b: Value) -> Value:
    """`a` where a condition holds, else `b`."""
    if np.ndim(holds) == 0:
        return a if holds else b
    condition: Any = holds
    if np.ndim(a) > 1 or np.ndim(b) > 1:
        condition = condition[:, None]
    return np.where(condition, a, b)


def _assign(values: list[Value], targets: Sequence[int], sources: Sequence[int]) -> None:
    new = [values[s] for s in sources]
    for slot, value in zip(targets, new, strict=True):
        values[slot] = value


def _width(type: Attribute) -> int:
    """How many elements an access takes."""
    return int(np.prod(type.get_shape())) if isinstance(type, VectorType) else 1


def _box(source: Memory, at: Sequence[int], box: Sequence[int]) -> Any:
    """The elements of a box in order, those outside 0."""
    inside: Any = np.ones(box, np.bool_)
    places: list[Any] = []
    for dim, (first, size, extent) in enumerate(zip(at, box, source.shape, strict=True)):
        along = first + np.arange(size)
        shape = [size if d == dim else 1 for d in range(len(box))]
        inside = inside & ((along >= 0) & (along < extent)).reshape(shape)
        places.append(np.clip(along, 0, extent - 1))
    found = source.array()[np.ix_(*places)]
    return np.where(inside, found, source.element.type(0)).reshape(-1)


_NO_STEPS = (
    scf.YieldOp,
    kernel.AllocSharedOp,
    kernel_tma.TensorMapOp,
    kernel_tma.AllocMbarriersOp,
)
"""Operations that do nothing when they are reached."""

_HANDLERS: dict[type[Operation], Callable[[Program, Any], Step]] = {
    arith.ConstantOp: Program._constant,
    kernel.BlockIdOp: Program._block_id,
    kernel.ThreadIdOp: Program._thread_id,
    kernel.AllocLocalOp: Program._alloc_local,
    kernel.LoadOp: Program._load,
    kernel.StoreOp: Program._store,
    kernel.AtomicAddOp: Program._store,
    kernel.IndexOp: Program._index,
    kernel.TestOp: Program._test,
    kernel.SelectOp: Program._select,
    kernel.BarrierOp: Program._barrier,
    kernel.ShuffleOp: Program._shuffle,
    kernel.CpAsyncOp: Program._cp_async,
    kernel.CommitOp: Program._commit,
    kernel.WaitOp: Program._wait,
    kernel_tma.SyncWarpOp: Program._sync_warp,
    kernel_tma.MbarrierInitOp: Program._mbarrier_init,
    kernel_tma.MbarrierArriveOp: Program._mbarrier_arrive,
    kernel_tma.MbarrierExpectTxOp: Program._mbarrier_expect_tx,
    kernel_tma.MbarrierWaitOp: Program._mbarrier_wait,
    kernel_tma.TmaLoadOp: Program._tma_load,
    kernel_tma.FenceMbarrierInitOp: lambda self, op: (
        lambda: self.mbarriers.fence(self.mbarriers.init_fence)
    ),
    kernel_tma.FenceProxyAsyncOp: lambda self, op: (
        lambda: self.mbarriers.fence(self.mbarriers.proxy_fence)
    ),
    scf.ForOp: Program._for,
    scf.IfOp: Program._if,
}

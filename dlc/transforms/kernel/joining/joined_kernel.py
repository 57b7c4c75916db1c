"""Kernels as one, whose blocks are dealt over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from dlc.analysis.kernel.block_parts import conditions_of
from dlc.dialects import kernel
from dlc.dialects.kernel_op import NEW
from dlc.ir.expr import Expr

Slot = tuple[int, int]
"""An input: the number of the kernel, and of its input."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of a joined kernel: what several of its kernels are given is one of them."""

    slots: tuple[tuple[Slot, ...], ...]
    """For each input those that it is."""

    @staticmethod
    def of(launches: Sequence[kernel.LaunchOp]) -> Inputs:
        """Of the same tensor one, where the kernels have one type for it and none writes to it."""
        found: dict[object, list[Slot]] = {}
        for number, launch in enumerate(launches):
            callee = launch.callee
            assert callee is not None
            for slot, (value, ref) in enumerate(zip(launch.inputs, callee.input_refs, strict=True)):
                one = launch.changes(value)
                key = (number, slot) if one else (value, ref.type)
                found.setdefault(key, []).append((number, slot))
        return Inputs(tuple(map(tuple, found.values())))

    @property
    def firsts(self) -> tuple[Slot, ...]:
        """Where each is read first."""
        return tuple(slots[0] for slots in self.slots)

    @property
    def again(self) -> Iterator[Slot]:
        """Inputs that are others of an earlier kernel."""
        return (slot for slots in self.slots for slot in slots[1:])


@dataclass
class JoinedKernel:
    """
    A kernel whose first blocks do what those of a kernel do, the next those of another one, with as
    many threads as each has. Each kernel begins at a cluster's first block.
    """

    name: str
    funcs: Sequence[kernel.FuncOp]
    inputs: Inputs
    _values: list[dict[SSAValue, SSAValue]] = field(default_factory=list)

    def build(self) -> kernel.FuncOp:
        """The kernel."""
        block = self._arguments()
        number = kernel.BlockIdOp()
        number.result.name_hint = "block"
        block.add_op(number)
        parts = list(self._parts())
        grid = parts[-1].stop + -parts[-1].stop % self.cluster
        for func, values, part in zip(self.funcs, self._values, parts, strict=True):
            block.add_ops(self._part(func, values, part, number.result, grid))
        return kernel.FuncOp(
            self.name,
            Region(block),
            [
                max(func.alignment(func.input_refs[slot]) for func, slot in self._of(slots))
                for slots in self.inputs.slots
            ],
            grid,
            self.threads,
            self.schedule,
            list(self._zeroed()),
            list(self._updates()),
            cluster=self.cluster,
        )

    @property
    def schedule(self) -> str | None:
        """Those of the kernels, each behind its name: none is the whole's."""
        given = [(func.name_, func.schedule) for func in self.funcs]
        parts = (f"{name}: {text.data}" for name, text in dict.fromkeys(given) if text is not None)
        return "; ".join(parts) or None

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return max(func.block_size for func in self.funcs)

    @property
    def cluster(self) -> int:
        """Blocks of a cluster: as many as the largest that a kernel has."""
        return max(func.cluster_size for func in self.funcs)

    def _parts(self) -> Iterator[range]:
        """The blocks of each kernel; those that fill its last cluster do nothing."""
        first = 0
        for func in self.funcs:
            yield range(first, first + func.grid_size)
            first += func.grid_size + -func.grid_size % self.cluster

    def _of(self, slots: Sequence[Slot]) -> Iterator[tuple[kernel.FuncOp, int]]:
        return ((self.funcs[number], slot) for number, slot in slots)

    def _arguments(self) -> Block:
        """A block with the arguments, which take the places of the kernels' own."""
        firsts = [func.input_refs[slot] for func, slot in self._of(self.inputs.firsts)]
        outputs = [ref for func in self.funcs for ref in func.output_refs]
        block = Block(arg_types=[ref.type for ref in (*firsts, *outputs)])
        for argument, ref in zip(block.args, (*firsts, *outputs), strict=True):
            argument.name_hint = ref.name_hint
        self._values = [{} for _ in self.funcs]
        for argument, slots in zip(block.args, self.inputs.slots, strict=False):
            for number, slot in slots:
                self._values[number][self.funcs[number].input_refs[slot]] = argument
        rest = iter(block.args[len(firsts) :])
        for func, values in zip(self.funcs, self._values, strict=True):
            values |= zip(func.output_refs, rest, strict=False)
        return block

    def _part(
        self,
        func: kernel.FuncOp,
        values: dict[SSAValue, SSAValue],
        part: range,
        number: SSAValue,
        grid: int,
    ) -> list[Operation]:
        """What the blocks of a part do: the body of a kernel under conditions."""
        maps = [
            op.clone(values) for op in func.body.block.ops if isinstance(op, kernel.TensorMapOp)
        ]
        inside: list[Operation] = []
        wider: list[kernel.MapClusterOp] = []
        for op in func.body.block.ops:
            if isinstance(op, kernel.TensorMapOp):
                continue
            if isinstance(op, kernel.BlockIdOp):
                new: Operation = kernel.BlockIdOp(part)
                new.location, new.results[0].name_hint = op.location, op.result.name_hint
                values[op.result] = new.results[0]
            elif isinstance(op, kernel.MapClusterOp) and func.cluster_size < self.cluster:
                new = kernel.MapClusterOp(values[op.source], self.cluster)
                new.location, new.result.name_hint = op.location, op.result.name_hint
                values[op.result] = new.result
                wider.append(new)
            else:
                new = op.clone(values)
            inside.append(new)
        own = Expr.of(number) % self.cluster // func.cluster_size * func.cluster_size
        for op in wider:
            _read_from(op, own)
        if func.block_size < self.threads:
            _restrict(inside, func.block_size)
            inside = _first_threads(inside, func.block_size)
        where = conditions_of(Expr.of(number), part, grid)
        return [*maps, *_branch(where, inside)]

    def _zeroed(self) -> Iterator[int]:
        """The positions of outputs that are full of zeros at the start."""
        before = 0
        for func in self.funcs:
            positions = () if func.zeroed is None else func.zeroed.get_values()
            yield from (before + int(n) for n in positions)
            before += len(func.output_refs)

    def _updates(self) -> Iterator[int]:
        """For each output the number of the input that it updates."""
        numbers = {slot: n for n, slots in enumerate(self.inputs.slots) for slot in slots}
        for kernel_number, func in enumerate(self.funcs):
            none = [NEW] * len(func.output_refs)
            for n in none if func.updates is None else func.updates.get_values():
                yield numbers[kernel_number, int(n)] if n >= 0 else int(n)


def _read_from(op: kernel.MapClusterOp, first: Expr) -> None:
    """Has what is read of blocks be that of those from one on."""
    for use in list(op.result.uses):
        load = use.operation
        assert isinstance(load, kernel.LoadOp)
        block, *inside = load.subscripts
        load.set_index([first + block, *inside], load.where)


_MEETINGS = kernel.BarrierOp | kernel.LastBlockOp | kernel.ClusterBarrierOp


def _restrict(ops: Sequence[Operation], threads: int) -> None:
    """Has the first threads meet alone."""
    for op in (inner for outer in ops for inner in outer.walk()):
        if isinstance(op, _MEETINGS) and op.threads is None:
            op.threads = IntegerAttr(threads, i64)


def _first_threads(ops: Sequence[Operation], threads: int) -> list[Operation]:
    """Operations that the first threads of a block do alone."""
    thread = kernel.ThreadIdOp()
    thread.result.name_hint = "thread"
    return [thread, *_branch([Expr((), threads - 1) - Expr(((thread.result, 1),))], ops)]


def _branch(where: Sequence[Expr], ops: Sequence[Operation]) -> list[Operation]:
    """A branch that is taken where conditions hold."""
    test = kernel.TestOp(where)
    branch = scf.IfOp(test.result, [], [*ops, scf.YieldOp()])
    for op in (test, branch) if ops else ():
        op.location = ops[0].location
    return [test, branch]


def constants_first(func: kernel.FuncOp) -> None:
    """Moves constants to the top of a kernel, each once."""
    known: dict[object, SSAValue] = {}
    block = func.body.block
    for op in list(func.walk()):
        if isinstance(op, arith.ConstantOp):
            key = (op.value, op.result.type)
            if key in known:
                op.result.replace_all_uses_with(known[key])
                op.detach()
                op.erase()
                continue
            known[key] = op.result
            op.detach()
            assert block.first_op is not None
            block.insert_op_before(op, block.first_op)

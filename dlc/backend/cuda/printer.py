"""
Kernel IR as CUDA C: a walk over the kernel, one line per operation or less.

    extern "C" __global__ void __launch_bounds__(256)
    add(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z) {
      const int t = threadIdx.x;
      z[t] = x[t] + y[t];
    }

A scalar that is used once, in the same block, is written where it is used if that reads well and
nothing overwrites in between what it was loaded from; every other value is a constant of its own.
The text compiles with nvcc, and with a C++ compiler behind the host backend's header.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import IO

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, ModuleOp, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.target import Target

from dlc.analysis.layout import linear_offset, span
from dlc.backend.cuda.c_index import IndexText
from dlc.backend.cuda.c_scalar import (
    ACCUMULATIONS,
    COMMUTATIVE,
    function_name,
    is_conditional,
    mentions_twice,
    scalar,
    value_type,
)
from dlc.backend.cuda.c_text import (
    COLUMNS,
    Level,
    Names,
    Text,
    broken_lines,
    c_type,
    call,
    constant,
    kernel_name,
    ternary,
)
from dlc.backend.cuda.liveness import live_ops
from dlc.backend.cuda.prelude import prelude_for
from dlc.diagnostics import fail
from dlc.dialects import kernel
from dlc.dialects.access import element_type
from dlc.ir.expr import Expr, constant_of

def print_module(module: ModuleOp) -> str:
    """All kernels of a module in one text, after the prelude functions that they use."""
    for op in module.walk():
        if op.name in ("loop.kernel", "tile.kernel"):
            fail(
                op,
                f"the CUDA printer expects kernel.func, found {op.name}",
                "run materialize-tiles first",
            )
    return _print([op for op in module.walk() if isinstance(op, kernel.FuncOp)])


def print_kernel(func: kernel.FuncOp) -> str:
    """One kernel as a text that compiles on its own."""
    return _print([func])


def _print(funcs: Iterable[kernel.FuncOp]) -> str:
    printers = [_KernelPrinter(func) for func in funcs]
    texts = [printer.print() for printer in printers]
    helpers = {name for printer in printers for name in printer.helpers}
    return prelude_for(helpers) + "\n".join(texts)


@dataclass(frozen=True)
class CudaTarget(Target):
    """`dlc-opt -t cuda`: the kernels of a module as CUDA C."""

    name = "cuda"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(print_module(module))


class _KernelPrinter:
    """The state of printing one kernel."""

    def __init__(self, func: kernel.FuncOp) -> None:
        self.func = func
        self.helpers: set[str] = set()
        self.index = IndexText(self.use, self.helpers)
        called = [name for op in func.walk() if (name := function_name(op)) is not None]
        self.names = Names(called)
        self.live = live_ops(func)
        self.slots, total = _shared_slots(func)
        self.is_static = total <= STATIC_SHARED_LIMIT
        self.smem = ""
        self.lines: list[str] = []
        self.indent = 0
        self.text: dict[SSAValue, Text] = {}
        self.pending: dict[SSAValue, Memory] = {}
        """Values that are not written yet, in order, and what they read."""
        self.uses_left: dict[SSAValue, int] = {}
        self.reads: Memory = frozenset()
        """What the pending values that `use` gave read, since the last `_taken`."""
        self.undeclared: dict[SSAValue, Operation] = {}
        """Local scalars that their first store declares."""

    # The kernel.

    def print(self) -> str:
        func = self.func
        what = f"// grid {func.grid_size}, block {func.block_size}"
        if func.schedule is not None:
            what += f"; schedule: {func.schedule.data}"
        self.lines += textwrap.wrap(
            what, COLUMNS, subsequent_indent="//   ", break_on_hyphens=False
        )
        self.line(f'extern "C" __global__ void __launch_bounds__({func.block_size})')
        parameters: list[str] = []
        for type, ref in zip(parameter_types(func), func.refs, strict=True):
            parameters.append(f"{type} __restrict__ {self._name(ref, 'ref')}")
        head = f"{c_name(func)}({', '.join(parameters)}) {{"
        if len(head) > COLUMNS:
            head = f"{c_name(func)}(\n    " + ",\n    ".join(parameters) + ") {"
        self.lines.append(head)
        self.indent = 1
        if not self.is_static:
            self.smem = self.names.new("smem")
            self.helpers.add("dynamic_shared")
            self.line(f"char* {self.smem} = dynamic_shared();  // {shared_bytes(func)} bytes")
        self._ops(func.body.block)
        self.indent = 0
        self.line("}")
        return "\n".join(self.lines) + "\n"

    def line(self, text: str) -> None:
        """Writes one line, or several where it is too long."""
        self.lines += broken_lines(text, "  " * self.indent)

    def _ops(self, block: Block) -> None:
        for op in block.ops:
            if op in self.live and not isinstance(op, scf.YieldOp):
                self._op(op)

    def _body(self, block: Block, results: Sequence[Text]) -> None:
        """Writes the body of a loop or if; what it yields is assigned to `results`."""
        self.indent += 1
        self.names.open()
        self._ops(block)
        end = block.last_op
        if isinstance(end, scf.YieldOp):
            self._assign(end, results)
        self.names.close()
        self.indent -= 1

    # Memory.

    def _element_text(self, ref: SSAValue, subscripts: Sequence[Expr]) -> Text:
        """`x[row * 2048 + k]`"""
        type = _memref(ref)
        name = self.text[ref].text
        if kernel.is_local(ref):
            return Text(name + "".join(f"[{self.index.expr(s)}]" for s in subscripts))
        return Text(f"{name}[{self.index.expr(linear_offset(type, subscripts))}]")

    def _readable(self, ref: SSAValue) -> Memory:
        """`ref` as memory that can change; inputs never do."""
        return frozenset() if ref in self.func.input_refs else frozenset((ref,))

    def _load(self, op: kernel.LoadOp) -> None:
        where = self.index.conditions(op.where)
        place = self._element_text(op.ref, op.subscripts)
        type = value_type(op.result, op)
        vector = op.result.type if isinstance(op.result.type, VectorType) else None
        value = Text(place.text, depth=0 if kernel.is_local(op.ref) else 1)
        if vector is not None:
            value = self._vector_call("load", vector, op, Text(f"&{place}"))
        if where is not None and op.default is not None:
            default = self.use(op.default)
            if vector is not None:
                lanes = [self.named(op.default)] * prod(vector.get_shape())
                default = call(f"make_{type}", *lanes)
            value = ternary(where, value, default)
        elif where is not None:
            zero = Text(f"{type}{{}}") if vector is not None else self._zero(op.result.type)
            value = ternary(where, value, zero)
        self._define(op.result, value, self._taken() | self._readable(op.ref))

    def _zero(self, type: Attribute) -> Text:
        zeros = {"float": "0.0f", "double": "0.0", "bool": "false"}
        return Text(zeros.get(c_type(type) or "", "0"))

    def _vector_call(
        self, kind: str, type: VectorType[Attribute], op: Operation, *arguments: Text
    ) -> Text:
        value_type(op.results[0] if op.results else op.operands[0], op)
        helper = f"{kind}{prod(type.get_shape())}"
        self.helpers.add(helper)
        return call(helper, *arguments)

    def _store(self, op: kernel.StoreOp) -> None:
        place = self._element_text(op.ref, op.subscripts)
        where = self.index.conditions(op.where)
        vector = op.value.type if isinstance(op.value.type, VectorType) else None
        folded = None if vector is not None else self._accumulation(op, place)
        if folded is not None:
            statement = folded
        elif vector is not None:
            value = self.use(op.value)
            statement = f"{self._vector_call('store', vector, op, Text(f'&{place}'), value)};"
        else:
            statement = f"{place} = {self.use(op.value)};"
        self._taken()
        self._flush(op.ref)
        if op.ref in self.undeclared:
            del self.undeclared[op.ref]
            statement = f"{_element(op.ref, op)} {statement}"
        self._effect(where, statement)

    def _effect(self, where: Text | None, statement: str) -> None:
        self._flush_lanes()
        self.line(statement if where is None else f"if ({where}) {statement}")

    def _flush_lanes(self) -> None:
        """Writes pending shuffles: all lanes of a warp have to reach them in the same order."""
        for value, reads in list(self.pending.items()):
            if None in reads:
                self._write(value)

    def _accumulation(self, op: kernel.StoreOp, place: Text) -> str | None:
        """`acc += x;` where the stored value is what the place holds, plus something."""

        def is_place(value: SSAValue) -> bool:
            load = value.owner
            return (
                isinstance(load, kernel.LoadOp)
                and load.ref is op.ref
                and load.subscripts == op.subscripts
                and not load.where
                and len(self._uses(value)) == 1
            )

        return self._folded(op.value, place, is_place)

    def _folded(
        self, value: SSAValue, place: Text, is_place: Callable[[SSAValue], bool]
    ) -> str | None:
        update = value.owner
        operator = ACCUMULATIONS.get(type(update))  # pyright: ignore[reportArgumentType]
        if operator is None or value not in self.pending or len(self._uses(value)) > 1:
            return None
        if value_type(value, self.func) in ("signed char", "short"):
            return None
        assert isinstance(update, Operation)
        lhs, rhs = update.operands
        if isinstance(update, COMMUTATIVE) and is_place(rhs) and not is_place(lhs):
            lhs, rhs = rhs, lhs
        if not is_place(lhs) or self.text[lhs].text != place.text:
            return None
        self.use(value)
        return f"{place} {operator}= {self.text[rhs]};"

    def _allocate_local(self, op: kernel.AllocLocalOp) -> None:
        shape = _memref(op.result).get_shape()
        name = self._name(op.result, "local")
        type = _element(op.result, op)
        if not shape:
            first = self._first_access(op)
            if isinstance(first, kernel.StoreOp) and first.parent is op.parent and not first.where:
                self.undeclared[op.result] = op
            else:
                self.line(f"{type} {name};")
            return
        align = "alignas(16) " if self._has_vectors(op.result) else ""
        self.line(f"{align}{type} {name}{''.join(f'[{n}]' for n in shape)};")

    def _first_access(self, op: Operation) -> Operation | None:
        """The first live operation of the block whose memory `op` allocates, or what holds it."""
        users = set(self._uses(op.results[0]))
        after = op.next_op
        while after is not None and not any(inner in users for inner in after.walk()):
            after = after.next_op
        return after

    def _has_vectors(self, ref: SSAValue) -> bool:
        return any(
            isinstance(value.type, VectorType)
            for user in self._uses(ref)
            for value in (*user.operands, *user.results)
        )

    def _allocate_shared(self, op: kernel.AllocSharedOp) -> None:
        type, count = _element(op.result, op), span(_memref(op.result))
        name = self._name(op.result, "shared")
        shape = "".join(f"[{n}]" for n in _memref(op.result).get_shape())
        if self.is_static:
            note = f"  // {shape}" if shape.count("[") > 1 else ""
            self.line(f"__shared__ alignas(16) {type} {name}[{max(count, 1)}];{note}")
            return
        offset = self.slots[op.result]
        address = f"{self.smem} + {offset}" if offset else self.smem
        self.line(f"{type}* {name} = reinterpret_cast<{type}*>({address});  // {shape}")

    # Control flow.

    def _for(self, op: scf.ForOp) -> None:
        results: list[Text] = []
        index, *carried = op.body.block.args
        for argument, initial in zip(carried, op.iter_args, strict=True):
            value = self.use(initial)
            name = self._name(argument, "carried")
            self.line(f"{value_type(argument, op)} {name} = {value};")
            results.append(Text(name))
        first, end = self._bound(op.lb), self._bound(op.ub)
        step = constant_of(op.step)
        by = "++{}" if step == 1 else f"{{}} += {self._bound(op.step)}"
        self._taken()
        self._flush()
        if "unroll" in op.attributes:
            self.line("#pragma unroll")
        self.names.open()
        name = self._name(index, "i")
        type = value_type(index, op)
        until = f"{name} < {end.at(Level.SUM)}"
        self.line(f"for ({type} {name} = {first}; {until}; {by.format(name)}) {{")
        self._body(op.body.block, results)
        self.line("}")
        self.names.close()
        for result, text in zip(op.res, results, strict=True):
            self.text[result] = text

    def _bound(self, value: SSAValue) -> Text:
        """A bound of a loop: what reads memory is named, for it is evaluated every time."""
        return self.named(value) if self.pending.get(value) else self.use(value)

    def _if(self, op: scf.IfOp) -> None:
        results: list[Text] = []
        for result in op.output:
            name = self._name(result, "chosen")
            self.line(f"{value_type(result, op)} {name};")
            results.append(Text(name))
        condition = self.use(op.cond)
        self._taken()
        self._flush()
        self.line(f"if ({condition}) {{")
        self._body(op.true_region.block, results)
        if op.false_region.blocks and any(o in self.live for o in op.false_region.block.ops):
            otherwise = op.false_region.block
            if results or any(not isinstance(o, scf.YieldOp) for o in otherwise.ops):
                self.line("} else {")
                self._body(otherwise, results)
        self.line("}")

    def _assign(self, op: scf.YieldOp, targets: Sequence[Text]) -> None:
        """Assigns what is yielded; all of it is evaluated before anything is assigned."""
        names = [t.text for t in targets]
        if len(targets) > 1:
            for value in op.arguments:
                self.named(value)
                if self.text[value].text in names:
                    self.pending[value] = frozenset()
                    self._copy(value)
        for target, value in zip(targets, op.arguments, strict=True):
            folded = self._folded(value, target, lambda v, t=target: self.text[v].text == t.text)
            text = folded or f"{target} = {self.use(value)};"
            self._taken()
            self._flush_lanes()
            if text != f"{target} = {target};":
                self.line(text)

    def _copy(self, value: SSAValue) -> None:
        """Keeps a variable's value under another name."""
        type = value_type(value, self.func)
        text = self.text[value]
        del self.pending[value]
        self.line(f"const {type} {self._name(value, 'kept')} = {text};")

    # One operation.

    def _op(self, op: Operation) -> None:
        match op:
            case arith.ConstantOp():
                self._constant(op)
            case kernel.BlockIdOp():
                self.line(f"const int {self._name(op.result, 'block')} = blockIdx.x;")
            case kernel.ThreadIdOp():
                self.line(f"const int {self._name(op.result, 'thread')} = threadIdx.x;")
            case kernel.AllocSharedOp():
                self._allocate_shared(op)
            case kernel.AllocLocalOp():
                self._allocate_local(op)
            case kernel.LoadOp():
                self._load(op)
            case kernel.StoreOp():
                self._store(op)
            case kernel.IndexOp():
                self._define(op.result, self.index.expr(op.subscripts[0]), self._taken())
            case kernel.TestOp():
                where = self.index.conditions(op.where) or Text("true")
                self._define(op.result, where, self._taken())
            case kernel.SelectOp():
                value, default = self.use(op.value), self.use(op.default)
                where = self.index.conditions(op.where)
                text = value if where is None else ternary(where, value, default)
                self._define(op.result, text, self._taken())
            case kernel.ShuffleOp():
                self._shuffle(op)
            case kernel.BarrierOp() | kernel.CommitOp() | kernel.WaitOp():
                self._synchronize(op)
            case kernel.CpAsyncOp():
                self._cp_async(op)
            case kernel.AtomicAddOp():
                self._atomic_add(op)
            case scf.ForOp():
                self._for(op)
            case scf.IfOp():
                self._if(op)
            case _:
                self._scalar(op)

    def _constant(self, op: arith.ConstantOp) -> None:
        text = constant(op.value)
        if text is None:
            fail(op, f"the CUDA printer has no text for a constant of type {op.result.type}")
        self.text[op.result] = text

    def _scalar(self, op: Operation) -> None:
        if op.regions or len(op.results) != 1:
            fail(op, f"the CUDA printer has no text for '{op.name}'")
        operand = self.named if mentions_twice(op) else self.use
        text = scalar(op, [operand(v) for v in op.operands], self.helpers)
        self._define(op.results[0], text, self._taken())

    def _shuffle(self, op: kernel.ShuffleOp) -> None:
        value_type(op.value, op)
        self._flush_lanes()
        self.helpers.add("shuffle_xor")
        lanes = (Text(str(n.value.data)) for n in (op.mask, op.width))
        text = call("shuffle_xor", self.use(op.value), *lanes)
        self._define(op.result, text, self._taken() | {None})

    def _synchronize(self, op: Operation) -> None:
        self._flush()
        if isinstance(op, kernel.WaitOp):
            self.helpers.add("cp_async_wait")
            self.line(f"cp_async_wait<{op.pending.value.data}>();")
        elif isinstance(op, kernel.CommitOp):
            self.helpers.add("cp_async_commit")
            self.line("cp_async_commit();")
        else:
            self.line("__syncthreads();")

    def _cp_async(self, op: kernel.CpAsyncOp) -> None:
        size = op.elements.value.data * kernel.element_bytes(element_type(op.source.type))
        helper = f"cp_async_{size}"
        self.helpers.add(helper)
        target = self._element_text(op.target, op.target_subscripts)
        source = self._element_text(op.source, op.subscripts)
        where = self.index.conditions(op.where) or Text("true")
        self._taken()
        self._flush(op.target)
        self._effect(None, f"{call(helper, Text(f'&{target}'), Text(f'&{source}'), where)};")

    def _atomic_add(self, op: kernel.AtomicAddOp) -> None:
        type = op.value.type
        if (isinstance(type, IntegerType) and type.width.data != 32) or c_type(type) is None:
            fail(op, f"atomic_add expects f32, f64 or i32, found {type}")
        self.helpers.add("atomic_add")
        place = self._element_text(op.ref, op.subscripts)
        where = self.index.conditions(op.where)
        value = self.use(op.value)
        self._taken()
        self._flush(op.ref)
        self._effect(where, f"{call('atomic_add', Text(f'&{place}'), value)};")

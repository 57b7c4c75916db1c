"""
Kernel IR as CUDA C: a walk over the kernel, one line per operation or less.

    extern "C" __global__ void __launch_bounds__(256)
    add(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z) {
      const int t = threadIdx.x;
      z[t] = x[t] + y[t];
    }

A value that stands directly before its only use is written there if that reads well; every other
value is a constant of its own. `sink-expressions` puts values before their uses.
The text compiles with nvcc, and with a C++ compiler behind the host backend's header.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import IO

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.target import Target

from dlc.analysis.kernel.expression_parts import is_guarded, users_of
from dlc.analysis.kernel.layout import place_of
from dlc.analysis.kernel.shared_memory import shared_slots
from dlc.backend.cuda.print.c_index import IndexText
from dlc.backend.cuda.print.c_scalar import function_name, scalar, value_type
from dlc.backend.cuda.print.c_text import (
    COLUMNS,
    HALF_HEADERS,
    Level,
    Text,
    binary,
    call,
    comment,
    constant,
    ternary,
)
from dlc.backend.cuda.print.c_values import Values
from dlc.backend.cuda.print.interface import (
    STATIC_SHARED_LIMIT,
    c_element,
    c_name,
    dynamic_shared_bytes,
    parameter_types,
    shared_bytes,
    static_alignment,
)
from dlc.backend.cuda.print.prelude import prelude_for
from dlc.diagnostics import fail
from dlc.dialects import kernel
from dlc.dialects.access import element_type
from dlc.dialects.kernel_mbarriers import MbarrierOpBase
from dlc.dialects.kernel_memory import element_bytes, is_local, memref_of
from dlc.dialects.layouts import span, static_shape
from dlc.ir.expr import Expr, constant_of
from dlc.target import MBARRIER_BYTES

__all__ = [
    "CudaTarget",
    "c_name",
    "dynamic_shared_bytes",
    "parameter_types",
    "print_kernel",
    "print_module",
    "shared_bytes",
]


_GO_ON = "`dlc compile` goes on from here, by the passes that are left"


def print_module(module: ModuleOp) -> str:
    """All kernels of a module in one text, after the prelude functions that they use."""
    for op in module.walk():
        if op.name in ("loop.kernel", "tile.kernel"):
            fail(
                op,
                f"the CUDA printer expects kernel.func, found {op.name}",
                _GO_ON,
            )
    return _print([op for op in module.walk() if isinstance(op, kernel.FuncOp)])


def print_kernel(func: kernel.FuncOp) -> str:
    """One kernel as a text that compiles on its own."""
    return _print([func])


def _independent(func: kernel.FuncOp) -> kernel.FuncOp:
    """A kernel whose threads run independently; OpError for one in lockstep."""
    if func.lockstep is not None:
        fail(func, f"@{func.name_} runs in lockstep, as no GPU does", _GO_ON)
    return func


def _print(funcs: Iterable[kernel.FuncOp]) -> str:
    printers = [_KernelPrinter(_independent(func)) for func in funcs]
    texts = [printer.print() for printer in printers]
    helpers = {name for printer in printers for name in printer.helpers}
    return prelude_for(helpers) + "\n".join(texts)


@dataclass(frozen=True)
class CudaTarget(Target):
    """`dlc-opt -t cuda`: the kernels of a module as CUDA C."""

    name = "cuda"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(print_module(module))


class _KernelPrinter(Values):
    """The state of printing one kernel."""

    def __init__(self, func: kernel.FuncOp) -> None:
        called = (name for op in func.walk() if (name := function_name(op)) is not None)
        super().__init__(called)
        self.func = func
        self.helpers: set[str] = set()
        self.index = IndexText(self.text.__getitem__, self.helpers)
        self.slots, self.total = shared_slots(func)
        self.is_static = self.total <= STATIC_SHARED_LIMIT
        self.smem = ""
        self.undeclared: set[SSAValue] = set()
        """Local scalars that their first store declares."""

    # The kernel.

    def print(self) -> str:
        func = self.func
        types = parameter_types(func)
        maps = [op.result for op in func.tensor_maps]
        parameters: list[str] = []
        for type, map in zip(types[: len(maps)], maps, strict=True):
            parameters.append(f"{type} {self.name(map, 'map')}")
        for type, ref in zip(types[len(maps) :], func.refs, strict=True):
            parameters.append(f"{type} __restrict__ {self.name(ref, 'ref')}")
        what = f"grid {func.grid_size}, block {func.block_size}"
        if zeroed := ", ".join(self.text[ref].text for ref in func.zeroed_refs):
            what += f"; zeroed before: {zeroed}"
        if func.schedule is not None:
            what += f"; schedule: {func.schedule.data}"
        self.lines += comment(what)
        self.line(f'extern "C" __global__ void __launch_bounds__({func.block_size})')
        head = f"{c_name(func)}({', '.join(parameters)}) {{"
        if len(head) > COLUMNS:
            head = f"{c_name(func)}(\n    " + ",\n    ".join(parameters) + ") {"
        self.lines.append(head)
        self.indent = 1
        if not self.is_static:
            self.smem = self.names.new("smem")
            self.helpers.add("dynamic_shared")
            self.line(f"char* {self.smem} = dynamic_shared();  // {self.total} bytes")
        self._ops(func.body.block)
        self.indent = 0
        self.line("}")
        text = "\n".join(self.lines) + "\n"
        self.helpers.update(header for type, header in HALF_HEADERS.items() if type in text)
        return text

    def _ops(self, block: Block) -> None:
        self.enter(block)
        for op in block.ops:
            if not isinstance(op, scf.YieldOp):
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

    def _element_text(self, op: Operation, ref: SSAValue, subscripts: Sequence[Expr]) -> Text:
        """`x[row * 2048 + k]`"""
        name = self.text[ref].text
        if is_local(ref):
            return Text(name + "".join(f"[{self.index.expr(s)}]" for s in subscripts))
        place = place_of(memref_of(ref), subscripts)
        offset = self.index.expr(place.base + place.unit)
        if place.exchange != Expr():
            offset = self.index.expr(place.exchange)
            if place.unit != Expr():
                offset = binary(self.index.expr(place.unit), "^", offset)
            if place.base != Expr():
                offset = binary(self.index.expr(place.base), "+", offset)
        return Text(f"{name}[{offset}]")

    def _load(self, op: kernel.LoadOp) -> None:
        user = self.user_of(op)
        guarded = bool(op.where) and user is not None and is_guarded(op, user)
        where = None if guarded else self.index.conditions(op.where)
        vector = op.result.type if isinstance(op.result.type, VectorType) else None
        default = None if op.default is None else self.text[op.default]
        place = self._element_text(op, op.ref, op.subscripts)
        value = Text(place.text, depth=0 if is_local(op.ref) else 1)
        if vector is not None:
            value = self._vector_call("load", vector, op, Text(f"&{place}"))
        if where is not None:
            value = ternary(where, value, self._otherwise(op, default))
        self.define(op, value, inline=guarded)

    def _otherwise(self, op: kernel.LoadOp, default: Text | None) -> Text:
        """What a load gives where its conditions do not hold."""
        type = value_type(op.result, op)
        if not isinstance(op.result.type, VectorType):
            zeros = {"float": "0.0f", "double": "0.0", "bool": "false"}
            return default or Text(zeros.get(type, f"{type}()" if type in HALF_HEADERS else "0"))
        if default is None:
            return Text(f"{type}{{}}")
        width = prod(static_shape(op.result.type))
        if type.startswith("packed"):
            self.helpers.add("fill_packed")
            return call(f"fill_packed<{width}>", default)
        return call(f"make_{type}", *[default] * width)

    def _vector_call(
        self, kind: str, type: VectorType[Attribute], op: Operation, *arguments: Text
    ) -> Text:
        name = value_type(op.results[0] if op.results else op.operands[0], op)
        width = prod(static_shape(type))
        helper = f"{kind}_packed" if name.startswith("packed") else f"{kind}{width}"
        self.helpers.add(helper)
        return call(f"{helper}<{width}>" if helper == "load_packed" else helper, *arguments)

    def _store(self, op: kernel.StoreOp) -> None:
        place = self._element_text(op, op.ref, op.subscripts)
        where = self.index.conditions(op.where)
        vector = op.value.type if isinstance(op.value.type, VectorType) else None
        folded = None if vector is not None else self.folded(op.value, place)
        if folded is not None:
            statement = folded
        elif vector is not None:
            value = self.text[op.value]
            statement = f"{self._vector_call('store', vector, op, Text(f'&{place}'), value)};"
        else:
            statement = f"{place} = {self.text[op.value]};"
        if op.ref in self.undeclared:
            self.undeclared.remove(op.ref)
            statement = f"{c_element(op.ref, op)} {statement}"
        self._effect(where, statement)

    def _effect(self, where: Text | None, statement: str) -> None:
        self.line(statement if where is None else f"if ({where}) {statement}")

    def _allocate_local(self, op: kernel.AllocLocalOp) -> None:
        shape = static_shape(op.result.type)
        name = self.name(op.result, "local")
        type = c_element(op.result, op)
        if not shape:
            first = self._first_access(op)
            if isinstance(first, kernel.StoreOp) and first.parent is op.parent and not first.where:
                self.undeclared.add(op.result)
            else:
                self.line(f"{type} {name};")
            return
        align = "alignas(16) " if self._has_vectors(op.result) else ""
        self.line(f"{align}{type} {name}{''.join(f'[{n}]' for n in shape)};")

    def _first_access(self, op: Operation) -> Operation | None:
        """The first operation of the block whose memory `op` allocates, or what holds it."""
        users = users_of(op.results[0])
        after = op.next_op
        while after is not None and not any(inner in users for inner in after.walk()):
            after = after.next_op
        return after

    def _has_vectors(self, ref: SSAValue) -> bool:
        return any(
            isinstance(value.type, VectorType)
            for user in users_of(ref)
            for value in (*user.operands, *user.results)
        )

    def _allocate_shared(self, op: kernel.AllocSharedOp) -> None:
        type, count = c_element(op.result, op), span(memref_of(op.result))
        name = self.name(op.result, "shared")
        shape = "".join(f"[{n}]" for n in static_shape(op.result.type))
        if self.is_static:
            note = f"  // {shape}" if shape.count("[") > 1 else ""
            align = f"alignas({static_alignment(op.result)})"
            self.line(f"__shared__ {align} {type} {name}[{max(count, 1)}];{note}")
            return
        offset = self.slots[op.result]
        address = f"{self.smem} + {offset}" if offset else self.smem
        self.line(f"{type}* {name} = reinterpret_cast<{type}*>({address});  // {shape}")

    def _allocate_mbarriers(self, op: kernel.AllocMbarriersOp) -> None:
        name, type = self.name(op.result, "mbarriers"), "unsigned long long"
        if self.is_static:
            self.line(f"__shared__ alignas({MBARRIER_BYTES}) {type} {name}[{op.count.value.data}];")
            return
        address = f"{self.smem} + {self.slots[op.result]}"
        self.line(f"{type}* {name} = reinterpret_cast<{type}*>({address});")

    # Control flow.

    def _for(self, op: scf.ForOp) -> None:
        results: list[Text] = []
        index, *carried = op.body.block.args
        for argument, initial in zip(carried, op.iter_args, strict=True):
            value = self.text[initial]
            name = self.name(argument, "carried")
            self.line(f"{value_type(argument, op)} {name} = {value};")
            results.append(Text(name))
        first, end = self.text[op.lb], self.text[op.ub]
        step = constant_of(op.step)
        by = "++{}" if step == 1 else f"{{}} += {self.text[op.step]}"
        if "unroll" in op.attributes:
            self.line("#pragma unroll")
        self.names.open()
        name = self.name(index, "i")
        type = value_type(index, op)
        until = f"{name} < {end.at(Level.SUM)}"
        self.line(f"for ({type} {name} = {first}; {until}; {by.format(name)}) {{")
        self._body(op.body.block, results)
        self.line("}")
        self.names.close()
        for result, text in zip(op.res, results, strict=True):
            self.text[result] = text

    def _if(self, op: scf.IfOp) -> None:
        results: list[Text] = []
        for result in op.output:
            name = self.name(result, "chosen")
            self.line(f"{value_type(result, op)} {name};")
            results.append(Text(name))
        self.line(f"if ({self.text[op.cond]}) {{")
        self._body(op.true_region.block, results)
        if op.false_region.blocks:
            otherwise = op.false_region.block
            if results or any(not isinstance(o, scf.YieldOp) for o in otherwise.ops):
                self.line("} else {")
                self._body(otherwise, results)
        self.line("}")

    def _assign(self, op: scf.YieldOp, targets: Sequence[Text]) -> None:
        """Assigns what is yielded; all of it is evaluated before anything is assigned."""
        if len(targets) > 1:
            for value in op.arguments:
                if self.text[value] in targets:
                    self.write(value)
        for target, value in zip(targets, op.arguments, strict=True):
            text = self.folded(value, target) or f"{target} = {self.text[value]};"
            if text != f"{target} = {target};":
                self.line(text)

    # One operation.

    def _op(self, op: Operation) -> None:
        match op:
            case arith.ConstantOp():
                self._constant(op)
            case kernel.BlockIdOp():
                self.line(f"const int {self.name(op.result, 'block')} = blockIdx.x;")
            case kernel.ThreadIdOp():
                self.line(f"const int {self.name(op.result, 'thread')} = threadIdx.x;")
            case kernel.AllocSharedOp():
                self._allocate_shared(op)
            case kernel.AllocLocalOp():
                self._allocate_local(op)
            case kernel.LoadOp():
                self._load(op)
            case kernel.StoreOp():
                self._store(op)
            case kernel.IndexOp():
                self.define(op, self.index.expr(op.subscripts[0]))
            case kernel.TestOp():
                where = self.index.conditions(op.where) or Text("true")
                self.define(op, where)
            case kernel.SelectOp():
                text = self.text[op.value]
                if (where := self.index.conditions(op.where)) is not None:
                    text = ternary(where, text, self.text[op.default])
                self.define(op, text)
            case kernel.ShuffleOp():
                self._shuffle(op)
            case kernel.AllocMbarriersOp():
                self._allocate_mbarriers(op)
            case kernel.TensorMapOp():
                pass  # a parameter
            case (
                kernel.BarrierOp() | kernel.CommitOp() | kernel.WaitOp() | kernel.SyncWarpOp()
                | kernel.FenceMbarrierInitOp() | kernel.FenceProxyAsyncOp()
            ):  # fmt: skip
                self._synchronize(op)
            case MbarrierOpBase():
                self._mbarrier(op)
            case kernel.TmaLoadOp():
                self._tma_load(op)
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
        text = scalar(op, [self.text[v] for v in op.operands], self.helpers)
        self.define(op, text)

    def _shuffle(self, op: kernel.ShuffleOp) -> None:
        value_type(op.value, op)
        self.helpers.add("shuffle_xor")
        lanes = (Text(str(n.value.data)) for n in (op.mask, op.width))
        text = call("shuffle_xor", self.text[op.value], *lanes)
        self.define(op, text)

    def _synchronize(self, op: Operation) -> None:
        if isinstance(op, kernel.WaitOp):
            self.helpers.add("cp_async_wait")
            self.line(f"cp_async_wait<{op.pending.value.data}>();")
        elif isinstance(op, kernel.CommitOp):
            self.helpers.add("cp_async_commit")
            self.line("cp_async_commit();")
        elif isinstance(op, kernel.FenceMbarrierInitOp | kernel.FenceProxyAsyncOp):
            helper = op.name.removeprefix("kernel.")
            self.helpers.add(helper)
            self.line(f"{helper}();")
        else:
            self.line("__syncwarp();" if isinstance(op, kernel.SyncWarpOp) else "__syncthreads();")

    def _mbarrier(self, op: MbarrierOpBase) -> None:
        helper = op.name.removeprefix("kernel.")
        arguments = [self._barrier(op.barriers, op.barrier)]
        match op:
            case kernel.MbarrierInitOp():
                arguments.append(Text(str(op.count.value.data)))
            case kernel.MbarrierExpectTxOp():
                helper = "mbarrier_arrive_expect_tx"
                arguments.append(Text(str(op.bytes.value.data)))
            case kernel.MbarrierWaitOp():
                arguments.append(self.index.expr(op.parity))
            case _:
                pass
        self.helpers.add(helper)
        self.line(f"{call(helper, *arguments)};")

    def _barrier(self, barriers: SSAValue, number: Expr) -> Text:
        name = self.text[barriers].text
        return Text(f"&{name}[{self.index.expr(number)}]")

    def _tma_load(self, op: kernel.TmaLoadOp) -> None:
        dims = op.map_op.dims
        helper = f"tma_load_{len(dims)}d"
        self.helpers.add(helper)
        target = self._element_text(op, op.target, op.target_subscripts)
        coordinates = [self.index.expr(op.coordinates[d]) for d in reversed(dims)]
        text = call(
            helper,
            Text(f"&{target}"),
            Text(f"&{self.text[op.tensor_map]}"),
            self._barrier(op.barriers, op.barrier),
            *coordinates,
        )
        self._effect(None, f"{text};")

    def _cp_async(self, op: kernel.CpAsyncOp) -> None:
        size = op.elements.value.data * element_bytes(element_type(op.source.type))
        helper = f"cp_async_{size}"
        self.helpers.add(helper)
        target = self._element_text(op, op.target, op.target_subscripts)
        source = self._element_text(op, op.source, op.subscripts)
        where = self.index.conditions(op.where) or Text("true")
        self._effect(None, f"{call(helper, Text(f'&{target}'), Text(f'&{source}'), where)};")

    def _atomic_add(self, op: kernel.AtomicAddOp) -> None:
        self.helpers.add("atomic_add")
        place = self._element_text(op, op.ref, op.subscripts)
        where = self.index.conditions(op.where)
        value = self.text[op.value]
        self._effect(where, f"{call('atomic_add', Text(f'&{place}'), value)};")

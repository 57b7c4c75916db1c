"""A kernel of Kernel IR as a function of CUDA C, an operation a line."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from dlc.backend.cuda.print.c_index import WideIndexError, counter_type
from dlc.backend.cuda.print.c_memory import Accesses
from dlc.backend.cuda.print.c_remainders import remainder_from
from dlc.backend.cuda.print.c_scalar import function_name, scalar, value_type
from dlc.backend.cuda.print.c_text import (
    COLUMNS,
    HEADERS,
    Level,
    Text,
    binary,
    call,
    comment,
    constant,
    ternary,
)
from dlc.backend.cuda.print.interface import (
    blocks_at_once,
    c_name,
    parameter_types,
)
from dlc.backend.cuda.print.prelude_mma import mma_name
from dlc.diagnostics import fail
from dlc.dialects import kernel
from dlc.dialects.kernel_grids import waits_for_grids
from dlc.dialects.kernel_mbarriers import MbarrierOpBase
from dlc.dialects.kernel_memory import memref_of
from dlc.dialects.kernel_parts import kernel_sizes
from dlc.dialects.kernel_tma import TmaLoadOpBase
from dlc.dialects.layouts import span_bytes
from dlc.dialects.size_index import SizeIndexOp, size_expr
from dlc.ir.expr import constant_of
from dlc.target import WARP


def _shared_early(func: kernel.FuncOp) -> list[SSAValue]:
    """
    What a kernel that waits for others reads, and they may store before: nvcc would load it before
    the kernel has waited if it were said that nobody else stores it.
    """
    if not waits_for_grids(func):
        return []
    return [
        r for r in func.refs if any(not isinstance(u.operation, kernel.StoreOp) for u in r.uses)
    ]


_NAMED = (
    kernel.FenceMbarrierInitOp,
    kernel.FenceProxyAsyncOp,
    kernel.TmaCommitOp,
    kernel.GridWaitOp,
    kernel.GridReleaseOp,
    kernel.ClusterBarrierOp,
)
"""Calls of functions of the prelude that have their names."""


class KernelPrinter(Accesses):
    """The state of printing one kernel."""

    def __init__(self, func: kernel.FuncOp) -> None:
        called = (name for op in func.walk() if (name := function_name(op)) is not None)
        super().__init__(called, func)
        self.func = func
        self.written: dict[Operation, range] = {}
        """The lines of each operation that has any, those of what it holds among them."""

    # The kernel.

    def print(self) -> str:
        func = self.func
        types = parameter_types(func)
        maps = [op.result for op in func.tensor_maps]
        updated = func.updated_refs
        shared = {*updated.keys(), *updated.values(), *_shared_early(func)}
        parameters: list[str] = []
        for type, map in zip(types[: len(maps)], maps, strict=True):
            parameters.append(f"{type} {self.name(map, 'map')}")
        for type, ref in zip(types[len(maps) :], func.refs, strict=False):
            restrict = "" if ref in shared else "__restrict__ "
            parameters.append(f"{type} {restrict}{self.name(ref, 'ref')}")
        for size in kernel_sizes(func):
            parameters.append(f"int {self.name(size.result, 'size')}")
        what = f"grid {func.grid_size}, block {func.block_size}"
        if func.cluster is not None:
            what += f", clusters of {func.cluster_size}"
        if zeroed := ", ".join(self.text[ref].text for ref in func.zeroed_refs):
            what += f"; zeroed before: {zeroed}"
        for output, input in updated.items():
            what += f"; {self.text[output].text} updates {self.text[input].text}"
        if func.schedule is not None:
            what += f"; schedule: {func.schedule.data}"
        self.lines += comment(what)
        cluster = f"__cluster_dims__({func.cluster_size}, 1, 1) " if func.cluster else ""
        numbers = ", ".join(str(n) for n in [func.block_size, *blocks_at_once(func)])
        self.line(f'extern "C" __global__ void {cluster}__launch_bounds__({numbers})')
        head = f"{c_name(func)}({', '.join(parameters)}) {{"
        if len(head) > COLUMNS:
            head = f"{c_name(func)}(\n    " + ",\n    ".join(parameters) + ") {"
        self.lines += head.split("\n")
        self.indent = 1
        self.share()
        self._ops(func.body.block)
        self.indent = 0
        self.line("}")
        self.written[func] = range(len(self.lines))
        text = "\n".join(self.lines) + "\n"
        self.helpers.update(header for type, header in HEADERS.items() if type in text)
        return text

    def _ops(self, block: Block) -> None:
        self.enter(block)
        for op in block.ops:
            if not isinstance(op, scf.YieldOp):
                first = len(self.lines)
                try:
                    self._op(op)
                except WideIndexError as error:
                    fail(op, str(error))
                if len(self.lines) > first:
                    self.written[op] = range(first, len(self.lines))

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
        if (unrolled := _unrolled(op)) is not None:
            self.line(f"#pragma unroll{unrolled}")
        self.names.open()
        name = self.name(index, "i")
        type = counter_type(op)
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
            case SizeIndexOp():
                pass  # a parameter, where anything is computed with it
            case kernel.BlockIdOp():
                before = f" - {op.before}" if op.before else ""
                self.line(f"const int {self.name(op.result, 'block')} = blockIdx.x{before};")
            case kernel.ThreadIdOp():
                self.line(f"const int {self.name(op.result, 'thread')} = threadIdx.x;")
            case kernel.MapClusterOp():
                pass  # what it maps is named where it is read
            case kernel.AllocSharedOp():
                self.allocate_shared(op)
            case kernel.AllocLocalOp():
                self.allocate_local(op)
            case kernel.LoadOp():
                self.load(op)
            case kernel.StoreOp():
                self.store(op)
            case kernel.IndexOp():
                known = remainder_from(op, self.text)
                self.define(op, known or self.index.expr(op.subscripts[0]))
            case kernel.QuotientOp() | kernel.RemainderOp():
                by = self.index.expr(size_expr(op.by.data, op))
                self.define(op, binary(self.text[op.number], op.SIGN, by))
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
                self.allocate_mbarriers(op)
            case kernel.TensorMapOp():
                pass  # a parameter
            case (
                kernel.BarrierOp() | kernel.CommitOp() | kernel.WaitOp() | kernel.SyncWarpOp()
                | kernel.FenceMbarrierInitOp() | kernel.FenceProxyAsyncOp()
                | kernel.GridWaitOp() | kernel.GridReleaseOp() | kernel.ClusterBarrierOp()
                | kernel.TmaCommitOp() | kernel.TmaWaitOp()
            ):  # fmt: skip
                self._synchronize(op)
            case MbarrierOpBase():
                self._mbarrier(op)
            case TmaLoadOpBase():
                self.tma_load(op)
            case kernel.TmaStoreOp():
                self.tma_store(op)
            case kernel.CpAsyncOp():
                self.cp_async(op)
            case kernel.PrefetchOp():
                self._prefetch(op)
            case kernel.AtomicAddOp():
                self.atomic_add(op)
            case kernel.LastBlockOp():
                self.last_block(op)
            case kernel.SetMaxRegistersOp():
                self.helpers.add("set_max_registers")
                self.line("set_max_registers<{}, {}>();".format(*op.counts))
            case kernel.MmaOp():
                self._mma(op)
            case kernel.LdmatrixOp() | kernel.StmatrixOp():
                self.matrix_rows(op)
            case kernel.MatrixDescriptorOp():
                self.matrix_descriptor(op)
            case kernel.WgmmaOp() | kernel.WgmmaHeldOp():
                self.wgmma(op)
            case kernel.WgmmaFenceOp() | kernel.WgmmaCommitOp() | kernel.WgmmaWaitOp():
                self.order_products(op)
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
        arguments = [Text(str(n.value.data)) for n in (op.mask, op.width)]
        named = op.named_threads
        helper = "shuffle_xor" if named is None else "shuffle_xor_among"
        self.helpers.add(helper)
        if named is not None and named < WARP:
            arguments.append(Text(f"{(1 << named) - 1:#x}u"))
        elif named is not None:
            self.helpers.add("lanes_below")
            arguments.append(Text(f"lanes_below({named})"))
        self.define(op, call(helper, self.text[op.value], *arguments))

    def _mma(self, op: kernel.MmaOp) -> None:
        helper = mma_name(op.shape, op.result.type)
        self.helpers.add(helper)
        self.define(op, call(helper, *(self.text[value] for value in op.operands)))

    def _prefetch(self, op: kernel.PrefetchOp) -> None:
        self.helpers.add("prefetch_share")
        size = span_bytes(memref_of(op.ref))
        arguments = f"{size}, {self.func.grid_size}, {op.bytes.value.data}"
        self.line(f"prefetch_share<{arguments}>({self.text[op.ref].text});")

    def _synchronize(self, op: Operation) -> None:
        if isinstance(op, kernel.WaitOp):
            self.helpers.add("cp_async_wait")
            self.line(f"cp_async_wait<{op.pending.value.data}>();")
        elif isinstance(op, kernel.CommitOp):
            self.helpers.add("cp_async_commit")
            self.line("cp_async_commit();")
        elif isinstance(op, kernel.TmaWaitOp):
            helper = "tma_wait_read" if op.read is not None else "tma_wait"
            self.helpers.add(helper)
            self.line(f"{helper}<{op.pending.value.data}>();")
        elif isinstance(op, _NAMED):
            helper = op.name.removeprefix("kernel.")
            if isinstance(op, kernel.ClusterBarrierOp) and op.relaxed is not None:
                helper += "_relaxed"
            self.helpers.add(helper)
            self.line(f"{helper}();")
        elif isinstance(op, kernel.BarrierOp) and op.named_threads is not None:
            self.helpers.add("barrier_among")
            self.line(f"barrier_among<{op.named_threads}>();")
        else:
            self.line("__syncwarp();" if isinstance(op, kernel.SyncWarpOp) else "__syncthreads();")

    def _mbarrier(self, op: MbarrierOpBase) -> None:
        helper = op.name.removeprefix("kernel.")
        arguments = [self.barrier(op.barriers, op.barrier)]
        match op:
            case kernel.MbarrierInitOp():
                arguments.append(Text(str(op.count.value.data)))
            case kernel.MbarrierExpectTxOp():
                helper = "mbarrier_arrive_expect_tx"
                arguments.append(Text(str(op.bytes.value.data)))
            case kernel.MbarrierArriveAtOp():
                arguments.append(self.index.expr(op.block))
            case kernel.MbarrierWaitOp():
                arguments.append(self.index.expr(op.parity))
            case _:
                pass
        self.helpers.add(helper)
        self.line(f"{call(helper, *arguments)};")


def _unrolled(op: scf.ForOp) -> str | None:
    """
    How often a loop's body is to be written, all of it if empty; None where that is left to nvcc. A
    loop that waits for mbarriers is kept, and one with products in flight: of one that is written
    twice, ptxas 13.0 reads sums ahead of the last wait.
    """
    if "unroll" in op.attributes:
        return ""
    kept = any(
        isinstance(o, kernel.MbarrierWaitOp)
        or (isinstance(o, kernel.WgmmaWaitOp) and o.pending.value.data)
        for o in op.body.block.ops
    )
    return " 1" if kept else None

"""Tensors between launches are slices of one workspace."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StridedLayoutAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.kernel.lifetimes import Lifetimes
from dlc.analysis.kernel.placement import Buffer, Placement, live_bytes, place
from dlc.analysis.once import computed_once
from dlc.dialects import flow, host, kernel
from dlc.dialects.kernel_blocks import counters_of
from dlc.dialects.layouts import shape_of, span_bytes
from dlc.dialects.size import symbols_in
from dlc.remarks import remark
from dlc.target import BUFFER_ALIGNMENT
from dlc.transforms.kernel.planning.buffering import Buffering, allocation, default_type


@dataclass(frozen=True)
class PlanBuffersPass(ModulePass):
    """
    Tensors between launches get memory: `@main` becomes a host program.

    What `@main` returns is allocated on its own; everything else is a slice of one workspace, from
    the launch that writes it to the last one that reads it. Where the workspace's size allows, a
    slice lies where others lay before. Outputs that a kernel adds to are filled with zeros before;
    those that update an input lie where it does, in an argument if it is one. Blocks of all kernels
    are counted in a place of its own, which is zero when the program begins, and which each leaves
    so: the next call finds it there. What launches compute once for all calls is kept apart.

    *Legal always*: launches run in order, on one stream, so that who writes to a slice runs after
    all that read what was there.
    *Faster because* the memory of a program is asked for once a call, and is smaller.

    ```
    %a = kernel.launch @f(%x) : (tensor<64xf32>) -> (tensor<64xf32>)
    %b = kernel.launch @g(%a) : (tensor<64xf32>) -> (tensor<64xf32>)
    func.return %b : tensor<64xf32>
    ```
    becomes
    ```
    %workspace = memref.alloc() {alignment = 256 : i64} : memref<256xui8>
    %a = host.slice %workspace at 0 : memref<256xui8> -> memref<64xf32>
    host.launch @f(%x) -> (%a)
    %b = memref.alloc() {alignment = 256 : i64} : memref<64xf32>
    host.launch @g(%a) -> (%b)
    func.return %b : memref<64xf32>
    ```
    """

    name = "plan-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if symbols_in(op):
            return
        for function in [f for f in op.ops if isinstance(f, func.FuncOp) and f.body.blocks]:
            inside = [o for block in flow.blocks_of(function.body.block) for o in block.ops]
            views = (kernel.ViewOp, kernel.WholeOp)
            known = (kernel.LaunchOp, *views, *flow.FLOW, flow.YieldOp, func.ReturnOp)
            end = function.body.block.last_op
            tensors = all(isinstance(type, TensorType) for type in function.body.block.arg_types)
            planned = not tensors or not all(isinstance(o, known) for o in inside)
            if isinstance(end, func.ReturnOp) and not planned:
                launches = [o for o in inside if isinstance(o, kernel.LaunchOp)]
                _Planner(function, launches, end).run()


class _Planner:
    """Gives memory to the tensors of one function, which is launches, control flow and a return."""

    def __init__(
        self, function: func.FuncOp, launches: list[kernel.LaunchOp], end: func.ReturnOp
    ) -> None:
        self.function = function
        self.block: Block = function.body.block
        self.end = end
        self.lifetimes = Lifetimes.of(function)
        self.once = computed_once(function)
        self.types: dict[SSAValue, MemRefType] = {}
        """How each tensor lies in memory."""
        self.counters: dict[SSAValue, int] = {}
        """Those in which blocks are counted, which hold zeros between launches, and where in their
        memory: those of a launch beside each other."""
        for launch in launches:
            callee = launch.callee
            assert callee is not None
            for value, ref in zip((*launch.inputs, *launch.outputs), callee.refs, strict=True):
                assert isinstance(ref.type, MemRefType)
                self.types.setdefault(value, ref.type)
            pairs = zip(launch.outputs, callee.output_refs, strict=True)
            counted, place = counters_of(callee), 0
            for value, ref in pairs:
                if ref in counted:
                    self.counters[value] = place
                    place += span_bytes(self.types[value])
                    place += -place % BUFFER_ALIGNMENT

    def run(self) -> None:
        lives = self._lives()
        placement = place(list(lives.values()), BUFFER_ALIGNMENT)
        self._remark(placement, list(lives.values()))
        self._bind_arguments()
        shared: dict[SSAValue, tuple[SSAValue, int]] = {}
        if self.counters:
            memory = self._counts()
            shared |= {value: (memory, place) for value, place in self.counters.items()}
        if lives:
            workspace = self._allocate("workspace", placement.size).memref
            pairs = zip(lives, placement.offsets, strict=True)
            shared |= {value: (workspace, offset) for value, offset in pairs}
        Buffering(self.lifetimes, self.types, shared, self.once).rewrite(self.block)
        results = [v.type for v in self.end.operands]
        self.function.function_type = FunctionType.from_lists(self.block.arg_types, results)

    def _lives(self) -> dict[SSAValue, Buffer]:
        """When and how long each place that is not an argument's or a result's holds data."""
        found: dict[SSAValue, Buffer] = {}
        lifetimes = self.lifetimes
        returned = {p for v in self.end.operands for p in lifetimes.places.get(v, (v,))}
        for value, first in lifetimes.first.items():
            if value in self.counters:
                continue  # all of them are in one place
            if value.owner in self.once:
                continue  # kept, each on its own
            if isinstance(value.owner, Operation) and value not in returned:
                self.types.setdefault(value, default_type(value))
                size = span_bytes(self.types[value])
                found[value] = Buffer(size, first, lifetimes.last[value])
        return found

    def _counts(self) -> SSAValue:
        """Memory for the counts of blocks, filled with zeros before anything is launched."""
        ends = (place + span_bytes(self.types[c]) for c, place in self.counters.items())
        memory = self._allocate("arrived", max(ends))
        Rewriter.insert_op(host.ZeroOp(memory.memref), InsertPoint.after(memory))
        return memory.memref

    def _remark(self, placement: Placement, lives: list[Buffer]) -> None:
        total, least = sum(b.size for b in lives), live_bytes(lives)
        remark(
            PlanBuffersPass.name,
            f"@{self.function.sym_name.data}",
            f"{len(lives)} tensors of {total} B in a workspace of {placement.size} B, "
            f"at least {least} B at once",
        )

    def _bind_arguments(self) -> None:
        attributes = self.function.arg_attrs
        for argument in self.block.args:
            own = DictionaryAttr({}) if attributes is None else attributes.data[argument.index]
            new = self.types.get(argument) or _memref(argument.type, own)
            Rewriter.replace_value_with_new_type(argument, new)

    def _allocate(self, name: str, size: int) -> memref.AllocOp:
        """Bytes for several buffers, from the beginning on."""
        made = allocation(MemRefType(host.BYTE, [size]))
        made.memref.name_hint = name
        Rewriter.insert_op(made, InsertPoint.at_start(self.block))
        return made


def _memref(type: Attribute, attributes: DictionaryAttr) -> MemRefType:
    """The memref type of an argument that no kernel takes."""
    assert isinstance(type, TensorType)
    strides = attributes.data.get("dlc.strides")
    layout = NoneAttr()
    if isinstance(strides, DenseArrayBase):
        layout = StridedLayoutAttr([int(s) for s in strides.get_values()])
    return MemRefType(type.element_type, shape_of(type), layout)

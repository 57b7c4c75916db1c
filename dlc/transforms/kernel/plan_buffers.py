"""Tensors between launches are slices of one workspace."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StridedLayoutAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.kernel.placement import Buffer, Placement, live_bytes, place
from dlc.dialects import host, kernel
from dlc.dialects.layouts import shape_of, span_bytes
from dlc.remarks import remark
from dlc.target import BUFFER_ALIGNMENT


@dataclass(frozen=True)
class PlanBuffersPass(ModulePass):
    """
    Tensors between launches get memory: `@main` becomes a host program.

    What `@main` returns is allocated on its own; everything else is a slice of one workspace, from
    the launch that writes it to the last one that reads it. Where the workspace's size allows, a
    slice lies where others lay before. Outputs that a kernel adds to are filled with zeros before.

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
        for function in [f for f in op.ops if isinstance(f, func.FuncOp) and f.body.blocks]:
            launches = [o for o in function.body.block.ops if isinstance(o, kernel.LaunchOp)]
            others = [o for o in function.body.block.ops if o not in launches]
            tensors = all(isinstance(type, TensorType) for type in function.body.block.arg_types)
            if tensors and len(others) == 1 and isinstance(others[0], func.ReturnOp):
                _Planner(function, launches, others[0]).run()


class _Planner:
    """Gives memory to the tensors of one function, which is launches and a return."""

    def __init__(
        self, function: func.FuncOp, launches: list[kernel.LaunchOp], end: func.ReturnOp
    ) -> None:
        self.function = function
        self.block: Block = function.body.block
        self.launches = launches
        self.callees = [launch.callee for launch in launches]
        self.end = end
        self.types: dict[SSAValue, MemRefType] = {}
        """How each tensor lies in memory."""
        self.lives: dict[SSAValue, Buffer] = {}
        """When and how long each intermediate tensor holds data, in launches."""

    def run(self) -> None:
        self._look()
        placement = place(list(self.lives.values()), BUFFER_ALIGNMENT)
        self._remark(placement)
        offsets = dict(zip(self.lives, placement.offsets, strict=True))
        self._bind_arguments()
        workspace = self._allocate_workspace(placement.size) if offsets else None
        for launch, callee in zip(self.launches, self.callees, strict=True):
            assert callee is not None
            self._rewrite(launch, callee, workspace, offsets)
        results = [v.type for v in self.end.operands]
        self.function.function_type = FunctionType.from_lists(self.block.arg_types, results)

    def _look(self) -> None:
        returned = set(self.end.operands)
        first: dict[SSAValue, int] = {}
        last: dict[SSAValue, int] = {}
        for number, (launch, callee) in enumerate(zip(self.launches, self.callees, strict=True)):
            assert callee is not None
            for value, ref in zip((*launch.inputs, *launch.outputs), callee.refs, strict=True):
                assert isinstance(ref.type, MemRefType)
                self.types.setdefault(value, ref.type)
                first.setdefault(value, number)
                last[value] = number
        for value in first:
            if isinstance(value.owner, kernel.LaunchOp) and value not in returned:
                size = span_bytes(self.types[value])
                self.lives[value] = Buffer(size, first[value], last[value])

    def _remark(self, placement: Placement) -> None:
        lives = list(self.lives.values())
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

    def _allocate_workspace(self, size: int) -> SSAValue:
        workspace = _allocation(MemRefType(host.BYTE, [size]))
        workspace.memref.name_hint = "workspace"
        Rewriter.insert_op(workspace, InsertPoint.at_start(self.block))
        return workspace.memref

    def _rewrite(
        self,
        launch: kernel.LaunchOp,
        callee: kernel.FuncOp,
        workspace: SSAValue | None,
        offsets: dict[SSAValue, int],
    ) -> None:
        """Puts what makes the outputs of a launch, and a launch that writes them, in its place."""
        before: list[Operation] = []
        buffers: list[SSAValue] = []
        for value in launch.outputs:
            if value in offsets:
                assert workspace is not None
                made: Operation = host.SliceOp(workspace, offsets[value], self.types[value])
            else:
                made = _allocation(self.types[value])
            (buffer,) = made.results
            buffer.name_hint = value.name_hint
            before.append(made)
            buffers.append(buffer)
        for buffer, ref in zip(buffers, callee.output_refs, strict=True):
            if ref in callee.zeroed_refs:
                before.append(host.ZeroOp(buffer))
        new = host.LaunchOp(callee.name_, launch.inputs, buffers)
        new.attributes |= launch.attributes
        for made in (*before, new):
            made.location = launch.location
        Rewriter.replace_op(launch, [*before, new], buffers)


def _allocation(type: MemRefType) -> memref.AllocOp:
    return memref.AllocOp([], [], type, IntegerAttr(BUFFER_ALIGNMENT, i64))


def _memref(type: Attribute, attributes: DictionaryAttr) -> MemRefType:
    """The memref type of an argument that no kernel takes."""
    assert isinstance(type, TensorType)
    strides = attributes.data.get("dlc.strides")
    layout = NoneAttr()
    if isinstance(strides, DenseArrayBase):
        layout = StridedLayoutAttr([int(s) for s in strides.get_values()])
    return MemRefType(type.element_type, shape_of(type), layout)

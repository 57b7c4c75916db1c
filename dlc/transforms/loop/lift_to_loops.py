"""Tensors become the loop nests that compute them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ModuleOp,
    UnknownLoc,
)
from xdsl.ir import Operation, Region, SSAValue
from xdsl.passes import ModulePass

from dlc.dialects import loop, tensor_ir
from dlc.dialects.flow import blocks_of
from dlc.dialects.size import ReshapeOp, needing_numbers, symbols_in
from dlc.ir.provenance import inherit
from dlc.ir.sizes import Symbol
from dlc.ir.structure import structure
from dlc.text import unique_name
from dlc.transforms.loop.lifting.in_memory import (
    COMPUTED,
    DISSOLVED,
    Layouts,
    put_in_memory,
)
from dlc.transforms.loop.lifting.nest_builder import NestBuilder

MAX_NAME = 36
"""The length of a kernel's name, before it is numbered."""


@dataclass(frozen=True)
class LiftToLoopsPass(ModulePass):
    """
    Every computed tensor becomes a loop kernel; index maps dissolve into subscripts.

    *Legal always*: a kernel states the definition of its tensor, point by point. Index maps,
    constants and iotas get no kernel unless `@main` returns them.
    *Faster because* a reordering, slice or concatenation is then read in place, not copied.

    ```
    %t = tensor_ir.index_map (d0, d1) -> %w[d1] : tensor<64xf32> -> tensor<16x64xf32>
    %y = tensor_ir.elementwise (%a = %x, %b = %t) : … { %0 = arith.addf %a, %b : f32 … }
    ```
    becomes
    ```
    %y = loop.kernel @y(%x: memref<16x64xf32> = %x, %w: memref<64xf32> = %w)
        -> (%y: memref<16x64xf32>) {
      loop.for %i in 16, %j in 64 {
        %a = loop.load %x[%i, %j] : memref<16x64xf32>
        %b = loop.load %w[%j] : memref<64xf32>
        %0 = arith.addf %a, %b : f32
        loop.store %0, %y[%i, %j] : memref<16x64xf32>
      }
    }
    ```
    """

    name = "lift-to-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        symbols = symbols_in(op)
        used = {k.name_ for k in op.walk() if isinstance(k, loop.KernelOp)}
        for function in [f for f in op.walk() if isinstance(f, func.FuncOp)]:
            if not function.is_declaration:
                _Lifter(function, used, symbols).lift()


class _Read:
    """The inputs of an operation's kernel: tensors, and operations computed where they are read."""

    def __init__(self, op: Operation, layouts: Layouts) -> None:
        self.layouts = layouts
        self.dissolved: list[Operation] = []
        self.tensors: dict[SSAValue, int] = {}
        results = [(layouts.memref(r), r.name_hint) for r in op.results]
        # Indices that are gathered by are named after their tensors.
        indexed = isinstance(op, tensor_ir.GatherOp | tensor_ir.ScatterAddOp)
        hints = [v.name_hint for v in op.operands] if indexed else []
        self.key = (*results, *hints, structure(op, self._given, names=True))
        """Equal for two operations with kernels that are equal, names of inputs aside."""

    def _given(self, value: SSAValue) -> Hashable:
        if isinstance(value.owner, DISSOLVED):
            self.dissolved.append(value.owner)
            return structure(value.owner, self._given, names=True)
        return self.tensors.setdefault(value, len(self.tensors)), self.layouts.memref(value)


class _Lifter:
    """Lifts one function."""

    def __init__(
        self, function: func.FuncOp, used_names: set[str], symbols: Mapping[str, Symbol]
    ) -> None:
        self.function = function
        self.symbols = symbols
        self.used_names = used_names
        self.layouts = Layouts()
        self.built: dict[Hashable, tuple[Region, list[int]]] = {}
        """Bodies of kernels, each with the numbers of the tensors that it reads."""

    def lift(self) -> None:
        blocks = blocks_of(self.function.body.block)
        in_memory = put_in_memory(self.function, self.layouts)
        for block in blocks:
            for op in list(block.ops):
                if isinstance(op, COMPUTED) or (op in in_memory and isinstance(op, DISSOLVED)):
                    with needing_numbers(op, "its loop nest"):
                        self._replace(op)
        for op in [op for block in blocks for op in block.ops][::-1]:
            if isinstance(op, (*DISSOLVED, ReshapeOp)) and not any(r.uses for r in op.results):
                op.detach()
                op.erase()

    def _replace(self, op: Operation) -> None:
        name = unique_name(_base_name(op)[:MAX_NAME], self.used_names)
        kernel = self._build(op, name)
        kernel.location = op.location
        block = op.parent
        assert block is not None
        block.insert_op_before(kernel, op)
        for old, new in zip(op.results, kernel.results, strict=True):
            new.name_hint = old.name_hint
            if old in self.layouts.strides:
                self.layouts.strides[new] = self.layouts.strides[old]
            old.replace_all_uses_with(new)
        op.detach()
        op.erase()

    def _build(self, op: Operation, name: str) -> loop.KernelOp:
        read = _Read(op, self.layouts)
        if read.key in self.built:
            built, numbers = self.built[read.key]
            tensors = list(read.tensors)
            inputs, body = [tensors[n] for n in numbers], built.clone()
            for inner in body.walk():
                inner.location = op.location
        else:
            builder = NestBuilder(op, self.layouts, self.symbols)
            inputs, body = builder.build()
            for inner in body.walk():
                if isinstance(inner.location, UnknownLoc):
                    inner.location = op.location
            self.built[read.key] = body, [read.tensors[v] for v in inputs]
        alignments = [self.layouts.alignment(v) for v in inputs]
        zeroed = [0] if isinstance(op, tensor_ir.ScatterAddOp) else []
        kernel = loop.KernelOp(name, inputs, body, alignments, zeroed=zeroed)
        kernel.name_inputs([v.name_hint for v in inputs])
        inherit(kernel, op, *read.dissolved)
        return kernel


def _base_name(op: Operation) -> str:
    """The name of a kernel: its result's, else that of what it does."""
    if op.results[0].name_hint:
        return op.results[0].name_hint
    if isinstance(op, tensor_ir.ReduceOp | tensor_ir.ScanOp):
        return f"{op.name.partition('.')[2]}_{op.monoid.data}"
    if isinstance(op, tensor_ir.SortOp):
        return "sort"
    return {
        tensor_ir.GatherOp: "gather",
        tensor_ir.FoldOp: "fold",
        tensor_ir.ScatterAddOp: "scatter_add",
        tensor_ir.ConstantOp: "fill",
        tensor_ir.IotaOp: "iota",
        tensor_ir.IndexMapOp: "copy",
    }.get(type(op), "pointwise")

"""Kernels taken out of their program, as programs of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StridedLayoutAttr,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from dlc.dialects import kernel
from dlc.dialects.kernel_op import KernelOpBase, tensor_of
from dlc.dialects.layouts import DEFAULT_ALIGNMENT, strides_of
from dlc.dialects.user_outputs import MUTATES


@dataclass(frozen=True)
class Input:
    """An argument of `@main`: its buffer in the kernels, whose strides it has, and what is known of
    its address in bytes. A stated name is written down as that of the user's tensor."""

    buffer: SSAValue
    align: int
    name: str | None = None

    @property
    def attributes(self) -> DictionaryAttr:
        """The attributes of the argument: its name, strides and alignment where not the default."""
        memref = self.buffer.type
        assert isinstance(memref, MemRefType)
        found: dict[str, Attribute] = {}
        if self.name is not None:
            found["dlc.name"] = StringAttr(self.name)
        if isinstance(memref.layout, StridedLayoutAttr):
            found["dlc.strides"] = DenseArrayBase.from_list(i64, list(strides_of(memref)))
        if self.align != DEFAULT_ALIGNMENT:
            found["dlc.align"] = IntegerAttr(self.align, i64)
        return DictionaryAttr(found)


def program_around(
    module: ModuleOp,
    inputs: Sequence[Input],
    run: Callable[[Block], Sequence[SSAValue]],
    funcs: Sequence[kernel.FuncOp] = (),
) -> ModuleOp:
    """
    A module with the attributes of `module` and copies of the kernels `funcs`. Its `@main` takes
    tensors; `run` adds to its block what is to run on them, and gives the results.
    """
    block = Block(arg_types=[tensor_of(given.buffer.type) for given in inputs])
    for argument, given in zip(block.args, inputs, strict=True):
        argument.name_hint = given.name or given.buffer.name_hint
    results = run(block)
    block.add_op(func.ReturnOp(*results))
    main = func.FuncOp(
        "main",
        (block.arg_types, [result.type for result in results]),
        Region(block),
        arg_attrs=ArrayAttr([given.attributes for given in inputs]),
    )
    program = ModuleOp([*(op.clone() for op in funcs), main], dict(module.attributes))
    written = [_written_back(result) for result in results]
    if any(written):
        main.res_attrs = ArrayAttr([DictionaryAttr(each) for each in written])
    return program


def _written_back(result: SSAValue) -> dict[str, Attribute]:
    """The attributes of a result of `@main`, which may lie in the memory of an argument."""
    value = result
    while isinstance(op := value.owner, KernelOpBase | kernel.LaunchOp | kernel.WholeOp):
        if isinstance(op, kernel.WholeOp):
            value = op.viewed.source
            continue
        callee = op if isinstance(op, KernelOpBase) else op.launched
        assert callee is not None
        pairs = dict(zip(callee.refs, (*op.inputs, *op.outputs), strict=True))
        found = [pairs[i] for o, i in callee.updated_refs.items() if pairs[o] is value]
        if not found:
            return {}
        (value,) = found
    assert isinstance(value, BlockArgument)
    return {} if value is result else {MUTATES: IntegerAttr(value.index, i64)}


def isolated(module: ModuleOp) -> Iterator[tuple[str, ModuleOp]]:
    """
    The kernels of a module of Loop, Tile or Kernel IR, by name: of each a module with the same
    attributes whose `@main` runs it on arguments of its own, strided and aligned as it wants them.
    """
    for op in list(module.walk()):
        if not isinstance(op, KernelOpBase | kernel.FuncOp):
            continue

        def run(block: Block, op: KernelOpBase | kernel.FuncOp = op) -> Sequence[SSAValue]:
            alone: Operation
            if isinstance(op, KernelOpBase):
                alone = op.clone()
                alone.operands = block.args
            else:
                results = [tensor_of(ref.type) for ref in op.output_refs]
                alone = kernel.LaunchOp(op.name_, block.args, results)
            block.add_op(alone)
            return alone.results

        inputs = [Input(ref, op.alignment(ref)) for ref in op.input_refs]
        yield (
            op.name_,
            program_around(module, inputs, run, [op] if isinstance(op, kernel.FuncOp) else []),
        )

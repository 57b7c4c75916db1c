"""A kernel taken out of its program, as a program of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StridedLayoutAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from dlc.dialects import kernel
from dlc.dialects.kernel_op import DEFAULT_ALIGNMENT, KernelOpBase, tensor_of
from dlc.dialects.layouts import strides_of


def isolated(module: ModuleOp) -> Iterator[tuple[str, ModuleOp]]:
    """
    The kernels of a module of Loop, Tile or Kernel IR, by name: of each a module with the same
    attributes whose `@main` runs it on arguments of its own, strided and aligned as it wants them.
    """
    for op in list(module.walk()):
        if isinstance(op, KernelOpBase):
            yield op.name_, _program(module, op, _run_clone(op))
        elif isinstance(op, kernel.FuncOp):
            yield op.name_, _program(module, op, _run_launch(op), op.clone())


def _run_clone(op: KernelOpBase) -> Callable[[Sequence[SSAValue]], Operation]:
    def run(arguments: Sequence[SSAValue]) -> Operation:
        alone = op.clone()
        alone.operands = arguments
        return alone

    return run


def _run_launch(op: kernel.FuncOp) -> Callable[[Sequence[SSAValue]], Operation]:
    results = [tensor_of(ref.type) for ref in op.output_refs]
    return lambda arguments: kernel.LaunchOp(op.name_, arguments, results)


def _program(
    module: ModuleOp,
    op: KernelOpBase | kernel.FuncOp,
    run: Callable[[Sequence[SSAValue]], Operation],
    *beside: Operation,
) -> ModuleOp:
    block = Block(arg_types=[tensor_of(ref.type) for ref in op.input_refs])
    for argument, ref in zip(block.args, op.input_refs, strict=True):
        argument.name_hint = ref.name_hint
    alone = run(block.args)
    block.add_ops([alone, func.ReturnOp(*alone.results)])
    main = func.FuncOp(
        "main",
        ([a.type for a in block.args], [r.type for r in alone.results]),
        Region(block),
        arg_attrs=ArrayAttr([_memory(ref.type, op.alignment(ref)) for ref in op.input_refs]),
    )
    return ModuleOp([*beside, main], dict(module.attributes))


def _memory(memref: Attribute, align: int) -> DictionaryAttr:
    """What is to be known of the memory of a tensor."""
    assert isinstance(memref, MemRefType)
    attributes: dict[str, Attribute] = {}
    if isinstance(memref.layout, StridedLayoutAttr):
        attributes["dlc.strides"] = DenseArrayBase.from_list(i64, list(strides_of(memref)))
    if align != DEFAULT_ALIGNMENT:
        attributes["dlc.align"] = IntegerAttr(align, i64)
    return DictionaryAttr(attributes)

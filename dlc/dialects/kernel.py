"""
The `kernel` dialect: one operation is one hardware primitive (Kernel IR).

```
kernel.func @rms_norm(%x: memref<32x2048xf32>, %w: memref<2048xf32>) -> (%y: memref<32x2048xf32>)
    grid 32 block 256 {
  %row = kernel.block_id
  %t = kernel.thread_id
  %scratch = kernel.alloc_shared : memref<8xf32, #kernel.shared>
  %acc = kernel.alloc_local : memref<f32, #kernel.local>
  scf.for %o = %c0 to %c8 step %c1 { … kernel.load … kernel.store … } {unroll}
  kernel.barrier
  %other = kernel.shuffle xor %part, 16 width 32 : f32
}
```

Everything runs in every thread. Memory is global (kernel arguments), `#kernel.shared` (one per
block) or `#kernel.local` (one per thread; with constant subscripts after unrolling: registers).
Loops and ifs are `scf`; an `scf.for` marked `unroll` is unrolled. `@main` launches kernels.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    AffineMapAttr,
    FlatSymbolRefAttrConstr,
    IndexType,
    IntegerAttr,
    MemRefLayoutAttr,
    MemRefType,
    NoneAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    i1,
    i64,
)
from xdsl.ir import (
    Attribute,
    BlockArgument,
    Dialect,
    Operation,
    Region,
    SSAValue,
)
from xdsl.ir.affine import AffineConstantExpr, AffineMap
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasAncestor,
    IsolatedFromAbove,
    MemoryAllocEffect,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoTerminator,
    Pure,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import (
    AtomicAddOpBase,
    IndexedOp,
    IndexOpBase,
    LoadOpBase,
    SelectOpBase,
    StoreOpBase,
    index_parts,
    parse_index,
)
from dlc.dialects.kernel_async import CommitOp, CpAsyncOp, WaitOp
from dlc.dialects.kernel_memory import LocalAttr, SharedAttr, memref_type, verify_space
from dlc.dialects.kernel_memory import element_bytes as element_bytes
from dlc.dialects.kernel_memory import is_local as is_local
from dlc.dialects.kernel_memory import is_shared as is_shared
from dlc.dialects.kernel_op import (
    DEFAULT_ALIGNMENT,
    KernelSignature,
    tensor_of,
)
from dlc.dialects.kernel_tma import (
    AllocMbarriersOp,
    FenceMbarrierInitOp,
    FenceProxyAsyncOp,
    MbarrierArriveOp,
    MbarrierExpectTxOp,
    MbarrierInitOp,
    MbarriersType,
    MbarrierWaitOp,
    SyncWarpOp,
    TensorMapOp,
    TensorMapType,
    TmaLoadOp,
)
from dlc.dialects.kernel_tma import MbarrierOpBase as MbarrierOpBase
from dlc.dialects.layouts import PaddedGroupsAttr, SwizzleAttr, verify_layout
from dlc.ir.expr import Expr, once
from dlc.target import MAX_THREADS


@irdl_op_definition
class FuncOp(KernelSignature):
    """
    `kernel.func @k(%x: memref (align 4)?, …) -> (%y: memref zeroed?, …) grid 32 block 256 lockstep?
    { … }`

    A kernel for the GPU: inputs, then outputs; a one-dimensional grid of one-dimensional blocks.
    Outputs are new memory, uninitialized but for those that are zeroed: they hold zeros at the
    start, also where the grid is empty.

    The threads of a block run independently of each other. In `lockstep`, all execute an operation
    before any executes the next, which no GPU does: such a kernel has yet to get its barriers.
    """

    name = "kernel.func"
    grid = prop_def(AffineMapAttr)
    block = prop_def(IntegerAttr)
    lockstep = opt_prop_def(UnitAttr)
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())

    def __init__(
        self,
        name: str,
        body: Region,
        alignments: Sequence[int],
        grid: int,
        block: int,
        schedule: str | None = None,
        zeroed: Sequence[int] = (),
        *,
        lockstep: bool = False,
    ) -> None:
        signature = self.signature(name, alignments, schedule, zeroed)
        shape = _launch_shape(grid, block)
        step = {"lockstep": UnitAttr() if lockstep else None}
        super().__init__(regions=[body], properties=signature | shape | step)

    @property
    def tensor_maps(self) -> tuple[TensorMapOp, ...]:
        """The tensor maps that the launch makes: the first parameters, in this order."""
        return tuple(op for op in self.body.block.ops if isinstance(op, TensorMapOp))

    @property
    def grid_size(self) -> int:
        """The number of blocks."""
        return self.grid.data.eval([], [])[0]

    @property
    def block_size(self) -> int:
        """The number of threads of a block."""
        return self.block.value.data

    def set_launch_shape(self, grid: int, block: int) -> None:
        """States how many blocks run, and of how many threads."""
        self.properties |= _launch_shape(grid, block)

    def verify_(self) -> None:
        for argument in self.body.block.args:
            if not isinstance(argument.type, MemRefType):
                raise VerifyException(f"expected memrefs as arguments, found {argument.type}")
        grid = self.grid.data
        if grid.num_dims != len(self.sizes) or grid.num_symbols or len(grid.results) != 1:
            raise VerifyException(
                f"expected a grid of one expression over the {len(self.sizes)} sizes, found {grid}"
            )
        if self.grid_size < 0 or not 1 <= self.block_size <= MAX_THREADS:
            raise VerifyException(
                f"expected a grid >= 0 and a block of 1 to {MAX_THREADS} threads, found "
                f"{self.grid_size} and {self.block_size}"
            )
        if len(self.alignments) > len(self.refs):
            raise VerifyException("expected at most one alignment per memref")
        self.verify_zeroed()
        for ref in self.input_refs:
            for use in ref.uses:
                if isinstance(use.operation, StoreOpBase):
                    raise VerifyException(
                        f"expected inputs that are only read, found %{ref.name_hint}, which "
                        f"'{use.operation.name}' writes"
                    )

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        properties, arguments = cls.parse_signature(parser)
        parser.parse_keyword("grid")
        grid = parser.parse_integer()
        parser.parse_keyword("block")
        properties |= _launch_shape(grid, parser.parse_integer())
        if parser.parse_optional_keyword("lockstep"):
            properties["lockstep"] = UnitAttr()
        return cls.build(**cls.parse_body(parser, properties, arguments))

    def print(self, printer: Printer) -> None:
        self.print_signature(printer)
        printer.print_string(f" grid {self.grid_size} block {self.block_size}")
        if self.lockstep is not None:
            printer.print_string(" lockstep")
        self.print_body(printer)


def _launch_shape(grid: int, block: int) -> dict[str, Attribute]:
    """The properties that say how many blocks run, and of how many threads."""
    blocks = AffineMap(0, 0, (AffineConstantExpr(grid),))
    return {"grid": AffineMapAttr(blocks), "block": IntegerAttr(block, i64)}


class LaunchOpBase(IRDLOperation, ABC):
    """A launch of a kernel by its name."""

    kernel = prop_def(FlatSymbolRefAttrConstr)

    @property
    def kernel_name(self) -> str:
        return self.kernel.root_reference.data

    @property
    def launched(self) -> KernelSignature | None:
        """The kernel that is launched, in whichever dialect it is."""
        root: Operation = self
        while (parent := root.parent_op()) is not None:
            root = parent
        return once((root, "kernels"), lambda: _kernels(root)).get(self.kernel_name)

    @property
    def callee(self) -> FuncOp | None:
        """The kernel that is launched, in Kernel IR."""
        found = self.launched
        return found if isinstance(found, FuncOp) else None

    def verify_types(
        self,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        input_types: Sequence[Attribute],
        output_types: Sequence[Attribute],
    ) -> None:
        """Are inputs and outputs as many as the kernel's, and of its types?"""
        found = [v.type for v in (*inputs, *outputs)]
        expected = [*input_types, *output_types]
        if found != expected or len(inputs) != len(input_types):
            raise VerifyException(
                f"expected inputs and outputs ({', '.join(map(str, expected))}), found "
                f"({', '.join(map(str, found))})"
            )

    def print_launch(self, printer: Printer, inputs: Sequence[SSAValue]) -> None:
        """Prints ` @k(%x, %w)`."""
        printer.print_string(" ")
        printer.print_symbol_name(self.kernel_name)
        with printer.in_parens():
            printer.print_list(inputs, printer.print_ssa_value)


@irdl_op_definition
class LaunchOp(LaunchOpBase):
    """
    `%y = kernel.launch @k(%x, %w) : (tensor, tensor) -> tensor`: runs a kernel; in `@main`.

    Before Kernel IR the kernel is one of the loop or tile dialect, which runs where it stands and,
    on other tensors, wherever it is launched again.
    """

    name = "kernel.launch"
    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self, kernel: str, inputs: Sequence[SSAValue], result_types: Sequence[Attribute]
    ) -> None:
        super().__init__(
            operands=[inputs],
            properties={"kernel": SymbolRefAttr(kernel)},
            result_types=[list(result_types)],
        )

    def verify_(self) -> None:
        callee = self.launched
        if callee is None:
            raise VerifyException(f"expected a kernel named {self.kernel}, found none")
        self.verify_types(
            self.inputs,
            self.outputs,
            [tensor_of(ref.type) for ref in callee.input_refs],
            [tensor_of(ref.type) for ref in callee.output_refs],
        )
        for value, needed in zip(self.inputs, callee.alignments.get_values(), strict=False):
            if (known := _known_alignment(value)) < needed:
                raise VerifyException(
                    f"expected %{value.name_hint} at a multiple of {needed} bytes, found it at one "
                    f"of {known}"
                )

    @classmethod
    def parse(cls, parser: Parser) -> LaunchOp:
        name = parser.parse_symbol_name()
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        pos = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        op = cls(name.data, parser.resolve_operands(operands, types, pos), results)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        self.print_launch(printer, self.inputs)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        with printer.in_parens():
            printer.print_list(self.inputs, lambda v: printer.print_attribute(v.type))
        printer.print_string(" -> ")
        with printer.in_parens():
            printer.print_list(self.outputs, lambda v: printer.print_attribute(v.type))


def _known_alignment(value: SSAValue) -> int:
    """What a function says of its argument's address, in bytes; other tensors are our own."""
    function = value.owner.parent_op() if isinstance(value, BlockArgument) else None
    if not isinstance(function, func.FuncOp) or function.arg_attrs is None:
        return DEFAULT_ALIGNMENT
    align = function.arg_attrs.data[value.index].data.get("dlc.align")  # pyright: ignore[reportAttributeAccessIssue]
    return align.value.data if isinstance(align, IntegerAttr) else DEFAULT_ALIGNMENT


def _kernels(root: Operation) -> dict[str, KernelSignature]:
    """The kernels in a module and in the functions of it, by name."""
    found: dict[str, KernelSignature] = {}
    for region in root.regions:
        for op in region.ops if region.blocks else ():
            if isinstance(op, KernelSignature):
                found.setdefault(op.name_, op)
            else:
                found |= _kernels(op)
    return found


def enclosing_func(op: Operation) -> FuncOp | None:
    """The kernel that an operation stands in."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    return parent


@irdl_op_definition
class BlockIdOp(IRDLOperation):
    """`%b = kernel.block_id`: from 0 up to the grid size."""

    name = "kernel.block_id"
    result = result_def(IndexType())
    assembly_format = "attr-dict"
    traits = traits_def(Pure(), HasAncestor(FuncOp))

    def __init__(self) -> None:
        super().__init__(result_types=[IndexType()])

    def index_range(self) -> tuple[float, float]:
        func = enclosing_func(self)
        return (0, max(func.grid_size - 1, 0)) if func else (0, float("inf"))


@irdl_op_definition
class ThreadIdOp(IRDLOperation):
    """`%t = kernel.thread_id`: from 0 up to the block size."""

    name = "kernel.thread_id"
    result = result_def(IndexType())
    assembly_format = "attr-dict"
    traits = traits_def(Pure(), HasAncestor(FuncOp))

    def __init__(self) -> None:
        super().__init__(result_types=[IndexType()])

    def index_range(self) -> tuple[float, float]:
        func = enclosing_func(self)
        return (0, func.block_size - 1) if func else (0, float("inf"))


@irdl_op_definition
class AllocSharedOp(IRDLOperation):
    """`%s = kernel.alloc_shared : memref<16x128xf32, #kernel.shared>`: uninitialized."""

    name = "kernel.alloc_shared"
    result = result_def(MemRefType)
    assembly_format = "attr-dict `:` type($result)"
    traits = traits_def(MemoryAllocEffect())

    def __init__(
        self,
        element: Attribute,
        shape: Sequence[int],
        layout: MemRefLayoutAttr | NoneAttr | None = None,
    ) -> None:
        type = memref_type(element, tuple(shape), layout or NoneAttr(), SharedAttr())
        super().__init__(result_types=[type])

    def verify_(self) -> None:
        verify_space(self.result.type, SharedAttr())
        assert isinstance(self.result.type, MemRefType)
        verify_layout(self.result.type)


@irdl_op_definition
class AllocLocalOp(IRDLOperation):
    """`%a = kernel.alloc_local : memref<8x8xf32, #kernel.local>`: uninitialized."""

    name = "kernel.alloc_local"
    result = result_def(MemRefType)
    assembly_format = "attr-dict `:` type($result)"
    traits = traits_def(MemoryAllocEffect())

    def __init__(self, element: Attribute, shape: Sequence[int]) -> None:
        type = memref_type(element, tuple(shape), space=LocalAttr())
        super().__init__(result_types=[type])

    def verify_(self) -> None:
        verify_space(self.result.type, LocalAttr())


@irdl_op_definition
class LoadOp(LoadOpBase):
    """
    `%v = kernel.load %x[expr, …] (where (condition, …) else %d)? : memref (-> vector<4xf32>)?`

    Where a condition is false, gives the default (0 if none is named) and reads nothing. A vector
    is read from consecutive elements along the last dimension, whose address must be aligned.
    """

    name = "kernel.load"
    traits = traits_def(MemoryReadEffect())


@irdl_op_definition
class StoreOp(StoreOpBase):
    """`kernel.store %v, %y[expr, …] (where (condition, …))? : memref (, vector<4xf32>)?`"""

    name = "kernel.store"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class IndexOp(IndexOpBase):
    """`%i = kernel.index expr`: an index expression as a value."""

    name = "kernel.index"
    traits = traits_def(Pure())


@irdl_op_definition
class SelectOp(SelectOpBase):
    """`%v = kernel.select %a where (condition, …) else %b : type`"""

    name = "kernel.select"
    traits = traits_def(Pure())


@irdl_op_definition
class TestOp(IndexedOp):
    """`%p = kernel.test where (condition, …)`: do all conditions hold? For `scf.if`."""

    name = "kernel.test"
    indices = var_operand_def(IndexType())
    result = result_def(i1)
    traits = traits_def(Pure())

    def __init__(self, where: Sequence[Expr]) -> None:
        indices, map, conditions = index_parts([], where)
        super().__init__(
            operands=[indices],
            properties={"map": map, "conditions": conditions},
            result_types=[i1],
        )

    def verify_(self) -> None:
        self.verify_index(0, "a test")
        if self.conditions is None:
            raise VerifyException("expected a `where` condition")

    @classmethod
    def parse(cls, parser: Parser) -> TestOp:
        indices, map, conditions = parse_index(parser, subscripts=False)
        op = cls.__new__(cls)
        IRDLOperation.__init__(
            op,
            operands=[indices],
            properties={"map": map, "conditions": conditions},
            attributes=parser.parse_optional_attr_dict(),
            result_types=[i1],
        )
        return op

    def print(self, printer: Printer) -> None:
        self.print_where(printer)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """`kernel.barrier`: all threads of the block meet; accesses before it are seen after it."""

    name = "kernel.barrier"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """
    `%o = kernel.shuffle xor %v, 16 width 32 : f32`

    The value that the lane `lane xor mask` holds, in groups of `width` lanes of a warp. The lanes
    of a warp meet; memory is not ordered.
    """

    name = "kernel.shuffle"
    value = operand_def(AnyAttr())
    mask = prop_def(IntegerAttr)
    width = prop_def(IntegerAttr)
    result = result_def(AnyAttr())
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, value: SSAValue, mask: int, width: int) -> None:
        super().__init__(
            operands=[value],
            properties={"mask": IntegerAttr(mask, i64), "width": IntegerAttr(width, i64)},
            result_types=[value.type],
        )

    def verify_(self) -> None:
        width, mask = self.width.value.data, self.mask.value.data
        if width not in (2, 4, 8, 16, 32) or not 0 < mask < width:
            raise VerifyException(
                "expected a width of 2, 4, 8, 16 or 32 and a mask below it, found "
                f"width {width} and mask {mask}"
            )
        if self.result.type != self.value.type:
            raise VerifyException(
                f"expected a result of type {self.value.type}, found {self.result.type}"
            )

    @classmethod
    def parse(cls, parser: Parser) -> ShuffleOp:
        parser.parse_keyword("xor")
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        mask = parser.parse_integer()
        parser.parse_keyword("width")
        width = parser.parse_integer()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(parser.resolve_operand(value, parser.parse_type()), mask, width)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" xor ")
        printer.print_ssa_value(self.value)
        printer.print_string(f", {self.mask.value.data} width {self.width.value.data}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)


@irdl_op_definition
class AtomicAddOp(AtomicAddOpBase):
    """`kernel.atomic_add %v, %y[expr, …] (where (condition, …))? : memref`"""

    name = "kernel.atomic_add"


Kernel = Dialect(
    "kernel",
    [
        FuncOp,
        LaunchOp,
        BlockIdOp,
        ThreadIdOp,
        AllocSharedOp,
        AllocLocalOp,
        LoadOp,
        StoreOp,
        IndexOp,
        SelectOp,
        TestOp,
        BarrierOp,
        ShuffleOp,
        CpAsyncOp,
        CommitOp,
        WaitOp,
        AtomicAddOp,
        TensorMapOp,
        AllocMbarriersOp,
        MbarrierInitOp,
        MbarrierArriveOp,
        MbarrierExpectTxOp,
        MbarrierWaitOp,
        TmaLoadOp,
        FenceMbarrierInitOp,
        FenceProxyAsyncOp,
        SyncWarpOp,
    ],
    [SharedAttr, LocalAttr, SwizzleAttr, PaddedGroupsAttr, TensorMapType, MbarriersType],
)

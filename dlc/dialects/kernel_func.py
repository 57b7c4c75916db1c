"""A kernel for the GPU and its launch, by name."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    AffineMapAttr,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import StoreOpBase
from dlc.dialects.canonical import CanonicalizedByDialect
from dlc.dialects.directives import parse_extent, sizes_in, sizes_map
from dlc.dialects.in_place import verify_in_place, verify_partial
from dlc.dialects.kernel_op import KernelSignature, Properties, tensor_of
from dlc.dialects.kernel_tma import TensorMapOp
from dlc.dialects.layouts import DEFAULT_ALIGNMENT
from dlc.dialects.size import in_memory
from dlc.dialects.size_index import size_bounds
from dlc.dialects.sized_types import SizesAttr
from dlc.dialects.views import WholeOp
from dlc.ir.attributes import i64_attr
from dlc.ir.sizes import Size, divides
from dlc.target import MAX_CLUSTER, MAX_GRID, MAX_THREADS, Feature, Target, target_of


@irdl_op_definition
class FuncOp(KernelSignature):
    """
    `kernel.func @k(%x: memref (align 4)?, …) -> (%y: memref (zeroed | partial | updates %x)?, …)
    grid 32 block 256 (cluster 4)? (resident 8)? in_turns? lockstep? { … }`

    A kernel for the GPU: inputs, then outputs; a one-dimensional grid of one-dimensional blocks.
    Outputs are new memory, uninitialized but for those that are zeroed: they hold zeros at the
    start, also where the grid is empty. Those that update an input are that input's memory. Of
    those that are partial, other kernels store the rest.

    The threads of a block run independently of each other. In `lockstep`, all execute an operation
    before any executes the next, which no GPU does: such a kernel has yet to get its barriers.
    With `resident`, it has yet to get the loops by which so many blocks do the work of all, and
    with `in_turns` the mbarriers by which its warpgroups take turns at products.

    In a `cluster` so many blocks that follow each other run at the same time, and read each other's
    shared memory: see `kernel.map_cluster`.
    """

    name = "kernel.func"
    grid = prop_def(AffineMapAttr | SizesAttr)
    block = prop_def(IntegerAttr)
    lockstep = opt_prop_def(UnitAttr)
    resident = opt_prop_def(IntegerAttr)
    in_turns = opt_prop_def(UnitAttr)
    cluster = opt_prop_def(IntegerAttr)
    traits = traits_def(
        IsolatedFromAbove(), NoTerminator(), SymbolOpInterface(), CanonicalizedByDialect()
    )

    def __init__(
        self,
        name: str,
        body: Region,
        alignments: Sequence[int],
        grid: int,
        block: int,
        schedule: str | None = None,
        zeroed: Sequence[int] = (),
        updates: Sequence[int] = (),
        *,
        lockstep: bool = False,
        cluster: int = 1,
    ) -> None:
        signature = self.signature(name, alignments, schedule, zeroed, updates)
        own = _own(grid, block, lockstep, cluster=cluster)
        super().__init__(regions=[body], properties=signature | own)

    @property
    def tensor_maps(self) -> tuple[TensorMapOp, ...]:
        """The tensor maps that the launch makes: the first parameters, in this order."""
        return tuple(op for op in self.body.block.ops if isinstance(op, TensorMapOp))

    @property
    def grid_size(self) -> int:
        """
        The number of blocks. A size is used as an integer is, and raises `NeedsNumber` where only a
        number will do.
        """
        return sizes_in(self.grid)[0]

    @property
    def least_grid(self) -> float:
        """The smallest number of blocks that there can be."""
        grid: Size | int = self.grid_size
        return size_bounds(grid, self)[0] if isinstance(grid, Size) else grid

    @property
    def most_grid(self) -> float:
        """The largest number of blocks that there can be."""
        grid: Size | int = self.grid_size
        return size_bounds(grid, self)[1] if isinstance(grid, Size) else grid

    @property
    def block_size(self) -> int:
        """The number of threads of a block."""
        return self.block.value.data

    @property
    def cluster_size(self) -> int:
        """The number of blocks that run at the same time and read each other's shared memory."""
        return 1 if self.cluster is None else self.cluster.value.data

    def set_launch_shape(self, grid: int, block: int, cluster: int = 1) -> None:
        """States how many blocks run, of how many threads, and in clusters of how many."""
        self.grid, self.block = sizes_map((grid,)), i64_attr(block)
        self.cluster = _cluster(cluster)

    def _verify_cluster(self) -> None:
        if self.cluster is None:
            return
        if not 2 <= self.cluster_size <= MAX_CLUSTER:
            raise VerifyException(
                f"expected a cluster of 2 to {MAX_CLUSTER} blocks, found {self.cluster_size}"
            )
        if not divides(self.cluster_size, self.grid_size):
            raise VerifyException(
                f"expected a grid of whole clusters of {self.cluster_size} blocks, found "
                f"{self.grid_size}"
            )
        if self.resident is not None and self.resident.value.data % self.cluster_size:
            raise VerifyException(
                f"expected whole clusters of {self.cluster_size} blocks that are resident, found "
                f"{self.resident.value.data}"
            )
        verify_chip(self, "cluster")

    def verify_(self) -> None:
        for argument in self.body.block.args:
            if not isinstance(argument.type, MemRefType):
                raise VerifyException(f"expected memrefs as arguments, found {argument.type}")
        if len(sizes_in(self.grid)) != 1:
            raise VerifyException(f"expected a grid of one number of blocks, found {self.grid}")
        if self.least_grid < 0 or not 1 <= self.block_size <= MAX_THREADS:
            raise VerifyException(
                f"expected a grid >= 0 and a block of 1 to {MAX_THREADS} threads, found "
                f"{self.grid_size} and {self.block_size}"
            )
        if self.least_grid > MAX_GRID:
            raise VerifyException(
                f"expected a grid of at most {MAX_GRID} blocks, found {self.grid_size}: let blocks "
                "have more points (`blockify-launch{block=…}`)"
            )
        if self.resident is not None and not 1 <= self.resident.value.data < self.grid_size:
            raise VerifyException(
                f"expected fewer resident blocks than the {self.grid_size} of the grid, and one at "
                f"least, found {self.resident.value.data}"
            )
        self._verify_cluster()
        if len(self.alignments) > len(self.refs):
            raise VerifyException("expected at most one alignment per memref")
        self.verify_updates()
        self.verify_zeroed()
        for ref in self.input_refs:
            for use in ref.uses:
                if isinstance(use.operation, StoreOpBase):
                    raise VerifyException(
                        f"expected inputs that are only read, found %{ref.name_hint}, which "
                        f"'{use.operation.name}' writes"
                    )

    @classmethod
    def parse_own(cls, parser: Parser) -> Properties:
        parser.parse_keyword("grid")
        grid = parse_extent(parser)
        parser.parse_keyword("block")
        block = parser.parse_integer()
        cluster = parser.parse_integer() if parser.parse_optional_keyword("cluster") else None
        resident = parser.parse_integer() if parser.parse_optional_keyword("resident") else None
        in_turns = parser.parse_optional_keyword("in_turns") is not None
        lockstep = parser.parse_optional_keyword("lockstep") is not None
        return _own(grid, block, lockstep, resident, cluster, in_turns=in_turns)

    def print_own(self, printer: Printer) -> None:
        printer.print_string(f" grid {self.grid_size} block {self.block_size}")
        if self.cluster is not None:
            printer.print_string(f" cluster {self.cluster_size}")
        if self.resident is not None:
            printer.print_string(f" resident {self.resident.value.data}")
        if self.in_turns is not None:
            printer.print_string(" in_turns")
        if self.lockstep is not None:
            printer.print_string(" lockstep")


def _cluster(blocks: int | None) -> IntegerAttr | None:
    return None if blocks in (None, 1) else IntegerAttr(blocks, i64)


def _own(
    grid: Size | int,
    block: int,
    lockstep: bool,
    resident: int | None = None,
    cluster: int | None = None,
    *,
    in_turns: bool = False,
) -> Properties:
    """The properties that say how many blocks run, and how the threads of each."""
    return {
        "grid": sizes_map((grid,)),
        "block": i64_attr(block),
        "lockstep": UnitAttr() if lockstep else None,
        "resident": None if resident is None else IntegerAttr(resident, i64),
        "in_turns": UnitAttr() if in_turns else None,
        "cluster": _cluster(cluster),
    }


@irdl_custom_directive
class Callee(CustomDirective):
    """`@k`: the name of a kernel."""

    kernel: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.kernel.set(state, SymbolRefAttr(parser.parse_symbol_name()))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.kernel.print(printer, state, op)


class LaunchOpBase(IRDLOperation, ABC):
    """A launch of a kernel by its name."""

    kernel = prop_def(FlatSymbolRefAttrConstr)

    @property
    def kernel_name(self) -> str:
        return self.kernel.root_reference.data

    @property
    def launched(self) -> KernelSignature | None:
        """The kernel that is launched, in whichever dialect it is."""
        root, kept = _root(self), vars(self)
        found: KernelSignature | None = kept.get("kept_launched")
        if found is None or found.name_ != self.kernel_name or _root(found) is not root:
            found = kept["kept_launched"] = _kernel_named(self.kernel_name, root)
        return found

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
        """Checks that inputs and outputs are as many as the kernel's, and of its types."""
        found = [v.type for v in (*inputs, *outputs)]
        expected = [*input_types, *output_types]
        if found != expected or len(inputs) != len(input_types):
            raise VerifyException(
                f"expected inputs and outputs ({', '.join(map(str, expected))}), found "
                f"({', '.join(map(str, found))})"
            )


@irdl_op_definition
class LaunchOp(LaunchOpBase):
    """
    `%y = kernel.launch @k(%x, %w) : (tensor, tensor) -> (tensor)`: runs a kernel; in `@main`.

    Before Kernel IR the kernel is one of the loop or tile dialect, which runs where it stands and,
    on other tensors, wherever it is launched again.
    """

    name = "kernel.launch"
    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    custom_directives = (Callee,)
    assembly_format = (
        "custom<Callee>($kernel) `(` $inputs `)` attr-dict"
        " `:` `(` type($inputs) `)` `->` `(` type($outputs) `)`"
    )
    traits = traits_def(Pure())

    def __init__(
        self, kernel: str, inputs: Sequence[SSAValue], result_types: Sequence[Attribute]
    ) -> None:
        super().__init__(
            operands=[inputs],
            properties={"kernel": SymbolRefAttr(kernel)},
            result_types=[list(result_types)],
        )

    def changes(self, tensor: SSAValue) -> bool:
        """True if an input is updated in place."""
        callee = self.launched
        return callee is not None and tensor in callee.updated_of(self.inputs)

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
        verify_in_place(self, callee.updated_of(self.inputs))
        verify_partial(callee.partial_of(self.outputs))
        for value, needed in zip(self.inputs, callee.alignments.get_values(), strict=False):
            if (known := _known_alignment(value)) < needed:
                raise VerifyException(
                    f"expected %{value.name_hint} at a multiple of {needed} bytes, found it at one "
                    f"of {known}"
                )


def _known_alignment(tensor: SSAValue) -> int:
    """
    The alignment that a function states of the argument in whose memory a tensor lies, in bytes;
    other tensors are our own, and views are at multiples of it.
    """
    value = _first_version(tensor)
    function = value.owner.parent_op() if isinstance(value, BlockArgument) else None
    if not isinstance(function, func.FuncOp) or function.arg_attrs is None:
        return DEFAULT_ALIGNMENT
    align = function.arg_attrs.data[value.index].data.get("dlc.align")  # pyright: ignore[reportAttributeAccessIssue]
    return align.value.data if isinstance(align, IntegerAttr) else DEFAULT_ALIGNMENT


def _first_version(tensor: SSAValue) -> SSAValue:
    """What a tensor is an updated version, a reshape or a view of."""
    value = in_memory(tensor)
    while isinstance(op := value.owner, LaunchOp | WholeOp):
        if isinstance(op, WholeOp):
            value = in_memory(op.view)
            continue
        if (callee := op.launched) is None:
            break
        pairs = dict(zip(callee.refs, (*op.inputs, *op.outputs), strict=True))
        updated = [pairs[i] for o, i in callee.updated_refs.items() if pairs[o] is value]
        if not updated:
            break
        value = in_memory(updated[0])
    return value


def _root(op: Operation) -> Operation:
    """The module that an operation stands in, or whatever is outermost."""
    while (parent := op.parent_op()) is not None:
        op = parent
    return op


def _kernel_named(name: str, root: Operation) -> KernelSignature | None:
    """The first kernel of a name in a module, or in the functions of it."""
    for region in root.regions:
        for op in region.ops if region.blocks else ():
            if not isinstance(op, KernelSignature):
                if op.regions and (found := _kernel_named(name, op)) is not None:
                    return found
            elif op.name_ == name:
                return op
    return None


def verify_chip(op: Operation, feature: Feature) -> Target | None:
    """Checks that an operation's chip has a feature; the chip, if it stands in a module."""
    module = op.parent_op()
    while module is not None and not isinstance(module, ModuleOp):
        module = module.parent_op()
    target = None if module is None else target_of(module)
    if target is not None and not target.has(feature):
        raise VerifyException(f"expected a chip with {feature}: {target.lacking(feature)}")
    return target


def enclosing_func(op: Operation) -> FuncOp | None:
    """The kernel that an operation stands in."""
    around: Operation | None = op
    while around is not None and (block := around.parent) is not None:
        region = block.parent
        around = None if region is None else region.parent
        if isinstance(around, FuncOp):
            return around
    return None

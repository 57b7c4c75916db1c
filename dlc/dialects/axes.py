"""
Operations that run over axes, in a form shared by the loop and tile dialects.

The axes of an operation are the arguments of its block; `extents` says how long each is. In the
tile dialect each axis also has a kind: where it lives (`block`, `thread`, `serial`, `register`,
`fragment`).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from itertools import groupby
from typing import ClassVar

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IndexType, StringAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr
from xdsl.irdl import IRDLOperation, opt_prop_def, prop_def, region_def, traits_def
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    RegionVariable,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, SingleBlockImplicitTerminator
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import YieldOpBase
from dlc.dialects.canonical import CanonicalizedByDialect
from dlc.dialects.directives import parse_extent, sizes_in, sizes_map
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.size_index import size_bounds, size_expr, size_hint
from dlc.dialects.sized_types import SizesAttr
from dlc.dialects.type_directives import parse_result_types, print_result_types
from dlc.ir.attributes import INDEX, names_attr
from dlc.ir.expr import Expr, Range
from dlc.ir.sizes import NeedsNumber, Size

SERIAL, REGISTER, BLOCK, THREAD = "serial", "register", "block", "thread"
FRAGMENT = "fragment"


class AxesOp(IRDLOperation, ABC):
    """Base of all operations that run a single-block body over axes."""

    extents = prop_def(AffineMapAttr | SizesAttr)
    kinds = opt_prop_def(ArrayAttr[StringAttr])
    body = region_def("single_block")
    traits = traits_def(CanonicalizedByDialect())

    KINDS: ClassVar[tuple[str, ...]] = ()
    """The kinds that axes of this operation may have; empty if its axes have none."""

    @property
    def is_launch(self) -> bool:
        """True if a grid of blocks runs the body."""
        return BLOCK in self.KINDS

    @property
    def axes(self) -> tuple[BlockArgument, ...]:
        return self.body.block.args

    @property
    def yielded(self) -> YieldOpBase:
        """The yield at the end of the body."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOpBase)
        return last

    @property
    def all_extents(self) -> tuple[int, ...]:
        """
        The numbers of points of all axes. A size among them is used as an integer is, and raises
        `NeedsNumber` where only a number will do.
        """
        return sizes_in(self.extents)

    def extent(self, axis: SSAValue) -> int:
        """The number of points of one of this operation's axes, a size as `all_extents` says."""
        assert isinstance(axis, BlockArgument)
        extents = self.properties["extents"]
        if isinstance(extents, AffineMapAttr):  # without a look at the others: it is asked often
            size = extents.data.results[axis.index]
            assert isinstance(size, AffineConstantExpr)
            return size.value
        return self.all_extents[axis.index]

    def is_size(self, axis: SSAValue) -> bool:
        """True if the number of points of an axis depends on sizes of the program."""
        return isinstance(self.extent(axis), Size)

    def count(self, axis: SSAValue) -> Expr:
        """The number of points of one of this operation's axes as an index expression."""
        return size_expr(self.extent(axis), self)

    def least(self, axis: SSAValue) -> float:
        """The smallest number of points that one of this operation's axes can have."""
        return self._bounds(axis)[0]

    def most(self, axis: SSAValue) -> float:
        """The largest number of points that one of this operation's axes can have."""
        return self._bounds(axis)[1]

    def hint(self, axis: SSAValue) -> int:
        """The number of points of an axis that schedules and estimates assume."""
        extent: Size | int = self.extent(axis)
        return size_hint(extent, self) if isinstance(extent, Size) else extent

    def top(self, axis: SSAValue) -> Expr | None:
        """The last point of an axis whose number of points is a size; None for a number."""
        extent: Size | int = self.extent(axis)
        return self.count(axis) - 1 if isinstance(extent, Size) else None

    def _bounds(self, axis: SSAValue) -> Range:
        extent: Size | int = self.extent(axis)
        return size_bounds(extent, self) if isinstance(extent, Size) else (extent, extent)

    def kind(self, axis: SSAValue) -> str:
        """The kind of one of this operation's axes, such as thread or register."""
        assert isinstance(axis, BlockArgument)
        assert self.kinds is not None
        return self.kinds.data[axis.index].data

    def axes_of(self, *kinds: str) -> list[BlockArgument]:
        """The axes of the given kinds, in order."""
        return [a for a in self.axes if self.kind(a) in kinds]

    def axis_range(self, axis: SSAValue) -> tuple[float, float]:
        """Inclusive bounds of an axis, for `dlc.ir.expr.range_of`; an empty axis counts as one
        point, so that nothing divides by its extent."""
        assert isinstance(axis, BlockArgument)
        extents = self.properties["extents"]
        known: tuple[Attribute, tuple[Range, ...]] | None = vars(self).get("kept_ranges")
        if known is not None and known[0] is extents:
            return known[1][axis.index]
        if isinstance(extents, SizesAttr):  # what is known depends on where this stands
            return 0, max(self.most(axis) - 1, 0)
        ranges = tuple((0, max(size - 1, 0)) for size in self.all_extents)
        vars(self)["kept_ranges"] = extents, ranges
        return ranges[axis.index]

    def set_axes(self, extents: Sequence[int], kinds: Sequence[str] | None = None) -> None:
        """States extents (and kinds) after block arguments have been added or removed."""
        self.extents = sizes_map(tuple(extents))
        if kinds is not None:
            self.kinds = names_attr(tuple(kinds))

    def verify_axes(self) -> None:
        """Checks extents, kinds and uses of the axes."""
        extents = self.all_extents
        map = self.extents.data if isinstance(self.extents, AffineMapAttr) else None
        if map is not None and len(extents) < len(map.results):
            raise VerifyException(f"expected extents that are integers, found {map}")
        if len(extents) != len(self.axes):
            raise VerifyException(
                f"expected one extent per axis, found {len(extents)} extents for "
                f"{len(self.axes)} axes"
            )
        self._verify_sizes()
        for axis in self.axes:
            if not isinstance(axis.type, IndexType):
                raise VerifyException(f"expected axes of type index, found {axis.type}")
            if self.least(axis) < 0:
                raise VerifyException(f"expected extents >= 0, found {self.extent(axis)}")
            for use in axis.uses:
                if not _names_axis(use.operation, axis):
                    raise VerifyException(
                        "expected axes in subscripts and conditions only, found "
                        f"%{axis.name_hint}, which '{use.operation.name}' uses as a value (an "
                        "index operation makes a value of it)"
                    )
        self._verify_kinds()

    def _verify_sizes(self) -> None:
        """Checks that the kernel says what the sizes among extents are."""
        for extent in self.all_extents if isinstance(self.extents, SizesAttr) else ():
            try:
                size_expr(extent, self)
            except NeedsNumber as error:
                raise VerifyException(
                    "expected extents of sizes that the kernel names by size.index, found one that "
                    f"{error}"
                ) from error

    def _verify_kinds(self) -> None:
        if (self.kinds is None) != (not self.KINDS):
            raise VerifyException(
                f"expected {'a kind for each axis' if self.KINDS else 'axes without kinds'}"
            )
        if self.kinds is not None:
            kinds = [k.data for k in self.kinds]
            if len(kinds) != len(self.axes) or not set(kinds) <= set(self.KINDS):
                raise VerifyException(
                    f"expected for each of {len(self.axes)} axes one of the kinds "
                    f"{', '.join(self.KINDS)}; found {', '.join(kinds)}"
                )


def launch_of(axis: SSAValue) -> AxesOp | None:
    """The launch of one of its axes; None for any other value."""
    launch = axis.owner.parent_op() if isinstance(axis.owner, Block) else None
    return launch if isinstance(launch, AxesOp) and launch.is_launch else None


def _names_axis(op: Operation, axis: SSAValue) -> bool:
    """True if an operation mentions an axis in subscripts or conditions, or works across it."""
    indices = op.indices if isinstance(op, IndexedOp) else ()
    names = (getattr(op, name, ()) for name in ("axes", "lanes", "across"))
    return any(axis in named for named in (indices, *names))


def loops_around(op: Operation) -> list[AxesOp]:
    """The operations with axes that `op` stands in, outermost first."""
    loops: list[AxesOp] = []
    while isinstance(parent := op.parent_op(), AxesOp):
        loops.insert(0, parent)
        op = parent
    return loops


def axes_properties(
    op: type[AxesOp], extents: Sequence[int], kinds: Sequence[str]
) -> dict[str, Attribute | None]:
    """The properties that state the axes of an operation."""
    return {
        "extents": sizes_map(tuple(extents)),
        "kinds": names_attr(tuple(kinds)) if op.KINDS else None,
    }


def new_body(count: int, names: Sequence[str | None] = ()) -> Region:
    """A region of one block with `count` axes, named as given."""
    block = Block(arg_types=[INDEX] * count)
    for axis, name in zip(block.args, names, strict=False):
        axis.name_hint = name
    return Region(block)


def terminate(region: Region, op: type[IRDLOperation]) -> None:
    """Appends the empty yield that an operation's text leaves out."""
    trait, last = op.get_trait(SingleBlockImplicitTerminator), region.block.last_op
    if trait is not None and (last is None or not last.has_trait(IsTerminator)):
        assert issubclass(trait.op_type, YieldOpBase)
        region.block.add_op(trait.op_type())


@irdl_custom_directive
class Over(CustomDirective):
    """`%i in 4, %j in 8 { … }`, or `block(%i in 4) thread(%j in 8) { … }` if axes have kinds."""

    extents: AttributeVariable
    kinds: AttributeVariable
    body: RegionVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        arguments = parse_axes(parser, state, self.extents, self.kinds)
        parse_body(parser, state, self.body, arguments)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        print_axes(printer, op)
        print_body(printer, op)


@irdl_custom_directive
class Fold(CustomDirective):
    """`%i in 4 -> f32 { … }`: as `Over`, with the types of the results before the body."""

    extents: AttributeVariable
    kinds: AttributeVariable
    results: TypeDirective
    body: RegionVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        arguments = parse_axes(parser, state, self.extents, self.kinds)
        self.results.set(state, parse_result_types(parser))
        parse_body(parser, state, self.body, arguments)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        print_axes(printer, op)
        print_result_types(printer, self.results.get(op))
        print_body(printer, op)


def parse_axes(
    parser: Parser, state: ParsingState, extents: AttributeVariable, kinds: AttributeVariable
) -> list[Parser.Argument]:
    """Parses `%i in 4, %j in 8`, or `block(%i in 4) thread(%j in 8)` if there are kinds."""
    assert issubclass(state.op_type, AxesOp)
    known = state.op_type.KINDS
    arguments: list[Parser.Argument] = []
    sizes: list[Size | int] = []
    found: list[str] = []

    def axis(argument: Parser.UnresolvedArgument) -> None:
        arguments.append(argument.resolve(IndexType()))
        parser.parse_keyword("in")
        sizes.append(parse_extent(parser))

    def one() -> None:
        axis(parser.parse_argument(expect_type=False))

    def first() -> bool | None:
        argument = parser.parse_optional_argument(expect_type=False)
        return argument and not axis(argument)

    if not known:
        parser.parse_optional_undelimited_comma_separated_list(first, one)
    while known and (kind := parser.parse_optional_keyword_in(known)):
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, one)
        found.extend([kind] * (len(arguments) - len(found)))
    extents.set(state, sizes_map(tuple(sizes)))
    if known:
        kinds.set(state, names_attr(tuple(found)))
    return arguments


def print_axes(printer: Printer, op: IRDLOperation) -> None:
    """Prints what `parse_axes` parses, with a space in front."""
    assert isinstance(op, AxesOp)

    def one(axis: BlockArgument) -> None:
        printer.print_ssa_value(axis)
        printer.print_string(f" in {op.extent(axis)}")

    if not op.KINDS:
        if op.axes:
            printer.print_string(" ")
        printer.print_list(op.axes, one)
        return
    for kind, group in groupby(op.axes, op.kind):
        printer.print_string(f" {kind}(")
        printer.print_list(group, one)
        printer.print_string(")")


def parse_body(
    parser: Parser,
    state: ParsingState,
    body: RegionVariable,
    arguments: Sequence[Parser.Argument],
) -> None:
    """Parses `{ … }`; the terminator may be left out if it is empty."""
    region = parser.parse_region(arguments)
    terminate(region, state.op_type)
    body.set(state, region)


def print_body(printer: Printer, op: IRDLOperation) -> None:
    """Prints what `parse_body` parses, with a space in front."""
    assert isinstance(op, AxesOp)
    last = op.body.block.last_op
    explicit = isinstance(last, YieldOpBase) and bool(last.values or last.indices)
    printer.print_string(" ")
    printer.print_region(op.body, print_entry_block_args=False, print_block_terminators=explicit)

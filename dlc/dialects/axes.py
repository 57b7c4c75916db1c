"""
Operations that run over axes, in a form shared by the loop and tile dialects.

The axes of an operation are the arguments of its block; `extents` says how long each is. In the
tile dialect each axis also has a kind: where it lives (`block`, `thread`, `serial`, `register`).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import ClassVar

from xdsl.dialects.builtin import I64, ArrayAttr, DenseArrayBase, IndexType, StringAttr, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    opt_prop_def,
    prop_def,
    region_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import IndexedOp, YieldOpBase
from dlc.ir.monoid import MONOIDS, Monoid

SERIAL, REGISTER, BLOCK, THREAD = "serial", "register", "block", "thread"


@cache
def _array(extents: tuple[int, ...]) -> DenseArrayBase[I64]:
    """An array of i64."""
    return DenseArrayBase.from_list(i64, extents)


@cache
def _integers(data: bytes) -> tuple[int, ...]:
    """What the data of an array of i64 says."""
    return i64.unpack(data, len(data) // i64.size)


class AxesOp(IRDLOperation, ABC):
    """Base of all operations that run a single-block body over axes."""

    extents = prop_def(DenseArrayBase.constr(i64))
    kinds = opt_prop_def(ArrayAttr[StringAttr])
    body = region_def("single_block")

    KINDS: ClassVar[tuple[str, ...]] = ()
    """The kinds that axes of this operation may have; empty if its axes have none."""

    @property
    def axes(self) -> tuple[BlockArgument, ...]:
        return tuple(self.body.block.args)

    @property
    def yielded(self) -> YieldOpBase:
        """The yield at the end of the body."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOpBase)
        return last

    def extent(self, axis: SSAValue) -> int:
        """The number of points of one of this operation's axes."""
        assert isinstance(axis, BlockArgument)
        return _integers(self.extents.data.data)[axis.index]

    def kind(self, axis: SSAValue) -> str:
        """Where one of this operation's axes lives."""
        assert isinstance(axis, BlockArgument)
        assert self.kinds is not None
        return self.kinds.data[axis.index].data

    def axes_of(self, *kinds: str) -> list[BlockArgument]:
        """The axes of the given kinds, in order."""
        return [a for a in self.axes if self.kind(a) in kinds]

    def axis_range(self, axis: SSAValue) -> tuple[float, float]:
        """Inclusive bounds of an axis, for `dlc.ir.expr.range_of`; an empty axis counts as one
        point, so that nothing divides by its extent."""
        return 0, max(self.extent(axis) - 1, 0)

    def set_axes(self, extents: Sequence[int], kinds: Sequence[str] | None = None) -> None:
        """States extents (and kinds) after block arguments have been added or removed."""
        self.extents = _array(tuple(extents))
        if kinds is not None:
            self.kinds = ArrayAttr([StringAttr(k) for k in kinds])

    def verify_axes(self) -> None:
        extents = self.extents.get_values()
        if len(extents) != len(self.axes):
            raise VerifyException(
                f"expected one extent per axis, found {len(extents)} extents for "
                f"{len(self.axes)} axes"
            )
        for axis, extent in zip(self.axes, extents, strict=True):
            if not isinstance(axis.type, IndexType):
                raise VerifyException(f"expected axes of type index, found {axis.type}")
            if extent < 0:
                raise VerifyException(f"expected extents >= 0, found {extent}")
            for use in axis.uses:
                if not _names_axis(use.operation, axis):
                    raise VerifyException(
                        "expected axes in subscripts and conditions only, found "
                        f"%{axis.name_hint}, which '{use.operation.name}' uses as a value (an "
                        "index operation makes a value of it)"
                    )
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

    def print_axes(self, printer: Printer) -> None:
        def one(axis: BlockArgument) -> None:
            printer.print_ssa_value(axis)
            printer.print_string(f" in {self.extent(axis)}")

        if not self.KINDS:
            if self.axes:
                printer.print_string(" ")
            printer.print_list(self.axes, one)
            return
        for kind, group in groupby(self.axes, self.kind):
            printer.print_string(f" {kind}(")
            printer.print_list(group, one)
            printer.print_string(")")

    def print_body(self, printer: Printer) -> None:
        last = self.body.block.last_op
        explicit = isinstance(last, YieldOpBase) and bool(last.values or last.indices)
        printer.print_string(" ")
        printer.print_region(
            self.body, print_entry_block_args=False, print_block_terminators=explicit
        )
        printer.print_op_attributes(self.attributes)


def _names_axis(op: Operation, axis: SSAValue) -> bool:
    """Does an operation mention an axis in subscripts or conditions, or work across it?"""
    indices = op.indices if isinstance(op, IndexedOp) else ()
    return axis in indices or axis in getattr(op, "axes", ())


def loops_around(op: Operation) -> list[AxesOp]:
    """The operations with axes that `op` stands in, outermost first."""
    loops: list[AxesOp] = []
    while isinstance(parent := op.parent_op(), AxesOp):
        loops.insert(0, parent)
        op = parent
    return loops


Axes = tuple[list[Parser.Argument], list[int], list[str]]


def parse_axes(parser: Parser, kinds: Sequence[str]) -> Axes:
    """Parses `%i in 4, %j in 8`, or `block(%i in 4) thread(%j in 8)` if there are kinds."""
    arguments: list[Parser.Argument] = []
    extents: list[int] = []

    def one() -> None:
        arguments.append(parser.parse_argument(expect_type=False).resolve(IndexType()))
        _one_extent()

    def first() -> bool | None:
        argument = parser.parse_optional_argument(expect_type=False)
        if argument is None:
            return None
        arguments.append(argument.resolve(IndexType()))
        _one_extent()
        return True

    def _one_extent() -> None:
        parser.parse_keyword("in")
        extents.append(parser.parse_integer(allow_boolean=False, allow_negative=False))

    found: list[str] = []
    if not kinds:
        parser.parse_optional_undelimited_comma_separated_list(first, one)
    while kinds and (kind := parser.parse_optional_keyword_in(kinds)):
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, one)
        found.extend([kind] * (len(arguments) - len(found)))
    return arguments, extents, found


def axes_properties(
    op: type[AxesOp], extents: Sequence[int], kinds: Sequence[str]
) -> dict[str, Attribute | None]:
    """The properties that state the axes of an operation."""
    return {
        "extents": _array(tuple(extents)),
        "kinds": ArrayAttr([StringAttr(k) for k in kinds]) if op.KINDS else None,
    }


def new_body(count: int, names: Sequence[str | None] = ()) -> Region:
    """A region of one block with `count` axes, named as given."""
    block = Block(arg_types=[IndexType()] * count)
    for axis, name in zip(block.args, names, strict=False):
        axis.name_hint = name
    return Region(block)


def terminate(region: Region, terminator: type[YieldOpBase]) -> None:
    """Appends the empty terminator that the text leaves out."""
    last = region.block.last_op
    if last is None or not last.has_trait(IsTerminator):
        region.block.add_op(terminator())


class ForOpBase(AxesOp, ABC):
    """Runs its body at every point of its axes; the points are independent."""

    YIELD: ClassVar[type[YieldOpBase]]

    def __init__(self, extents: Sequence[int], body: Region, kinds: Sequence[str] = ()) -> None:
        terminate(body, self.YIELD)
        super().__init__(regions=[body], properties=axes_properties(type(self), extents, kinds))

    def verify_(self) -> None:
        self.verify_axes()
        last = self.body.block.last_op
        if isinstance(last, YieldOpBase) and (last.values or last.conditions):
            raise VerifyException("expected a body that yields nothing")

    @classmethod
    def parse(cls, parser: Parser) -> ForOpBase:
        arguments, extents, kinds = parse_axes(parser, cls.KINDS)
        op = cls(extents, parser.parse_region(arguments), kinds)
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        self.print_axes(printer)
        self.print_body(printer)


class ReduceOpBase(AxesOp, ABC):
    """
    Folds what its body yields with a monoid, over all points of its axes in order. A body may yield
    several values: a monoid of one value folds each of them on its own.
    """

    monoid_name = prop_def(StringAttr, prop_name="monoid")
    results_ = var_result_def(AnyAttr())

    def __init__(
        self,
        monoid: str,
        extents: Sequence[int],
        result_types: Sequence[Attribute],
        body: Region,
        kinds: Sequence[str] = (),
    ) -> None:
        super().__init__(
            regions=[body],
            properties={
                "monoid": StringAttr(monoid),
                **axes_properties(type(self), extents, kinds),
            },
            result_types=[list(result_types)],
        )

    @property
    def monoid(self) -> Monoid:
        return MONOIDS[self.monoid_name.data]

    def verify_(self) -> None:
        verify_monoid(self.monoid_name.data, [r.type for r in self.results])
        self.verify_axes()
        last = self.body.block.last_op
        if isinstance(last, YieldOpBase):
            yielded = [v.type for v in last.values]
            expected = [r.type for r in self.results]
            if yielded != expected:
                raise VerifyException(
                    f"expected a body that yields ({', '.join(map(str, expected))}), "
                    f"found ({', '.join(map(str, yielded))})"
                )

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOpBase:
        monoid = parser.parse_identifier(": the name of a monoid")
        arguments, extents, kinds = parse_axes(parser, cls.KINDS)
        types = parse_result_types(parser)
        op = cls(monoid, extents, types, parser.parse_region(arguments), kinds)
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.monoid_name.data}")
        self.print_axes(printer)
        print_result_types(printer, [r.type for r in self.results])
        self.print_body(printer)


def verify_monoid(name: str, types: Sequence[Attribute]) -> None:
    """Checks that a monoid exists and folds values of these types."""
    if name not in MONOIDS:
        raise VerifyException(f"expected a monoid ({', '.join(MONOIDS)}), found '{name}'")
    arity = MONOIDS[name].arity
    if arity is None and not types:
        raise VerifyException(f"expected at least one result for the monoid '{name}', found none")
    if arity is not None and arity != len(types):
        raise VerifyException(
            f"expected {arity} results for the monoid '{name}', found {len(types)}"
        )


def parse_result_types(parser: Parser) -> list[Attribute]:
    """Parses `-> type` or `-> (type, …)`."""
    parser.parse_punctuation("->")
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return [parser.parse_type()] if types is None else [*types]


def print_result_types(printer: Printer, types: Sequence[Attribute]) -> None:
    printer.print_string(" -> ")
    if len(types) == 1:
        printer.print_attribute(types[0])
    else:
        with printer.in_parens():
            printer.print_list(types, printer.print_attribute)

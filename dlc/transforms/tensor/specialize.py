"""Sizes become numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from dlc.diagnostics import did_you_mean, fail
from dlc.dialects.layouts import shape_of
from dlc.dialects.size import (
    FactAttr,
    FactOp,
    SizeAttr,
    SymbolOp,
    ValueOp,
    number_attribute,
    numbers_attribute,
    symbols_in,
)
from dlc.dialects.sized_types import SizesAttr, sized_tensor
from dlc.ir.evaluate import scalar
from dlc.ir.sizes import Bounds, Size, is_packed
from dlc.registry import OptionError


@dataclass(frozen=True)
class SpecializePass(ModulePass):
    """
    Writes numbers for names of sizes, `sizes="s=63,b=4"`, and leaves those that it is not given.

    *Legal when* each number is one that the module's declaration allows, and what its facts say of
    sizes holds of them.
    *Why*: the passes that follow know numbers. A program is imported once for all sizes, and each
    of these goes on from here.

    ```
    size.symbol @s from 2
    %y = torch.aten "view.default"(self = %x) {size = [#size.value<s * 16>, 4]}
        : (tensor<?x64xf32, #size.of<s>>) -> tensor<?x4xf32, #size.of<s * 16>>
    ```
    becomes, with `sizes="s=3"`,
    ```
    %y = torch.aten "view.default"(self = %x) {size = [48, 4]}
        : (tensor<3x64xf32>) -> tensor<48x4xf32>
    ```

    By default, programs are imported with numbers.
    """

    name = "specialize"

    sizes: str
    """A number for each name: `s=63,b=4`."""

    def __post_init__(self) -> None:
        _ = self.values

    @cached_property
    def values(self) -> dict[str, int]:
        """The number for each name; OptionError for another text."""
        values: dict[str, int] = {}
        for part in self.sizes.split(","):
            name, _, number = (word.strip() for word in part.partition("="))
            if not name.isidentifier() or not number.isdecimal():
                message = f"expected `name=number,…`, found '{part}'"
                raise OptionError("sizes", message, 'such as sizes="s=63,b=4"')
            if name in values:
                raise OptionError("sizes", f"expected one number for '{name}', found two")
            values[name] = int(number)
        return values

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        specialize(op, self.values)


def specialize(module: ModuleOp, values: Mapping[str, int]) -> None:
    """
    Puts numbers in the place of names, in place. OpError for a name that the module does not
    declare, a number that it does not allow, and an extent that becomes negative.
    """
    symbols = symbols_in(module)
    for name in values:
        if name not in symbols:
            known = f"there are {', '.join(symbols)}" if symbols else "it has none"
            hint = did_you_mean(name, symbols) or known
            fail(module, f"expected a size of the module, found '{name}'", hint)
    bind = Binding(values)
    left = {name: s.bounds for name, s in symbols.items() if name not in values}
    for op in [*module.walk()]:
        match op:
            case SymbolOp() if (number := values.get(op.sym_name.data)) is not None:
                bind_symbol(op, number)
            case FactOp():
                bind_fact(op, values, left)
            case ValueOp():
                bind_value(op, values)
            case _:
                bind.operation(op)
    for main in module.ops:
        if isinstance(main, func.FuncOp):
            main.arg_attrs = without_packed(main.arg_attrs, main.function_type.inputs)
            main.res_attrs = without_packed(main.res_attrs, main.function_type.outputs)


def without_packed(
    said: ArrayAttr[DictionaryAttr] | None, types: ArrayAttr[Attribute]
) -> ArrayAttr[DictionaryAttr] | None:
    """What is said of tensors but for strides that say nothing, now that they are known."""
    if said is None:
        return None
    kept: list[DictionaryAttr] = []
    for entry, type in zip(said, types, strict=True):
        strides = entry.data.get("dlc.strides")
        if isinstance(strides, DenseArrayBase) and is_packed(
            shape_of(type), [int(n) for n in strides.get_values()]
        ):
            entry = DictionaryAttr({k: v for k, v in entry.data.items() if k != "dlc.strides"})
        kept.append(entry)
    return ArrayAttr(kept) if any(entry.data for entry in kept) else None


def bind_symbol(op: SymbolOp, number: int) -> None:
    """Takes a declaration away."""
    low, high = op.symbol.bounds
    if not low <= number <= high:
        fail(op, f"expected {op.symbol}, found {number}")
    Rewriter.erase_op(op)


def bind_fact(op: FactOp, values: Mapping[str, int], left: Mapping[str, Bounds]) -> None:
    """Binds names in a fact, which goes once the bounds `left` of the others imply it."""
    fact = op.holds.data
    numbers = {name: values[name] for name in fact.names if name in values}
    try:
        bound = fact.bind(values)
        if bound.is_implied(left):
            Rewriter.erase_op(op)
        elif bound.names:
            op.holds = FactAttr(bound)
        else:
            raise ValueError
    except (ValueError, ZeroDivisionError):
        given = ", ".join(f"{name} = {number}" for name, number in numbers.items())
        fail(op, f"expected {fact}, found {given}")


def bind_value(op: ValueOp, values: Mapping[str, int]) -> None:
    """Binds names in a size that is a value, which becomes a constant once it has none."""
    try:
        size = op.size.data.bind(values)
    except ZeroDivisionError:
        fail(op, "expected no division by 0")
    if size.number is None:
        op.size = SizeAttr(size)
        return
    constant = arith.ConstantOp(scalar(size.number, op.result.type))
    constant.location, constant.result.name_hint = op.location, op.result.name_hint
    constant.attributes.update(op.attributes)
    Rewriter.replace_op(op, constant)


class Binding:
    """Puts numbers in the place of names in types and attributes."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = values
        self.known: dict[Attribute, Attribute] = {}

    def operation(self, op: Operation) -> None:
        """
        Binds all that is said of an operation and the arguments of its blocks. OpError for an
        extent that becomes negative, or that is divided by 0.
        """
        try:
            self._bind(op)
        except ValueError as error:
            fail(op, str(error))
        except ZeroDivisionError:
            fail(op, "expected no division by 0")

    def _bind(self, op: Operation) -> None:
        for said in (op.properties, op.attributes):
            for name, attribute in said.items():
                if (bound := self(attribute)) is not attribute:
                    said[name] = bound
        blocks = [block for region in op.regions for block in region.blocks]
        for value in (*op.results, *(a for block in blocks for a in block.args)):
            if (type := self(value.type)) is not value.type:
                Rewriter.replace_value_with_new_type(value, type)

    def __call__(self, attribute: Attribute) -> Attribute:
        """The attribute itself where it has no names. Errors as of `type` and `Size.bind`."""
        if (known := self.known.get(attribute)) is None:
            known = self.known[attribute] = self.bound(attribute)
        return known

    def bound(self, attribute: Attribute) -> Attribute:
        match attribute:
            case SizeAttr(data=size):
                return number_attribute(size.bind(self.values))
            case SizesAttr(data=sizes):
                return numbers_attribute([size.bind(self.values) for size in sizes])
            case TensorType():
                return attribute if attribute.has_static_shape() else self.type(attribute)
            case ArrayAttr(data=items):
                bound = [self(item) for item in items]
                return attribute if _same(bound, items) else ArrayAttr(bound)
            case DictionaryAttr(data=entries):
                bound = [self(entry) for entry in entries.values()]
                same = _same(bound, [*entries.values()])
                return attribute if same else DictionaryAttr(dict(zip(entries, bound, strict=True)))
            case ParametrizedAttribute():
                bound = [self(parameter) for parameter in attribute.parameters]
                same = _same(bound, attribute.parameters)
                return attribute if same else type(attribute).new(bound)
            case _:
                return attribute

    def type(self, type: TensorType) -> TensorType:
        """A type with sizes, bound; ValueError for an extent that becomes negative."""
        extents = [Size.of(size).bind(self.values) for size in shape_of(type)]
        for size, bound in zip(shape_of(type), extents, strict=True):
            if bound.number is not None and bound.number < 0:
                raise ValueError(f"expected no negative extent, found {size} = {bound}")
        return sized_tensor(type.element_type, extents)


def _same(bound: Sequence[Attribute], before: Sequence[Attribute]) -> bool:
    return all(new is old for new, old in zip(bound, before, strict=True))

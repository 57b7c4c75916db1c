"""Sizes become numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    ModuleOp,
)
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from dlc.diagnostics import did_you_mean, fail
from dlc.dialects import kernel, tensor_ir
from dlc.dialects.kernel_op import KernelSignature
from dlc.dialects.layouts import shape_of
from dlc.dialects.size import (
    FactAttr,
    FactOp,
    ReshapeOp,
    SizeAttr,
    SymbolOp,
    ValueOp,
    symbols_in,
)
from dlc.dialects.size_binding import Binding
from dlc.ir.affine_forms import to_map
from dlc.ir.evaluate import scalar
from dlc.ir.reshaping import dimension_values, reshaped
from dlc.ir.sizes import Bounds, NeedsNumber, Size, is_packed
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
    computed = not any(isinstance(op, KernelSignature | kernel.LaunchOp) for op in module.walk())
    for op in [*module.walk()]:
        match op:
            case SymbolOp() if (number := values.get(op.sym_name.data)) is not None:
                bind_symbol(op, number)
            case FactOp():
                bind_fact(op, values, left)
            case ValueOp():
                bind_value(op, values)
            case ReshapeOp() if computed:
                bind.operation(op)
                bind_reshape(op)
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


def bind_fact(op: FactOp, values: Mapping[str, Size | int], left: Mapping[str, Bounds]) -> None:
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


def bind_reshape(op: ReshapeOp) -> None:
    """Makes an index map of a reshape in Tensor IR, where that needs no size that is left."""
    source, shape = shape_of(op.source), shape_of(op.result)
    if source == shape:
        op.result.replace_all_uses_with(op.source)
        Rewriter.erase_op(op)
        return
    try:
        subscripts = reshaped(source, shape)
    except NeedsNumber:
        return
    map = to_map(subscripts, [*dimension_values(len(shape))])
    new = tensor_ir.IndexMapOp([op.source], [map], shape)
    new.location, new.result.name_hint = op.location, op.result.name_hint
    new.attributes.update(op.attributes)
    Rewriter.replace_op(op, new)


def bind_value(op: ValueOp, values: Mapping[str, Size | int]) -> None:
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

"""
The `torch` dialect: the exported ATen graph of a PyTorch program, op for op.

It has one operation. `torch.aten` names an ATen overload, binds its tensors by the argument names
of the overload's schema, and keeps every other argument as an attribute of the same name:

```mlir
%y = torch.aten "rms_norm.default"(input = %x, weight = %w)
    {normalized_shape = [2048], eps = 1.000000e-06}
    : (tensor<1x32x2048xf32>, tensor<2048xf32>) -> tensor<1x32x2048xf32>
%z = torch.aten "cat.default"(tensors.0 = %a, tensors.1 = %b) {dim = -1} : (…) -> tensor<4x6xf32>
%l, %r = torch.aten "split.Tensor"(self = %z) {split_size = 3} : (…) -> (tensor<4x3xf32>, …)
```

The dialect needs no PyTorch: a module that was printed on one machine is read on any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TypeAlias

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    f64,
    i1,
    i64,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.size import SizeAttr, check_declared, check_sizes
from dlc.ir.sizes import Size

Argument: TypeAlias = "bool | int | float | complex | str | Size | list[Argument] | None"
"""What an ATen op takes beside tensors; dtypes are strings such as "float32"."""

OVERLOAD = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")
OPERAND_NAME = re.compile(r"[A-Za-z_]\w*(\.\d+)?")

SAME_ELEMENTS = frozenset(
    "alias clone contiguous detach expand lift_fresh_copy reshape squeeze to _to_copy unsafe_view "
    "_unsafe_view unsqueeze view".split()
)
"""Operations of one tensor that keep its elements in order; of its type, they give it back."""


def to_attribute(value: Argument) -> Attribute:
    """
    `true`, `2` (i64), `0.5` (f64), `{real = 0.5, imag = 1.0}`, `"float32"`, `unit` for None, `[…]`
    for a list of those, `#size.value<s>` for a size.
    """
    match value:
        case None:
            return UnitAttr()
        case bool():
            return IntegerAttr(int(value), i1)
        case int():
            return IntegerAttr(value, i64)
        case float():
            return FloatAttr(value, f64)
        case complex():
            parts = {"real": value.real, "imag": value.imag}
            return DictionaryAttr({name: FloatAttr(part, f64) for name, part in parts.items()})
        case str():
            return StringAttr(value)
        case Size():
            return SizeAttr(value)
        case list():
            return ArrayAttr([to_attribute(item) for item in value])


def from_attribute(attribute: Attribute) -> Argument:
    """The inverse of `to_attribute`; ValueError for an attribute that it never makes."""
    match attribute:
        case UnitAttr():
            return None
        case IntegerAttr(value=value, type=type) if type == i1:
            return bool(value.data)
        case IntegerAttr(value=value, type=type) if type == i64:
            return value.data
        case FloatAttr(value=value, type=Float64Type()):
            return value.data
        case DictionaryAttr(data={"real": FloatAttr(value=real), "imag": FloatAttr(value=imag)}):
            return complex(real.data, imag.data)
        case StringAttr(data=data) | SizeAttr(data=data):
            return data
        case ArrayAttr(data=items):
            return [from_attribute(item) for item in items]
        case _:
            raise ValueError(
                "expected a bool, an i64, an f64, a complex number, a size, a string, `unit` or a "
                "list of those, "
                f"found {attribute}"
            )


@irdl_op_definition
class AtenOp(IRDLOperation, HasFolderInterface):
    """
    One ATen op, with value semantics: it reads its operands and makes new tensors.

    ```
    results = torch.aten "name.overload"(argument = %operand, list.0 = %operand, …)
        {argument = value, …} attributes {…} : (operand types) -> result types
    ```

    An operand is named after its schema argument, an item of a tensor list `list.<position>`. A
    tensor that was not given (None, also within a list) has no operand; other arguments that were
    not given have no entry, so the schema's default holds. Device, layout and memory format are
    never among them: strides are no part of a tensor value.
    """

    name = "torch.aten"

    overload = prop_def(StringAttr)
    operand_names = prop_def(ArrayAttr[StringAttr])
    arguments = prop_def(DictionaryAttr)
    tensors = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)

    traits = traits_def(Pure())

    def __init__(
        self,
        overload: str,
        tensors: Mapping[str, SSAValue],
        arguments: Mapping[str, Argument],
        result_types: Sequence[Attribute],
    ):
        super().__init__(
            operands=[list(tensors.values())],
            result_types=[list(result_types)],
            properties={
                "overload": StringAttr(overload),
                "operand_names": ArrayAttr([StringAttr(name) for name in tensors]),
                "arguments": DictionaryAttr({k: to_attribute(v) for k, v in arguments.items()}),
            },
        )

    @property
    def names(self) -> list[str]:
        """The names of the operands, in their order."""
        return [name.data for name in self.operand_names]

    def operand(self, name: str) -> SSAValue | None:
        """The tensor given for the schema argument `name`, or None where it was not given."""
        names = self.names
        return self.operands[names.index(name)] if name in names else None

    def operand_list(self, name: str) -> list[SSAValue | None]:
        """
        The tensors of the list argument `name`, with None for the ones left out: the indices of
        `x[:, i]` are `[None, i]`. Trailing None are not kept.
        """
        items: dict[int, SSAValue] = {}
        for full_name, value in zip(self.names, self.operands, strict=True):
            base, _, position = full_name.partition(".")
            if base == name and position:
                items[int(position)] = value
        return [items.get(i) for i in range(max(items, default=-1) + 1)]

    def argument(self, name: str, default: Argument = None) -> Argument:
        """The non-tensor argument `name` as a Python value, or `default` if it was not given."""
        value = self.arguments.data.get(name)
        return default if value is None else from_attribute(value)

    def fold(self) -> Sequence[SSAValue] | None:
        """The operand, where an operation gives it back as it is."""
        if self.overload.data.split(".")[0] not in SAME_ELEMENTS:
            return None
        return [self.operands[0]] if self.operand_types == self.result_types else None

    def verify_(self) -> None:
        if OVERLOAD.fullmatch(self.overload.data) is None:
            raise VerifyException(
                'expected an overload of the form "name.overload" (such as "add.Tensor"), '
                f'found "{self.overload.data}"'
            )
        names = self.names
        if len(names) != len(self.operands):
            raise VerifyException(
                f"expected one name per operand, found {len(names)} names for "
                f"{len(self.operands)} operands"
            )
        for i, name in enumerate(names):
            if OPERAND_NAME.fullmatch(name) is None:
                raise VerifyException(
                    "expected an operand name of the form `argument` or `argument.position`, "
                    f'found "{name}"'
                )
            if name in names[:i]:
                raise VerifyException(f'expected unique operand names, found "{name}" twice')
            if name in self.arguments.data:
                raise VerifyException(
                    f'expected "{name}" to be an operand or an argument, found it as both'
                )
        for name, value in self.arguments.data.items():
            try:
                check_declared(self, _names_in(from_attribute(value)))
            except (ValueError, VerifyException) as error:
                raise VerifyException(f'argument "{name}": {error}') from None
        if not self.results:
            raise VerifyException("expected at least one result, found none")
        for kind, values in (("operand", self.operands), ("result", self.results)):
            for i, value in enumerate(values):
                try:
                    check_sizes(self, value.type)
                except VerifyException as error:
                    raise VerifyException(f"{kind} {i}: {error}") from None

    @classmethod
    def parse(cls, parser: Parser) -> AtenOp:
        overload = parser.parse_str_literal(" for the ATen overload")

        def binding() -> tuple[str, UnresolvedOperand]:
            name = parser.parse_identifier(" for the operand's schema argument")
            parser.parse_punctuation("=")
            return name, parser.parse_unresolved_operand()

        at = parser.pos
        bindings = parser.parse_comma_separated_list(parser.Delimiter.PAREN, binding)
        arguments = parser.parse_optional_dictionary_attr_dict()
        discardable = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_punctuation(":")
        types = parser.parse_function_type()
        op = cls.create(
            operands=parser.resolve_operands(
                [operand for _, operand in bindings], types.inputs.data, at
            ),
            result_types=types.outputs.data,
            properties={
                "overload": StringAttr(overload),
                "operand_names": ArrayAttr([StringAttr(name) for name, _ in bindings]),
                "arguments": DictionaryAttr(arguments),
            },
        )
        if discardable is not None:
            op.attributes.update(discardable.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.overload.data)
        with printer.in_parens():
            printer.print_list(
                list(zip(self.names, self.operands, strict=True)),
                lambda item: self._print_binding(printer, *item),
            )
        if self.arguments.data:
            printer.print_string(" ")
            with printer.in_braces():
                printer.print_list(
                    self.arguments.data.items(), lambda item: _print_entry(printer, *item)
                )
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)

    @staticmethod
    def _print_binding(printer: Printer, name: str, operand: SSAValue) -> None:
        printer.print_string(f"{name} = ")
        printer.print_operand(operand)


def _names_in(value: Argument) -> list[str]:
    """The names of sizes in an argument."""
    if isinstance(value, Size):
        return value.names
    return [name for item in value for name in _names_in(item)] if isinstance(value, list) else []


def _print_entry(printer: Printer, name: str, value: Attribute) -> None:
    printer.print_identifier_or_string_literal(name)
    printer.print_string(" = ")
    _print_value(printer, value)


def _print_value(printer: Printer, value: Attribute) -> None:
    """Prints integers without `: i64` and floats without `: f64`: what is parsed is the same."""
    if isinstance(value, IntegerAttr) and value.type in (i1, i64):
        printer.print_int(value.value.data, value.type)
    elif isinstance(value, FloatAttr) and value.type == f64 and _is_decimal(value.value.data):
        printer.print_float(value.value.data, f64)
    elif isinstance(value, ArrayAttr):
        with printer.in_square_brackets():
            printer.print_list(value.data, lambda item: _print_value(printer, item))
    else:
        printer.print_attribute(value)


def _is_decimal(value: float) -> bool:
    """True if xDSL prints `value` with a decimal point; else it prints bits, which need a type."""
    return isfinite(value) and ("." in f"{value:.17g}" or float(f"{value:.5e}") == value)


Torch = Dialect("torch", [AtenOp], [])

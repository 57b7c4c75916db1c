"""
What a program returns to its user, as `@main` says it.

```
func.func @main(%x: tensor<3x4xf32>, %c: tensor<1xf32>)
    -> (tensor<1xf32> {dlc.mutates = 1 : i64}, tensor<3xf32>)
    attributes {dlc.outputs = [
      {path = "0", result = 1 : i64},
      {path = "1.new", argument = 1 : i64},
      {path = "1.old", constant = "None"},
      {path = "1.rows", constant = 3 : i64},
      {path = "2", argument = 0 : i64, shape = array<i64: 4, 3>, strides = array<i64: 1, 4>,
       offset = 0 : i64},
      {path = "3", number, result = 0 : i64}]}
```

Output 0 is a result of `@main`, the next one an argument itself, after the program has written to
it (`dlc.mutates`), then come what is no tensor, a view of an argument's memory, and last a number
of Python: the one element of a result. A view that is returned twice is one object: the second
entry has `same`, the number of the first. `path` is the place in the user's own structure; offsets
and strides are in elements. Without the attribute the outputs are the results of `@main` that
mutate no argument, in order.

Complex tensors are pairs of reals in `@main`, along a last dimension of two: `dlc.dtype` of such an
argument or result is complex, and views of its memory are views of the pairs.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute

from dlc.diagnostics import fail
from dlc.dialects.layouts import shape_of
from dlc.dialects.size import number_attribute, numbers_attribute
from dlc.ir.leaves import Constant, Leaf, Output, View
from dlc.ir.sizes import Size

OUTPUTS = "dlc.outputs"
MUTATES = "dlc.mutates"
DTYPE = "dlc.dtype"
NUMBER = "number"
SAME = "same"


def is_complex(attributes: Mapping[str, Attribute]) -> bool:
    """True if an argument or result of `@main` with these attributes is complex to the user."""
    dtype = attributes.get(DTYPE)
    return isinstance(dtype, StringAttr) and dtype.data.startswith("complex")


def plain_outputs(mutated: Sequence[int | None], pairs: Container[int] = ()) -> list[Leaf]:
    """
    The outputs where the user gets just the results that mutate no argument, in order; `pairs` are
    those that are complex to the user.
    """
    own = [n for n, argument in enumerate(mutated) if argument is None]
    return [
        Output(str(place), "result", number, is_complex=number in pairs)
        for place, number in enumerate(own)
    ]


def attribute_of(outputs: Sequence[Leaf]) -> ArrayAttr[DictionaryAttr]:
    """`dlc.outputs`."""
    return ArrayAttr([DictionaryAttr(_fields(leaf)) for leaf in outputs])


def _fields(leaf: Leaf) -> dict[str, Attribute]:
    fields: dict[str, Attribute] = {"path": StringAttr(leaf.path)}
    if isinstance(leaf, Constant):
        return fields | {"constant": _said(leaf.value)}
    fields[leaf.of] = IntegerAttr(leaf.number, i64)
    if leaf.is_number:
        fields[NUMBER] = UnitAttr()
    if leaf.same is not None:
        fields[SAME] = IntegerAttr(leaf.same, i64)
    if (view := leaf.view) is not None:
        fields["shape"] = numbers_attribute(view.shape)
        fields["strides"] = numbers_attribute(view.strides)
        fields["offset"] = number_attribute(view.offset)
    return fields


def _said(value: object) -> Attribute:
    """A constant: a whole number, a size, or the text of what else it is."""
    if isinstance(value, Size | int) and not isinstance(value, bool):
        return number_attribute(value)
    return StringAttr(repr(value))


def mutated_by(main: func.FuncOp) -> list[int | None]:
    """For each result of `@main` the argument that it is written back to, if there is one."""
    stated = [a.get(MUTATES) for a in _result_attributes(main)]
    numbers = [a.value.data if isinstance(a, IntegerAttr) else None for a in stated]
    for number in numbers:
        _check(main, number, len(main.body.block.args), f"{MUTATES} to be an argument of @main")
    return numbers


def _result_attributes(main: func.FuncOp) -> list[Mapping[str, Attribute]]:
    count = len(main.function_type.outputs.data)
    return [{}] * count if main.res_attrs is None else [a.data for a in main.res_attrs.data]


def _argument_attributes(main: func.FuncOp) -> list[Mapping[str, Attribute]]:
    count = len(main.body.block.args)
    return [{}] * count if main.arg_attrs is None else [a.data for a in main.arg_attrs.data]


def outputs_of(main: func.FuncOp) -> list[Leaf]:
    """The user's outputs; OpError where the attribute names what is not there."""
    stated = main.attributes.get(OUTPUTS)
    if stated is None:
        pairs = [n for n, a in enumerate(_result_attributes(main)) if is_complex(a)]
        return plain_outputs(mutated_by(main), pairs)
    if not isinstance(stated, ArrayAttr):
        fail(main, f"expected {OUTPUTS} to be a list, found {stated}")
    leaves = [_leaf(main, entry) for entry in stated]
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, Output) and leaf.same is not None and not 0 <= leaf.same < number:
            fail(main, f"expected `{SAME}` of {OUTPUTS} to be an output before, found {leaf.same}")
    return leaves


def _leaf(main: func.FuncOp, entry: Attribute) -> Leaf:
    fields = entry.data if isinstance(entry, DictionaryAttr) else {}
    match fields:
        case {"path": StringAttr(data=path), "constant": StringAttr(data=text)}:
            return Constant(path, _value(text))
        case {"path": StringAttr(data=path), "constant": IntegerAttr(value=number)}:
            return Constant(path, number.data)
        case {"path": StringAttr(data=path), "result": IntegerAttr() as number}:
            whole = Output(path, "result", number.value.data)
            return _output(main, fields, whole, _result_attributes(main))
        case {"path": StringAttr(data=path), "argument": IntegerAttr() as number}:
            whole = Output(path, "argument", number.value.data)
            return _output(main, fields, whole, _argument_attributes(main))
        case _:
            fail(
                main,
                f"expected an entry of {OUTPUTS} with a path, and a result, an argument or a "
                f"constant, found {entry}",
            )


def _output(
    main: func.FuncOp,
    fields: Mapping[str, Attribute],
    whole: Output,
    attributes: Sequence[Mapping[str, Attribute]],
) -> Output:
    _check(main, whole.number, len(attributes), f"{OUTPUTS} to name {whole.of}s of @main")
    marked = is_complex(attributes[whole.number])
    same = fields.get(SAME)
    first = same.value.data if isinstance(same, IntegerAttr) else None
    whole = replace(whole, is_complex=marked, is_number=NUMBER in fields, same=first)
    types = main.function_type.outputs if whole.of == "result" else main.function_type.inputs
    type = types.data[whole.number]
    if whole.is_number and prod(shape_of(type)) != (2 if marked else 1):
        fail(main, f"expected a number in {OUTPUTS} to be a tensor of one element, found {type}")
    if not fields.keys() & {"shape", "strides", "offset"}:
        return whole
    shape, strides = _numbers(fields.get("shape")), _numbers(fields.get("strides"))
    offset = fields.get("offset")
    if not isinstance(offset, IntegerAttr) or shape is None or len(shape) != len(strides or ()):
        fail(main, f"expected a view in {OUTPUTS} to have a shape, strides and an offset")
    view = View(shape, strides or (), offset.value.data)
    if min((offset.value.data, *shape, *(strides or ()))) < 0:
        fail(main, f"expected no negative numbers in a view of {OUTPUTS}, found {view}")
    return replace(whole, view=view)


def _numbers(attribute: Attribute | None) -> tuple[int, ...] | None:
    if not isinstance(attribute, DenseArrayBase):
        return None
    return tuple(int(n) for n in attribute.get_values())


def _check(main: func.FuncOp, number: int | None, count: int, expected: str) -> None:
    if number is not None and not 0 <= number < count:
        fail(main, f"expected {expected}, of which there are {count}, found {number}")


def _value(text: str) -> object:
    """The value that a constant's text means; the text itself where it means none."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return float(text) if text.lstrip("-") in ("inf", "nan") else text

"""`@main` of a module of any IR, and what it says of its arguments and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, StringAttr
from xdsl.ir import Attribute, BlockArgument, SSAValue

from dlc.diagnostics import did_you_mean, fail


def main_of(module: ModuleOp) -> func.FuncOp:
    """The function `@main` of a module; OpError if there is none with a body."""
    for op in module.ops:
        if isinstance(op, func.FuncOp) and op.sym_name.data == "main" and op.body.blocks:
            return op
    names = [op.sym_name.data for op in module.ops if isinstance(op, func.FuncOp)]
    fail(module, "expected a function @main, found none", did_you_mean("main", names, "@"))


def attributes_of(main: func.FuncOp) -> Sequence[Mapping[str, Attribute]]:
    """The attributes of each argument of `@main`."""
    if main.arg_attrs is None:
        return [{}] * len(main.body.block.args)
    return [attributes.data for attributes in main.arg_attrs.data]


def attributes_of_results(main: func.FuncOp) -> Sequence[Mapping[str, Attribute]]:
    """The attributes of each result of `@main`."""
    if main.res_attrs is None:
        return [{}] * len(main.function_type.outputs.data)
    return [attributes.data for attributes in main.res_attrs.data]


def kind_in(attributes: Mapping[str, Attribute]) -> str:
    """What an argument of `@main` is to the user's program, an input where nothing is said."""
    kind = attributes.get("dlc.kind")
    return kind.data if isinstance(kind, StringAttr) else "input"


def is_parameter(value: SSAValue) -> bool:
    """True if a value is an argument of a function that is a parameter of the user's program."""
    if not isinstance(value, BlockArgument):
        return False
    main = value.owner.parent_op()
    return (
        isinstance(main, func.FuncOp) and kind_in(attributes_of(main)[value.index]) == "parameter"
    )


def bounds_in(attributes: Mapping[str, Attribute], main: func.FuncOp) -> tuple[int, ...] | None:
    """
    The least and the largest element that an argument of `@main` may have, if that is said, and
    others that it may have beside those.
    """
    stated = attributes.get("dlc.bounds")
    if stated is None:
        return None
    if not isinstance(stated, DenseArrayBase) or len(stated) < 2:
        fail(main, f"expected dlc.bounds to be the least and the largest index, found {stated}")
    return tuple(map(int, stated.get_values()))

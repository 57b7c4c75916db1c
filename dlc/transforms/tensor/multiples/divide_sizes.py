"""Sizes that are multiples become names of their quotients: `s` becomes `s_by_4 * 4`."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import AnyFloat, IntegerAttr, ModuleOp, StringAttr, TensorType, i64

from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of
from dlc.dialects.size import FactOp, SymbolOp, ValueOp
from dlc.dialects.size_binding import Binding
from dlc.ir.sizes import Size
from dlc.target import WIDEST_ACCESS
from dlc.transforms.tensor.specialize import bind_fact, bind_value


def divisors(module: ModuleOp, sizes: Mapping[str, int]) -> dict[str, int]:
    """
    By what it pays to divide sizes of a program in Torch IR: as many elements as an access takes,
    for names in the lengths of rows whose number is a multiple. Then each row begins at one.
    """
    names: set[str] = set()
    widths: set[int] = set()
    for op in module.walk():
        blocks = [block for region in op.regions for block in region.blocks]
        for value in (*op.results, *(arg for block in blocks for arg in block.args)):
            type = value.type
            if isinstance(type, TensorType) and isinstance(type.element_type, AnyFloat):
                widths.add(element_bytes(type.element_type))
                if type.get_num_dims() > 1:
                    names.update(Size.of(shape_of(type)[-1]).names)
    by = WIDEST_ACCESS // min(widths, default=WIDEST_ACCESS)
    return {name: by for name in sizes if name in names and sizes[name] % by == 0}


def divide_sizes(module: ModuleOp, by: Mapping[str, int]) -> None:
    """
    Writes `s_by_4 * 4` in the place of `s` in a module of Torch IR, for each name and divisor, in
    place. Afterwards it is the program for multiples alone.
    """
    values = {name: Size.of(divided(name, by)) * number for name, number in by.items()}
    bind = Binding(values)
    for op in [*module.walk()]:
        match op:
            case SymbolOp() if (number := by.get(op.sym_name.data)) is not None:
                _divide(op, divided(op.sym_name.data, by), number)
            case FactOp():
                bind_fact(op, values, {})
            case ValueOp():
                bind_value(op, values)
            case _:
                bind.operation(op)


def divided(name: str, by: Mapping[str, int]) -> str:
    """The name that stands for a size: its own where it is not divided."""
    return f"{name}_by_{by[name]}" if name in by else name


def _divide(op: SymbolOp, name: str, by: int) -> None:
    """Makes a declaration one of a quotient."""
    symbol = op.symbol
    op.sym_name = StringAttr(name)
    op.least = IntegerAttr(-(-symbol.least // by), i64)
    op.most = None if symbol.most is None else IntegerAttr(symbol.most // by, i64)
    op.hint = None if symbol.hint is None else IntegerAttr(symbol.hint // by, i64)

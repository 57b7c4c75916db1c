"""The rows of what a user of a program gets, told from `@main`."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp

from dlc.cli.result_rows import Row
from dlc.dialects.main_function import attributes_of
from dlc.dialects.user_outputs import mutated_by, outputs_of
from dlc.ir.leaves import Constant, Output


def rows_of(main: FuncOp) -> list[Row]:
    """The leaves in order, then the arguments that are written to."""
    names = [
        stated.data if isinstance(stated := attributes.get("dlc.name"), StringAttr) else f"%{n}"
        for n, attributes in enumerate(attributes_of(main))
    ]
    rows: list[Row] = []
    first: dict[tuple[str, int], int] = {}
    for number, leaf in enumerate(outputs_of(main)):
        if isinstance(leaf, Constant):
            rows.append(Row(str(number), repr(leaf.value), None))
            continue
        place = first.setdefault((leaf.of, leaf.number), number)
        what = "" if place == number else f"result {place}"
        if leaf.is_number:
            what = "number"
        if leaf.of == "argument":
            what = names[leaf.number]
        if what and leaf.view is not None:
            what = f"view of {what}"
        rows.append(Row(str(number), what, leaf))
    for argument in mutated_by(main):
        if argument is not None:
            name = names[argument]
            rows.append(Row(name, "written", Output(name, "argument", argument)))
    return rows

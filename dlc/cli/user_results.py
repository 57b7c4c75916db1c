"""What a user of a program gets: its results, views and mutated arguments, told from `@main`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp

from dlc.dialects.main_function import attributes_of
from dlc.dialects.user_outputs import Constant, Output, mutated_by, outputs_of


@dataclass(frozen=True)
class Row:
    """A leaf of the user's output, by its number, or what is left in an argument, by its name."""

    label: str
    what: str
    """What it is beside a tensor of its own."""
    of: Output | None
    """Where its tensor is; None if it is none."""


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


def tensors_of(
    main: FuncOp,
    rows: Sequence[Row],
    results: Sequence[torch.Tensor],
    arguments: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """The tensors of the rows that have one, for the results of `@main`; no argument changes."""
    left = list(arguments)
    for argument, result in zip(mutated_by(main), results, strict=True):
        if argument is not None:
            given = arguments[argument]
            dtype = result.dtype if result.element_size() != given.element_size() else given.dtype
            left[argument] = torch.empty_strided(
                given.shape, given.stride(), dtype=dtype, device=given.device
            ).copy_(result.view(dtype))
    return [row.of.tensor(results, left) for row in rows if row.of is not None]

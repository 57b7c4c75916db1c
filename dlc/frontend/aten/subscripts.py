"""
Subscripts that hold integers in tensors without dimensions: `cache[:, n] = row`, `x[0, n]`.

They choose one element of a dimension, as numbers do. PyTorch takes the number out of the tensor,
so that an exported graph selects at a number that depends on data; what is selected is a view until
the graph is functional. `at_tensors` then makes an index of it.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.fx import Graph, Node

INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)
MASKS = (torch.bool, torch.uint8)
WHOLE = slice(None)


def get_item(input: Tensor, index: Any) -> Any:
    """x[i], where PyTorch knows no number in a tensor beside other tensors."""
    found = selected(input, index)
    return torch.Tensor.__getitem__(*((input, index) if found is None else found))


def set_item(input: Tensor, index: Any, value: Any) -> None:
    """x[i] = value, where PyTorch asks which number is in a tensor."""
    found = selected(input, index)
    torch.Tensor.__setitem__(*((input, index) if found is None else found), value)


def selected(input: Tensor, index: Any) -> tuple[Tensor, tuple[Any, ...]] | None:
    """
    A view by the numbers, the slices and the integers in tensors of a subscript, and a subscript of
    that by its other tensors; None if no integer is in a tensor without dimensions.
    """
    parts = index if isinstance(index, tuple) else (index,)
    known = all(
        part is None
        or part is Ellipsis
        or type(part) is int
        or isinstance(part, slice | Tensor | list)
        for part in parts
    )
    if not known or not any(map(_is_number, parts)):
        return None
    view: Any = input
    rest: list[Any] = []
    numbers: list[tuple[int, Tensor]] = []
    dim = 0
    for part in parts:
        if isinstance(part, int):
            view = view.select(dim, part)
            continue
        if part is Ellipsis:
            kept = [WHOLE] * (input.dim() - sum(map(_dimensions, parts)))
        elif isinstance(part, Tensor | list):
            if _is_number(part):
                numbers.append((dim, part))
            kept = [part]
        else:  # a slice, or None
            view, kept = view[(*[WHOLE] * dim, part)], [WHOLE]
        dim += sum(max(1, _dimensions(item)) for item in kept)
        rest += kept
    for dim, number in reversed(numbers):
        view = view.select(dim, number.item())
    return view, tuple(part for part in rest if not _is_number(part))


def _is_number(part: object) -> TypeGuard[Tensor]:
    return isinstance(part, Tensor) and not part.dim() and part.dtype in INTEGERS


def _dimensions(part: object) -> int:
    """How many dimensions of a tensor a part of a subscript is for."""
    if isinstance(part, Tensor) and part.dtype in MASKS:
        return part.dim()
    return 0 if part is None or part is Ellipsis else 1


aten = torch.ops.aten
NUMBER = (aten.item.default, aten._local_scalar_dense.default)
SELECT, SELECT_SCATTER = aten.select.int, aten.select_scatter.default


def at_tensors(graph: Graph) -> None:
    """
    Makes `index` and `index_put` of the selections of a functional graph whose place is a number
    from a tensor. Numbers that something else is computed with stay.
    """
    for node in [n for n in graph.nodes if n.target is aten.sym_storage_offset.default]:
        _forget(graph, node)
    for number in [n for n in graph.nodes if n.op == "call_function" and n.target in NUMBER]:
        users = list(number.users)
        selects = all(user.target in (SELECT, SELECT_SCATTER) for user in users)
        if not selects or number.args[0].meta["val"].dtype not in INTEGERS:
            continue
        place = _as_index(graph, number)
        for user in users:
            _at_tensor(graph, user, place)
        graph.erase_node(number)


def _as_index(graph: Graph, number: Node) -> Node:
    """The tensor that a number is taken out of, without dimensions and of 32 bits or more."""
    (place,) = number.args
    assert isinstance(place, Node)
    with graph.inserting_before(number):
        if place.meta["val"].dim():
            meta = {**place.meta, "val": place.meta["val"].reshape([])}
            place = graph.call_function(aten.reshape.default, (place, []))
            place.meta = meta
        if (narrow := place.meta["val"]).dtype.itemsize < 4:
            meta = {**place.meta, "val": narrow.long()}
            place = graph.call_function(aten._to_copy.default, (place,), {"dtype": torch.int64})
            place.meta = meta
    return place


def _forget(graph: Graph, node: Node) -> None:
    """Erases a number and what is computed of it alone, if it is for assertions only."""
    found = [node]
    for one in found:
        found += [user for user in one.users if user not in found]
    ends = [n for n in found if not n.users]
    if all(n.target is aten._assert_scalar.default for n in ends if n is not node):
        for one in sorted(found, reverse=True):
            graph.erase_node(one)


def _at_tensor(graph: Graph, user: Node, place: Node) -> None:
    """Replaces a selection by one at the integer that a tensor holds."""
    value, *scattered, dim, _ = user.args
    assert isinstance(value, Node)
    assert isinstance(dim, int)
    at = [None] * (dim % value.meta["val"].dim()) + [place]
    op = aten.index_put.default if scattered else aten.index.Tensor
    with graph.inserting_before(user):
        new = graph.call_function(op, (value, at, *scattered))
    new.meta = user.meta
    user.replace_all_uses_with(new, propagate_meta=False)
    graph.erase_node(user)

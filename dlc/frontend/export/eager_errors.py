"""
What eager PyTorch refuses for the values or for want of them, which an export does not ask.

`x.max()` of nothing, `i // 0`, a product of f32 and f64 and a half that is filled with 1e5 trace as
well as any call. They raise here, when the program is compiled, what they raise in eager PyTorch on
a CPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from functools import cache
from math import isfinite, prod
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils._pytree import tree_map_only

from dlc.frontend.aten.overloads import bind_arguments
from dlc.frontend.aten.taken_apart import overload_name
from dlc.frontend.source import ImportFailure, Place, place_of


class EmptyError(ImportFailure, RuntimeError):
    """An operation has no result for a tensor without elements."""


class EmptyIndexError(ImportFailure, IndexError):
    """The same where PyTorch calls it an error of a dimension."""


class EmptyInExport(ImportFailure, IndexError, RuntimeError):
    """The same, raised by an export, which does not say which of the two eager PyTorch raises."""


class DivisionByZero(ImportFailure, RuntimeError, ZeroDivisionError):
    """Integers are divided by a constant that is zero."""


class MixedTypes(ImportFailure, RuntimeError):
    """An operation does not take tensors of these dtypes together."""


class TooLarge(ImportFailure, RuntimeError):
    """An operation does not convert a number to the dtype of its tensors."""


@cache
def _as(kind: type[Exception]) -> type[ImportFailure]:
    """The class of failures that `except kind` takes, too."""
    return type(f"Traced{kind.__name__}", (ImportFailure, kind), {"__module__": __name__})


RAISED = (IndexError, ZeroDivisionError, ValueError, TypeError, RuntimeError)
"""Errors of a program that stay what they are when an export raises them."""


def as_raised(error: Exception, message: str, place: Place | None) -> ImportFailure:
    """
    A failure that `except` takes for what an export has raised, or what eager PyTorch raises for
    reductions of nothing.
    """
    if re.search("zero-size dimension|Expected reduction dim|kthvalue.*out of range", str(error)):
        return EmptyInExport(message, place)
    kind = next((kind for kind in RAISED if isinstance(error, kind)), None)
    return ImportFailure(message, place) if kind is None else _as(kind)(message, place)


BESIDE_ALL = frozenset((torch.bool, torch.int64))
"""Dtypes of masks and indices, which operations take beside others."""
OF_TYPES = r"(?i)\bd?types?\b|promot|expected (Double|Float|Half|BFloat16|Long|a long tensor)"
BOOLEAN = r"(?i)\bbool"
SMALL = 4096
"""Elements of a tensor that an operation may write to where its dtypes are tried."""
FEW = 2
"""Places along a dimension that stand for many: of one element, eager PyTorch asks less."""
DIVISIONS = frozenset(("div", "floor_divide", "fmod", "remainder"))


def check_eager(node: Node, arguments: dict[str, Any], place: Place | None) -> None:
    """Raises what eager PyTorch does for an ATen call with these arguments, by name."""
    name = str(node.target).removeprefix("aten.")
    result = node.meta.get("val")
    if name.partition(".")[0] in DIVISIONS and isinstance(result, torch.Tensor):
        integral = not (result.is_floating_point() or result.is_complex()) and result.numel() > 0
        other, wraps = arguments["other"], 2 ** (8 * result.dtype.itemsize)
        if integral and not isinstance(other, Node) and other % wraps == 0:
            raise DivisionByZero(f"{name}: expected integers to be divided by other than 0", place)
    values = [n.meta.get("val") for n in node.all_input_nodes]
    tensors = [v for v in values if isinstance(v, torch.Tensor) or not _is_of_sizes(v)]
    _check_types(node, name, tensors, place)
    _check_numbers(node, name, place)
    if len(tensors) != 1 or not isinstance(tensors[0], torch.Tensor) or tensors[0].numel() > 0:
        return
    try:
        _try(node, _empty)
    except IndexError as error:
        raise EmptyIndexError(f"{name}: {error}", place) from None
    except RuntimeError as error:
        raise EmptyError(f"{name}: {error}", place) from None


def check_types(graph: Graph, whole: Container[str] | None, shown_as: Mapping[str, str]) -> None:
    """
    MixedTypes for an operation of an exported graph that is not in `whole`: what it is taken apart
    into would promote dtypes that eager PyTorch does not take together. TooLarge for its numbers.
    """
    for node in graph.nodes:
        name = overload_name(node.target)
        if name and whole is not None and name not in whole:
            tensors = [n.meta.get("val") for n in node.all_input_nodes]
            try:
                _check_types(node, name, tensors, None)
                _check_numbers(node, name, None)
            except (MixedTypes, TooLarge) as error:
                place = place_of(node.meta.get("stack_trace"), shown_as)
                raise type(error)(error.message, place) from None


def _check_numbers(node: Node, name: str, place: Place | None) -> None:
    """Raises what an operation does with a number that a dtype of its tensors does not hold."""
    values = [n.meta.get("val") for n in (node, *node.all_input_nodes)]
    dtypes = {value.dtype for value in values if isinstance(value, torch.Tensor)}
    arguments = bind_arguments(node)
    odd = {
        key
        for key, number in arguments.items()
        if type(number) in (int, float) and not all(_holds(dtype, number) for dtype in dtypes)
    }
    schema = node.target._schema  # pyright: ignore
    numbers = {a.name for a in schema.arguments if re.search("number|float", str(a.type))}
    if not numbers & odd:
        return
    if said := _said_of_zeros(node, "without overflow"):
        raise TooLarge(f"{name}: {said}", place)


def _holds(dtype: torch.dtype, number: float) -> bool:
    """True if a number is within the range of a dtype; infinities and NaN are floats."""
    if dtype == torch.bool:
        return True
    if dtype.is_floating_point or dtype.is_complex:
        return not isfinite(number) or abs(number) <= torch.finfo(dtype).max
    return torch.iinfo(dtype).min <= number <= torch.iinfo(dtype).max


def _check_types(node: Node, name: str, tensors: list[Any], place: Place | None) -> None:
    """
    Raises what an operation does that takes no booleans, or that is not elementwise where dtypes do
    not go together.
    """
    dtypes = {t.dtype for t in tensors if isinstance(t, torch.Tensor)}
    if dtypes == {torch.bool}:
        pattern = BOOLEAN
    elif torch.Tag.pointwise in node.target.tags:  # pyright: ignore
        return
    elif len(dtypes - BESIDE_ALL) > 1 or _has_odd_index(node):
        pattern = OF_TYPES
    else:
        return
    if said := _said_of_zeros(node, pattern):
        raise MixedTypes(f"{name}: {said}", place)


def _said_of_zeros(node: Node, pattern: str) -> str | None:
    """
    What an operation raises for zeros, if that has the pattern: for a few, or for as many as it
    takes where something else is wrong with few.
    """
    try:
        _try(node, _few, FEW)
    except Exception as error:
        if _raises(error, pattern):
            return str(error)
    else:
        return None
    try:
        _try(node, _zeros)
    except (RuntimeError, IndexError) as error:  # the latter of an index of nothing
        return str(error) if _raises(error, pattern) else None
    return None


def _raises(error: Exception, pattern: str) -> bool:
    """True for an error that says so, but for what a CPU alone does not do."""
    return not isinstance(error, NotImplementedError) and bool(re.search(pattern, str(error)))


def _try(node: Node, stand_in: Callable[[Node], Any], limit: int | None = None) -> None:
    """
    Runs an operation on what stands in for its tensors, for what it raises. Sizes among its
    arguments are at most the limit.
    """
    target: Any = node.target
    draws = torch.Tag.nondeterministic_seeded in target.tags
    given = tree_map_only(Node, stand_in, bind_arguments(node))
    if given.get("device") is not None:
        given["device"] = torch.device("cpu")
    if limit is not None:
        for name in re.findall(r"SymInt\[\d*\]\?? (\w+)", str(target._schema)):
            if name in given and given[name] is not None:
                given[name] = [min(_number(size), limit) for size in given[name]]
    with torch.no_grad(), torch.random.fork_rng(devices=(), enabled=draws):
        target(**given)


def _has_odd_index(node: Node) -> bool:
    """True for an index that is no integer, and beside one for tensors that are not of one type."""
    given = bind_arguments(node)
    values = {n: v.meta.get("val") for n, v in given.items() if isinstance(v, Node)}
    dtypes = {n: value.dtype for n, value in values.items() if isinstance(value, torch.Tensor)}
    index = dtypes.pop("index", torch.int64)
    is_odd = index not in (torch.int32, torch.int64) or len({*dtypes.values()}) > 1
    return "index" in values and is_odd


def _is_of_sizes(value: object) -> bool:
    from dlc.frontend.export.size_names import (
        is_of_sizes,  # what programs without sizes need not import
    )

    return is_of_sizes(value)


def _zeros(node: Node) -> Any:
    """Zeros, of which there is one in memory if there are many, for what a node stands for."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return value if isinstance(value, (list, tuple)) else _number(value)
    shape = tuple(map(_number, value.shape))
    if prod(shape) <= SMALL:
        return torch.zeros(shape, dtype=value.dtype, device=value.device)
    return torch.zeros((), dtype=value.dtype, device=value.device).expand(shape)


def _few(node: Node) -> Any:
    """The same of at most `FEW` along each dimension."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return _zeros(node)
    shape = [min(_number(n), FEW) for n in value.shape]
    return torch.zeros(shape, dtype=value.dtype, device=value.device)


def _empty(node: Node) -> torch.Tensor | int:
    """What a node stands for, which has no elements or is a size: of the call that is imported."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return _number(value)
    shape, strides = (tuple(map(_number, n)) for n in (value.shape, value.stride()))
    return torch.empty_strided(shape, strides, dtype=value.dtype)


def _number(size: int | torch.SymInt) -> int:
    return size if isinstance(size, int) else size.node.hint

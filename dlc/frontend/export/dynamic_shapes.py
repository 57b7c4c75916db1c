"""
Which numbers of a call may change: what `torch.export` calls `dynamic_shapes`, read and handed on.

Of what the user marks, a size of 0 or 1 and one that is out of the user's own range is left as it
is in this call, as `torch.export` takes programs for sizes of 2 and more. The others are exported
with `Dim.AUTO`, whatever the user calls them: so an export tells what it needs of a size, where a
named `Dim` would make that an error. What the user has called one is one size, and a `Dim` that the
program fixes is an error then (`dlc/frontend/export/sized_call.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.export import Dim
from torch.export.dynamic_shapes import _DimHint, _DimHintType
from torch.utils._pytree import SUPPORTED_NODES, tree_leaves, tree_map

from dlc.diagnostics import did_you_mean, with_hint
from dlc.frontend.export.size_names import LEAST
from dlc.frontend.source import ImportFailure

Mark: TypeAlias = "Dim | _DimHint"
Marks: TypeAlias = "dict[int | None, Mark]"
"""What is marked of one leaf of a call: dimensions of a tensor, or None for a number itself."""


class Tied(Dim):
    """A size that is the same wherever it is marked, and that the program may fix."""


class WrongMarks(ImportFailure):
    """`dynamic_shapes` speaks of what a call does not have."""


def marks_of(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any], shapes: Any
) -> list[Marks]:
    """For each leaf of a call what the user marks; WrongMarks where there is no such thing."""
    given: dict[str, Any] = signature.bind(*args, **kwargs).arguments
    if isinstance(shapes, Mapping):
        for name in shapes:
            if name not in given:
                error = WrongMarks(f"dynamic_shapes: the program takes no argument '{name}'")
                hint = did_you_mean(str(name), given) or f"its arguments are {', '.join(given)}"
                raise with_hint(error, hint)
        of_each = [shapes.get(name) for name in given]
    else:
        listed = isinstance(shapes, tuple | list)
        if listed and not (len(shapes) == 1 and isinstance(shapes[0], tuple | list)):
            given = _one_by_one(signature, given)
        if not listed or len(shapes) != len(given):
            raise _wrong("dynamic_shapes", f"an entry for each of {', '.join(given)}", shapes)
        of_each = [*shapes]
    pairs = zip(given.items(), of_each, strict=True)
    return [marks for (name, value), of in pairs for marks in _marks(value, of, name)]


def _one_by_one(signature: inspect.Signature, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, those of `*args` each: `args.0`."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            found |= {f"{name}.{number}": item for number, item in enumerate(value)}
        else:
            found[name] = value
    return found


def _marks(value: Any, shapes: Any, name: str) -> Iterator[Marks]:
    if isinstance(value, torch.Tensor):
        yield _of_tensor(value, shapes, name)
    elif shapes is None:
        yield from ({} for _ in tree_leaves(value))
    elif isinstance(value, Mapping) and isinstance(shapes, Mapping):
        for key, inner in value.items():
            yield from _marks(inner, shapes.get(key), f"{name}.{key}")
    elif (node := SUPPORTED_NODES.get(type(value))) is not None:
        items, _ = node.flatten_fn(value)
        if not isinstance(shapes, tuple | list) or len(shapes) != len(items):
            raise _wrong(name, f"{len(items)} entries", shapes)
        for number, (inner, of) in enumerate(zip(items, shapes, strict=True)):
            yield from _marks(inner, of, f"{name}.{number}")
    elif isinstance(value, int) and isinstance(shapes, Dim | _DimHint):
        yield {None: shapes} if _may_change(shapes, value) else {}
    else:
        raise _wrong(name, f"nothing for {value!r}", shapes)


def _of_tensor(value: torch.Tensor, shapes: Any, name: str) -> Marks:
    if isinstance(shapes, tuple | list):
        if len(shapes) != value.dim():
            raise _wrong(name, f"an entry for each of {value.dim()} dimensions", shapes)
        shapes = dict(enumerate(shapes))
    if not isinstance(shapes, Mapping | None):
        raise _wrong(name, "dimensions, as in {0: Dim.AUTO}", shapes)
    marks: Marks = {}
    for place, mark in (shapes or {}).items():
        if not isinstance(place, int) or not 0 <= place < value.dim():
            raise _wrong(name, f"one of {value.dim()} dimensions", place)
        if isinstance(mark, Dim | _DimHint) and _may_change(mark, value.shape[place]):
            marks[place] = mark
        elif not isinstance(mark, Dim | _DimHint | int | None):
            raise _wrong(name, "a Dim, Dim.AUTO, Dim.DYNAMIC, Dim.STATIC or None", mark)
    return marks


def _may_change(mark: Mark, size: int) -> bool:
    """True if a size of a call is one of several that one export may stand for."""
    if isinstance(mark, _DimHint) and mark.type is _DimHintType.STATIC:
        return False
    least, most = bounds_of(mark)
    return least <= size and (most is None or size <= most)


def bounds_of(mark: Mark) -> tuple[int, int | None]:
    """The least size that is marked, of which one export stands for all, and the largest."""
    low, high = mark.min, mark.max  # type: ignore[attr-defined]
    least = max(LEAST, int(low)) if isinstance(low, int) else LEAST
    return least, int(high) if isinstance(high, int) else None


def is_required(mark: Mark) -> bool:
    """True if the user says that a size changes, not that it may."""
    if isinstance(mark, Dim):
        return not isinstance(mark, Tied)
    return mark.type is _DimHintType.DYNAMIC


def requires(shapes: Any) -> bool:
    """True if the user says of any size that it changes."""
    if isinstance(shapes, Mapping):
        return any(map(requires, shapes.values()))
    if isinstance(shapes, tuple | list):
        return any(map(requires, shapes))
    return isinstance(shapes, Dim | _DimHint) and is_required(shapes)


def for_export(root: torch.nn.Module, args: Any, kwargs: Any, marks: Sequence[Marks]) -> Any:
    """`dynamic_shapes` of such a call of `root`, for `torch.export.export`."""
    given = inspect.signature(root.forward).bind(*args, **kwargs).arguments
    rest = iter(marks)

    def of(value: Any) -> Any:
        marked = next(rest)
        if None in marked:
            return Dim.AUTO
        return {place: _auto(mark) for place, mark in marked.items()} or None

    return tuple(tree_map(of, value) for value in given.values())


def _auto(mark: Mark) -> _DimHint:
    least, most = bounds_of(mark)
    return Dim.AUTO if (least, most) == (LEAST, None) else Dim.AUTO(min=least, max=most)


def _wrong(name: str, expected: str, found: object) -> WrongMarks:
    what = name if name == "dynamic_shapes" else f"dynamic_shapes of '{name}'"
    return WrongMarks(f"{what}: expected {expected}, found {found!r}")

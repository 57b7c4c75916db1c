"""A bound program as JSON, and back: what a run needs of it, kernels without their bodies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from dlc.backend import bound_program
from dlc.backend.bound_program import BoundProgram
from dlc.backend.kernel_image import KernelImage

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from dlc.analysis.kernel.tensor_maps import TensorMap
    from dlc.dialects.kernel import FuncOp

_CLASSES: Mapping[str, type[Any]] = {
    made.__name__: made
    for made in vars(bound_program).values()
    if isinstance(made, type) and is_dataclass(made) and made is not KernelImage
}
FACTS = (
    "name_",
    "c_name",
    "schedule",
    "target",
    "grid_size",
    "block_size",
    "shared_bytes",
    "dynamic_shared_bytes",
    "overlaps",
    "buffers",
    "parameter_types",
    "source",
    "size_values",
)
"""What is stored of a kernel, beside its tensor maps: attributes of its image."""


def program_to_json(program: BoundProgram) -> str:
    """OpError for a kernel that cannot be printed."""
    numbers = {image: number for number, image in enumerate(program.funcs)}

    def encoded(value: Any) -> Any:
        match value:
            case tuple():
                return [encoded(item) for item in value]
            case KernelImage():
                return {"kernel": numbers[value]}
            case torch.dtype():
                return {"dtype": str(value).removeprefix("torch.")}
            case _ if is_dataclass(value):
                own = [encoded(getattr(value, field.name)) for field in fields(value)]
                return {type(value).__name__: own}
            case _:
                return value

    return json.dumps({"kernels": list(map(_facts, numbers)), "program": encoded(program)})


def program_of_json(text: str, read: Callable[[], ModuleOp]) -> BoundProgram:
    """The program that was written so; `read` gives its Kernel IR when a body is asked for."""
    stored = json.loads(text)

    @cache
    def bodies() -> dict[str, FuncOp]:
        from dlc.dialects.kernel import FuncOp

        return {op.name_: op for op in read().ops if isinstance(op, FuncOp)}

    def image(facts: dict[str, Any]) -> KernelImage:
        maps = tuple((number, _map_of(fields)) for number, fields in facts["tensor_maps"])
        known = {name: _tuples(facts[name]) for name in FACTS} | {"tensor_maps": maps}
        return KernelImage.known(known, lambda: bodies()[facts["name_"]])

    images = [image(facts) for facts in stored["kernels"]]

    def decoded(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(map(decoded, value))
        if not isinstance(value, dict):
            return value
        ((name, given),) = value.items()
        match name:
            case "kernel":
                return images[given]
            case "dtype":
                return getattr(torch, given)
            case _:
                return _CLASSES[name](*map(decoded, given))

    return decoded(stored["program"])


def _facts(image: KernelImage) -> dict[str, Any]:
    maps = [(number, _fields(map)) for number, map in image.tensor_maps]
    return {name: getattr(image, name) for name in FACTS} | {"tensor_maps": maps}


def _fields(map: TensorMap) -> list[Any]:
    from dlc.ir.elements import element

    element_type, *sizes = (getattr(map, field.name) for field in fields(map))
    return [element(element_type).name, *sizes]


def _map_of(given: Sequence[Any]) -> TensorMap:
    from dlc.analysis.kernel.tensor_maps import TensorMap
    from dlc.ir.elements import ELEMENTS

    name, *sizes = given
    (row,) = (row for row in ELEMENTS if row.name == name)
    return TensorMap(row.type, *map(_tuples, sizes))


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value

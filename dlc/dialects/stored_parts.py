"""What is stored of a tensor that kernels of Loop IR make part by part, and who reads of it."""

from __future__ import annotations

from math import prod

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import LoadOpBase, StoreOpBase
from dlc.dialects.kernel_op import KernelOpBase
from dlc.ir.bounds import bounds, within

Box = tuple[tuple[int, int], ...]
"""The first place along each dimension, and the one behind the last."""


def verify_reads_of_parts(kernel: KernelOpBase) -> None:
    """Checks that a kernel loads of its inputs, where they are stored in part, what is stored."""
    for ref, tensor in zip(kernel.input_refs, kernel.inputs, strict=True):
        loads = [op for use in ref.uses if isinstance(op := use.operation, LoadOpBase)]
        if not loads or ref in kernel.updated_refs.values() or (parts := _parts(tensor)) is None:
            continue
        for load in loads:
            if not any(_is_inside(load, box) for box in _joined(parts)):
                raise VerifyException(
                    f"expected to load of %{ref.name_hint}, of which a part is stored, what is "
                    f"there, found an element that may not be"
                )


def _parts(tensor: SSAValue) -> list[Box] | None:
    """The parts that are stored of a tensor; None if that is all, or not known."""
    kernel = tensor.owner
    if not isinstance(kernel, KernelOpBase):
        return None
    number = next(n for n, result in enumerate(kernel.outputs) if result is tensor)
    output = kernel.output_refs[number]
    stores = [use.operation for use in output.uses]
    if output in kernel.updated_refs:
        input = kernel.updated_refs[output]
        before = _parts(kernel.inputs[kernel.input_refs.index(input)])
    else:
        before = list[Box]() if output in kernel.partial_refs else None
    if before is None:
        return None
    for store in stores:
        if not isinstance(store, StoreOpBase) or store.where:
            return None
        ranges = [bounds(subscript) for subscript in store.subscripts]
        before.append(tuple((int(low), int(high) + 1) for low, high in ranges))
    return before


def _joined(parts: list[Box]) -> list[Box]:
    """The box around boxes, if they fill it."""
    if not parts:
        return []
    sides = list(zip(*parts, strict=True))
    around = tuple((min(low for low, _ in s), max(high for _, high in s)) for s in sides)
    return [around] if sum(map(_volume, parts)) == _volume(around) else parts


def _volume(box: Box) -> int:
    return prod(high - low for low, high in box)


def _is_inside(load: LoadOpBase, box: Box) -> bool:
    """True if all places that a load reads are in a box."""
    sides = zip(load.subscripts, box, strict=True)
    return not any(within(at - low, high - low, load.where) for at, (low, high) in sides)

"""
`manifest.json`: an exported program as data, for a launcher of one's own.

```
format          "dlc-program"
version         3
target          the chip that the kernels are scheduled for, such as "sm_90"
kernels         [{name, file, grid, block, dynamic_shared_bytes, parameters, tensor_maps}]
                `name` is that of the function in `file`; grids and blocks are one-dimensional;
                `parameters` are C types, tensor maps first, then inputs and outputs
                tensor_maps: [{argument, offset, extents, strides, box, swizzle_bytes, dtype}]
                `argument` numbers the buffers of a launch; offset and strides are in bytes, lists
                have the innermost dimension first (cuTensorMapEncodeTiled; nothing is interleaved,
                what lies outside is zero)
buffers         [{name, kind, dtype, shape, strides, bytes}] and, of a slice, {memory, offset}
                `kind` is argument, allocation, slice, element or carried; strides are in elements;
                an allocation of dtype u8 that slices name is the workspace; addresses of
                allocations are multiples of `alignment`
alignment       bytes
steps           in order, each one of
                {zero: buffer}
                {launch: kernel, buffers: [...], ops: [...]}: `ops` are the PyTorch operations that
                the launch does, with their numbers
                {element: buffer, of: buffer, index: counter, step: bytes}: the buffer begins
                `index` times `step` bytes after the one that it is of
                {for: turns, counter, carry, body: [steps]}
                {while: flag, before: [steps], carry, body: [steps]}: until after `before` the byte
                of the buffer `flag` is 0
                {if: flag, then: [steps], else: [steps]}
                carry: {from: [buffers], names: [[names in each body]], next: [buffers],
                results: [names]}: names of a carried kind are for memory. It is that of `from` at
                first, that of `next` after each turn, all at once; `results` have the last
inputs          [{name, kind, buffer, file}], inputs of the program's call in order first; `kind` is
                input, parameter, buffer, constant or random: seed and offset of random numbers
mutations       [{name, buffer, argument, file}]: after the last step the elements of `buffer` are
                copied to the buffer `argument`, and are what the program leaves in `name`
results         the leaves of the program's output, in order: {path, buffer, shape, strides, offset,
                file} and, where it shares memory, {relation}, or where its one element is a number
                of Python to the user, {number: true}; or {path, constant} of what is no tensor.
                `path` is the place in the output's structure, `offset` in elements; it is read
                after the mutations
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dlc.backend.bound_program import (
    Allocate,
    Carry,
    For,
    If,
    Launch,
    Select,
    Slice,
    Step,
    View,
    While,
    Zero,
    flat,
)
from dlc.backend.export.plan import ExportPlan, KernelFacts
from dlc.backend.export.signature import Other, Result
from dlc.target import BUFFER_ALIGNMENT

FORMAT, VERSION = "dlc-program", 3


def manifest(plan: ExportPlan) -> dict[str, Any]:
    """See the module's text."""
    signature = plan.signature
    buffers: list[dict[str, Any]] = [
        {"name": a.buffer, "kind": "argument", **_layout(plan, a.buffer)}
        for a in signature.arguments
    ]
    buffers += [buffer for step in flat(plan.steps) for buffer in _made(step, plan)]
    return {
        "format": FORMAT,
        "version": VERSION,
        "target": plan.target,
        "alignment": BUFFER_ALIGNMENT,
        "inputs": [
            {"name": a.name, "kind": a.kind, "buffer": a.buffer, "file": a.file}
            for a in signature.arguments
        ],
        "mutations": [
            {
                "name": m.argument.name,
                "buffer": m.buffer,
                "argument": m.argument.buffer,
                "file": f"{m.argument.file}.npy",
            }
            for m in signature.mutations
        ],
        "results": [_result(result) for result in signature.results],
        "kernels": [_kernel(KernelFacts.of(func)) for func in plan.funcs],
        "buffers": buffers,
        "steps": _steps(plan.steps, plan),
    }


def _result(result: Result | Other) -> dict[str, Any]:
    if isinstance(result, Other):
        return {"path": result.path, "constant": result.value}
    said: dict[str, Any] = {"relation": result.relation} if result.relation else {}
    if result.is_number:
        said["number"] = True
    return {
        "path": result.path,
        "buffer": result.buffer,
        "shape": list(result.layout.shape),
        "strides": list(result.layout.strides),
        "offset": result.offset,
        "file": f"{result.number}.npy",
        **said,
    }


def _layout(plan: ExportPlan, buffer: str) -> dict[str, Any]:
    layout = plan.layouts[buffer]
    return {
        "dtype": plan.dtype(buffer),
        "shape": list(layout.shape),
        "strides": list(layout.strides),
        "bytes": layout.bytes,
    }


def _kernel(kernel: KernelFacts) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "file": f"kernels/{kernel.name}.cu",
        "grid": kernel.grid,
        "block": kernel.block,
        "dynamic_shared_bytes": kernel.dynamic_shared,
        "parameters": list(kernel.parameters),
        "tensor_maps": [
            {
                "argument": argument,
                "offset": map.offset,
                "extents": list(map.extents),
                "strides": list(map.strides),
                "box": list(map.box),
                "swizzle_bytes": map.swizzle_bytes,
                "dtype": str(map.element),
            }
            for argument, map in kernel.maps
        ],
    }


def _made(step: Step, plan: ExportPlan) -> Iterator[dict[str, Any]]:
    """The buffers that a step gives names."""
    if isinstance(step, For | While):
        for name in plan.all_names(sum((*step.carry.names, step.carry.results), ())):
            yield {"name": name, "kind": "carried", **_layout(plan, name)}
    if not isinstance(step, Allocate | Slice | Select):
        return
    name = plan.names[step.number]
    kinds = {Allocate: "allocation", Slice: "slice", View: "slice", Select: "element"}
    kind = kinds[type(step)]
    made = {"name": name, "kind": kind, **_layout(plan, name)}
    if isinstance(step, Slice):
        made |= {"memory": plan.names[step.memory], "offset": step.offset}
    yield made


def _steps(steps: Sequence[Step], plan: ExportPlan) -> list[dict[str, Any]]:
    found = (_step(step, plan) for step in steps)
    return [step for step in found if step is not None]


def _step(step: Step, plan: ExportPlan) -> dict[str, Any] | None:
    """A step; None for one that the list of buffers tells."""
    names = plan.names
    match step:
        case Zero():
            return {"zero": names[step.number]}
        case Launch():
            call = plan.call(step)
            return {"launch": call.kernel, "buffers": list(call.buffers), "ops": list(call.ops)}
        case Select():
            of, index = names[step.whole], names[step.index]
            return {"element": names[step.number], "of": of, "index": index, "step": step.step}
        case For():
            turns = {"for": step.count, "counter": names[step.counter]}
            return {**turns, **_carry(step.carry, plan), "body": _steps(step.body, plan)}
        case While():
            before = {"while": names[step.flag], "before": _steps(step.before, plan)}
            return {**before, **_carry(step.carry, plan), "body": _steps(step.body, plan)}
        case If():
            then, otherwise = (_steps(body, plan) for body in (step.then, step.otherwise))
            return {"if": names[step.flag], "then": then, "else": otherwise}
        case _:
            return None


def _carry(carry: Carry, plan: ExportPlan) -> dict[str, Any]:
    named = {
        "from": list(plan.all_names(carry.inits)),
        "names": [list(plan.all_names(names)) for names in carry.names],
        "next": list(plan.all_names(carry.next)),
        "results": list(plan.all_names(carry.results)),
    }
    return {"carry": named}

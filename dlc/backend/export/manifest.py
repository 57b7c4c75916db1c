"""
`manifest.json`: an exported program as data, for a launcher of one's own.

```
format          "dlc-program"
version         2
target          the chip that the kernels are scheduled for, such as "sm_90"
kernels         [{name, file, grid, block, dynamic_shared_bytes, parameters, tensor_maps}]
                `name` is that of the function in `file`; grids and blocks are one-dimensional;
                `parameters` are C types, tensor maps first, then inputs and outputs
                tensor_maps: [{argument, offset, extents, strides, box, swizzle_bytes, dtype}]
                `argument` numbers the buffers of a launch; offset and strides are in bytes, lists
                have the innermost dimension first (cuTensorMapEncodeTiled; nothing is interleaved,
                what lies outside is zero)
buffers         [{name, kind, dtype, shape, strides, bytes}] and, of a slice, {memory, offset}
                `kind` is argument, allocation or slice; strides are in elements; an allocation of
                dtype u8 that slices name is the workspace; addresses of allocations are multiples
                of `alignment`
alignment       bytes
steps           [{zero: buffer} or {launch: kernel, buffers: [...], ops: [...]}], in order; `ops`
                are the PyTorch operations that the launch does, with their numbers
inputs          [{name, kind, buffer, file}], inputs of the program's call in order first; `kind` is
                input, parameter, buffer, constant or random: seed and offset of random numbers
mutations       [{name, buffer, argument, file}]: after the last step the elements of `buffer` are
                copied to the buffer `argument`, and are what the program leaves in `name`
results         the leaves of the program's output, in order: {path, buffer, shape, strides, offset,
                file} and, where it shares memory, {relation}; or {path, constant} of what is no
                tensor. `path` is the place in the output's structure, `offset` in elements; it
                is read after the mutations
```
"""

from __future__ import annotations

from typing import Any

from dlc.backend.export.plan import Call, ExportPlan, KernelFacts
from dlc.backend.export.signature import Other, Result
from dlc.backend.host_program import Allocate, Slice, Zero
from dlc.target import BUFFER_ALIGNMENT

FORMAT, VERSION = "dlc-program", 2


def manifest(plan: ExportPlan) -> dict[str, Any]:
    """See the module's text."""
    signature = plan.signature
    buffers: list[dict[str, Any]] = [
        {"name": a.buffer, "kind": "argument", **_layout(plan, a.buffer)}
        for a in signature.arguments
    ]
    for step in plan.memory:
        if isinstance(step, Allocate):
            name = plan.names[step.number]
            buffers.append({"name": name, "kind": "allocation", **_layout(plan, name)})
        elif isinstance(step, Slice):
            where = {"memory": plan.names[step.memory], "offset": step.offset}
            name = plan.names[step.number]
            buffers.append({"name": name, "kind": "slice", **_layout(plan, name), **where})
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
        "steps": [_step(s, plan) for s in plan.steps if isinstance(s, Call | Zero)],
    }


def _result(result: Result | Other) -> dict[str, Any]:
    if isinstance(result, Other):
        return {"path": result.path, "constant": result.value}
    said = {"relation": result.relation} if result.relation else {}
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


def _step(step: Call | Zero, plan: ExportPlan) -> dict[str, Any]:
    if isinstance(step, Zero):
        return {"zero": plan.names[step.number]}
    return {"launch": step.kernel, "buffers": list(step.buffers), "ops": list(step.ops)}

"""
`manifest.json`: an exported program as data, for a launcher of one's own.

```
format          "dlc-program"
version         1
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
inputs          [{name, kind, buffer}], kind being input, parameter, buffer or constant
results         [buffer]
```
"""

from __future__ import annotations

from typing import Any

from dlc.backend.export.plan import Call, ExportPlan, KernelFacts
from dlc.backend.host_program import Allocate, Slice, Zero
from dlc.target import BUFFER_ALIGNMENT

FORMAT, VERSION = "dlc-program", 1


def manifest(plan: ExportPlan) -> dict[str, Any]:
    """See the module's text."""
    buffers: list[dict[str, Any]] = [
        {"name": a.buffer, "kind": "argument", **_layout(plan, a.buffer)} for a in plan.arguments
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
        "inputs": [{"name": a.name, "kind": a.kind, "buffer": a.buffer} for a in plan.arguments],
        "results": list(plan.results),
        "kernels": [_kernel(KernelFacts.of(func)) for func in plan.funcs],
        "buffers": buffers,
        "steps": [_step(s, plan) for s in plan.steps if isinstance(s, Call | Zero)],
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

"""`run.cpp`, `Makefile` and the host's entries: an exported program as C++ that one can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dlc.analysis.kernel.tensor_maps import TensorMap
from dlc.backend.cuda.run.nvcc import exact_arch
from dlc.backend.export.plan import Call, ExportPlan, KernelFacts, row
from dlc.backend.host_program import Allocate, Slice
from dlc.ir.elements import element

_MAKEFILE = Path(__file__).parent / "Makefile.in"
_MAIN = """\
// A program compiled by dlc: reads its arguments, launches its kernels, writes its results.
//     ./run INPUTS RESULTS [WEIGHTS.safetensors]
// Each argument is a file INPUTS/NAME.npy or INPUTS/NAME.bin (its elements in row-major order), or
// a tensor of WEIGHTS; results are RESULTS/NUMBER.npy. On a GPU after `make`, on a CPU after
// `make HOST=1`. The same as data: manifest.json.
#include "dlc_run.h"

namespace kernels {{
{kernels}
}}  // namespace kernels

int main(int argc, char** argv) {{
  exported::Program program(argc, argv);

  // arguments: name, type of elements, shape, strides in elements
{arguments}

{body}

{results}
  return 0;
}}
"""

_ENTRY = """\
// The kernel {name} for the CPU: its text, and what runs one thread of it.
#include "../kernels/{name}.cu"

extern "C" void {name}_thread(void** args) {{
  (void)args;
  {name}({values});
}}
"""


def main_text(plan: ExportPlan) -> str:
    """`run.cpp`."""
    facts = {k.name: k for k in map(KernelFacts.of, plan.funcs)}
    arguments = [
        f'  char* {a.buffer} = program.argument("{a.name}", {_shape(plan, a.buffer)});'
        for a in plan.arguments
    ]
    results = [
        f'  program.result("{n}", {name}, {_shape(plan, name)});'
        for n, name in enumerate(plan.results)
    ]
    return _MAIN.format(
        kernels="\n".join(f"DLC_KERNEL({name})" for name in facts),
        arguments="\n".join(arguments),
        body="\n".join(_steps(plan, facts)),
        results="\n".join(["  // results", *results]),
    )


def makefile(plan: ExportPlan, sources: Sequence[str]) -> str:
    """`sources` are the kernels' texts, some of which may need the chip's own instructions."""
    arch = max((exact_arch(s, plan.target) for s in sources), key=len, default=plan.target)
    names = " ".join(KernelFacts.of(func).name for func in plan.funcs)
    return _MAKEFILE.read_text().replace("@ARCH@", arch).replace("@KERNELS@", names)


def host_entry(kernel: KernelFacts) -> str:
    """`host/NAME.cpp`."""
    types = [t.replace("const __grid_constant__ ", "") for t in kernel.parameters]
    values = [f"*static_cast<{t}*>(args[{n}])" for n, t in enumerate(types)]
    return _ENTRY.format(name=kernel.name, values=", ".join(values))


def _steps(plan: ExportPlan, facts: dict[str, KernelFacts]) -> Iterator[str]:
    for step in plan.steps:
        if isinstance(step, Allocate):
            made = f"program.allocate({step.layout.bytes})"
            yield f"  char* {_buffer(plan, step)} = {made};  {_comment(plan, step)}"
        elif isinstance(step, Slice):
            made = f"{plan.names[step.memory]} + {step.offset}"
            yield f"  char* {_buffer(plan, step)} = {made};  {_comment(plan, step)}"
        elif isinstance(step, Call):
            yield from _launch(step, facts[step.kernel])
        else:
            memory = plan.names[step.number]
            yield f"  program.zero({memory}, {step.size});"


def _buffer(plan: ExportPlan, step: Allocate | Slice) -> str:
    return plan.names[step.number]


def _launch(call: Call, kernel: KernelFacts) -> Iterator[str]:
    if call.ops:
        yield f"  // {', '.join(op.partition(' ')[2] for op in call.ops)}"
    if kernel.grid == 0:
        yield f"  // {kernel.name} has no blocks: nothing is launched"
        return
    maps = [_map(call.buffers[n], m) for n, m in kernel.maps]
    sizes = f"{kernel.grid}, {kernel.block}, {kernel.dynamic_shared}"
    given = ", ".join([*maps, *call.buffers])
    yield f"  program.launch(kernels::{kernel.name}, {sizes}, {given});"


def _map(buffer: str, map: TensorMap) -> str:
    where = f"{buffer} + {map.offset}" if map.offset else buffer
    fields = ", ".join(row(values) for values in (map.extents, map.strides, map.box))
    data_type = element(map.element).tensor_map
    return (
        f"\n      exported::tensor_map({where}, DLC_DATA_TYPE({data_type}), {map.element_bytes}, "
        f"{fields}, {map.swizzle_bytes})"
    )


def _shape(plan: ExportPlan, buffer: str) -> str:
    layout = plan.layouts[buffer]
    return f'"{plan.dtype(buffer)}", {row(layout.shape)}, {row(layout.strides)}'


def _comment(plan: ExportPlan, step: Allocate | Slice) -> str:
    return f"// {plan.dtype(plan.names[step.number])}[{', '.join(map(str, step.layout.shape))}]"

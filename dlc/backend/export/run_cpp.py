"""`run.cpp`, `Makefile` and the host's entries: an exported program as C++ that one can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dlc.backend.bound_program import Layout
from dlc.backend.cuda.run.nvcc import exact_arch
from dlc.backend.export.plan import ExportPlan, KernelFacts, row
from dlc.backend.export.run_steps import steps_text
from dlc.backend.export.signature import Argument, Other
from dlc.escapes import c_comment, c_string, plain
from dlc.text import table

_MAKEFILE = Path(__file__).parent / "Makefile.in"
_MAIN = """\
// A program compiled by dlc: reads its arguments, launches its kernels, writes its results.
//     ./run INPUTS RESULTS [WEIGHTS.safetensors]
// On a GPU after `make`, on a CPU after `make HOST=1`. The same as data: manifest.json.
#include "dlc_run.h"

namespace kernels {{
{kernels}
}}  // namespace kernels

const char* const USAGE =
{usage};

int main(int argc, char** argv) {{
  exported::Program program(argc, argv, USAGE, {draws});

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

extern "C" const int {name}_cluster = {cluster};
extern "C" void {name}_thread(void** args) {{
  (void)args;
  static thread_local char anchor;
  dlc_position.static_shared = &anchor;
  ::{name}({values});
}}
"""


def main_text(plan: ExportPlan) -> str:
    """`run.cpp`."""
    facts = {k.name: k for k in map(KernelFacts.of, plan.funcs)}
    return _MAIN.format(
        kernels="\n".join(f"DLC_KERNEL({name})" for name in facts),
        draws="/*draws=*/" + ("true" if _draws(plan) else "false"),
        usage="\n".join("    " + c_string(line + "\n") for line in usage(plan)),
        arguments="\n".join(_argument(plan, a) for a in plan.signature.arguments),
        body="\n".join(steps_text(plan, facts)),
        results="\n".join(_results(plan)),
    )


def usage(plan: ExportPlan) -> list[str]:
    """What `run --help` prints: how to call it, and each tensor with its file."""
    signature = plan.signature
    given = [
        [f"INPUTS/{a.file}.npy", _shown(plan, a.buffer, a.layout), a.kind, plain(a.name)]
        for a in signature.arguments
    ]
    left = [
        [
            f"RESULTS/{a.file}.npy",
            _shown(plan, a.buffer, a.layout),
            "",
            f"{plain(a.name)} after the call",
        ]
        for a in (mutation.argument for mutation in signature.mutations)
    ]
    made = [
        [f"(result {r.number})", "", plain(r.path), plain(repr(r.value))]
        if isinstance(r, Other)
        else [
            f"RESULTS/{r.number}.npy",
            _shown(plan, r.buffer, r.layout),
            plain(r.path),
            "a number" if r.is_number else plain(r.relation),
        ]
        for r in signature.results
    ]
    return [
        *_called(plan),
        "",
        "It reads these; NAME.bin, elements in row-major order, does as well, and so does a tensor",
        "of that name in WEIGHTS:",
        "",
        *table(["file", "elements", "kind", "name"], given).split("\n"),
        "",
        "It writes the results, each with its place in the program's output, and what the program",
        "leaves in its arguments; the folder is made if there is none:",
        "",
        *table(["file", "elements", "place", "what"], [*made, *left]).split("\n"),
    ]


def _called(plan: ExportPlan) -> list[str]:
    """How to call it, and where random numbers come from."""
    files = "INPUTS RESULTS [WEIGHTS.safetensors]"
    if not _draws(plan):
        return [f"usage: run {files}"]
    return [
        f"usage: run [--seed=SEED] [--offset=OFFSET] {files}",
        "",
        "Random numbers are those of SEED from OFFSET on; with neither, what is of the kind random",
        "below is read, and holds the two.",
    ]


def _draws(plan: ExportPlan) -> bool:
    return any(argument.kind == "random" for argument in plan.signature.arguments)


def _shown(plan: ExportPlan, buffer: str, layout: Layout) -> str:
    return f"{plan.dtype(buffer)}[{', '.join(map(str, layout.shape))}]"


def _argument(plan: ExportPlan, argument: Argument) -> str:
    """The declaration of an argument; its file is named where that is not called as it is."""
    name, buffer = argument.name, argument.buffer
    file = "" if argument.file == name else f", {c_string(argument.file)}"
    if argument.kind == "random":
        return f"  char* {buffer} = program.state({c_string(name)}{file});"
    return f"  char* {buffer} = program.argument({c_string(name)}, {_shape(plan, buffer)}{file});"


def _results(plan: ExportPlan) -> Iterator[str]:
    if plan.signature.mutations:
        yield "  // what the program leaves in its arguments"
    for mutation in plan.signature.mutations:
        argument, made = mutation.argument, mutation.buffer
        there, here = row(argument.layout.strides), row(plan.layouts[made].strides)
        where = f'"{plan.dtype(made)}", {row(argument.layout.shape)}, {there}'
        if made != argument.buffer:
            yield f"  program.write_back({argument.buffer}, {where}, {made}, {here});"
        yield f"  program.result({c_string(argument.file)}, {argument.buffer}, {where});"
    yield "  // results"
    for result in plan.signature.results:
        if isinstance(result, Other):
            yield f"  // {result.number} is {c_comment(repr(result.value))}"
            continue
        size = result.layout.dtype.itemsize
        place = f"{result.buffer} + {result.offset * size}" if result.offset else result.buffer
        layout = result.layout
        shape = f'"{plan.dtype(result.buffer)}", {row(layout.shape)}, {row(layout.strides)}'
        yield f'  program.result("{result.number}", {place}, {shape});'


def makefile(plan: ExportPlan, sources: Sequence[str], *, debugged: bool = False) -> str:
    """
    `sources` are the kernels' texts, some of which may need the chip's own instructions. With
    `debugged` what is compiled knows the lines of its text.
    """
    arch = max((exact_arch(s, plan.target) for s in sources), key=len, default=plan.target)
    names = " ".join(KernelFacts.of(func).name for func in plan.funcs)
    filled = {"ARCH": arch, "KERNELS": names, "LINES": " -lineinfo" if debugged else "",
              "DEBUG": " -g" if debugged else ""}  # fmt: skip
    text = _MAKEFILE.read_text()
    for name, value in filled.items():
        text = text.replace(f"@{name}@", value)
    return text


def host_entry(kernel: KernelFacts) -> str:
    """`host/NAME.cpp`."""
    types = [t.replace("const __grid_constant__ ", "") for t in kernel.parameters]
    values = [f"*static_cast<{t}*>(args[{n}])" for n, t in enumerate(types)]
    return _ENTRY.format(name=kernel.name, cluster=kernel.cluster, values=", ".join(values))


def _shape(plan: ExportPlan, buffer: str) -> str:
    layout = plan.layouts[buffer]
    return f'"{plan.dtype(buffer)}", {row(layout.shape)}, {row(layout.strides)}'

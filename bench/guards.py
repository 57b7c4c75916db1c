"""
What sizes cost in the loops of kernels: the instructions that guard them, by nvcc.

    python bench/guards.py [--only REGEX]

Each program of bench/sizes.py is compiled for all sizes and for the first of them alone, with the
same schedules where these fit both, on sm_90; where multiples have kernels of their own, once more
for the size before it, which is none. Of each kernel the table has the loop where the time
goes (`dlc.backend.cuda.run.sass`): instructions for each multiply-add, product of matrices or other
floating-point operation in it, as rounds may be written out differently, those of the kernel for
all sizes over those of the other; a kernel without a loop is taken as a whole. Writes JSON and a
Markdown table.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from sizes import BATCHES, FAMILIES, LENGTHS, TARGET, Family, Row, made
from static_rows import update
from xdsl.dialects.builtin import ModuleOp

from dlc.backend.cuda.print.printer import print_kernel
from dlc.backend.cuda.run import sass
from dlc.backend.cuda.run.nvcc import compile_cubin
from dlc.diagnostics import OpError, TextError
from dlc.dialects import kernel, loop
from dlc.dialects.kernel_op import kernels_in
from dlc.importing import Imports
from dlc.shared_kernels import SharedKernels
from dlc.stages import Stages
from dlc.target import set_target
from dlc.transforms.tensor.multiples.divide_sizes import divisors
from dlc_bench.records import markdown_table

HEADER = ("family", "size", "kernel", "loop, all sizes", "loop, one", "a unit of work, over",
          "registers", "spilled bytes")  # fmt: skip
_OTHERS = ("FADD", "FMUL", "FSETP", "FMNMX", "FSEL", "MUFU")
WORK = (sass.TENSOR, sass.FMA, _OTHERS)
"""What a loop is for: the first of these that it has."""


def kernels_of(module: ModuleOp) -> dict[str, Row]:
    """Of the kernels of Kernel IR: the instructions of their loops, by name, and of ptxas."""
    return {func.name_: _examined(func) for func in kernels_in(module, kernel.FuncOp)}


def _examined(func: kernel.FuncOp) -> Row:
    cubin = compile_cubin(print_kernel(func), TARGET)
    functions = sass.parse(sass.disassemble(cubin.path))
    function = max(functions, key=lambda f: len(f.instructions))
    hot = function.hot_loop
    body = [i for i in function.instructions if i.runs] if hot is None else function.body(hot)
    counts = [sum(i.opcode in opcodes for i in body) for opcodes in WORK]
    kind = next((n for n, count in enumerate(counts) if count), None)
    return {
        "loop": hot is not None,
        "instructions": len(body),
        "work": 1 if kind is None else counts[kind],
        "kind": kind,
        "registers": cubin.registers,
        "spill_bytes": cubin.spill_bytes,
    }


def measure(family: Family) -> list[Row]:
    """As `measure_at` of each size that has kernels of its own kind."""
    rows = measure_at(family, LENGTHS[0])
    return rows + (measure_at(family, LENGTHS[0] - 1) if rows and rows[0]["multiples"] else [])


def measure_at(family: Family, length: int) -> list[Row]:
    """The kernels for all sizes of a program beside those for one of them, of one schedule."""
    torch.manual_seed(0)
    with torch.device("meta"), torch.no_grad():
        imports = Imports(family.function(), family.shapes)
        args = family.make(BATCHES[0], length)
        module = imports.program(args, None).module
        if (known := imports.sized_call(args, None)) is None:
            return []
        found = SharedKernels().stages(*known, "f32", made)
        multiples = bool(divisors(known[0].module, known[1]))
    if found is None:
        return []
    (stages, _), scheduled = found, {}
    for op in kernels_in(stages.module("loop"), loop.KernelOp):
        scheduled[op.name_] = "" if op.schedule is None else op.schedule.data
    several = kernels_of(stages.module("kernel"))
    try:
        alone = _alone(module.clone(), scheduled).module("kernel")
    except (OpError, TextError):  # a schedule of kernels that are merged in other ways
        alone = _alone(module, {}).module("kernel")
    one = kernels_of(alone)
    return [
        {
            "kernel": name,
            "length": length,
            "multiples": multiples,
            "sizes": several[name],
            "one": one[name],
            "ratio": _ratio(several, one, name),
        }
        for name in several
        if name in one and several[name]["kind"] == one[name]["kind"]
    ]


def _alone(module: ModuleOp, schedules: Mapping[str, str]) -> Stages:
    set_target(module, TARGET, "f32")
    return Stages(module, schedules)


def _ratio(several: Mapping[str, Row], one: Mapping[str, Row], name: str) -> float:
    each = [row[name]["instructions"] / row[name]["work"] for row in (several, one)]
    return each[0] / each[1]


def cells(family: str, row: Row) -> list[str]:
    sizes, one = row["sizes"], row["one"]
    return [
        family,
        str(row["length"]),
        f"`{row['kernel']}`" + ("" if sizes["loop"] and one["loop"] else ", no loop"),
        f"{sizes['instructions']} for {sizes['work']}",
        f"{one['instructions']} for {one['work']}",
        f"{row['ratio'] - 1:+.0%}",
        f"{sizes['registers']}, {one['registers']}",
        f"{sizes['spill_bytes']}, {one['spill_bytes']}",
    ]


def markdown(record: Row) -> str:
    """The table."""
    rows = ((name, row) for name, found in record["families"].items() for row in found)
    lines = [
        f"Compiled {record['date']} for {TARGET}; instructions of the loop where the time goes, "
        "for so many multiply-adds, products of matrices or other operations.",
        "",
        *markdown_table(HEADER, (cells(name, row) for name, row in rows)),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    families = {name: partial(measure, family) for name, family in FAMILIES.items()}
    update("guards", __doc__, families, markdown, key="families")

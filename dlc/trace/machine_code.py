"""The machine code of a CUDA text, each instruction linked to the lines that it is made of."""

from __future__ import annotations

import re

from dlc.backend.cuda.run.nvcc import compile_cubin
from dlc.backend.cuda.run.sass import (
    FMA,
    INSTRUCTION,
    LABEL,
    LOCAL,
    SECTION,
    TENSOR,
    Function,
    disassemble,
    parse,
)
from dlc.target import Target
from dlc.trace.model import Pane

WIDE = f"*/{' ' * 12}"
"""Between an address and its instruction: as much is left out as leaves room for a predicate."""
_PLACE = re.compile(r'\s*//## File "[^"]*/kernel\.cu", line (\d+)')


def machine_code(cuda: Pane, target: Target) -> tuple[Pane, dict[str, dict[str, float]]]:
    """
    What nvcc makes of the text of a pane for a chip, and figures of each kernel. An instruction of
    an inlined function belongs to the line of the function and to that of the call. BackendError
    where nvcc or nvdisasm is missing or refuses the text.
    """
    text = "".join(f"{line}\n" for line in cuda.lines)
    cubin = compile_cubin(text, target.name, ["-lineinfo"])
    listing = disassemble(cubin.path, "-gi")
    return pane_of(listing), {f.name: figures_of(f) for f in parse(listing)}


def figures_of(function: Function) -> dict[str, float]:
    """What a kernel's machine code has, by names that the page shows."""
    loop = function.hot_loop
    body = [] if loop is None else function.body(loop)
    found: dict[str, float] = {"instructions": sum(i.runs for i in function.instructions)}
    if body:
        found["instructions_of_the_hottest_loop"] = len(body)
        found["multiply_adds_of_these"] = sum(i.opcode in FMA for i in body)
        found["tensor_core_instructions_of_these"] = sum(i.opcode in TENSOR for i in body)
    found["accesses_of_local_memory"] = sum(i.opcode in LOCAL for i in function.instructions)
    return found


def pane_of(listing: str) -> Pane:
    """
    The pane of what `nvdisasm -c -gi` prints: the instructions and labels of each kernel. The lines
    of the source stand before the first instruction that is made of them.
    """
    lines: list[str] = []
    links: list[list[int]] = []
    begins: dict[str, int] = {}
    made_of: set[int] = set()
    is_told = False
    for line in listing.splitlines():
        if section := SECTION.match(line):
            begins[section[1]] = len(lines)
            made_of = set()
        elif line.lstrip().startswith("//## File"):
            made_of = made_of if is_told else set()
            if place := _PLACE.match(line):
                made_of.add(int(place[1]) - 1)
            is_told = True
        elif begins and (INSTRUCTION.match(line) or LABEL.match(line)):
            is_told = False
            lines.append(line.strip().replace(WIDE, "*/"))
            links.append(sorted(made_of) if INSTRUCTION.match(line) else [])
    ends = [*list(begins.values())[1:], len(lines)]
    return Pane("sass", lines, links, dict(zip(begins, zip(begins.values(), ends, strict=True))))

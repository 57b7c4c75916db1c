"""
What can be told of kernels without running them: what ptxas made of them, and the models.

    loops = estimates(module)          # of Loop IR
    ways = bank_ways(module)           # of Tile IR
    rows = [examine(row, "sm_90") for row in kernels(module, loops, ways)]   # of Kernel IR
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import prod
from typing import Any

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import SSAValue

from dlc.analysis.kernel.bank_accesses import report
from dlc.analysis.kernel.occupancy import fill, occupancy
from dlc.analysis.loop.contraction import contractions
from dlc.backend.cuda.print.interface import shared_bytes
from dlc.backend.cuda.print.printer import print_kernel
from dlc.backend.cuda.run import sass
from dlc.backend.cuda.run.nvcc import compile_cubin
from dlc.backend.cuda.run.sass_products import early_accesses
from dlc.backend.host_program import HostProgram
from dlc.dialects import kernel, loop, tile
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of
from dlc.schedule.estimate import estimate
from dlc.target import Target, get_target, target_of

Row = dict[str, Any]


def estimates(module: ModuleOp) -> dict[str, Row]:
    """Of Loop IR, by kernel: what fusion goes by, and whether it is a product."""
    target = target_of(module)
    found: dict[str, Row] = {}
    for op in module.walk():
        if isinstance(op, loop.KernelOp):
            cost = estimate(op, target)
            found[op.name_] = {
                "contraction": bool(contractions(op)),
                "flops": cost.flops,
                "memory_bytes": cost.memory_bytes,
                "estimate_us": (cost.seconds - cost.combine_seconds) * 1e6,
                "whole_us": cost.seconds * 1e6,
                "output_bytes": sum(map(_bytes, op.output_refs)),
            }
    return found


def bank_ways(module: ModuleOp) -> dict[str, dict[str, float]]:
    """Of Tile IR, by kernel: the ways of each access of shared memory that the model knows of."""
    found: dict[str, dict[str, float]] = {}
    for op in module.walk():
        if isinstance(op, tile.KernelOp):
            counts = found.setdefault(op.name_, {})
            for access in report(op):
                what = f"{'write' if access.writes else 'read'} {access.name}"
                counts[what] = max(counts.get(what, 0.0), access.ways)
    return found


def kernels(
    module: ModuleOp, known: dict[str, Row], ways: dict[str, dict[str, float]]
) -> list[Row]:
    """
    Of Kernel IR, in the order of the launches: schedule, source, launch, and what is known from
    earlier stages.
    """
    target = target_of(module)
    launched = [launch.func.func for launch in HostProgram.of(module).bind().launches]
    return [
        {
            "name": func.name_,
            "schedule": "" if func.schedule is None else func.schedule.data,
            "source": print_kernel(func),
            "ctas": func.grid_size,
            "threads": func.block_size,
            "shared_bytes": shared_bytes(func),
            **_estimate(func, known, target),
            "bank_ways": ways.get(func.name_, {}),
        }
        for func in launched
    ]


def _estimate(func: kernel.FuncOp, known: dict[str, Row], target: Target) -> Row:
    """
    That of the kernel before it was scheduled, and the bytes of the workspace that a split adds to
    its output; for the kernel that combines a split, all of its bytes once.
    """
    written = sum(map(_bytes, func.output_refs))
    nothing = {"contraction": False, "flops": 0.0, "memory_bytes": 0.0, "output_bytes": 0}
    found = known.get(func.name_, nothing | {"estimate_us": target.launch_seconds * 1e6})
    more = max(0, written - found["output_bytes"])
    if func.name_ not in known:
        more += sum(map(_bytes, func.input_refs))
    return found | {
        "memory_bytes": found["memory_bytes"] + more,
        "estimate_us": found["estimate_us"] + more / target.memory_bandwidth * 1e6,
        "output_bytes": written,
    }


def _bytes(ref: SSAValue) -> int:
    """Of the whole buffer that a kernel is given."""
    assert isinstance(ref.type, MemRefType)
    return prod(shape_of(ref)) * element_bytes(ref.type.element_type)


def examine(given: Row, target_name: str) -> Row:
    """One of `kernels` compiled: the same without its source, and what ptxas made of it."""
    target = get_target(target_name)
    cubin = compile_cubin(given["source"], target_name)
    functions = sass.parse(sass.disassemble(cubin.path))
    function = max(functions, key=lambda f: len(f.instructions))
    held = occupancy(target, given["threads"], cubin.registers, given["shared_bytes"])
    row = {name: value for name, value in given.items() if name != "source"}
    row |= {
        "source_lines": given["source"].count("\n"),
        "registers": cubin.registers,
        "spill_bytes": cubin.spill_bytes,
        "serialized": cubin.serialized,
        "early": sum(len(early_accesses(f)) for f in functions),
        "stack": cubin.stack,
        "ctas_per_sm": held.blocks,
        "occupancy": held.share,
        "occupancy_limit": held.limit,
        "fill": fill(target, given["ctas"]),
        "instructions": len(function.instructions),
        "accesses": _accesses(function.instructions),
        "loop": _loop(function),
    }
    predicted = given.get("estimate_us", 0.0)
    share = row["loop"]["fma_share"] if row["loop"] else 0.0
    if given.get("contraction") and share:
        issue = given["flops"] / (target.flops * share * row["fill"])
        predicted = max(predicted, (issue + target.launch_seconds) * 1e6)
    return row | {"predicted_us": predicted}


def _accesses(instructions: Iterable[sass.Instruction]) -> dict[str, int]:
    found = sass.accesses(instructions)
    return {f"{kind}.{width}" if width else kind: n for (kind, width), n in sorted(found.items())}


def _loop(function: sass.Function) -> Row | None:
    if function.hot_loop is None:
        return None
    body = function.body(function.hot_loop)
    fmas = sum(i.opcode in sass.FMA for i in body)
    read = sum(width // 8 for i in body for kind, width in [i.access or ("", 0)] if kind == "LDS")
    return {
        "depth": function.hot_loop.depth,
        "instructions": len(body),
        "fma_share": sass.fma_share(body),
        "accesses": _accesses(body),
        "shared_bytes_per_fma": read / fmas if fmas else None,
        "opcodes": dict(Counter(i.opcode for i in body).most_common(8)),
    }


def narrow(accesses: dict[str, int], kinds: Iterable[str]) -> int:
    """How many accesses of these kinds are less than 128 bits wide."""
    chosen = set(kinds)
    return sum(
        count
        for access, count in accesses.items()
        for kind, _, width in [access.partition(".")]
        if kind in chosen and width and int(width) < 128
    )


def worst_ways(row: Row) -> float:
    """The most ways of an access of shared memory; 1 is free of conflicts."""
    return max(row["bank_ways"].values(), default=1.0)

"""
How long the hazard checker takes for a product of 64 x 64 x 64 by one block with a ring of three
slots, filled by cp.async (sm_80) and by TMA (sm_90). It is to take less than 10 s.

    python bench/checker.py [--repeat 3] [--output bench/results/checker.md]

Seconds are of the CPU, the least of `repeat` runs; importing and compiling are not counted.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch
from xdsl.context import Context
from xdsl.dialects.builtin import StringAttr

from dlc.cli.check import as_array
from dlc.dialects import kernel, loop
from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts.capture import capture_text
from dlc.pipeline import run_pipeline
from dlc.registry import register
from dlc.simulator.checker import check_module
from dlc.target import set_target
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS
from dlc_bench.records import markdown_table, where_and_when

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "torch.randn(64, 64) @ torch.randn(64, 64)"
SCHEDULE = (
    "tileify,chunk-matmul-k{{bk=16 vector=4}},blockify-launch{{block=64,64 thread=8,8}},"
    "stage-inputs{{budget=24576}},register-tile{{extents=8,8}},permute-register-tile,"
    "double-buffer{{depth=3}},{copy},pad-smem,pipeline-k-outer,mark-unroll{{limit=8}}"
)
COPIES = {"sm_80": "async-copy", "sm_90": "tma-copy,split-inner-for-swizzle"}


def measure(target: str, repeat: int) -> float:
    """CPU seconds of a check; ends the benchmark if the kernel is not that one, or is not clean."""
    ctx = register(Context())
    module, args = capture_text(PROGRAM, seed=0)
    program = import_program(module, args, whole=DECOMPOSITIONS)
    set_target(program.module, target)
    run_pipeline(ctx, program.module, "loop")
    (nest,) = (op for op in program.module.walk() if isinstance(op, loop.KernelOp))
    nest.properties["schedule"] = StringAttr(SCHEDULE.format(copy=COPIES[target]))
    run_pipeline(ctx, program.module, "kernel")
    (func,) = (op for op in program.module.walk() if isinstance(op, kernel.FuncOp))
    if func.grid_size != 1 or "memref<3x" not in str(func):
        sys.exit(f"expected one block with rings of three slots, found\n{func}")
    inputs = [as_array(t.detach()) for t in program.bind(args)]
    seconds: list[float] = []
    for _ in range(repeat):
        begin = time.process_time()
        (verdict,) = check_module(program.module, inputs)
        seconds.append(time.process_time() - begin)
        if verdict.answer != "clean":
            sys.exit("\n".join(map(str, verdict.hazards)))
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "results" / "checker.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [
        [f"{copy.split(',')[0]}, {target}", f"{measure(target, options.repeat):.2f}"]
        for target, copy in COPIES.items()
    ]
    lines = [
        "Measured {date} on {machine}: a product of 64 x 64 x 64, checked.".format(
            **where_and_when()
        ),
        "",
        *markdown_table(["ring of three slots, filled by", "CPU seconds"], rows),
    ]
    text = "\n".join(lines) + "\n"
    options.output.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()

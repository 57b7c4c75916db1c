"""
What it takes to compile convolutional networks, and how far from the roofline they are.

    python bench/networks.py [--only REGEX]

Each network is imported without data and compiled for sm_90 up to CUDA text, by the only thread of
this process; seconds are of its processor, so that other work on the machine counts little. nvcc is
not run. Writes JSON and a Markdown table.
"""

from __future__ import annotations

import gc
import time
from functools import partial

import torch
from kernel_rows import Row, loop_kernels, summary
from static_rows import update

from dlc.backend.cuda.print.printer import print_module
from dlc.frontend.export.fx import import_program
from dlc.passes import Stage
from dlc.pipeline import run_pipeline
from dlc.stages import compiler_context
from dlc.target import set_target
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS
from dlc_bench.convnets import NETWORKS
from dlc_bench.records import markdown_table
from dlc_bench.work import compulsory_bytes, product_flops

TARGET = "sm_90"
BATCH = 8
STAGES: tuple[Stage, ...] = ("loop", "kernel")
HEADER = ("network", "kernels", "launches", "import", "to schedules", "to Kernel IR", "printing",
          "in all", "text", "estimate", "times the roofline")  # fmt: skip


def measure(name: str) -> Row:
    """Seconds of each part, kernels, launches, KiB of text, and the estimate of a network."""
    seconds: list[float] = []

    def tick(begin: float) -> float:
        now = time.process_time()
        seconds.append(now - begin)
        return now

    with torch.device("meta"):
        network = NETWORKS[name]().eval().requires_grad_(False)
        images = torch.randn(BATCH, 3, 224, 224)
    gc.freeze()  # as `dlc compile` does
    now = time.process_time()
    program = import_program(network, (images,), whole=DECOMPOSITIONS)
    now = tick(now)
    module = program.module
    flops = product_flops(module)
    size = compulsory_bytes(module, program.bind((images,), {}))
    set_target(module, TARGET)
    rows: list[Row] = []
    for stage in STAGES:
        run_pipeline(compiler_context(), module, stage)
        tick(now)
        rows = rows or loop_kernels(module)
        now = time.process_time()  # what the table asks of kernels is no compiling
    text = print_module(module)
    tick(now)
    return summary(rows, flops, size, TARGET) | {
        "kernels": text.count("__global__"),
        "seconds": seconds,
        "text_kib": len(text) / 1024,
    }


def cells(name: str, row: Row) -> list[str]:
    return [
        name,
        str(row["kernels"]),
        str(row["launches"]),
        *(f"{part:.1f} s" for part in (*row["seconds"], sum(row["seconds"]))),
        f"{row['text_kib']:.0f} KiB",
        f"{row['estimate_us']:.0f} us",
        f"{row['times_roofline']:.2f}",
    ]


def markdown(record: Row) -> str:
    """The table."""
    lines = [
        f"Measured {record['date']} on {record['machine']}; {BATCH} images of 224 x 224, {TARGET}.",
        "",
        *markdown_table(HEADER, (cells(name, row) for name, row in record["networks"].items())),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    networks = {name: partial(measure, name) for name in NETWORKS}
    update("networks", __doc__, networks, markdown, key="networks")

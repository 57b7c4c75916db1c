"""
What it takes to compile convolutional networks, and how far from the roofline they are.

    python bench/networks.py [--batch 8] [--only REGEX] [--output bench/results/networks]

Each network is imported without data and compiled for sm_90 up to CUDA text, by the only thread of
this process; seconds are of its processor, so that other work on the machine counts little. nvcc is
not run. Writes JSON and a Markdown table.
"""

from __future__ import annotations

import argparse
import gc
import re
import sys
import time
from pathlib import Path

import torch
from kernel_rows import Row, loop_kernels, summary

from dlc.backend.cuda.print.printer import print_module
from dlc.frontend.export.fx import import_program
from dlc.passes import Stage
from dlc.pipeline import run_pipeline
from dlc.stages import compiler_context
from dlc.target import set_target
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS
from dlc_bench.convnets import NETWORKS
from dlc_bench.records import markdown_table, where_and_when, write_record
from dlc_bench.work import compulsory_bytes, product_flops

ROOT = Path(__file__).resolve().parent.parent
TARGET = "sm_90"
STAGES: tuple[Stage, ...] = ("loop", "kernel")
HEADER = ("network", "kernels", "launches", "import", "to schedules", "to Kernel IR", "printing",
          "in all", "text", "estimate", "times the roofline")  # fmt: skip


def measure(name: str, batch: int) -> Row:
    """Seconds of each part, kernels, launches, KiB of text, and the estimate of a network."""
    seconds: list[float] = []

    def tick(begin: float) -> float:
        now = time.process_time()
        seconds.append(now - begin)
        return now

    with torch.device("meta"):
        network = NETWORKS[name]().eval().requires_grad_(False)
        images = torch.randn(batch, 3, 224, 224)
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
        now = tick(now)
        rows = rows or loop_kernels(module)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--only", default="")
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "results" / "networks")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, Row] = {}
    for name in filter(re.compile(options.only).search, NETWORKS):
        print(name, file=sys.stderr, flush=True)
        rows[name] = measure(name, options.batch)
    record = {**where_and_when(), "batch": options.batch}
    lines = [
        f"Measured {record['date']} on {record['machine']}; {options.batch} images of 224 x 224, "
        f"{TARGET}.",
        "",
        *markdown_table(HEADER, (cells(name, row) for name, row in rows.items())),
    ]
    write_record(options.output, {**record, "networks": rows}, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
